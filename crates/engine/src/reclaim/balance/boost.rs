//! Reclaim for watermarks that were raised because migrate types were mixed in pageblocks (Linux 5.0; see
//! mechanisms/modern, 1).
//!
//! Afterwards, requests find more free pages of their own migrate type, so that fewer pageblocks are mixed and
//! compaction has less to do.

use super::Request;
use crate::memory::{NodeId, PAGEBLOCK_ORDER};
use crate::reclaim::choices::KswapdCompact;
use crate::reclaim::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::task::Task;
use machine::{Machine, Order};

/// The lowest priority to which a reclaim for boosted watermarks descends. At lower priorities, reclaim would also take
/// pages that are not easily freed. A reclaim that begins at a lower priority (`multigen.first_priority_min`) does not
/// descend.
const PRIORITY_MIN: u32 = DEF_PRIORITY - 2;

impl<M: Machine> Reclaim<M> {
    /// Returns whether the node has a zone that a request can use and whose low mark is raised (boosted).
    pub(in crate::reclaim) fn is_boosted(&self, node: NodeId, classzone: usize) -> bool {
        self.zones_up_to(node, classzone).any(|(_, zone)| zone.boost() > 0)
    }

    /// Reclaims because of raised (boosted) watermarks of the zones that a request can use. Kswapd calls this method
    /// before it balances the node. The target is the number of pages by which the marks are raised, however many pages
    /// are free. The reclaim ends earlier if the node is not balanced, so that kswapd does its normal work instead, or
    /// if nothing can be freed at the lowest priority. It writes and swaps no page, and leaves object caches alone.
    pub(super) fn reclaim_boost(&self, task: &mut Task, node: NodeId, request: Request) {
        let mut left: u64 = self.zones_up_to(node, request.classzone).map(|(_, zone)| zone.boost()).sum();
        let mut control = ScanControl { may_swap: false, may_write: false, ..ScanControl::kswapd(Order::ZERO) };
        while left > 0 && self.is_node_balanced(node, request) && !self.machine.is_killed() {
            let before = control.reclaimed;
            control.to_reclaim_pages = left;
            self.shrink_lists_of_node(task, node, &mut control, request.classzone);
            let freed = control.reclaimed - before;
            left = left.saturating_sub(freed);
            self.machine.relax();
            if control.priority > PRIORITY_MIN {
                control.priority -= 1;
            } else if freed == 0 {
                break;
            }
        }
    }

    /// Lowers the raised (boosted) watermarks of the zones that a request can use, and compacts the node if there were
    /// any, unless `reclaim.kswapd_compact` is `never`. Kswapd calls this method at the end of its run over the node.
    pub(super) fn end_boosts(&self, node: NodeId, classzone: usize) {
        if !self.is_boosted(node, classzone) {
            return;
        }
        self.zones_up_to(node, classzone).for_each(|(_, zone)| zone.end_boost());
        if !self.machine.is_killed() {
            match self.choices.kswapd_compact {
                KswapdCompact::AfterBalance | KswapdCompact::ByProgress => {
                    self.compact_node_if_needed(node, PAGEBLOCK_ORDER, classzone);
                }
                KswapdCompact::Never => {}
            }
        }
    }
}
