//! Throttling at `memory.high`: what a task owes that charged pages above the line (mechanisms/groups, 4).
//!
//! The task pays on its way out of the engine, where it holds no lock: it reclaims as many pages in each group that is
//! above its line, and then sleeps, the longer the further the group is above the line.

use super::Allocate;
use super::limit::RETRIES_MAX;
use crate::lru::CLUSTER;
use crate::memory::group::stock::STOCK_PAGES;
use crate::memory::{Gfp, GroupEvent, GroupId, Groups, Limit};
use crate::reclaim::group::GroupReclaim;
use crate::task::Task;
use machine::note::Work;
use machine::{Machine, Nanos, Stalled, WaitReason, Waiting};

/// Length of a tick, in which sleeps are counted. Distributions build kernels with 250 ticks a second (`CONFIG_HZ`).
pub(super) const TICK: Nanos = Nanos::from_millis(4);

/// Ticks a second.
const HZ: u64 = 250;

/// Longest sleep (`MEMCG_MAX_HIGH_DELAY_JIFFIES`).
const SLEEP_MAX: Nanos = Nanos::from_secs(2);

/// Sleeps up to this length are left out.
const SLEEP_MIN: Nanos = Nanos::from_millis(10);

/// Number of bits after the binary point of an overage (`MEMCG_DELAY_PRECISION_SHIFT`).
const PRECISION_BITS: u32 = 20;

/// The square of an overage is divided by two to this power (`MEMCG_DELAY_SCALING_SHIFT`).
const SCALING_BITS: u32 = 14;

impl<M: Machine> Allocate<M> {
    /// Makes a task pay for the pages that it charged above a `high` line, if there are any. Called at the end of each
    /// operation of a task, where it holds no lock. An operation that pins a page for its caller leaves the call to the
    /// caller, so that the task does not sleep with the page. *May sleep.*
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

    /// Reclaims in each group from that of the task upwards that is above its `high` line. Returns the number of freed
    /// pages.
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

/// Returns how far the group, or the ancestor that is furthest above its line, is above its `high` line, as a part of
/// the line with [`PRECISION_BITS`] bits after the binary point.
fn overage<M: Machine>(groups: &Groups<M>, group: GroupId) -> u64 {
    let of = |group| {
        let high = groups.limit(group, Limit::High).max(1);
        ((groups.usage(group).saturating_sub(high)) << PRECISION_BITS) / high
    };
    groups.over_high(group).map(of).max().unwrap_or_default()
}

/// Returns how long a task sleeps that charged `pages` pages with this overage. The time grows with the square of the
/// overage: 1 % takes 4 ms for 64 pages, 5 % takes 0.15 s, and 18 % or more take 2 s.
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
