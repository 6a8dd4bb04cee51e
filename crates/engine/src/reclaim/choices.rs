//! Choices of `[reclaim]`: kswapd, direct reclaim, the fate of a page.

use crate::choice::choices;

choices! {
    /// Kswapd, direct reclaim, the fate of a page.
    [reclaim]

    /// How many pages kswapd wants from one zone in one pass.
    kswapd_target: KswapdTarget = Unbounded, drawn 36 {
        /// No limit: each list is scanned for its whole share, however much was freed. Reclaim comes in spikes.
        Unbounded,
        /// The zone's high watermark, at least one cluster.
        HighWatermark,
    }

    /// How kswapd's priority falls.
    kswapd_priority: KswapdPriority = RestartAfterCluster, drawn 38 {
        /// One step after each pass over the node; back to 12 as soon as a pass freed a cluster (32 pages).
        RestartAfterCluster,
        /// One step when a pass freed nothing, or scanned too little to reach the high marks even at 100 %
        /// efficiency; one descent for each call.
        ByScanVolume,
    }

    /// The lowest priority of kswapd.
    kswapd_floor: KswapdFloor = Zero, drawn 39 {
        /// 0: whole lists, anonymous and file alike.
        Zero,
        /// 1: half of each list.
        One,
    }

    /// The lowest priority of direct reclaim.
    min_scan_priority: MinScanPriority = Zero, drawn 40 {
        /// 0: whole lists, anonymous and file alike.
        Zero,
        /// 1; 0 only when nothing was reclaimed and every zone is hopeless.
        OneUntilStuck,
    }

    /// When reclaim itself writes a dirty file page.
    pageout_trigger: PageoutTrigger = Always, drawn 41 {
        /// Always, if it was not used lately: kswapd and tasks that reclaim. Memory is freed without the flusher, one
        /// page a request, in LRU order.
        Always,
        /// Only kswapd, at a priority under 10.
        Priority,
        /// Only kswapd, when the tail of the zone's file list was all dirty and not queued for I/O.
        DirtySeen,
        /// The same, and only a page that was met dirty before.
        DirtySeenTwice,
        /// Never: dirty pages of files are the flusher's alone.
        Never,
    }

    /// What reclaim does with a page under writeback.
    writeback_met: WritebackMet = Keep, drawn 42 {
        /// Keeps it: the page makes another round of its list, written or not.
        Keep,
        /// Marks it for reclaim at the end of its writeback, and keeps it. A task whose memory cgroup is at its limit waits
        /// for one that it meets marked: the page has gone round its list, so that the disk is slower than the scan.
        Mark,
        /// The same; but kswapd counts a page that it meets for the second time in a zone marked full
        /// of writeback, and stalls after the list.
        CountImmediate,
    }

    /// When a zone is marked as full of pages under writeback.
    zone_writeback: ZoneWriteback = ScaledByPriority, drawn 43 {
        /// When as many of the isolated pages as `taken >> (12 - priority)` are: the lower the
        /// priority, the fewer.
        ScaledByPriority,
        /// When all isolated pages are.
        All,
    }

    /// From which state dirty and writeback pages in a list are counted, and a zone is marked.
    dirty_accounting: DirtyAccounting = AtWrite, drawn 44 {
        /// From dirty pages that reached the write decision, anonymous ones too.
        AtWrite,
        /// From the state of each file page before any other step.
        OnSight,
    }

    /// How reclaim waits after a list.
    list_stall: ListStall = Never, drawn 45 {
        /// For a congested queue when many of the pages were under writeback, kswapd too.
        WhenWriteback,
        /// 100 ms when all pages were dirty and not queued, or one under writeback was met again;
        /// direct reclaim also for a congested queue.
        WhenDirtyUnqueued,
        /// When all pages were under writeback, or dirty and not queued: until the write of one that reclaim
        /// waits for has ended, at most 10 ms.
        ForWriteback,
        /// Never.
        Never,
        /// After a whole pass, by what it met: kswapd, where a page under writeback was met again, until 32 pages of
        /// the node were written for each reclaimer that waits so, at most 100 ms; direct reclaim a tick, in a
        /// congested zone.
        ReclaimThrottle,
    }

    /// How direct reclaim waits between passes.
    direct_nap: DirectNap = CongestionWait, drawn 46 {
        /// Below priority 10, until a congested queue has room, at most 100 ms; the whole 100 ms if no queue is
        /// congested.
        CongestionWait,
        /// For a congested queue, below priority 10.
        WaitIffCongested,
        /// Not at all: it waits after lists instead.
        None,
        /// A tick, when nothing was freed down to priority 1, and more than half of what could be freed waits to be
        /// written; not once kswapd has given up. A task that cannot be helped soon learns it.
        ReclaimThrottle,
    }

    /// When kswapd compacts its node after an order > 0 request.
    kswapd_compact: KswapdCompact = Never, drawn 47 {
        /// Never.
        Never,
        /// When balance ended and no zone has a block of the order.
        AfterBalance,
        /// In a pass that reclaimed more than it attempted; only with `kswapd_priority = "by-scan-volume"`.
        ByProgress,
    }

    /// What kswapd does for an order above 0.
    high_order: HighOrder = ByReclaim, drawn 49 {
        /// It reclaims until there are free blocks of that order.
        ByReclaim,
        /// It reclaims single pages until compaction could make a block, and nothing where it already could.
        ByCompaction,
    }

    /// When kswapd has done enough for a node.
    zone_balance: ZoneBalance = AllZones, drawn 50 {
        /// Every zone that needed work is above its high mark, with blocks of the order. A small zone without such
        /// blocks keeps kswapd at work for ever.
        AllZones,
        /// The same for order 0; for a higher order, zones that are above make up more than a quarter of the node.
        AnySuitableZone,
        /// The same, judged after each pass over the zones that the request can use: a quarter of their pages is
        /// enough, and hopeless zones count as balanced.
        QuarterOfUsable,
        /// One zone that the request can use is above its high mark, with a block of the order.
        AnyUsableZone,
    }

    /// What kswapd does when a node is balanced for an order above 0.
    order_zero_check: OrderZeroCheck = LeftOut, drawn 51 {
        /// It checks that every zone is above its high mark for single pages, and continues for those that are not.
        Done,
        /// Nothing: the next request for a page shows what is missing.
        LeftOut,
    }

    /// How far above its high mark a zone must be for kswapd to skip it.
    kswapd_gap: KswapdGap = NeverLeft, drawn 52 {
        /// Kswapd skips none: it shrinks every zone up to the highest that lacks pages. A pass is enough if no zone
        /// lacked pages when kswapd reached it.
        NeverLeft,
        /// Eight times the high mark: all zones are aged together. A small zone is emptied far beyond the request.
        EightTimesHigh,
        /// The high mark and a hundredth of the zone, at most its low mark.
        Balance,
    }

    /// What kswapd looks at before it sleeps.
    sleep_test: SleepTest = EveryZone, drawn 53 {
        /// Every zone, for the requested order, even if kswapd gave that order up.
        EveryZone,
        /// For order 0 every zone. For a higher order it sleeps when *less* than a quarter of the node is above: the
        /// sense is reversed, so that kswapd stays awake after success.
        QuarterInverted,
        /// For order 0 every zone, for a higher order a quarter of the node.
        Quarter,
        /// The rule of `zone_balance = "quarter-of-usable"`, or that of "any-usable-zone" where it holds, for the order and zones
        /// that were achieved.
        NodeBalance,
    }

    /// What kswapd remembers of requests.
    kswapd_request: KswapdRequest = Order, drawn 54 {
        /// Their highest order. Each call is for all zones, and an order that it gave up is forgotten.
        Order,
        /// Their highest order and the lowest zone that came with it; the next step depends on what the call
        /// achieved.
        OrderAndClasszone,
        /// The same; and after a call that failed, kswapd tries to sleep before it reads a new request.
        LastBalanced,
        /// Their highest order, and the highest zone that any of them can use. Kswapd tries to sleep before each call, and an
        /// order that it gave up is forgotten.
        HighestZone,
    }

    /// Which requests are recorded for kswapd.
    wake_record: WakeRecord = BelowLow, drawn 55 {
        /// Those that find a zone under its low mark.
        BelowLow,
        /// All that reach the slow path, for every zone of their list.
        Always,
    }

    /// How kswapd waits between passes that freed little, below priority 10.
    kswapd_nap: KswapdNap = Always, drawn 56 {
        /// Until a congested queue has room, at most 100 ms, however few pages are free.
        Always,
        /// Until a congested queue has room, at most 100 ms; not while a zone is under its min mark.
        CongestionWait,
        /// Not at all.
        None,
    }

    /// For which zones kswapd shrinks object caches.
    slab_zones: SlabZones = Every, drawn 57 {
        /// For every zone that it looks at.
        Every,
        /// For those that it shrinks.
        Shrunk,
    }

    /// What is taken off the lists for a request of an order above 0.
    lumpy_reclaim: LumpyReclaim = ByOrder, drawn 58 {
        /// The same, but from all lists only for costly orders, at every priority, and without stopping at a page
        /// that cannot be taken; active pages also become inactive by blocks.
        ByOrder,
        /// Also the other pages of each page's aligned block of that order, up to the first that cannot be taken;
        /// below priority 10 from all lists, used or not. Makes blocks, and takes pages in use.
        AlignedBlocks,
        /// Also the other pages of each page's aligned block of that order that are on the same list, up to the first that
        /// cannot be taken; none of them is taken because of its block.
        SameList,
        /// The pages at the tail.
        Never,
    }

    /// Does reclaim for an order above 0 follow the needs of compaction?
    for_compaction: ForCompaction = Ignored, drawn 59 {
        /// No: it ends when a cluster was freed.
        Ignored,
        /// A zone is shrunk until compaction can begin, and not at all where it already can.
        Obeyed,
        /// The same; and each failure of compaction in a row doubles what a zone is shrunk by before that.
        ScaledByFailures,
    }

    /// In which zones above their high mark kswapd clears `ZONE_CONGESTED`.
    congestion_ends: CongestionEnds = WhereItWorks, drawn 65 {
        /// Those up to the highest that lacks pages: zones above it stay congested, and so does a node that lacks
        /// none.
        WhereItWorks,
        /// Also those that it passes while it searches for that zone.
        OnSight,
    }

    /// Do pages that go with an inode, when its object is dropped, count as reclaimed?
    stolen_pages: StolenPages = NotCounted, drawn 66 {
        /// No, only the slabs do: kswapd's priority falls as if nothing had been freed.
        NotCounted,
        /// Yes.
        Counted,
    }

    /// How many of the objects that earlier calls deferred are scanned.
    deferred_objects: DeferredObjects = All, drawn 67 {
        /// All of them, up to twice the size of the cache.
        All,
        /// At most half of the cache, while the call itself is due less than a quarter of it.
        Damped,
    }

    /// How many tasks may reclaim directly at a time. The others wait for one of them to end, or for free pages; who may fail
    /// (`__GFP_NORETRY`) gets nothing. 0 for any number. Not bounded are requests of an order above 0, which single pages do not serve, and
    /// callers that may not enter the file system or do I/O, for others may wait for them.
    direct_reclaimers: u64 = 0 in 0..=1 << 20, drawn 87: [0, 1, 4];

    /// Raises that bound to one task for every N CPUs, where that is more. 0 leaves the bound as it is. No effect where
    /// `direct_reclaimers` is 0.
    cpus_per_direct_reclaimer: u64 = 0 in 0..=1 << 20, drawn 144, unless "reclaim.direct_reclaimers" in ["0"]: [0, 1, 4];

    /// How kswapd falls asleep.
    kswapd_sleep: KswapdSleep = AtOnce, drawn 73 {
        /// At once.
        AtOnce,
        /// After a nap of 100 ms, if the node is still balanced then.
        AfterNap,
    }

    /// What happens to a request of an order above 0 for which kswapd freed less than a cluster.
    failed_order: FailedOrder = Kept, drawn 74 {
        /// Kswapd keeps trying.
        Kept,
        /// Kswapd continues for single pages.
        GivenUp,
    }

    /// When reclaim waits because many pages are under writeback.
    writeout_throttle: WriteoutThrottle = AlwaysWithoutFs, drawn 75 {
        /// Above the limit; callers that may not enter the file system or do I/O also wait 100 ms after every zone.
        AlwaysWithoutFs,
        /// Above the limit.
        ByLimit,
        /// Above the limit, until a page that reclaim waits for is written, at most 10 ms at a time.
        ForWriteback,
        /// Never: it waits for pages that it meets, and not for a sum.
        Never,
    }

    /// What a task reclaims on its own node before it takes memory of another one, where there are several
    /// (`vm.zone_reclaim_mode`): 0 for nothing, or the sum of 1 (clean pages of files that are not mapped), 2 (dirty ones, which
    /// it writes) and 4 (mapped pages and anonymous ones, which go to swap).
    zone_reclaim_mode: u8 = 0 in 0..=7, drawn 90, unless "memory nodes" in ["1"]: [0, 1, 7];

    /// What kswapd shrinks in a pass; the latter only with `kswapd_priority = "by-scan-volume"`.
    kswapd_scope: KswapdScope = Zones, drawn 118 {
        /// Each zone that lacks pages, up to the highest that does.
        Zones,
        /// The lists of its node once, for as many pages as the high marks of all zones that the request can use. It looks whether
        /// the node is balanced before each pass, and not at zones.
        Node,
    }

    /// When nobody hopes for pages of a zone any more.
    hopeless: Hopeless = ByScan, drawn 119 {
        /// When its lists were scanned six times over without a page going back to its free lists.
        ByScan,
        /// When its node's kswapd came down to its lowest priority 16 times in a row and freed nothing: kswapd sleeps then, and is
        /// not woken, until a task frees pages itself. A direct reclaim that frees nothing says that nothing can be freed, whatever
        /// was scanned; 16 of them in a row exhaust memory.
        ByFailures,
    }
}

impl DirtyAccounting {
    /// Does the state of a page count before any other step?
    pub(crate) const fn is_on_sight(self) -> bool {
        match self {
            Self::OnSight => true,
            Self::AtWrite => false,
        }
    }
}

impl ForCompaction {
    /// Does reclaim end and begin by what compaction needs?
    pub(crate) const fn is_obeyed(self) -> bool {
        match self {
            Self::Obeyed | Self::ScaledByFailures => true,
            Self::Ignored => false,
        }
    }
}
