//! The page lock, and waiting for a page.
//!
//! The lock is a bit in the frame's descriptor. It guards the owner and the I/O of the page. Waiters of several pages
//! share a queue.

use super::PageCache;
use crate::memory::Flags;
use machine::atomic::AtomicU32;
use machine::{FrameNumber, Machine, WaitReason, Waiting};

/// Number of page queues. The waiters of a page wait in the queue that is computed from the number of its frame.
pub(super) const PAGE_QUEUES: usize = 256;

/// Returns the queue of a page, by Fibonacci hashing, so that neighbouring pages wait in different queues.
const fn queue_of(frame: FrameNumber) -> usize {
    (frame.0.wrapping_mul(0x9e37_79b9) >> 24) as usize % PAGE_QUEUES
}

impl<M: Machine> PageCache<M> {
    /// Returns the queue in which waiters of a page wait, together with those of other pages.
    pub(crate) fn page_queue(&self, frame: FrameNumber) -> &M::WaitQueue {
        &self.page_queues[queue_of(frame)]
    }

    /// Returns a word of the page's queue: the page whose latch a waiter of this queue has next (see [`super::latch`]).
    pub(super) fn next_at_queue(&self, frame: FrameNumber) -> &AtomicU32 {
        &self.next_at_queues[queue_of(frame)]
    }

    /// Locks a page. Waits until the lock is free. *May sleep.*
    pub fn lock_page(&self, frame: FrameNumber) {
        while !self.frames[frame].try_lock() {
            self.wait_for_clear(frame, WaitReason::PageLock);
        }
    }

    /// Unlocks a page.
    pub fn unlock_page(&self, frame: FrameNumber) {
        debug_assert!(self.frames[frame].is(Flags::LOCKED), "{frame} unlocked twice");
        self.frames[frame].clear(Flags::LOCKED);
        self.machine.wake(self.page_queue(frame));
    }

    /// Waits until a page is no longer under writeback if `reason` is `WaitReason::PageWriteback`, or else until it is
    /// not locked. The caller holds a reference. *May sleep.*
    pub fn wait_for_clear(&self, frame: FrameNumber, reason: WaitReason) {
        let flag = if reason == WaitReason::PageWriteback { Flags::WRITEBACK } else { Flags::LOCKED };
        loop {
            let queue = self.page_queue(frame);
            let ticket = self.machine.ticket(queue);
            if !self.frames[frame].is(flag) {
                return;
            }
            let waiting = Waiting::begin(&self.machine, reason);
            self.machine.sleep(queue, ticket, None);
            drop(waiting);
            // A killed task does not sleep: at least it lets others go first.
            self.machine.relax();
        }
    }
}
