//! The page lock, and waiting for a page.
//!
//! The lock is a bit in the frame's descriptor. It guards the owner and the I/O of the page. Tasks that wait for
//! different pages may share a wait queue.

use super::PageCache;
use crate::memory::Flags;
use machine::atomic::AtomicU32;
use machine::{FrameNumber, Machine, Stalled, WaitReason, Waiting};

/// Number of queues in which tasks wait for pages. The queue of a page is computed from the number of the page's frame.
pub(super) const PAGE_QUEUES: usize = 256;

/// Returns the number of the queue of a page, by Fibonacci hashing, so that neighbouring pages have different queues.
const fn queue_of(frame: FrameNumber) -> usize {
    (frame.0.wrapping_mul(0x9e37_79b9) >> 24) as usize % PAGE_QUEUES
}

impl<M: Machine> PageCache<M> {
    /// Returns the queue in which tasks wait for a page. Several pages share a queue.
    pub fn page_queue(&self, frame: FrameNumber) -> &M::WaitQueue {
        &self.page_queues[queue_of(frame)]
    }

    /// Returns all queues in which tasks wait for pages.
    pub fn page_queues(&self) -> &[M::WaitQueue] {
        &self.page_queues
    }

    /// Returns the claim in a page's wait queue: the frame number of the page whose latch a task has claimed, which may
    /// be another page with the same queue; `NOBODY` if no latch is claimed. A task that has waited long claims the
    /// latch, to get it before other tasks (see [`super::latch`]).
    pub(super) fn next_at_queue(&self, frame: FrameNumber) -> &AtomicU32 {
        &self.next_at_queues[queue_of(frame)]
    }

    /// Locks a page. Waits until the lock is free. The calling task may sleep.
    pub fn lock_page(&self, frame: FrameNumber) {
        while !self.frames[frame].try_lock() {
            self.wait_while(frame, Flags::LOCKED, WaitReason::PageLock);
        }
    }

    /// Unlocks a page.
    #[inline]
    pub fn unlock_page(&self, frame: FrameNumber) {
        debug_assert!(self.frames[frame].is(Flags::LOCKED), "{frame} unlocked twice");
        self.frames[frame].clear(Flags::LOCKED);
        self.machine.wake_for(self.page_queue(frame), frame);
    }

    /// Waits until a page is no longer under writeback. The caller holds a reference to the page. The calling task may
    /// sleep.
    pub fn wait_on_writeback(&self, frame: FrameNumber) {
        self.wait_while(frame, Flags::WRITEBACK, WaitReason::PageWriteback);
    }

    /// Waits until a page that is being read is no longer locked. The caller holds a reference to the page. The calling
    /// task may sleep.
    pub fn wait_on_read(&self, frame: FrameNumber) {
        self.wait_while(frame, Flags::LOCKED, WaitReason::PageIo);
    }

    /// Begins a stall for memory (`/proc/pressure/memory`) if the task is about to wait for the read of a page that was
    /// in the workingset when reclaim evicted it. The stall ends when the returned guard is dropped.
    fn stall_for_refault(&self, frame: FrameNumber) -> Option<Stalled<'_, M>> {
        let flags = self.frames[frame].flags();
        (flags.has(Flags::WORKINGSET) && !flags.has(Flags::UPTODATE)).then(|| Stalled::begin(&self.machine))
    }

    /// Waits while a page has a flag. The task or interrupt that clears the flag wakes the queue of the page.
    fn wait_while(&self, frame: FrameNumber, flag: Flags, reason: WaitReason) {
        loop {
            let queue = self.page_queue(frame);
            let ticket = self.machine.ticket(queue);
            if !self.frames[frame].is(flag) {
                return;
            }
            let stalled = self.stall_for_refault(frame);
            let waiting = Waiting::begin(&self.machine, reason);
            self.machine.sleep(queue, ticket, None);
            drop((waiting, stalled));
            // A killed task does not sleep. It only lets other tasks run first.
            self.machine.relax();
        }
    }
}
