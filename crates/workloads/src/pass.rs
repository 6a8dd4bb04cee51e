//! The two files of a workload that reads one file once beside a hot set.

use super::big_file;
use super::random::{Size, check_sizes};
use crate::system::{System, SystemError};
use figures::scale::Scale;

/// Name of the hot set's file.
pub(super) const HOT: &str = "hot.dat";

/// Name of the file of the pass.
pub(super) const COLD: &str = "cold.dat";

/// Sizes of both files, pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Files {
    /// The hot set.
    pub hot: u64,
    /// The file of the pass.
    pub cold: u64,
}

impl Files {
    /// Returns the sizes on a system with `memory_pages`, at a scale.
    pub fn of(hot: Size, cold: Size, memory_pages: u64, scale: Scale) -> Self {
        Self { hot: hot.pages(memory_pages, scale), cold: cold.pages(memory_pages, scale) }
    }

    /// Refuses files without pages, and a hot set that is too small for so many tasks.
    pub fn check(self, tasks: u64) -> Result<(), String> {
        check_sizes(tasks, self.hot, "a hot set")?;
        check_sizes(1, self.cold, "a file")
    }

    /// Returns the pages of both.
    pub const fn pages(self) -> u64 {
        self.hot.saturating_add(self.cold)
    }

    /// Makes both files, with no page in memory.
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
