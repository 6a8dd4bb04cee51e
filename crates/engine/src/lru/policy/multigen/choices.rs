//! Choices of `[multigen]`: what the versions of the multi-generational LRU differ in (`lru.policy = "multigen"`).

use crate::choice::choices;

choices! {
    /// The multi-generational LRU, as its versions have it; only with `lru.policy = "multigen"`.
    [multigen], with "lru.policy" in ["multigen"]

    /// Generations at most.
    generations: u32 = 4 in 3..=4, drawn 121: [3, 4];

    /// Tiers: classes of pages by how often they were used through their file. With one, nothing is told apart.
    tiers: u32 = 4 in 1..=4, drawn 122: [1, 2, 4];

    /// What a use through a file does.
    file_use: FileUse = Counted, drawn 123 {
        /// It is counted in the page's own word, without a lock, and the page stays where it is.
        Counted drawn 3,
        /// The second use moves the page to the youngest generation, through a batch, under the LRU lock.
        Activates,
    }

    /// Which use through a file marks a page as one of the workingset.
    use_marks: UseMarks = WorkingsetSecond, drawn 124 {
        /// The second.
        WorkingsetSecond,
        /// The fifth.
        WorkingsetFifth,
    }

    /// What becomes of a page at the tail whose uses were more than can be counted, whatever its tier's rate.
    saturated: Saturated = LikeOthers, drawn 125 {
        /// What becomes of others of the last tier.
        LikeOthers,
        /// It goes to the next generation and begins to count anew, and counts as one that was protected.
        Protected,
        /// The same, and it does not count for the controller.
        Lifted,
    }

    /// Which generation a page joins.
    placement: Placement = OldestOrYoungest, drawn 126 {
        /// Active ones the youngest; anonymous ones without a slot of swap, and those that are to be written first, the second
        /// oldest; all others the oldest.
        OldestOrYoungest,
        /// Active ones the youngest; anonymous ones without a slot of swap, and those that are to be written first, the second
        /// youngest; all others the second oldest while there are four, so that the controller has time for them.
        SecondOldest,
        /// By a distance from the youngest: 0 for active pages of the workingset, 1 for other active ones and for those without a
        /// slot or to be written first, 2 for pages of the workingset, 3 for all others.
        ByUse,
        /// The same, and pages that are marked as referenced are one generation younger.
        ByUseAndReference,
    }

    /// Where pages go that were isolated and stay.
    rejected: Rejected = SecondOldest, drawn 127 {
        /// Active ones to the youngest generation, others to the second oldest.
        SecondOldest,
        /// To where active ones go. Clean ones that nobody maps are tried once more before.
        LikeActive,
    }

    /// How much larger the refault rate of a tier may be than that of the first, per cent, so that the tier is not protected.
    tier_margin_percent: u32 = 200 in 100..=1000, drawn 128: [100, 150, 200];

    /// Refaults of a tier, or of a type, that do not tell anything yet.
    refault_floor: u64 = 32 in 0..=1 << 20, drawn 129: [0, 8, 32, 64];

    /// What is added to counts before rates are compared.
    rate_smoothing: RateSmoothing = None, drawn 130 {
        /// Nothing: what never had a refault is evicted before what has had some.
        None,
        /// One refault, and 64 pages that left, to what others are compared with.
        ByBatch,
    }

    /// Which refaults count for the controller.
    recent_refault: RecentRefault = SameGeneration, drawn 131 {
        /// Those of pages that left while the oldest generation of their type was the same.
        SameGeneration,
        /// Those of pages that left not as many generations ago as there may be.
        WithinGenerations,
    }

    /// Whether anonymous pages or pages of files go next.
    type_rule: TypeRule = OlderThenTierZero, drawn 132 {
        /// Those whose oldest generation is older; with equal ages by the refault rates of the first tiers and `lru.swappiness`.
        /// The others when none was isolated.
        OlderThenTierZero,
        /// The same, but older pages of files do not go before anonymous ones for that.
        OlderAnonThenTierZero,
        /// By the refault rates of all tiers together and `lru.swappiness`. The others when none was isolated.
        AllTiers,
        /// The same. The others when none was looked at.
        AllTiersStrictly,
    }

    /// Which pages `pgscan` counts.
    scan_count: ScanCount = Examined, drawn 133 {
        /// Those that were looked at, as with other policies.
        Examined,
        /// Those that were isolated.
        Isolated,
    }

    /// Pages isolated under one hold of the LRU lock, at most.
    isolate_batch: u32 = 32 in 1..=64, drawn 134: [1, 32, 64];

    /// When a page becomes young that was used through a page table.
    promotion: Promotion = FirstSighting, drawn 135 {
        /// When it is found used.
        FirstSighting,
        /// When it is found used for the second time.
        SecondSighting,
    }

    /// What becomes of pages at the tail that cannot be freed at once.
    dirty_at_tail: DirtyAtTail = MovedWithLocked, drawn 136 {
        /// Dirty pages of files, those under writeback and locked ones go to the next generation, to be reclaimed when they are
        /// written.
        MovedWithLocked,
        /// The same, but for locked ones.
        Moved,
        /// Reclaim gets them like others.
        Isolated,
    }

    /// When a new generation begins.
    ageing: Ageing = BeforeRounds, drawn 137 {
        /// Before a round of kswapd, unless enough pages are old: twice as many as are young, in more than two generations of
        /// each type that has pages. In a scan when no type has a generation to take pages from.
        BeforeRounds,
        /// Before a round of kswapd, and in the scan of a task: with two generations; with three, when more than half of all pages
        /// are young, or less than a quarter are of the third youngest generation.
        KeepsThree,
        /// In a scan that goes further than the gentlest, with up to three generations; the scan ends with it.
        AtThree,
        /// The same, and the scan goes on.
        WithinScan,
    }

    /// Which page-table entries are looked at before a new generation begins.
    walk: Walk = TouchedTables, drawn 138 {
        /// None: pages prove themselves when reclaim comes to them.
        Never,
        /// Those of all tables in which an entry was touched since the last walk, in regions that were.
        TouchedTables,
        /// Of those, the tables in which many entries were touched when they were last looked at.
        Filtered,
    }

    /// Which entries are looked at beside that of a page that reclaim finds used.
    look_around: LookAround = WholeTable, drawn 139 {
        /// None.
        Never,
        /// All of its table. Their marks stay.
        WholeTable,
        /// Up to 64 around it, whose marks are taken.
        Window,
    }

    /// Pages of a generation younger than this are not reclaimed, ms (`min_ttl_ms`): memory is exhausted then.
    min_ttl_ms: u64 = 0 in 0..=3_600_000, drawn 140: [0, 0, 0, 100];
}
