//! Reclaim of a group's pages, for its limit or on demand (mechanisms/groups, 2, 4 and 6).
//!
//! Each reclaim has a group as its target: the root group for kswapd and for a task that wants a free page, and
//! otherwise the group that is at its limit. A pass visits lruvecs of the target's subtree (`group_walk`).

use super::control::ScanControl;
use super::{DEF_PRIORITY, Reclaim};
use crate::lru::CLUSTER;
use crate::memory::{Gfp, GroupId};
use crate::task::Task;
use machine::note::Work;
use machine::{Func, Machine};

/// A reclaim of the pages of a group and its descendants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupReclaim {
    /// The group whose pages are reclaimed, with those of its descendants.
    pub(crate) group: GroupId,
    /// Number of pages that the reclaim is to free. If the number is less than a cluster (32 pages), a cluster is to be
    /// freed.
    pub(crate) pages: u64,
    /// The flags of the request for which pages are reclaimed.
    pub(crate) gfp: Gfp,
    /// `true` if anonymous pages may go to swap.
    pub(crate) may_swap: bool,
    /// The swappiness for this reclaim, if the caller asks for a value other than `lru.swappiness`.
    pub(crate) swappiness: Option<u64>,
}

impl<M: Machine> Reclaim<M> {
    /// Reclaims pages of a group and its descendants, however much memory is free. Returns the number of freed pages.
    /// This function may sleep.
    #[doc(alias = "try_to_free_mem_cgroup_pages")]
    pub(crate) fn try_to_free_group_pages(&self, task: &mut Task, wanted: GroupReclaim, work: &mut Work) -> u64 {
        let _span = self.machine.span(Func::DirectReclaim);
        let had_reserve = std::mem::replace(&mut task.may_use_reserve, true);
        let mut control = ScanControl {
            group: wanted.group,
            may_swap: wanted.may_swap,
            swappiness: wanted.swappiness,
            to_reclaim_pages: wanted.pages.max(CLUSTER),
            ..ScanControl::cgroup(wanted.gfp)
        };
        while !self.shrink_group_down(task, &mut control) && control.reclaimed == 0 && !self.machine.is_killed() {
            if self.begins_full_walk(&mut control) {
                // The groups that were left out may have all that there is.
            } else if control.left_active && !control.forces_aging {
                // The active pages that were left alone may be all that there is.
                control.forces_aging = true;
            } else if control.has_left_low && !control.breaks_low {
                control.breaks_low = true;
            } else {
                break;
            }
        }
        for lruvec in self.lru().lruvecs_of_group(wanted.group) {
            lruvec.end_at_priority(control.priority);
            self.lru().end_reclaim(lruvec);
        }
        task.may_use_reserve = had_reserve;
        control.add_to(work);
        control.reclaimed
    }

    /// Lowers the priority step by step, and makes a pass over the group's lruvecs at each priority. Returns whether
    /// enough pages were freed.
    fn shrink_group_down(&self, task: &mut Task, control: &mut ScanControl) -> bool {
        let mut total_scanned = 0;
        for priority in (0..=DEF_PRIORITY).rev() {
            control.priority = priority;
            control.scanned = 0;
            for node in &self.nodes {
                for reach in self.lruvecs_of_node(node.id, usize::MAX) {
                    self.shrink_zone(task, reach, control);
                }
            }
            total_scanned += control.scanned;
            control.scanned_in_all += control.scanned;
            if control.reclaimed >= control.to_reclaim_pages {
                return true;
            }
            if self.machine.is_killed() {
                return false;
            }
            if total_scanned > control.to_reclaim_pages + control.to_reclaim_pages / 2 {
                self.writeback().wake_flushers(total_scanned);
            }
            let zones = &self.nodes[0].zones;
            self.direct_nap(self.memory().zone(zones[zones.len() - 1]), control);
        }
        false
    }

    /// Reclaims from a group and its descendants until `pages` pages were freed, as a write to `memory.reclaim` does.
    /// `swappiness`, if given, takes the place of `lru.swappiness`. Returns the number of freed pages, which is less
    /// than `pages` if more than 16 attempts freed nothing, or if the task was killed. This function may sleep.
    #[doc(alias = "memory.reclaim")]
    pub fn reclaim_group(&self, task: &mut Task, group: GroupId, pages: u64, swappiness: Option<u64>) -> u64 {
        let mut freed = 0;
        let mut retries = super::FAILURES_MAX;
        while freed < pages && !self.machine.is_killed() {
            let wanted = GroupReclaim { group, pages: pages - freed, gfp: Gfp::KERNEL, may_swap: true, swappiness };
            let more = self.try_to_free_group_pages(task, wanted, &mut Work::default());
            freed += more;
            if more == 0 {
                if retries == 0 {
                    break;
                }
                retries -= 1;
                self.lru().drain_all();
            }
        }
        freed
    }
}
