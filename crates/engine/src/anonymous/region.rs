//! Regions: ranges of a process's memory, anonymous or of a file, each with a page table of 64-bit entries.
//!
//! An entry is read, and its accessed and dirty bits are set, without a lock, as hardware does. It is filled, emptied
//! or turned into a swap entry under the region's `page_table` lock. The reverse map of an anonymous page is its owner and
//! page number (mechanisms/reclaim, 12, 20), and after a fork the regions of the owner's `fork_tree`. The reverse map of a
//! page of a file is in [`super::reverse_map`].

use super::fork_tree::ForkTree;
use super::mapping::FileMapping;
use super::resident::Resident;
use crate::memory::LruvecId;
use crate::swap::window::SwapWindow;
use crate::task::ProcessId;
use machine::atomic::{AtomicBool, AtomicU64, Ordering};
use machine::{FrameNumber, LockClass, Machine, prefetch};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Number of entries in a page-table page.
pub const ENTRIES: u32 = 512;

/// A page-table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// The empty page-table entry, which maps no page and has no swap slot.
    pub const NONE: Self = Self(0);
    /// This bit is set if the entry maps a page.
    const PRESENT: u64 = 1 << 0;
    /// This bit is set if the page may be written without a fault.
    const WRITABLE: u64 = 1 << 1;
    /// This bit is set if the page was touched since the bit was last cleared.
    const ACCESSED: u64 = 1 << 2;
    /// This bit is set if the page was written since it was mapped.
    const DIRTY: u64 = 1 << 3;
    /// This bit of a page-table entry is set if the entry maps the shared page of zeroes.
    const ZERO: u64 = 1 << 4;
    /// This bit is set if the page is in swap.
    const SWAP: u64 = 1 << 5;
    /// This bit is set if the frame holds a page of the region's file, not an anonymous page.
    const FILE: u64 = 1 << 6;
    /// This bit of a page-table entry is set if the entry maps a huge page, that is, all pages that one page-table page
    /// maps.
    const HUGE: u64 = 1 << 7;
    const SHIFT: u32 = 8;

    /// Returns an entry that maps a frame with an anonymous page and is marked as touched. If `writable` is set, the
    /// page may be written through the entry, and the entry is marked as written, too.
    #[must_use]
    pub const fn mapped(frame: FrameNumber, writable: bool) -> Self {
        let write = if writable { Self::WRITABLE | Self::DIRTY } else { 0 };
        Self(Self::PRESENT | Self::ACCESSED | write | (frame.0 as u64) << Self::SHIFT)
    }

    /// Returns an entry that maps a page of the region's file and is marked as touched. If `writable` is set, the page
    /// may be written through the entry, and the entry is marked as written, too.
    #[must_use]
    pub const fn mapped_file(frame: FrameNumber, writable: bool) -> Self {
        Self(Self::mapped(frame, writable).0 | Self::FILE)
    }

    /// Returns a page-table entry that maps the shared page of zeroes, read-only.
    #[must_use]
    pub const fn zero_page() -> Self {
        Self(Self::PRESENT | Self::ZERO | Self::ACCESSED)
    }

    /// Returns the entry of a page in swap slot `slot`.
    #[must_use]
    pub const fn swapped(slot: u32) -> Self {
        Self(Self::SWAP | (slot as u64) << Self::SHIFT)
    }

    /// Returns whether the entry is empty: it maps no page and has no swap slot.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the frame that the entry maps; `None` if the entry maps no frame, or maps the shared page of zeroes.
    #[must_use]
    #[inline]
    pub const fn frame(self) -> Option<FrameNumber> {
        if self.0 & (Self::PRESENT | Self::ZERO) == Self::PRESENT {
            Some(FrameNumber((self.0 >> Self::SHIFT) as u32))
        } else {
            None
        }
    }

    /// Returns the swap slot of the page; `None` if the page is not in swap.
    #[must_use]
    pub const fn slot(self) -> Option<u32> {
        if self.0 & Self::SWAP != 0 { Some((self.0 >> Self::SHIFT) as u32) } else { None }
    }

    /// Returns whether the entry maps the shared page of zeroes.
    #[must_use]
    pub const fn is_zero_page(self) -> bool {
        self.0 & Self::ZERO != 0
    }

    /// Returns whether the entry maps a page of the region's file.
    #[must_use]
    pub const fn is_file(self) -> bool {
        self.0 & Self::FILE != 0
    }

    /// Returns whether the page is a part of a huge page that one page-table entry maps as a whole.
    #[must_use]
    #[inline]
    pub const fn is_huge(self) -> bool {
        self.0 & Self::HUGE != 0
    }

    /// Returns the page-table entry of page `n` of a huge page. `self` is the entry that maps the huge page as a whole.
    const fn part(self, n: u32) -> Self {
        Self(self.0 + ((n as u64) << Self::SHIFT))
    }

    /// Returns whether the page was touched since the accessed bit was last cleared.
    #[must_use]
    pub const fn is_accessed(self) -> bool {
        self.0 & Self::ACCESSED != 0
    }

    /// Returns whether the dirty bit of this page-table entry is set. A writable entry has it from the beginning.
    #[must_use]
    pub const fn is_dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    /// Returns whether an access through the entry needs no fault; `write` says whether the access writes.
    #[must_use]
    #[inline]
    pub const fn allows(self, write: bool) -> bool {
        let wanted = if write { Self::PRESENT | Self::WRITABLE } else { Self::PRESENT };
        self.0 & wanted == wanted
    }

    /// Returns the entry changed so that it maps another frame.
    pub(super) const fn of_frame(self, frame: FrameNumber) -> Self {
        Self(self.0 & ((1 << Self::SHIFT) - 1) | (frame.0 as u64) << Self::SHIFT)
    }

    /// Returns this page-table entry without the accessed bit.
    #[must_use]
    pub(crate) const fn made_old(self) -> Self {
        Self(self.0 & !Self::ACCESSED)
    }

    /// Returns this page-table entry with the writable, dirty and accessed bits set.
    #[must_use]
    pub const fn made_writable(self) -> Self {
        Self(self.0 | Self::WRITABLE | Self::DIRTY | Self::ACCESSED)
    }
}

/// A page-table page.
#[derive(Debug)]
struct Table {
    entries: Box<[AtomicU64]>,
    /// The entry that maps all pages of this table at once, as a huge page (a PMD entry). It is [`Entry::NONE`] if
    /// there is no huge page. If there is one, all of `entries` are [`Entry::NONE`].
    huge: AtomicU64,
    /// `true` if an entry of this table got the mark "touched" (accessed bit) since this flag was last read and
    /// cleared.
    is_touched: AtomicBool,
    /// The frame that the table occupies.
    frame: FrameNumber,
}

/// The page-table pages of a part of a region.
type Directory = Box<[OnceLock<Table>]>;

/// Number of page-table pages in a [`Directory`]. Together they map 8 GiB of a region. The directories of a region of
/// 16 TiB take 48 KiB before the region's first page is touched.
const DIRECTORY: u32 = 4096;

/// The reason why no page-table page was made for a page. Each variant holds the frame that the caller had allocated
/// for it, so that the caller can free the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTable {
    /// Another task has already made the page-table page. Holds the frame that was meant for it.
    Exists(FrameNumber),
    /// The host system grants no memory for the page-table page. Holds the frame that was meant for it.
    NoMemory(FrameNumber),
}

/// A region: anonymous memory, or a range of a file.
pub struct Region<M: Machine> {
    /// The region's number in the table of regions.
    pub id: u32,
    /// Length of the region, in pages.
    pub pages: u32,
    /// `true` if faults may try for a huge page in this region.
    pub is_huge_allowed: bool,
    /// The process to which the region belongs; `None` if it belongs to no process.
    pub owner: Option<ProcessId>,
    /// The file that the region maps; `None` for anonymous memory.
    pub file: Option<FileMapping<M>>,
    /// The regions that were forked from this one or from which it was forked; empty if there was no fork.
    pub(crate) fork_tree: OnceLock<Arc<ForkTree<M>>>,
    /// `true` while a fork fills the entries of this region, under the lock of the entries that it copies.
    is_filling: AtomicBool,
    /// The swap readahead of the region, which determines how many swap slots a fault reads at once.
    pub(crate) swap_window: SwapWindow,
    /// `true` if the region is about to be dropped. The flag is set before the region's entries are emptied, so that no
    /// task maps a page afterwards; such a page would stay mapped.
    pub(crate) is_closing: AtomicBool,
    /// Bits that say for which lruvecs the region has newly touched entries. The bit of an lruvec is at the lruvec's
    /// number modulo 64. It is set if an entry was touched since the bit was last read and cleared for this lruvec.
    touched: AtomicU64,
    /// The page-table pages. Each directory holds [`DIRECTORY`] of them.
    directories: Box<[OnceLock<Directory>]>,
    locks: Box<[M::Lock<()>]>,
}

/// Number of page-table locks of one region. Neighbouring page-table pages have different locks, so faults seldom
/// compete for the same lock.
const LOCKS: usize = 16;

impl<M: Machine> Region<M> {
    pub(crate) fn new(
        machine: &M,
        id: u32,
        owner: Option<ProcessId>,
        pages: u32,
        is_huge_allowed: bool,
        file: Option<FileMapping<M>>,
    ) -> Self {
        let tables = pages.div_ceil(ENTRIES);
        Self {
            id,
            pages,
            is_huge_allowed,
            owner,
            file,
            fork_tree: OnceLock::new(),
            is_filling: AtomicBool::new(false),
            swap_window: SwapWindow::default(),
            is_closing: AtomicBool::new(false),
            touched: AtomicU64::new(0),
            directories: (0..tables.div_ceil(DIRECTORY)).map(|_| OnceLock::new()).collect(),
            locks: (0..LOCKS.min(tables as usize)).map(|_| machine.lock(LockClass::PageTable, ())).collect(),
        }
    }

    /// Returns this new region as a region of a fork tree.
    pub(super) fn of_tree(self, tree: Arc<ForkTree<M>>) -> Self {
        Self { fork_tree: OnceLock::from(tree), ..self }
    }

    /// Returns this new region as one whose entries a fork is about to fill.
    pub(super) fn being_filled(self) -> Self {
        Self { is_filling: AtomicBool::new(true), ..self }
    }

    /// Records that the fork which has filled this region's entries has ended.
    pub(crate) fn end_filling(&self) {
        self.is_filling.store(false, Ordering::Release);
    }

    /// Returns whether a fork still fills this region's entries.
    pub(crate) fn is_filling(&self) -> bool {
        self.is_filling.load(Ordering::Acquire)
    }

    /// Returns whether this region may map pages that the region with the number `owner` owns, because it was forked from
    /// that region, directly or not.
    pub(crate) fn descends_from(&self, owner: u32) -> bool {
        self.fork_tree.get().is_some_and(|tree| tree.descendants(owner).any(|region| region.id == self.id))
    }

    /// Returns the lock that guards a page's entry.
    #[inline]
    pub fn page_table(&self, page: u32) -> &M::Lock<()> {
        &self.locks[(page / ENTRIES) as usize % self.locks.len()]
    }

    /// Returns whether the page-table page for a page exists.
    #[inline]
    pub fn has_table(&self, page: u32) -> bool {
        self.table(page).is_some()
    }

    #[inline]
    fn table(&self, page: u32) -> Option<&Table> {
        let table = page / ENTRIES;
        let directory = self.directories[(table / DIRECTORY) as usize].get()?;
        directory[(table % DIRECTORY) as usize].get()
    }

    /// Returns the page-table pages that exist, each with the number of the first page that it maps.
    fn tables(&self) -> impl Iterator<Item = (u32, &Table)> + '_ {
        let directories = (0..).step_by(DIRECTORY as usize).zip(&self.directories);
        let made = directories.filter_map(|(first, directory)| directory.get().map(|directory| (first, directory)));
        made.flat_map(|(first, directory)| (first..).zip(directory))
            .filter_map(|(number, table)| table.get().map(|table| (number * ENTRIES, table)))
    }

    /// Returns the ranges of pages that have a page-table page, one range for each page-table page. Pages before page
    /// `from` are left out.
    pub fn parts_with_table(&self, from: u32) -> impl Iterator<Item = Range<u32>> + '_ {
        let parts = self.tables().map(|(start, _)| start..(start + ENTRIES - 1).min(self.pages - 1) + 1);
        parts.filter(move |part| part.end > from).map(move |part| part.start.max(from)..part.end)
    }

    /// Returns whether a page is anonymous and no page-table page exists for it, so that its contents are zeroes.
    ///
    /// # Panics
    /// Panics when `page` lies outside the region.
    #[inline]
    pub fn is_untouched(&self, page: u32) -> bool {
        self.file.is_none() && self.slot(page).is_none()
    }

    /// Makes the page-table page for page `page` of the region. The page-table page occupies `frame`.
    ///
    /// # Errors
    /// Fails if the page-table page exists already, or the host system grants no memory for it. The error returns the
    /// frame to the caller.
    pub fn make_table(&self, page: u32, frame: FrameNumber) -> Result<(), NoTable> {
        let table = page / ENTRIES;
        let place = &self.directories[(table / DIRECTORY) as usize];
        if place.get().is_none() {
            let first = table / DIRECTORY * DIRECTORY;
            let tables = (self.pages.div_ceil(ENTRIES) - first).min(DIRECTORY);
            let directory = try_collect((0..tables).map(|_| OnceLock::new())).ok_or(NoTable::NoMemory(frame))?;
            // Another task may have been faster.
            let _ = place.set(directory);
        }
        let directory = place.get().expect("made just now");
        let entries = try_collect((0..ENTRIES).map(|_| AtomicU64::new(0))).ok_or(NoTable::NoMemory(frame))?;
        let made = directory[(table % DIRECTORY) as usize].set(Table {
            entries,
            huge: AtomicU64::new(0),
            is_touched: AtomicBool::new(false),
            frame,
        });
        made.map_err(|table| NoTable::Exists(table.frame))
    }

    /// Returns the entry of a page.
    ///
    /// # Panics
    /// Panics when `page` lies outside the region.
    #[inline]
    pub fn entry(&self, page: u32) -> Entry {
        self.slot(page).map_or(Entry::NONE, |slot| match slot.load(Ordering::Acquire) {
            0 if self.is_huge_allowed => self.huge_part(page, slot),
            entry => Entry(entry),
        })
    }

    /// Returns the entry of a page whose own entry, `slot`, was empty. If a huge page is mapped where the page lies,
    /// the result is made from the huge page's entry; otherwise it is an empty entry.
    #[cold]
    fn huge_part(&self, page: u32, slot: &AtomicU64) -> Entry {
        let huge = self.table(page).map_or(Entry::NONE, |table| Entry(table.huge.load(Ordering::Acquire)));
        match huge {
            // The huge page may have been split since. The page's own entry was filled before that.
            Entry::NONE => Entry(slot.load(Ordering::Acquire)),
            huge => huge.part(page % ENTRIES),
        }
    }

    /// Returns the head of the huge page that is mapped where `page` lies; `None` if there is none.
    #[inline]
    pub fn huge_page(&self, page: u32) -> Option<FrameNumber> {
        if !self.is_huge_allowed {
            return None;
        }
        Entry(self.table(page)?.huge.load(Ordering::Acquire)).frame()
    }

    /// Adds the region's numbers of pages to `sum`: anonymous pages and pages of files in memory, pages in swap, and
    /// page-table pages.
    pub(super) fn add_resident(&self, sum: &mut Resident) {
        for (_, table) in self.tables() {
            sum.tables += 1;
            if Entry(table.huge.load(Ordering::Acquire)).frame().is_some() {
                sum.anon += u64::from(ENTRIES);
            }
            for entry in table.entries.iter().map(|entry| Entry(entry.load(Ordering::Relaxed))) {
                sum.swapped += u64::from(entry.slot().is_some());
                sum.file += u64::from(entry.frame().is_some() && entry.is_file());
                sum.anon += u64::from(entry.frame().is_some() && !entry.is_file());
            }
        }
    }

    /// Maps a huge page where `page` lies, marked as touched and written, if none of the entries there is in use.
    /// Returns whether the huge page was mapped. The region must allow huge pages. The caller holds the entries' lock.
    pub(crate) fn try_map_huge(&self, page: u32, head: FrameNumber) -> bool {
        let Some(table) = self.table(page) else { return false };
        debug_assert!(self.is_huge_allowed, "region {} is to have no huge page", self.id);
        let is_unused = table.entries.iter().all(|entry| entry.load(Ordering::Acquire) == 0)
            && table.huge.load(Ordering::Acquire) == 0;
        if is_unused {
            table.huge.store(Entry::mapped(head, true).0 | Entry::HUGE, Ordering::Release);
            self.note_touched(table);
        }
        is_unused
    }

    /// Returns all entries of the page-table page for `page`. Returns `None` if there is no page-table page, or if a
    /// single entry maps a huge page where `page` lies. The caller holds the entries' lock.
    pub(crate) fn small_entries(&self, page: u32) -> Option<impl Iterator<Item = Entry> + '_> {
        let table = self.table(page).filter(|table| table.huge.load(Ordering::Acquire) == 0)?;
        Some(table.entries.iter().map(|entry| Entry(entry.load(Ordering::Acquire))))
    }

    /// Maps the huge page with first frame `head` in place of the small pages around `page`, whose entries it replaces.
    /// The caller has frozen the references of the small pages, and holds the lock of their entries.
    pub(crate) fn replace_by_huge(&self, page: u32, head: FrameNumber) {
        let table = self.table(page).expect("a range with pages has a table");
        // The huge page's entry is stored first. A task that touches a page meanwhile, without the lock, then finds
        // that entry or the small page's entry, never none.
        table.huge.store(Entry::mapped(head, true).0 | Entry::HUGE, Ordering::Release);
        self.note_touched(table);
        table.entries.iter().for_each(|entry| entry.store(0, Ordering::Release));
    }

    /// Removes the entry of the huge page that is mapped where `page` lies, and returns it. The caller holds the
    /// entries' lock.
    pub(crate) fn unmap_huge(&self, page: u32) -> Entry {
        self.table(page).map_or(Entry::NONE, |table| Entry(table.huge.swap(0, Ordering::AcqRel)))
    }

    /// Maps each page of a huge page by an entry of its own instead of the huge page's entry. The caller holds the
    /// entries' lock.
    #[doc(alias = "split_huge_pmd")]
    pub(crate) fn split_huge(&self, page: u32) {
        let Some(table) = self.table(page) else { return };
        let huge = table.huge.load(Ordering::Acquire);
        for (n, entry) in (0..).zip(&table.entries) {
            entry.store(Entry(huge & !Entry::HUGE).part(n).0, Ordering::Release);
        }
        // A touch that was noted in the huge page's entry meanwhile is lost. A write is not lost, because the huge page
        // is writable and therefore dirty.
        table.huge.store(0, Ordering::Release);
    }

    /// Replaces the entry of a page and returns the old entry. A page-table page for the page must exist, and no huge
    /// page may be mapped there.
    #[inline]
    pub fn replace(&self, page: u32, entry: Entry) -> Entry {
        debug_assert!(self.huge_page(page).is_none(), "page {page} of region {} is part of a huge page", self.id);
        let table = self.table(page).expect("the table was made before");
        let before = table.entries[(page % ENTRIES) as usize].swap(entry.0, Ordering::AcqRel);
        if entry.is_accessed() {
            self.note_touched(table);
        }
        Entry(before)
    }

    /// Changes the frame that a page's entry maps, and leaves the other bits of the entry as they are. The caller holds
    /// the entry's lock and has frozen the references to the old frame.
    pub(crate) fn replace_frame(&self, page: u32, to: FrameNumber) {
        let slot = self.slot(page).expect("a page that is mapped has a table");
        let moved = |entry: u64| Some(Entry(entry).of_frame(to).0);
        // Tasks may set accessed and dirty bits at the same time, without the lock.
        let before = slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, moved);
        debug_assert!(before.is_ok_and(|entry| Entry(entry).frame().is_some()), "page {page} is not mapped");
    }

    /// Touches pages one after the other as the processor does, up to the first page that needs a fault. Returns the
    /// page that needs a fault; `None` if no page needs one. Sets the accessed bit of each touched page and, for a
    /// write, the dirty bit.
    ///
    /// # Panics
    /// Panics when a page lies outside the region.
    #[inline]
    pub fn touch(&self, pages: Range<u32>, write: bool) -> Option<u32> {
        assert!(pages.end <= self.pages, "pages {pages:?} of a region of {} pages", self.pages);
        let mut page = pages.start;
        while page < pages.end {
            let Some(table) = self.table(page) else { return Some(page) };
            let first = page % ENTRIES;
            let end = ENTRIES.min(first + (pages.end - page));
            for slot in &table.entries[first as usize..end as usize] {
                let touched = match touch_entry(slot, write) {
                    Touched::Not if self.is_huge_allowed => touch_huge(table, slot, write),
                    touched => touched,
                };
                match touched {
                    Touched::Not => return Some(page),
                    Touched::Anew => self.note_touched(table),
                    Touched::Again => {}
                }
                page += 1;
            }
        }
        None
    }

    /// Asks the processor to prefetch the page-table entry of a page, and returns at once. A large region has more
    /// entries than a cache holds, so that a task that touches pages in random order waits for memory at each touch.
    ///
    /// # Panics
    /// May panic when the page lies outside the region.
    #[inline]
    pub fn prefetch_entry(&self, page: u32) {
        if let Some(table) = self.table(page) {
            prefetch(&raw const table.entries[(page % ENTRIES) as usize]);
        }
    }

    /// Notes in the page-table page and in the region that one of their entries was marked as touched. The caller marks
    /// the entry first, because a walk clears these notes before it reads the entries.
    #[inline]
    fn note_touched(&self, table: &Table) {
        // Most of the time another task has noted this before, and nothing is written.
        if !table.is_touched.load(Ordering::Relaxed) {
            table.is_touched.store(true, Ordering::Release);
        }
        if self.touched.load(Ordering::Relaxed) != u64::MAX {
            self.touched.store(u64::MAX, Ordering::Release);
        }
    }

    /// Returns whether a page-table entry of the region was marked as touched since the last call with the lruvec
    /// `lruvec`. Clears the region's bit for this lruvec.
    pub(crate) fn take_touched(&self, lruvec: LruvecId) -> bool {
        let bit = 1 << (u32::from(lruvec.0) % u64::BITS);
        self.touched.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// Returns the touched flag of the page-table page for `page`, and clears the flag. It is set if an entry of this
    /// page-table page was touched since the last call.
    pub(crate) fn take_table_touched(&self, page: u32) -> bool {
        self.table(page).is_some_and(|table| table.is_touched.swap(false, Ordering::AcqRel))
    }

    /// Restores the touched flag of the page-table page for `page`, which a walk has cleared by
    /// [`Region::take_table_touched`]. The walk calls this function if it has not dealt with all entries of the
    /// page-table page, so that a later walk finds them.
    pub(crate) fn note_table_touched(&self, page: u32) {
        if let Some(table) = self.table(page) {
            self.note_touched(table);
        }
    }

    /// Clears the accessed bit of a page and returns whether it was set. All pages of a huge page share one bit.
    #[inline]
    pub fn test_clear_accessed(&self, page: u32) -> bool {
        let Some(table) = self.table(page) else { return false };
        let slot = &table.entries[(page % ENTRIES) as usize];
        let slot = if self.is_huge_allowed && slot.load(Ordering::Relaxed) == 0 { &table.huge } else { slot };
        slot.load(Ordering::Relaxed) & Entry::ACCESSED != 0
            && slot.fetch_and(!Entry::ACCESSED, Ordering::AcqRel) & Entry::ACCESSED != 0
    }

    /// Makes the entry of a page read-only and clears its dirty bit. Returns whether the entry was writable or dirty.
    /// The caller holds the entry's lock.
    pub(super) fn write_protect(&self, page: u32) -> bool {
        let bits = Entry::WRITABLE | Entry::DIRTY;
        self.slot(page).is_some_and(|slot| slot.fetch_and(!bits, Ordering::AcqRel) & bits != 0)
    }

    /// Makes the entry of a page read-only, and returns it. A task may set the accessed bit at the same time. The caller
    /// holds the entry's lock.
    pub(crate) fn make_read_only(&self, page: u32) -> Entry {
        let before = self.slot(page).map_or(0, |slot| slot.fetch_and(!Entry::WRITABLE, Ordering::AcqRel));
        Entry(before & !Entry::WRITABLE)
    }

    /// Returns the frames of the region's page tables.
    pub fn table_frames(&self) -> impl Iterator<Item = FrameNumber> + '_ {
        self.tables().map(|(_, table)| table.frame)
    }

    #[inline]
    fn slot(&self, page: u32) -> Option<&AtomicU64> {
        assert!(page < self.pages, "page {page} of a region of {} pages", self.pages);
        Some(&self.table(page)?.entries[(page % ENTRIES) as usize])
    }
}

/// The result of touching a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Touched {
    /// The page was not touched, because a fault is needed.
    Not,
    /// The page was touched. Its page-table entry was marked as touched already.
    Again,
    /// The page was touched. Its page-table entry was not marked as touched before.
    Anew,
}

impl Touched {
    const fn of(before: Entry) -> Self {
        if before.is_accessed() { Self::Again } else { Self::Anew }
    }
}

/// Records a touch of a page in the page's own page-table entry: sets the accessed bit and, for a write, the dirty bit.
/// Sets no bit if the entry does not allow the access.
#[inline]
fn touch_entry(slot: &AtomicU64, write: bool) -> Touched {
    let wanted = if write { Entry::ACCESSED | Entry::DIRTY } else { Entry::ACCESSED };
    loop {
        let entry = Entry(slot.load(Ordering::Acquire));
        if !entry.allows(write) {
            return Touched::Not;
        }
        // The entry may be taken away at the same time, so bits are set only in the entry that was read.
        if entry.0 & wanted == wanted
            || slot.compare_exchange(entry.0, entry.0 | wanted, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            return Touched::of(entry);
        }
    }
}

/// Touches a page of a huge page. The page's own entry, `slot`, has allowed no access, so the access goes through the
/// entry that maps the huge page. If the huge page was split meanwhile, the access goes through `slot`.
#[cold]
fn touch_huge(table: &Table, slot: &AtomicU64, write: bool) -> Touched {
    loop {
        let huge = Entry(table.huge.load(Ordering::Acquire));
        if !huge.allows(write) {
            // The huge page may have been split since the page's own entry was read. That entry was filled before the
            // entry of the huge page was emptied.
            return touch_entry(slot, write);
        }
        // The dirty bit is not set here: a huge page is dirty from the time it is mapped.
        if huge.is_accessed()
            || table
                .huge
                .compare_exchange(huge.0, huge.0 | Entry::ACCESSED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            return Touched::of(huge);
        }
    }
}

/// Collects values; returns `None` if the system grants no memory for them.
fn try_collect<T>(values: impl ExactSizeIterator<Item = T>) -> Option<Box<[T]>> {
    let mut collected = Vec::new();
    collected.try_reserve_exact(values.len()).ok()?;
    collected.extend(values);
    Some(collected.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Config, Sim};

    #[test]
    fn an_entry_of_a_file_stays_one_when_it_becomes_writable() {
        let frame = FrameNumber(7);
        let entry = Entry::mapped_file(frame, false);
        assert!(entry.is_file() && entry.is_accessed() && entry.allows(false));
        assert!(!entry.allows(true) && !entry.is_dirty() && entry.slot().is_none());
        let written = entry.made_writable();
        assert_eq!((written.frame(), written.is_file()), (Some(frame), true));
        assert!(written.allows(true) && written.is_dirty());
        assert!(!Entry::mapped(frame, true).is_file() && !Entry::swapped(7).is_file());
    }

    fn region(pages: u32, is_huge_allowed: bool, tables: impl IntoIterator<Item = u32>) -> Region<Sim> {
        let region = Region::new(&Sim::new(Config::uniform(1, 0)), 1, None, pages, is_huge_allowed, None);
        for table in tables {
            region.make_table(table * ENTRIES, FrameNumber(table)).expect("nobody else makes tables");
        }
        region
    }

    #[test]
    fn pages_are_touched_up_to_the_first_that_needs_a_fault() {
        let region = region(3 * ENTRIES - 5, false, [0, 1]);
        for page in 500..1024 {
            region.replace(page, Entry(Entry::PRESENT));
        }
        assert_eq!(region.touch(499..600, false), Some(499));
        assert_eq!(region.touch(500..1024, false), None);
        assert!((500..1024).all(|page| region.entry(page).is_accessed() && !region.entry(page).is_dirty()));
        assert_eq!(region.touch(500..1030, false), Some(1024), "there is no table");
        assert_eq!(region.touch(600..700, true), Some(600), "it is read-only");
        region.replace(600, region.entry(600).made_writable());
        assert_eq!(region.touch(600..601, true), None);
        assert_eq!(region.touch(7..7, true), None);
    }

    #[test]
    fn pages_of_a_huge_page_are_touched_by_its_entry() {
        let region = region(2 * ENTRIES, true, [0, 1]);
        assert!(region.try_map_huge(ENTRIES, FrameNumber(512)));
        assert!(region.test_clear_accessed(ENTRIES));
        assert_eq!(region.touch(ENTRIES..2 * ENTRIES, true), None);
        assert!(region.test_clear_accessed(ENTRIES + 9));
        assert_eq!(region.touch(ENTRIES - 1..ENTRIES + 1, false), Some(ENTRIES - 1));
        region.split_huge(ENTRIES);
        assert_eq!(region.touch(ENTRIES..2 * ENTRIES, true), None);
    }
}
