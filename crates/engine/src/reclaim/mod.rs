//! Reclaim: frees memory.
//!
//! *Flow*: kswapd ([`kswapd`], [`balance`]) works in the background; when that is not enough, an allocating task does
//! the reclaim itself ([`direct`]). Both shrink a zone ([`shrink_lruvec`]): a policy ([`crate::lru::policy`]) isolates
//! one batch of pages after the other. Reclaim decides the fate of each page ([`fate`]) and carries it out
//! ([`shrink_pages`]). Object caches are shrunk in proportion to page reclaim ([`shrink_slab`]). *Called by*
//! `allocate`, and as kswapd's task. *Locks*: the page lock by try only; `lru` for each cluster, never while a page is
//! examined. *Description*: mechanisms/reclaim, 10 to 14, 17 to 19, 22, 24.
//!
//! Next: [`crate::allocate`].

pub mod balance;
pub mod choices;
pub mod commands;
pub mod control;
pub mod direct;
pub mod fate;
pub mod group;
mod group_walk;
pub mod kswapd;
mod lruvecs;
pub mod lumpy;
mod removals;
pub mod shrink_lruvec;
pub mod shrink_pages;
pub mod shrink_slab;
mod soft_limit;
pub mod throttle;
pub mod zone_reclaim;

pub use choices::Choices;
pub use control::ScanControl;

use crate::compact::{Compact, Suitability};
pub use crate::lru::DEF_PRIORITY;
use crate::lru::{Lruvec, Reach};
use crate::memory::{MarkRights, NodeId, Zone, ZoneFlag, ZoneId};
use crate::stat::Gauge;
use choices::{FailuresReset, HighOrder, Hopeless};
pub use kswapd::KswapdCalls;
use kswapd::NodeState;
use machine::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use machine::{Lock, LockClass, Machine, Nanos, Order, Step};
use std::ops::Deref;

/// Divisor of a zone's number of pages. The quotient is the largest *balance gap*. Kswapd reclaims in a zone until the
/// zone's free pages exceed the high mark by the balance gap.
const BALANCE_GAP_RATIO: u64 = 100;

/// Number of consecutive failures of kswapd that make a node hopeless (`MAX_RECLAIM_RETRIES`).
const FAILURES_MAX: u32 = 16;

/// The layer (*floor*) of the engine that reclaims: kswapd and direct reclaim.
pub struct Reclaim<M: Machine> {
    compact: Compact<M>,
    /// The section `[reclaim]` of the kernel file.
    pub choices: Choices,
    node_states: Vec<NodeState<M>>,
    first_priority_zero: M::Lock<Option<PriorityZero>>,
    /// The queue of tasks that wait until a page is written. They are woken whenever a page is written that reclaim has
    /// marked to be freed.
    pub(crate) written: M::WaitQueue,
    /// `true` if the engine's tasks, such as kswapd, have ended. Then no task waits for their work.
    pub(crate) is_abandoned: AtomicBool,
    /// Number of tasks in direct reclaim to which the limit `reclaim.direct_reclaimers` applies.
    direct_reclaimers: AtomicU64,
    /// The queue of tasks that wait for a turn at direct reclaim.
    direct_wait: M::WaitQueue,
    /// Number of tasks that wait for a turn at direct reclaim.
    direct_waiters: AtomicU64,
}

/// The state of a zone when reclaim came down to priority 0, at which whole lists are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityZero {
    /// Time at which reclaim reached priority 0.
    pub at: Nanos,
    /// Zone that was scanned at priority 0.
    pub zone: ZoneId,
    /// `true` if kswapd scanned; `false` if another task did.
    pub is_kswapd: bool,
    /// Number of pages on the zone's inactive anonymous list.
    pub inactive_anon_pages: u64,
    /// Number of pages on the zone's inactive file list.
    pub inactive_file_pages: u64,
    /// Number of the zone's dirty file pages.
    pub dirty_pages: u64,
    /// Number of the zone's pages under writeback.
    pub writeback_pages: u64,
}

impl<M: Machine> Deref for Reclaim<M> {
    type Target = Compact<M>;
    #[inline]
    fn deref(&self) -> &Compact<M> {
        &self.compact
    }
}

impl<M: Machine> Reclaim<M> {
    /// Returns `self`, so that code of the layers above can name this layer.
    #[inline(always)]
    pub(crate) fn reclaim(&self) -> &Self {
        self
    }

    /// Creates this layer of the engine, without reclaim in progress.
    pub fn new(compact: Compact<M>, choices: Choices) -> Self {
        let node_states = compact.nodes.iter().map(|node| NodeState::new(&compact.machine, node)).collect();
        let first_priority_zero = compact.machine.lock(LockClass::Other, None);
        let (written, direct_wait) = (compact.machine.wait_queue(), compact.machine.wait_queue());
        Self {
            compact,
            choices,
            node_states,
            first_priority_zero,
            written,
            is_abandoned: AtomicBool::new(false),
            direct_reclaimers: AtomicU64::new(0),
            direct_wait,
            direct_waiters: AtomicU64::new(0),
        }
    }

    /// Returns the state of a zone at the first scan at priority 0 since the last call of this function. Returns `None`
    /// if there was no such scan.
    pub fn take_first_priority_zero(&self) -> Option<PriorityZero> {
        self.first_priority_zero.lock().take()
    }

    /// Returns the number and the durations of the runs of a node's kswapd since the last call of this function.
    pub fn take_kswapd_calls(&self, node: NodeId) -> KswapdCalls {
        self.node_state(node).calls.take(self.machine.now())
    }

    fn note_priority_zero(&self, reach: Reach<'_, M>, control: &ScanControl) {
        let zone = reach.zone;
        self.first_priority_zero.lock().get_or_insert_with(|| PriorityZero {
            at: self.machine.now(),
            zone: zone.id,
            is_kswapd: control.is_kswapd,
            inactive_anon_pages: zone.gauges.get(Gauge::NrInactiveAnon),
            inactive_file_pages: zone.gauges.get(Gauge::NrInactiveFile),
            dirty_pages: zone.gauges.get(Gauge::NrDirty),
            writeback_pages: zone.gauges.get(Gauge::NrWriteback),
        });
    }

    fn node_state(&self, node: NodeId) -> &NodeState<M> {
        &self.node_states[usize::from(node.0)]
    }

    /// Returns whether the zone counts as balanced: the zone is above its high mark plus `gap`, and has a free block of
    /// `order`. With `HighOrder::ByCompaction`, compaction must also be able to help a request of an order above 0.
    fn is_zone_balanced(&self, zone: &Zone<M>, order: Order, gap: u64, classzone: usize) -> bool {
        self.machine.spend(Step::WatermarkCheck, 1);
        zone.is_above(zone.high() + gap, order, classzone, MarkRights::default())
            && (order == Order::ZERO
                || match self.choices.high_order {
                    HighOrder::ByReclaim => true,
                    HighOrder::ByCompaction => self.suitable(zone, order) != Suitability::Skipped,
                })
    }

    /// Returns by how many pages a zone must be above its high mark before kswapd stops. Because of this gap, kswapd
    /// still reclaims from low zones while it fills high ones.
    fn balance_gap(&self, zone: &Zone<M>) -> u64 {
        zone.low().min(zone.managed().div_ceil(BALANCE_GAP_RATIO))
    }

    /// Notes that a task or kswapd has freed pages in the zones of `reach`. Sets the count of failures of their node to
    /// 0, so that the node does not count as hopeless. With `FailuresReset::Balanced`, does this only if the node is
    /// balanced for `order`.
    fn note_node_progress(&self, reach: Reach<'_, M>, order: Order) {
        let node = reach.zone.node;
        let ends_failures = match self.choices.failures_reset {
            FailuresReset::AnyProgress => true,
            FailuresReset::Balanced => {
                self.is_node_balanced(node, kswapd::Request { order, classzone: reach.zone.kind as usize })
            }
        };
        if ends_failures {
            self.node_state(node).failures.store(0, Relaxed);
        }
    }

    /// Counts a failure of the node if a run of kswapd that has reached the lowest scan priority freed no page
    /// (`reclaimed` is 0).
    fn note_descent(&self, node: NodeId, reclaimed: u64) {
        if reclaimed == 0 {
            self.node_state(node).failures.fetch_add(1, Relaxed);
        }
    }

    /// Returns whether the node counts as hopeless, because too many runs of its kswapd in a row freed no page. Always
    /// `false` with `Hopeless::ByScan`.
    #[must_use]
    pub fn has_kswapd_failed(&self, node: NodeId) -> bool {
        match self.choices.hopeless {
            Hopeless::ByScan => false,
            Hopeless::ByFailures => self.node_state(node).failures.load(Relaxed) >= FAILURES_MAX,
        }
    }

    /// Returns whether the scans of an lruvec were in vain: reclaim scanned six times as many pages as its zones have
    /// reclaimable pages, and meanwhile no page returned to the zones' free lists. Always `false` if reclaim counts its
    /// failures instead ([`Hopeless::ByFailures`]).
    fn is_hopeless(&self, lruvec: &Lruvec<M>) -> bool {
        let zones = self.lru().zones_of(lruvec);
        let reclaimable: u64 = zones.iter().map(|zone| self.writeback().reclaimable_pages(zone)).sum();
        match self.choices.hopeless {
            // All zones of an lruvec share this count.
            Hopeless::ByScan => zones[0].pages_scanned() >= 6 * reclaimable,
            Hopeless::ByFailures => false,
        }
    }

    /// Returns whether the zone is marked hopeless, or kswapd would mark it if it scanned the zone now. By
    /// mechanisms/reclaim, 4, direct reclaim of Linux 3.3 and later trusts the zone's flag alone. But kswapd may be
    /// asleep, because the zones for which it was last woken are balanced: the flag is then never set, and every
    /// allocating task would try endlessly.
    fn looks_hopeless(&self, zone: &Zone<M>) -> bool {
        match self.choices.hopeless {
            Hopeless::ByScan => zone.is(ZoneFlag::ALL_UNRECLAIMABLE) || self.is_hopeless(self.lru().lruvec_of(zone)),
            Hopeless::ByFailures => self.has_kswapd_failed(zone.node) || self.writeback().reclaimable_pages(zone) == 0,
        }
    }

    /// Returns the number of pages under writeback in all zones.
    fn writeback_pages(&self) -> u64 {
        self.memory().gauge(Gauge::NrWriteback)
    }
}
