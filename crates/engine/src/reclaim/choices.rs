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
        /// No limit: each list is scanned for its whole share, whatever was freed. Reclaim comes in spikes.
        Unbounded,
        /// The zone's high watermark, at least one cluster.
        #[default]
        HighWatermark,
    }
}
choice! {
    /// When scanning of a zone stops before its targets are used up.
    EarlyExit {
        /// Once enough was freed at a priority under 12; the lists left over are not scanned.
        BelowDefaultPriority,
        /// Once enough was freed: direct reclaim at once, kswapd after the larger family was scanned
        /// in the same proportion as the smaller.
        #[default]
        Proportional,
    }
}
choice! {
    /// How kswapd's priority goes down.
    KswapdPriority {
        /// One step after each pass over the node; back to the gentlest as soon as a pass freed a
        /// cluster (32 pages).
        RestartAfterCluster,
        /// One step when a pass scanned too little to reach the high marks even if all had been
        /// freed, or freed nothing; one descent for each call.
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
    /// When kswapd itself writes a dirty file page.
    PageoutTrigger {
        /// At a priority under 10.
        Priority,
        /// When the tail of the zone's file list was seen to be all dirty and not queued for I/O.
        #[default]
        DirtySeen,
    }
}
choice! {
    /// What reclaim does with a page under writeback.
    WritebackMet {
        /// Marks it for reclaim at the end of its writeback, keeps it.
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
    /// What dirty and writeback pages in a list are counted from, and what a zone is marked by.
    DirtyAccounting {
        /// Dirty pages that came as far as the write decision, anonymous ones too.
        AtWrite,
        /// Each file page's state before anything else is done to it.
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
        /// When balance ended and no zone has a block of the order.
        AfterBalance,
        /// In a pass that reclaimed more than it attempted.
        #[default]
        ByProgress,
    }
}
choice! {
    /// What the split between anonymous and file pages is at priority 0.
    AtPriorityZero {
        /// Both families in full, whatever they cost.
        #[default]
        Equal,
        /// The same rule as at every other priority.
        Fraction,
    }
}

/// The section `[reclaim]` of a kernel file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// Sysctl `swappiness`, 0 to 100: how willingly anonymous pages are reclaimed.
    pub swappiness: u64,
    /// How many pages kswapd wants from one zone in one pass.
    pub kswapd_target: KswapdTarget,
    /// When scanning of a zone stops early.
    pub early_exit: EarlyExit,
    /// How kswapd's priority goes down.
    pub kswapd_priority: KswapdPriority,
    /// The lowest priority of kswapd.
    pub kswapd_floor: KswapdFloor,
    /// The lowest priority of direct reclaim.
    pub min_scan_priority: MinScanPriority,
    /// When kswapd writes a dirty file page.
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
    /// The split between anonymous and file pages at priority 0.
    pub at_priority_zero: AtPriorityZero,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            swappiness: 60,
            kswapd_target: KswapdTarget::default(),
            early_exit: EarlyExit::default(),
            kswapd_priority: KswapdPriority::default(),
            kswapd_floor: KswapdFloor::default(),
            min_scan_priority: MinScanPriority::default(),
            pageout_trigger: PageoutTrigger::default(),
            writeback_met: WritebackMet::default(),
            zone_writeback: ZoneWriteback::default(),
            dirty_accounting: DirtyAccounting::default(),
            list_stall: ListStall::default(),
            direct_nap: DirectNap::default(),
            kswapd_compact: KswapdCompact::default(),
            at_priority_zero: AtPriorityZero::default(),
        }
    }
}
