//! An anonymous page moves: its entry names the new frame, and so does its slot in the swap cache.

use super::{Migrate, Move};
use crate::anonymous::{Owners, Region};
use crate::memory::Flags;
use machine::{FrameNumber, Lock, Machine, Step};

impl<M: Machine> Migrate<M> {
    /// Moves a locked anonymous page. It has one mapping, or none and a place in the swap cache.
    pub(super) fn move_anonymous_page(&self, from: FrameNumber, to: FrameNumber, owners: &mut Owners<M>) -> Move {
        let old = &self.frames[from];
        if old.mappings() == 0 {
            return match old.is(Flags::SWAPCACHE) && self.exchange_entries(None, from, to) {
                true => Move::Done,
                false => Move::Busy,
            };
        }
        let index = old.index();
        let Some(region) = owners.region_of(self, from) else { return Move::Never };
        let _guard = region.page_table(index).lock();
        self.machine.spend(Step::PteSet, 1);
        match region.entry(index).frame() == Some(from) && self.exchange_entries(Some(region), from, to) {
            true => Move::Done,
            false => Move::Busy,
        }
    }

    /// Copies an unused page, freezes it, and stores the new frame in the swap cache and in the entry in `region` that
    /// maps the page, whose lock the caller has. Returns `false` if the page is in use.
    fn exchange_entries(&self, region: Option<&Region<M>>, from: FrameNumber, to: FrameNumber) -> bool {
        let (old, new) = (&self.frames[from], &self.frames[to]);
        let is_cached = old.is(Flags::SWAPCACHE);
        let _guard = is_cached.then(|| self.lock_index(&self.swap.i_pages)).flatten();
        if is_cached {
            self.machine.spend(Step::IndexInsert, 1);
        }
        // The entry's, the swap cache's, and the caller's.
        let references = u32::from(region.is_some()) + u32::from(is_cached) + 1;
        debug_assert!(!old.is(Flags::HAZARD), "only pages of files are open to readers with hazard pointers: {old:?}");
        if !self.copy_and_freeze(from, to, references) {
            return false;
        }
        let index = old.index();
        self.copy_page_state(from, to, references);
        if is_cached {
            self.swap.cache.replace(old.swap_slot(), from, to);
        }
        if let Some(region) = region {
            // In the same zone: what is counted there stays as it is.
            old.unmap();
            new.map();
            region.replace_frame(index, to);
        }
        true
    }
}
