//! The page cache: files, and the frames in which their pages are.
//!
//! *Holds* the files with their indexes, the page lock and the latch of a page, and the hazard pointers by which
//! readers hold a page without lock or latch ([`hazard`]). *Flow*: `access` puts a page into its file
//! ([`PageCache::add_to_page_cache`]) and finds it there ([`PageCache::find_page`], [`PageCache::find_shared`]);
//! reclaim takes it out ([`PageCache::remove_file_page`]). The module is called by every floor above; also by `swap`,
//! because the swap cache is an index like a file's. *Locks*: outermost the page lock, which is a bit and whose waiters
//! sleep; then `table`; then `i_pages`. No task takes two locks of one class. *Description*:
//! mechanisms/reclaim, 1, 13, 19.
//!
//! # Order of two operations on one page
//!
//! While an operation works on the page, it holds the following:
//!
//! * *read*: a reference and the shared latch, taken in one step ([`PageCache::find_shared`]);
//! * *hazard*, a read by hazard pointer: neither a reference nor the latch ([`hazard`]);
//! * *write*: a reference, the exclusive latch, then the page lock;
//! * *truncate*: a reference and the page lock, then `i_pages` to take the page out;
//! * *reclaim*: the page, taken off its list; the page lock, if it is free; then `i_pages` to take the page out;
//! * *migrate*: as reclaim does; also the shared latch, if it is free, to copy the bytes;
//! * *writeback*: a reference and the page lock until the page is marked; where pages are stable, the shared latch as
//!   well.
//!
//! | | read | hazard | write | truncate | reclaim | migrate | writeback |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | **read** | free | free | latch | reference | freeze | freeze | free |
//! | **hazard** | | free | close, wait | kept | close | close | free |
//! | **write** | | | latch | page lock | freeze | latch, freeze | page lock, mark |
//! | **truncate** | | | | page lock | page lock | page lock | page lock, mark |
//! | **reclaim** | | | | | list | list | page lock, mark |
//! | **migrate** | | | | | | list | page lock, mark |
//! | **writeback** | | | | | | | page lock, mark |
//!
//! A cell says how its two operations are kept apart:
//!
//! * *free*: both read the bytes, and neither waits.
//! * *latch*: one operation waits for the other ([`latch`]). Migration does not wait: a page that is being written
//!   stays.
//! * *reference*: the page leaves its file, and its frame stays until the reader drops its reference
//!   (`PageCache::put_page_in_use`). The reader then checks the length of the file again.
//! * *freeze*: the page is taken only if it is clean and has no references but those of its index and of the caller,
//!   which are removed in one step. A task that comes later gets no reference to a frozen page, and looks the page up
//!   again.
//! * *close*: the slot is closed, a barrier makes this visible on every CPU, and the published pointers are read. A
//!   page that a pointer names stays in its frame. A writer waits for the reader.
//! * *kept*: the page leaves its file, and its frame is kept until no pointer names it ([`hazard`]).
//! * *page lock*: the second task checks the owner again, and leaves the page alone if it is no longer in its file.
//!   Reclaim and migration only try the lock.
//! * *mark*: truncation and a sync wait for a page under writeback; reclaim waits for it or leaves it; migration leaves
//!   it. A writer waits only where pages are stable (`writeback.stable_pages`). Otherwise it makes the page dirty
//!   again, and the page is written once more.
//! * *list*: the task that takes the page off its list, under the lock of the lists, is the only one that works on it.
//!   [`crate::lru`] takes pages off lists.
//!
//! A guard of the library is a read or a write that goes on until the guard is dropped.
//!
//! *Mapped pages*: a fault makes a page-table entry under the page lock, and the entry has a reference. So truncation,
//! reclaim and migration, which hold the page lock, find all entries, and remove them before they take the page;
//! migration makes them anew. Writeback makes entries read-only before it clears the page's dirty mark, so that the next
//! store faults and marks the page again ([`crate::anonymous`]).
//!
//! Only one flusher or sync writes a file at a time (`File::is_being_written`). Two reads that miss the same page both
//! allocate a frame. The second read finds the page of the first read in the index, under `i_pages`, and frees its own
//! frame.
//!
//! Next: [`crate::swap`], which has an index for pages without a file.

pub mod choices;
mod contiguity;
pub mod file;
pub mod file_index;
pub mod hazard;
pub mod latch;
pub(crate) mod log_order;
pub mod owners;
mod page_lock;
pub mod read_state;
pub mod segments;
mod shadow;
pub(crate) mod table;
mod tags;
pub mod versions;

pub use choices::Choices;
use choices::IndexLock;
pub use file::File;
pub use file_index::{FileIndex, Tag};
pub use hazard::Held;
pub use latch::{NotPinned, Wait};
pub use log_order::{LOG_NUMBER_MAX, Log};
pub use owners::FileOwners;
pub use read_state::{ReadPattern, ReadState};
pub use segments::Segments;
pub use shadow::Shadow;

use crate::memory::{Flags, Folio, GroupId, KernelMemory, Owner};
use crate::slab::index_nodes::{NODE_BYTES, NodePlace};
use crate::slab::{EmptySlab, Slab};
use crate::stat::Gauge;
use arrayvec::ArrayVec;
use machine::atomic::{AtomicBool, AtomicU32, Ordering::Release};
use machine::{DeviceId, FrameNumber, Func, Lock, LockClass, Machine, Step};
use page_lock::PAGE_QUEUES;
use std::ops::Deref;
use std::sync::Arc;
use table::Table;

/// Largest number of pages that leave a file at once ([`PageCache::remove_file_pages`]).
pub(crate) const REMOVALS_MAX: usize = 32;

/// The slabs of index nodes that became empty when a folio left its file. Usually there are none.
type EmptySlabs = Vec<EmptySlab>;

/// The layer (*floor*) of the engine that holds files and their cached pages.
pub struct PageCache<M: Machine> {
    slab: Slab<M>,
    /// The section `[page_cache]` of the kernel file.
    pub choices: Choices,
    files: M::Lock<Table<File<M>>>,
    page_queues: Vec<M::WaitQueue>,
    /// For each wait queue in `page_queues`, the page whose latch a task has claimed; `NOBODY` if there is none. A task
    /// that has waited long claims the latch, to get it before other tasks (see [`latch`]).
    next_at_queues: Vec<AtomicU32>,
    /// Pages whose last reference was dropped by a task that had looked them up; see [`PageCache::put_page_in_use`].
    pub(crate) orphans: M::Lock<Vec<FrameNumber>>,
    /// `true` if `orphans` is not empty. The flag is read without the lock of `orphans`.
    pub(crate) has_orphans: AtomicBool,
    /// The versions of pages; empty if the machine asks for none.
    pub versions: versions::Versions,
    /// The state that all readers with hazard pointers share.
    pub(crate) readers: hazard::Readers<M>,
}

impl<M: Machine> Deref for PageCache<M> {
    type Target = Slab<M>;
    #[inline]
    fn deref(&self) -> &Slab<M> {
        &self.slab
    }
}

impl<M: Machine> PageCache<M> {
    /// Returns `self`, so that code of the layers above can name this layer.
    #[inline(always)]
    pub(crate) fn page_cache(&self) -> &Self {
        self
    }

    /// Creates the page cache, a layer of the engine, without files.
    pub fn new(slab: Slab<M>, choices: Choices) -> Self {
        let machine = &slab.machine;
        Self {
            choices,
            files: machine.lock(LockClass::Table, Table::default()),
            page_queues: (0..PAGE_QUEUES).map(|_| machine.wait_queue()).collect(),
            next_at_queues: (0..PAGE_QUEUES).map(|_| AtomicU32::new(latch::NOBODY)).collect(),
            orphans: machine.lock(LockClass::Other, Vec::new()),
            has_orphans: AtomicBool::new(false),
            versions: versions::Versions::new(machine.page_versions()),
            readers: hazard::Readers::new(machine),
            slab,
        }
    }

    // ---- files ----

    /// Creates a new, empty file on a device.
    pub fn create_file(&self, device: DeviceId) -> Arc<File<M>> {
        self.files.lock().insert(|id| File::new(&self.machine, id, device))
    }

    /// Creates a file of `bytes` bytes that is a device of its own: its page `n` lies at block `n` of this device. The
    /// file system under the engine decides where the blocks lie. The dirty limits and the flusher of the device
    /// `backing` apply to the file.
    pub fn add_placed_file(&self, device: DeviceId, backing: DeviceId, bytes: u64) -> Arc<File<M>> {
        self.files.lock().insert(|id| File::placed(&self.machine, id, device, backing, bytes))
    }

    /// Returns the file whose number is `id`; `None` if there is no such file.
    pub fn file(&self, id: u32) -> Option<Arc<File<M>>> {
        self.files.lock().entries.get(&id).cloned()
    }

    /// Returns all files, in the order of their numbers.
    pub fn files(&self) -> Vec<Arc<File<M>>> {
        self.files.lock().entries.values().cloned().collect()
    }

    /// Removes a file from the table of files. The file has no page in memory, and its blocks have been freed.
    pub(crate) fn forget_file(&self, file: &File<M>) {
        assert_eq!(file.index.pages(), 0, "file {} forgotten with pages in memory", file.id);
        assert!(!file.is_mapped(), "file {} forgotten while it is mapped", file.id);
        self.files.lock().entries.remove(&file.id);
    }

    // ---- pages of files ----

    /// Takes the lock of an index and returns its guard; `None` if the kernel has no such lock
    /// (`page_cache.index_lock`). Where index nodes take memory, the lock is needed in any case, because the task that
    /// removes the last page of a node frees the node.
    pub(crate) fn lock_index<'a>(&self, i_pages: &'a M::Lock<()>) -> Option<<M::Lock<()> as Lock<()>>::Guard<'a>> {
        let is_locked = match self.choices.index_lock {
            IndexLock::PerPage | IndexLock::ByFile => true,
            IndexLock::None => self.index_nodes.slabs().is_some(),
        };
        is_locked.then(|| i_pages.lock())
    }

    /// Returns whether reclaim removes pages of one file together ([`PageCache::remove_file_pages`]).
    pub(crate) fn removes_by_file(&self) -> bool {
        match self.choices.index_lock {
            IndexLock::ByFile => true,
            IndexLock::PerPage | IndexLock::None => false,
        }
    }

    /// Returns the frame of a page of a file, with a reference for the caller; `None` if the page is not in memory.
    #[inline]
    #[doc(alias = "find_get_page")]
    pub fn find_page(&self, index: &FileIndex, page: u32) -> Option<FrameNumber> {
        self.machine.spend(Step::IndexLookup, 1);
        loop {
            let frame = index.get(page)?;
            if self.frames[frame].get_unless_zero() {
                // The frame may have been freed and reused in between.
                if index.get(page) == Some(frame) {
                    return Some(frame);
                }
                self.put_page_in_use(frame);
            }
            self.machine.relax();
        }
    }

    /// Returns the frame of page `page` of a file; `head` is the head of the folio that has the page.
    #[inline]
    #[doc(alias = "folio_file_page")]
    pub fn frame_of(&self, head: FrameNumber, page: u32) -> FrameNumber {
        let descriptor = &self.frames[head];
        match descriptor.is(Flags::COMPOUND) {
            true => FrameNumber(head.0 + (page - descriptor.index())),
            false => head,
        }
    }

    /// Returns the number, in the file, of the first page after the folio in which page `page` was found. The caller
    /// has a reference to the folio, which may have left its file.
    pub(crate) fn end_of_folio(&self, head: FrameNumber, page: u32) -> u32 {
        let pages = self.frames.pages(head) as u32;
        page / pages * pages + pages
    }

    /// Returns the number of the page in a frame, counted from the beginning of the page's owner.
    pub(crate) fn index_of(&self, frame: FrameNumber) -> u32 {
        let head = self.frames.head(frame);
        self.frames[head].index() + (frame.0 - head.0)
    }

    /// Returns whether a folio belongs to `owner` and has the owner's page `page`.
    pub(crate) fn is_page_of(&self, head: FrameNumber, owner: Owner, page: u32) -> bool {
        let descriptor = &self.frames[head];
        descriptor.owner() == owner && u64::from(page.wrapping_sub(descriptor.index())) < self.frames.pages(head)
    }

    /// Locks a fresh folio and puts it into a file; the folio's first page becomes page `page` of the file. Returns a
    /// shadow that was in one of the folio's slots before; `None` if no slot had a shadow.
    ///
    /// # Errors
    /// Fails with the head of another folio if that folio already occupies one of the slots. On failure nothing is
    /// changed, except that shadows may be lost.
    pub fn add_to_page_cache(
        &self,
        file: &File<M>,
        page: u32,
        frame: FrameNumber,
    ) -> Result<Option<Shadow>, FrameNumber> {
        let _span = self.machine.span(Func::AddToPageCache);
        let descriptor = &self.frames[frame];
        descriptor.set(Flags::LOCKED);
        descriptor.set_owner(Owner::File(file.id), page);
        let shadow = {
            let _guard = self.lock_index(&file.i_pages);
            self.machine.spend(Step::IndexInsert, 1);
            // The index's reference is taken first, because other tasks can find the page and take references from the
            // next step on.
            descriptor.get();
            let folio = self.frames.folio(frame);
            let shadow = match file.index.insert_folio(page, folio) {
                Ok(shadow) => shadow,
                Err(there) => {
                    descriptor.put();
                    descriptor.set_owner(Owner::None, 0);
                    descriptor.clear(Flags::LOCKED);
                    return Err(there);
                }
            };
            if self.index_nodes.slabs().is_some() {
                let group = self.frames.group(frame);
                for n in 0..folio.pages() {
                    file.index.add_to_node(page + n, || self.take_node(group));
                }
            }
            shadow
        };
        self.memory().add_gauge(frame, Gauge::NrFilePages, self.frames.pages(frame) as i64);
        Ok(shadow)
    }

    /// Returns the number of file pages on the LRU lists of all zones.
    pub(crate) fn listed_file_pages(&self) -> u64 {
        self.memory().gauge(Gauge::NrInactiveFile) + self.memory().gauge(Gauge::NrActiveFile)
    }

    /// Takes a node for a file's index, and charges the node to a group.
    fn take_node(&self, group: GroupId) -> NodePlace {
        if let Some(groups) = self.groups.as_ref().filter(|_| !group.is_root()) {
            groups.take_object(group, KernelMemory::SlabReclaimable, NODE_BYTES, 0);
        }
        self.index_nodes.take(group)
    }

    /// Frees the memory of an index node. If the node's slab then has no object and leaves the slab cache, returns the
    /// slab's block, which the caller has to free.
    fn give_node(&self, place: NodePlace) -> Option<EmptySlab> {
        self.memory().free_object(place.group, KernelMemory::SlabReclaimable, NODE_BYTES);
        self.index_nodes.give(place)
    }

    /// Subtracts the pages of a folio from the page counts of the index's nodes, after the folio left its file. The
    /// folio began at page `page` of the file. Returns the slabs that have become empty. The caller holds the lock of
    /// the index.
    fn leave_nodes(&self, file: &File<M>, page: u32, folio: Folio) -> EmptySlabs {
        let mut empty = EmptySlabs::new();
        if self.index_nodes.slabs().is_some() {
            let left = (page..page + folio.pages()).filter_map(|page| file.index.remove_from_node(page));
            empty.extend(left.filter_map(|place| self.give_node(place)));
        }
        empty
    }

    /// Removes a page from its file if the page is clean and only the index and the caller have references to it.
    /// Returns whether the page was removed. A removed page has no reference, and the caller has to free it. If the
    /// page is not removed, nothing changes. See [`crate::swap::Swap::remove_mapping`].
    ///
    /// Before the call, the caller has isolated the page (which gives it one reference), locked it and unmapped it. A
    /// page that is or was open to readers with hazard pointers is removed only if `held` shows that no reader holds
    /// it; if `held` is `None`, the page is not removed. `shadow` is stored in the slots of the page.
    pub fn remove_file_page(
        &self,
        frame: FrameNumber,
        file: &File<M>,
        held: Option<&Held>,
        shadow: Option<Shadow>,
    ) -> bool {
        let _span = self.machine.span(Func::RemoveMapping);
        let removed = {
            let _guard = self.lock_index(&file.i_pages);
            self.remove_under_lock(frame, file, held, shadow)
        };
        self.end_removal(frame, removed)
    }

    /// Removes up to [`REMOVALS_MAX`] pages of `file`, each as [`PageCache::remove_file_page`] does, but takes the lock
    /// of the file's index only once. `pages` has each page and the shadow that the page leaves in its slot, if any.
    /// Calls `then` for each page, with `true` if the page was removed.
    pub(crate) fn remove_file_pages(
        &self,
        pages: &[(FrameNumber, Option<Shadow>)],
        file: &File<M>,
        mut then: impl FnMut(FrameNumber, bool),
    ) {
        let _span = self.machine.span(Func::RemoveMapping);
        let mut removed = ArrayVec::<_, REMOVALS_MAX>::new();
        {
            let _guard = self.lock_index(&file.i_pages);
            removed.extend(pages.iter().map(|(frame, shadow)| self.remove_under_lock(*frame, file, None, *shadow)));
        }
        for ((frame, _), removed) in pages.iter().zip(removed) {
            then(*frame, self.end_removal(*frame, removed));
        }
    }

    /// Removes a folio from its file, whose index the caller has locked. Returns the empty slabs of index nodes that
    /// the caller has to free; `None` if the folio was not removed.
    fn remove_under_lock(
        &self,
        frame: FrameNumber,
        file: &File<M>,
        held: Option<&Held>,
        shadow: Option<Shadow>,
    ) -> Option<EmptySlabs> {
        let descriptor = &self.frames[frame];
        self.machine.spend(Step::IndexRemove, 1);
        if !descriptor.freeze_clean(2) {
            return None;
        }
        if !self.is_free_of_readers(file, frame, held) {
            descriptor.set_references(2);
            return None;
        }
        let folio = self.frames.folio(frame);
        file.index.remove_folio(descriptor.index(), folio, shadow);
        // The simulated time for the shadow is spent only now. Until here the page was frozen and in its slot, and a
        // task that found it there retried in a loop that takes no simulated time.
        if shadow.is_some() {
            self.machine.spend(Step::ShadowStore, 1);
        }
        Some(self.leave_nodes(file, descriptor.index(), folio))
    }

    /// Finishes, without the index's lock, the removal of a page that [`PageCache::remove_under_lock`] began. Returns
    /// whether the page was removed.
    fn end_removal(&self, frame: FrameNumber, removed: Option<EmptySlabs>) -> bool {
        let Some(slabs) = removed else { return false };
        self.memory().add_gauge(frame, Gauge::NrFilePages, -(self.frames.pages(frame) as i64));
        self.frames[frame].set_owner(Owner::None, 0);
        self.free_slabs(slabs);
        true
    }

    fn free_slabs(&self, slabs: EmptySlabs) {
        for slab in slabs {
            self.free_slab(slab);
        }
    }

    /// Takes a locked page that is not dirty out of a file, and drops the index's reference.
    pub(crate) fn delete_from_page_cache(&self, file: &File<M>, frame: FrameNumber) {
        let (descriptor, folio) = (&self.frames[frame], self.frames.folio(frame));
        let slabs = {
            let _guard = self.lock_index(&file.i_pages);
            self.machine.spend(Step::IndexRemove, 1);
            file.index.remove_folio(descriptor.index(), folio, None);
            self.leave_nodes(file, descriptor.index(), folio)
        };
        self.free_slabs(slabs);
        self.memory().add_gauge(frame, Gauge::NrFilePages, -i64::from(folio.pages()));
        descriptor.set_owner(Owner::None, 0);
        let last = descriptor.put();
        assert!(!last, "the caller holds a reference of {frame}");
    }

    /// Drops a reference that a look-up took. If this is the last reference, because the page left its file meanwhile,
    /// the page is not freed but put aside. The page may still be on an LRU list, which only the layer `lru` can change
    /// (`Lru::release_orphans`).
    pub(crate) fn put_page_in_use(&self, frame: FrameNumber) {
        if self.frames[frame].put() {
            self.orphan(frame);
        }
    }

    /// Puts aside a page whose last reference was just dropped, until `Lru::release_orphans` frees it.
    #[cold]
    pub(super) fn orphan(&self, frame: FrameNumber) {
        self.frames[frame].set_references(1);
        self.orphans.lock().push(frame);
        self.has_orphans.store(true, Release);
    }
}
