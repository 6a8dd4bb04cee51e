//! Moves anonymous folios: the page-table entries get the new frames, and the slots in the swap cache get the new
//! folio.

use super::{Migrate, Move};
use crate::anonymous::{Owners, Region};
use crate::memory::{Flags, Folio};
use machine::{Lock, Machine, Step};

impl<M: Machine> Migrate<M> {
    /// Moves the locked anonymous folio `from` to the frames of `to`. Each page of the folio either has one mapping, or
    /// has none and is in the swap cache. A folio that other regions map, too, because of a fork, is not moved.
    pub(super) fn move_anonymous_folio(&self, from: Folio, to: Folio, owners: &mut Owners<M>) -> Move {
        let old = &self.frames[from.head];
        if old.mappings() == 0 {
            return match old.is(Flags::SWAPCACHE) && self.exchange_entries(None, from, to) {
                true => Move::Done,
                false => Move::Busy,
            };
        }
        let index = old.index();
        let Some(region) = owners.region_of(self, from.head) else { return Move::Never };
        // A folio is aligned in its region, so all its entries lie in one page-table page.
        let _guard = region.page_table(index).lock();
        self.machine.spend(Step::PteSet, from.pages());
        let mappings = mapped_parts(region, index, from).count() as u32;
        if mappings < old.mappings() && region.fork_tree.get().is_some() {
            return Move::Never;
        }
        let is_mapped = mappings > 0 && mappings == old.mappings();
        match is_mapped && self.exchange_entries(Some(region), from, to) {
            true => Move::Done,
            false => Move::Busy,
        }
    }

    /// Copies the folio `from` to the frames of `to`, freezes `from`, and stores the new frames in the swap cache and
    /// in the entries of `region` that map the folio. The caller holds the lock of these entries. Returns `false` if
    /// another task uses the folio, which then is not moved.
    fn exchange_entries(&self, region: Option<&Region<M>>, from: Folio, to: Folio) -> bool {
        let old = &self.frames[from.head];
        let is_cached = old.is(Flags::SWAPCACHE);
        let _guard = is_cached.then(|| self.page_cache().lock_index(&self.swap.i_pages)).flatten();
        if is_cached {
            self.machine.spend(Step::IndexInsert, 1);
        }
        // One reference for all entries together, one for the swap cache, and one for the caller.
        let references = u32::from(region.is_some()) + u32::from(is_cached) + 1;
        debug_assert!(!old.is(Flags::HAZARD), "only pages of files are open to readers with hazard pointers: {old:?}");
        if !self.copy_and_freeze(from, to, references) {
            return false;
        }
        let index = old.index();
        self.copy_folio_state(from, to, references);
        if is_cached {
            self.swap.cache.replace_folio(old.swap_slot(), from, to);
        }
        if let Some(region) = region {
            for n in mapped_parts(region, index, from) {
                // The new frames are in the same zone, so its counters of mapped pages do not change.
                self.frames.unmap_page(from.page(n));
                self.frames.map_page(to.page(n));
                region.replace_frame(index + n, to.page(n));
            }
        }
        true
    }
}

/// Returns those pages of a folio that a region's page-table entries map, as numbers counted from the folio's first
/// page. The folio begins at page `index` of the region. The caller holds the lock of the entries.
fn mapped_parts<M: Machine>(region: &Region<M>, index: u32, folio: Folio) -> impl Iterator<Item = u32> + '_ {
    (0..folio.pages()).filter(move |n| region.entry(index + n).frame() == Some(folio.page(*n)))
}
