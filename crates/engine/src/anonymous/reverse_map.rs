//! The reverse map of pages of files, which leads from a page to the page-table entries that map it (`rmap`, `i_mmap`).
//!
//! Each file has a list of the regions that map it (`mappers`). In each region, the place of a page's entry follows from
//! the page's number in the file. An entry is made and looked up under the page lock, so the holder of the lock sees all mappings.
//! *Dirtying*: an entry of a shared mapping becomes writable only after the page was marked dirty, and writeback makes
//! the entry read-only before it clears the mark (`page_mkwrite`, `page_mkclean`). So a writable entry always has a
//! dirty page, and unmapping has no dirty bit to transfer. *Locks*: the lock of the list of mappers (regions that map a
//! file), inside which no other lock is taken; after its release, each region's `page_table`. *Description*:
//! mechanisms/reclaim, 1, 9, 12, 13; shared mappings are dirtied as in Linux 2.6.19 and later.

use super::{Anonymous, Entry, FileMapping, MapMode, Owners, ProcessId, Region};
use crate::memory::{Flags, Owner};
use crate::page_cache::{File, ReadPattern, ReadState};
use crate::stat::Gauge;
use machine::atomic::Ordering::Acquire;
use machine::{FrameNumber, Func, Lock, LockClass, Machine, Step};
use std::sync::{Arc, Weak};

/// A mapping that is removed while its folio moves to other frames, and is restored afterwards.
pub(crate) struct TakenMapping<M: Machine> {
    region: Arc<Region<M>>,
    page: u32,
    /// Number of the mapped page in its folio.
    part: u32,
    entry: Entry,
}

/// The use of a page through its mappings since the last call of [`Anonymous::page_referenced`] for the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedUse {
    /// Number of mappings through which the page was touched since the last call of [`Anonymous::page_referenced`] for
    /// the page. Mappings for which the program has announced sequential access do not count.
    pub touched: u32,
    /// Number of mappings counted in `touched` for which the program has announced neither sequential nor random access
    /// (`vma_has_recency`).
    pub recent: u32,
    /// `true` if a mapping counted in `touched` is executable.
    pub is_executable: bool,
}

impl<M: Machine> Anonymous<M> {
    /// Creates a region of `pages` pages that maps a file from its page `first_page` on. The caller keeps the file
    /// open.
    pub(crate) fn create_file_region(
        &self,
        owner: Option<ProcessId>,
        file: &Arc<File<M>>,
        first_page: u32,
        pages: u32,
        mode: MapMode,
    ) -> Arc<Region<M>> {
        let state = ReadState { pattern: mode.pattern, ..ReadState::default() };
        let state = self.machine.lock(LockClass::Other, state);
        let mapped = FileMapping { file: file.clone(), first_page, mode, state };
        let region = self.regions.lock().insert(|id| Region::new(&self.machine, id, owner, pages, false, Some(mapped)));
        self.mappers.change(file, |mappers| mappers.iter().cloned().chain([Arc::downgrade(&region)]).collect());
        region
    }

    /// Removes a region, which has no pages left, from the list of the regions that map its file.
    pub(super) fn forget_mapper(&self, file: &File<M>, region: &Region<M>) {
        let is_other = |mapper: &&Weak<Region<M>>| !std::ptr::eq(mapper.as_ptr(), region);
        self.mappers.change(file, |mappers| mappers.iter().filter(is_other).cloned().collect());
    }

    /// Returns the regions that map a file.
    pub fn mappers(&self, file: &File<M>) -> Vec<Arc<Region<M>>> {
        if !file.is_mapped() {
            return Vec::new();
        }
        self.mappers.of(file).iter().filter_map(Weak::upgrade).collect()
    }

    /// Visits each entry that maps a page of a file's folio. `visit` gets the region of the entry, the number of the
    /// page in the region, and the page's frame.
    pub(crate) fn for_each_mapping(
        &self,
        file: &File<M>,
        head: FrameNumber,
        mut visit: impl FnMut(&Arc<Region<M>>, u32, FrameNumber),
    ) {
        let (folio, first) = (self.frames.folio(head), self.frames[head].index());
        for region in self.mappers.of(file).iter().filter_map(Weak::upgrade) {
            let Some(mapped) = &region.file else { continue };
            for (index, frame) in (first..).zip(folio.frames()) {
                if let Some(page) = mapped.place(index, region.pages)
                    && region.entry(page).frame() == Some(frame)
                {
                    visit(&region, page, frame);
                }
            }
        }
    }

    /// Returns the use of a page through its mappings since the last call for this page, and clears the mappings'
    /// accessed bits.
    pub fn page_referenced(&self, frame: FrameNumber, owners: &mut Owners<M>) -> MappedUse {
        let descriptor = &self.frames[frame];
        let flags = descriptor.flags();
        if matches!(descriptor.owner(), Owner::File(_)) && descriptor.mappings() > 0 {
            return self.file_page_referenced(frame, owners);
        }
        let region = owners.region_of(self, frame);
        let is_mapped = descriptor.mappings() > 0;
        self.machine.spend(if is_mapped { Step::ReferenceWalk } else { Step::ReferenceCheck }, 1);
        let Some(region) = region.filter(|_| is_mapped) else { return MappedUse::default() };
        let page = descriptor.index();
        let touched = match (flags.has(Flags::COMPOUND), region.fork_tree.get().is_some()) {
            (true, false) => self.folio_touched(frame, region),
            (false, false) => u32::from(region.test_clear_accessed(page)),
            (_, true) => self.touched_in_tree(frame, page, region),
        };
        MappedUse { touched, recent: touched, is_executable: false }
    }

    /// Counts the page-table entries that map a folio in the regions of a fork tree and were touched since the last call
    /// for this folio, and clears their accessed bits. The region `owner` owns the folio, which begins at its page `first`.
    #[cold]
    fn touched_in_tree(&self, head: FrameNumber, first: u32, owner: &Region<M>) -> u32 {
        if owner.huge_page(first) == Some(head) {
            return self.folio_touched(head, owner);
        }
        let (mut touched, mut walked) = (0, 0);
        for (page, part) in (first..).zip(self.frames.folio(head).frames()) {
            self.for_each_anonymous_mapping(owner, page, part, |region| {
                walked += 1;
                touched += u32::from(region.test_clear_accessed(page));
            });
        }
        // One walk was paid for before.
        self.machine.spend(Step::ReferenceWalk, u32::saturating_sub(walked, 1));
        touched
    }

    /// Counts the page-table entries that map a large folio in a region and were touched since the last call for this
    /// folio, and clears their accessed bits. A huge page has one entry. The folio's first frame is `head`.
    #[cold]
    fn folio_touched(&self, head: FrameNumber, region: &Region<M>) -> u32 {
        let first = self.frames[head].index();
        if region.huge_page(first).is_some() {
            return u32::from(region.test_clear_accessed(first));
        }
        let touched = (first..first + self.frames.folio(head).pages()).filter(|page| region.test_clear_accessed(*page));
        touched.count() as u32
    }

    fn file_page_referenced(&self, frame: FrameNumber, owners: &mut Owners<M>) -> MappedUse {
        let (mut found, mut walked) = (MappedUse::default(), 0);
        if let Some(file) = owners.file_of(self, frame) {
            self.for_each_mapping(file, frame, |region, page, _| {
                walked += 1;
                let mode = region.file.as_ref().expect("it maps a file").mode;
                // A reader that announced sequential access will not come back.
                if region.test_clear_accessed(page) && mode.pattern != ReadPattern::Sequential {
                    found.touched += 1;
                    found.recent += u32::from(mode.pattern == ReadPattern::Normal);
                    found.is_executable |= mode.is_executable;
                }
            });
        }
        self.machine.spend(Step::ReferenceWalk, walked.max(1));
        found
    }

    /// Removes all mappings of a locked page. The entries of a page in the swap cache become swap entries with the
    /// page's slot; the entries of a page of a file become empty. The references of the mappings are dropped. The
    /// caller holds a reference of its own.
    pub fn try_to_unmap(&self, frame: FrameNumber, owners: &mut Owners<M>) {
        let _span = self.machine.span(Func::TryToUnmap);
        match self.frames[frame].owner() {
            Owner::Region(_) => {
                if let Some(region) = owners.region_of(self, frame) {
                    self.unmap_anonymous_folio(frame, region);
                }
            }
            Owner::File(_) => {
                if let Some(file) = owners.file_of(self, frame) {
                    self.unmap_file_page(file, frame);
                }
            }
            Owner::None => {}
        }
    }

    /// Removes all mappings of a locked page of a file.
    pub(crate) fn unmap_file_page(&self, file: &File<M>, frame: FrameNumber) {
        self.for_each_mapping(file, frame, |region, page, part| {
            let _guard = region.page_table(page).lock();
            self.machine.spend(Step::UnmapPage, 1);
            if region.entry(page).frame() != Some(part) {
                return;
            }
            let entry = region.replace(page, Entry::NONE);
            self.note_unmapped_entry(frame, entry);
            self.end_mapping(part);
        });
    }

    /// Removes all mappings of a locked folio of a file, so that no task can use the folio: a fault waits for the
    /// folio's lock. Returns the mappings, which [`Anonymous::give_mappings`] restores later. Drops the references that
    /// the mappings held. The caller holds a reference of its own.
    pub(crate) fn take_mappings(&self, file: &File<M>, frame: FrameNumber) -> Vec<TakenMapping<M>> {
        let mut taken = Vec::new();
        if self.frames[frame].mappings() == 0 {
            return taken;
        }
        self.for_each_mapping(file, frame, |region, page, part| {
            let _guard = region.page_table(page).lock();
            if region.entry(page).frame() != Some(part) {
                return;
            }
            let entry = region.replace(page, Entry::NONE);
            self.end_mapping(part);
            taken.push(TakenMapping { region: region.clone(), page, part: part.0 - frame.0, entry });
        });
        taken
    }

    /// Restores mappings that [`Anonymous::take_mappings`] removed, so that they map the folio with head `to`, which
    /// the caller has locked. Leaves out mappings whose region, or whose part of the file, was removed meanwhile.
    pub(crate) fn give_mappings(&self, file: &File<M>, to: FrameNumber, taken: Vec<TakenMapping<M>>) {
        let first = self.frames[to].index();
        for TakenMapping { region, page, part, entry } in taken {
            let _guard = region.page_table(page).lock();
            // `is_closing` and the file's length change before entries are emptied, and entries are emptied under this
            // lock. So an entry that is made here is either seen as unwanted or emptied later.
            let is_wanted = !region.is_closing.load(Acquire) && first + part < file.length_pages();
            if is_wanted && region.entry(page) == Entry::NONE {
                let frame = FrameNumber(to.0 + part);
                region.replace(page, entry.of_frame(frame));
                self.frames[to].get();
                self.give_to_mapping(frame);
            }
        }
    }

    /// Checks, in debug builds, a page-table entry that was removed from a page of a file: if the entry is dirty, the
    /// page must be marked dirty, or have left its file.
    pub(crate) fn note_unmapped_entry(&self, frame: FrameNumber, entry: Entry) {
        debug_assert!(
            !entry.is_dirty() || self.frames[frame].is(Flags::DIRTY) || self.frames[frame].owner() == Owner::None,
            "{frame} was written through a mapping and is not dirty: {:?}",
            self.frames[frame]
        );
    }

    /// Makes all mappings of a locked page read-only (`page_mkclean`). The next task that writes the page through a
    /// mapping faults, and marks the page dirty again.
    pub(crate) fn write_protect_page(&self, file: &File<M>, frame: FrameNumber) {
        if self.frames[frame].mappings() == 0 {
            return;
        }
        self.for_each_mapping(file, frame, |region, page, part| {
            let _guard = region.page_table(page).lock();
            if region.entry(page).frame() == Some(part) && region.write_protect(page) {
                self.machine.spend(Step::UnmapPage, 1);
            }
        });
    }

    fn mapped_gauge(&self, frame: FrameNumber) -> Gauge {
        if self.frames[frame].is_anon() { Gauge::NrAnonPages } else { Gauge::NrMapped }
    }

    /// Counts a new mapping of one page, which may be a part of a large folio. Returns `true` if the mapping takes over
    /// the caller's reference to the folio. If a large folio is already mapped, another mapping does not take over the
    /// reference, because all mappings of a large folio share one.
    #[must_use = "the mapping has the caller's reference, or the caller has it still"]
    #[doc(alias = "folio_add_file_rmap_pte")]
    pub(crate) fn mapped(&self, frame: FrameNumber) -> bool {
        let change = self.frames.map_page(frame);
        if change.is_of_page {
            self.memory().add_gauge(frame, self.mapped_gauge(self.frames.head(frame)), 1);
        }
        change.moves_reference()
    }

    /// Counts a new mapping of one page. The caller's reference to the folio passes to the mapping, or is dropped if
    /// the mapping needs no reference.
    pub(crate) fn give_to_mapping(&self, frame: FrameNumber) {
        if !self.mapped(frame) {
            let last = self.frames[self.frames.head(frame)].put();
            assert!(!last, "a mapping holds a reference of {frame}");
        }
    }

    /// Counts the removal of a mapping of one page. Returns whether the mapping's reference to the folio passes to the
    /// caller, which then has to drop it.
    #[must_use = "the caller has to drop the reference"]
    #[doc(alias = "folio_remove_rmap_pte")]
    pub(crate) fn unmapped(&self, frame: FrameNumber) -> bool {
        let change = self.frames.unmap_page(frame);
        if change.is_of_page {
            self.memory().add_gauge(frame, self.mapped_gauge(self.frames.head(frame)), -1);
        }
        change.moves_reference()
    }

    /// Counts the removal of a mapping of one page, and drops the mapping's reference, if it had one. The caller holds
    /// another reference.
    pub(crate) fn end_mapping(&self, frame: FrameNumber) {
        if self.unmapped(frame) {
            let last = self.frames[self.frames.head(frame)].put();
            assert!(!last, "whoever unmaps holds a reference of {frame}");
        }
    }

    /// Updates the counts of mappings for the one page-table entry that maps all pages of a huge page. `sign` is 1
    /// after the entry was made, and -1 after it was removed.
    pub(crate) fn count_huge_mapping(&self, head: FrameNumber, sign: i64) {
        let is_changed = if sign > 0 { self.frames[head].map() } else { self.frames[head].unmap() };
        debug_assert!(is_changed, "{head} is mapped twice: {:?}", self.frames[head]);
        self.memory().add_gauge(head, Gauge::NrAnonTransparentHugepages, sign);
        self.memory().add_gauge(head, self.mapped_gauge(head), sign * self.frames.pages(head) as i64);
    }
}
