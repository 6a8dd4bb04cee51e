//! Who owns the pages of a list.

use super::{File, Mapping, Region};
use crate::memory::Owner;
use machine::{FrameNumber, Machine};
use std::sync::Arc;

/// Owners looked up last: the pages of one list mostly have the same.
pub struct Owners<M: Machine> {
    file: Option<Arc<File<M>>>,
    region: Option<Arc<Region<M>>>,
}

impl<M: Machine> Default for Owners<M> {
    fn default() -> Self {
        Self { file: None, region: None }
    }
}

impl<M: Machine> Owners<M> {
    /// The file that a page belongs to.
    pub fn file_of(&mut self, mapping: &Mapping<M>, frame: FrameNumber) -> Option<&Arc<File<M>>> {
        let Owner::File(id) = mapping.frames[frame].owner() else { return None };
        if self.file.as_ref().is_none_or(|file| file.id != id) {
            self.file = mapping.file(id);
        }
        self.file.as_ref()
    }

    /// Asks for the slot of a page in the file that was looked up last, if it is that file's.
    pub fn prefetch_slot(&self, mapping: &Mapping<M>, frame: FrameNumber) {
        let descriptor = &mapping.frames[frame];
        if let Some(file) = &self.file
            && descriptor.owner() == Owner::File(file.id)
        {
            file.index.prefetch(descriptor.index());
        }
    }

    /// The region that a page belongs to.
    pub fn region_of(&mut self, mapping: &Mapping<M>, frame: FrameNumber) -> Option<&Region<M>> {
        let Owner::Region(id) = mapping.frames[frame].owner() else { return None };
        if self.region.as_ref().is_none_or(|region| region.id != id) {
            self.region = mapping.region(id);
        }
        self.region.as_deref()
    }
}
