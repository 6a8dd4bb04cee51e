//! Stable pages, whose bytes do not change while the page is written (`writeback.stable_pages`).

use super::{Writeback, bounce};
use crate::memory::Flags;
use crate::page_cache::{File, Wait};
use machine::{FrameNumber, Machine};

impl<M: Machine> Writeback<M> {
    /// Takes the exclusive latch of a page whose bytes the caller is about to change. If the page must not change
    /// during a write, first waits until no write of the page is under way. No write of the page begins while the latch
    /// is held: see `Writeback::try_hold_still`. The caller holds a reference to the page, and no page lock. The
    /// calling task may sleep.
    pub fn latch_to_change(&self, file: &File<M>, frame: FrameNumber) {
        let is_latched = self.latch_to_change_within(file, frame, Wait::Forever);
        debug_assert!(is_latched, "a wait without an end has ended");
    }

    /// Takes the latch as [`Writeback::latch_to_change`] does, but waits for the latch only as long as `wait` says. If
    /// `wait` is [`Wait::No`], does not wait for the page's write either. Returns whether the latch was taken.
    #[must_use]
    pub fn latch_to_change_within(&self, file: &File<M>, frame: FrameNumber, wait: Wait) -> bool {
        loop {
            if wait != Wait::No {
                // This task waits without the latch, so that readers are not kept waiting.
                self.wait_until_stable(file, frame);
            }
            if !self.page_cache().latch_within(frame, true, wait) {
                return false;
            }
            if self.is_stable(frame) {
                return true;
            }
            self.page_cache().unlatch(frame, true);
            if wait == Wait::No {
                return false;
            }
        }
    }

    /// If the kernel requires that pages do not change under writeback, waits until a page is no longer under
    /// writeback. Does not wait if the writeback reads a copy of the page. The caller holds a reference to the page, or
    /// the page lock. The calling task may sleep.
    #[doc(alias = "wait_for_stable_page")]
    pub(crate) fn wait_until_stable(&self, file: &File<M>, frame: FrameNumber) {
        if !self.choices.stable_pages.holds_still() {
            return;
        }
        let flags = self.frames[frame].flags();
        // Pages that reclaim writes are never copied.
        if flags.has(Flags::WRITEBACK) && (flags.has(Flags::COPIED) || !flags.has(Flags::RECLAIM)) {
            bounce::note_change(file);
        }
        if !self.is_stable(frame) {
            self.page_cache().wait_on_writeback(frame);
        }
    }

    /// Returns whether a task may change a page's bytes at once, without a wait and without a copy. This is so if the
    /// page is not under writeback, if its writeback reads a copy, or if the kernel does not require stable pages.
    pub(crate) fn is_stable(&self, frame: FrameNumber) -> bool {
        let flags = self.frames[frame].flags();
        !self.choices.stable_pages.holds_still() || !flags.has(Flags::WRITEBACK) || flags.has(Flags::COPIED)
    }

    /// Keeps tasks from changing a page's bytes while the page's write begins, until [`Writeback::let_change`] is
    /// called. Returns `false` if a task that may change the bytes has the page's latch. The caller holds a reference
    /// to the page.
    ///
    /// A task that latches the page afterwards finds it under writeback, because the page is marked before the latch is
    /// released.
    #[must_use]
    pub(crate) fn try_hold_still(&self, frame: FrameNumber) -> bool {
        !self.choices.stable_pages.holds_still() || self.frames[frame].try_latch(false)
    }

    /// Waits until no task is changing a page, then keeps tasks from changing it while its write begins. The write
    /// begins when the task that is changing the page is done, and before tasks that wait to change the page. Otherwise
    /// a task that changes the page repeatedly would delay a sync. The caller holds no page lock and no other latch.
    /// The calling task may sleep.
    pub(super) fn hold_still(&self, frame: FrameNumber) {
        if self.choices.stable_pages.holds_still() {
            self.page_cache().latch_next(frame);
        }
    }

    /// Allows tasks to change a page's bytes again, after [`Writeback::try_hold_still`] or [`Writeback::hold_still`]
    /// kept them from it.
    pub(crate) fn let_change(&self, frame: FrameNumber) {
        if self.choices.stable_pages.holds_still() {
            self.page_cache().unlatch(frame, false);
        }
    }
}
