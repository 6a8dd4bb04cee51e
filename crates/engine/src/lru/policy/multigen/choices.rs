//! Choices of `[multigen]`: what the versions of the multi-generational LRU differ in (`lru.policy = "multigen"`).

use crate::choice::choices;

choices! {
    /// The multi-generational LRU in its different versions. The keys are read only with `lru.policy = "multigen"`.
    [multigen], with "lru.policy" in ["multigen"]

    /// The number of tiers. A tier is a class of pages that were read or written about equally often through file
    /// descriptors, not through mappings. With one tier, all pages are alike.
    tiers: u32 = 4 in 1..=4, drawn 122: [1, 2, 4];

    /// Effect of a use through a file.
    file_use: FileUse = Counted, drawn 123 {
        /// The use is counted in the flags of the page's descriptor, without a lock, and the page stays in its
        /// generation.
        Counted drawn 3,
        /// The second use moves the page to the youngest generation, through a batch, under the LRU lock.
        Activates,
    }

    /// After how many uses through a file descriptor a page gets the workingset flag.
    use_marks: UseMarks = WorkingsetSecond, drawn 124 {
        /// After the second use.
        WorkingsetSecond,
        /// After the fifth use.
        WorkingsetFifth,
    }

    /// Whether pages that a page fault brings into memory are active when they join the generations. The choice applies
    /// to anonymous pages. It also applies to a file page that is read by a fault, and to the pages that are read with
    /// it, unless the task goes through the mapping in order.
    faulted: Faulted = Active, drawn 157 {
        /// The pages are active.
        Active,
        /// The pages count as used once. Pages of the workingset that come back are active.
        UsedOnce,
    }

    /// The treatment of a page at the tail of its list if the page's count of uses has reached the maximum. With
    /// `protected` and `lifted`, reclaim does not evict the page, even if the refault rate of its tier is low.
    saturated: Saturated = LikeOthers, drawn 125 {
        /// The page is treated like other pages of the last tier.
        LikeOthers,
        /// The page goes to the next generation, where its count of uses begins anew, and counts as protected.
        Protected,
        /// As `protected`, but the controller does not count the page.
        Lifted,
    }

    /// The generation that a page joins.
    placement: Placement = OldestOrYoungest, drawn 126 {
        /// Active pages join the youngest generation. Anonymous pages without a swap slot, and pages that have to be
        /// written first, join the second oldest. All other pages join the oldest.
        OldestOrYoungest,
        /// Active pages join the youngest. Anonymous pages without a swap slot, and pages that have to be written
        /// first, join the second youngest. All other pages join the oldest generation if there are fewer than four
        /// generations. With four, they join the second oldest, so that the controller, which compares the refault
        /// rates of tiers, has time for them.
        SecondOldest,
        /// The page joins a generation at a fixed distance from the youngest: 0 for active workingset pages; 1 for
        /// other active pages, anonymous pages without a swap slot, and pages to be written first; 2 for other
        /// workingset pages; 3 for all others.
        ByUse,
        /// As `by-use`, but pages of distance 2 or 3 that are marked as referenced join one generation younger.
        ByUseAndReference,
    }

    /// The generation to which a page returns if reclaim has isolated it and could not free it.
    rejected: Rejected = SecondOldest, drawn 127 {
        /// Active pages go to the youngest generation, others to the second oldest.
        SecondOldest,
        /// The page becomes active, so that it goes to the youngest generation, except if reclaim has begun to write
        /// it. Before that, reclaim tries once more to free a page that is clean, not mapped and not marked as used.
        Active,
        /// As `active`, but only a page that would go back to the oldest generation becomes active.
        LikeActive,
    }

    /// Limit for the refault rate of a tier, in percent of the first tier's refault rate. A tier with a higher rate is
    /// protected.
    tier_margin_percent: u32 = 200 in 100..=1000, drawn 128: [100, 150, 200];

    /// Smallest number of refaults that can protect the pages of a tier, or of a type (anonymous or file pages). The
    /// feedback controller treats a tier or type with fewer refaults as if it had none.
    refault_floor: u64 = 32 in 0..=1 << 20, drawn 129: [0, 8, 32, 64];

    /// Whether a constant is added to the number of refaults and to the number of evicted pages before refault rates
    /// are compared. Reclaim compares the rates of two tiers, and the rates of the two types (anonymous and file
    /// pages).
    rate_smoothing: RateSmoothing = None, drawn 130 {
        /// Nothing is added: pages of a tier or type without refaults are evicted before pages of a tier or type with
        /// some.
        None,
        /// One refault and 64 evicted pages are added to the counts of the tier or type with which others are compared.
        ByBatch,
    }

    /// The refaults that count when the refault rates of tiers are compared.
    recent_refault: RecentRefault = SameGeneration, drawn 131 {
        /// Refaults of pages that left since the present oldest generation of their type became the oldest.
        SameGeneration,
        /// Refaults of pages that left less than four generations ago; four is the largest number of generations.
        WithinGenerations,
    }

    /// Which refaults are counted, and how many uses a refaulted page has when it returns.
    refault_marks: RefaultMarks = TierAboveFirst, drawn 154 {
        /// All refaults are counted. A recent refault of a page of a tier above the first counts as a restoration, and
        /// the page gets its uses back. A page that its tier protects counts as an activation.
        TierAboveFirst,
        /// Recent refaults are counted. A recent refault in a page fault, or of a page with four uses or more, counts
        /// as a restoration, and the page gets as many uses as can be counted. A page that its tier protects counts as
        /// an activation.
        FaultOrFourUses,
        /// As `fault-or-four-uses`, but all refaults are counted, and each recent refault counts as an activation. A
        /// page that its tier protects does not.
        EveryRecent,
        /// All refaults are counted. A recent refault in a page fault counts as an activation. A recent refault of a
        /// page of the workingset counts as a restoration, and the page gets its uses back.
        Workingset,
        /// As `workingset`, but a refault in a page fault counts as an activation only if it is a restoration.
        RestoredAlone,
    }

    /// A page has marks that record its earlier uses. This choice says what happens to the marks when reclaim isolates
    /// the page to evict it.
    isolated_marks: IsolatedMarks = Kept, drawn 156 {
        /// The page keeps its marks.
        Kept,
        /// The mark of the first use is taken away. If this mark was not set, the marks of all other uses are taken
        /// away instead. A mapped page stays in memory if a walk of page tables or a look around sets the mark of the
        /// first use again before the page is judged.
        FirstTaken,
    }

    /// The family, anonymous pages or file pages, that is evicted next.
    type_rule: TypeRule = OlderThenTierZero, drawn 132 {
        /// The family whose oldest generation is older. With equal ages, the refault rates of the first tiers and
        /// `lru.swappiness` decide. If no page of this family was isolated, the other family is evicted next.
        OlderThenTierZero,
        /// As `older-then-tier-zero`, but if the oldest generation of file pages is the older one, the refault rates
        /// and `lru.swappiness` decide nevertheless.
        OlderAnonThenTierZero,
        /// The family that the refault rates of all tiers together and `lru.swappiness` select. If no page of this
        /// family was isolated, the other family is evicted next.
        AllTiers,
        /// As `all-tiers`, but the other family is evicted next only if no page of the selected family was examined.
        /// A scan goes on after a batch in which pages were examined and none was isolated.
        AllTiersStrictly,
    }

    /// The pages that `pgscan` counts.
    scan_count: ScanCount = Examined, drawn 133 {
        /// `pgscan` counts pages that were examined, as with other policies.
        Examined,
        /// `pgscan` counts pages that were isolated.
        Isolated,
    }

    /// The largest number of pages that reclaim isolates before it releases the LRU lock.
    isolate_batch: u32 = 32 in 1..=64, drawn 134: [1, 32, 64];

    /// The largest number of pages that reclaim examines before it releases the LRU lock.
    batch_budget: BatchBudget = Share, drawn 161 {
        /// As many pages as are left of the scan's share, but at most 4096.
        Share,
        /// 4096 pages, also if less is left of the scan's share, which is checked only between two holds of the lock.
        /// So even the smallest scan isolates as many pages as `multigen.isolate_batch` says.
        Whole,
    }

    /// The number of times that reclaim has to find a page used through a page table before the page joins one of the
    /// two youngest generations.
    promotion: Promotion = FirstSighting, drawn 135 {
        /// The page moves when reclaim finds it used for the first time.
        FirstSighting,
        /// The page moves when reclaim finds it used for the second time. A page of the workingset moves at the first
        /// time.
        SecondSighting,
    }

    /// The treatment of a page at the tail of the oldest generation that cannot be freed at once, because it is dirty,
    /// under writeback or locked.
    dirty_at_tail: DirtyAtTail = MovedWithLocked, drawn 136 {
        /// Dirty file pages, pages under writeback and locked pages go to the next generation, to be reclaimed after
        /// they have been written.
        MovedWithLocked,
        /// As `moved-with-locked`, but locked pages are isolated.
        Moved,
        /// Dirty pages, pages under writeback and locked pages are isolated like others.
        Isolated,
    }

    /// The treatment of pages of the oldest generation in zones that the request cannot use. With one lruvec for each
    /// node, such pages are in the way of a kswapd that is to free pages of ZONE_DMA only.
    ineligible: Ineligible = Left, drawn 171 {
        /// Reclaim does not examine such pages. Their generation remains the oldest until other requests have evicted
        /// them, so generations cannot advance.
        Left,
        /// If reclaim has not isolated enough pages of the usable zones, it moves such pages to the tail of the next
        /// generation, so that the oldest generation ends.
        Moved,
    }

    /// When a new generation begins.
    ageing: Ageing = BeforeRounds, drawn 137 {
        /// Before a round of kswapd, except if two conditions hold: there are at least twice as many old pages as young
        /// ones, and each type (anonymous or file pages) that has pages has more than two generations. A new generation
        /// also begins in the scan of a task, if no type has more than two generations, because then no pages can be
        /// taken.
        BeforeRounds,
        /// Before a round of kswapd, and in the scan of a task below the first priority, in two cases. In the first
        /// case there are only two generations. In the second case there are three, and either more than half of all
        /// pages are in the youngest, or less than a quarter of all pages are in the third youngest.
        KeepsThree,
        /// In a scan below the first priority, if there are at most three generations. The scan then ends.
        AtThree,
        /// As `at-three`, but the scan continues.
        WithinScan,
    }

    /// The lowest priority at which kswapd may begin to reclaim. Kswapd chooses its first priority so that a scan
    /// examines about as many inactive pages as kswapd wants to free. If this choice is 12, kswapd always begins at
    /// priority 12.
    first_priority_min: u32 = 12 in 0..=12, drawn 160: [12, 0, 6];

    /// The number of free pages at which a scan of kswapd ends.
    kswapd_stops: KswapdStops = AtHighMarks, drawn 159 {
        /// In each zone, 64 pages more than its high mark.
        AtHighMarks,
        /// In each zone, 64 pages more than the sum of its high mark and the reserve that the zone keeps from requests
        /// that could also use the highest zone (`memory.lowmem_reserve_ratio`). ZONE_DMA seldom has so many free
        /// pages, so that scans go on to their target.
        AboveReserves,
    }

    /// The page-table entries that are examined before a new generation begins.
    walk: Walk = TouchedTables, drawn 138 {
        /// No entries are examined: reclaim finds the uses of a page when it comes to the page.
        Never,
        /// All entries of tables that were touched since the last walk, in regions that were touched.
        TouchedTables,
        /// All entries of touched tables, but only of tables in which many entries were used when the table was last
        /// examined.
        Filtered,
    }

    /// When reclaim finds that the accessed bit of a page is set, it can examine other page-table entries nearby. This
    /// choice says which.
    look_around: LookAround = WholeTable, drawn 139 {
        /// None: only the entry of the page itself is examined.
        Never,
        /// All entries of the same table are examined. Their accessed bits stay set.
        WholeTable,
        /// Up to 64 entries around the page's entry are examined, and their accessed bits are cleared. Kswapd moves the
        /// pages to the youngest generation at once. Other tasks activate them.
        Window,
        /// As `window`, but the used pages that are not in the youngest generation are gathered first. A page that is in
        /// the youngest generation keeps the marks of its earlier uses. Other tasks than kswapd, too, move the pages at
        /// once if they have gathered a batch or more.
        WindowGathered,
        /// As `window`, but entries of pages that are on no list are skipped, such as those of pages that were isolated
        /// together with the page.
        WindowOfListed,
    }

    /// The order in which global reclaim (kswapd, and direct reclaim for a free page) visits memory control groups.
    /// Reclaim at the limit of a group always walks the tree of groups.
    memcg_lru: MemcgLru = Off, drawn 163 {
        /// Groups are visited in the order of the tree of groups, as `reclaim.group_walk` says.
        Off,
        /// Each node keeps a list of groups. Groups that were not reclaimed from lately come first, and a walk over the
        /// list ends once enough was freed. New generations of pages begin in the scan, even if kswapd scans with
        /// `multigen.ageing = "keeps-three"`.
        On,
    }

    /// Least age of a generation whose pages may be reclaimed, ms (`min_ttl_ms`). While even the oldest generation is
    /// younger than this, reclaim frees no pages, and memory counts as exhausted.
    min_ttl_ms: u64 = 0 in 0..=3_600_000, drawn 140: [0, 0, 0, 100];
}
