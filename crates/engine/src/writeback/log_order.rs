//! Pages that must not be written before the log is durable up to their log numbers
//! ([`crate::page_cache::log_order`]).
//!
//! A page whose write is put off is *held*. A held page is treated like a page whose write has failed
//! ([`super::write_failure`]), except that no error is recorded: no dirty limit counts it, reclaim ignores it, and the
//! flusher keeps it apart and tries to write it again at intervals, or as soon as the log has become durable further. If
//! there are too many held pages, writes to their file are refused. No task of the engine ever waits for the log, and none
//! writes it: the application's own task for the log learns by [`Writeback::wait_for_log_wanted`] how far it is wanted.

use super::Writeback;
use crate::page_cache::file::WriteFailure;
use crate::page_cache::log_order::LogOrder;
use crate::page_cache::{File, Tag};
use machine::{FrameNumber, IoError, Machine, Nanos};

impl<M: Machine> Writeback<M> {
    /// Raises the log number of a page to `number`: the page is not written before the log is durable up to it. The caller
    /// has pinned the page for writing, so that no write of the page begins meanwhile; or it has not changed the page yet.
    /// The page need not be in memory.
    pub fn raise_log_number(&self, file: &File<M>, page: u32, number: u64) {
        file.log_order.get_or_init(|| Box::new(LogOrder::new(&self.machine))).raise(page, number);
    }

    /// Raises the log number of the page in `frame`, which the caller has pinned for writing.
    pub fn raise_log_number_in(&self, file: &File<M>, frame: FrameNumber, number: u64) {
        self.raise_log_number(file, self.index_of(frame), number);
    }

    /// Records that the log is durable up to `number`. Held pages that need no more are written from now on.
    pub fn note_log_durable(&self, file: &File<M>, number: u64) {
        let order = file.log_order.get_or_init(|| Box::new(LogOrder::new(&self.machine)));
        // A page that is held just now, for a number that has become durable, is written at the next interval.
        if order.note_durable(number) && file.failed_pages.pages() > 0 {
            self.note_recovery(file);
        }
    }

    /// Returns the number up to which the log should become durable, because writes of pages of the file wait for it;
    /// `None` if none waits.
    #[must_use]
    pub fn log_wanted(&self, file: &File<M>) -> Option<u64> {
        file.log_order.get()?.wanted()
    }

    /// Waits until writes of pages wait for the log, but not longer than until `end`. Returns the number up to which the
    /// log should become durable; `None` if no write waits. The calling task may sleep.
    #[must_use]
    pub fn wait_for_log_wanted(&self, file: &File<M>, end: Nanos) -> Option<u64> {
        let order = file.log_order.get_or_init(|| Box::new(LogOrder::new(&self.machine)));
        loop {
            let ticket = self.machine.ticket(&order.wanted_wait);
            let wanted = order.wanted();
            if wanted.is_some() || self.machine.now() >= end || self.machine.is_killed() {
                return wanted;
            }
            self.machine.sleep(&order.wanted_wait, ticket, Some(end));
        }
    }

    /// Returns the largest log number of a folio's pages up to which the log is not durable; `None` if the folio may be
    /// written.
    #[inline]
    pub(crate) fn log_number_missing(&self, file: &File<M>, frame: FrameNumber) -> Option<u64> {
        let order = file.log_order.get()?;
        let first = self.frames[frame].index();
        (first..first + self.frames.folio(frame).pages()).filter_map(|page| order.missing(page)).max()
    }

    /// Puts the write of a dirty page off, because the log is not durable up to `number`. The caller has locked the page,
    /// which is not under writeback.
    #[cold]
    pub(crate) fn hold_for_log(&self, file: &File<M>, frame: FrameNumber, number: u64) {
        self.keep_apart(file, frame);
        let order = file.log_order.get().expect("the page has a log number");
        if order.want(number) {
            self.machine.wake(&order.wanted_wait);
        }
    }

    /// Returns the first page of a file that is held, as a failed write; `None` if no page is held.
    #[must_use]
    pub fn first_held(&self, file: &File<M>) -> Option<WriteFailure> {
        let order = file.log_order.get()?;
        let next = |from| file.index.next_tagged(from, Tag::WriteFailed);
        let mut pages = std::iter::successors(next(0), |page| next(page + 1));
        let page = pages.find(|page| order.missing(*page).is_some())?;
        Some(WriteFailure { page, source: IoError::LogBehind })
    }

    /// Removes the log numbers of a page that leaves its file.
    pub(super) fn forget_log_number(&self, file: &File<M>, frame: FrameNumber) {
        if let Some(order) = file.log_order.get() {
            self.for_each_index(frame, |index| order.forget(index));
        }
    }
}
