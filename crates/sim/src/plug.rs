//! Plugs: requests that a task holds back until it has submitted more requests (`blk_plug`).
//!
//! A request joins a held request if their blocks are adjacent. All held requests go to their devices when the task
//! ends the plug or sleeps. A new request that joins no held request sends all held requests earlier if too many are
//! held (`BLK_MAX_REQUEST_COUNT`), or if the last held run of blocks is long (`BLK_PLUG_FLUSH_SIZE`). Linux: "block:
//! initial patch for on-stack per-task plugging" (2.6.39). The limit by size exists since Linux 4.10.

use machine::{BLOCK_BYTES, DeviceId, Operation, Request};
use std::collections::VecDeque;

/// Largest number of held runs. A run consists of held requests for consecutive blocks.
const HELD_MAX: usize = 16;

/// Length from which a run of held requests counts as long, in blocks: 128 KiB. If the run that was held last is long,
/// the task does not begin to hold another one.
const LONG: u64 = (128 << 10) / BLOCK_BYTES as u64;

/// The disk requests that a task holds back to merge them.
#[derive(Debug, Default)]
pub(crate) struct Plug {
    /// `true` while the task has a plug, so that requests are held back.
    pub(crate) is_open: bool,
    held: VecDeque<Held>,
}

/// Disk requests that a plug holds back and whose blocks are consecutive.
#[derive(Debug)]
struct Held {
    kind: (DeviceId, Operation, bool),
    block: u64,
    end: u64,
    parts: VecDeque<Request>,
}

impl Held {
    fn new(request: Request) -> Self {
        let (block, end) = (request.block, end_of(&request));
        Self { kind: kind_of(&request), block, end, parts: VecDeque::from([request]) }
    }

    /// Adds a request to this run, if the request is of the same kind and continues the run at either end. Returns the
    /// request if it does not fit, or if the run would then have more than `blocks_max` blocks.
    fn join(&mut self, request: Request, blocks_max: u64) -> Option<Request> {
        let end = end_of(&request);
        if kind_of(&request) != self.kind || self.end - self.block + end - request.block > blocks_max {
            return Some(request);
        }
        if request.block == self.end {
            self.end = end;
            self.parts.push_back(request);
        } else if end == self.block {
            self.block = request.block;
            self.parts.push_front(request);
        } else {
            return Some(request);
        }
        None
    }
}

impl Plug {
    /// Holds a request back. Returns the request if it cannot be held; the task must then first send all held requests
    /// to their devices.
    pub(crate) fn hold(&mut self, request: Request, blocks_max: u64) -> Option<Request> {
        let mut request = request;
        for held in &mut self.held {
            request = held.join(request, blocks_max)?;
        }
        let is_long = self.held.back().is_some_and(|last| last.end - last.block >= LONG);
        if is_long || self.held.len() >= HELD_MAX {
            return Some(request);
        }
        self.held.push_back(Held::new(request));
        None
    }

    /// Takes the requests that have been held longest, which cover consecutive blocks, and returns them in block order.
    /// Returns `None` if nothing is held.
    pub(crate) fn take_first(&mut self) -> Option<VecDeque<Request>> {
        self.held.pop_front().map(|held| held.parts)
    }
}

fn kind_of(request: &Request) -> (DeviceId, Operation, bool) {
    (request.device, request.operation, request.is_sync)
}

fn end_of(request: &Request) -> u64 {
    request.block + request.frames.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::FrameNumber;

    fn write(block: u64, blocks: u32) -> Request {
        let frames = (0..blocks).map(FrameNumber).collect();
        Request { device: DeviceId(0), operation: Operation::Write, block, frames, is_sync: false }
    }

    /// Takes all held requests out of the plug. Returns, for each, the first blocks and lengths of the submitted
    /// requests that were merged into it.
    fn taken(plug: &mut Plug) -> Vec<Vec<(u64, usize)>> {
        let parts = |parts: VecDeque<Request>| parts.iter().map(|part| (part.block, part.frames.len())).collect();
        std::iter::from_fn(|| plug.take_first()).map(parts).collect()
    }

    #[test]
    fn requests_that_touch_are_held_as_one_and_in_block_order() {
        let mut plug = Plug::default();
        for request in [write(10, 2), write(50, 1), write(12, 1), write(9, 1)] {
            assert_eq!(plug.hold(request, 100), None);
        }
        let other = Request { is_sync: true, ..write(51, 1) };
        assert_eq!(plug.hold(other, 100), None, "what a task waits for is no part of what none waits for");
        assert_eq!(taken(&mut plug), [vec![(9, 1), (10, 2), (12, 1)], vec![(50, 1)], vec![(51, 1)]]);
        assert_eq!(taken(&mut plug), [[]; 0]);
    }

    #[test]
    fn too_many_or_a_long_one_must_go_first_and_none_grows_too_long() {
        let mut plug = Plug::default();
        for n in 0..HELD_MAX as u64 {
            assert_eq!(plug.hold(write(n * 10, 1), 100), None);
        }
        assert_eq!(plug.hold(write(1, 1), 100), None, "it joins the first");
        assert_eq!(plug.hold(write(999, 1), 100), Some(write(999, 1)));
        assert_eq!(taken(&mut plug).len(), HELD_MAX);

        assert_eq!(plug.hold(write(0, 32), 40), None);
        assert_eq!(plug.hold(write(32, 8), 40), None, "up to the longest request");
        assert_eq!(plug.hold(write(40, 1), 40), Some(write(40, 1)));
    }
}
