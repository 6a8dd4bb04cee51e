//! Batches of pages of one file. Reclaim takes the lock of the file's index once, and removes all pages of the batch
//! from the index (`page_cache.index_lock = "by-file"`).
//!
//! Pages that may be freed wait in the batch, locked, until a page of another file comes or the batch is full. A task
//! that is about to sleep or to write first removes the waiting pages, so that no other task waits for their locks.
//! Description: mechanisms/multigen, 9.2.

use super::Reclaim;
use crate::lru::Isolated;
use crate::memory::Flags;
use crate::page_cache::{File, REMOVALS_MAX, Shadow};
use arrayvec::ArrayVec;
use machine::{FrameNumber, Machine};
use std::sync::Arc;

/// Pages of one file that wait to be removed together, and the pages whose removal was tried before.
pub(super) struct Removals<M: Machine> {
    file: Option<Arc<File<M>>>,
    waiting: ArrayVec<(FrameNumber, Option<Shadow>), REMOVALS_MAX>,
    /// Pages that were removed from their file and have no reference any more, so that they can be freed.
    pub(super) removed: Isolated,
    /// Pages that were not removed, because they have another reference or became dirty. They are unlocked.
    pub(super) stayed: Isolated,
}

impl<M: Machine> Default for Removals<M> {
    fn default() -> Self {
        Self { file: None, waiting: ArrayVec::new(), removed: Isolated::new(), stayed: Isolated::new() }
    }
}

impl<M: Machine> Reclaim<M> {
    /// Adds a page of `file` to the pages that wait to be removed together from their file. The page is locked, and
    /// reclaim may free it. If the waiting pages are of another file, or no more pages can wait, removes the waiting
    /// pages first.
    pub(super) fn remove_with_others(
        &self,
        removals: &mut Removals<M>,
        file: &Arc<File<M>>,
        frame: FrameNumber,
        shadow: Option<Shadow>,
    ) {
        if removals.waiting.is_full() || removals.file.as_ref().is_some_and(|before| !Arc::ptr_eq(before, file)) {
            self.remove_waiting(removals);
        }
        if removals.file.is_none() {
            removals.file = Some(Arc::clone(file));
        }
        removals.waiting.push((frame, shadow));
    }

    /// Removes the waiting pages from their file's index, if there are any.
    pub(super) fn remove_waiting(&self, removals: &mut Removals<M>) {
        let Some(file) = removals.file.take() else { return };
        let (removed, stayed) = (&mut removals.removed, &mut removals.stayed);
        self.page_cache().remove_file_pages(&removals.waiting, &file, |frame, is_removed| {
            if is_removed {
                self.frames[frame].clear(Flags::LOCKED);
                removed.push(frame);
            } else {
                self.page_cache().unlock_page(frame);
                stayed.push(frame);
            }
        });
        removals.waiting.clear();
    }
}
