//! Choices of `[allocate]`: the allocator's slow path.

use crate::choice::choices;

choices! {
    /// The allocator's slow path.
    [allocate]

    /// States whether the dirty limit is also kept zone by zone, when pages are allocated for writing.
    zone_dirty_share: ZoneDirtyShare = Off, drawn 76 {
        /// The fast path skips a zone that holds more than its share of dirty pages.
        Kept,
        /// Only the global limit counts.
        Off,
    }

    /// Time at which a request for the Normal zone takes a part of another type's pageblock there, because nothing of
    /// its migrate type is free. It matters only where the node has a DMA32 zone.
    migrate_fallback: MigrateFallback = AtOnce, drawn 148 {
        /// At once: zones are asked in order.
        AtOnce,
        /// Only when no zone of the node has pages of its type, or a whole pageblock, above the low mark
        /// (`ALLOC_NOFRAGMENT`).
        AfterLowerZone,
    }

    /// States whether user tasks wait before direct reclaim while a node's reserves are used up.
    reserve_throttle: ReserveThrottle = Off, drawn 77 {
        /// They wait for kswapd while free memory is at or below half of the min marks.
        On,
        /// They continue and compete for the remaining pages.
        Off,
    }

    /// The orders for which a task compacts memory before it reclaims.
    direct_compact: DirectCompact = Never, drawn 78 {
        /// None: there is no compaction.
        Never,
        /// Costly orders, above 3; reclaim serves the others.
        CostlyOrders,
        /// All orders above 0.
        AllOrders,
    }

    /// Requests of an order above 0 that fail, instead of reclaiming, when compaction was left out.
    compaction_give_up: CompactionGiveUp = Deferred, drawn 101 {
        /// Requests for a huge page of a fault (`__GFP_NO_KSWAPD`), when compaction failed lately.
        Deferred,
        /// Requests for a huge page of a fault, when compaction failed lately, or gave up because others waited.
        DeferredOrContended,
        /// Requests for movable pages without `__GFP_REPEAT`, when compaction failed lately.
        MovableDeferred,
        /// Requests for movable pages without `__GFP_REPEAT`, when compaction failed lately, or gave up because others
        /// waited.
        Movable,
    }

    /// States whether a request for a huge page of a fault wakes kswapd (`__GFP_NO_KSWAPD`).
    huge_wakes_kswapd: HugeWakesKswapd = No, drawn 102 {
        /// No.
        No,
        /// Yes, like every request: the flag does not exist.
        Yes,
    }

    /// Behaviour of a task that reclaimed pages and still gets none.
    after_reclaim: AfterReclaim = Retries, drawn 79 {
        /// The task reclaims again.
        Retries,
        /// The task drains the per-CPU lists of all CPUs and tries once more.
        DrainsPerCpu,
    }

    /// Behaviour of a task whose reclaim freed nothing, and waited for no write, before it reclaims again.
    fruitless_reclaim: FruitlessReclaim = Repeats, drawn 145 {
        /// The task reclaims what is on the lists then.
        Repeats,
        /// The task first puts pages on the lists that wait in the batches of all CPUs (`lru.batch`) or for admission
        /// (`lru.admission`), where reclaim does not find them.
        DrainsBatches,
    }

    /// Wait of a task between two reclaims.
    retry_wait: RetryWait = CongestionWait, drawn 80 {
        /// Until a congested queue has room, at most 20 ms; the whole 20 ms if no queue is congested.
        CongestionWait,
        /// As `congestion-wait`, but only if a queue is congested and pages of the zone wait for it.
        WaitIffCongested,
        /// None: reclaim itself waits.
        None,
    }

    /// First step of a task after it has waited between two reclaims.
    after_wait: AfterWait = Reclaims, drawn 81 {
        /// The task reclaims again, even if others have freed enough meanwhile.
        Reclaims,
        /// The task first tries to allocate.
        TriesFirst,
    }

    /// States whether a node remembers for a second which zones were found full, on machines with several nodes.
    zonelist_cache: ZonelistCacheUse = Kept, drawn 91, unless "memory nodes" in ["1"] {
        /// Yes. A request that finds its first zone full leaves these zones out, and looks at them only if no other
        /// zone has room.
        Kept,
        /// No: every request looks at every zone.
        Off,
    }
}

impl MigrateFallback {
    /// Returns whether lower zones are asked before migrate types are mixed.
    pub(crate) const fn avoids_fragmentation(self) -> bool {
        match self {
            Self::AtOnce => false,
            Self::AfterLowerZone => true,
        }
    }
}

impl ZoneDirtyShare {
    /// Returns whether a zone that has its share is passed over.
    pub(crate) const fn is_kept(self) -> bool {
        match self {
            Self::Kept => true,
            Self::Off => false,
        }
    }
}
