//! Choices of `[reclaim]`: kswapd, direct reclaim, the fate of a page.

use serde::{Deserialize, Serialize};

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }
    };
}
choice! {
    /// How many pages kswapd wants from one zone in one pass.
    KswapdTarget {
        /// No limit: each list is scanned for its whole share, however much was freed. Reclaim comes in spikes.
        Unbounded,
        /// The zone's high watermark, at least one cluster.
        #[default]
        HighWatermark,
    }
}
choice! {
    /// How kswapd's priority falls.
    KswapdPriority {
        /// One step after each pass over the node; back to 12 as soon as a pass freed a cluster (32 pages).
        RestartAfterCluster,
        /// One step when a pass freed nothing, or scanned too little to reach the high marks even at 100 %
        /// efficiency; one descent for each call.
        #[default]
        ByScanVolume,
    }
}
choice! {
    /// The lowest priority of kswapd.
    KswapdFloor {
        /// 0: whole lists, anonymous and file alike.
        Zero,
        /// 1: half of each list.
        #[default]
        One,
    }
}
choice! {
    /// The lowest priority of direct reclaim.
    MinScanPriority {
        /// 0: whole lists, anonymous and file alike.
        #[default]
        Zero,
        /// 1; 0 only when nothing was reclaimed and every zone is hopeless.
        OneUntilStuck,
    }
}
choice! {
    /// When reclaim itself writes a dirty file page.
    PageoutTrigger {
        /// Always, if it was not used lately: kswapd and tasks that reclaim. Memory is freed without the flusher, one
        /// page a request, in LRU order.
        Always,
        /// Only kswapd, at a priority under 10.
        Priority,
        /// Only kswapd, when the tail of the zone's file list was all dirty and not queued for I/O.
        #[default]
        DirtySeen,
    }
}
choice! {
    /// What reclaim does with a page under writeback.
    WritebackMet {
        /// Keeps it: the page makes another round of its list, written or not.
        Keep,
        /// Marks it for reclaim at the end of its writeback, and keeps it.
        Mark,
        /// The same; but kswapd counts a page that it meets for the second time in a zone marked full
        /// of writeback, and stalls after the list.
        #[default]
        CountImmediate,
    }
}
choice! {
    /// When a zone is marked as full of pages under writeback.
    ZoneWriteback {
        /// When as many of the isolated pages as `taken >> (12 - priority)` are: the lower the
        /// priority, the fewer.
        #[default]
        ScaledByPriority,
        /// When all isolated pages are.
        All,
    }
}
choice! {
    /// From which state dirty and writeback pages in a list are counted, and a zone is marked.
    DirtyAccounting {
        /// From dirty pages that reached the write decision, anonymous ones too.
        AtWrite,
        /// From the state of each file page before any other step.
        #[default]
        OnSight,
    }
}
choice! {
    /// How reclaim waits after a list.
    ListStall {
        /// For a congested queue when many of the pages were under writeback, kswapd too.
        WhenWriteback,
        /// 100 ms when all pages were dirty and not queued, or one under writeback was met again;
        /// direct reclaim also for a congested queue.
        #[default]
        WhenDirtyUnqueued,
        /// When all pages were under writeback, or dirty and not queued: until the write of one that reclaim
        /// waits for has ended, at most 10 ms.
        ForWriteback,
        /// Never.
        Never,
    }
}
choice! {
    /// How direct reclaim waits between passes.
    DirectNap {
        /// Below priority 10, until a congested queue has room, at most 100 ms; the whole 100 ms if no queue is
        /// congested.
        CongestionWait,
        /// For a congested queue, below priority 10.
        WaitIffCongested,
        /// Not at all: it waits after lists instead.
        #[default]
        None,
    }
}
choice! {
    /// When kswapd compacts its node after an order > 0 request.
    KswapdCompact {
        /// Never.
        Never,
        /// When balance ended and no zone has a block of the order.
        AfterBalance,
        /// In a pass that reclaimed more than it attempted.
        #[default]
        ByProgress,
    }
}
choice! {
    /// What kswapd does for an order above 0.
    HighOrder {
        /// It reclaims until there are free blocks of that order.
        ByReclaim,
        /// It reclaims single pages until compaction could make a block, and nothing where it already could.
        #[default]
        ByCompaction,
    }
}
choice! {
    /// When kswapd has done enough for a node.
    ZoneBalance {
        /// Every zone that needed work is above its high mark, with blocks of the order. A small zone without such
        /// blocks keeps kswapd at work for ever.
        AllZones,
        /// The same for order 0; for a higher order, zones that are above make up more than a quarter of the node.
        AnySuitableZone,
        /// The same, judged after each pass over the zones that the request can use: a quarter of their pages is
        /// enough, and hopeless zones count as balanced.
        #[default]
        QuarterOfUsable,
    }
}
choice! {
    /// What kswapd does when a node is balanced for an order above 0.
    OrderZeroCheck {
        /// It checks that every zone is above its high mark for single pages, and continues for those that are not.
        Done,
        /// Nothing: the next request for a page shows what is missing.
        #[default]
        LeftOut,
    }
}
choice! {
    /// How far above its high mark a zone must be for kswapd to skip it.
    KswapdGap {
        /// Kswapd skips none: it shrinks every zone up to the highest that lacks pages. A pass is enough if no zone
        /// lacked pages when kswapd reached it.
        NeverLeft,
        /// Eight times the high mark: all zones are aged together. A small zone is emptied far beyond the request.
        EightTimesHigh,
        /// The high mark and a hundredth of the zone, at most its low mark.
        #[default]
        Balance,
    }
}
choice! {
    /// What kswapd looks at before it sleeps.
    SleepTest {
        /// Every zone, for the requested order, even if kswapd gave that order up.
        EveryZone,
        /// For order 0 every zone. For a higher order it sleeps when *less* than a quarter of the node is above: the
        /// sense is reversed, so that kswapd stays awake after success.
        QuarterInverted,
        /// For order 0 every zone, for a higher order a quarter of the node.
        Quarter,
        /// The rule of `zone_balance = "quarter-of-usable"`, for the order and zones that were achieved.
        #[default]
        NodeBalance,
    }
}
choice! {
    /// What kswapd remembers of requests.
    KswapdRequest {
        /// Their highest order. Each call is for all zones, and an order that it gave up is forgotten.
        Order,
        /// Their highest order and the lowest zone that came with it; the next step depends on what the call
        /// achieved.
        OrderAndClasszone,
        /// The same; and after a call that failed, kswapd tries to sleep before it reads a new request.
        #[default]
        LastBalanced,
    }
}
choice! {
    /// Which requests are recorded for kswapd.
    WakeRecord {
        /// Those that find a zone under its low mark.
        BelowLow,
        /// All that reach the slow path, for every zone of their list.
        #[default]
        Always,
    }
}
choice! {
    /// How kswapd waits between passes that freed little, below priority 10.
    KswapdNap {
        /// Until a congested queue has room, at most 100 ms, however few pages are free.
        Always,
        /// Until a congested queue has room, at most 100 ms; not while a zone is under its min mark.
        CongestionWait,
        /// Not at all.
        #[default]
        None,
    }
}
choice! {
    /// For which zones kswapd shrinks object caches.
    SlabZones {
        /// For every zone that it looks at.
        Every,
        /// For those that it shrinks.
        #[default]
        Shrunk,
    }
}
choice! {
    /// What is taken off the lists for a request of an order above 0.
    LumpyReclaim {
        /// The same, but from all lists only for costly orders, at every priority, and without stopping at a page
        /// that cannot be taken; active pages also become inactive by blocks.
        ByOrder,
        /// Also the other pages of each page's aligned block of that order, up to the first that cannot be taken;
        /// below priority 10 from all lists, used or not. Makes blocks, and takes pages in use.
        AlignedBlocks,
        /// The pages at the tail.
        #[default]
        Never,
    }
}
choice! {
    /// Does reclaim for an order above 0 follow the needs of compaction?
    ForCompaction {
        /// No: it ends when a cluster was freed.
        Ignored,
        /// A zone is shrunk until compaction can begin, and not at all where it already can.
        #[default]
        Obeyed,
    }
}
choice! {
    /// In which zones above their high mark kswapd clears `ZONE_CONGESTED`.
    CongestionEnds {
        /// Those up to the highest that lacks pages: zones above it stay congested, and so does a node that lacks
        /// none.
        WhereItWorks,
        /// Also those that it passes while it searches for that zone.
        #[default]
        OnSight,
    }
}
choice! {
    /// How many of the objects that earlier calls deferred are scanned.
    DeferredObjects {
        /// All of them, up to twice the size of the cache.
        All,
        /// At most half of the cache, while the call itself is due less than a quarter of it.
        #[default]
        Damped,
    }
}
choice! {
    /// Do pages that go with an inode, when its object is dropped, count as reclaimed?
    StolenPages {
        /// No, only the slabs do: kswapd's priority falls as if nothing had been freed.
        NotCounted,
        /// Yes.
        #[default]
        Counted,
    }
}
choice! {
    /// How kswapd falls asleep.
    KswapdSleep {
        /// At once.
        AtOnce,
        /// After a nap of 100 ms, if the node is still balanced then.
        #[default]
        AfterNap,
    }
}
choice! {
    /// What happens to a request of an order above 0 for which kswapd freed less than a cluster.
    FailedOrder {
        /// Kswapd keeps trying.
        Kept,
        /// Kswapd continues for single pages.
        #[default]
        GivenUp,
    }
}
choice! {
    /// When reclaim waits because many pages are under writeback.
    WriteoutThrottle {
        /// Above the limit, until a page that reclaim waits for is written, at most 10 ms at a time.
        ForWriteback,
        /// Above the limit; callers that may not enter the file system or do I/O also wait 100 ms after every zone.
        AlwaysWithoutFs,
        /// Above the limit.
        #[default]
        ByLimit,
    }
}

/// The section `[reclaim]` of a kernel file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// How many pages kswapd wants from one zone in one pass.
    pub kswapd_target: KswapdTarget,
    /// How kswapd's priority falls.
    pub kswapd_priority: KswapdPriority,
    /// The lowest priority of kswapd.
    pub kswapd_floor: KswapdFloor,
    /// The lowest priority of direct reclaim.
    pub min_scan_priority: MinScanPriority,
    /// When reclaim writes a dirty file page.
    pub pageout_trigger: PageoutTrigger,
    /// What happens to a page under writeback.
    pub writeback_met: WritebackMet,
    /// When a zone is marked as full of pages under writeback.
    pub zone_writeback: ZoneWriteback,
    /// What dirty pages are counted from.
    pub dirty_accounting: DirtyAccounting,
    /// How reclaim waits after a list.
    pub list_stall: ListStall,
    /// How direct reclaim waits between passes.
    pub direct_nap: DirectNap,
    /// When kswapd compacts.
    pub kswapd_compact: KswapdCompact,
    /// What kswapd does for an order above 0.
    pub high_order: HighOrder,
    /// When kswapd has done enough for a node.
    pub zone_balance: ZoneBalance,
    /// What kswapd does when a node is balanced for an order above 0.
    pub order_zero_check: OrderZeroCheck,
    /// How far above its high mark kswapd brings a zone that it shrinks.
    pub kswapd_gap: KswapdGap,
    /// What kswapd looks at before it sleeps.
    pub sleep_test: SleepTest,
    /// What kswapd remembers of requests.
    pub kswapd_request: KswapdRequest,
    /// Which requests are recorded for kswapd.
    pub wake_record: WakeRecord,
    /// How kswapd waits between passes.
    pub kswapd_nap: KswapdNap,
    /// For which zones kswapd shrinks object caches.
    pub slab_zones: SlabZones,
    /// What is taken off the lists for an order above 0.
    pub lumpy_reclaim: LumpyReclaim,
    /// Does reclaim follow the needs of compaction?
    pub for_compaction: ForCompaction,
    /// In which zones kswapd clears `ZONE_CONGESTED`.
    pub congestion_ends: CongestionEnds,
    /// Do pages that go with an inode count as reclaimed?
    pub stolen_pages: StolenPages,
    /// How many deferred objects are scanned.
    pub deferred_objects: DeferredObjects,
    /// How many tasks may reclaim directly at a time; the others wait for one of them to end, or for pages that are free. 0 for
    /// any number. Callers that may not enter the file system or do I/O do not wait, for others may wait for them.
    pub direct_reclaimers: u64,
    /// How kswapd falls asleep.
    pub kswapd_sleep: KswapdSleep,
    /// What happens to an order that kswapd cannot reach.
    pub failed_order: FailedOrder,
    /// When reclaim waits because many pages are under writeback.
    pub writeout_throttle: WriteoutThrottle,
}
