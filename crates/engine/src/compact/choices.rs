//! Choices of `[compact]`: when compaction is thought worth trying, and how its scanners work.

use crate::choice::choices;

choices! {
    /// When compaction is thought worth trying, and how its scanners work.
    [compact]

    /// Sysctl `extfrag_threshold`, 0 to 1000: below it a failure is attributed to lack of memory, not to
    /// fragmentation, and compaction is skipped.
    extfrag_threshold: i64 = 500 in 0..=1000, drawn 33: [0, 500, 1000];

    /// `COMPACT_MAX_DEFER_SHIFT`: after repeated failures at most 2 to this power attempts are skipped.
    max_defer_shift: u8 = 6 in 0..=31, drawn 34: [0, 6];

    /// Does a run move pages?
    scanners: Scanners = None, drawn 92 {
        /// No: one that would be worth trying ends at once.
        None,
        /// One scanner takes movable pages from the zone's start on, another takes free pages from its end on; the first are
        /// moved to the second, until both meet or there is a block.
        Both,
    }

    /// In which steps a request compacts.
    passes: Passes = One, drawn 93 {
        /// One, which waits for locks.
        One,
        /// Asynchronously first: only in movable pageblocks, not pages under writeback. Its later runs wait.
        AsyncFirst,
    }

    /// What a run does about locks that others wait for, and about tasks that wait for its CPU.
    contention: Contention = Held, drawn 94 {
        /// Nothing: it holds the lock of the lists for a whole pageblock, and that of the zone for a whole search.
        Held,
        /// It gives the lock of the lists up for a moment, and after each 32 frames; that of the zone after each pageblock.
        Released,
        /// The same; but one that is asynchronous gives the pageblock up, and does not search for free pages any more.
        GivesUp,
        /// The lock is taken once there is something to take; an asynchronous run ends.
        EndsRun,
    }

    /// Where the scanners of a run for an order start.
    start: Start = Ends, drawn 95 {
        /// At the ends of the zone.
        Ends,
        /// That for free pages where another one is, even while that has wrapped to the end: it may jump over most of the zone.
        CachedFree,
        /// The same, with a first place that was set before the zone's own was known: it lies too low by the number of the
        /// zone's first frame. Nobody has shown that a kernel did this; it is one guess at why one hardly compacted.
        CachedFreeMisplaced,
        /// That for free pages where the last one that wrapped left off.
        CachedFreeRestricted,
        /// Both behind pageblocks in which nothing was found, until the marks of those are forgotten.
        CachedBoth,
    }

    /// What a run does that finds no free page to move others to.
    no_targets: NoTargets = GoesOn, drawn 96 {
        /// It goes on, until the scanners meet.
        GoesOn,
        /// It ends.
        EndsRun,
    }

    /// What a run does in a zone that has a block already.
    block_there: BlockThere = Compacts, drawn 97 {
        /// It compacts.
        Compacts,
        /// It ends before it begins, as one that succeeded in part.
        Partial,
    }

    /// What failures make wait.
    deferral: Deferral = AllOrders, drawn 98 {
        /// Requests of any order, after a failure of any.
        AllOrders,
        /// Requests of the smallest order that failed and of larger ones.
        FromOrder,
    }

    /// Which failures do.
    defer_after: DeferAfter = AnyRun, drawn 99 {
        /// Those of all runs.
        AnyRun,
        /// Those of runs that wait for locks.
        WaitingRuns,
    }

    /// Does kswapd's compaction end what failures make wait, once a zone has a block?
    kswapd_ends_deferral: KswapdEndsDeferral = Yes, drawn 103 {
        /// It does.
        Yes,
        /// Only requests do: they are left out until they have been asked often enough. One guess at why a kernel of 2012 hardly
        /// compacted.
        No,
    }

    /// Does a run take the block that it made for its request, before another task can?
    capture: Capture = Never, drawn 100 {
        /// No: it is on the free lists first.
        Never,
        /// After each group of pages that was moved.
        AfterEachGroup,
    }
}
