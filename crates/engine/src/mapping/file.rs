//! A file: its index, where its blocks are, and what its writeback knows.

use super::file_index::FileIndex;
use super::segments::Segments;
use machine::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use machine::{DeviceId, LockClass, Machine};

/// No block yet: the device's first block belongs to the file system itself.
const NO_BLOCK: u64 = 0;

/// A file.
pub struct File<M: Machine> {
    /// Its number in the table of files.
    pub id: u32,
    /// The device that its blocks are on.
    pub device: DeviceId,
    /// Which of its pages are in memory.
    pub index: FileIndex,
    /// Taken to change the index.
    pub i_pages: M::Lock<()>,
    length: AtomicU64,
    /// Device block of each page; 0 while the page has none (delayed allocation).
    blocks: Segments<AtomicU64>,
    /// Where the next cyclic writeback goes on.
    pub writeback_index: AtomicU32,
    /// Is the file on one of its device's lists of dirty files? A writer tags a page and then looks here; the
    /// flusher takes the file off its list and then looks for tags: one of them must see the other, so both
    /// pairs are sequentially consistent.
    pub(super) is_listed: AtomicBool,
    /// Is somebody writing the file's dirty pages? Two at a time would tear its extents into single pages.
    pub(super) is_being_written: AtomicBool,
    /// Who wants to be the next waits here.
    pub(super) written_wait: M::WaitQueue,
    /// A write failed since the error was last reported.
    write_error: AtomicBool,
}

impl<M: Machine> File<M> {
    pub(super) fn new(machine: &M, id: u32, device: DeviceId) -> Self {
        Self {
            id,
            device,
            index: FileIndex::default(),
            i_pages: machine.lock(LockClass::IPages, ()),
            length: AtomicU64::new(0),
            blocks: Segments::default(),
            writeback_index: AtomicU32::new(0),
            is_listed: AtomicBool::new(false),
            is_being_written: AtomicBool::new(false),
            written_wait: machine.wait_queue(),
            write_error: AtomicBool::new(false),
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// One past the last page that may have a block.
    pub(crate) fn end_page(&self) -> u32 {
        self.index.end().max(self.length().div_ceil(machine::PAGE_BYTES as u64) as u32)
    }

    /// Makes the file at least `bytes` long.
    pub fn extend(&self, bytes: u64) {
        self.length.fetch_max(bytes, Ordering::AcqRel);
    }

    /// The device block of a page, if it has one.
    #[must_use]
    pub fn block(&self, index: u32) -> Option<u64> {
        self.blocks.get(index as usize).map(|b| b.load(Ordering::Acquire)).filter(|b| *b != NO_BLOCK)
    }

    /// Gives a page its block.
    pub(super) fn set_block(&self, index: u32, block: u64) {
        self.blocks.get_or_make(index as usize).store(block, Ordering::Release);
    }

    /// Takes a page's block away.
    pub(super) fn take_block(&self, index: u32) -> Option<u64> {
        Some(self.blocks.get(index as usize)?.swap(NO_BLOCK, Ordering::AcqRel)).filter(|b| *b != NO_BLOCK)
    }

    /// Remembers that a write failed.
    pub fn note_write_error(&self) {
        self.write_error.store(true, Ordering::Release);
    }

    /// Did a write fail since this was last asked?
    pub fn take_write_error(&self) -> bool {
        self.write_error.swap(false, Ordering::AcqRel)
    }
}
