//! The states of a page from dirty to clean, and their counters.
//!
//! A page is dirty (newer than the device), then under writeback (being written), then clean. Each change of state is
//! made by the holder of the page lock, or by the interrupt that ends the page's write. *Description*:
//! mechanisms/reclaim, 13.5.

use super::Writeback;
use super::choices::SwapWriteback;
use crate::memory::Flags;
use crate::page_cache::{File, Tag};
use crate::stat::{Event, Gauge};
use machine::atomic::Ordering::Relaxed;
use machine::{FrameNumber, Hazards, IoError, Machine, Step};
use std::sync::Arc;

impl<M: Machine> Writeback<M> {
    /// Marks a locked, valid folio of a file dirty. Returns the number of pages of the folio if the folio was clean;
    /// otherwise returns 0.
    pub fn set_page_dirty(&self, file: &Arc<File<M>>, frame: FrameNumber) -> u64 {
        let descriptor = &self.frames[frame];
        if descriptor.test_set(Flags::DIRTY) {
            return 0;
        }
        {
            let _guard = self.page_cache().lock_index(&file.i_pages);
            self.for_each_index(frame, |index| file.index.set_tag(index, Tag::Dirty));
            self.machine.spend(Step::DirtyPage, 1);
        }
        let pages = self.frames.pages(frame);
        if self.machine.hazards().are_on() {
            descriptor.note_written();
        }
        self.stat.count(Event::NrDirtied, pages);
        let backing = self.backing(file.backing);
        backing.dirtied.fetch_add(pages, Relaxed);
        backing.of_groups.note_dirtied(self.frames.group(frame), pages);
        self.account_dirty(file, frame);
        pages
    }

    /// Restores the dirty mark of a locked page after it was cleared for a write that did not begin. The page is not
    /// counted as dirtied again, because no task has dirtied it.
    pub(super) fn redirty_page(&self, file: &File<M>, frame: FrameNumber) {
        if !self.frames[frame].test_set(Flags::DIRTY) {
            self.machine.spend(Step::DirtyPage, 1);
            self.account_dirty(file, frame);
        }
    }

    /// Calls `visit` for each page of a folio, with the page's number in its file.
    pub(super) fn for_each_index(&self, head: FrameNumber, mut visit: impl FnMut(u32)) {
        let first = self.frames[head].index();
        (first..first + self.frames.folio(head).pages()).for_each(&mut visit);
    }

    fn account_dirty(&self, file: &File<M>, frame: FrameNumber) {
        self.count_dirty(file, frame, 1);
        self.list_dirty_file(file, frame);
    }

    /// Adds the pages of a folio to the numbers of dirty pages (`sign` 1), or subtracts them (`sign` -1).
    fn count_dirty(&self, file: &File<M>, frame: FrameNumber, sign: i64) {
        let pages = sign * self.frames.pages(frame) as i64;
        self.memory().add_gauge(frame, Gauge::NrDirty, pages);
        self.backing(file.backing).dirty.fetch_add(pages, Relaxed);
    }

    /// Clears the dirty mark of a locked page, which the caller is about to write. Returns whether the page was dirty.
    pub(crate) fn clear_dirty_for_io(&self, file: &File<M>, frame: FrameNumber) -> bool {
        self.write_protect_page(file, frame);
        if !self.frames[frame].test_clear(Flags::DIRTY) {
            return false;
        }
        self.count_dirty(file, frame, -1);
        true
    }

    /// Clears the dirty mark of a locked page without a write, because the page is about to leave its file.
    pub(crate) fn cancel_dirty(&self, file: &File<M>, frame: FrameNumber) {
        self.forget_write_failure(file, frame);
        if self.clear_dirty_for_io(file, frame) {
            self.end_reservations(file, frame);
        }
    }

    pub(super) fn start_writeback(&self, file: &File<M>, frame: FrameNumber) {
        let descriptor = &self.frames[frame];
        let was = descriptor.test_set(Flags::WRITEBACK);
        assert!(!was, "{frame} is under writeback already: {descriptor:?}");
        {
            let _guard = self.page_cache().lock_index(&file.i_pages);
            let is_clean = !descriptor.is(Flags::DIRTY);
            self.for_each_index(frame, |index| {
                file.index.set_tag(index, Tag::Writeback);
                if is_clean {
                    file.index.clear_tag(index, Tag::Dirty);
                }
            });
            self.machine.spend(Step::WritebackPage, 1);
        }
        let pages = self.frames.pages(frame) as i64;
        self.memory().add_gauge(frame, Gauge::NrWriteback, pages);
        self.backing(file.backing).writeback.fetch_add(pages, Relaxed);
        self.start_retry(file, frame);
    }

    /// Ends the write of a page, which may then be freed or written again. Called by the handler of the disk interrupt
    /// (module `interrupt`).
    pub(crate) fn end_writeback(&self, frame: FrameNumber, file: Option<&File<M>>) {
        let (descriptor, pages) = (&self.frames[frame], self.frames.pages(frame));
        match file {
            Some(file) => {
                {
                    let _guard = self.page_cache().lock_index(&file.i_pages);
                    self.for_each_index(frame, |index| file.index.clear_tag(index, Tag::Writeback));
                }
                self.memory().add_gauge(frame, Gauge::NrWriteback, -(pages as i64));
                let backing = self.backing(file.backing);
                backing.writeback.fetch_sub(pages as i64, Relaxed);
                backing.written.fetch_add(pages, Relaxed);
                backing.of_groups.note_written(self.frames.group(frame), pages);
            }
            None if self.counts_swap_writeback() => self.memory().add_gauge(frame, Gauge::NrWriteback, -(pages as i64)),
            None => {}
        }
        self.stat.count(Event::NrWritten, pages);
        // `COPIED` is cleared before `WRITEBACK`. In between, the page only looks as if its own bytes were being
        // written.
        if self.choices.stable_pages.holds_still() {
            descriptor.test_clear(Flags::COPIED);
        }
        let was = descriptor.test_clear(Flags::WRITEBACK);
        assert!(was, "{frame} ended a writeback that never started: {descriptor:?}");
        self.machine.wake_for(self.page_cache().page_queue(frame), frame);
        if let Some(file) = file {
            self.wake_dirty_waiter(self.backing(file.backing));
        }
    }

    /// Records that a page of a file was written without an error. `interrupt` calls this function before the page's
    /// writeback ends.
    pub(crate) fn end_good_write(&self, file: &File<M>, frame: FrameNumber) {
        file.note_stored(self.frames[frame].index() + self.pages_to_write(file, frame) - 1);
        self.end_good_retry(file, frame);
    }

    /// Records that a page of a file could not be written. `interrupt` calls this before the page's writeback ends.
    pub(crate) fn end_failed_write(&self, file: &File<M>, frame: FrameNumber, error: IoError) {
        let stays = self.choices.write_failure.keeps_dirty();
        if stays && !self.frames[frame].test_set(Flags::DIRTY) {
            self.reserve_blocks_again(file, frame);
            self.count_dirty(file, frame, 1);
        }
        self.note_write_failure(file, frame, error);
    }

    pub(super) fn counts_swap_writeback(&self) -> bool {
        match self.choices.swap_writeback {
            SwapWriteback::Counted => true,
            SwapWriteback::Ignored => false,
        }
    }
}
