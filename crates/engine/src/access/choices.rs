//! Choices of `[access]`: readahead, huge pages, khugepaged.

use crate::choice::choices;

choices! {
    /// Readahead, huge pages, khugepaged, the throttling of writers, and the lists that new pages join.
    [access]

    /// Size limit of a readahead window, in KiB (`read_ahead_kb`). A second limit is a sixteenth of memory.
    read_ahead_kb: u32 = 128 in 0..=1 << 20, drawn 82: [0, 16, 128, 512];

    /// The amount that is read ahead when a read does not begin where the last one ended, and the program has not
    /// announced its access pattern.
    readahead_history: ReadaheadHistory = Ignored, drawn 166 {
        /// The read is random: only the wanted pages are read.
        Ignored,
        /// If more pages right before the wanted ones are in memory than are wanted, another reader has read them in
        /// order, and as many pages are read ahead as were found, up to the largest window (`try_context_readahead`).
        /// Otherwise only the wanted pages are read.
        Contiguous,
    }

    /// Order of the largest folio that readahead allocates. With 0, readahead allocates single pages. Otherwise it
    /// fills a window with folios that are as large as possible (`mapping_set_large_folios`). A folio is aligned, lies
    /// within the window and within the file, and needs a free block of its order.
    file_folio_order: u32 = 0 in 0..=9, drawn 151: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

    /// Order of the largest folio that an anonymous fault allocates, apart from huge pages
    /// (`transparent_hugepage/hugepages-<size>kB/enabled`). A fault takes the largest aligned range around the faulting
    /// page that meets two conditions: no page of the range was touched before, and a free block of this size exists.
    /// With 0, a fault allocates a single page.
    anonymous_folio_order: u32 = 0 in 0..=8, drawn 152: [0, 2, 4, 8];

    /// The pages that a fault on a mapped file reads ahead, if the program has not announced its access pattern.
    map_readahead: MapReadahead = SequentialOrAround, drawn 83 {
        /// Faults on consecutive pages are read ahead like consecutive reads; any other fault reads the pages around
        /// it.
        SequentialOrAround,
        /// Any fault reads the pages around the missing one. The first page of their last quarter is marked, and a
        /// fault there continues the readahead.
        Around,
    }

    /// Number of pages in an aligned block of a mapped file. A read fault maps all pages of its block that are in
    /// memory (`fault_around_bytes`). The number is a power of two; with 1, a fault maps only its own page.
    fault_around_pages: u32 = 1 in 1..=512, drawn 150: [1, 16];

    /// States whether a write counts as a use of its page, as a read does (`mark_page_accessed`).
    written: Written = Used, drawn 142 {
        /// Yes, a write counts as a use.
        Used,
        /// No: a page that is only written stays inactive.
        LeftAlone,
    }

    /// States whether anonymous faults try for a huge page first.
    huge_pages: HugePages = Never, drawn 85 {
        /// Yes, if the aligned range of 2 MiB around the page lies within the region and was not touched yet.
        Always,
        /// No, anonymous faults do not try for huge pages.
        Never,
    }

    /// States whether a fault reclaims and compacts to get a huge page (`transparent_hugepage/defrag`).
    huge_defrag: HugeDefrag = Always, drawn 104, with "access.huge_pages" in ["always"] {
        /// Yes: the fault gets small pages only if reclaim and compaction made no huge page free.
        Always,
        /// No: the fault takes a free huge page, or else small pages.
        Never,
    }

    /// States whether a kernel task makes huge pages of small ones.
    khugepaged: Khugepaged = Off, drawn 105, with "access.huge_pages" in ["always"] {
        /// No: a range whose fault got no huge page never gets one.
        Off,
        /// Yes, if `huge_pages` lets faults try for huge pages. The choices whose names begin with `khugepaged_` say
        /// how.
        On,
    }

    /// States whether khugepaged reclaims and compacts to get a huge page (`khugepaged/defrag`).
    khugepaged_defrag: KhugepagedDefrag = Yes, drawn 106, with "access.khugepaged" in ["on"] {
        /// Yes, khugepaged reclaims and compacts as a fault does.
        Yes,
        /// No: khugepaged only takes a free huge page.
        No,
    }

    /// Number of pages that khugepaged looks at before it sleeps (`khugepaged/pages_to_scan`).
    khugepaged_pages_to_scan: u32 = 4096 in 1..=1 << 30, drawn 107, with "access.khugepaged" in ["on"]: [512, 4096, 65536];

    /// The time for which khugepaged sleeps after it has looked at `khugepaged_pages_to_scan` pages, in ms
    /// (`khugepaged/scan_sleep_millisecs`).
    khugepaged_scan_sleep_ms: u64 = 10000 in 1..=86_400_000, drawn 108, with "access.khugepaged" in ["on"]: [1, 20, 10000];

    /// The time for which khugepaged sleeps after it found no memory for a huge page, in ms
    /// (`khugepaged/alloc_sleep_millisecs`).
    khugepaged_alloc_sleep_ms: u64 = 60000 in 1..=86_400_000, drawn 109, with "access.khugepaged" in ["on"]: [1, 20, 60000];

    /// Sysfs file `khugepaged/max_ptes_none`: how many pages of a range may be untouched if khugepaged is to make a
    /// huge page of the range.
    khugepaged_max_ptes_none: u32 = 511 in 0..=511, drawn 110, with "access.khugepaged" in ["on"]: [0, 64, 511];

    /// The way in which a task is throttled if it dirties pages faster than the device writes them.
    dirty_throttle: DirtyThrottle = Writes, drawn 84 {
        /// The task sleeps so long that it dirties pages only as fast as the device writes them.
        Sleeps,
        /// The task writes 1.5 times as many pages as it has dirtied, and sleeps if there is nothing to write.
        Writes,
        /// While more pages are dirty than the limit allows, the task sleeps until a page has been written. Each
        /// written page releases one task, first the task that has waited longest. Writes to pages that are dirty
        /// already do not count.
        ForWriteback,
    }

    /// The list that a new anonymous page joins.
    new_anonymous: NewAnonymous = Active, drawn 117 {
        /// The active list: a new page has more time to be used again, but other pages are reclaimed sooner.
        Active,
        /// The inactive list: the page has to be used again before reclaim reaches it.
        Inactive,
    }

    /// The list that a page joins after it was read from swap.
    swapped_in: SwappedIn = Active, drawn 86 {
        /// The page joins the active list, and the fault counts as a use.
        Active,
        /// The page joins the inactive list.
        Inactive,
    }
}

impl Written {
    /// Returns whether a write marks its page as used.
    pub(super) const fn is_used(self) -> bool {
        match self {
            Self::Used => true,
            Self::LeftAlone => false,
        }
    }
}

impl NewAnonymous {
    /// Returns whether a new anonymous page joins the active list.
    pub(crate) const fn is_active(self) -> bool {
        match self {
            Self::Active => true,
            Self::Inactive => false,
        }
    }
}

impl SwappedIn {
    /// Returns whether a page read from swap joins the active list.
    pub(crate) const fn is_active(self) -> bool {
        match self {
            Self::Active => true,
            Self::Inactive => false,
        }
    }
}
