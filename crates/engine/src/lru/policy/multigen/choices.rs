//! Choices of `[multigen]`: what the versions of the multi-generational LRU differ in (`lru.policy = "multigen"`).

use crate::choice::choices;

choices! {
    /// The multi-generational LRU, as its versions have it; only with `lru.policy = "multigen"`.
    [multigen], with "lru.policy" in ["multigen"]

    /// Tiers: classes of pages by the number of uses through their file. With one, all pages are alike.
    tiers: u32 = 4 in 1..=4, drawn 122: [1, 2, 4];

    /// Effect of a use through a file.
    file_use: FileUse = Counted, drawn 123 {
        /// The use is counted in the page's own word, without a lock, and the page stays in its generation.
        Counted drawn 3,
        /// The second use moves the page to the youngest generation, through a batch, under the LRU lock.
        Activates,
    }

    /// The use through a file that marks a page as one of the workingset.
    use_marks: UseMarks = WorkingsetSecond, drawn 124 {
        /// The second.
        WorkingsetSecond,
        /// The fifth.
        WorkingsetFifth,
    }

    /// Pages that come in a page fault: anonymous ones, and those of a file, with those that are read beside the faulting one, unless
    /// the mapping is gone through in order.
    faulted: Faulted = Active, drawn 157 {
        /// They are active.
        Active,
        /// They have their first use. Those of the workingset that come back are active.
        UsedOnce,
    }

    /// Treatment of a page at the tail with more uses than can be counted, regardless of its tier's rate.
    saturated: Saturated = LikeOthers, drawn 125 {
        /// As other pages of the last tier.
        LikeOthers,
        /// The page goes to the next generation with a new count of uses, and counts as protected.
        Protected,
        /// As `protected`, but it does not count for the controller.
        Lifted,
    }

    /// The generation that a page joins.
    placement: Placement = OldestOrYoungest, drawn 126 {
        /// Active pages join the youngest. Anonymous ones without a swap slot, and those that have to be written first,
        /// join the second oldest; all others the oldest.
        OldestOrYoungest,
        /// Active pages join the youngest. Anonymous ones without a swap slot, and those that have to be written first,
        /// join the second youngest. All others join the second oldest while there are four, so that the controller has
        /// time for them.
        SecondOldest,
        /// One at a distance from the youngest: 0 for active pages of the workingset; 1 for other active ones, and for
        /// those without a slot or to be written first; 2 for pages of the workingset; 3 for all others.
        ByUse,
        /// As `by-use`, and pages that are marked as referenced are one generation younger.
        ByUseAndReference,
    }

    /// The place of pages that were isolated and stay.
    rejected: Rejected = SecondOldest, drawn 127 {
        /// Active ones go to the youngest generation, others to the second oldest.
        SecondOldest,
        /// They go to the place of active ones. Clean unmapped ones are tried once more before.
        LikeActive,
    }

    /// Largest refault rate of a tier that is not protected, in per cent of the first tier's rate.
    tier_margin_percent: u32 = 200 in 100..=1000, drawn 128: [100, 150, 200];

    /// Number of refaults of a tier, or of a type, below which they have no effect.
    refault_floor: u64 = 32 in 0..=1 << 20, drawn 129: [0, 8, 32, 64];

    /// Amounts that are added to counts before rates are compared.
    rate_smoothing: RateSmoothing = None, drawn 130 {
        /// None: pages of a class without refaults are evicted before those of a class with some.
        None,
        /// One refault, and 64 pages that left, for the class that others are compared with.
        ByBatch,
    }

    /// The refaults that count for the controller.
    recent_refault: RecentRefault = SameGeneration, drawn 131 {
        /// Refaults of pages that left while the oldest generation of their type was the same.
        SameGeneration,
        /// Refaults of pages that left fewer generations ago than there may be.
        WithinGenerations,
    }

    /// The refaults that are counted, and what a page that comes back has of the uses that it left with.
    refault_marks: RefaultMarks = TierAboveFirst, drawn 154 {
        /// All are counted. A recent one of a page of a tier above the first is a restoration, and the page has its uses
        /// again. A page whose tier is protected is an activation.
        TierAboveFirst,
        /// Recent ones are counted. One in a page fault, or of a page with four uses or more, is a restoration, and the
        /// page has as many uses as can be counted. A page whose tier is protected is an activation.
        FaultOrFourUses,
        /// All are counted. A recent one in a page fault is an activation, one of a page of the workingset a
        /// restoration, and the page has its uses again.
        Workingset,
        /// As `workingset`, but only a restoration is an activation.
        RestoredAlone,
    }

    /// The marks of use of a page that is taken off its list to be evicted.
    isolated_marks: IsolatedMarks = Kept, drawn 156 {
        /// It has them still.
        Kept,
        /// Uses that no first use is marked before are forgotten, and so is the mark of the first. Where a walk or a look
        /// around sets this mark again before the page is judged, the page stays in memory if it is mapped.
        FirstTaken,
    }

    /// The family, anonymous pages or pages of files, that goes next.
    type_rule: TypeRule = OlderThenTierZero, drawn 132 {
        /// The one whose oldest generation is older; with equal ages by the refault rates of the first tiers and
        /// `lru.swappiness`. The other one if none was isolated.
        OlderThenTierZero,
        /// As `older-then-tier-zero`, but older pages of files do not go before anonymous ones for their age.
        OlderAnonThenTierZero,
        /// The one that the refault rates of all tiers together and `lru.swappiness` select. The other one if none was
        /// isolated.
        AllTiers,
        /// As `all-tiers`, but the other one only if none was looked at.
        AllTiersStrictly,
    }

    /// The pages that `pgscan` counts.
    scan_count: ScanCount = Examined, drawn 133 {
        /// Pages that were looked at, as with other policies.
        Examined,
        /// Pages that were isolated.
        Isolated,
    }

    /// Largest number of pages isolated under one hold of the LRU lock.
    isolate_batch: u32 = 32 in 1..=64, drawn 134: [1, 32, 64];

    /// Time at which a page becomes young that was used through a page table.
    promotion: Promotion = FirstSighting, drawn 135 {
        /// When it is found used.
        FirstSighting,
        /// When it is found used for the second time.
        SecondSighting,
    }

    /// Treatment of pages at the tail that cannot be freed at once.
    dirty_at_tail: DirtyAtTail = MovedWithLocked, drawn 136 {
        /// Dirty pages of files, those under writeback and locked ones go to the next generation, to be reclaimed when they are
        /// written.
        MovedWithLocked,
        /// As `moved-with-locked`, except for locked ones.
        Moved,
        /// They are isolated like other pages.
        Isolated,
    }

    /// Time at which a new generation begins.
    ageing: Ageing = BeforeRounds, drawn 137 {
        /// Before a round of kswapd, unless enough pages are old: twice as many as are young, in more than two generations of
        /// each type that has pages. In a scan when no type has a generation to take pages from.
        BeforeRounds,
        /// Before a round of kswapd, and in the scan of a task, in these cases: there are two generations; or there are
        /// three, and more than half of all pages are young, or less than a quarter are of the third youngest
        /// generation.
        KeepsThree,
        /// In a scan at a lower priority than the first, with up to three generations; the scan ends with it.
        AtThree,
        /// As `at-three`, but the scan continues.
        WithinScan,
    }

    /// The lowest priority at which a reclaim of kswapd may begin: it begins at the one whose share of the inactive pages
    /// is what it wants. 12 for the first priority in any case.
    first_priority_min: u32 = 12 in 0..=12, drawn 160: [12, 0, 6];

    /// The free memory with which a scan of kswapd has enough.
    kswapd_stops: KswapdStops = AtHighMarks, drawn 159 {
        /// Each zone is 64 pages above its high mark.
        AtHighMarks,
        /// Each zone is that far above its high mark and the pages that it keeps from requests of the highest zone
        /// (`memory.lowmem_reserve_ratio`). ZONE_DMA seldom has as many, so that scans go on to their target.
        AboveReserves,
    }

    /// The page-table entries that are examined before a new generation begins.
    walk: Walk = TouchedTables, drawn 138 {
        /// None: reclaim finds the uses of a page when it comes to it.
        Never,
        /// Entries of all tables in which an entry was touched since the last walk, in touched regions.
        TouchedTables,
        /// Entries of the touched tables in which many entries were touched when they were last examined.
        Filtered,
    }

    /// The entries that are examined beside that of a page that reclaim finds used.
    look_around: LookAround = WholeTable, drawn 139 {
        /// None.
        Never,
        /// All entries of its table. Their accessed bits stay.
        WholeTable,
        /// Up to 64 entries around it. Their accessed bits are cleared.
        Window,
        /// As `window`, without entries of pages that are on no list, among them the other pages that are isolated with it.
        WindowOfListed,
    }

    /// Age below which pages of a generation are not reclaimed, ms (`min_ttl_ms`): memory is exhausted then.
    min_ttl_ms: u64 = 0 in 0..=3_600_000, drawn 140: [0, 0, 0, 100];
}
