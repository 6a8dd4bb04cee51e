//! Faults that a test adds to a disk.

use machine::{IoError, Nanos, Operation, Request};
use std::ops::Range;

/// A fault of a disk, which a test adds by [`super::Disk::inject`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request with number `nth` fails. The first request that is submitted after the injection has number 1.
    Nth {
        /// Number of the request that fails. The first request that is submitted after the injection has number 1.
        nth: u64,
        /// The error with which the request fails.
        error: IoError,
    },
    /// Requests that touch one of these blocks fail until [`Fault::Mended`] is injected. A request that was merged with
    /// such a request succeeds if it touches none of the blocks itself.
    Blocks {
        /// The range of blocks. A request fails if it touches one of them.
        blocks: Range<u64>,
        /// The direction of the requests that fail; `None` if both reads and writes fail.
        operation: Option<Operation>,
        /// The error with which requests fail.
        error: IoError,
    },
    /// Ends the effect of [`Fault::Blocks`]: all blocks can be read and written again.
    Mended,
    /// The disk starts no request before this time, but finishes those that have begun.
    StallUntil(Nanos),
}

/// The faults of one disk.
#[derive(Debug, Default)]
pub(super) struct Faults {
    submitted: u64,
    /// The requests that [`Fault::Nth`] makes fail. Each has its number, counted from 1 since the disk was made, and
    /// its error.
    nth: Vec<(u64, IoError)>,
    bad_blocks: Vec<(Range<u64>, Option<Operation>, IoError)>,
    stalled_until: Nanos,
}

impl Faults {
    pub(super) fn inject(&mut self, fault: Fault) {
        match fault {
            Fault::Nth { nth, error } => {
                assert!(nth > 0, "requests are counted from 1");
                self.nth.push((self.submitted + nth, error));
            }
            Fault::Blocks { blocks, operation, error } => self.bad_blocks.push((blocks, operation, error)),
            Fault::Mended => self.bad_blocks.clear(),
            Fault::StallUntil(time) => self.stalled_until = self.stalled_until.max(time),
        }
    }

    /// Counts a submitted request. Returns an error if [`Fault::Nth`] makes this request fail.
    pub(super) fn count_submitted(&mut self) -> Option<IoError> {
        self.submitted += 1;
        let position = self.nth.iter().position(|&(nth, _)| nth == self.submitted)?;
        Some(self.nth.remove(position).1)
    }

    /// Returns the result of a request that the disk has served: an error if the request touches a block that
    /// [`Fault::Blocks`] made bad.
    pub(super) fn result(&self, request: &Request) -> Result<(), IoError> {
        let end = request.block + request.frames.len() as u64;
        let is_hit = |blocks: &Range<u64>, operation: Option<Operation>| {
            operation.is_none_or(|operation| operation == request.operation)
                && blocks.start < end
                && request.block < blocks.end
        };
        match self.bad_blocks.iter().find(|(blocks, operation, _)| is_hit(blocks, *operation)) {
            Some((_, _, error)) => Err(*error),
            None => Ok(()),
        }
    }

    pub(super) fn stalled_until(&self) -> Nanos {
        self.stalled_until
    }
}
