//! Walks over the groups of a reclaim's target: which groups a pass visits, and in which order (mechanisms/groups, 3;
//! mechanisms/multigen, 7).

use super::choices::GroupWalk;
use super::control::ScanControl;
use super::{DEF_PRIORITY, Reclaim};
use crate::lru::Reach;
use crate::lru::memcg_lru::{MemcgLru, Move, Visited};
use crate::memory::{GroupEvent, GroupId, Groups};
use crate::task::Task;
use machine::{Machine, Step};

/// The way in which one pass walks over the tree of groups.
#[derive(Clone, Copy, Debug)]
enum Walk {
    /// The pass visits all groups of the subtree.
    All,
    /// The pass visits the groups that follow a position. All reclaimers share this position, so that each continues
    /// where the last reclaimer has stopped. With `ends_early`, the walk ends once enough pages were freed.
    Shared {
        /// Index of the position in [`crate::lru::Lruvec::walks`] of the lruvec of the subtree's root.
        position: usize,
        ends_early: bool,
    },
}

impl<M: Machine> Reclaim<M> {
    /// Shrinks the lruvecs of a reclaim's target group and of the group's descendants, as far as their protection
    /// allows (`shrink_node_memcgs`). `reach` has the lruvec of the target, and the zones in which pages are taken.
    ///
    /// Each visit of a group costs a [`Step::WorkItem`], whatever the kernel. This is an assumption, since no source
    /// gives the time that it takes to reach a group and to compute its protection.
    pub(super) fn shrink_groups(&self, task: &mut Task, reach: Reach<'_, M>, control: &mut ScanControl) {
        let Some(groups) = &self.groups else { return self.shrink_lruvec(task, reach, control) };
        if let Some(lists) = self.memcg_lru.as_ref().filter(|_| control.is_global()) {
            return self.shrink_listed_groups(task, reach, control, groups, lists);
        }
        match self.walk_of(control) {
            Walk::All => {
                // A number may have become that of a group elsewhere since the walk began.
                let target = control.group;
                for id in groups.subtree(target).iter().filter(|id| groups.is_within(**id, target)) {
                    self.shrink_group(task, reach, control, groups, *id);
                }
            }
            Walk::Shared { position, ends_early } => {
                let position = &reach.lruvec.walks[position];
                let mut round = None;
                let next = |after| groups.next_in(control.group, after);
                let mut taken = position.take_next(&mut round, next);
                while let Some(id) = taken {
                    self.shrink_group(task, reach, control, groups, id);
                    if ends_early && control.reclaimed >= control.to_reclaim_pages || self.machine.is_killed() {
                        break;
                    }
                    let next = |after| groups.next_in(control.group, after);
                    taken = position.take_next(&mut round, next);
                }
            }
        }
    }

    const fn walk_of(&self, control: &ScanControl) -> Walk {
        match self.choices.group_walk {
            _ if control.is_kswapd => Walk::All,
            GroupWalk::All => Walk::All,
            GroupWalk::SharedByPriority | GroupWalk::SharedEndingEarly => {
                let priority = if control.priority > DEF_PRIORITY { DEF_PRIORITY } else { control.priority };
                let ends_early = control.is_cgroup || matches!(self.choices.group_walk, GroupWalk::SharedEndingEarly);
                Walk::Shared { position: priority as usize, ends_early }
            }
            GroupWalk::SharedPosition if control.walks_all => Walk::All,
            GroupWalk::SharedPosition => Walk::Shared { position: 0, ends_early: true },
        }
    }

    /// Returns whether a reclaim that freed nothing may have left out groups, because its walks share a position in the
    /// tree with other reclaims. If so, makes the reclaim's later walks visit all groups.
    pub(super) fn begins_full_walk(&self, control: &mut ScanControl) -> bool {
        let was_partial = self.groups.is_some()
            && !control.walks_all
            && match self.choices.group_walk {
                GroupWalk::SharedPosition => !(self.memcg_lru.is_some() && control.is_global()),
                GroupWalk::All | GroupWalk::SharedByPriority | GroupWalk::SharedEndingEarly => false,
            };
        control.walks_all |= was_partial;
        was_partial
    }

    /// Visits a group in a walk over the tree of groups: shrinks the group's lruvecs, if the group's protection allows
    /// it.
    fn shrink_group(
        &self,
        task: &mut Task,
        reach: Reach<'_, M>,
        control: &mut ScanControl,
        groups: &Groups<M>,
        id: GroupId,
    ) {
        self.machine.spend(Step::WorkItem, 1);
        if self.may_shrink(groups, id, control) {
            self.shrink_lruvec(task, self.lru().reach_in(reach, id), control);
        }
    }

    /// Returns whether the reclaim `control` may take pages of the group `id`, by the group's protection (`memory.min`,
    /// `memory.low`). Records in `control` if `memory.low` keeps pages from the reclaim.
    fn may_shrink(&self, groups: &Groups<M>, id: GroupId, control: &mut ScanControl) -> bool {
        let protection = groups.update_protection(control.group, id);
        if id == control.group {
            return true;
        }
        let usage = groups.usage(id);
        if usage <= protection.min {
            return false;
        }
        let is_within_low = usage <= protection.low;
        if !control.breaks_low
            && (is_within_low || protection.low > protection.min && self.lru().protects_in_proportion())
        {
            control.has_left_low = true;
        }
        if is_within_low && control.breaks_low {
            groups.count(id, GroupEvent::Low);
        }
        !is_within_low || control.breaks_low
    }

    /// Walks over the groups of the old generation in the node's list of groups, and shrinks them until enough pages
    /// were freed (`shrink_many`). For kswapd, only the pages that this walk has freed count. For a task, all pages
    /// that its reclaim has freed count.
    fn shrink_listed_groups(
        &self,
        task: &mut Task,
        reach: Reach<'_, M>,
        control: &mut ScanControl,
        groups: &Groups<M>,
        lists: &MemcgLru<M>,
    ) {
        let from = if control.is_kswapd { control.reclaimed } else { 0 };
        control.walk_from = Some(from);
        let mut cursor = lists.begin(reach.lruvec);
        let mut done = None;
        while let Some(visited) = lists.next(reach.lruvec, &mut cursor, done.take(), |id| groups.is_in_tree(id)) {
            self.machine.spend(Step::WorkItem, 1);
            if !groups.is_in_tree(visited.group) {
                done = Some(Move::Gone);
                continue;
            }
            done = self.shrink_listed_group(task, reach, control, groups, visited);
            let demand = self.demand(control);
            if self.machine.is_killed() || self.lru().is_walk_enough(reach, &demand, control.order, 0) {
                break;
            }
        }
        if done.is_some() {
            lists.end(reach.lruvec, cursor, done);
        }
        control.walk_from = None;
    }

    /// Visits a group in a walk over the list of groups: shrinks its lruvecs, if its protection allows it. Returns the
    /// place in the list to which the group moves, or `None` if the group stays where it is (`shrink_one`).
    fn shrink_listed_group(
        &self,
        task: &mut Task,
        reach: Reach<'_, M>,
        control: &mut ScanControl,
        groups: &Groups<M>,
        visited: Visited,
    ) -> Option<Move> {
        let id = visited.group;
        let later = if visited.is_at_tail { Move::Young } else { Move::Tail };
        if !id.is_root() {
            let (protection, usage) = (groups.update_protection_from_root(id), groups.usage(id));
            if usage <= protection.min {
                return Some(Move::Young);
            }
            if usage <= protection.low {
                if !visited.is_at_tail {
                    return Some(Move::Tail);
                }
                groups.count(id, GroupEvent::Low);
            }
        }
        let of_group = self.lru().reach_in(reach, id);
        control.has_aged = false;
        self.shrink_lruvec(task, of_group, control);
        match control.has_aged {
            true if groups.is_live(id) => Some(Move::Young),
            false if self.lru().is_sizable(of_group, &self.demand(control)) => None,
            true | false => Some(later),
        }
    }

    /// Ages the lruvecs of all groups in the zones of `reach` before a pass of kswapd, if the policy ages before this
    /// pass.
    pub(super) fn age_groups_before_pass(&self, reach: Reach<'_, M>, control: &mut ScanControl) {
        let has_got_on = std::mem::replace(&mut control.has_got_on, false);
        if !self.lru().begins_pass_with_ageing(control.is_kswapd, has_got_on) {
            return;
        }
        let demand = self.demand(control);
        match &self.groups {
            None => self.lru().age_before_pass(reach, &demand),
            Some(groups) => {
                let tree = groups.subtree(GroupId::ROOT);
                tree.iter().for_each(|id| self.lru().age_before_pass(self.lru().reach_in(reach, *id), &demand));
            }
        }
    }
}
