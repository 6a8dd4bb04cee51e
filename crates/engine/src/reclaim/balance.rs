//! Balancing a node: one call of kswapd's work (`balance_pgdat`; mechanisms/reclaim, 18.4 to 18.6).

use super::choices::{
    CongestionEnds, FailedOrder, HighOrder, KswapdCompact, KswapdFloor, KswapdGap, KswapdNap, KswapdPriority,
    KswapdRequest, KswapdTarget, OrderZeroCheck, SlabZones, SleepTest, ZoneBalance,
};
use super::kswapd::Request;
use super::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::compact::Suitability;
use crate::lru::CLUSTER;
use crate::lru::wait::STALL;
use crate::memory::{MarkRights, NodeId, Zone, ZoneFlag};
use crate::stat::Event;
use crate::task::Task;
use machine::{Func, Machine, Order, Step};

/// What a pass over one zone says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ZonePass {
    /// Enough was scanned that, had all of it been freed, the zone would be at its high mark.
    scanned_enough: bool,
    /// Pages wanted.
    attempted: u64,
    /// Pages looked at.
    scanned: u64,
    /// Is the zone at its high mark; with `KswapdGap::NeverLeft`, was it before?
    is_balanced: bool,
    /// Was it marked hopeless before this pass could do that? Then it does not count.
    was_hopeless: bool,
}

/// What a pass over the zones of a node says.
#[derive(Clone, Copy, Debug, Default)]
struct NodePass {
    /// Some zone that it worked on is not at its high mark.
    is_lacking: bool,
    /// Some zone is under its min mark.
    is_under_min: bool,
    /// Pages of the zones that are at their high mark.
    balanced_pages: u64,
}

impl<M: Machine> Reclaim<M> {
    /// Brings a node's zones to their high marks; returns what was achieved.
    #[doc(alias = "balance_pgdat")]
    pub(super) fn balance_node(&self, task: &mut Task, node: NodeId, request: Request) -> Request {
        let _span = self.machine.span(Func::BalancePgdat);
        self.machine.spend(Step::WorkItem, 1);
        self.node_state(node).calls.begin(self.machine.now());
        let achieved = match self.choices.kswapd_priority {
            KswapdPriority::RestartAfterCluster => self.balance_with_restarts(task, node, request),
            KswapdPriority::ByScanVolume => self.balance_by_scan_volume(task, node, request),
        };
        self.node_state(node).calls.end(self.machine.now());
        achieved
    }

    /// May kswapd sleep, by what `sleep_test` looks at?
    #[doc(alias = "sleeping_prematurely")]
    pub(super) fn is_balance_kept(&self, node: NodeId, request: Request) -> bool {
        // A kswapd that knows orders alone works for no class zone: with the reserves against one, a lower zone may never pass.
        let classzone = match self.choices.kswapd_request {
            KswapdRequest::Order => 0,
            KswapdRequest::OrderAndClasszone | KswapdRequest::LastBalanced => request.classzone,
        };
        let is_sound = |zone: &Zone<M>, classzone| {
            Self::is_marked_hopeless(zone) || self.is_zone_balanced(zone, request.order, 0, classzone)
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

    /// Do so many pages make up more than a quarter of a node?
    fn is_quarter_of_node(&self, node: NodeId, pages: u64) -> bool {
        pages > self.zones_up_to(node, usize::MAX).map(|(_, zone)| zone.managed()).sum::<u64>() / 4
    }

    /// Has a pass over a node's zones brought it where it should be?
    fn is_pass_enough(&self, node: NodeId, request: Request, pass: &NodePass) -> bool {
        match self.choices.zone_balance {
            ZoneBalance::QuarterOfUsable => self.is_node_balanced(node, request),
            ZoneBalance::AllZones => !pass.is_lacking,
            ZoneBalance::AnySuitableZone => {
                !pass.is_lacking || request.order > Order::ZERO && self.is_quarter_of_node(node, pass.balanced_pages)
            }
        }
    }

    /// Notes in a pass how a zone of it was left.
    fn note_zone(&self, pass: &mut NodePass, zone: &Zone<M>, control: &ScanControl, end: usize, left: ZonePass) {
        match self.choices.kswapd_gap {
            // A zone was judged before it was shrunk, and counts though it be hopeless.
            KswapdGap::NeverLeft => {}
            KswapdGap::EightTimesHigh | KswapdGap::Balance if left.was_hopeless => return,
            KswapdGap::EightTimesHigh | KswapdGap::Balance => {}
        }
        if left.is_balanced {
            pass.balanced_pages += zone.managed();
        } else {
            pass.is_lacking = true;
            pass.is_under_min |= !zone.is_above(zone.min(), control.order, end, MarkRights::default());
        }
    }

    /// Is the node balanced for a request: every zone that it can use, or for an order above 0 zones
    /// that make up a quarter of them?
    #[doc(alias = "pgdat_balanced")]
    fn is_node_balanced(&self, node: NodeId, request: Request) -> bool {
        let (mut managed, mut balanced) = (0, 0);
        for (index, zone) in self.zones_up_to(node, request.classzone) {
            managed += zone.managed();
            // A zone that cannot be helped must not keep kswapd awake.
            if Self::is_marked_hopeless(zone) || self.is_zone_balanced(zone, request.order, 0, index) {
                balanced += zone.managed();
            } else if request.order == Order::ZERO {
                return false;
            }
        }
        request.order == Order::ZERO || balanced >= managed / 4
    }

    fn zones_up_to(&self, node: NodeId, classzone: usize) -> impl DoubleEndedIterator<Item = (usize, &Zone<M>)> {
        self.node(node)
            .zones
            .iter()
            .map(|id| self.zone(*id))
            .map(|zone| (zone.kind as usize, zone))
            .filter(move |(kind, _)| *kind <= classzone)
    }

    fn floor(&self) -> u32 {
        match self.choices.kswapd_floor {
            KswapdFloor::Zero => 0,
            KswapdFloor::One => 1,
        }
    }

    /// The highest zone that needs work; zones seen on the way are aged a little.
    fn highest_unbalanced(&self, node: NodeId, control: &ScanControl) -> Option<usize> {
        for (kind, zone) in self.zones_up_to(node, usize::MAX).rev() {
            if Self::is_marked_hopeless(zone) && control.priority != DEF_PRIORITY {
                continue;
            }
            self.age_active_anon(zone, &self.demand(control));
            // Class zone 0: the reserve is not looked at.
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
        self.zones_up_to(node, classzone).map(|(_, zone)| self.reclaimable_pages(zone)).sum()
    }

    /// Shrinks one zone, if it needs it.
    fn kswapd_shrink_zone(
        &self,
        task: &mut Task,
        zone: &Zone<M>,
        control: &mut ScanControl,
        classzone: usize,
        lru_pages: u64,
    ) -> ZonePass {
        let high = zone.high().max(CLUSTER);
        control.to_reclaim_pages = match self.choices.kswapd_target {
            KswapdTarget::Unbounded => u64::MAX,
            KswapdTarget::HighWatermark => high,
        };
        // If compaction can do the rest, order-0 pages are what is wanted.
        let can_compact = || control.order > Order::ZERO && self.suitable(zone, control.order) != Suitability::Skipped;
        let order = match self.choices.high_order {
            HighOrder::ByCompaction if can_compact() => Order::ZERO,
            HighOrder::ByCompaction | HighOrder::ByReclaim => control.order,
        };
        let gap = match self.choices.kswapd_gap {
            KswapdGap::NeverLeft => 0,
            KswapdGap::EightTimesHigh => 7 * zone.high(),
            KswapdGap::Balance => self.balance_gap(zone),
        };
        control.scanned = 0;
        let needs_none = self.is_zone_balanced(zone, order, gap, classzone);
        let is_left = match self.choices.slab_zones {
            SlabZones::Shrunk => needs_none,
            SlabZones::Every => false,
        };
        if is_left {
            match self.choices.kswapd_priority {
                KswapdPriority::RestartAfterCluster => zone.clear(ZoneFlag::CONGESTED),
                KswapdPriority::ByScanVolume => {}
            }
            return ZonePass {
                scanned_enough: true,
                attempted: 0,
                scanned: 0,
                is_balanced: true,
                was_hopeless: Self::is_marked_hopeless(zone),
            };
        }
        match self.choices.kswapd_gap {
            KswapdGap::EightTimesHigh | KswapdGap::Balance if needs_none => {}
            KswapdGap::EightTimesHigh | KswapdGap::Balance | KswapdGap::NeverLeft => {
                self.shrink_zone(task, zone, control);
            }
        }
        let dropped = self.shrink_slab(task, control.scanned, lru_pages);
        control.reclaimed += dropped.pages;
        let was_hopeless = Self::is_marked_hopeless(zone);
        if dropped.objects == 0 && self.is_hopeless(zone) {
            zone.set(ZoneFlag::ALL_UNRECLAIMABLE);
        }
        zone.clear(ZoneFlag::WRITEBACK);
        // Where every zone is shrunk in any case, what it had before counts.
        let is_balanced = match self.choices.kswapd_gap {
            KswapdGap::NeverLeft => needs_none,
            KswapdGap::EightTimesHigh | KswapdGap::Balance => self.is_zone_balanced(zone, order, 0, classzone),
        };
        if is_balanced && !Self::is_marked_hopeless(zone) {
            zone.clear(ZoneFlag::CONGESTED);
            zone.clear(ZoneFlag::TAIL_LRU_DIRTY);
        }
        let scanned_enough = needs_none || control.scanned >= high;
        let attempted = if needs_none { 0 } else { high };
        ZonePass { scanned_enough, attempted, scanned: control.scanned, is_balanced, was_hopeless }
    }

    /// Up to 3.10: from priority 12 down, one step a pass; from 12 again as soon as a pass freed a cluster.
    ///
    /// With `ZoneBalance::AllZones`, an order that cannot be had ends only in one way: a pass that frees less than a
    /// cluster gives it up. While there is something to free, the call goes on.
    fn balance_with_restarts(&self, task: &mut Task, node: NodeId, request: Request) -> Request {
        let mut request = request;
        // Kept when the call starts again: it is zero only if the first look found nothing to do.
        let mut end = 0;
        loop {
            self.stat.count(Event::Pageoutrun, 1);
            let mut control = ScanControl::kswapd(request.order);
            let mut is_balanced = false;
            let mut total_scanned = 0;
            for priority in (self.floor()..=DEF_PRIORITY).rev() {
                control.priority = priority;
                let Some(highest) = self.highest_unbalanced(node, &control) else {
                    is_balanced = true;
                    break;
                };
                end = highest;
                request.classzone = end;
                let lru_pages = self.reclaimable_up_to(node, end);
                let mut pass = NodePass::default();
                for (kind, zone) in self.zones_up_to(node, highest) {
                    if Self::is_marked_hopeless(zone) && priority != DEF_PRIORITY {
                        continue;
                    }
                    let zone_pass = self.kswapd_shrink_zone(task, zone, &mut control, end, lru_pages);
                    total_scanned += zone_pass.scanned;
                    self.note_zone(&mut pass, zone, &control, end, zone_pass);
                    match self.choices.zone_balance {
                        ZoneBalance::QuarterOfUsable => {
                            if Self::is_marked_hopeless(zone) && end == kind && end > 0 {
                                end -= 1;
                            }
                        }
                        ZoneBalance::AllZones | ZoneBalance::AnySuitableZone => {}
                    }
                }
                self.end_pass(node, control.reclaimed);
                if self.is_pass_enough(node, request, &pass) {
                    is_balanced = true;
                    break;
                }
                if total_scanned > 0 && priority < DEF_PRIORITY - 2 {
                    self.kswapd_nap(&pass);
                }
                if control.reclaimed >= CLUSTER || self.machine.is_killed() {
                    break;
                }
            }
            self.end_node_at_priority(node, control.priority);
            if is_balanced && !self.machine.is_killed() && self.lacks_single_pages(node, request.order, end) {
                request.order = Order::ZERO;
                self.machine.relax();
                continue;
            }
            if is_balanced || self.machine.is_killed() {
                match self.choices.kswapd_compact {
                    KswapdCompact::AfterBalance => self.compact_node_if_needed(node, request.order, end),
                    KswapdCompact::Never | KswapdCompact::ByProgress => {}
                }
                return Request { order: request.order, classzone: end };
            }
            self.machine.relax();
            match self.choices.failed_order {
                // Give up on the order, but not on order 0.
                FailedOrder::GivenUp if control.reclaimed < CLUSTER => request.order = Order::ZERO,
                FailedOrder::GivenUp | FailedOrder::Kept => {}
            }
        }
    }

    /// A pass has ended for all of a node, zones that had nothing to do included.
    fn end_node_at_priority(&self, node: NodeId, priority: u32) {
        self.zones_up_to(node, usize::MAX).for_each(|(_, zone)| self.end_at_priority(zone, priority));
    }

    /// Waits between passes, as `kswapd_nap` has it.
    fn kswapd_nap(&self, pass: &NodePass) {
        match self.choices.kswapd_nap {
            KswapdNap::None => {}
            KswapdNap::Always => self.congestion_wait(STALL),
            KswapdNap::CongestionWait if pass.is_under_min => self.stat.count(Event::KswapdSkipCongestionWait, 1),
            KswapdNap::CongestionWait => self.congestion_wait(STALL),
        }
    }

    /// The node is balanced for an order above 0: is it, as far as `order_zero_check` asks, for single pages too?
    fn lacks_single_pages(&self, node: NodeId, order: Order, end: usize) -> bool {
        match self.choices.order_zero_check {
            OrderZeroCheck::Done if order > Order::ZERO => {}
            OrderZeroCheck::Done | OrderZeroCheck::LeftOut => return false,
        }
        let mut lacks = false;
        for (_, zone) in self.zones_up_to(node, end).filter(|(_, zone)| !Self::is_marked_hopeless(zone)) {
            if self.is_zone_balanced(zone, Order::ZERO, 0, 0) {
                zone.clear(ZoneFlag::CONGESTED);
            } else {
                lacks = true;
            }
        }
        lacks
    }

    /// Later: one descent, a step when a pass scanned too little to reach the marks or freed nothing.
    fn balance_by_scan_volume(&self, task: &mut Task, node: NodeId, request: Request) -> Request {
        self.stat.count(Event::Pageoutrun, 1);
        let mut request = request;
        let mut control = ScanControl::kswapd(request.order);
        let mut end = 0;
        let ended_at = loop {
            let priority = control.priority;
            let mut attempted = 0;
            let mut raise = true;
            let mut needs_compaction = request.order > Order::ZERO;
            control.reclaimed = 0;
            let Some(highest) = self.highest_unbalanced(node, &control) else { break priority };
            end = highest;
            request.classzone = end;
            let lru_pages = self.reclaimable_up_to(node, end);
            needs_compaction &= !self.has_block(node, request.order, end);
            let mut node_pass = NodePass::default();
            for (_, zone) in self.zones_up_to(node, end) {
                if Self::is_marked_hopeless(zone) && control.priority != DEF_PRIORITY {
                    continue;
                }
                let pass = self.kswapd_shrink_zone(task, zone, &mut control, end, lru_pages);
                attempted += pass.attempted;
                raise &= !pass.scanned_enough;
                self.note_zone(&mut node_pass, zone, &control, end, pass);
            }
            self.end_pass(node, control.reclaimed);
            if request.order > Order::ZERO && control.reclaimed >= 2 * request.order.pages() {
                request.order = Order::ZERO;
                control.order = Order::ZERO;
            }
            if self.machine.is_killed() {
                break priority;
            }
            if needs_compaction && control.reclaimed > attempted {
                self.compact_node_if_needed(node, control.order, end);
            }
            self.machine.relax();
            if raise || control.reclaimed == 0 {
                if control.priority <= self.floor() {
                    break priority;
                }
                control.priority -= 1;
            }
            if self.is_pass_enough(node, request, &node_pass) {
                break priority;
            }
        };
        self.end_node_at_priority(node, ended_at);
        Request { order: request.order, classzone: end }
    }

    /// Does some zone have a block of the order above its low mark?
    fn has_block(&self, node: NodeId, order: Order, classzone: usize) -> bool {
        self.zones_up_to(node, classzone)
            .any(|(_, zone)| zone.is_above(zone.low(), order, classzone, MarkRights::default()))
    }

    /// Compacts the node's zones in the background, unless a block of the order is there.
    fn compact_node_if_needed(&self, node: NodeId, order: Order, classzone: usize) {
        if order == Order::ZERO || self.has_block(node, order, classzone) {
            return;
        }
        for (_, zone) in self.zones_up_to(node, usize::MAX) {
            if !self.is_deferred(zone, order) && self.suitable(zone, order) == Suitability::Continue {
                let _span = self.machine.span(Func::CompactZone);
                self.machine.spend(Step::WorkItem, 1);
            }
            if zone.is_above(zone.low(), order, 0, MarkRights::default()) {
                self.note_success(zone, order);
            }
        }
    }
}
