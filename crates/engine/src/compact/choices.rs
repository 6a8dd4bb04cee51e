//! Choices of `[compact]`: the requests for which compaction is tried, and the work of its scanners.

use crate::choice::choices;

choices! {
    /// The requests for which compaction is tried, and the work of its scanners.
    [compact]

    /// Sysctl `extfrag_threshold`, 0 to 1000. If the fragmentation index of a zone is between 0 and this value,
    /// allocations in the zone are taken to fail for lack of memory and not because of fragmentation. So compaction
    /// skips this zone.
    extfrag_threshold: i64 = 500 in 0..=1000, drawn 33: [0, 500, 1000];

    /// `COMPACT_MAX_DEFER_SHIFT`: after repeated failures of compaction, at most 2^n - 1 attempts in a row are skipped,
    /// where n is this value.
    max_defer_shift: u8 = 6 in 0..=31, drawn 34: [0, 6];

    /// States whether a run of compaction has scanners. A run without scanners moves no pages.
    scanners: Scanners = None, drawn 92 {
        /// No scanners: a run moves no pages and ends at once, even if it would be worth trying.
        None,
        /// One scanner takes movable pages from the zone's start upwards; another takes free pages from the zone's end
        /// downwards. The movable pages move to the free ones, until the scanners meet or there is a block of the
        /// wanted order.
        Both,
    }

    /// The passes in which a request compacts.
    passes: Passes = One, drawn 93 {
        /// One pass, which waits for locks.
        One,
        /// First an asynchronous pass, which moves only pages that lie in movable pageblocks and are not under
        /// writeback. Later passes wait for locks.
        AsyncFirst,
    }

    /// The reaction of a compaction run when other tasks wait for its locks or its CPU.
    contention: Contention = Held, drawn 94 {
        /// The run holds the LRU lock for a whole pageblock, and the zone's lock for a whole search.
        Held,
        /// The run releases the LRU lock for a moment whenever other tasks wait, and after every 32 frames in any case.
        /// It releases the zone's lock after each pageblock.
        Released,
        /// The run releases its locks as with `released`. If other tasks wait, an asynchronous run also gives up its
        /// pageblock, or its search for free pages.
        GivesUp,
        /// The run takes a lock only once it has found pages to take. If other tasks wait, an asynchronous run ends.
        EndsRun,
    }

    /// Where the two scanners start when compaction runs for a request. In a run over the whole zone they always start
    /// at the ends of the zone.
    start: Start = Ends, drawn 95 {
        /// Each of the two scanners starts at its own end of the zone.
        Ends,
        /// The scanner for free pages starts at the place at which the scanner of another run found free pages, even
        /// after that scanner has wrapped to the zone's end. So a scanner may jump over most of the zone.
        CachedFree,
        /// The scanners start as with `cached-free`, but the starting place of the first run was computed before the
        /// zone's start was known. The place is too low by the number of the zone's first frame. No kernel is known to
        /// do this; the value is one guess at why a kernel hardly compacted.
        CachedFreeMisplaced,
        /// The scanner for free pages starts at the highest pageblock in which an earlier run found free pages. Only
        /// runs whose scanner for free pages has started at, or wrapped to, the zone's end move this place.
        CachedFreeRestricted,
        /// Pageblocks in which nothing was found are marked. Both scanners start behind the marked pageblocks, until
        /// the marks are cleared.
        CachedBoth,
    }

    /// The reaction of a compaction run when it has isolated pages and finds no free pages to which it can move them.
    no_targets: NoTargets = GoesOn, drawn 96 {
        /// The run continues until the scanners meet.
        GoesOn,
        /// The run ends.
        EndsRun,
    }

    /// The reaction of compaction if the zone already has a free block of the requested order.
    block_there: BlockThere = Compacts, drawn 97 {
        /// It compacts the zone.
        Compacts,
        /// It ends at once, as a partial success.
        Partial,
    }

    /// The requests for which compaction is deferred after failures.
    deferral: Deferral = AllOrders, drawn 98 {
        /// After a failure of any order, compaction is deferred for requests of any order.
        AllOrders,
        /// Compaction is deferred for requests of the smallest order for which it failed, and for requests of larger
        /// orders.
        FromOrder,
    }

    /// The runs of compaction whose failures defer later runs.
    defer_after: DeferAfter = AnyRun, drawn 99 {
        /// A failure of any run defers later runs.
        AnyRun,
        /// Only failures of runs that wait for locks defer later runs.
        WaitingRuns,
    }

    /// States whether the deferral of a zone's compaction ends as soon as kswapd's compaction has made a block of the
    /// wanted order in this zone. Compaction is deferred after failures.
    kswapd_ends_deferral: KswapdEndsDeferral = Yes, drawn 103 {
        /// Yes: compaction is not skipped for the next request.
        Yes,
        /// No: compaction is skipped until enough requests have asked for it. This value is one guess at why a kernel
        /// of 2012 hardly compacted.
        No,
    }

    /// The way in which a compaction run treats large folios. A folio that is at least as large as a pageblock, such as
    /// a huge page, is never moved, because moving it would not make a larger free block.
    folios: Folios = PassedBy, drawn 121, with "compact.scanners" in ["both"] {
        /// Folios stay, and the scanner for pages to move steps over them. Free blocks are taken as single pages.
        PassedBy,
        /// Folios move as a whole if they are smaller than the wanted block, or, if the whole zone is compacted,
        /// smaller than a pageblock. Free blocks are taken as a whole, and are split only if they are larger than the
        /// folio that is to move. A folio for which no free block is large enough stays.
        Moved,
    }

    /// Whether a task that compacts for its own request takes a free block of the wanted order during the run, so that
    /// no other task can take the block.
    capture: Capture = Never, drawn 100 {
        /// Never: the block goes to the free lists first.
        Never,
        /// After each group of pages that the run has moved.
        AfterEachGroup,
    }
}

impl Folios {
    /// Returns whether runs move folios.
    pub(super) const fn are_moved(self) -> bool {
        match self {
            Self::Moved => true,
            Self::PassedBy => false,
        }
    }
}
