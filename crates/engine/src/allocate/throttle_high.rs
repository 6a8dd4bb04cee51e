//! Throttling of tasks that charge pages above the line `memory.high` of a group (mechanisms/groups, 4).
//!
//! The task is throttled just before it leaves the engine, where it holds no lock. It reclaims in each group that is
//! above its line as many pages as it has charged. Then it sleeps; the further the group is above the line, the longer
//! the task sleeps.

use super::Allocate;
use super::limit::RETRIES_MAX;
use crate::lru::CLUSTER;
use crate::memory::group::stock::STOCK_PAGES;
use crate::memory::{Gfp, GroupEvent, GroupId, Groups, Limit};
use crate::reclaim::group::GroupReclaim;
use crate::task::Task;
use machine::note::Work;
use machine::{Machine, Nanos, Stalled, WaitReason, Waiting};

/// Length of a tick, the unit in which the lengths of sleeps are computed. Distributions build kernels with 250 ticks a
/// second (`CONFIG_HZ`).
pub(super) const TICK: Nanos = Nanos::from_millis(4);

/// Number of ticks in a second.
const HZ: u64 = 250;

/// Longest time that a throttled task sleeps (`MEMCG_MAX_HIGH_DELAY_JIFFIES`).
const SLEEP_MAX: Nanos = Nanos::from_secs(2);

/// Longest sleep that is left out: if the sleep computed for a throttled task is at most this long, the task does not
/// sleep.
const SLEEP_MIN: Nanos = Nanos::from_millis(10);

/// Number of bits after the binary point of an overage. An overage is the excess over a `high` line, as a part of the
/// line (`MEMCG_DELAY_PRECISION_SHIFT`).
const PRECISION_BITS: u32 = 20;

/// The square of an overage (the excess over a `high` line, as a part of the line) is divided by two to this power
/// (`MEMCG_DELAY_SCALING_SHIFT`).
const SCALING_BITS: u32 = 14;

impl<M: Machine> Allocate<M> {
    /// Throttles a task that has charged pages while a group was above its `memory.high`; does nothing for other tasks.
    /// Each operation of a task calls this at its end, where the task holds no lock. An operation that pins a page for
    /// its caller leaves this call to the caller, so that the task does not sleep while the page is pinned. The calling
    /// task may sleep.
    #[inline]
    pub fn settle(&self, task: &mut Task) {
        if task.over_high_pages > 0 {
            self.pay_for_high(task);
        }
    }

    #[cold]
    #[doc(alias = "mem_cgroup_handle_over_high")]
    fn pay_for_high(&self, task: &mut Task) {
        let pages = std::mem::take(&mut task.over_high_pages);
        let Some(groups) = &self.groups else { return };
        let group = task.group;
        let (mut retries, mut wanted) = (RETRIES_MAX, pages);
        loop {
            let freed = self.reclaim_high(groups, task, wanted);
            let sleep = sleep_of(overage(groups, group), pages);
            if sleep <= SLEEP_MIN || self.machine.is_killed() {
                return;
            }
            if freed == 0 && retries == 0 {
                let _stalled = Stalled::begin(&self.machine);
                let _waiting = Waiting::begin(&self.machine, WaitReason::FruitlessReclaim);
                self.machine.pause(sleep);
                return;
            }
            if freed == 0 {
                retries -= 1;
            }
            wanted = CLUSTER;
        }
    }

    /// Reclaims in those groups that are above their `memory.high`, among the task's group and its ancestors; wants
    /// `pages` pages from each. Returns the total number of freed pages.
    fn reclaim_high(&self, groups: &Groups<M>, task: &mut Task, pages: u64) -> u64 {
        let mut freed = 0;
        for group in groups.with_ancestors(task.group) {
            if groups.usage(group) <= groups.limit(group, Limit::High) {
                continue;
            }
            groups.count(group, GroupEvent::High);
            let _stalled = Stalled::begin(&self.machine);
            let wanted = GroupReclaim { group, pages, gfp: Gfp::KERNEL, may_swap: true, swappiness: None };
            freed += self.try_to_free_group_pages(task, wanted, &mut Work::default());
        }
        freed
    }
}

/// Returns the largest overage of the group and its ancestors. An overage is the excess over the `high` line as a part
/// of the line, with [`PRECISION_BITS`] bits after the binary point.
fn overage<M: Machine>(groups: &Groups<M>, group: GroupId) -> u64 {
    let of = |group| {
        let high = groups.limit(group, Limit::High).max(1);
        ((groups.usage(group).saturating_sub(high)) << PRECISION_BITS) / high
    };
    groups.over_high(group).map(of).max().unwrap_or_default()
}

/// Returns the time that a task sleeps after it has charged `pages` pages to a group with this overage. The time grows
/// with the square of the overage. For 64 pages, an overage of 1 % gives 4 ms, 5 % gives 0.15 s, and 18 % or more gives
/// 2 s.
fn sleep_of(overage: u64, pages: u64) -> Nanos {
    let square = u128::from(overage) * u128::from(overage);
    let ticks = (square * u128::from(HZ)) >> PRECISION_BITS >> SCALING_BITS;
    let ticks = ticks * u128::from(pages) / u128::from(STOCK_PAGES);
    Nanos(u64::try_from(ticks).unwrap_or(u64::MAX).saturating_mul(TICK.0).min(SLEEP_MAX.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_grows_with_the_square_of_the_overage_up_to_two_seconds() {
        let sleep = |per_cent: u64, pages| sleep_of((per_cent << PRECISION_BITS) / 100, pages).0 / 1_000_000;
        assert_eq!([1, 5, 10, 17, 18, 100].map(|per_cent| sleep(per_cent, 64)), [4, 156, 636, 1848, 2000, 2000]);
        assert_eq!([sleep(10, 32), sleep(10, 128), sleep(0, 64)], [316, 1272, 0]);
    }
}
