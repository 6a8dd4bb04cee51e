//! The order in which the pages of files and the records of a log become durable (write-ahead logging).
//!
//! An application gives a page the number of the log record that describes the page's last change, its *log number*
//! (log sequence number, LSN). It says from time to time up to which number its log is durable. Writeback writes no page
//! whose log number is larger (`writeback::log_order`). Nor does it write a page that the application *holds*, until the
//! application releases it.

use super::segments::Segments;
use machine::atomic::{AtomicU64, Ordering};
use machine::{IoError, Lock, LockClass, Machine};
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
        // No log is durable up to the mark of held pages, so that one comparison says that a page may be written.
        let number = number.min(LOG_NUMBER_MAX);
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

/// The largest log number. The remaining bit of a page's word says whether the page is held.
pub const LOG_NUMBER_MAX: u64 = HELD - 1;

/// The bit of a page's word that says that the page is held.
const HELD: u64 = 1 << 63;

/// Why a page must not be written yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitsFor {
    /// The page's log number, if the log is not durable up to it.
    pub(crate) log_number: Option<u64>,
    /// Whether the page is held.
    pub(crate) is_held: bool,
}

impl WaitsFor {
    /// Returns what a folio waits for, one part of which waits for `self`, and the rest for `other`.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { log_number: self.log_number.max(other.log_number), is_held: self.is_held || other.is_held }
    }

    /// Returns the error of a sync that could not write the page. A page that waits for both counts as one that waits for
    /// the log.
    pub(crate) const fn error(self) -> IoError {
        if self.log_number.is_some() { IoError::LogBehind } else { IoError::Held }
    }
}

/// Pages that syncs have put off: their number in the upper half; in the lower half, the last of these pages.
#[derive(Debug, Default)]
struct Unsynced(AtomicU64);

impl Unsynced {
    fn note(&self, page: u32) {
        let next = |old: u64| Some(((old >> 32) + 1) << 32 | u64::from(page));
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    }
}

/// The pages that syncs had put off at some time. It is another value after each further page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PutOff {
    log_behind: u64,
    held: u64,
}

impl PutOff {
    /// Returns the last page that was put off since `start`, and the error for it; `None` if there is none. A page that
    /// waits for the log is returned rather than one that is held.
    pub(crate) const fn since(self, start: Self) -> Option<(u32, IoError)> {
        if self.log_behind != start.log_behind {
            Some((self.log_behind as u32, IoError::LogBehind))
        } else if self.held != start.held {
            Some((self.held as u32, IoError::Held))
        } else {
            None
        }
    }
}

/// Counts of held pages: in one file, and in all files of the machine.
#[derive(Debug)]
struct HeldPages {
    here: AtomicU64,
    all: Arc<AtomicU64>,
}

impl Drop for HeldPages {
    fn drop(&mut self) {
        self.all.fetch_sub(self.here.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// The log numbers of a file's pages, the log that they belong to, and which of the pages are held. A file has this value
/// as soon as it has a log or a held page.
pub(crate) struct LogOrder<M: Machine> {
    /// A word for each page, by the page's number in the file: its log number, 0 if it has none, and [`HELD`]. The word
    /// belongs to the page and not to its frame, so it stays when the page moves to another frame.
    words: Segments<AtomicU64>,
    pub(crate) log: Arc<Log<M>>,
    unsynced: Unsynced,
    unsynced_held: Unsynced,
    held: HeldPages,
}

impl<M: Machine> LogOrder<M> {
    /// Creates the value for a file of which no page is held. `held` counts the held pages of all files.
    pub(crate) fn new(log: Arc<Log<M>>, held: Arc<AtomicU64>) -> Self {
        let held = HeldPages { here: AtomicU64::new(0), all: held };
        Self {
            words: Segments::default(),
            log,
            unsynced: Unsynced::default(),
            unsynced_held: Unsynced::default(),
            held,
        }
    }

    /// Raises the log number of a page to `number`.
    ///
    /// # Panics
    /// Panics when the number is above [`LOG_NUMBER_MAX`].
    pub(crate) fn raise(&self, page: u32, number: u64) {
        assert!(number <= LOG_NUMBER_MAX, "log number {number} is too large");
        let raised = |old: u64| (old & !HELD < number).then_some(old & HELD | number);
        let _ = self.words.get_or_make(page as usize).fetch_update(Ordering::SeqCst, Ordering::SeqCst, raised);
    }

    /// Holds a page, unless as many pages of all files as `pages_max` are held. Returns whether the page is held.
    pub(crate) fn hold(&self, page: u32, pages_max: u64) -> bool {
        let word = self.words.get_or_make(page as usize);
        let has_room = |all: u64| (all < pages_max).then_some(all + 1);
        if word.load(Ordering::SeqCst) & HELD != 0 {
            return true;
        }
        if self.held.all.fetch_update(Ordering::SeqCst, Ordering::SeqCst, has_room).is_err() {
            return false;
        }
        self.held.here.fetch_add(1, Ordering::SeqCst);
        if word.fetch_or(HELD, Ordering::SeqCst) & HELD != 0 {
            // Another task held the page first.
            self.subtract_held();
        }
        true
    }

    /// Releases a page. Returns whether it was held.
    pub(crate) fn release(&self, page: u32) -> bool {
        self.take(page, HELD) & HELD != 0
    }

    /// Removes the log number of a page, and releases it, because the page leaves the file.
    pub(crate) fn forget(&self, page: u32) {
        self.take(page, u64::MAX);
    }

    /// Clears bits of a page's word, and returns the word that it was.
    fn take(&self, page: u32, bits: u64) -> u64 {
        let Some(word) = self.words.get(page as usize) else { return 0 };
        let old = word.fetch_and(!bits, Ordering::SeqCst);
        if old & bits & HELD != 0 {
            self.subtract_held();
        }
        old
    }

    fn subtract_held(&self) {
        self.held.here.fetch_sub(1, Ordering::SeqCst);
        self.held.all.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns what a page waits for before it may be written; `None` if it may be written now.
    #[inline]
    pub(crate) fn waits_for(&self, page: u32) -> Option<WaitsFor> {
        let word = self.words.get(page as usize)?.load(Ordering::SeqCst);
        let durable = self.log.durable.load(Ordering::SeqCst);
        let log_number = Some(word & !HELD).filter(|number| *number > durable);
        (word > durable).then_some(WaitsFor { log_number, is_held: word & HELD != 0 })
    }

    /// Records that a sync has put off page `page`, because of `why`.
    pub(crate) fn note_unsynced(&self, page: u32, why: WaitsFor) {
        match why.log_number {
            Some(_) => self.unsynced.note(page),
            None => self.unsynced_held.note(page),
        }
    }

    /// Returns which pages syncs have put off so far.
    pub(crate) fn put_off(&self) -> PutOff {
        PutOff { log_behind: self.unsynced.0.load(Ordering::SeqCst), held: self.unsynced_held.0.load(Ordering::SeqCst) }
    }
}
