//! The two files of a workload: one holds a hot set, the other is read once from beginning to end.

use super::big_file;
use super::random::{Size, check_sizes};
use crate::system::{System, SystemError};
use figures::scale::Scale;

/// Name of the hot set's file.
pub(super) const HOT: &str = "hot.dat";

/// Name of the large file that is read once.
pub(super) const COLD: &str = "cold.dat";

/// Sizes of the hot set's file and of the large file that is read once, pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Files {
    /// Pages of the hot set's file.
    pub hot: u64,
    /// Pages of the large file.
    pub cold: u64,
}

impl Files {
    /// Returns the sizes of both files for a system that has `memory_pages` pages of memory, at the scale `scale`.
    pub fn of(hot: Size, cold: Size, memory_pages: u64, scale: Scale) -> Self {
        Self { hot: hot.pages(memory_pages, scale), cold: cold.pages(memory_pages, scale) }
    }

    /// Checks the sizes. Refuses a file without pages, and a hot set that has fewer pages than there are tasks.
    pub fn check(self, tasks: u64) -> Result<(), String> {
        check_sizes(tasks, self.hot, "a hot set")?;
        check_sizes(1, self.cold, "a file")
    }

    /// Returns the number of pages of both files together.
    pub const fn pages(self) -> u64 {
        self.hot.saturating_add(self.cold)
    }

    /// Makes both files on the device, with no page in memory.
    pub fn make<S: System>(self, system: &S) -> Result<(), SystemError> {
        big_file::make(system, COLD, self.cold)?;
        big_file::make(system, HOT, self.hot)
    }

    /// Removes both files.
    pub fn remove<S: System>(system: &S) -> Result<(), SystemError> {
        system.remove(HOT)?;
        system.remove(COLD)
    }
}
