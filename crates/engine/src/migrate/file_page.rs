//! Moves folios of files: the slots in the file's index get the new folio, and the mappings get the new frames.

use super::{Migrate, Move};
use crate::anonymous::Owners;
use crate::memory::Folio;
use crate::page_cache::File;
use crate::page_cache::hazard::Held;
use machine::{Machine, Step};

/// Number of references to an unmapped folio of a file if only the caller uses the folio: one from the file's index,
/// and one from the caller.
const UNUSED: u32 = 2;

impl<M: Machine> Migrate<M> {
    /// Moves a locked folio of a file. The folio's mappings are removed meanwhile and then restored; a fault waits for
    /// the folio's lock. If the folio is a single page, hazard pointers may hold it; `held` says which pages they hold.
    /// If `held` is `None`, a page that hazard pointers may hold is not moved.
    pub(super) fn move_file_folio(&self, from: Folio, to: Folio, owners: &mut Owners<M>, held: Option<&Held>) -> Move {
        let Some(file) = owners.file_of(self, from.head).cloned() else { return Move::Never };
        let taken = self.anonymous().take_mappings(&file, from.head);
        let is_mapped = !taken.is_empty();
        if !self.exchange(&file, from, to, is_mapped, held) {
            self.anonymous().give_mappings(&file, from.head, taken);
            return Move::Busy;
        }
        if is_mapped {
            self.anonymous().give_mappings(&file, to.head, taken);
            self.page_cache().unlock_page(to.head);
        }
        Move::Done
    }

    /// Copies the folio `from` to the frames of `to`, freezes `from`, and stores the new head in the file's index. If
    /// the folio's mappings were removed (`is_mapped`), locks the new head before other tasks can find it. Returns
    /// `false` if another task uses the folio, which then is not moved.
    fn exchange(&self, file: &File<M>, from: Folio, to: Folio, is_mapped: bool, held: Option<&Held>) -> bool {
        let old = &self.frames[from.head];
        let _guard = self.page_cache().lock_index(&file.i_pages);
        self.machine.spend(Step::IndexInsert, 1);
        if !self.copy_and_freeze(from, to, UNUSED) {
            return false;
        }
        if !self.page_cache().is_free_of_readers(file, from.head, held) {
            old.set_references(UNUSED);
            return false;
        }
        self.copy_folio_state(from, to, UNUSED);
        if is_mapped {
            // The new head is locked before other tasks find it. Otherwise a task that wrote the page now would not see
            // which of its mappings may write, and changes made through them after that write would be lost.
            let is_first = self.frames[to.head].try_lock();
            debug_assert!(is_first, "a frame that nobody knows is locked: {:?}", self.frames[to.head]);
        }
        file.index.replace_folio(old.index(), from, to);
        true
    }
}
