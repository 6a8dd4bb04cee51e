//! Builds requests to devices. Pages that are adjacent on the device are joined into one request, both for reads and
//! for writes.
//!
//! The module is called by `access`, which reads pages of files and of swap, and by `writeback`. *Locks*: the module
//! has no lock. *Description*: mechanisms/reclaim, 21.

use crate::memory::Memory;
use crate::stat::Event;
use machine::{DeviceId, FrameNumber, Machine, Operation, PAGE_BYTES, Request, Step};

/// Largest number of pages in one request: 1 MiB of pages. Devices may split or merge requests.
pub const REQUEST_PAGES: usize = 256;

/// A request that is being built, with pages that follow each other on the device.
#[derive(Debug)]
pub(crate) struct Bio {
    device: DeviceId,
    operation: Operation,
    is_sync: bool,
    block: u64,
    frames: Vec<FrameNumber>,
}

impl Bio {
    pub fn new(device: DeviceId, operation: Operation, is_sync: bool) -> Self {
        Self { device, operation, is_sync, block: 0, frames: Vec::new() }
    }

    /// Adds a page at `block`. If the page does not follow the collected pages on the device, first submits the
    /// collected pages. The calling task may sleep.
    pub fn add<M: Machine>(&mut self, memory: &Memory<M>, block: u64, frame: FrameNumber) {
        let follows = self.block + self.frames.len() as u64 == block;
        if !self.frames.is_empty() && (!follows || self.frames.len() == REQUEST_PAGES) {
            self.submit(memory);
        }
        if self.frames.is_empty() {
            self.block = block;
        }
        self.frames.push(frame);
        memory.machine.spend(Step::BioPage, 1);
    }

    /// Submits the collected pages as one request. The calling task may sleep.
    #[inline]
    pub fn submit<M: Machine>(&mut self, memory: &Memory<M>) {
        if self.frames.is_empty() {
            return;
        }
        let frames = std::mem::take(&mut self.frames);
        let kib = (frames.len() * PAGE_BYTES / 1024) as u64;
        let event = if self.operation == Operation::Read { Event::Pgpgin } else { Event::Pgpgout };
        memory.stat.count(event, kib);
        memory.machine.submit(Request {
            device: self.device,
            operation: self.operation,
            block: self.block,
            frames,
            is_sync: self.is_sync,
        });
    }
}
