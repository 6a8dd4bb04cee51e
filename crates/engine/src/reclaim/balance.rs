//! Balancing a node: one run of kswapd (`balance_pgdat`; mechanisms/reclaim, 18.4 to 18.6).

mod boost;
mod by_scan_volume;
mod of_node;
mod with_restarts;
mod zone;

use super::choices::{CongestionEnds, KswapdFloor, KswapdPriority, KswapdRequest, KswapdScope, SleepTest, ZoneBalance};
use super::kswapd::Request;
use super::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::compact::CompactRequest;
use crate::lru::Reach;
use crate::memory::{MarkRights, MigrateType, NodeId, Zone, ZoneFlag};
use crate::task::Task;
use machine::{Func, Machine, Order, Step};
use zone::ZonePass;

/// The result of a pass of kswapd over the zones of a node.
#[derive(Clone, Copy, Debug, Default)]
struct NodePass {
    /// `true` if at least one zone of the node is not balanced (above its high mark). A zone that was hopeless
    /// (`all_unreclaimable`) before the pass is in most cases left out: see [`ZonePass::counts`].
    is_lacking: bool,
    /// `true` if at least one of the zones that are not balanced is below its min mark. Zones without
    /// [`ZonePass::counts`] are left out.
    is_under_min: bool,
    /// Total number of pages of the zones that the pass worked on and that are at their high mark.
    balanced_pages: u64,
}

impl<M: Machine> Reclaim<M> {
    /// Reclaims to bring a node's zones to their high watermarks. Returns the request that kswapd worked on at the end.
    /// Its order is 0 if kswapd gave up the order of `request`, and its class zone may be lower than that of `request`.
    #[doc(alias = "balance_pgdat")]
    pub(super) fn balance_node(&self, task: &mut Task, node: NodeId, request: Request) -> Request {
        let _span = self.machine.span(Func::BalancePgdat);
        self.machine.spend(Step::WorkItem, 1);
        self.node_state(node).calls.begin(self.machine.now());
        self.zones_up_to(node, request.classzone).for_each(|(_, zone)| zone.note_kswapd(true));
        self.reclaim_boost(task, node, request);
        let achieved = match self.choices.kswapd_priority {
            KswapdPriority::RestartAfterCluster => self.balance_with_restarts(task, node, request),
            KswapdPriority::ByScanVolume => match self.choices.kswapd_scope {
                KswapdScope::Zones => self.balance_by_scan_volume(task, node, request),
                KswapdScope::Node => self.balance_whole_node(task, node, request),
            },
        };
        self.end_boosts(node, request.classzone);
        self.lruvecs_of_node(node, usize::MAX).for_each(|reach| self.lru().end_reclaim(reach.lruvec));
        self.zones_up_to(node, request.classzone).for_each(|(_, zone)| zone.note_kswapd(false));
        self.node_state(node).calls.end(self.machine.now());
        achieved
    }

    /// Returns whether the node is balanced well enough for kswapd to sleep. `reclaim.sleep_test` says which zones must
    /// be balanced.
    #[doc(alias = "sleeping_prematurely")]
    pub(super) fn is_balance_kept(&self, node: NodeId, request: Request) -> bool {
        if self.has_kswapd_failed(node) {
            return true;
        }
        if self.is_boosted(node, request.classzone) {
            return false;
        }
        // With `KswapdRequest::Order`, kswapd knows no class zone. So the test uses class zone 0, which has no
        // reserves: with the reserves against a higher class zone, a lower zone might never pass the test.
        let classzone = match self.choices.kswapd_request {
            KswapdRequest::Order => 0,
            KswapdRequest::OrderAndClasszone | KswapdRequest::LastBalanced | KswapdRequest::HighestZone => {
                request.classzone
            }
        };
        let is_sound = |zone: &Zone<M>, classzone| {
            zone.is(ZoneFlag::ALL_UNRECLAIMABLE) || self.is_zone_balanced(zone, request.order, 0, classzone)
        };
        let is_quarter = |zones: &mut dyn Iterator<Item = (usize, &Zone<M>)>| {
            let balanced = zones.filter(|(_, zone)| is_sound(zone, classzone));
            self.is_quarter_of_node(node, balanced.map(|(_, zone)| zone.managed()).sum())
        };
        let mut zones = self.zones_up_to(node, usize::MAX);
        match self.choices.sleep_test {
            SleepTest::NodeBalance => self.is_node_balanced(node, request),
            SleepTest::EveryZone => zones.all(|(_, zone)| is_sound(zone, 0)),
            SleepTest::Quarter | SleepTest::QuarterInverted if request.order == Order::ZERO => {
                zones.all(|(_, zone)| is_sound(zone, classzone))
            }
            SleepTest::Quarter => is_quarter(&mut zones),
            SleepTest::QuarterInverted => !is_quarter(&mut zones),
        }
    }

    /// Returns whether the given number of pages is more than a quarter of a node.
    fn is_quarter_of_node(&self, node: NodeId, pages: u64) -> bool {
        pages > self.zones_up_to(node, usize::MAX).map(|(_, zone)| zone.managed()).sum::<u64>() / 4
    }

    /// Returns whether kswapd has done enough for a node after a pass over the node's zones. `reclaim.zone_balance`
    /// says how much is enough.
    fn is_pass_enough(&self, node: NodeId, request: Request, pass: &NodePass) -> bool {
        match self.choices.zone_balance {
            ZoneBalance::QuarterOfUsable | ZoneBalance::AnyUsableZone => self.is_node_balanced(node, request),
            ZoneBalance::AllZones => !pass.is_lacking,
            ZoneBalance::AnySuitableZone => {
                !pass.is_lacking || request.order > Order::ZERO && self.is_quarter_of_node(node, pass.balanced_pages)
            }
        }
    }

    /// Adds the result of a pass over one zone (`left`) to the result of the pass over its node (`pass`). Does nothing
    /// if the zone does not count for the node's balance.
    fn note_zone(&self, pass: &mut NodePass, zone: &Zone<M>, control: &ScanControl, end: usize, left: ZonePass) {
        if !left.counts {
            return;
        }
        if left.is_balanced {
            pass.balanced_pages += zone.managed();
        } else {
            pass.is_lacking = true;
            pass.is_under_min |= !zone.is_above(zone.min(), control.order, end, MarkRights::default());
        }
    }

    /// Returns whether at least one zone is balanced for a request. Only those zones of the node are examined that the
    /// request can use.
    pub(super) fn is_any_zone_balanced(&self, node: NodeId, request: Request) -> bool {
        let mut zones = self.zones_up_to(node, request.classzone);
        zones.any(|(_, zone)| self.is_zone_balanced(zone, request.order, 0, request.classzone))
    }

    /// Returns whether the node is balanced for a request. Every zone that the request can use must be balanced;
    /// hopeless zones count as balanced. For an order above 0, it is enough if the balanced zones have a quarter of the
    /// pages of all zones that the request can use. With `ZoneBalance::AnyUsableZone`, one balanced zone is enough.
    #[doc(alias = "pgdat_balanced")]
    pub(super) fn is_node_balanced(&self, node: NodeId, request: Request) -> bool {
        match self.choices.zone_balance {
            ZoneBalance::AnyUsableZone => return self.is_any_zone_balanced(node, request),
            ZoneBalance::AllZones | ZoneBalance::AnySuitableZone | ZoneBalance::QuarterOfUsable => {}
        }
        let (mut managed, mut balanced) = (0, 0);
        for (index, zone) in self.zones_up_to(node, request.classzone) {
            managed += zone.managed();
            // A zone that cannot be helped must not keep kswapd awake.
            if zone.is(ZoneFlag::ALL_UNRECLAIMABLE) || self.is_zone_balanced(zone, request.order, 0, index) {
                balanced += zone.managed();
            } else if request.order == Order::ZERO {
                return false;
            }
        }
        request.order == Order::ZERO || balanced >= managed / 4
    }

    fn zones_up_to(&self, node: NodeId, classzone: usize) -> impl DoubleEndedIterator<Item = (usize, &Zone<M>)> {
        self.memory()
            .node(node)
            .zones
            .iter()
            .map(|id| self.memory().zone(*id))
            .map(|zone| (zone.kind as usize, zone))
            .filter(move |(kind, _)| *kind <= classzone)
    }

    /// Returns the lruvecs of the node's zones up to the zone `classzone`, the highest zone that a request may use. The
    /// lruvec of the highest of these zones comes first.
    pub(super) fn lruvecs_of_node(&self, node: NodeId, classzone: usize) -> impl Iterator<Item = Reach<'_, M>> {
        self.lruvecs(self.zones_up_to(node, classzone).rev().map(|(_, zone)| zone))
    }

    fn floor(&self) -> u32 {
        match self.choices.kswapd_floor {
            KswapdFloor::Zero => 0,
            KswapdFloor::One => 1,
        }
    }

    /// Returns the number of the node's highest zone that is not balanced; `None` if all zones are balanced. Ages a few
    /// pages of this zone and of the zones above it.
    fn highest_unbalanced(&self, node: NodeId, control: &mut ScanControl) -> Option<usize> {
        for (kind, zone) in self.zones_up_to(node, usize::MAX).rev() {
            if zone.is(ZoneFlag::ALL_UNRECLAIMABLE) && control.priority != DEF_PRIORITY {
                continue;
            }
            self.age_groups_before_pass(self.lru().reach(zone), control);
            // With class zone 0, no reserve is looked at.
            if !self.is_zone_balanced(zone, control.order, 0, 0) {
                return Some(kind);
            }
            match self.choices.congestion_ends {
                CongestionEnds::OnSight => zone.clear(ZoneFlag::CONGESTED),
                CongestionEnds::WhereItWorks => {}
            }
            zone.clear(ZoneFlag::TAIL_LRU_DIRTY);
        }
        None
    }

    fn reclaimable_up_to(&self, node: NodeId, classzone: usize) -> u64 {
        self.zones_up_to(node, classzone).map(|(_, zone)| self.writeback().reclaimable_pages(zone)).sum()
    }

    /// Records the priority at which kswapd's run over a node ended, in all lruvecs of the node. This includes lruvecs
    /// in which the run had nothing to do.
    fn end_node_at_priority(&self, node: NodeId, priority: u32) {
        self.lruvecs_of_node(node, usize::MAX).for_each(|reach| reach.lruvec.end_at_priority(priority));
    }

    /// Returns whether some zone would stay above its low mark after an allocation of the order. For that, the zone
    /// also needs a free block of the order.
    fn has_block(&self, node: NodeId, order: Order, classzone: usize) -> bool {
        self.zones_up_to(node, classzone)
            .any(|(_, zone)| zone.is_above(zone.low(), order, classzone, MarkRights::default()))
    }

    /// Compacts the node's zones on behalf of kswapd, unless a zone has a free block of the order already.
    fn compact_node_if_needed(&self, node: NodeId, order: Order, classzone: usize) {
        if order == Order::ZERO || self.has_block(node, order, classzone) {
            return;
        }
        for (_, zone) in self.zones_up_to(node, usize::MAX) {
            if !self.is_deferred(zone, order) {
                let request = CompactRequest {
                    order: Some(order),
                    kind: MigrateType::Movable,
                    waits: self.compaction_waits(false),
                    is_kswapd: true,
                };
                self.compact_zone(zone, request);
            }
            if zone.is_above(zone.low(), order, 0, MarkRights::default()) {
                self.note_kswapd_success(zone, order);
            }
        }
    }
}
