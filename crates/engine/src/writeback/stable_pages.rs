//! Stable pages, whose bytes do not change while the page is written (`writeback.stable_pages`).
//!
//! If pages are not stable, a single kind of page is not written while a task has it: a page that lies only partly within
//! its file and is pinned for writing. The task may store anything after the end of the file, and another task may make
//! the file longer meanwhile. The added bytes are zeroes only once the first task has released the page.

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

    /// Marks a locked page that a task pins for writing and that lies only partly within its file. If pages are not
    /// stable, no write of the page begins before [`Writeback::close_end`] is called. The task has the exclusive latch.
    /// Before it changes the page, it calls [`Writeback::wait_until_end_is_open`].
    pub(crate) fn open_end(&self, frame: FrameNumber) {
        if !self.choices.stable_pages.holds_still() {
            self.frames[frame].set(Flags::OPEN_END);
        }
    }

    /// Waits until the write of a page has ended that began before [`Writeback::open_end`]. The calling task may sleep.
    pub(crate) fn wait_until_end_is_open(&self, frame: FrameNumber) {
        if !self.is_end_open_at_once(frame) {
            self.page_cache().wait_on_writeback(frame);
        }
    }

    /// Returns whether a task that calls [`Writeback::open_end`] for a page need not wait afterwards.
    pub(crate) fn is_end_open_at_once(&self, frame: FrameNumber) -> bool {
        self.choices.stable_pages.holds_still() || !self.frames[frame].is(Flags::WRITEBACK)
    }

    /// Ends what [`Writeback::open_end`] began. All bytes of the page after the end of the file are zeroes again. The
    /// caller still has the latch.
    pub(crate) fn close_end(&self, frame: FrameNumber) {
        if !self.choices.stable_pages.holds_still() {
            self.frames[frame].clear(Flags::OPEN_END);
        }
    }

    /// Keeps tasks from changing a page's bytes while the page's write begins, until [`Writeback::let_change`] is
    /// called. Returns `false` if a task that may change the bytes has the page's latch. If pages are not stable, this
    /// concerns only a page that [`Writeback::open_end`] has marked. The caller has locked the page.
    ///
    /// A task that latches the page afterwards finds it under writeback, because the page is marked before the latch is
    /// released.
    #[must_use]
    pub(crate) fn try_hold_still(&self, frame: FrameNumber) -> bool {
        match self.choices.stable_pages.holds_still() {
            true => self.frames[frame].try_latch(false),
            false => !self.frames[frame].is(Flags::OPEN_END),
        }
    }

    /// Waits until no task is changing a page, then locks the page and keeps tasks from changing it while its write
    /// begins. The write begins when the task that is changing the page is done, and before tasks that wait to change
    /// the page. Otherwise a task that changes the page repeatedly would delay a sync. The caller holds a reference to
    /// the page, no page lock and no other latch. The calling task may sleep.
    pub(super) fn lock_still(&self, frame: FrameNumber) {
        self.page_cache().latch_next(frame);
        self.page_cache().lock_page(frame);
        if !self.choices.stable_pages.holds_still() {
            // From here on the page lock suffices, because a page is marked by `open_end` only while it is locked.
            self.page_cache().unlatch(frame, false);
        }
    }

    /// Allows tasks to change a page's bytes again, after [`Writeback::try_hold_still`] or [`Writeback::lock_still`]
    /// kept them from it.
    pub(crate) fn let_change(&self, frame: FrameNumber) {
        if self.choices.stable_pages.holds_still() {
            self.page_cache().unlatch(frame, false);
        }
    }
}
