//! Finds the files that own pages, for callers that go through the pages of a list one by one.

use super::{File, PageCache};
use crate::memory::Owner;
use machine::{FrameNumber, Machine};
use std::sync::Arc;

/// A cache of one file: the one that was looked up last. It saves look-ups of the owners of consecutive pages of a
/// list, because these pages mostly belong to the same file.
pub struct FileOwners<M: Machine> {
    file: Option<Arc<File<M>>>,
}

impl<M: Machine> Default for FileOwners<M> {
    fn default() -> Self {
        Self { file: None }
    }
}

impl<M: Machine> FileOwners<M> {
    /// Returns the file that a page belongs to; `None` if it belongs to no file.
    pub fn file_of(&mut self, page_cache: &PageCache<M>, frame: FrameNumber) -> Option<&Arc<File<M>>> {
        let Owner::File(id) = page_cache.frames[frame].owner() else { return None };
        if self.file.as_ref().is_none_or(|file| file.id != id) {
            self.file = page_cache.file(id);
        }
        self.file.as_ref()
    }

    /// Prefetches a page's slot in the index of the page's file. Does nothing unless this is the file that
    /// [`Self::file_of`] returned last.
    #[inline]
    pub fn prefetch_slot(&self, page_cache: &PageCache<M>, frame: FrameNumber) {
        let descriptor = &page_cache.frames[frame];
        if let Some(file) = &self.file
            && descriptor.owner() == Owner::File(file.id)
        {
            file.index.prefetch(descriptor.index());
        }
    }
}
