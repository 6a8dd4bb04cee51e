//! A file: the index of its pages in memory, the places of its blocks on the device, and the state of its writeback.

use super::file_index::FileIndex;
use super::log_order::{Log, LogOrder, PutOff};
use super::segments::Segments;
use machine::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering};
use machine::{DeviceId, IoError, LockClass, Machine};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The value for "no block yet". No page has block 0 of the device, because this block belongs to the file system
/// itself.
const NO_BLOCK: u64 = 0;

/// The way in which the pages of a file get blocks of the device.
#[derive(Debug)]
enum Placement {
    /// For each page, the number of its block on the device. A page gets its block when it is first written (delayed
    /// allocation); until then, the number is 0.
    Delayed(Box<Segments<AtomicU64>>),
    /// The file is a device of its own: page `n` of the file is block `n` of this device. The file system of the
    /// operating system decides where the block is on the real disk, and the engine does not know it.
    Placed {
        /// Number of pages that have contents on the device. The pages from this number on read as zeroes.
        stored_pages: AtomicU32,
        /// The pages that are just being punched out of the file, and so read as zeroes: the first page in the upper
        /// half of the word, the page after the last in the lower half. 0 if no hole is being punched.
        punched: AtomicU64,
    },
}

/// A file: its cached pages, the places of its blocks, and the state of its writeback.
pub struct File<M: Machine> {
    /// Number of the file in the table of files.
    pub id: u32,
    /// The device on which the file's blocks lie.
    pub device: DeviceId,
    /// The device whose dirty limits and flusher apply to the file. It equals `device`, unless the file is a device of
    /// its own.
    pub backing: DeviceId,
    /// The pages of the file that are in memory.
    pub index: FileIndex,
    /// The lock under which the index is changed.
    pub i_pages: M::Lock<()>,
    length: AtomicU64,
    placement: Placement,
    /// Number of the page at which the flusher's next writeback of the file continues.
    pub writeback_index: AtomicU32,
    /// `true` if the file is on one of its device's lists of dirty files. A writer tags a page and then reads this
    /// flag. The flusher takes the file off its list, which clears the flag, and then looks for tags. At least one of
    /// the two tasks must see the step of the other, so all four steps are sequentially consistent.
    pub(crate) is_listed: AtomicBool,
    /// Number of the memory control group for which the flusher writes the file (`writeback.group_limits`).
    pub(crate) writeback_group: AtomicU16,
    /// `true` while a task writes the file's dirty pages. If two tasks wrote the file at the same time, they would
    /// write single pages instead of extents.
    pub(crate) is_being_written: AtomicBool,
    /// The queue of tasks that wait for their turn to write the file's dirty pages.
    pub(crate) written_wait: M::WaitQueue,
    /// Number of syncs that wait in `written_wait`.
    pub(crate) syncs_waiting: AtomicU32,
    /// Number of future writes of the file's pages that are to be made from copies of the pages. The number is set to
    /// its largest value when a page is changed while it is being written (`writeback.stable_pages =
    /// "copy-when-changed"`).
    pub(crate) copies_left: AtomicU32,
    /// Number of regions that map the file; `anonymous::mappers` has the regions.
    pub(crate) mapper_count: AtomicU32,
    /// Number of open handles of the file. [`crate::access::Access::open`] and `close` change it.
    pub(crate) handles: AtomicU32,
    /// Number of beginnings and ends of changes that dropped pages of the file: truncations and punched holes.
    cuts: AtomicU64,
    /// Number of failed writes of the file (`errseq_t`). A caller that stores the number can later see whether another
    /// write has failed.
    failed_writes: AtomicU32,
    /// Number of failed writes, of those in `failed_writes`, that were reported to callers without a handle of the file
    /// ([`crate::access::Access::fsync`]).
    pub(crate) reported: AtomicU32,
    /// The page of the last failed write, and the code of the error.
    last_failure: AtomicU64,
    /// Pages of the file that could not be written and still have to be.
    pub(crate) failed_pages: FailedPages,
    /// The log numbers of the pages, and the log; empty until the file has a log.
    pub(crate) log_order: OnceLock<Box<LogOrder<M>>>,
}

/// The record of a file's *failed pages*: pages that could not be written and stay dirty (see
/// `writeback::write_failure`).
#[derive(Debug, Default)]
pub(crate) struct FailedPages {
    /// Number of failed pages (pages whose last write failed) that are not being written again.
    pub(crate) pages: AtomicI64,
    /// Number of failed pages (pages whose last write failed) that are being written again.
    pub(crate) retried: AtomicI64,
    /// `true` if a write of a failed page has succeeded since the flusher last began to retry failed pages of this
    /// file. The other failed pages may then be writable again, too.
    pub(crate) has_recovered: AtomicBool,
    /// Position in the file, as a page number, from which the flusher next retries failed pages: those whose last write
    /// failed.
    pub(crate) next: AtomicU32,
}

impl FailedPages {
    /// Returns the number of pages whose last write failed, and which are not being written again.
    pub(crate) fn pages(&self) -> i64 {
        self.pages.load(Ordering::Acquire)
    }
}

/// A write that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// Number of the page that could not be written, counted from the beginning of the file.
    pub page: u32,
    /// The error with which the write failed.
    pub source: IoError,
}

/// The state of a file's writes when a task began to sync the file ([`File::begin_sync`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncStart {
    failed: u32,
    put_off: PutOff,
}

impl<M: Machine> File<M> {
    /// Returns whether a sync waits for its turn to write the file; a waiting sync has the next turn.
    pub(crate) fn has_waiting_sync(&self) -> bool {
        self.syncs_waiting.load(Ordering::Relaxed) > 0
    }

    pub(super) fn new(machine: &M, id: u32, device: DeviceId) -> Self {
        Self::with_placement(machine, id, device, FileIndex::default(), Placement::Delayed(Box::default()))
    }

    /// Creates a file of `bytes` bytes that has the whole device `device` to itself: page `n` of the file lies at block
    /// `n`. The dirty limits and the flusher of the device `backing` apply to the file.
    pub(super) fn placed(machine: &M, id: u32, device: DeviceId, backing: DeviceId, bytes: u64) -> Self {
        let index = FileIndex::with_pages(pages_of(bytes));
        let placement = Placement::Placed { stored_pages: AtomicU32::new(pages_of(bytes)), punched: AtomicU64::new(0) };
        let file = Self { backing, ..Self::with_placement(machine, id, device, index, placement) };
        file.extend(bytes);
        file
    }

    fn with_placement(machine: &M, id: u32, device: DeviceId, index: FileIndex, placement: Placement) -> Self {
        Self {
            id,
            device,
            backing: device,
            index,
            i_pages: machine.lock(LockClass::IPages, ()),
            length: AtomicU64::new(0),
            placement,
            writeback_index: AtomicU32::new(0),
            is_listed: AtomicBool::new(false),
            writeback_group: AtomicU16::new(0),
            is_being_written: AtomicBool::new(false),
            written_wait: machine.wait_queue(),
            syncs_waiting: AtomicU32::new(0),
            mapper_count: AtomicU32::new(0),
            copies_left: AtomicU32::new(0),
            handles: AtomicU32::new(0),
            cuts: AtomicU64::new(0),
            failed_writes: AtomicU32::new(0),
            failed_pages: FailedPages::default(),
            log_order: OnceLock::new(),
            reported: AtomicU32::new(0),
            last_failure: AtomicU64::new(0),
        }
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// Returns a page number that is above the numbers of all pages of the file that may have a block.
    pub(crate) fn end_page(&self) -> u32 {
        self.index.end().max(pages_of(self.length()))
    }

    /// Returns the length of the file in pages. The last page may be partial.
    #[must_use]
    pub fn length_pages(&self) -> u32 {
        pages_of(self.length())
    }

    /// Makes the file at least `bytes` bytes long.
    pub fn extend(&self, bytes: u64) {
        self.length.fetch_max(bytes, Ordering::AcqRel);
    }

    /// Makes the file `bytes` bytes long. Contents after the new end are lost; the caller removes their pages from
    /// memory.
    pub(crate) fn set_length(&self, bytes: u64) {
        self.length.store(bytes, Ordering::SeqCst);
        if let Placement::Placed { stored_pages, .. } = &self.placement {
            stored_pages.fetch_min(pages_of(bytes), Ordering::SeqCst);
        }
    }

    /// Records that a change that drops pages of the file begins, or has ended.
    pub(crate) fn note_cut(&self) {
        self.cuts.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of beginnings and ends of changes that dropped pages of the file. With the version of a page
    /// ([`super::versions`]), this number says whether the page's contents have changed.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }

    /// Returns the number of the device's block to which a page is written; `None` if the page has no block.
    #[must_use]
    #[inline]
    pub fn block(&self, index: u32) -> Option<u64> {
        match &self.placement {
            Placement::Delayed(blocks) => {
                blocks.get(index as usize).map(|b| b.load(Ordering::Acquire)).filter(|b| *b != NO_BLOCK)
            }
            Placement::Placed { .. } => Some(u64::from(index)),
        }
    }

    /// Returns the number of the device's block that holds the contents of a page. Returns `None` for a hole and for a
    /// page after the end, both of which read as zeroes.
    ///
    /// A task that fills a page calls this after it has put the page into the index. A task that makes the file shorter
    /// changes the length before it searches the index. So no page stays in memory with contents that were cut off.
    #[must_use]
    pub fn stored_block(&self, index: u32) -> Option<u64> {
        if index >= pages_of(self.length.load(Ordering::SeqCst)) {
            return None;
        }
        match &self.placement {
            Placement::Placed { stored_pages, .. } if index >= stored_pages.load(Ordering::SeqCst) => None,
            Placement::Placed { punched, .. } if has_page(punched.load(Ordering::SeqCst), index) => None,
            _ => self.block(index),
        }
    }

    /// Records which pages are being punched out of a file that is a device of its own. The caller then searches the
    /// index, as a caller of [`File::set_length`] does.
    pub(crate) fn set_punched(&self, pages: Range<u32>) {
        if let Placement::Placed { punched, .. } = &self.placement {
            punched.store(u64::from(pages.start) << 32 | u64::from(pages.end), Ordering::SeqCst);
        }
    }

    /// Records that a page was written, so that its block has contents.
    pub(crate) fn note_stored(&self, index: u32) {
        if let Placement::Placed { stored_pages, .. } = &self.placement {
            stored_pages.fetch_max(index + 1, Ordering::SeqCst);
        }
    }

    /// Records the block of the device at which a page is stored, for a page that has no block yet.
    pub(crate) fn set_block(&self, index: u32, block: u64) {
        match &self.placement {
            Placement::Delayed(blocks) => blocks.get_or_make(index as usize).store(block, Ordering::Release),
            Placement::Placed { .. } => unreachable!("page {index} of file {} has its block already", self.id),
        }
    }

    /// Removes a page's block from the file and returns it; returns `None` if no block was taken from the device for
    /// the page.
    pub(crate) fn take_block(&self, index: u32) -> Option<u64> {
        let Placement::Delayed(blocks) = &self.placement else { return None };
        Some(blocks.get(index as usize)?.swap(NO_BLOCK, Ordering::AcqRel)).filter(|b| *b != NO_BLOCK)
    }

    /// Returns whether page `n` of the file always lies in block `n` of a device that holds only this file. Blocks of
    /// such a file are neither reserved nor freed.
    pub(crate) const fn is_placed(&self) -> bool {
        matches!(self.placement, Placement::Placed { .. })
    }

    /// Returns the number of blocks that the file has taken from the device. The whole-machine check uses this.
    pub(crate) fn taken_blocks(&self) -> u64 {
        match &self.placement {
            Placement::Delayed(_) => (0..self.end_page()).filter(|page| self.block(*page).is_some()).count() as u64,
            Placement::Placed { .. } => 0,
        }
    }

    /// Returns whether the file is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }

    /// Returns whether a region maps the file.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.mapper_count.load(Ordering::Acquire) > 0
    }

    /// Records that a page could not be written.
    pub fn note_write_error(&self, page: u32, source: IoError) {
        self.last_failure.store(u64::from(page) << 32 | u64::from(source.code()), Ordering::Release);
        self.failed_writes.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the last write that failed; if none has failed, a meaningless value.
    fn last_failure(&self) -> WriteFailure {
        let last = self.last_failure.load(Ordering::Acquire);
        WriteFailure { page: (last >> 32) as u32, source: IoError::from_code(last as u32) }
    }

    /// Returns the last write that failed; `None` if none has failed.
    pub(crate) fn last_failure_if_any(&self) -> Option<WriteFailure> {
        (self.failed_writes() > 0).then(|| self.last_failure())
    }

    /// Returns the number of writes of the file that have failed so far. A new handle stores this number, and so
    /// reports only later failures.
    #[must_use]
    pub fn failed_writes(&self) -> u32 {
        self.failed_writes.load(Ordering::Acquire)
    }

    /// Returns the state of the file's writes, before a task begins to sync the file.
    #[must_use]
    pub fn begin_sync(&self) -> SyncStart {
        SyncStart { failed: self.failed_writes(), put_off: self.put_off() }
    }

    /// Returns the log that the log numbers of the file's pages belong to; `None` if the file has none yet.
    #[must_use]
    pub fn log(&self) -> Option<Arc<Log<M>>> {
        self.log_order.get().map(|order| order.log.clone())
    }

    fn put_off(&self) -> PutOff {
        self.log_order.get().map_or_else(PutOff::default, |order| order.put_off())
    }

    /// Returns the last failed write if the count of failures ([`File::failed_writes`]) differs from `seen` or from that
    /// at the start of a task's sync. `seen` is the count up to which failures were reported; it is set to the present
    /// count. The comparison with the start tells the task of failures during its sync, even if these were already
    /// reported to other tasks. If no write failed, but a sync had to put a page off since the start, returns that page:
    /// one for which the log is behind, if there is one, or else one that is held.
    pub fn write_error_since(&self, seen: &AtomicU32, start: SyncStart) -> Option<WriteFailure> {
        let (failed, put_off) = (self.failed_writes(), self.put_off());
        if seen.swap(failed, Ordering::AcqRel) != failed || start.failed != failed {
            return Some(self.last_failure());
        }
        put_off.since(start.put_off).map(|(page, source)| WriteFailure { page, source })
    }
}

/// Returns whether a page lies in a range that is stored as in [`Placement::Placed`].
const fn has_page(range: u64, page: u32) -> bool {
    (range >> 32) as u32 <= page && page < range as u32
}

/// Returns the number of pages that hold `bytes` bytes.
const fn pages_of(bytes: u64) -> u32 {
    bytes.div_ceil(machine::PAGE_BYTES as u64) as u32
}
