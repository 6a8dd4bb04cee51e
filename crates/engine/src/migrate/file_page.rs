//! A page of a file moves: its slot in the index names the new frame, and its mappings do.

use super::{Migrate, Move};
use crate::anonymous::Owners;
use crate::page_cache::File;
use crate::page_cache::hazard::Held;
use machine::{FrameNumber, Machine, Step};

/// References of an unused page of a file: its index's, and the caller's.
const UNUSED: u32 = 2;

impl<M: Machine> Migrate<M> {
    /// Moves a locked page of a file. Its mappings are removed meanwhile and then restored; a fault waits for the
    /// page's lock. Hazard pointers may hold the page: `held` says for which pages that is excluded, and without it the
    /// page stays.
    pub(super) fn move_file_page(
        &self,
        from: FrameNumber,
        to: FrameNumber,
        owners: &mut Owners<M>,
        held: Option<&Held>,
    ) -> Move {
        let Some(file) = owners.file_of(self, from).cloned() else { return Move::Never };
        let taken = self.take_mappings(&file, from);
        let is_mapped = !taken.is_empty();
        if !self.exchange(&file, from, to, is_mapped, held) {
            self.give_mappings(&file, from, taken);
            return Move::Busy;
        }
        if is_mapped {
            self.give_mappings(&file, to, taken);
            self.unlock_page(to);
        }
        Move::Done
    }

    /// Copies an unused page, freezes it, and stores the new frame in its index: locked, if its mappings are away
    /// (`is_mapped`). Returns `false` if the page is in use.
    fn exchange(
        &self,
        file: &File<M>,
        from: FrameNumber,
        to: FrameNumber,
        is_mapped: bool,
        held: Option<&Held>,
    ) -> bool {
        let old = &self.frames[from];
        let _guard = self.lock_index(&file.i_pages);
        self.machine.spend(Step::IndexInsert, 1);
        if !self.copy_and_freeze(from, to, UNUSED) {
            return false;
        }
        if !self.is_free_of_readers(file, from, held) {
            old.set_references(UNUSED);
            return false;
        }
        self.copy_page_state(from, to, UNUSED);
        if is_mapped {
            // Before others find it: a task that wrote the page now would not see which of its mappings may write, and
            // what they change after that write would be lost.
            let is_first = self.frames[to].try_lock();
            debug_assert!(is_first, "a frame that nobody knows is locked: {:?}", self.frames[to]);
        }
        file.index.replace(old.index(), from, to);
        true
    }
}
