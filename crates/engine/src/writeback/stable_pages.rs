//! Pages hold still while they are written (`writeback.stable_pages`).

use super::{Writeback, bounce};
use crate::memory::Flags;
use crate::page_cache::File;
use machine::{FrameNumber, Machine};

impl<M: Machine> Writeback<M> {
    /// Takes the exclusive latch of a page whose bytes the caller is about to change, once no write of it is under way
    /// (`writeback.stable_pages`). None begins while the latch is held: see `Writeback::try_hold_still`. The caller holds a
    /// reference and no page lock. *May sleep.*
    pub fn latch_to_change(&self, file: &File<M>, frame: FrameNumber) {
        loop {
            // Without the latch: readers go on meanwhile.
            self.wait_until_stable(file, frame);
            self.latch(frame, true);
            if self.is_stable(frame) {
                return;
            }
            self.unlatch(frame, true);
        }
    }

    /// Waits until no write of a page is under way, if it must not change meanwhile. The caller holds a reference, or the
    /// page lock. *May sleep.*
    #[doc(alias = "wait_for_stable_page")]
    pub(crate) fn wait_until_stable(&self, file: &File<M>, frame: FrameNumber) {
        if !self.choices.stable_pages.holds_still() {
            return;
        }
        let flags = self.frames[frame].flags();
        // What reclaim writes is never copied.
        if flags.has(Flags::WRITEBACK) && (flags.has(Flags::COPIED) || !flags.has(Flags::RECLAIM)) {
            bounce::note_change(file);
        }
        if !self.is_stable(frame) {
            self.wait_on_writeback(frame);
        }
    }

    /// Returns whether the page's own bytes may change: the device does not read them, or a change does no harm.
    fn is_stable(&self, frame: FrameNumber) -> bool {
        let flags = self.frames[frame].flags();
        !self.choices.stable_pages.holds_still() || !flags.has(Flags::WRITEBACK) || flags.has(Flags::COPIED)
    }

    /// Keeps writers away from a page's bytes while its write begins. Returns `false` if a writer has the latch.
    /// [`Writeback::let_change`] ends it. The caller holds a reference.
    ///
    /// A task that latches the page later finds it under writeback, because that is marked before the latch is
    /// released.
    #[must_use]
    pub(crate) fn try_hold_still(&self, frame: FrameNumber) -> bool {
        !self.choices.stable_pages.holds_still() || self.frames[frame].try_latch(false)
    }

    /// Keeps a page unchanged for its write. It comes after the task that changes the page now, and before tasks that
    /// wait to change it. Otherwise a task that changes the page repeatedly would delay a sync. The caller holds no
    /// page lock, and waits for no other latch meanwhile. *May sleep.*
    pub(super) fn hold_still(&self, frame: FrameNumber) {
        if self.choices.stable_pages.holds_still() {
            self.latch_next(frame);
        }
    }

    /// Ends [`Writeback::try_hold_still`].
    pub(crate) fn let_change(&self, frame: FrameNumber) {
        if self.choices.stable_pages.holds_still() {
            self.unlatch(frame, false);
        }
    }
}
