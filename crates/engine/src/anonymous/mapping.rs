//! The part of a file that a region maps, and the properties of the mapping.

use crate::page_cache::{File, ReadPattern, ReadState};
use machine::Machine;
use std::sync::Arc;

/// The visibility of writes to a mapped file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// The mapping is shared: writes change the file's contents.
    #[default]
    Shared,
    /// The mapping is private: a page that is written becomes an anonymous copy.
    Private,
}

/// The properties of a mapping of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapMode {
    /// The visibility of writes through the mapping.
    pub sharing: Sharing,
    /// `true` if the mapping is a program's text, whose pages some kernels keep longer.
    pub is_executable: bool,
    /// The expected access pattern (`madvise`).
    pub pattern: ReadPattern,
}

/// The part of a file that a region maps.
pub struct FileMapping<M: Machine> {
    /// The file that the region maps.
    pub file: Arc<File<M>>,
    /// The file's page at which the region begins.
    pub first_page: u32,
    /// The sharing, the executability and the expected access pattern of the mapping.
    pub mode: MapMode,
    /// State of the readahead that is started by faults on the mapping.
    pub(crate) state: M::Lock<ReadState>,
}

impl<M: Machine> FileMapping<M> {
    /// Returns the number of the region's page that maps page `index` of the file; `None` if the region, which has
    /// `pages` pages, does not map this page of the file.
    pub(super) fn place(&self, index: u32, pages: u32) -> Option<u32> {
        index.checked_sub(self.first_page).filter(|page| *page < pages)
    }
}
