//! Pages that must not be written yet: before the log is durable up to their log numbers, or before the application releases
//! them ([`crate::page_cache::log_order`]).
//!
//! A write that comes too early is *put off*. The page is then treated like a page whose write has failed
//! ([`super::write_failure`]), except that no error is recorded: no dirty limit counts it, reclaim ignores it, and the
//! flusher keeps it apart and tries to write it again at intervals, or as soon as the log has become durable further or the
//! page is released. If there are too many such pages, writes to their file are refused. No task of the engine ever waits
//! for the log, and none writes it: the application's own task for the log learns by `Access::wait_for_log_wanted` how far
//! it is wanted. One log may be that of many files: what becomes durable then concerns only those of which writes were put
//! off.
//!
//! The order holds only if no page changes while it is being written (`writeback.stable_pages`).

use super::Writeback;
use super::choices::StablePages;
use super::write::Purpose;
use crate::memory::Owner;
use crate::page_cache::file::WriteFailure;
use crate::page_cache::log_order::{LogOrder, WaitsFor};
use crate::page_cache::{File, Log, Tag};
use machine::atomic::Ordering::SeqCst;
use machine::{FrameNumber, Lock, Machine};
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
        let order = file.log_order.get_or_init(|| self.order_of(log.clone()));
        Arc::ptr_eq(&order.log, log)
    }

    fn order_of(&self, log: Arc<Log<M>>) -> Box<LogOrder<M>> {
        Box::new(LogOrder::new(log, self.held_pages.clone()))
    }

    /// Returns the log numbers of a file. If the file has no log yet, it gets one of its own.
    pub(crate) fn log_order<'a>(&self, file: &'a File<M>) -> &'a LogOrder<M> {
        file.log_order.get_or_init(|| self.order_of(Arc::new(Log::new(&self.machine))))
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
        let waits_for_log = || order.waits_for(page).is_some_and(|why| why.log_number.is_some());
        if file.index.has_tag(page, Tag::WriteFailed) && waits_for_log() {
            // The page may wait because of an error, so that the log does not know the file yet.
            self.want_log(&order.log, file, number, false);
        }
    }

    /// Raises the log number of the page in `frame`, which the caller has pinned for writing. Does nothing if the page was
    /// cut off the file meanwhile.
    pub fn raise_log_number_in(&self, file: &File<M>, frame: FrameNumber, number: u64) {
        if let Some(page) = self.page_in(file, frame) {
            self.raise_log_number(file, page, number);
        }
    }

    /// Returns the number of the page of `file` that is in `frame`, which the caller has pinned for writing; `None` if the
    /// page was cut off the file.
    fn page_in(&self, file: &File<M>, frame: FrameNumber) -> Option<u32> {
        // The owner is read after the number, because a page that is cut off loses both.
        let page = self.page_cache().index_of(frame);
        (self.frames[self.frames.head(frame)].owner() == Owner::File(file.id)).then_some(page)
    }

    /// Holds a page: it is not written before it is released ([`Writeback::release_page`]). Returns `false` if as many pages
    /// are held as may be ([`Writeback::held_pages_max`]). The caller has pinned the page for writing, or has not changed it
    /// yet, as for [`Writeback::raise_log_number`].
    #[must_use]
    pub fn hold_page(&self, file: &File<M>, page: u32) -> bool {
        self.log_order(file).hold(page, self.held_pages_max())
    }

    /// Holds the page in `frame`, which the caller has pinned for writing, as [`Writeback::hold_page`] does. If the page was
    /// cut off the file meanwhile, does nothing and returns `true`.
    #[must_use]
    pub fn hold_page_in(&self, file: &File<M>, frame: FrameNumber) -> bool {
        self.page_in(file, frame).is_none_or(|page| self.hold_page(file, page))
    }

    /// Releases a page of a file, so that it may be written, and does not wait for the write. Returns whether the page was
    /// held.
    pub fn release_page(&self, file: &File<M>, page: u32) -> bool {
        let was_held = file.log_order.get().is_some_and(|order| order.release(page));
        if was_held && file.index.has_tag(page, Tag::WriteFailed) {
            self.note_recovery(file);
        }
        was_held
    }

    /// Returns the number of pages that are held, in all files.
    #[must_use]
    pub fn held_pages(&self) -> u64 {
        self.held_pages.load(SeqCst)
    }

    /// Returns the number of pages that may be held at present: half of those that may wait for their writes before writes
    /// to their file are refused. The other half is for pages that wait for the log, and for a limit that falls after pages
    /// were held.
    #[must_use]
    pub fn held_pages_max(&self) -> u64 {
        self.dirty_limits().free_run() / 2
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

    /// Returns what a folio waits for before it may be written; `None` if it may be written now.
    #[inline]
    pub(crate) fn waits_for(&self, file: &File<M>, frame: FrameNumber) -> Option<WaitsFor> {
        let order = file.log_order.get()?;
        let first = self.frames[frame].index();
        let pages = first..first + self.frames.folio(frame).pages();
        pages.filter_map(|page| order.waits_for(page)).reduce(WaitsFor::and)
    }

    /// Puts the write of a dirty page off, which waits for `why`. The caller has locked the page, which is not under
    /// writeback.
    #[cold]
    pub(crate) fn put_off(&self, file: &File<M>, frame: FrameNumber, why: WaitsFor, purpose: Option<Purpose>) {
        let is_new = self.keep_apart(file, frame);
        let order = self.log_order(file);
        if purpose == Some(Purpose::Sync) {
            order.note_unsynced(self.frames[frame].index(), why);
        }
        if let Some(number) = why.log_number {
            self.want_log(&order.log, file, number, is_new);
        }
        if self.waits_for(file, frame).is_none() {
            self.note_recovery(file);
        }
    }

    /// Returns whether a task that writes pages which were put off passes over page `page`, because it is held. This
    /// costs less than an attempt to write it: a long transaction may hold many pages.
    pub(super) fn passes_over_held(&self, file: &File<M>, page: u32, purpose: Purpose) -> bool {
        let Some(order) = file.log_order.get() else { return false };
        // A page that waits for the log, too, goes on to make the log wanted.
        let Some(why) = order.waits_for(page).filter(|why| why.log_number.is_none()) else { return false };
        if purpose == Purpose::Sync {
            order.note_unsynced(page, why);
        }
        true
    }

    /// Returns the first page of a file whose write is put off, as a failed write; `None` if there is none.
    #[must_use]
    pub fn first_put_off(&self, file: &File<M>) -> Option<WriteFailure> {
        let order = file.log_order.get()?;
        let next = |from| file.index.next_tagged(from, Tag::WriteFailed);
        let mut pages = std::iter::successors(next(0), |page| next(page + 1));
        pages.find_map(|page| Some(WriteFailure { page, source: order.waits_for(page)?.error() }))
    }

    /// Removes the log numbers of pages that leave their file, and releases these pages.
    pub(crate) fn forget_log_numbers(&self, file: &File<M>, pages: std::ops::Range<u32>) {
        if let Some(order) = file.log_order.get() {
            pages.for_each(|page| order.forget(page));
        }
    }
}
