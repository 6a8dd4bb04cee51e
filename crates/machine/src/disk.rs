//! Requests to block devices: the blocks that the engine asks a device to read or write, and the results of requests.

use crate::{DeviceId, FrameNumber};
use std::fmt;

/// The direction of a block request: read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// A transfer from the device into frames.
    Read,
    /// A transfer from frames to the device.
    Write,
}

/// A block request: consecutive blocks of one device, and the frames into which they are read or from which they are
/// written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The device that reads or writes the blocks.
    pub device: DeviceId,
    /// The direction: read or write.
    pub operation: Operation,
    /// First block, in units of [`crate::BLOCK_BYTES`].
    pub block: u64,
    /// A frame for each block, in block order; never empty.
    pub frames: Vec<FrameNumber>,
    /// `true` if a task waits for the request: every read, and writes of `sync`. I/O schedulers (elevators) treat a
    /// request for which no task waits as background work.
    pub is_sync: bool,
}

/// The reason why a block request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoError {
    /// The device reported an error.
    Device,
    /// The device has no free blocks.
    NoSpace,
    /// A read reached beyond the end of the device's file, because another process had truncated the file.
    Truncated,
    /// The contents of a block that was read are not those that this program last read from the block or wrote to it.
    Checksum,
    /// The page must not be written yet: the log is not durable up to the record that the page needs.
    LogBehind,
    /// The page must not be written yet: the application holds it.
    Held,
    /// The operating system reported an error by its number (`errno`).
    Os(i32),
}

impl IoError {
    /// Returns the error as a number, to be stored where only a `u32` fits; [`IoError::from_code`] converts it back.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Device => u32::MAX,
            Self::NoSpace => u32::MAX - 1,
            Self::Truncated => u32::MAX - 2,
            Self::Checksum => u32::MAX - 3,
            Self::LogBehind => u32::MAX - 4,
            Self::Held => u32::MAX - 5,
            Self::Os(number) => number as u32,
        }
    }

    /// Returns the error for which `code` stands, as [`IoError::code`] returned it.
    #[must_use]
    pub const fn from_code(code: u32) -> Self {
        match code {
            u32::MAX => Self::Device,
            c if c == u32::MAX - 1 => Self::NoSpace,
            c if c == u32::MAX - 2 => Self::Truncated,
            c if c == u32::MAX - 3 => Self::Checksum,
            c if c == u32::MAX - 4 => Self::LogBehind,
            c if c == u32::MAX - 5 => Self::Held,
            number => Self::Os(number as i32),
        }
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device => f.write_str("device error"),
            Self::NoSpace => f.write_str("no space left on device"),
            Self::Truncated => f.write_str("the file ended early: somebody else made it shorter"),
            Self::Checksum => f.write_str("the contents are not what was last read or written there"),
            Self::LogBehind => f.write_str("the log is not durable up to the record that the page needs"),
            Self::Held => f.write_str("the program holds the page, and has not released it"),
            Self::Os(number) => write!(f, "{}", std::io::Error::from_raw_os_error(*number)),
        }
    }
}

impl std::error::Error for IoError {}

/// Receives block requests that have finished. The engine implements it; the machine calls it.
pub trait Completions {
    /// Completes a request. The machine calls this once for each submitted request, in interrupt context. The engine
    /// may take locks in this call, but must not sleep, allocate a frame, or submit a request.
    fn complete(&self, request: Request, result: Result<(), IoError>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_their_codes() {
        let named = [IoError::Device, IoError::NoSpace, IoError::Truncated, IoError::Checksum, IoError::LogBehind];
        let named = named.into_iter().chain([IoError::Held]);
        for error in named.chain([IoError::Os(5), IoError::Os(133)]) {
            assert_eq!(IoError::from_code(error.code()), error);
        }
    }
}
