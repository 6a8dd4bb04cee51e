//! The latch of a page, which readers of the page's bytes share and a writer has alone.
//!
//! A word of the frame holds the latch, next to the references ([`crate::memory::Frame::get_shared`]): a hit takes
//! latch and reference in one step, and takes no lock. The page lock is a different lock, which guards the page's owner
//! and its I/O. *Order*: the latch first, then the page lock. Reclaim and the flusher never wait for a latch. A sync
//! waits for the latches of pages that must not change while they are written. *Turns*: a task that changes a page
//! repeatedly would take the latch again each time before a waiter has woken up. So a task that has waited for a
//! millisecond claims the next turn, and tasks that want the page for writing wait until the claimant has had its turn.
//! Readers do not wait for the claimant: another reader may have the latch already, and the claimant and the new reader
//! would both wait for that reader.

use super::file_index::Miss;
use super::{FileIndex, PageCache};
use crate::memory::{Flags, Frame};
use machine::atomic::Ordering::SeqCst;
use machine::{FrameNumber, Machine, Nanos, Step, WaitReason, Waiting};

/// Time after which a task that waits for a latch claims the next turn. With a shorter time, tasks that often change
/// the same page would switch contexts at each change. The time is about as long as a request to a disk takes.
const PATIENCE: Nanos = Nanos::from_millis(1);

/// The time for which a task waits for a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The task does not wait.
    No,
    /// The task waits until this time.
    Until(Nanos),
    /// The task waits until it has the latch.
    Forever,
}

impl Wait {
    pub(super) const fn deadline(self) -> Option<Nanos> {
        if let Self::Until(time) = self { Some(time) } else { None }
    }
}

/// The reason why a page of a file was not pinned without a wait for the disk, or within the time that the caller set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPinned {
    /// The page is not in memory.
    Absent,
    /// The page's latch or the page's lock was not free, or the caller would have been throttled.
    Busy,
}

/// The value of a wait queue's claim while no task has claimed the next turn. Otherwise the claim is the number of a
/// frame, and no frame has this number.
pub(super) const NOBODY: u32 = u32::MAX;

impl<M: Machine> PageCache<M> {
    /// Takes the latch of a page, exclusive or shared. Waits until the latch is free. The caller holds a reference to
    /// the page, and no page lock. The calling task may sleep.
    pub fn latch(&self, frame: FrameNumber, exclusive: bool) {
        let is_latched = self.latch_within(frame, exclusive, Wait::Forever);
        debug_assert!(is_latched, "a wait without an end has ended");
    }

    /// Takes the latch as [`PageCache::latch`] does, but waits only as long as `wait` says. Returns whether the latch
    /// was taken. The calling task may sleep, unless `wait` is [`Wait::No`].
    #[must_use]
    pub fn latch_within(&self, frame: FrameNumber, exclusive: bool, wait: Wait) -> bool {
        loop {
            if !self.latch_counted(frame, exclusive, PATIENCE, wait) {
                return false;
            }
            if !exclusive || !self.frames[frame].is(Flags::HAZARD) || self.is_let_go(frame) {
                return true;
            }
            self.unlatch(frame, true);
            if !self.wait_until_let_go(frame, wait) {
                return false;
            }
        }
    }

    /// Returns whether the time for which a task waits is over.
    pub(super) fn is_over(&self, wait: Wait) -> bool {
        match wait {
            Wait::No => true,
            Wait::Until(time) => self.machine.now() >= time,
            Wait::Forever => false,
        }
    }

    /// Takes the shared latch of a page. If the caller has to wait, it claims the next turn at once, so that other
    /// waiting tasks get the latch after it. The calling task may sleep.
    pub(crate) fn latch_next(&self, frame: FrameNumber) {
        let _ = self.latch_counted(frame, false, Nanos(0), Wait::Forever);
    }

    /// Takes the latch as [`PageCache::latch`] does, but does not wait for readers with hazard pointers. After a wait
    /// of `patience`, the caller claims the next turn: it gets the latch before other waiting tasks. Returns whether the
    /// latch was taken within the time `wait`.
    fn latch_counted(&self, frame: FrameNumber, exclusive: bool, patience: Nanos, wait: Wait) -> bool {
        if exclusive && !self.let_next_go_first(frame, wait) {
            return false;
        }
        self.frames[frame].try_latch(exclusive)
            || wait != Wait::No && self.wait_for_latch(frame, exclusive, patience, wait)
    }

    #[cold]
    fn wait_for_latch(&self, frame: FrameNumber, exclusive: bool, patience: Nanos, wait: Wait) -> bool {
        let (next, began) = (self.next_at_queue(frame), self.machine.now());
        let mut is_next = false;
        let is_latched = loop {
            if self.frames[frame].try_latch(exclusive) {
                break true;
            }
            // The queue has one claim for all of its pages. If another page has the claim, the turn of this page comes
            // later.
            if !is_next && self.machine.now().since(began) >= patience {
                is_next = next.compare_exchange(NOBODY, frame.0, SeqCst, SeqCst).is_ok();
            }
            let queue = self.page_queue(frame);
            let ticket = self.machine.ticket(queue);
            self.frames[frame].note_latch_wait();
            if self.frames[frame].try_latch(exclusive) {
                break true;
            }
            if self.is_over(wait) {
                break false;
            }
            let waiting = Waiting::begin(&self.machine, WaitReason::PageLatch);
            self.machine.sleep(queue, ticket, wait.deadline());
            drop(waiting);
            // A killed task does not sleep. It only lets other tasks run first.
            self.machine.relax();
            if exclusive && !is_next && !self.let_next_go_first(frame, wait) {
                break false;
            }
        };
        if is_next {
            next.store(NOBODY, SeqCst);
            self.machine.wake_for(self.page_queue(frame), frame);
        }
        is_latched
    }

    /// If a waiter has claimed the next turn, waits until this waiter has had the latch. The caller wants the latch for
    /// writing. Returns `false` if the time `wait` is over before. The calling task may sleep.
    fn let_next_go_first(&self, frame: FrameNumber, wait: Wait) -> bool {
        let next = self.next_at_queue(frame);
        while next.load(SeqCst) == frame.0 && !self.machine.is_killed() {
            if self.is_over(wait) {
                return false;
            }
            let queue = self.page_queue(frame);
            let ticket = self.machine.ticket(queue);
            if next.load(SeqCst) == frame.0 {
                let _waiting = Waiting::begin(&self.machine, WaitReason::PageLatch);
                self.machine.sleep(queue, ticket, wait.deadline());
            }
        }
        true
    }

    /// Takes a reference and the shared latch of a page of a file that is in memory, within the time `wait`. The calling
    /// task may sleep, unless `wait` is [`Wait::No`].
    ///
    /// # Errors
    /// When the page is not in memory, its latch was not free in time, or it has as many readers as its descriptor can
    /// count.
    pub fn find_shared_within(
        &self,
        index: &FileIndex,
        page: u32,
        wait: Wait,
    ) -> Result<(FrameNumber, &Frame), NotPinned> {
        self.machine.spend(Step::IndexLookup, 1);
        loop {
            let found = index.find(page).ok_or(NotPinned::Absent)?;
            match found.get_shared(&self.frames) {
                Ok(descriptor) => return Ok((found.frame, descriptor)),
                Err(Miss::Undo) => self.put_shared(found.frame),
                Err(Miss::Frozen) => self.machine.relax(),
                Err(Miss::Full) => return Err(NotPinned::Busy),
                Err(Miss::Held) if wait == Wait::No => return Err(NotPinned::Busy),
                Err(Miss::Held) => {
                    let frame = self.find_page(index, page).ok_or(NotPinned::Absent)?;
                    if self.latch_within(frame, false, wait) {
                        return Ok((frame, &self.frames[frame]));
                    }
                    self.put_page_in_use(frame);
                    return Err(NotPinned::Busy);
                }
            }
        }
    }

    /// Turns the exclusive latch of a page into a shared one. No other writer gets the latch in between. Tasks that wait
    /// to read the page continue.
    pub fn downgrade_latch(&self, frame: FrameNumber) {
        if self.frames[frame].downgrade() {
            self.wake_latch_waiters(frame);
        }
    }

    /// Turns the shared latch of a page into the exclusive one, if the caller is the page's only reader. Returns whether
    /// this was done. Does not wait.
    #[must_use]
    pub fn try_upgrade_latch(&self, frame: FrameNumber) -> bool {
        if !self.frames[frame].try_upgrade() {
            return false;
        }
        let is_alone = !self.frames[frame].is(Flags::HAZARD) || self.is_let_go(frame);
        if !is_alone {
            self.downgrade_latch(frame);
        }
        is_alone
    }

    /// Releases the latch of a page.
    #[inline]
    pub fn unlatch(&self, frame: FrameNumber, exclusive: bool) {
        if self.frames[frame].unlatch(exclusive) {
            self.wake_latch_waiters(frame);
        }
    }

    #[cold]
    fn wake_latch_waiters(&self, frame: FrameNumber) {
        self.machine.wake_for(self.page_queue(frame), frame);
    }

    /// Looks up a page of a file, and takes a reference to it and its shared latch for the caller. Returns the page's
    /// frame and the frame's descriptor. Returns `None` if the page is not in memory, or has as many readers as its
    /// descriptor can count. The calling task may sleep.
    #[inline(always)]
    pub fn find_shared(&self, index: &FileIndex, page: u32) -> Option<(FrameNumber, &Frame)> {
        self.machine.spend(Step::IndexLookup, 1);
        let found = index.find(page)?;
        // The bytes are prefetched while the descriptor is being loaded.
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
                // The caller can find out this reason by [`Frame::has_all_readers`].
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

    /// Releases the shared latch of a page, and drops the caller's reference as `PageCache::put_page_in_use` does.
    #[inline]
    pub fn put_shared(&self, frame: FrameNumber) {
        self.put_shared_of(frame, &self.frames[self.frames.head(frame)]);
    }

    /// Releases a page as [`PageCache::put_shared`] does, for a caller that has the frame's descriptor.
    #[inline(always)]
    pub fn put_shared_of(&self, frame: FrameNumber, descriptor: &Frame) {
        let (is_last, is_waited_for) = descriptor.put_shared();
        if is_last || is_waited_for {
            self.end_use(frame, is_last, is_waited_for);
        }
    }

    #[cold]
    fn end_use(&self, frame: FrameNumber, is_last: bool, is_waited_for: bool) {
        // The folio is unchanged: a waiter has a reference, and after the last reference was dropped the page is still
        // this task's.
        let frame = self.frames.head(frame);
        if is_waited_for {
            self.wake_latch_waiters(frame);
        }
        if is_last {
            self.orphan(frame);
        }
    }
}
