//! A cache for the look-up of the region or file that owns a page. It is used where the pages of a list are examined
//! one after the other.

use super::{Anonymous, Region};
use crate::memory::Owner;
use crate::page_cache::FileOwners;
use machine::{FrameNumber, Machine};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A cache of the file and the region that were looked up last. The file is in a [`FileOwners`], to which this type
/// dereferences. The cache saves look-ups because consecutive pages of a list mostly have the same owner.
pub struct Owners<M: Machine> {
    files: FileOwners<M>,
    region: Option<Arc<Region<M>>>,
}

impl<M: Machine> Default for Owners<M> {
    fn default() -> Self {
        Self { files: FileOwners::default(), region: None }
    }
}

impl<M: Machine> Deref for Owners<M> {
    type Target = FileOwners<M>;
    #[inline]
    fn deref(&self) -> &FileOwners<M> {
        &self.files
    }
}

impl<M: Machine> DerefMut for Owners<M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut FileOwners<M> {
        &mut self.files
    }
}

impl<M: Machine> Owners<M> {
    /// Returns the region that a page belongs to; `None` if it belongs to no region.
    pub fn region_of(&mut self, anonymous: &Anonymous<M>, frame: FrameNumber) -> Option<&Region<M>> {
        let Owner::Region(id) = anonymous.frames[frame].owner() else { return None };
        if self.region.as_ref().is_none_or(|region| region.id != id) {
            self.region = anonymous.region(id);
        }
        self.region.as_deref()
    }
}
