//! Choices of `[reclaim]`: kswapd, direct reclaim, the fate of a page.

use crate::choice::choices;

choices! {
    /// Kswapd, direct reclaim, the fate of a page.
    [reclaim]

    /// Number of pages that kswapd frees from one zone in one pass.
    kswapd_target: KswapdTarget = Unbounded, drawn 36 {
        /// There is no limit: kswapd scans as much of each list as the priority prescribes, even after many pages were
        /// freed. Kswapd therefore frees pages in large bursts.
        Unbounded,
        /// In one pass, kswapd frees as many pages from a zone as the zone's high watermark says, and at least one
        /// cluster (32 pages).
        HighWatermark,
    }

    /// The way in which kswapd's priority falls.
    kswapd_priority: KswapdPriority = RestartAfterCluster, drawn 38 {
        /// The priority falls one step after each pass over the node, and is 12 again as soon as a pass freed a cluster
        /// (32 pages).
        RestartAfterCluster,
        /// The priority falls one step if a pass freed nothing, or scanned so few pages that it could not have reached
        /// the high marks even by freeing all of them. Within one run of `balance_pgdat` the priority never rises.
        ByScanVolume,
    }

    /// The lowest priority of kswapd.
    kswapd_floor: KswapdFloor = Zero, drawn 39 {
        /// The lowest priority is 0, at which whole lists are scanned, anonymous and file lists alike.
        Zero,
        /// The lowest priority is 1, at which half of each list is scanned.
        One,
    }

    /// The lowest priority of direct reclaim.
    min_scan_priority: MinScanPriority = Zero, drawn 40 {
        /// The lowest priority is 0, at which whole lists are scanned, anonymous and file lists alike.
        Zero,
        /// The lowest priority is 1. Reclaim goes down to priority 0 only if nothing was reclaimed and every zone
        /// counts as hopeless (`reclaim.hopeless`).
        OneUntilStuck,
    }

    /// The dirty file pages that reclaim itself writes.
    pageout_trigger: PageoutTrigger = Always, drawn 41 {
        /// Reclaim writes all dirty file pages that were not used lately. Kswapd does so, and so do tasks that reclaim.
        /// Memory is freed without the flusher, by I/O requests of one page, in LRU order.
        Always,
        /// Reclaim writes pages that kswapd meets at a priority below 10.
        Priority,
        /// Reclaim writes pages that kswapd meets after the tail of the zone's file list was all dirty and not queued
        /// for I/O.
        DirtySeen,
        /// Reclaim writes pages that kswapd meets dirty for the second time, after the tail of the zone's file list was
        /// all dirty and not queued for I/O.
        DirtySeenTwice,
        /// None: dirty pages of files are left to the flusher.
        Never,
    }

    /// When reclaim sends the pages that it writes to their device.
    written_pages: WrittenPages = AtOnce, drawn 155 {
        /// Each page goes to its device at once.
        AtOnce,
        /// Pages are gathered into long requests (`blk_start_plug`). These requests go to the device when a list has
        /// been scanned, when the task sleeps, or when enough pages are together. Pages return to their list before
        /// they are written, and are reclaimed from the tail of the list afterwards.
        Plugged,
    }

    /// When reclaim goes on with the other pages of a large folio that it has split, because it swaps the folio out page
    /// by page.
    split_pages: SplitPages = Later, drawn 168 {
        /// In a later scan: the pages go to the tail of their list, where reclaim finds them next.
        Later,
        /// At once, in the order of their addresses. So reclaim writes all pages of a huge page even if it needs fewer,
        /// and the writes of the first ones may end before the pages are back on their list.
        AtOnce,
    }

    /// The treatment of a page that is under writeback.
    writeback_met: WritebackMet = Keep, drawn 42 {
        /// Reclaim keeps the page. The page then goes round its list once more, even if its write has ended meanwhile.
        Keep,
        /// Reclaim marks the page to be freed at the end of its writeback, and keeps the page until then. A task whose
        /// memory cgroup is at its limit waits for a page that it finds already marked. Such a page has gone round its
        /// list while it was written, so the disk is slower than the scan.
        Mark,
        /// As `mark`, but in a zone that is marked as full of pages under writeback, kswapd counts the pages that it
        /// meets for the second time. If there are any, kswapd stalls after the list.
        CountImmediate,
    }

    /// The number of isolated pages that must be under writeback so that the zone is marked as full of pages under
    /// writeback.
    zone_writeback: ZoneWriteback = ScaledByPriority, drawn 43 {
        /// At least `taken >> (12 - priority)` of the `taken` isolated pages are under writeback. The lower the
        /// priority, the fewer pages are enough.
        ScaledByPriority,
        /// All isolated pages are under writeback.
        All,
    }

    /// The moment at which reclaim counts how many of the isolated pages are dirty and how many are under writeback. By
    /// these counts it marks a zone as congested, as full of dirty pages, or as full of pages under writeback.
    dirty_accounting: DirtyAccounting = AtWrite, drawn 44 {
        /// Each dirty page, file or anonymous, is counted by its state when reclaim decides whether to write the page.
        AtWrite,
        /// Each file page is counted by its state before reclaim does anything else with the page.
        OnSight,
    }

    /// The wait of reclaim after it has scanned a list.
    list_stall: ListStall = Never, drawn 45 {
        /// If many pages of the list were under writeback, reclaim waits until a congested queue has room. Kswapd
        /// waits, too.
        WhenWriteback,
        /// Reclaim waits 100 ms if all pages of the list were dirty and not queued, or if it met a page under writeback
        /// for the second time. Direct reclaim also waits until a congested queue has room.
        WhenDirtyUnqueued,
        /// If all pages of the list were under writeback, or dirty and not queued, reclaim waits until a page that it
        /// has marked to be freed is written, at most 10 ms.
        ForWriteback,
        /// Reclaim does not wait after it has scanned a list.
        Never,
        /// Reclaim waits after a whole pass, not after a list, and the wait depends on which pages the pass met. If
        /// kswapd met a page under writeback for the second time, it waits, at most 100 ms, until 32 pages of the node
        /// were written for each reclaimer that waits in this way. Direct reclaim waits a tick in a congested zone.
        ReclaimThrottle,
    }

    /// The wait of direct reclaim between two passes.
    direct_nap: DirectNap = CongestionWait, drawn 46 {
        /// Below priority 10, direct reclaim waits until a congested queue has room, at most 100 ms. If no queue is
        /// congested, it waits the whole 100 ms.
        CongestionWait,
        /// Below priority 10 and in a congested zone, direct reclaim waits until a congested queue has room, at most
        /// 100 ms.
        WaitIffCongested,
        /// None: direct reclaim waits after scanned lists instead.
        None,
        /// Direct reclaim waits a tick, if nothing was freed down to priority 1, and more than half of the pages that
        /// could be freed wait to be written. After kswapd has given up, direct reclaim does not wait, so that a
        /// request that cannot be met fails soon.
        ReclaimThrottle,
    }

    /// Condition under which kswapd compacts its node after a request of an order above 0.
    kswapd_compact: KswapdCompact = Never, drawn 47 {
        /// Kswapd never compacts its node.
        Never,
        /// Kswapd compacts when a run of `balance_pgdat` has ended and no zone has a block of the order.
        AfterBalance,
        /// Kswapd compacts after a pass that reclaimed more pages than its target. This value works only with
        /// `kswapd_priority = "by-scan-volume"`.
        ByProgress,
    }

    /// What kswapd does for a request of an order above 0.
    high_order: HighOrder = ByReclaim, drawn 49 {
        /// Kswapd reclaims until there are free blocks of the requested order.
        ByReclaim,
        /// Kswapd reclaims single pages until compaction could make a block. In a zone in which compaction already
        /// could make one, kswapd reclaims nothing.
        ByCompaction,
    }

    /// Condition under which kswapd has done enough for a node.
    zone_balance: ZoneBalance = AllZones, drawn 50 {
        /// Every zone that needed work is above its high mark, and has blocks of the order. A small zone without such
        /// blocks keeps kswapd at work endlessly.
        AllZones,
        /// For order 0, as `all-zones`. For a higher order: the zones that are above their high mark and have blocks of
        /// the order make up more than a quarter of the node.
        AnySuitableZone,
        /// As `any-suitable-zone`, but the condition is tested after each pass, and only for the zones that the request
        /// can use. A quarter of the pages of these zones is enough, and hopeless zones count as balanced.
        QuarterOfUsable,
        /// One zone that the request can use is above its high mark, and has a block of the order.
        AnyUsableZone,
    }

    /// The check that kswapd makes when it has balanced a node for a request of an order above 0.
    order_zero_check: OrderZeroCheck = LeftOut, drawn 51 {
        /// Kswapd checks that every zone is above its high mark for single pages, and continues for the zones that are
        /// not.
        Done,
        /// Kswapd checks nothing: the next request for a page shows which zones lack pages.
        LeftOut,
    }

    /// Number of free pages above which kswapd skips a zone.
    kswapd_gap: KswapdGap = NeverLeft, drawn 52 {
        /// Kswapd skips no zone: it shrinks every zone up to the highest zone that lacks pages. Kswapd is done after a
        /// pass in which no zone lacked pages when kswapd reached it.
        NeverLeft,
        /// Kswapd skips a zone whose free pages exceed eight times its high mark, so that all zones are aged together.
        /// A small zone is emptied far more than the request needs.
        EightTimesHigh,
        /// Kswapd skips a zone whose free pages exceed its high mark by more than a hundredth of the zone, or than the
        /// low mark if that is less.
        Balance,
    }

    /// The zones that kswapd checks before it sleeps.
    sleep_test: SleepTest = EveryZone, drawn 53 {
        /// Kswapd checks every zone for the requested order, even if it gave up on that order.
        EveryZone,
        /// For order 0, kswapd checks every zone. For a higher order, it sleeps if the balanced zones make up *less*
        /// than a quarter of the node: the test is inverted, so that kswapd stays awake after success.
        QuarterInverted,
        /// For order 0, kswapd checks every zone. For a higher order, it sleeps if the balanced zones make up more than
        /// a quarter of the node.
        Quarter,
        /// Kswapd sleeps if the node is balanced for the request that kswapd's last run has fulfilled: its order, and
        /// the zones that it can use. The rule for this is `any-usable-zone` if that is the kernel's value of
        /// `zone_balance`, and otherwise `quarter-of-usable`.
        NodeBalance,
    }

    /// What kswapd remembers of the requests that wake it: the highest order and, with most values, also a zone.
    kswapd_request: KswapdRequest = Order, drawn 54 {
        /// The highest order requested. Each run of `balance_pgdat` covers all zones; an order that kswapd gave up on
        /// is forgotten.
        Order,
        /// The highest order requested, and the lowest class zone of the requests that raised this order. (The class
        /// zone is the highest zone that a request can use.) If a request is stricter than the one that the last run of
        /// `balance_pgdat` met, kswapd works for it at once; otherwise kswapd tries to sleep first.
        OrderAndClasszone,
        /// As `order-and-classzone`, except that after a run that failed, kswapd tries to sleep before it reads a new
        /// request.
        LastBalanced,
        /// The highest order requested, and the highest zone that any request can use. Kswapd tries to sleep before
        /// each run of `balance_pgdat`; an order that kswapd gave up on is forgotten.
        HighestZone,
    }

    /// The requests that are recorded for kswapd.
    wake_record: WakeRecord = BelowLow, drawn 55 {
        /// Requests that find a zone below its low mark.
        BelowLow,
        /// All requests that reach the slow path, for every zone of the request's zonelist.
        Always,
    }

    /// States whether kswapd waits between two passes over a node at priorities below 10.
    kswapd_nap: KswapdNap = Always, drawn 56 {
        /// Kswapd waits until a congested queue has room, at most 100 ms, however few pages are free.
        Always,
        /// Kswapd waits until a congested queue has room, at most 100 ms, but not while a zone is below its min mark.
        CongestionWait,
        /// Kswapd does not wait between passes.
        None,
    }

    /// The zones for which kswapd shrinks object caches.
    slab_zones: SlabZones = Every, drawn 57 {
        /// Every zone that kswapd looks at.
        Every,
        /// The zones that kswapd shrinks.
        Shrunk,
    }

    /// Which pages are taken off the lists for a request of an order above 0.
    lumpy_reclaim: LumpyReclaim = ByOrder, drawn 58 {
        /// Pages are taken as with `aligned-blocks`, with three differences. Pages of all lists are taken only for
        /// costly orders, but then at every priority. A page that cannot be taken does not end its block. Active pages
        /// also become inactive by blocks.
        ByOrder,
        /// Pages are taken from the tail, each with the other pages of its aligned block of that order, up to the first
        /// page that cannot be taken. Pages of all lists are taken, used or not, in two cases: below priority 10, and
        /// for costly orders. This makes blocks, but takes pages in use.
        AlignedBlocks,
        /// The pages at the tail, each with the other pages of its aligned block of that order that are on the same
        /// list, up to the first page that cannot be taken. A page in use is not taken for its block.
        SameList,
        /// Only the pages at the tail.
        Never,
    }

    /// States whether reclaim for an order above 0 frees as many pages as compaction needs before it can begin.
    for_compaction: ForCompaction = Ignored, drawn 59 {
        /// No: reclaim ends when a cluster (32 pages) was freed.
        Ignored,
        /// Yes: a zone is shrunk until compaction can begin, and not at all if it already can.
        Obeyed,
        /// As `obeyed`, but each consecutive failure of compaction doubles the number of pages by which a zone is
        /// shrunk before compaction begins.
        ScaledByFailures,
    }

    /// The zones above their high mark in which kswapd clears `ZONE_CONGESTED`.
    congestion_ends: CongestionEnds = WhereItWorks, drawn 65 {
        /// Zones up to the highest zone that lacks pages. Higher zones stay congested. If no zone lacks pages, all
        /// zones of the node stay congested.
        WhereItWorks,
        /// The zones that `where-it-works` names, and the zones that kswapd passes while it searches for the highest
        /// zone that lacks pages.
        OnSight,
    }

    /// When a shrinker drops an inode, the page-cache pages of the inode are freed. This choice states whether these
    /// pages count as reclaimed.
    stolen_pages: StolenPages = NotCounted, drawn 66 {
        /// No, only the freed slab pages count: kswapd's priority falls as if no page had been freed.
        NotCounted,
        /// Yes, these pages count as reclaimed.
        Counted,
    }

    /// Earlier calls of a shrinker may have deferred objects. This choice says how many of them the next call scans.
    deferred_objects: DeferredObjects = All, drawn 67 {
        /// All deferred objects, up to twice the size of the cache.
        All,
        /// As `all`, with one limit: if a call would scan less than a quarter of the cache without the deferred
        /// objects, it scans at most half of the cache with them.
        Damped,
    }

    /// Largest number of tasks that do direct reclaim at the same time; 0 means no limit. Other tasks wait until one of
    /// these tasks has finished, or until pages are free. Requests that may fail (`__GFP_NORETRY`) fail instead of
    /// waiting. Three kinds of requests are exempt from the limit. The first are requests by kernel tasks. The second
    /// are requests of an order above 0, because the wait ends as soon as single pages are free. The third are requests
    /// whose task may not enter the file system or do I/O, because other tasks may wait for this task.
    direct_reclaimers: u64 = 0 in 0..=1 << 20, drawn 87: [0, 1, 4];

    /// Raises the limit `direct_reclaimers` on machines with many CPUs, to the number of CPUs divided by this value.
    /// For example, with the value 4 and 32 CPUs eight tasks may reclaim directly at a time, even if
    /// `direct_reclaimers` is lower. With 0, `direct_reclaimers` alone is the limit. If `direct_reclaimers` is 0, there
    /// is no limit, and this value has no effect.
    cpus_per_direct_reclaimer: u64 = 0 in 0..=1 << 20, drawn 144, unless "reclaim.direct_reclaimers" in ["0"]: [0, 1, 4];

    /// The way in which kswapd falls asleep.
    kswapd_sleep: KswapdSleep = AtOnce, drawn 73 {
        /// Kswapd falls asleep at once.
        AtOnce,
        /// Kswapd falls asleep after a nap of 100 ms, if the node is still balanced then.
        AfterNap,
    }

    /// What kswapd does if it freed less than a cluster (32 pages) for a request of an order above 0.
    failed_order: FailedOrder = Kept, drawn 74 {
        /// Kswapd continues for the order.
        Kept,
        /// Kswapd continues for single pages.
        GivenUp,
    }

    /// The way in which reclaim waits while more pages are under writeback than a limit. The limit is 1.1 times the
    /// dirty limit.
    writeout_throttle: WriteoutThrottle = AlwaysWithoutFs, drawn 75 {
        /// Reclaim waits while more pages are under writeback than the limit. Callers that may not enter the file
        /// system or do I/O wait once after every zone, at most 100 ms, whether or not the limit is exceeded.
        AlwaysWithoutFs,
        /// If more pages are under writeback than the limit, reclaim waits until fewer are.
        ByLimit,
        /// While more pages are under writeback than the limit, reclaim waits until a page that it has marked to be
        /// freed is written. Each such wait takes at most 10 ms.
        ForWriteback,
        /// Reclaim never waits until fewer pages are under writeback. It waits only for single pages that it meets.
        Never,
    }

    /// Sysctl `vm.zone_reclaim_mode`: whether a task reclaims pages of its own node before it takes memory of another
    /// node. With 0 it does not. With 1 it reclaims clean, unmapped pages of files. If 2 is added to the value, it also
    /// writes dirty pages of files. If 4 is added, it also unmaps mapped pages and swaps out anonymous pages.
    zone_reclaim_mode: u8 = 0 in 0..=7, drawn 90, unless "memory nodes" in ["1"]: [0, 1, 7];

    /// The unit that kswapd shrinks in a pass. The value `node` works only with `kswapd_priority = "by-scan-volume"`.
    kswapd_scope: KswapdScope = Zones, drawn 118 {
        /// Single zones, one after the other: from the lowest zone up to the highest one that lacks pages.
        Zones,
        /// Kswapd shrinks the lists of the whole node, once a pass. The target is the sum of the high marks of all
        /// zones that the request can use. Kswapd checks whether the node is balanced before each pass, and does not
        /// look at single zones.
        Node,
    }

    /// Reclaim works on a subtree of the memory control groups. This choice says which groups of the subtree a pass of
    /// reclaim visits. Kswapd visits all of them in any case. With `multigen.memcg_lru = "on"`, only reclaim at a limit
    /// obeys this choice.
    group_walk: GroupWalk = All, drawn 164 {
        /// All groups, parents before children. Each group loses pages in the same proportion. With many groups, a task
        /// that needs few pages does much work.
        All,
        /// All groups after the one at which the last walk ended, up to the last group of the subtree. Walks of the
        /// same target, node and priority share this position, so that tasks that reclaim at the same time divide the
        /// groups among them. A reclaim at a limit ends its walk once it has freed enough.
        SharedByPriority,
        /// As `shared-by-priority`, but walks of all priorities share a position, and every reclaim except kswapd ends
        /// its walk once it has freed enough. A reclaim that frees nothing starts again, and then visits all groups.
        SharedPosition,
        /// As `shared-by-priority`, but every reclaim except kswapd ends its walk once it has freed enough.
        SharedEndingEarly,
    }

    /// The condition under which a zone is hopeless (`all_unreclaimable`): reclaim then expects to free nothing there.
    hopeless: Hopeless = ByScan, drawn 119 {
        /// A zone is hopeless when its lists were scanned six times over without a page going back to its free lists.
        ByScan,
        /// A zone is hopeless when the kswapd of its node came down to its lowest priority 16 times in a row and freed
        /// nothing. Kswapd then sleeps, and is not woken, until a task frees pages itself. A direct reclaim that frees
        /// nothing reports that nothing can be freed, however many pages it scanned. After 16 such reports in a row,
        /// memory counts as exhausted.
        ByFailures,
    }

    /// The success of reclaim that is necessary before the count of kswapd's failures returns to 0. The choice is used
    /// only with `hopeless = "by-failures"`.
    failures_reset: FailuresReset = AnyProgress, drawn 162 {
        /// Failures are counted anew after any reclaim of the node's pages that frees a page, even the reclaim of a
        /// control group at its limit. A group that reclaims again and again keeps kswapd awake, although kswapd itself
        /// frees nothing.
        AnyProgress,
        /// Failures are counted anew after a reclaim that frees a page and leaves the node balanced.
        Balanced,
    }

    /// Which counters include the pages that a reclaim for one control group scans and frees.
    group_counts: GroupCounts = GroupsAlone, drawn 167 {
        /// `pgscan` and `pgsteal` in `memory.stat` of the groups. The counters of /proc/vmstat do not include these
        /// pages.
        GroupsAlone,
        /// `pgscan` and `pgsteal` in `memory.stat` of the groups, and `pgscan_direct` and `pgsteal_direct` in
        /// /proc/vmstat.
        GroupsAndMachine,
    }
}

impl GroupCounts {
    /// Returns whether a reclaim for one group counts its pages in /proc/vmstat, too.
    pub(crate) const fn are_of_machine(self) -> bool {
        match self {
            Self::GroupsAlone => false,
            Self::GroupsAndMachine => true,
        }
    }
}

impl DirtyAccounting {
    /// Returns whether pages are counted by their state before reclaim does anything else with them.
    pub(crate) const fn is_on_sight(self) -> bool {
        match self {
            Self::OnSight => true,
            Self::AtWrite => false,
        }
    }
}

impl ForCompaction {
    /// Returns whether reclaim for a block shrinks a zone only until compaction can begin there, and not at all if it
    /// already can.
    pub(crate) const fn is_obeyed(self) -> bool {
        match self {
            Self::Obeyed | Self::ScaledByFailures => true,
            Self::Ignored => false,
        }
    }
}
