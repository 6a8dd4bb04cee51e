//! Choices of `[allocate]`: the allocator's slow path.

use serde::{Deserialize, Serialize};

/// Is the dirty limit also kept zone by zone, when pages are allocated for writing?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneDirtyShare {
    /// The fast path skips a zone that holds more than its share of dirty pages.
    #[default]
    Kept,
    /// Only the global limit counts.
    Off,
}

/// Do user tasks wait before direct reclaim while a node's reserves are used up?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReserveThrottle {
    /// They wait for kswapd while free memory is at or under half of the min marks.
    #[default]
    On,
    /// They continue and compete for the remaining pages.
    Off,
}

/// For which orders does a task compact memory before it reclaims?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectCompact {
    /// For none: there is no compaction.
    Never,
    /// For costly orders, above 3; reclaim serves the others.
    CostlyOrders,
    /// For all orders above 0.
    #[default]
    AllOrders,
}

/// What a task does when it reclaimed pages and still gets none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterReclaim {
    /// It reclaims again.
    Retries,
    /// It drains the per-CPU lists of all CPUs and tries once more.
    #[default]
    DrainsPerCpu,
}

/// How a task waits between two reclaims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetryWait {
    /// Until a congested queue has room, at most 20 ms; the whole 20 ms if no queue is congested.
    CongestionWait,
    /// The same, but only if a queue is congested and pages of the zone wait for it.
    #[default]
    WaitIffCongested,
}

/// What a task does after it has waited between two reclaims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterWait {
    /// It reclaims again, even if others have freed enough meanwhile.
    Reclaims,
    /// It first tries to allocate.
    #[default]
    TriesFirst,
}

/// The section `[allocate]` of a kernel file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// Is the dirty limit also kept zone by zone?
    pub zone_dirty_share: ZoneDirtyShare,
    /// Do user tasks wait while reserves are used up?
    pub reserve_throttle: ReserveThrottle,
    /// For which orders does a task compact?
    pub direct_compact: DirectCompact,
    /// What does a task do when it reclaimed pages and still gets none?
    pub after_reclaim: AfterReclaim,
    /// How does a task wait between two reclaims?
    pub retry_wait: RetryWait,
    /// What does a task do after that wait?
    pub after_wait: AfterWait,
}
