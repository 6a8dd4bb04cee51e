//! Finds, for each page of a list, the file that owns the page.

use super::{File, PageCache};
use crate::memory::Owner;
use machine::{FrameNumber, Machine};
use std::sync::Arc;

/// The file that was looked up last. Keeping it saves look-ups, because consecutive pages of a list mostly belong to
/// the same file.
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

    /// Prefetches the slot of a page in the file that was looked up last, if the page belongs to that file.
    pub fn prefetch_slot(&self, page_cache: &PageCache<M>, frame: FrameNumber) {
        let descriptor = &page_cache.frames[frame];
        if let Some(file) = &self.file
            && descriptor.owner() == Owner::File(file.id)
        {
            file.index.prefetch(descriptor.index());
        }
    }
}
