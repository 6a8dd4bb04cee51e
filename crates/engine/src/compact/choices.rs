//! Choices of `[compact]`: the requests for which compaction is tried, and the work of its scanners.

use crate::choice::choices;

choices! {
    /// The requests for which compaction is tried, and the work of its scanners.
    [compact]

    /// Sysctl `extfrag_threshold`, 0 to 1000: below it a failure is attributed to lack of memory, not to
    /// fragmentation, and compaction is skipped.
    extfrag_threshold: i64 = 500 in 0..=1000, drawn 33: [0, 500, 1000];

    /// `COMPACT_MAX_DEFER_SHIFT`: after repeated failures at most 2 to this power attempts are skipped.
    max_defer_shift: u8 = 6 in 0..=31, drawn 34: [0, 6];

    /// States whether a run moves pages.
    scanners: Scanners = None, drawn 92 {
        /// No: a run that would be worth trying ends at once.
        None,
        /// One scanner takes movable pages from the zone's start on, another takes free pages from its end on. The
        /// pages move to the free ones, until both scanners meet or there is a block.
        Both,
    }

    /// The passes in which a request compacts.
    passes: Passes = One, drawn 93 {
        /// One pass, which waits for locks.
        One,
        /// First an asynchronous pass, only in movable pageblocks and not for pages under writeback. Later passes wait
        /// for locks.
        AsyncFirst,
    }

    /// Behaviour of a run towards locks that others wait for, and tasks that wait for its CPU.
    contention: Contention = Held, drawn 94 {
        /// The run holds the lock of the lists for a whole pageblock, and that of the zone for a whole search.
        Held,
        /// The run releases the lock of the lists for a moment, also after each 32 frames, and that of the zone after
        /// each pageblock.
        Released,
        /// As `released`; but an asynchronous run gives the pageblock up, and does not search for free pages any more.
        GivesUp,
        /// The run takes the lock once there is something to take. An asynchronous run ends instead of waiting.
        EndsRun,
    }

    /// Start of the scanners of a run for an order.
    start: Start = Ends, drawn 95 {
        /// The ends of the zone.
        Ends,
        /// The scanner for free pages starts where another one is, even after that has wrapped to the end. It may jump
        /// over most of the zone.
        CachedFree,
        /// As `cached-free`, with a first place that was set before the zone's own was known: it is too low by the
        /// number of the zone's first frame. It is not shown that a kernel did this; it is one guess at why one hardly
        /// compacted.
        CachedFreeMisplaced,
        /// The scanner for free pages starts where the last one that wrapped ended.
        CachedFreeRestricted,
        /// Both scanners start behind pageblocks in which nothing was found, until the marks of those are forgotten.
        CachedBoth,
    }

    /// Behaviour of a run that finds no free page to move others to.
    no_targets: NoTargets = GoesOn, drawn 96 {
        /// The run continues until the scanners meet.
        GoesOn,
        /// The run ends.
        EndsRun,
    }

    /// Behaviour of a run in a zone that has a block already.
    block_there: BlockThere = Compacts, drawn 97 {
        /// The run compacts.
        Compacts,
        /// The run ends before it begins, as one that succeeded in part.
        Partial,
    }

    /// The requests that wait after failures of compaction.
    deferral: Deferral = AllOrders, drawn 98 {
        /// Requests of any order, after a failure of any order.
        AllOrders,
        /// Requests of the smallest order that failed and of larger ones.
        FromOrder,
    }

    /// The runs whose failures defer later ones.
    defer_after: DeferAfter = AnyRun, drawn 99 {
        /// All runs.
        AnyRun,
        /// Runs that wait for locks.
        WaitingRuns,
    }

    /// States whether kswapd's compaction ends the deferral once a zone has a block.
    kswapd_ends_deferral: KswapdEndsDeferral = Yes, drawn 103 {
        /// Yes.
        Yes,
        /// No: requests are left out until they have asked often enough. It is one guess at why a kernel of 2012 hardly
        /// compacted.
        No,
    }

    /// Treatment of large folios by a run. Folios of a pageblock, and so huge pages, always stay: no larger block comes of
    /// moving one.
    folios: Folios = PassedBy, drawn 121, with "compact.scanners" in ["both"] {
        /// They stay, and the scanner for pages to move steps over them. Free blocks are taken as single pages.
        PassedBy,
        /// They move as a whole, if they are smaller than the block that is wanted; all do where the whole zone is compacted.
        /// Free blocks are kept as they are. One is split where it is larger than what is to move; a folio for which none is
        /// large enough stays.
        Moved,
    }

    /// The time at which a run takes the block that it made for its request, before another task can.
    capture: Capture = Never, drawn 100 {
        /// Never: the block goes to the free lists first.
        Never,
        /// After each group of pages that was moved.
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
