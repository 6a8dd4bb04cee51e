//! The latch of a page: readers of its bytes and a writer keep out of each other's way.
//!
//! A word of the frame's own holds it, next to the references ([`crate::memory::Frame::get_shared`]): a hit
//! takes both in one step and no lock. The page lock is another matter: it guards whose page it is and its I/O.
//! *Order*: the latch first, then the page lock. Reclaim and the flusher never wait for a latch; a sync does, for pages that
//! must not change while they are written.

use super::file_index::Miss;
use super::{FileIndex, PageCache};
use crate::memory::{Flags, Frame};
use machine::{FrameNumber, Machine, Step, WaitReason, Waiting};

impl<M: Machine> PageCache<M> {
    /// Takes the latch of a page, exclusive or shared, waiting for it. The caller holds a reference and no page
    /// lock. *May sleep.*
    pub fn latch(&self, frame: FrameNumber, exclusive: bool) {
        loop {
            self.latch_counted(frame, exclusive);
            if !exclusive || !self.frames[frame].is(Flags::HAZARD) || self.is_let_go(frame) {
                return;
            }
            self.unlatch(frame, true);
            self.wait_until_let_go(frame);
        }
    }

    /// The same, whatever readers have hazard pointers.
    fn latch_counted(&self, frame: FrameNumber, exclusive: bool) {
        while !self.frames[frame].try_latch(exclusive) {
            let queue = self.page_queue(frame);
            let ticket = self.machine.ticket(queue);
            self.frames[frame].note_latch_wait();
            if self.frames[frame].try_latch(exclusive) {
                return;
            }
            let waiting = Waiting::begin(&self.machine, WaitReason::PageLatch);
            self.machine.sleep(queue, ticket, None);
            drop(waiting);
            // A killed task does not sleep: at least it lets others go first.
            self.machine.relax();
        }
    }

    /// Gives the latch of a page back.
    #[inline]
    pub fn unlatch(&self, frame: FrameNumber, exclusive: bool) {
        if self.frames[frame].unlatch(exclusive) {
            self.wake_latch_waiters(frame);
        }
    }

    #[cold]
    fn wake_latch_waiters(&self, frame: FrameNumber) {
        self.machine.wake(self.page_queue(frame));
    }

    /// The page of a file, with a reference and the shared latch for the caller, and its descriptor. Nothing when it is
    /// not in memory, and when it has as many readers as can be. *May sleep.*
    #[inline(always)]
    pub fn find_shared(&self, index: &FileIndex, page: u32) -> Option<(FrameNumber, &Frame)> {
        self.machine.spend(Step::IndexLookup, 1);
        let found = index.find(page)?;
        // While the descriptor is on its way, so can the bytes be.
        self.machine.prefetch_frame(found.frame, 0, 1);
        let frame = match found.get_shared(&self.frames) {
            Ok(descriptor) => return Some((found.frame, descriptor)),
            Err(miss) => self.find_shared_slowly(index, page, found.frame, miss)?,
        };
        Some((frame, &self.frames[frame]))
    }

    #[cold]
    fn find_shared_slowly(
        &self,
        index: &FileIndex,
        page: u32,
        mut frame: FrameNumber,
        mut miss: Miss,
    ) -> Option<FrameNumber> {
        loop {
            match miss {
                Miss::Undo => self.put_shared(frame),
                Miss::Frozen => self.machine.relax(),
                // The caller sees for itself ([`Frame::has_all_readers`]).
                Miss::Full => return None,
                Miss::Held => {
                    let frame = self.find_page(index, page)?;
                    self.latch(frame, false);
                    return Some(frame);
                }
            }
            let found = index.find(page)?;
            frame = found.frame;
            match found.get_shared(&self.frames) {
                Ok(_) => return Some(frame),
                Err(next) => miss = next,
            }
        }
    }

    /// Gives the shared latch of a page and its reference back; as `PageCache::put_page_in_use`.
    #[inline]
    pub fn put_shared(&self, frame: FrameNumber) {
        self.put_shared_of(frame, &self.frames[frame]);
    }

    /// The same, for who has the descriptor at hand.
    #[inline(always)]
    pub fn put_shared_of(&self, frame: FrameNumber, descriptor: &Frame) {
        let (is_last, is_waited_for) = descriptor.put_shared();
        if is_last || is_waited_for {
            self.end_use(frame, is_last, is_waited_for);
        }
    }

    #[cold]
    fn end_use(&self, frame: FrameNumber, is_last: bool, is_waited_for: bool) {
        if is_waited_for {
            self.wake_latch_waiters(frame);
        }
        if is_last {
            self.orphan(frame);
        }
    }
}
