//! Direct I/O: reads into and writes from a buffer of the caller, without the page cache.

use super::{Access, Error};
use crate::memory::{Flags, Gfp};
use crate::stat::{Event, Gauge};
use crate::task::Task;
use machine::{DeviceId, FrameNumber, IoError, Machine, Operation, PAGE_BYTES, Request};

/// A buffer of pages that a device reads into or writes from directly.
#[derive(Debug)]
pub struct DirectBuffer(Vec<FrameNumber>);

impl<M: Machine> Access<M> {
    /// Allocates a buffer of `pages` pages for direct I/O. This function may sleep.
    ///
    /// # Errors
    /// When memory is exhausted.
    pub fn direct_buffer(&self, task: &mut Task, pages: usize) -> Result<DirectBuffer, Error> {
        let mut frames = Vec::with_capacity(pages);
        for _ in 0..pages {
            match self.allocate_kernel(task, Gfp::KERNEL, Gauge::NrSlabUnreclaimable) {
                Ok(frame) => frames.push(frame),
                Err(cause) => {
                    self.free_direct_buffer(DirectBuffer(frames));
                    return Err(self.out_of_memory(cause));
                }
            }
        }
        Ok(DirectBuffer(frames))
    }

    /// Frees the memory of a buffer.
    pub fn free_direct_buffer(&self, buffer: DirectBuffer) {
        for frame in buffer.0 {
            self.memory().free_kernel(frame, Gauge::NrSlabUnreclaimable);
        }
    }

    /// Reads or writes a whole buffer at block `block` of a device, and waits until the device is done. This function
    /// may sleep.
    ///
    /// # Errors
    /// The error that the device returned.
    pub fn direct_io(
        &self,
        operation: Operation,
        device: DeviceId,
        block: u64,
        buffer: &mut DirectBuffer,
        is_sync: bool,
    ) -> Result<(), IoError> {
        let frames = buffer.0.clone();
        for frame in &frames {
            self.frames[*frame].clear(Flags::ERROR);
            self.frames[*frame].set(Flags::LOCKED);
        }
        let kib = (frames.len() * PAGE_BYTES / 1024) as u64;
        self.stat.count(if operation == Operation::Read { Event::Pgpgin } else { Event::Pgpgout }, kib);
        self.machine.submit(Request { device, operation, block, frames, is_sync });
        for frame in &buffer.0 {
            self.page_cache().wait_on_read(*frame);
        }
        buffer.0.iter().find_map(|frame| self.frames[*frame].read_error()).map_or(Ok(()), Err)
    }
}
