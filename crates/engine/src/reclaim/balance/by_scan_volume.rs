//! Kswapd's balancing of a node as in mmotm of June 2013 and in later kernels: in each run, the priority descends once
//! (mechanisms/reclaim, 18.6).

use super::{NodePass, Request};
use crate::memory::{NodeId, ZoneFlag};
use crate::reclaim::choices::KswapdCompact;
use crate::reclaim::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::stat::Event;
use crate::task::Task;
use machine::{Machine, Order};

impl<M: Machine> Reclaim<M> {
    /// Balances a node for `request` in one descent of the priority. The priority falls by a step after a pass that
    /// freed nothing, or that scanned too few pages to reach the high marks. Returns the order for which kswapd
    /// reclaimed at the end (0 if it gave up a higher order), and the highest zone that the last pass found unbalanced.
    pub(super) fn balance_by_scan_volume(&self, task: &mut Task, node: NodeId, request: Request) -> Request {
        self.stat.count(Event::Pageoutrun, 1);
        let mut request = request;
        let mut control = ScanControl::kswapd(request.order);
        let mut end = 0;
        let mut total_reclaimed = 0;
        let ended_at = loop {
            let priority = control.priority;
            let mut attempted = 0;
            let mut raise = true;
            let mut needs_compaction = match self.choices.kswapd_compact {
                KswapdCompact::ByProgress => request.order > Order::ZERO,
                KswapdCompact::Never | KswapdCompact::AfterBalance => false,
            };
            control.reclaimed = 0;
            let Some(highest) = self.highest_unbalanced(node, &mut control) else { break priority };
            end = highest;
            request.classzone = end;
            let lru_pages = self.reclaimable_up_to(node, end);
            needs_compaction &= !self.has_block(node, request.order, end);
            let mut node_pass = NodePass::default();
            for (_, zone) in self.zones_up_to(node, end) {
                if zone.is(ZoneFlag::ALL_UNRECLAIMABLE) && control.priority != DEF_PRIORITY {
                    continue;
                }
                self.shrink_over_soft_limit(task, node, Some(zone), &mut control);
                let pass = self.kswapd_shrink_zone(task, zone, &mut control, end, lru_pages);
                attempted += pass.attempted;
                raise &= !pass.scanned_enough;
                self.note_zone(&mut node_pass, zone, &control, end, pass);
            }
            self.end_pass(node, control.reclaimed);
            total_reclaimed += control.reclaimed;
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
                    self.note_descent(node, total_reclaimed);
                    break priority;
                }
                control.priority -= 1;
            }
            if self.is_pass_enough(node, request, &node_pass) {
                match self.choices.kswapd_compact {
                    KswapdCompact::AfterBalance => self.compact_node_if_needed(node, request.order, end),
                    KswapdCompact::Never | KswapdCompact::ByProgress => {}
                }
                break priority;
            }
        };
        self.end_node_at_priority(node, ended_at);
        Request { order: request.order, classzone: end }
    }
}
