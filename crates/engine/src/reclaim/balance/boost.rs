//! Reclaim up to watermarks that were raised because migrate types were mixed in pageblocks (Linux 5.0; see
//! mechanisms/modern, 1).
//!
//! Afterwards, requests find more free pages of their own migrate type, so that fewer pageblocks are mixed and
//! compaction has less to do.

use crate::memory::{MarkRights, NodeId, PAGEBLOCK_ORDER};
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

    /// Reclaims until the zones that a request can use reach their raised (boosted) watermarks. Kswapd calls this
    /// method at the end of its run over the node, whether the node is balanced or not. The target is the number of
    /// pages by which the marks are raised. The reclaim ends earlier if nothing can be freed at the lowest priority. It
    /// writes and swaps no page, and leaves object caches alone. Then the method ends all boosts of the zones,
    /// including boosts that began meanwhile, and compacts the node, unless `reclaim.kswapd_compact` is `never`.
    pub(super) fn reclaim_boost(&self, task: &mut Task, node: NodeId, classzone: usize) {
        let mut left: u64 = self.zones_up_to(node, classzone).map(|(_, zone)| zone.boost()).sum();
        if left == 0 {
            return;
        }
        let mut control = ScanControl { may_swap: false, may_write: false, ..ScanControl::kswapd(Order::ZERO) };
        while left > 0 && self.is_below_boost(node, classzone) && !self.machine.is_killed() {
            let before = control.reclaimed;
            control.to_reclaim_pages = left;
            self.shrink_lists_of_node(task, node, &mut control, classzone);
            let freed = control.reclaimed - before;
            left = left.saturating_sub(freed);
            self.machine.relax();
            if control.priority > PRIORITY_MIN {
                control.priority -= 1;
            } else if freed == 0 {
                break;
            }
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

    /// Returns whether some zone with a raised mark is below that mark.
    fn is_below_boost(&self, node: NodeId, classzone: usize) -> bool {
        self.zones_up_to(node, classzone).any(|(_, zone)| {
            let high = zone.high() + zone.boost();
            zone.boost() > 0 && !zone.is_above(high, Order::ZERO, 0, MarkRights::default())
        })
    }
}
