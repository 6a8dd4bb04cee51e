//! Regions of a process's memory, and the way from a page back to the entries that map it.
//!
//! *Holds* the regions with their page tables ([`region`]), the lists of the regions that map a file (`mappers`) or were
//! forked from one another (`fork_tree`), and the processes that own regions ([`process`]). *Flow*: a fault fills an
//! entry. Reclaim checks whether the entries of a
//! page were used ([`Anonymous::page_referenced`]), and empties the entries ([`Anonymous::try_to_unmap`]); it finds them
//! by the [`reverse_map`]. An entry of anonymous memory then names the swap slot of its page. The module is called by
//! `writeback`, `lru`, `reclaim`, `access`. *Locks*: the page lock, then `table` or `page_table`, then `swap`.
//! *Description*: mechanisms/reclaim, 1, 9, 12, 20.
//!
//! Next: [`crate::writeback`], which makes all mappings of a page read-only before it writes the page.

mod fork_tree;
mod mappers;
mod mapping;
pub mod owners;
pub mod process;
pub mod region;
mod resident;
pub mod reverse_map;

pub use crate::task::ProcessId;
pub use mapping::{FileMapping, MapMode, Sharing};
pub use owners::Owners;
pub use process::Process;
pub use region::{Entry, Region};
pub use resident::Resident;
pub use reverse_map::MappedUse;

use crate::memory::Flags;
use crate::page_cache::table::Table;
use crate::swap::Swap;
use fork_tree::ForkTree;
use machine::{FrameNumber, Lock, LockClass, Machine, Step};
use mappers::FileMappers;
use process::Processes;
use std::ops::Deref;
use std::sync::Arc;

/// The layer (*floor*) of the engine that holds regions and their page tables.
pub struct Anonymous<M: Machine> {
    // The floor below. A field named `swap` would hide the swap area, which is reached through this field.
    below: Swap<M>,
    regions: M::Lock<Table<Region<M>>>,
    /// The regions that map each file.
    mappers: FileMappers<M>,
    processes: Processes,
}

impl<M: Machine> Deref for Anonymous<M> {
    type Target = Swap<M>;
    #[inline]
    fn deref(&self) -> &Swap<M> {
        &self.below
    }
}

impl<M: Machine> Anonymous<M> {
    /// Returns `self`, so that code of the layers above can name this layer.
    #[inline(always)]
    pub(crate) fn anonymous(&self) -> &Self {
        self
    }

    /// Creates this layer of the engine, without regions.
    pub fn new(swap: Swap<M>) -> Self {
        let machine = &swap.machine;
        Self {
            regions: machine.lock(LockClass::Table, Table::default()),
            mappers: FileMappers::new(machine),
            processes: Processes::default(),
            below: swap,
        }
    }

    /// Creates a new region of `pages` untouched pages, which belongs to process `owner`, if any. `is_huge_allowed`
    /// says whether faults in the region may try for huge pages.
    pub fn create_region(&self, owner: Option<ProcessId>, pages: u32, is_huge_allowed: bool) -> Arc<Region<M>> {
        self.regions.lock().insert(|id| Region::new(&self.machine, id, owner, pages, is_huge_allowed, None))
    }

    /// Creates a region that is to map the pages of the anonymous region `parent`, each at the same place, for process
    /// `owner`. Both then belong to one fork tree. The new region has no page-table page yet. Until
    /// [`Region::end_filling`], its entries are filled under the lock of those of `parent`.
    pub(crate) fn create_forked_region(&self, parent: &Arc<Region<M>>, owner: Option<ProcessId>) -> Arc<Region<M>> {
        let tree = parent.fork_tree.get_or_init(|| Arc::new(ForkTree::new(&self.machine, parent)));
        let child = self.regions.lock().insert(|id| {
            let child = Region::new(&self.machine, id, owner, parent.pages, parent.is_huge_allowed, None);
            child.being_filled().of_tree(tree.clone())
        });
        tree.add(&child, parent.id);
        child
    }

    /// Returns the region with the number `id`; `None` if no region has this number.
    pub fn region(&self, id: u32) -> Option<Arc<Region<M>>> {
        self.regions.lock().entries.get(&id).cloned()
    }

    /// Returns all regions, in order of their numbers.
    pub fn regions(&self) -> Vec<Arc<Region<M>>> {
        self.regions.lock().entries.values().cloned().collect()
    }

    /// Removes a region, which has no pages left, from the table of regions.
    pub(crate) fn forget_region(&self, region: &Region<M>) {
        if let Some(mapped) = &region.file {
            self.forget_mapper(&mapped.file, region);
        }
        let Some(tree) = region.fork_tree.get() else {
            self.regions.lock().entries.remove(&region.id);
            return;
        };
        let empty = Region::new(&self.machine, region.id, None, region.pages, false, None).of_tree(tree.clone());
        // Under this lock, because another region of the tree may be dropped meanwhile.
        let mut regions = self.regions.lock();
        let gone = tree.close(region.id);
        if !gone.contains(&region.id) {
            // Pages that this region owns may still be mapped by its descendants.
            regions.entries.insert(region.id, Arc::new(empty));
        }
        for id in gone {
            regions.entries.remove(&id);
        }
    }

    /// Visits each region whose page-table entry for `page` maps `frame`, a page that the region `owner` owns. If the
    /// region is being forked, the child may be left out. So whoever has removed all mappings that were found looks at the
    /// page's count of mappings before he relies on it.
    pub(crate) fn for_each_anonymous_mapping(
        &self,
        owner: &Region<M>,
        page: u32,
        frame: FrameNumber,
        mut visit: impl FnMut(&Region<M>),
    ) {
        match owner.fork_tree.get() {
            None => visit(owner),
            Some(tree) => {
                let is_mapped = |region: &Arc<Region<M>>| region.entry(page).frame() == Some(frame);
                tree.descendants(owner.id).filter(is_mapped).for_each(|region| visit(&region));
            }
        }
    }

    /// Replaces the mappings of a locked folio of the swap cache by swap entries with the folio's slots. The references
    /// of the mappings are dropped. `region` owns the folio.
    fn unmap_anonymous_folio(&self, head: FrameNumber, region: &Region<M>) {
        let descriptor = &self.frames[head];
        let (page, slot) = (descriptor.index(), descriptor.swap_slot());
        for (n, frame) in (0..).zip(self.frames.folio(head).frames()) {
            self.for_each_anonymous_mapping(region, page + n, frame, |region| {
                self.unmap_anonymous_page(head, frame, region, page + n, slot + n);
            });
        }
    }

    /// Unmaps one page, `frame`, of the folio `head`, which is locked and in the swap cache. The page-table entry of
    /// `page` then refers to the swap slot `slot`. Does nothing if this entry maps another frame or none.
    fn unmap_anonymous_page(&self, head: FrameNumber, frame: FrameNumber, region: &Region<M>, page: u32, slot: u32) {
        let _guard = region.page_table(page).lock();
        self.machine.spend(Step::UnmapPage, 1);
        if region.entry(page).frame() != Some(frame) {
            return;
        }
        self.with_slots(|slots| slots.duplicate(slot));
        let entry = region.replace(page, Entry::swapped(slot));
        if entry.is_dirty() {
            self.frames[head].set(Flags::DIRTY);
        }
        self.end_mapping(frame);
    }
}
