//! Reclaim from memory control groups above their soft limits (cgroup v1, `memory.soft_limit_in_bytes`;
//! mechanisms/groups, 9).
//!
//! *Called by* kswapd before it shrinks a zone or a node. Does nothing if no group has a soft limit.

use super::Reclaim;
use super::control::ScanControl;
use crate::lru::memcg_lru::Move;
use crate::lru::{CLUSTER, Reach};
use crate::memory::{GroupId, Groups, NodeId, Zone};
use crate::task::Task;
use machine::{Machine, Order, Step};

/// Largest number of groups that kswapd tries before a pass, until one of them yields pages. Linux tries the first
/// group and `MEM_CGROUP_MAX_SOFT_LIMIT_RECLAIM_LOOPS` (2) further groups.
const GROUPS_MAX: usize = 3;

/// Divisor of a group's excess over its soft limit. The quotient is the number of pages that the group loses at a time.
const PART: u64 = 4;

impl<M: Machine> Reclaim<M> {
    /// Takes pages from the group that is farthest above its soft limit; if nothing can be freed there, from the next
    /// groups. Kswapd calls this before it shrinks the zone `zone` or, if `zone` is `None`, the whole node. Adds the
    /// freed pages to those of `control`. With a list of groups (`multigen.memcg_lru`), frees nothing, and moves the
    /// groups to the head of their generation.
    #[doc(alias = "mem_cgroup_soft_limit_reclaim")]
    pub(super) fn shrink_over_soft_limit(
        &self,
        task: &mut Task,
        node: NodeId,
        zone: Option<&Zone<M>>,
        control: &mut ScanControl,
    ) {
        let Some(groups) = self.groups.as_ref().filter(|groups| groups.has_soft_limit()) else { return };
        let over = groups.over_soft_limits();
        if let Some(lists) = &self.memcg_lru {
            for id in over {
                lists.apply(id, Move::Head);
            }
            return;
        }
        if control.order > Order::ZERO {
            return;
        }
        for id in over.into_iter().take(GROUPS_MAX) {
            let reaches: Vec<Reach<'_, M>> = match zone {
                Some(zone) => vec![self.lru().reach(zone)],
                None => self.lruvecs_of_node(node, usize::MAX).collect(),
            };
            let freed = self.shrink_to_soft_limit(task, groups, id, &reaches);
            control.reclaimed += freed;
            if freed > 0 || self.machine.is_killed() {
                break;
            }
        }
    }

    /// Reclaims a cluster of pages from a group and from each of its descendants, in turns. Ends when a part of the
    /// group's excess over its soft limit was freed, when the group is no longer above this limit, or when a turn has
    /// freed nothing. Returns the number of freed pages.
    #[doc(alias = "mem_cgroup_soft_reclaim")]
    fn shrink_to_soft_limit(&self, task: &mut Task, groups: &Groups<M>, id: GroupId, reaches: &[Reach<'_, M>]) -> u64 {
        let wanted = groups.soft_excess(id).div_ceil(PART);
        let mut freed = 0;
        loop {
            let before = freed;
            for below in groups.subtree(id).iter().filter(|below| groups.is_within(**below, id)) {
                self.machine.spend(Step::WorkItem, 1);
                for reach in reaches {
                    // At the lowest priority a scan may take any part of a list, so that few pages of a small group are
                    // found, too.
                    let mut control = ScanControl {
                        group: id,
                        is_cgroup: true,
                        priority: 0,
                        to_reclaim_pages: CLUSTER,
                        ..ScanControl::kswapd(Order::ZERO)
                    };
                    self.shrink_lruvec(task, self.lru().reach_in(*reach, *below), &mut control);
                    freed += control.reclaimed;
                }
                if groups.soft_excess(id) == 0 || self.machine.is_killed() {
                    return freed;
                }
            }
            if freed == before || freed >= wanted {
                return freed;
            }
        }
    }
}
