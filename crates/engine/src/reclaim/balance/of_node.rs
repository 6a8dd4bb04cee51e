//! Balancing a node as a whole, from Linux 4.8 on: each pass shrinks the node's lists once, with the sum of its zones'
//! high marks as the target. The scan priority falls as in mechanisms/reclaim, 18.6; the tests whether the node is
//! balanced are those of Linux 4.8 ("mm, vmscan: make kswapd reclaim in terms of nodes").

use super::Request;
use crate::lru::CLUSTER;
use crate::memory::{NodeId, ZoneFlag};
use crate::reclaim::choices::KswapdCompact;
use crate::reclaim::{Reclaim, ScanControl};
use crate::stat::Event;
use crate::task::Task;
use machine::{Machine, Order};

impl<M: Machine> Reclaim<M> {
    /// Balances a node as a whole, in passes of falling scan priority. The priority falls by one after a pass that
    /// scanned fewer pages than its target or freed none. Ends when the node is balanced, or after such a pass at the
    /// lowest priority. Returns `request`; its order is set to 0 if kswapd no longer balances for this order, because
    /// it has freed twice as many pages as a block of the order has.
    pub(super) fn balance_whole_node(&self, task: &mut Task, node: NodeId, request: Request) -> Request {
        self.stat.count(Event::Pageoutrun, 1);
        let mut control = ScanControl::kswapd(request.order);
        loop {
            if self.is_node_balanced(node, Request { order: control.order, ..request }) {
                self.end_congestion(node);
                break;
            }
            let before = control.reclaimed;
            self.shrink_over_soft_limit(task, node, None, &mut control);
            let raises = !self.shrink_node(task, node, &mut control, request.classzone);
            let freed = control.reclaimed - before;
            self.end_pass(node, freed);
            if request.order > Order::ZERO && control.reclaimed >= 2 * request.order.pages() {
                control.order = Order::ZERO;
            }
            if self.machine.is_killed() {
                break;
            }
            self.machine.relax();
            if raises || freed == 0 {
                if control.priority <= self.floor() {
                    self.note_descent(node, control.reclaimed);
                    break;
                }
                control.priority -= 1;
            }
        }
        if !self.machine.is_killed() {
            match self.choices.kswapd_compact {
                KswapdCompact::AfterBalance => self.compact_node_if_needed(node, request.order, request.classzone),
                KswapdCompact::Never | KswapdCompact::ByProgress => {}
            }
        }
        self.end_node_at_priority(node, control.priority);
        Request { order: control.order, ..request }
    }

    /// Shrinks the lists of a node for requests of a class zone, and then shrinks object caches in proportion to the
    /// pages scanned. Returns whether at least the wanted number of pages was scanned.
    fn shrink_node(&self, task: &mut Task, node: NodeId, control: &mut ScanControl, classzone: usize) -> bool {
        control.to_reclaim_pages = self.zones_up_to(node, classzone).map(|(_, zone)| zone.high().max(CLUSTER)).sum();
        self.shrink_lists_of_node(task, node, control, classzone);
        let lru_pages = self.reclaimable_up_to(node, classzone);
        control.reclaimed += self.shrink_slab(task, control.scanned, lru_pages).pages;
        control.scanned >= control.to_reclaim_pages
    }

    /// Shrinks the LRU lists of those zones of a node that can serve requests of the class zone `classzone`. Leaves
    /// object caches alone.
    pub(super) fn shrink_lists_of_node(
        &self,
        task: &mut Task,
        node: NodeId,
        control: &mut ScanControl,
        classzone: usize,
    ) {
        control.scanned = 0;
        for reach in self.lruvecs_of_node(node, classzone) {
            self.age_groups_before_pass(reach, control);
            self.shrink_zone(task, reach, control);
        }
    }

    /// Clears the flags that mark a node's zones as congested, full of dirty pages or full of pages under writeback,
    /// because the node is balanced.
    #[doc(alias = "clear_pgdat_congested")]
    fn end_congestion(&self, node: NodeId) {
        for (_, zone) in self.zones_up_to(node, usize::MAX) {
            let flags = [ZoneFlag::CONGESTED, ZoneFlag::TAIL_LRU_DIRTY, ZoneFlag::WRITEBACK];
            flags.into_iter().for_each(|flag| zone.clear(flag));
        }
    }
}
