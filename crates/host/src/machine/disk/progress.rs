//! The progress of a disk request, and the decision on its next step after a system call that moved all of its bytes,
//! some or none. Other modules carry the step out.

use crate::machine::sys::Errno;
use machine::{BLOCK_BYTES, IoError, Operation};
use std::fmt;

/// Largest number of consecutive attempts at one request that move no bytes. After one more such attempt, the request
/// fails.
///
/// The system returns `EAGAIN` when it is short of memory for a moment, or when the thread that made the request ends.
/// If a hundred attempts in a row move nothing, there is another cause, which will not go away.
const IDLE_MAX: u32 = 100;

/// The reason why a disk request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The system call failed with this error number.
    Os(i32),
    /// The file ends earlier than the code that added the device expects: another process has truncated it.
    Truncated {
        /// Position at which the file ends, bytes.
        end: u64,
        /// The expected end of the file, bytes: the code that added the device knows that the file had at least this
        /// length.
        expected_end: u64,
    },
    /// The system moved no bytes, and did not say why.
    NoProgress,
    /// The contents of a block differ from those that were last read from or written to it.
    Checksum {
        /// Number, on the device, of the first block whose contents differ from its checksum.
        block: u64,
    },
}

impl Cause {
    /// Returns the engine's error that corresponds to this cause.
    #[must_use]
    pub const fn as_io_error(self) -> IoError {
        match self {
            Self::Os(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => IoError::NoSpace,
            Self::Os(number) => IoError::Os(number),
            Self::Truncated { .. } => IoError::Truncated,
            Self::NoProgress => IoError::Device,
            Self::Checksum { .. } => IoError::Checksum,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Os(number) => write!(f, "{}", std::io::Error::from_raw_os_error(*number)),
            Self::Truncated { end, expected_end } => {
                write!(f, "the file ends at byte {end}, but at least {expected_end} bytes were in it")
            }
            Self::Checksum { block } => {
                let byte = block * BLOCK_BYTES as u64;
                write!(f, "the {BLOCK_BYTES} bytes at byte {byte} are not what was last read or written there")
            }
            Self::NoProgress => write!(f, "the system moved no bytes, {IDLE_MAX} times in a row"),
        }
    }
}

/// The range of bytes of a file that a request moves, and the direction (read or write).
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub operation: Operation,
    /// The first byte of the range, as an offset in the file.
    pub offset: u64,
    pub bytes: usize,
}

/// The length that the operating system now states for a file, and the length that the file's owner expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// The length that the operating system now states for the file, bytes.
    pub now: u64,
    /// The expected length: the file has at least this number of bytes, unless another process has truncated it.
    pub expected: u64,
    /// `true` for a block device, which no write makes longer.
    pub is_fixed: bool,
}

/// The progress of a disk request: how many bytes were moved, and how many attempts failed.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Number of bytes moved, from the beginning of the request on.
    pub done: usize,
    /// Number of consecutive attempts up to now that moved no bytes.
    idle: u32,
    /// True once the request has fallen back to the page cache of the kernel.
    has_fallen_back: bool,
}

/// The next step of a disk request after an attempt to move its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// All bytes are moved.
    Done,
    /// The file has no more bytes: the rest of the read becomes zeroes.
    ZeroRest,
    /// Another attempt must move the bytes of the request that are left.
    Again,
    /// The request is tried again through the page cache of the kernel, because the file refused O_DIRECT (EINVAL).
    Buffered,
    /// The request fails.
    Fail(Cause),
}

impl Progress {
    /// Records `moved`, the result of an attempt to move the rest of `extent`, and returns the next step. `ends` is a
    /// function that returns the present and the expected length of the file.
    pub(super) fn advance(
        &mut self,
        extent: Extent,
        moved: Result<usize, Errno>,
        ends: impl FnOnce() -> Result<Ends, Errno>,
    ) -> Next {
        match moved {
            Ok(moved) if self.done + moved >= extent.bytes => {
                self.done = extent.bytes;
                Next::Done
            }
            Ok(moved) => {
                let reached = self.done + moved;
                let ends = match ends() {
                    Ok(ends) => ends,
                    Err(errno) => return Next::Fail(Cause::Os(errno)),
                };
                let (stopped_at, extent_end) = (extent.offset + reached as u64, extent.offset + extent.bytes as u64);
                if stopped_at >= ends.now {
                    if extent.operation == Operation::Read {
                        if ends.now < ends.expected.min(extent_end) {
                            return Next::Fail(Cause::Truncated { end: ends.now, expected_end: ends.expected });
                        }
                        self.done = reached;
                        return Next::ZeroRest;
                    }
                    // The device's size is not a multiple of a block, and this is its last block: the bytes after the
                    // end are dropped.
                    if ends.is_fixed && extent_end - ends.now < BLOCK_BYTES as u64 {
                        self.done = extent.bytes;
                        return Next::Done;
                    }
                }
                // Requests that bypass the page cache move whole blocks.
                let whole = reached - reached % BLOCK_BYTES;
                if whole > self.done {
                    self.done = whole;
                    self.idle = 0;
                    return Next::Again;
                }
                self.again(Cause::NoProgress)
            }
            Err(libc::EINTR) => Next::Again,
            Err(errno @ (libc::EAGAIN | libc::ECANCELED)) => self.again(Cause::Os(errno)),
            Err(libc::EINVAL) if !self.has_fallen_back => {
                self.has_fallen_back = true;
                Next::Buffered
            }
            Err(errno) => Next::Fail(Cause::Os(errno)),
        }
    }

    /// Returns whether the last attempt moved no bytes.
    pub(super) fn is_idle(&self) -> bool {
        self.idle > 0
    }

    fn again(&mut self, cause: Cause) -> Next {
        self.idle += 1;
        if self.idle > IDLE_MAX { Next::Fail(cause) } else { Next::Again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = BLOCK_BYTES as u64;

    /// Simulates a request for four blocks from block 10 on, in a file whose lengths are `ends`. `attempts` holds the
    /// results of its system calls. Returns the last step and the number of bytes moved.
    fn run(operation: Operation, ends: Ends, attempts: &[Result<usize, Errno>]) -> (Next, usize) {
        let extent = Extent { operation, offset: 10 * PAGE, bytes: 4 * BLOCK_BYTES };
        let mut progress = Progress::default();
        let mut next = Next::Again;
        for &moved in attempts {
            assert!(matches!(next, Next::Again | Next::Buffered), "{next:?} before {moved:?}");
            next = progress.advance(extent, moved, || Ok(ends));
        }
        (next, progress.done)
    }

    const fn file(now: u64, expected: u64) -> Ends {
        Ends { now, expected, is_fixed: false }
    }

    const fn block_device(now: u64) -> Ends {
        Ends { now, expected: 0, is_fixed: true }
    }

    #[test]
    fn what_follows_an_attempt() {
        use Next::*;
        use Operation::{Read, Write};
        const LONG: Ends = file(100 * PAGE, 0);
        let page = BLOCK_BYTES;
        let os = |errno| Fail(Cause::Os(errno));
        const ODD: u64 = 14 * PAGE - 512;
        /// One case of this test. Given are its name, the operation, the ends of the file, and the result of each
        /// attempt. Expected are the step that follows the last attempt, and the number of bytes moved.
        type Row<'a> = (&'a str, Operation, Ends, &'a [Result<usize, Errno>], (Next, usize));
        let table: &[Row<'_>] = &[
            ("all at once", Read, LONG, &[Ok(4 * page)], (Done, 4 * page)),
            ("in two steps", Write, LONG, &[Ok(page), Ok(3 * page)], (Done, 4 * page)),
            ("part of a block is moved again", Read, LONG, &[Ok(page + 512)], (Again, page)),
            ("interrupted", Read, LONG, &[Err(libc::EINTR), Ok(4 * page)], (Done, 4 * page)),
            ("cancelled with its thread", Write, LONG, &[Err(libc::ECANCELED), Ok(4 * page)], (Done, 4 * page)),
            ("ends within a block", Read, file(11 * PAGE + 100, 0), &[Ok(page + 100)], (ZeroRest, page + 100)),
            ("ends before", Read, file(10 * PAGE, 10 * PAGE), &[Ok(0)], (ZeroRest, 0)),
            ("nothing beyond was expected", Read, file(10 * PAGE, PAGE), &[Ok(0)], (ZeroRest, 0)),
            (
                "truncated by somebody else",
                Read,
                file(11 * PAGE, 12 * PAGE),
                &[Ok(page)],
                (Fail(Cause::Truncated { end: 11 * PAGE, expected_end: 12 * PAGE }), 0),
            ),
            ("no O_DIRECT", Write, LONG, &[Err(libc::EINVAL)], (Buffered, 0)),
            ("wrong all the same", Write, LONG, &[Err(libc::EINVAL), Err(libc::EINVAL)], (os(libc::EINVAL), 0)),
            ("broken", Write, LONG, &[Ok(page), Err(libc::EIO)], (os(libc::EIO), page)),
            ("a device's last block", Write, block_device(ODD), &[Ok(4 * page - 512)], (Done, 4 * page)),
            ("the same, alone", Write, block_device(ODD), &[Ok(3 * page), Ok(page - 512)], (Done, 4 * page)),
            ("a file that is about to be full", Write, file(ODD, 0), &[Ok(4 * page - 512)], (Again, 3 * page)),
            ("a block beyond a device's end", Write, block_device(13 * PAGE), &[Ok(3 * page)], (Again, 3 * page)),
            (
                "a read of a device's last block",
                Read,
                block_device(ODD),
                &[Ok(4 * page - 512)],
                (ZeroRest, 4 * page - 512),
            ),
            ("full", Write, LONG, &[Err(libc::ENOSPC)], (os(libc::ENOSPC), 0)),
        ];
        for (name, operation, ends, attempts, expected) in table {
            assert_eq!(run(*operation, *ends, attempts), *expected, "{name}");
        }
    }

    #[test]
    fn a_request_that_gets_nowhere_fails_in_the_end() {
        let many = vec![Err(libc::EAGAIN); IDLE_MAX as usize + 1];
        assert_eq!(run(Operation::Write, file(0, 0), &many[1..]), (Next::Again, 0));
        assert_eq!(run(Operation::Write, file(0, 0), &many), (Next::Fail(Cause::Os(libc::EAGAIN)), 0));
        let nothing = vec![Ok(0); IDLE_MAX as usize + 1];
        assert_eq!(run(Operation::Write, file(0, 0), &nothing), (Next::Fail(Cause::NoProgress), 0));
        assert_eq!(run(Operation::Read, file(1 << 40, 0), &nothing), (Next::Fail(Cause::NoProgress), 0));
    }

    #[test]
    fn the_engine_hears_of_a_full_disk() {
        for errno in [libc::ENOSPC, libc::EDQUOT, libc::EFBIG] {
            assert_eq!(Cause::Os(errno).as_io_error(), IoError::NoSpace);
        }
        assert_eq!(Cause::Os(libc::EIO).as_io_error(), IoError::Os(libc::EIO));
    }
}
