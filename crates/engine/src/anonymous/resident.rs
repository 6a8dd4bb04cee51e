//! The memory of a process, in numbers of pages.

/// The memory of a process, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Length of all regions of the process together, in pages (`total_vm`).
    pub mapped: u64,
    /// Number of anonymous pages in memory.
    pub anon: u64,
    /// Number of file pages that the process's page tables map.
    pub file: u64,
    /// Number of anonymous pages in swap.
    pub swapped: u64,
    /// Number of page-table pages.
    pub tables: u64,
}

impl Resident {
    /// Returns the number of pages in memory (`rss`).
    #[must_use]
    pub const fn rss(&self) -> u64 {
        self.anon + self.file
    }
}
