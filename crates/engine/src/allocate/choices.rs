//! Choices of `[allocate]`: the allocator's slow path.

use crate::choice::choices;

choices! {
    /// The way in which the allocator chooses a zone for a request, and the steps of its slow path.
    [allocate]

    /// States whether the dirty limit also applies to each zone by itself, when pages are allocated for writing.
    zone_dirty_share: ZoneDirtyShare = Off, drawn 76 {
        /// Yes: the fast path skips a zone that holds more than its share of dirty pages.
        Kept,
        /// No: only the global limit counts.
        Off,
    }

    /// If the Normal zone has no free block of a request's migrate type, the request can take memory from a pageblock
    /// of another migrate type. This choice says when it does so. The choice matters only on a node that also has a
    /// DMA32 zone.
    migrate_fallback: MigrateFallback = AtOnce, drawn 148 {
        /// At once, before the node's other zones are tried.
        AtOnce,
        /// Only when no zone of the node that is above its low mark has a free block of the request's type, or a whole
        /// free pageblock (`ALLOC_NOFRAGMENT`).
        AfterLowerZone,
    }

    /// States whether user tasks wait before direct reclaim while the reserves of a node are used up.
    reserve_throttle: ReserveThrottle = Off, drawn 77 {
        /// Yes: user tasks wait for kswapd while free memory is at or below half of the sum of the min marks.
        On,
        /// No: user tasks continue, and compete for the remaining pages.
        Off,
    }

    /// The orders for which a task compacts memory before it reclaims.
    direct_compact: DirectCompact = Never, drawn 78 {
        /// No order: a task that needs a block only reclaims.
        Never,
        /// A task compacts for costly orders, which are those above 3; reclaim alone makes blocks of the smaller
        /// orders.
        CostlyOrders,
        /// All orders above 0.
        AllOrders,
    }

    /// Which requests of an order above 0 fail without direct reclaim when compaction has made no block for them.
    /// Compaction is *deferred* if it is not tried because it failed lately. It is *contended* if it gave up because
    /// other tasks waited.
    compaction_give_up: CompactionGiveUp = Deferred, drawn 101 {
        /// Requests for a huge page for a fault (`__GFP_NO_KSWAPD`) fail without reclaim when compaction was deferred.
        Deferred,
        /// Requests for a huge page for a fault fail without reclaim when compaction was deferred or contended.
        DeferredOrContended,
        /// Requests for movable pages without `__GFP_REPEAT` fail without reclaim when compaction was deferred.
        MovableDeferred,
        /// Requests for movable pages without `__GFP_REPEAT` fail without reclaim when compaction was deferred or
        /// contended.
        Movable,
    }

    /// Whether a page fault that requests a huge page wakes kswapd (`__GFP_NO_KSWAPD`).
    huge_wakes_kswapd: HugeWakesKswapd = No, drawn 102 {
        /// No: a fault's request for a huge page leaves kswapd asleep.
        No,
        /// Yes, as every other request does: this kernel does not have the flag `__GFP_NO_KSWAPD`.
        Yes,
    }

    /// The next step of a task that has reclaimed and still gets no page.
    after_reclaim: AfterReclaim = Retries, drawn 79 {
        /// The task reclaims again.
        Retries,
        /// The task drains the per-CPU lists of all CPUs and tries once more.
        DrainsPerCpu,
    }

    /// The step of a task after a reclaim that freed nothing and waited for no write, before the task reclaims again.
    fruitless_reclaim: FruitlessReclaim = Repeats, drawn 145 {
        /// The task reclaims again at once, and finds only the pages that are on the lists.
        Repeats,
        /// The task first puts on the lists all pages that wait in the batches of CPUs (`lru.batch`) or for admission
        /// (`lru.admission`), where reclaim does not find them.
        DrainsBatches,
    }

    /// Wait of a task between two reclaims.
    retry_wait: RetryWait = CongestionWait, drawn 80 {
        /// The task waits until a congested queue has room, at most 20 ms. If no queue is congested, it waits the whole
        /// 20 ms.
        CongestionWait,
        /// The task waits as with `congestion-wait`, but only if a queue is congested and pages of the zone wait for
        /// this queue.
        WaitIffCongested,
        /// The task does not wait here, because reclaim itself waits.
        None,
    }

    /// The first step of an allocating task after it has waited between two reclaims.
    after_wait: AfterWait = Reclaims, drawn 81 {
        /// The task reclaims again, even if other tasks have freed enough meanwhile.
        Reclaims,
        /// The task first tries to allocate, because other tasks may have freed enough meanwhile.
        TriesFirst,
    }

    /// Whether a node of a machine with several nodes remembers the zones that had no room for earlier requests. The
    /// node forgets these zones after at most a second.
    zonelist_cache: ZonelistCacheUse = Kept, drawn 91, unless "memory nodes" in ["1"] {
        /// Yes. A request skips each remembered zone, except its first zone. It tries the skipped zones only
        /// if no other zone has room.
        Kept,
        /// No: every request looks at every zone.
        Off,
    }
}

impl MigrateFallback {
    /// Returns whether a request tries lower zones before it mixes migrate types.
    pub(crate) const fn avoids_fragmentation(self) -> bool {
        match self {
            Self::AtOnce => false,
            Self::AfterLowerZone => true,
        }
    }
}

impl ZoneDirtyShare {
    /// Returns whether the fast path skips a zone that holds more than its share of dirty pages.
    pub(crate) const fn is_kept(self) -> bool {
        match self {
            Self::Kept => true,
            Self::Off => false,
        }
    }
}
