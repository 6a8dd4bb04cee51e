//! The order in which the pages of files and the records of a log become durable (write-ahead logging).
//!
//! An application gives a page the number of the log record that describes the page's last change, its *log number*
//! (log sequence number, LSN). It says from time to time up to which number its log is durable. Writeback writes no page
//! whose log number is larger (`writeback::log_order`).

use super::segments::Segments;
use machine::atomic::{AtomicU64, Ordering};
use machine::{Lock, LockClass, Machine};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A log, whose records are durable up to a number. The pages of one file wait for it, or those of several files.
pub struct Log<M: Machine> {
    /// The log is durable up to this number.
    durable: AtomicU64,
    /// The largest log number for which a write of a page was put off, even if this page is gone.
    wanted: AtomicU64,
    /// The files with pages whose writes were put off. Some of the files may have no such page any more.
    waiting: M::Lock<BTreeSet<u32>>,
    /// The queue of tasks that wait until a write is put off.
    pub(crate) wanted_wait: M::WaitQueue,
}

impl<M: Machine> Log<M> {
    pub(crate) fn new(machine: &M) -> Self {
        Self {
            durable: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            waiting: machine.lock(LockClass::Other, BTreeSet::new()),
            wanted_wait: machine.wait_queue(),
        }
    }

    /// Records that the log is durable up to `number`. Returns whether it was not before.
    pub(crate) fn note_durable(&self, number: u64) -> bool {
        self.durable.fetch_max(number, Ordering::SeqCst) < number
    }

    /// Records that a write was put off until the log is durable up to `number`. Returns whether no write had to wait for
    /// so large a number before.
    pub(crate) fn want(&self, number: u64) -> bool {
        self.wanted.fetch_max(number, Ordering::SeqCst) < number
    }

    /// Returns the largest log number for which a write was put off, if the log is not durable up to it.
    pub(crate) fn wanted(&self) -> Option<u64> {
        let wanted = self.wanted.load(Ordering::SeqCst);
        (wanted > self.durable.load(Ordering::SeqCst)).then_some(wanted)
    }

    /// Returns the numbers of the files of which writes were put off.
    pub(crate) fn waiting(&self) -> Vec<u32> {
        self.waiting.lock().iter().copied().collect()
    }

    /// Notes that a write of a file was put off. Returns whether the file was not noted before.
    pub(crate) fn add_waiting(&self, file: u32) -> bool {
        self.waiting.lock().insert(file)
    }

    /// Forgets a file, of which no write is put off any more.
    pub(crate) fn remove_waiting(&self, file: u32) {
        self.waiting.lock().remove(&file);
    }
}

/// The log numbers of a file's pages, and the log that they belong to. A file has this value as soon as it has a log.
pub(crate) struct LogOrder<M: Machine> {
    /// The log number of each page, by the page's number in the file; 0 for a page without one. The number belongs to the
    /// page and not to its frame, so it stays when the page moves to another frame.
    numbers: Segments<AtomicU64>,
    pub(crate) log: Arc<Log<M>>,
    /// Number of pages that syncs have put off, in the upper half; in the lower half, the last of these pages.
    unsynced: AtomicU64,
}

impl<M: Machine> LogOrder<M> {
    pub(crate) fn new(log: Arc<Log<M>>) -> Self {
        Self { numbers: Segments::default(), log, unsynced: AtomicU64::new(0) }
    }

    /// Raises the log number of a page to `number`.
    pub(crate) fn raise(&self, page: u32, number: u64) {
        self.numbers.get_or_make(page as usize).fetch_max(number, Ordering::SeqCst);
    }

    /// Removes the log number of a page, because the page leaves the file.
    pub(crate) fn forget(&self, page: u32) {
        self.numbers.get(page as usize).inspect(|number| number.store(0, Ordering::SeqCst));
    }

    /// Returns the log number of a page if the log is not durable up to it; otherwise `None`.
    pub(crate) fn missing(&self, page: u32) -> Option<u64> {
        let number = self.numbers.get(page as usize)?.load(Ordering::SeqCst);
        (number > self.log.durable.load(Ordering::SeqCst)).then_some(number)
    }

    /// Records that a sync has put off page `page`.
    pub(crate) fn note_unsynced(&self, page: u32) {
        let next = |old: u64| Some(((old >> 32) + 1) << 32 | u64::from(page));
        let _ = self.unsynced.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    }

    /// Returns a value that is another one after each page that a sync has put off, and whose lower half is the last of
    /// these pages.
    pub(crate) fn unsynced(&self) -> u64 {
        self.unsynced.load(Ordering::SeqCst)
    }
}
