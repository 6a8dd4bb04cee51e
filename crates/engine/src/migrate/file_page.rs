//! A page of a file moves: its slot in the index names the new frame, and its mappings do.

use super::{Migrate, Move};
use crate::anonymous::Owners;
use crate::memory::Flags;
use crate::page_cache::File;
use machine::{FrameNumber, Machine, Step};

/// References of a page of a file that nobody uses: its index's, and the caller's.
const UNUSED: u32 = 2;

impl<M: Machine> Migrate<M> {
    /// Moves a locked page of a file. Its mappings are taken away for that long, and given back: who faults meanwhile waits for
    /// the page's lock.
    pub(super) fn move_file_page(&self, from: FrameNumber, to: FrameNumber, owners: &mut Owners<M>) -> Move {
        let Some(file) = owners.file_of(self, from).cloned() else { return Move::Never };
        let taken = self.take_mappings(&file, from);
        if !self.exchange(&file, from, to) {
            self.give_mappings(&file, from, taken);
            return Move::Busy;
        }
        if !taken.is_empty() {
            // Whoever finds the page now waits until it is mapped as it was.
            self.lock_page(to);
            self.give_mappings(&file, to, taken);
            self.unlock_page(to);
        }
        Move::Done
    }

    /// Freezes a page that nobody uses, copies it, and lets its index name the new frame; false when somebody does use it.
    fn exchange(&self, file: &File<M>, from: FrameNumber, to: FrameNumber) -> bool {
        let old = &self.frames[from];
        let _guard = self.lock_index(&file.i_pages);
        self.machine.spend(Step::IndexStore, 1);
        if !old.freeze(UNUSED) {
            return false;
        }
        if old.is(Flags::HAZARD) {
            // Somebody may read it without a reference.
            old.set_references(UNUSED);
            return false;
        }
        self.copy_page_state(from, to, UNUSED);
        file.index.replace(old.index(), from, to);
        true
    }
}
