//! Choices of `[access]`: readahead, huge pages.

use crate::choice::choices;

choices! {
    /// Readahead, huge pages.
    [access]

    /// Largest readahead window, KiB (`read_ahead_kb`); of memory, a sixteenth at most.
    read_ahead_kb: u32 = 128 in 0..=1 << 20, drawn 82: [0, 16, 128, 512];

    /// What is read ahead when a page of a mapped file is missing, and the program has not said how it will use it.
    map_readahead: MapReadahead = SequentialOrAround, drawn 83 {
        /// Faults on consecutive pages are read ahead like consecutive reads; any other reads the pages around it.
        SequentialOrAround,
        /// The pages around it, the last quarter of which is marked: a fault there reads on.
        Around,
    }

    /// Do anonymous faults try for a huge page first?
    huge_pages: HugePages = Never, drawn 85 {
        /// Wherever an aligned range of 2 MiB lies within a region that nobody touched there.
        Always,
        /// Nowhere.
        Never,
    }

    /// How a task that dirties pages faster than they are written is throttled.
    dirty_throttle: DirtyThrottle = Writes, drawn 84 {
        /// It sleeps, so that it dirties as fast as the device writes.
        Sleeps,
        /// It writes 1.5 times as much as it has dirtied, and sleeps where there is nothing to write.
        Writes,
        /// At the limit it sleeps until a page has been written, and one task goes on for each: the longest waiting
        /// first. Writes to pages that are dirty already do not count.
        ForWriteback,
    }

    /// Which list a page joins that was read from swap.
    swapped_in: SwappedIn = Active, drawn 86 {
        /// The active one, and its fault counts as a use.
        Active,
        /// The inactive one.
        Inactive,
    }
}

impl SwappedIn {
    /// Does it join the active list?
    pub(crate) const fn is_active(self) -> bool {
        match self {
            Self::Active => true,
            Self::Inactive => false,
        }
    }
}
