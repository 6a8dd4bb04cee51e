//! Mapping: the owners of pages.
//!
//! *Holds* files and their indexes, anonymous regions and their page tables, swap, object caches, and the state of
//! writeback. *Flow*: `access` gives a frame its owner here; `reclaim` takes it away ([`Mapping::remove_mapping`]);
//! writers find dirty pages in file order ([`writeback`], [`flusher`]). *Called by* every floor above. *Locks*: the
//! page lock (a bit, sleeps) outermost, then `table`, `writeback`, `page_table`, `swap`, `i_pages`; never two of one
//! class. *Description*: mechanisms/reclaim, 1, 13, 19 to 21.
//!
//! Next: [`crate::lru`], the order in which pages are reclaimed.

pub mod bandwidth;
pub mod blocks;
mod bounce;
pub mod choices;
mod contiguity;
pub mod dirty_limit;
pub mod file;
pub mod file_index;
pub mod flusher;
pub mod hazard;
pub mod index_nodes;
pub mod latch;
pub mod object_cache;
pub mod owners;
pub mod read_state;
pub mod region;
pub mod reverse_map;
pub mod segments;
pub mod slab;
pub mod swap;
pub(crate) mod swap_window;
pub mod workingset;
mod write_failure;
pub mod writeback;

pub use choices::Choices;
use choices::IndexLock;
pub use file::File;
pub use file_index::{FileIndex, Tag};
pub use hazard::Held;
pub use owners::Owners;
pub use read_state::{ReadPattern, ReadState};
pub use region::{Entry, Region};
pub use reverse_map::{FileMapping, MapMode, MappedUse, Sharing};
pub use segments::Segments;
pub use swap::Swap;
pub use workingset::{Left, Shadow, Workingset};
use write_failure::FailedFiles;

use crate::memory::{Flags, Memory, OWNERS_MAX, Owner};
use crate::stat::Gauge;
use machine::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use machine::{DeviceId, FrameNumber, Func, Lock, LockClass, Machine, Step};
use object_cache::ObjectCaches;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// The blocks of a device that files may use, and where swap lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLayout {
    /// Blocks for files; the first is kept for the file system.
    pub file_blocks: std::ops::Range<u64>,
}

/// Where swap lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapLayout {
    /// The block device.
    pub device: DeviceId,
    /// Block of slot 0.
    pub first_block: u64,
    /// Slots of one page; 0 for no swap.
    pub slots: u32,
}

/// What writeback knows of one device.
pub struct Backing<M: Machine> {
    /// Its number: the device's, or one that the ground has given to all its files together.
    pub device: DeviceId,
    /// Blocks for files.
    pub(crate) total_blocks: u64,
    /// Its free blocks.
    pub(crate) blocks: M::Lock<blocks::FreeBlocks>,
    /// How many they are, read without the lock.
    free_blocks: AtomicU64,
    /// Dirty pages that have no block yet: each will need one.
    delayed: AtomicU64,
    /// Pages of its files that are dirty.
    pub(crate) dirty: AtomicI64,
    /// Pages of its files that are under writeback.
    pub(crate) writeback: AtomicI64,
    /// Dirty ones that could not be written.
    pub(crate) failed_files: FailedFiles,
    /// Pages dirtied since the start.
    pub(crate) dirtied: AtomicU64,
    /// Pages written since the start.
    pub(crate) written: AtomicU64,
    /// Files with dirty pages, and work asked for.
    pub(crate) work: M::Lock<flusher::Work>,
    /// The flusher sleeps here.
    pub(crate) flusher: M::WaitQueue,
    /// Rates.
    pub(crate) bandwidth: M::Lock<bandwidth::Bandwidth>,
    /// Was too much dirty when a task last looked (`bdi->dirty_exceeded`)?
    pub(crate) dirty_exceeded: AtomicBool,
    /// The limit that the rates follow, as it was last seen; read without the lock.
    pub(crate) tracked_limit: AtomicU64,
    /// The flusher passed a dirty page by because somebody was changing it (`mapping.stable_pages`).
    met_held: AtomicBool,
    /// It found nothing else in its last round, so that its writers cannot wait for it: they may be those who hold the pages.
    pub(crate) has_only_held: AtomicBool,
}

impl<M: Machine> Backing<M> {
    /// Pages of its files that are dirty, but for those that could not be written.
    pub(crate) fn writable_pages(&self) -> u64 {
        (self.dirty.load(Relaxed) - self.failed_files.pages()).max(0) as u64
    }

    /// The same, and those under writeback.
    pub(crate) fn dirty_pages(&self) -> u64 {
        self.writable_pages() + self.writeback.load(Relaxed).max(0) as u64
    }
}

/// A table of numbered things. A number is used again only after all others were: whoever remembers one finds the thing
/// or nothing.
struct Table<T> {
    entries: BTreeMap<u32, Arc<T>>,
    next: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), next: 0 }
    }
}

impl<T> Table<T> {
    fn insert(&mut self, make: impl FnOnce(u32) -> T) -> Arc<T> {
        assert!(self.entries.len() < OWNERS_MAX as usize, "all {OWNERS_MAX} numbers of owners are in use");
        while self.entries.contains_key(&self.next) {
            self.next = (self.next + 1) % OWNERS_MAX;
        }
        let id = self.next;
        self.next = (id + 1) % OWNERS_MAX;
        let entry = Arc::new(make(id));
        self.entries.insert(id, entry.clone());
        entry
    }
}

/// What a packet of an Ethernet frame takes in one piece (`kmalloc-2048`), bytes: 1500 and what describes it. Assumed; with long
/// headers it is more.
const SOCKET_BUFFER_BYTES: u64 = 2048;

/// Page queues: a page's waiters wait at the one that its number falls on.
const PAGE_QUEUES: usize = 256;

/// The floor of owners.
pub struct Mapping<M: Machine> {
    memory: Memory<M>,
    /// The section `[mapping]` of the kernel file.
    pub choices: Choices,
    files: M::Lock<Table<File<M>>>,
    regions: M::Lock<Table<Region<M>>>,
    /// Swap.
    pub swap: Swap<M>,
    /// Devices; `backings[device.0]`.
    pub backings: Vec<Backing<M>>,
    /// Caches of kernel objects that can be shrunk.
    pub object_caches: ObjectCaches<M>,
    /// What packets lie in until they are acknowledged.
    pub socket_buffers: slab::SlabCache<M>,
    /// The nodes of files' indexes.
    pub index_nodes: index_nodes::IndexNodes<M>,
    /// Pages of files that left memory (`lru.admission`).
    pub(crate) workingset: Workingset,
    page_queues: Vec<M::WaitQueue>,
    /// Woken when the write of a page ended that reclaim waits for.
    pub(crate) reclaim_written: M::WaitQueue,
    /// Pages whose last reference a lookup dropped; see [`Mapping::put_page_in_use`].
    pub(crate) orphans: M::Lock<Vec<FrameNumber>>,
    /// Is there any? Looked at without the lock.
    pub(crate) has_orphans: AtomicBool,
    /// Has the engine no tasks of its own any more? Then nobody waits for what they would do.
    pub(crate) is_abandoned: AtomicBool,
    /// Readers with hazard pointers, and who waits for them.
    pub(crate) hazards: hazard::Hazards<M>,
}

impl<M: Machine> Deref for Mapping<M> {
    type Target = Memory<M>;
    #[inline]
    fn deref(&self) -> &Memory<M> {
        &self.memory
    }
}

impl<M: Machine> Mapping<M> {
    /// No files, no regions, empty swap.
    pub fn new(memory: Memory<M>, choices: Choices, devices: &[DeviceLayout], swap: SwapLayout) -> Self {
        let machine = &memory.machine;
        let backings = devices
            .iter()
            .enumerate()
            .map(|(n, layout)| Backing {
                device: DeviceId(n as u32),
                total_blocks: layout.file_blocks.end - layout.file_blocks.start,
                blocks: machine.lock(LockClass::Other, blocks::FreeBlocks::new(layout.file_blocks.clone())),
                free_blocks: AtomicU64::new(layout.file_blocks.end - layout.file_blocks.start),
                delayed: AtomicU64::new(0),
                dirty: AtomicI64::new(0),
                writeback: AtomicI64::new(0),
                failed_files: FailedFiles::default(),
                dirtied: AtomicU64::new(0),
                written: AtomicU64::new(0),
                work: machine.lock(LockClass::Writeback, flusher::Work::default()),
                flusher: machine.wait_queue(),
                bandwidth: machine.lock(LockClass::Other, bandwidth::Bandwidth::default()),
                dirty_exceeded: AtomicBool::new(false),
                tracked_limit: AtomicU64::new(0),
                met_held: AtomicBool::new(false),
                has_only_held: AtomicBool::new(false),
            })
            .collect();
        let slab_order = choices.slab_order;
        Self {
            choices,
            files: machine.lock(LockClass::Table, Table::default()),
            regions: machine.lock(LockClass::Table, Table::default()),
            swap: Swap::new(machine, swap.device, swap.first_block, swap.slots),
            backings,
            object_caches: ObjectCaches::new(machine, slab_order),
            socket_buffers: slab::SlabCache::new(machine, SOCKET_BUFFER_BYTES, slab_order),
            index_nodes: index_nodes::IndexNodes::new(machine, slab_order),
            workingset: Workingset::default(),
            reclaim_written: machine.wait_queue(),
            page_queues: (0..PAGE_QUEUES).map(|_| machine.wait_queue()).collect(),
            orphans: machine.lock(LockClass::Other, Vec::new()),
            has_orphans: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            hazards: hazard::Hazards::new(machine),
            memory,
        }
    }

    // ---- owners ----

    /// A new, empty file on a device.
    pub fn create_file(&self, device: DeviceId) -> Arc<File<M>> {
        self.files.lock().insert(|id| File::new(&self.machine, id, device))
    }

    /// A file of `bytes` whose page `n` lies at block `n` of a device of its own, as where a file system places it.
    /// For limits and the flusher it counts to the device `backing`.
    pub fn add_placed_file(&self, device: DeviceId, backing: DeviceId, bytes: u64) -> Arc<File<M>> {
        self.files.lock().insert(|id| File::placed(&self.machine, id, device, backing, bytes))
    }

    /// The file with a number, if there still is one.
    pub fn file(&self, id: u32) -> Option<Arc<File<M>>> {
        self.files.lock().entries.get(&id).cloned()
    }

    /// All files, by number.
    pub fn files(&self) -> Vec<Arc<File<M>>> {
        self.files.lock().entries.values().cloned().collect()
    }

    /// Forgets a file, none of whose pages is left.
    pub(crate) fn forget_file(&self, file: &File<M>) {
        assert_eq!(file.index.pages(), 0, "file {} forgotten with pages in memory", file.id);
        assert!(!file.is_mapped(), "file {} forgotten while it is mapped", file.id);
        self.give_file_blocks(file, 0..file.end_page());
        self.files.lock().entries.remove(&file.id);
    }

    /// Gives the blocks of a file's pages back to the device.
    pub(crate) fn give_file_blocks(&self, file: &File<M>, pages: std::ops::Range<u32>) {
        if file.is_placed() {
            return;
        }
        let mut run: Option<(u64, u64)> = None;
        for index in pages {
            let Some(block) = file.take_block(index) else { continue };
            match &mut run {
                Some((start, length)) if *start + *length == block => *length += 1,
                _ => {
                    if let Some((start, length)) = run.replace((block, 1)) {
                        self.give_blocks(file.backing, start, length);
                    }
                }
            }
        }
        if let Some((start, length)) = run {
            self.give_blocks(file.backing, start, length);
        }
    }

    /// A new region of `pages` untouched pages, in which faults may try for huge pages.
    pub fn create_region(&self, pages: u32, is_huge_allowed: bool) -> Arc<Region<M>> {
        self.regions.lock().insert(|id| Region::new(&self.machine, id, pages, is_huge_allowed, None))
    }

    /// The choices of this floor, for floors above that have their own.
    pub(crate) const fn mapping_choices(&self) -> &Choices {
        &self.choices
    }

    /// The region with a number, if there still is one.
    pub fn region(&self, id: u32) -> Option<Arc<Region<M>>> {
        self.regions.lock().entries.get(&id).cloned()
    }

    /// All regions, by number.
    pub fn regions(&self) -> Vec<Arc<Region<M>>> {
        self.regions.lock().entries.values().cloned().collect()
    }

    /// Forgets a region, none of whose pages is left.
    pub(crate) fn forget_region(&self, region: &Region<M>) {
        if let Some(mapped) = &region.file {
            self.forget_mapper(&mapped.file, region);
        }
        self.regions.lock().entries.remove(&region.id);
    }

    /// Takes up to `blocks` contiguous blocks of a device; see [`blocks::FreeBlocks::take`].
    fn take_blocks(&self, device: DeviceId, goal: u64, blocks: u64) -> Option<(u64, u64)> {
        let backing = self.backing(device);
        let taken = backing.blocks.lock().take(goal, blocks)?;
        backing.free_blocks.fetch_sub(taken.1, Relaxed);
        Some(taken)
    }

    /// Gives blocks back.
    fn give_blocks(&self, device: DeviceId, start: u64, blocks: u64) {
        let backing = self.backing(device);
        backing.blocks.lock().give(start, blocks);
        backing.free_blocks.fetch_add(blocks, Relaxed);
    }

    /// Makes sure that a page without a block, which is about to become dirty, can get one later; false
    /// when the device has no room for it.
    pub(crate) fn reserve_block(&self, device: DeviceId) -> bool {
        let backing = self.backing(device);
        let reserve = |delayed| (delayed < backing.free_blocks.load(Relaxed)).then_some(delayed + 1);
        backing.delayed.fetch_update(Relaxed, Relaxed, reserve).is_ok()
    }

    /// A dirty page got its block, or needs none any more.
    fn end_reservation(&self, device: DeviceId) {
        self.backing(device).delayed.fetch_sub(1, Relaxed);
    }

    /// What writeback knows of a device.
    pub fn backing(&self, device: DeviceId) -> &Backing<M> {
        &self.backings[device.index()]
    }

    // ---- the page lock ----

    pub(super) fn page_queue(&self, frame: FrameNumber) -> &M::WaitQueue {
        // Fibonacci hashing: neighbouring pages wait at different queues.
        &self.page_queues[(frame.0.wrapping_mul(0x9e37_79b9) >> 24) as usize % PAGE_QUEUES]
    }

    /// Locks a page, waiting for it. *May sleep.*
    pub fn lock_page(&self, frame: FrameNumber) {
        while !self.frames[frame].try_lock() {
            self.wait_for_clear(frame, Flags::LOCKED);
        }
    }

    /// Unlocks a page.
    pub fn unlock_page(&self, frame: FrameNumber) {
        debug_assert!(self.frames[frame].is(Flags::LOCKED), "{frame} unlocked twice");
        self.frames[frame].clear(Flags::LOCKED);
        self.machine.wake(self.page_queue(frame));
    }

    /// Waits until a flag of a page is clear. The caller holds a reference. *May sleep.*
    pub fn wait_for_clear(&self, frame: FrameNumber, flag: Flags) {
        loop {
            let queue = self.page_queue(frame);
            let ticket = self.machine.ticket(queue);
            if !self.frames[frame].is(flag) {
                return;
            }
            self.machine.sleep(queue, ticket, None);
            // A killed task does not sleep: at least it lets others go first.
            self.machine.relax();
        }
    }

    // ---- file pages ----

    /// The lock of an index, if there is to be one (`mapping.index_lock`). Nodes that take memory need it in any case: who
    /// takes the last page of one away gives back its place.
    pub(super) fn lock_index<'a>(&self, i_pages: &'a M::Lock<()>) -> Option<<M::Lock<()> as Lock<()>>::Guard<'a>> {
        let is_locked = self.choices.index_lock == IndexLock::PerPage || self.index_nodes.order().is_some();
        is_locked.then(|| i_pages.lock())
    }

    /// The page of a file, with a reference for the caller.
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

    /// Puts a fresh page, locked by the caller, into a file; returns the shadow that was in its slot.
    ///
    /// # Errors
    /// The page that is there already; then nothing was changed.
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
            self.machine.spend(Step::IndexStore, 1);
            // The index's reference comes first: from the next step on others take theirs.
            descriptor.get();
            let shadow = match file.index.insert(page, frame) {
                Ok(shadow) => shadow,
                Err(there) => {
                    descriptor.put();
                    descriptor.set_owner(Owner::None, 0);
                    descriptor.clear(Flags::LOCKED);
                    return Err(there);
                }
            };
            if self.index_nodes.order().is_some() {
                file.index.add_to_node(page, || self.index_nodes.take());
            }
            shadow
        };
        self.add_gauge(frame, Gauge::NrFilePages, 1);
        Ok(shadow)
    }

    /// Pages of files on the lists of all zones.
    pub(crate) fn listed_file_pages(&self) -> u64 {
        self.gauge(Gauge::NrInactiveFile) + self.gauge(Gauge::NrActiveFile)
    }

    /// A page left its file's index: the block of its node's slab, if nothing is left there. The caller holds the lock
    /// of the index.
    fn leave_node(&self, file: &File<M>, page: u32) -> Option<(FrameNumber, machine::Order)> {
        self.index_nodes.order()?;
        file.index.remove_from_node(page).and_then(|place| self.index_nodes.give(place))
    }

    /// Takes a page out of its owner's index if nobody but the caller refers to it and it is clean;
    /// the page is then the caller's alone, without any reference, to be freed.
    ///
    /// The caller isolated the page (one reference), locked it and unmapped it. Readers may have it by hazard pointers:
    /// then `held` says who is known not to, and without it the page stays. A page of a file leaves `shadow`.
    pub fn remove_mapping(
        &self,
        frame: FrameNumber,
        file: Option<&File<M>>,
        held: Option<&Held>,
        shadow: Option<Shadow>,
    ) -> bool {
        let _span = self.machine.span(Func::RemoveMapping);
        let descriptor = &self.frames[frame];
        let mut slab = None;
        if let Some(file) = file {
            let _guard = self.lock_index(&file.i_pages);
            self.machine.spend(Step::IndexStore, 1);
            if !descriptor.freeze_clean(2) {
                return false;
            }
            if descriptor.is(Flags::HAZARD) {
                // Nobody opens it any more, now that it is frozen.
                let is_open = file.index.find(descriptor.index()).is_some_and(|found| found.is_open());
                if is_open || !held.is_some_and(|held| held.is_free(frame, descriptor.private())) {
                    descriptor.set_references(2);
                    return false;
                }
                descriptor.clear(Flags::HAZARD);
            }
            file.index.remove(descriptor.index(), frame, shadow);
            // Not while the page is frozen and still found: who finds it looks again and again, and takes no time for that.
            if shadow.is_some() {
                self.machine.spend(Step::ShadowStore, 1);
            }
            slab = self.leave_node(file, descriptor.index());
        } else {
            let slot = descriptor.private();
            {
                let _guard = self.lock_index(&self.swap.i_pages);
                self.machine.spend(Step::IndexStore, 1);
                if !descriptor.freeze_clean(2) {
                    return false;
                }
                self.swap.cache.remove(slot, frame, None);
                descriptor.clear(Flags::SWAPCACHE);
            }
            self.swap.with_slots(&self.machine, |slots| slots.clear_cached(slot));
        }
        self.add_gauge(frame, Gauge::NrFilePages, -1);
        descriptor.set_owner(Owner::None, 0);
        if let Some((head, order)) = slab {
            self.free_kernel_block(head, order, Gauge::NrSlabReclaimable);
        }
        true
    }

    /// Takes a locked page out of a file whatever its state; drops the index's reference.
    pub(crate) fn delete_from_page_cache(&self, file: &File<M>, frame: FrameNumber) {
        let descriptor = &self.frames[frame];
        self.cancel_dirty(file, frame);
        let slab = {
            let _guard = self.lock_index(&file.i_pages);
            self.machine.spend(Step::IndexStore, 1);
            file.index.remove(descriptor.index(), frame, None);
            self.leave_node(file, descriptor.index())
        };
        if let Some((head, order)) = slab {
            self.free_kernel_block(head, order, Gauge::NrSlabReclaimable);
        }
        self.add_gauge(frame, Gauge::NrFilePages, -1);
        descriptor.set_owner(Owner::None, 0);
        let last = descriptor.put();
        assert!(!last, "the caller holds a reference of {frame}");
    }

    // ---- swap cache ----

    /// Gives an anonymous page, locked by the caller, a swap slot; false when swap is full, or there is no memory for the
    /// index of its cache.
    pub fn add_to_swap(&self, frame: FrameNumber) -> bool {
        let _span = self.machine.span(Func::AddToSwap);
        let Some(slot) = self.take_swap_slot() else { return false };
        if !self.swap.cache.prepare(slot) {
            self.swap.with_slots(&self.machine, |slots| slots.clear_cached(slot));
            return false;
        }
        self.insert_into_swap_cache(frame, slot).expect("a slot just taken has no page in the cache");
        self.frames[frame].set(Flags::DIRTY);
        true
    }

    /// A free slot; when swap is more than half full, also one that is made free (mechanisms/reclaim, 20.1).
    fn take_swap_slot(&self) -> Option<u32> {
        let mut or_cached = self.swap.is_nearly_full();
        loop {
            let found = self.swap.with_slots(&self.machine, |slots| slots.take(or_cached))?;
            self.machine.spend(Step::SwapSlot, found.looked_at);
            if found.is_free {
                return Some(found.slot);
            }
            // Locked, or wanted again: then only what is free.
            or_cached = self.reclaim_swap_slot(found.slot);
        }
    }

    /// Sets a slot free that only the swap cache holds; false when its page is in use.
    #[doc(alias = "__try_to_reclaim_swap")]
    fn reclaim_swap_slot(&self, slot: u32) -> bool {
        let Some(frame) = self.find_page(&self.swap.cache, slot) else { return false };
        let descriptor = &self.frames[frame];
        let is_freed = descriptor.try_lock() && {
            let is_freed =
                descriptor.is(Flags::SWAPCACHE) && descriptor.private() == slot && self.try_to_free_swap(frame);
            self.unlock_page(frame);
            is_freed
        };
        self.put_page_in_use(frame);
        is_freed
    }

    /// Puts a locked page into the swap cache at `slot`, with a reference for the cache.
    ///
    /// # Errors
    /// The page that is there already.
    pub(crate) fn insert_into_swap_cache(&self, frame: FrameNumber, slot: u32) -> Result<(), FrameNumber> {
        {
            let _guard = self.lock_index(&self.swap.i_pages);
            self.machine.spend(Step::IndexStore, 1);
            self.frames[frame].get();
            self.frames[frame].set_private(slot);
            self.frames[frame].set(Flags::SWAPCACHE);
            if let Err(there) = self.swap.cache.insert(slot, frame) {
                self.frames[frame].clear(Flags::SWAPCACHE);
                self.frames[frame].put();
                return Err(there);
            }
        }
        self.add_gauge(frame, Gauge::NrFilePages, 1);
        Ok(())
    }

    /// Takes a locked page out of the swap cache and drops the cache's reference. The page is dirty
    /// then: its contents are nowhere else.
    pub(crate) fn delete_from_swap_cache(&self, frame: FrameNumber) {
        let descriptor = &self.frames[frame];
        let slot = descriptor.private();
        {
            let _guard = self.lock_index(&self.swap.i_pages);
            self.machine.spend(Step::IndexStore, 1);
            self.swap.cache.remove(slot, frame, None);
            descriptor.clear(Flags::SWAPCACHE);
        }
        self.swap.with_slots(&self.machine, |slots| slots.clear_cached(slot));
        self.add_gauge(frame, Gauge::NrFilePages, -1);
        descriptor.set(Flags::DIRTY);
        let last = descriptor.put();
        assert!(!last, "the caller holds a reference of {frame}");
    }

    /// Frees the slot of a locked page of the swap cache if no page table needs it and it is not
    /// being written (`try_to_free_swap`).
    pub(crate) fn try_to_free_swap(&self, frame: FrameNumber) -> bool {
        let descriptor = &self.frames[frame];
        if !descriptor.is(Flags::SWAPCACHE) || descriptor.is(Flags::WRITEBACK) {
            return false;
        }
        if self.swap.slots.lock().uses(descriptor.private()) > 0 {
            return false;
        }
        self.delete_from_swap_cache(frame);
        true
    }

    // ---- anonymous pages ----

    /// Replaces the mapping of a locked page of the swap cache by its slot. The mapping's reference
    /// is dropped.
    fn unmap_anonymous_page(&self, frame: FrameNumber, region: &Region<M>) {
        let descriptor = &self.frames[frame];
        let page = descriptor.index();
        let slot = descriptor.private();
        let _guard = region.page_table(page).lock();
        self.machine.spend(Step::UnmapPage, 1);
        if region.entry(page).frame() != Some(frame) {
            return;
        }
        self.swap.with_slots(&self.machine, |slots| slots.duplicate(slot));
        let entry = region.replace(page, Entry::swapped(slot));
        if entry.is_dirty() {
            descriptor.set(Flags::DIRTY);
        }
        self.unmapped(frame);
        let last = descriptor.put();
        assert!(!last, "reclaim holds a reference of {frame}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_owners_are_used_again_when_all_others_were() {
        let mut table = Table { next: OWNERS_MAX - 2, ..Table::default() };
        let mut ids = Vec::new();
        for _ in 0..4 {
            table.insert(|id| ids.push(id));
        }
        assert_eq!(ids, [OWNERS_MAX - 2, OWNERS_MAX - 1, 0, 1]);
        table.entries.remove(&0);
        table.next = OWNERS_MAX - 2;
        table.insert(|id| ids.push(id));
        assert_eq!(ids[4], 0, "the others are in use");
    }
}
