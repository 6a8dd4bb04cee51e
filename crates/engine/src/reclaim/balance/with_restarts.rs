//! Balancing a node up to Linux 3.10: the priority falls from 12, and is 12 again as soon as a pass freed a cluster
//! (mechanisms/reclaim, 18.4 and 18.5).

use super::{NodePass, Request};
use crate::lru::CLUSTER;
use crate::lru::wait::STALL;
use crate::memory::{NodeId, ZoneFlag};
use crate::reclaim::choices::{FailedOrder, KswapdCompact, KswapdNap, OrderZeroCheck, ZoneBalance};
use crate::reclaim::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::stat::Event;
use crate::task::Task;
use machine::{Machine, Order, WaitReason};

impl<M: Machine> Reclaim<M> {
    /// Balances a node as Linux up to 3.10 does: the priority falls from 12 by one step a pass, and is 12 again as soon
    /// as a cluster (32 pages) was freed. Returns the request that was met in the end.
    ///
    /// With `ZoneBalance::AllZones`, some zone may be unable to get a block of a high order. The run goes on for this
    /// order as long as each descent of the priority frees a cluster. After a descent that freed less,
    /// `reclaim.failed_order` decides whether the run continues for single pages.
    pub(super) fn balance_with_restarts(&self, task: &mut Task, node: NodeId, request: Request) -> Request {
        let mut request = request;
        // `end` keeps its value when the descent starts again. It is zero only if the first search found nothing to do.
        let mut end = 0;
        loop {
            self.stat.count(Event::Pageoutrun, 1);
            let mut control = ScanControl::kswapd(request.order);
            let mut is_balanced = false;
            let mut total_scanned = 0;
            for priority in (self.floor()..=DEF_PRIORITY).rev() {
                control.priority = priority;
                let Some(highest) = self.highest_unbalanced(node, &mut control) else {
                    is_balanced = true;
                    break;
                };
                end = highest;
                request.classzone = end;
                let lru_pages = self.reclaimable_up_to(node, end);
                let mut pass = NodePass::default();
                for (kind, zone) in self.zones_up_to(node, highest) {
                    if zone.is(ZoneFlag::ALL_UNRECLAIMABLE) && priority != DEF_PRIORITY {
                        continue;
                    }
                    self.shrink_over_soft_limit(task, node, Some(zone), &mut control);
                    let zone_pass = self.kswapd_shrink_zone(task, zone, &mut control, end, lru_pages);
                    total_scanned += zone_pass.scanned;
                    if zone_pass.was_left {
                        zone.clear(ZoneFlag::CONGESTED);
                    }
                    self.note_zone(&mut pass, zone, &control, end, zone_pass);
                    match self.choices.zone_balance {
                        ZoneBalance::QuarterOfUsable => {
                            if zone.is(ZoneFlag::ALL_UNRECLAIMABLE) && end == kind && end > 0 {
                                end -= 1;
                            }
                        }
                        ZoneBalance::AllZones | ZoneBalance::AnySuitableZone | ZoneBalance::AnyUsableZone => {}
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
            if !is_balanced {
                self.note_descent(node, control.reclaimed);
            }
            if is_balanced || self.machine.is_killed() || self.has_kswapd_failed(node) {
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

    /// Lets kswapd wait between two passes over the node's zones, as the choice `reclaim.kswapd_nap` says.
    fn kswapd_nap(&self, pass: &NodePass) {
        match self.choices.kswapd_nap {
            KswapdNap::None => {}
            KswapdNap::Always => self.lru().congestion_wait(STALL, WaitReason::ReclaimPass),
            KswapdNap::CongestionWait if pass.is_under_min => self.stat.count(Event::KswapdSkipCongestionWait, 1),
            KswapdNap::CongestionWait => self.lru().congestion_wait(STALL, WaitReason::ReclaimPass),
        }
    }

    /// Returns whether some zone of a node is not balanced for order 0. The node was found balanced for `order`.
    /// Returns `false` without a check if `order` is 0, or if `reclaim.order_zero_check` leaves the check out.
    fn lacks_single_pages(&self, node: NodeId, order: Order, end: usize) -> bool {
        match self.choices.order_zero_check {
            OrderZeroCheck::Done if order > Order::ZERO => {}
            OrderZeroCheck::Done | OrderZeroCheck::LeftOut => return false,
        }
        let mut lacks = false;
        for (_, zone) in self.zones_up_to(node, end).filter(|(_, zone)| !zone.is(ZoneFlag::ALL_UNRECLAIMABLE)) {
            if self.is_zone_balanced(zone, Order::ZERO, 0, 0) {
                zone.clear(ZoneFlag::CONGESTED);
            } else {
                lacks = true;
            }
        }
        lacks
    }
}
