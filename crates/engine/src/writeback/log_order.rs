//! Pages that must not be written before the log is durable up to their log numbers
//! ([`crate::page_cache::log_order`]).
//!
//! A write that comes too early is *put off*. The page is then treated like a page whose write has failed
//! ([`super::write_failure`]), except that no error is recorded: no dirty limit counts it, reclaim ignores it, and the
//! flusher keeps it apart and tries to write it again at intervals, or as soon as the log has become durable further. If
//! there are too many such pages, writes to their file are refused. No task of the engine ever waits for the log, and none
//! writes it: the application's own task for the log learns by `Access::wait_for_log_wanted` how far it is wanted. One log may be
//! that of many files: what becomes durable then concerns only those of which writes were put off.
//!
//! The order holds only if no page changes while it is being written (`writeback.stable_pages`).

use super::Writeback;
use super::choices::StablePages;
use super::write::Purpose;
use crate::memory::Owner;
use crate::page_cache::file::WriteFailure;
use crate::page_cache::log_order::LogOrder;
use crate::page_cache::{File, Log, Tag};
use machine::atomic::Ordering::SeqCst;
use machine::{FrameNumber, IoError, Lock, Machine};
use std::sync::{Arc, Weak};

impl<M: Machine> Writeback<M> {
    /// Returns whether the engine can keep the order of log and pages: pages do not change while they are written.
    #[must_use]
    pub const fn keeps_log_order(&self) -> bool {
        !matches!(self.choices.stable_pages, StablePages::No)
    }

    /// Creates a log for the pages of several files ([`Writeback::set_log`]). It is not durable up to any number yet.
    #[must_use]
    pub fn create_log(&self) -> Arc<Log<M>> {
        let log = Arc::new(Log::new(&self.machine));
        let mut logs = self.logs.lock();
        logs.retain(|log| log.strong_count() > 0);
        logs.push(Arc::downgrade(&log));
        log
    }

    /// Sets the log that the log numbers of a file's pages belong to. Returns `false` if the file has another log: one that
    /// was set before, or its own, because one of its pages has a log number already.
    #[must_use]
    pub fn set_log(&self, file: &File<M>, log: &Arc<Log<M>>) -> bool {
        let order = file.log_order.get_or_init(|| Box::new(LogOrder::new(log.clone())));
        Arc::ptr_eq(&order.log, log)
    }

    /// Returns the log numbers of a file. If the file has no log yet, it gets one of its own.
    pub(crate) fn log_order<'a>(&self, file: &'a File<M>) -> &'a LogOrder<M> {
        file.log_order.get_or_init(|| Box::new(LogOrder::new(Arc::new(Log::new(&self.machine)))))
    }

    /// Returns the log of a file. If the file has none yet, it gets one of its own.
    #[must_use]
    pub fn log_of(&self, file: &File<M>) -> Arc<Log<M>> {
        self.log_order(file).log.clone()
    }

    /// Wakes all tasks that wait until a log is wanted.
    pub(crate) fn wake_log_writers(&self) {
        let logs = self.logs.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        let of_files = self.page_cache().files();
        let own = of_files.iter().filter_map(|file| file.log_order.get()).map(|order| &order.log);
        logs.iter().chain(own).for_each(|log| self.machine.wake(&log.wanted_wait));
    }

    /// Raises the log number of a page to `number`: the page is not written before the log is durable up to it. The caller
    /// has pinned the page for writing, so that no write of the page begins meanwhile; or it has not changed the page yet.
    pub fn raise_log_number(&self, file: &File<M>, page: u32, number: u64) {
        let order = self.log_order(file);
        order.raise(page, number);
        if file.index.has_tag(page, Tag::WriteFailed) && order.missing(page).is_some() {
            // The page may wait because of an error, so that the log does not know the file yet.
            self.want_log(&order.log, file, number, false);
        }
    }

    /// Raises the log number of the page in `frame`, which the caller has pinned for writing. Does nothing if the page was
    /// cut off the file meanwhile.
    pub fn raise_log_number_in(&self, file: &File<M>, frame: FrameNumber, number: u64) {
        // The owner is read after the number, because a page that is cut off loses both.
        let page = self.page_cache().index_of(frame);
        if self.frames[self.frames.head(frame)].owner() == Owner::File(file.id) {
            self.raise_log_number(file, page, number);
        }
    }

    /// Records that a log is durable up to `number`. Pages that need no more are written from now on, although their
    /// writes were put off.
    pub fn note_log_durable(&self, log: &Log<M>, number: u64) {
        if !log.note_durable(number) {
            return;
        }
        // Either this task sees a file of which a write is put off, or the task that puts it off sees the new number.
        for id in log.waiting() {
            let file = self.page_cache().file(id);
            let is_waiting = || file.as_ref().is_some_and(|file| file.failed_pages.pages.load(SeqCst) > 0);
            if !is_waiting() {
                log.remove_waiting(id);
                if !is_waiting() {
                    continue;
                }
                // Meanwhile another write was put off, while the file was noted still.
                log.add_waiting(id);
                self.machine.wake(&log.wanted_wait);
            }
            file.iter().for_each(|file| self.note_recovery(file));
        }
    }

    /// Returns the number up to which a log should become durable, because writes of pages wait for it; `None` if none
    /// waits. The number may be that of a page that is gone. Pages whose writes have failed count as waiting.
    #[must_use]
    pub fn log_wanted(&self, log: &Log<M>) -> Option<u64> {
        let wanted = log.wanted()?;
        let mut files = log.waiting().into_iter().filter_map(|id| self.page_cache().file(id));
        files.any(|file| file.failed_pages.pages() > 0).then_some(wanted)
    }

    /// Records that a write of a file waits for the log. Wakes the tasks that wait until the log is wanted, if there is
    /// something new for them: the number, the file, or the page (`is_new`). A number alone would not do: a larger one
    /// may have been wanted for a page that is gone.
    fn want_log(&self, log: &Log<M>, file: &File<M>, number: u64, is_new: bool) {
        let is_new_file = log.add_waiting(file.id);
        if log.want(number) || is_new_file || is_new {
            self.machine.wake(&log.wanted_wait);
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
    pub(crate) fn put_off_for_log(&self, file: &File<M>, frame: FrameNumber, number: u64, purpose: Option<Purpose>) {
        let is_new = self.keep_apart(file, frame);
        let order = self.log_order(file);
        if purpose == Some(Purpose::Sync) {
            order.note_unsynced(self.frames[frame].index());
        }
        self.want_log(&order.log, file, number, is_new);
        if self.log_number_missing(file, frame).is_none() {
            self.note_recovery(file);
        }
    }

    /// Returns the first page of a file whose write is put off, as a failed write; `None` if there is none.
    #[must_use]
    pub fn first_put_off(&self, file: &File<M>) -> Option<WriteFailure> {
        let order = file.log_order.get()?;
        let next = |from| file.index.next_tagged(from, Tag::WriteFailed);
        let mut pages = std::iter::successors(next(0), |page| next(page + 1));
        let page = pages.find(|page| order.missing(*page).is_some())?;
        Some(WriteFailure { page, source: IoError::LogBehind })
    }

    /// Removes the log numbers of pages that leave their file.
    pub(crate) fn forget_log_numbers(&self, file: &File<M>, pages: std::ops::Range<u32>) {
        if let Some(order) = file.log_order.get() {
            pages.for_each(|page| order.forget(page));
        }
    }
}
