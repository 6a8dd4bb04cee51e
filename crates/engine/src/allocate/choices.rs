//! Choices of `[allocate]`: the allocator's slow path.

use crate::choice::choices;

choices! {
    /// The allocator's slow path.
    [allocate]

    /// Is the dirty limit also kept zone by zone, when pages are allocated for writing?
    zone_dirty_share: ZoneDirtyShare = Off, drawn 76 {
        /// The fast path skips a zone that holds more than its share of dirty pages.
        Kept,
        /// Only the global limit counts.
        Off,
    }

    /// When does a request for the Normal zone, in which nothing of its migrate type is free, take a part of another type's pageblock
    /// there? It matters where the node has a DMA32 zone.
    migrate_fallback: MigrateFallback = AtOnce, drawn 148 {
        /// At once: zones are asked in order.
        AtOnce,
        /// When no zone of the node has pages of its type, or a whole pageblock, above the low mark (`ALLOC_NOFRAGMENT`).
        AfterLowerZone,
    }

    /// Do user tasks wait before direct reclaim while a node's reserves are used up?
    reserve_throttle: ReserveThrottle = Off, drawn 77 {
        /// They wait for kswapd while free memory is at or under half of the min marks.
        On,
        /// They continue and compete for the remaining pages.
        Off,
    }

    /// For which orders does a task compact memory before it reclaims?
    direct_compact: DirectCompact = Never, drawn 78 {
        /// For none: there is no compaction.
        Never,
        /// For costly orders, above 3; reclaim serves the others.
        CostlyOrders,
        /// For all orders above 0.
        AllOrders,
    }

    /// Which request of an order above 0 is given up, rather than reclaimed for, when compaction was left out?
    compaction_give_up: CompactionGiveUp = Deferred, drawn 101 {
        /// One for a huge page of a fault (`__GFP_NO_KSWAPD`), when compaction failed lately.
        Deferred,
        /// The same, also when compaction gave up because others waited.
        DeferredOrContended,
        /// Each one for movable pages that does not insist (`__GFP_REPEAT`), when compaction failed lately.
        MovableDeferred,
        /// The same, also when compaction gave up because others waited.
        Movable,
    }

    /// Does a request for a huge page of a fault leave kswapd asleep (`__GFP_NO_KSWAPD`)?
    huge_wakes_kswapd: HugeWakesKswapd = No, drawn 102 {
        /// It leaves it asleep.
        No,
        /// It wakes it, as all do: there is no such flag.
        Yes,
    }

    /// What a task does when it reclaimed pages and still gets none.
    after_reclaim: AfterReclaim = Retries, drawn 79 {
        /// It reclaims again.
        Retries,
        /// It drains the per-CPU lists of all CPUs and tries once more.
        DrainsPerCpu,
    }

    /// What a task does when its reclaim freed nothing, and waited for no write, before it reclaims again.
    fruitless_reclaim: FruitlessReclaim = Repeats, drawn 145 {
        /// It reclaims what is on lists then.
        Repeats,
        /// It first puts on lists what waits in the batches of all CPUs (`lru.batch`) or for admission (`lru.admission`), where
        /// reclaim does not find it.
        DrainsBatches,
    }

    /// How a task waits between two reclaims.
    retry_wait: RetryWait = CongestionWait, drawn 80 {
        /// Until a congested queue has room, at most 20 ms; the whole 20 ms if no queue is congested.
        CongestionWait,
        /// The same, but only if a queue is congested and pages of the zone wait for it.
        WaitIffCongested,
        /// Not at all: reclaim itself waits.
        None,
    }

    /// What a task does after it has waited between two reclaims.
    after_wait: AfterWait = Reclaims, drawn 81 {
        /// It reclaims again, even if others have freed enough meanwhile.
        Reclaims,
        /// It first tries to allocate.
        TriesFirst,
    }

    /// With several memory nodes: does a node remember for a second which zones were found full?
    zonelist_cache: ZonelistCacheUse = Kept, drawn 91, unless "memory nodes" in ["1"] {
        /// It does. A request that finds its first zone full leaves these out, and looks at them only when no other
        /// zone has room.
        Kept,
        /// Every request looks at every zone.
        Off,
    }
}

impl MigrateFallback {
    /// Are lower zones asked before migrate types are mixed?
    pub(crate) const fn avoids_fragmentation(self) -> bool {
        match self {
            Self::AtOnce => false,
            Self::AfterLowerZone => true,
        }
    }
}

impl ZoneDirtyShare {
    /// Is a zone passed over that has its share?
    pub(crate) const fn is_kept(self) -> bool {
        match self {
            Self::Kept => true,
            Self::Off => false,
        }
    }
}
