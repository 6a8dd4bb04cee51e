//! The two files of a workload: one holds a hot set, the other is read once from beginning to end.

use super::big_file;
use super::random::{Size, check_sizes};
use crate::system::{System, SystemError};
use figures::scale::Scale;

/// Name of the hot set's file.
pub(super) const HOT: &str = "hot.dat";

/// Name of the large file that is read once.
pub(super) const COLD: &str = "cold.dat";

/// Sizes, in pages, of the hot set's file and of the large file that is read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Files {
    /// Number of pages of the hot set's file.
    pub hot: u64,
    /// Number of pages of the large file.
    pub cold: u64,
}

impl Files {
    /// Returns the sizes of the hot set's file and of the large file for a system that has `memory_pages` pages of
    /// memory, at the scale `scale`.
    pub fn of(hot: Size, cold: Size, memory_pages: u64, scale: Scale) -> Self {
        Self { hot: hot.pages(memory_pages, scale), cold: cold.pages(memory_pages, scale) }
    }

    /// Checks the sizes of the two files. Returns an error if one of them has no pages, or if the hot set has fewer
    /// pages than there are tasks.
    pub fn check(self, tasks: u64) -> Result<(), String> {
        check_sizes(tasks, self.hot, "a hot set")?;
        check_sizes(1, self.cold, "a file")
    }

    /// Returns the number of pages of the hot set's file and the large file together.
    pub const fn pages(self) -> u64 {
        self.hot.saturating_add(self.cold)
    }

    /// Makes the hot set's file and the large file on the device, without pages in memory.
    pub fn make<S: System>(self, system: &S) -> Result<(), SystemError> {
        big_file::make(system, COLD, self.cold)?;
        big_file::make(system, HOT, self.hot)
    }

    /// Removes the hot set's file and the large file.
    pub fn remove<S: System>(system: &S) -> Result<(), SystemError> {
        system.remove(HOT)?;
        system.remove(COLD)
    }
}
