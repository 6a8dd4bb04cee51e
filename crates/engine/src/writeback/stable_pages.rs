//! Stable pages: the bytes of a page do not change while the page is written (`writeback.stable_pages`).

use super::{Writeback, bounce};
use crate::memory::Flags;
use crate::page_cache::File;
use machine::{FrameNumber, Machine};

impl<M: Machine> Writeback<M> {
    /// Takes the exclusive latch of a page whose bytes the caller is about to change. If pages are stable, first waits
    /// until no write of the page is under way. No write begins while the latch is held: see
    /// `Writeback::try_hold_still`. The caller holds a reference and no page lock. *May sleep.*
    pub fn latch_to_change(&self, file: &File<M>, frame: FrameNumber) {
        loop {
            // This task waits without the latch, so that readers are not kept waiting.
            self.wait_until_stable(file, frame);
            self.latch(frame, true);
            if self.is_stable(frame) {
                return;
            }
            self.unlatch(frame, true);
        }
    }

    /// Waits until no write of a page is under way, if the page must not change during a write. The caller holds a
    /// reference or the page lock. *May sleep.*
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
            self.wait_on_writeback(frame);
        }
    }

    /// Returns whether a task may change the page's own bytes now, because the device is not reading them, or because a
    /// change does no harm.
    fn is_stable(&self, frame: FrameNumber) -> bool {
        let flags = self.frames[frame].flags();
        !self.choices.stable_pages.holds_still() || !flags.has(Flags::WRITEBACK) || flags.has(Flags::COPIED)
    }

    /// Keeps tasks from changing a page's bytes while the page's write begins. Returns `false` if a task that may
    /// change them has the latch. [`Writeback::let_change`] ends the hold. The caller holds a reference.
    ///
    /// A task that latches the page afterwards finds it under writeback, because the page is marked before the latch is
    /// released.
    #[must_use]
    pub(crate) fn try_hold_still(&self, frame: FrameNumber) -> bool {
        !self.choices.stable_pages.holds_still() || self.frames[frame].try_latch(false)
    }

    /// Waits until no task is changing a page, then keeps tasks from changing it while its write begins. The write
    /// comes after the task that is changing the page now, but before tasks that wait to change it. Otherwise a task
    /// that changes the page repeatedly would delay a sync. The caller holds no page lock, and waits for no other latch
    /// meanwhile. *May sleep.*
    pub(super) fn hold_still(&self, frame: FrameNumber) {
        if self.choices.stable_pages.holds_still() {
            self.latch_next(frame);
        }
    }

    /// Ends the hold of [`Writeback::try_hold_still`] or [`Writeback::hold_still`].
    pub(crate) fn let_change(&self, frame: FrameNumber) {
        if self.choices.stable_pages.holds_still() {
            self.unlatch(frame, false);
        }
    }
}
