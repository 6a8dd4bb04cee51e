//! The state of a page on its way to the device, and its counters.
//!
//! A page is dirty (newer than the device), then under writeback (being written), then clean. Every
//! change of state is made by the holder of the page lock, or by the completion of its write.
//! Description: mechanisms/reclaim, 13.5.

use super::Writeback;
use super::choices::SwapWriteback;
use crate::memory::Flags;
use crate::page_cache::{File, Tag};
use crate::stat::{Event, Gauge};
use machine::atomic::Ordering::Relaxed;
use machine::{FrameNumber, Hazards, IoError, Machine, Step};
use std::sync::Arc;

impl<M: Machine> Writeback<M> {
    /// Marks a locked, valid page of a file dirty. Returns whether it was clean.
    pub fn set_page_dirty(&self, file: &Arc<File<M>>, frame: FrameNumber) -> bool {
        let descriptor = &self.frames[frame];
        if descriptor.test_set(Flags::DIRTY) {
            return false;
        }
        {
            let _guard = self.lock_index(&file.i_pages);
            file.index.set_tag(descriptor.index(), Tag::Dirty);
            self.machine.spend(Step::DirtyPage, 1);
        }
        if self.machine.hazards().are_on() {
            descriptor.note_written();
        }
        self.stat.count(Event::NrDirtied, 1);
        self.backing(file.backing).dirtied.fetch_add(1, Relaxed);
        self.account_dirty(file, frame);
        true
    }

    /// Restores the dirty mark of a locked page from which it was just taken. No task dirtied the page, so it does not
    /// count as dirtied again.
    pub(super) fn redirty_page(&self, file: &File<M>, frame: FrameNumber) {
        if !self.frames[frame].test_set(Flags::DIRTY) {
            self.machine.spend(Step::DirtyPage, 1);
            self.account_dirty(file, frame);
        }
    }

    fn account_dirty(&self, file: &File<M>, frame: FrameNumber) {
        self.add_gauge(frame, Gauge::NrDirty, 1);
        self.backing(file.backing).dirty.fetch_add(1, Relaxed);
        self.list_dirty_file(file);
    }

    /// Clears the dirty mark of a locked page. Returns whether it was dirty.
    pub(crate) fn clear_dirty_for_io(&self, file: &File<M>, frame: FrameNumber) -> bool {
        self.write_protect_page(file, frame);
        if !self.frames[frame].test_clear(Flags::DIRTY) {
            return false;
        }
        self.add_gauge(frame, Gauge::NrDirty, -1);
        self.backing(file.backing).dirty.fetch_sub(1, Relaxed);
        true
    }

    /// Clears the dirty mark of a locked page without a write, because its file is going away.
    pub(crate) fn cancel_dirty(&self, file: &File<M>, frame: FrameNumber) {
        self.forget_write_failure(file, frame);
        if self.clear_dirty_for_io(file, frame) && file.block(self.frames[frame].index()).is_none() {
            self.end_reservation(file.backing);
        }
    }

    pub(super) fn start_writeback(&self, file: &File<M>, frame: FrameNumber) {
        let descriptor = &self.frames[frame];
        let was = descriptor.test_set(Flags::WRITEBACK);
        assert!(!was, "{frame} is under writeback already: {descriptor:?}");
        {
            let _guard = self.lock_index(&file.i_pages);
            file.index.set_tag(descriptor.index(), Tag::Writeback);
            if !descriptor.is(Flags::DIRTY) {
                file.index.clear_tag(descriptor.index(), Tag::Dirty);
            }
            self.machine.spend(Step::WritebackPage, 1);
        }
        self.add_gauge(frame, Gauge::NrWriteback, 1);
        self.backing(file.backing).writeback.fetch_add(1, Relaxed);
        self.start_retry(file, frame);
    }

    /// Ends the write of a page, which may then be freed or written again. Called by `interrupt`.
    pub(crate) fn end_writeback(&self, frame: FrameNumber, file: Option<&File<M>>) {
        let descriptor = &self.frames[frame];
        match file {
            Some(file) => {
                {
                    let _guard = self.lock_index(&file.i_pages);
                    file.index.clear_tag(descriptor.index(), Tag::Writeback);
                }
                self.add_gauge(frame, Gauge::NrWriteback, -1);
                let backing = self.backing(file.backing);
                backing.writeback.fetch_sub(1, Relaxed);
                backing.written.fetch_add(1, Relaxed);
            }
            None if self.counts_swap_writeback() => self.add_gauge(frame, Gauge::NrWriteback, -1),
            None => {}
        }
        self.stat.count(Event::NrWritten, 1);
        // First: without both the page would look as if its own bytes were being written.
        descriptor.test_clear(Flags::COPIED);
        let was = descriptor.test_clear(Flags::WRITEBACK);
        assert!(was, "{frame} ended a writeback that never started: {descriptor:?}");
        self.machine.wake(self.page_queue(frame));
        if let Some(file) = file {
            self.wake_dirty_waiter(self.backing(file.backing));
        }
    }

    /// Notes that a page of a file was written. Called by `interrupt`, before the page's writeback ends.
    pub(crate) fn end_good_write(&self, file: &File<M>, frame: FrameNumber) {
        file.note_stored(self.frames[frame].index());
        self.end_good_retry(file, frame);
    }

    /// Notes that a page of a file could not be written. Called by `interrupt`, before the page's writeback ends.
    pub(crate) fn end_failed_write(&self, file: &File<M>, frame: FrameNumber, error: IoError) {
        let stays = self.choices.write_failure.keeps_dirty();
        if stays && !self.frames[frame].test_set(Flags::DIRTY) {
            self.add_gauge(frame, Gauge::NrDirty, 1);
            self.backing(file.backing).dirty.fetch_add(1, Relaxed);
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
