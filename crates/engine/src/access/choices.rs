//! Choices of `[access]`: readahead, huge pages, khugepaged.

use crate::choice::choices;

choices! {
    /// Readahead, huge pages, khugepaged.
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

    /// Pages of a mapped file that a read fault maps together, those that are in memory of an aligned block of so many around the
    /// one that it is for (`fault_around_bytes`). A power of two; 1 maps that one alone.
    fault_around_pages: u32 = 1 in 1..=512, drawn 150: [1, 16];

    /// Does a write count as a use of its page, as a read does (`mark_page_accessed`)?
    written: Written = Used, drawn 142 {
        /// Yes.
        Used,
        /// No: a page that is only written stays inactive.
        LeftAlone,
    }

    /// Do anonymous faults try for a huge page first?
    huge_pages: HugePages = Never, drawn 85 {
        /// Wherever an aligned range of 2 MiB lies within a region that nobody touched there.
        Always,
        /// Nowhere.
        Never,
    }

    /// Does a fault reclaim and compact for a huge page (`transparent_hugepage/defrag`)?
    huge_defrag: HugeDefrag = Always, drawn 104, with "access.huge_pages" in ["always"] {
        /// Yes: it gets small pages only where that was in vain.
        Always,
        /// No: it takes one that is free, or else small pages.
        Never,
    }

    /// Does a kernel task make huge pages of small ones?
    khugepaged: Khugepaged = Off, drawn 105, with "access.huge_pages" in ["always"] {
        /// No: what a fault could not have, its range never gets.
        Off,
        /// Yes, as the next five choices say, where faults may try for huge pages at all.
        On,
    }

    /// Does it reclaim and compact for a huge page (`khugepaged/defrag`)?
    khugepaged_defrag: KhugepagedDefrag = Yes, drawn 106, with "access.khugepaged" in ["on"] {
        /// Yes, as a fault does.
        Yes,
        /// No: it takes one that is free.
        No,
    }

    /// Pages that it looks at before it sleeps (`khugepaged/pages_to_scan`).
    khugepaged_pages_to_scan: u32 = 4096 in 1..=1 << 30, drawn 107, with "access.khugepaged" in ["on"]: [512, 4096, 65536];

    /// How long it then sleeps, ms (`khugepaged/scan_sleep_millisecs`).
    khugepaged_scan_sleep_ms: u64 = 10000 in 1..=86_400_000, drawn 108, with "access.khugepaged" in ["on"]: [1, 20, 10000];

    /// How long it sleeps when it got no huge page, ms (`khugepaged/alloc_sleep_millisecs`).
    khugepaged_alloc_sleep_ms: u64 = 60000 in 1..=86_400_000, drawn 109, with "access.khugepaged" in ["on"]: [1, 20, 60000];

    /// Pages of a range that nobody has touched, at most, for it to become a huge page (`khugepaged/max_ptes_none`).
    khugepaged_max_ptes_none: u32 = 511 in 0..=511, drawn 110, with "access.khugepaged" in ["on"]: [0, 64, 511];

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

    /// Which list a new anonymous page joins.
    new_anonymous: NewAnonymous = Active, drawn 117 {
        /// The active one: it has time to prove itself, and takes that from others.
        Active,
        /// The inactive one: it has to be used again before reclaim comes to it.
        Inactive,
    }

    /// Which list a page joins that was read from swap.
    swapped_in: SwappedIn = Active, drawn 86 {
        /// The active one, and its fault counts as a use.
        Active,
        /// The inactive one.
        Inactive,
    }
}

impl Written {
    /// Is a page that was written marked as used?
    pub(super) const fn is_used(self) -> bool {
        match self {
            Self::Used => true,
            Self::LeftAlone => false,
        }
    }
}

impl NewAnonymous {
    /// Does it join the active list?
    pub(crate) const fn is_active(self) -> bool {
        match self {
            Self::Active => true,
            Self::Inactive => false,
        }
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
