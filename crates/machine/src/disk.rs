//! Block requests.

use crate::{DeviceId, FrameNumber};
use std::fmt;

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// From the device into frames.
    Read,
    /// From frames to the device.
    Write,
}

/// Consecutive blocks of one device, and the frames that they are read into or written from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which device.
    pub device: DeviceId,
    /// Read or write.
    pub operation: Operation,
    /// First block, in units of [`crate::BLOCK_BYTES`].
    pub block: u64,
    /// One frame for each block, in block order; never empty.
    pub frames: Vec<FrameNumber>,
    /// Does a task wait for it (every read, and writes of `sync`)? Elevators treat others as background.
    pub is_sync: bool,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoError {
    /// The device reported an error.
    Device,
    /// The device has no room.
    NoSpace,
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "device error",
            Self::NoSpace => "no space left on device",
        })
    }
}

impl std::error::Error for IoError {}

/// Receives requests that their devices have finished.
pub trait Completions {
    /// Called once for each submitted request, in interrupt context: it may take locks, but must
    /// not sleep, allocate a frame, or submit.
    fn complete(&self, request: Request, result: Result<(), IoError>);
}
