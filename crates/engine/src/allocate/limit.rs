//! The limit of the memory cgroup that contains all tasks. A task whose request would exceed the limit first frees
//! pages (`try_charge`).
//!
//! The limit has no watermarks and no kswapd. Each task that allocates at the limit reclaims a cluster of pages
//! (`SWAP_CLUSTER_MAX`), even if much memory is free (mechanisms/modern, 6). If nothing can be freed, the task waits.
//! In Linux with cgroups of version 1, a task would then be killed. The engine kills none, and the `linux` ground turns
//! such kills off.

use super::{Allocate, OutOfMemory};
use crate::memory::{Gfp, MigrateType};
use crate::reclaim::control::COSTLY_ORDER;
use crate::reclaim::direct::Progress;
use crate::stat::Event;
use crate::task::Task;
use machine::atomic::Ordering::Relaxed;
use machine::note::Work;
use machine::{Machine, Nanos, Order, Stalled, WaitReason, Waiting};

/// Number of fruitless reclaims after which a task at a limit gives up, or sleeps (`MAX_RECLAIM_RETRIES`).
pub(super) const RETRIES_MAX: u32 = 16;

/// Interval at which a request that waits at the limit tries again to reclaim. In Linux, such a request sleeps until a
/// page is freed, which never happens if all tasks sleep. Therefore the `linux` ground, too, makes the kernel reclaim
/// some pages at this interval.
const LOOK_AGAIN: Nanos = Nanos::from_millis(10);

/// Time after which a request that gets no page reports that memory is exhausted. The `linux` ground uses the same
/// time. Reclaim knows the lengths of its lists from counters that are at most two seconds old (`lru.cgroup_counters`),
/// so these counters are updated ten times before a request fails.
const STARVED: Nanos = Nanos::from_secs(20);

impl<M: Machine> Allocate<M> {
    /// Reclaims until 2^`order` more pages fit under `limit_pages`, the limit of the memory cgroup that contains all
    /// tasks. Does nothing if the request is not charged to this cgroup: only requests for pages of files and programs
    /// are charged. The calling task may sleep, if `gfp` allows it.
    ///
    /// # Errors
    /// Fails when nothing could be freed for 20 s. Fails earlier if `gfp` allows no wait or no retry, or if the order
    /// is above 0 and [`RETRIES_MAX`] reclaims did not free enough pages.
    #[doc(alias = "mem_cgroup_charge")]
    pub(super) fn make_room_under(
        &self,
        limit_pages: u64,
        task: &mut Task,
        gfp: Gfp,
        order: Order,
    ) -> Result<(), OutOfMemory> {
        // A task that itself makes room, or that is dying, may exceed the limit.
        let is_charged = gfp.migrate == MigrateType::Movable && !task.may_use_reserve;
        let fits = || self.memory().charged_pages() + order.pages() <= limit_pages;
        if !is_charged || fits() {
            return Ok(());
        }
        self.times_at_limit.fetch_add(1, Relaxed);
        let (began, mut work) = (self.machine.now(), Work::default());
        let made = self.reclaim_under(task, gfp, order, fits, &mut work);
        self.note_slow_request(began, gfp, order, made.is_ok(), &work);
        made
    }

    fn reclaim_under(
        &self,
        task: &mut Task,
        gfp: Gfp,
        order: Order,
        fits: impl Fn() -> bool,
        work: &mut Work,
    ) -> Result<(), OutOfMemory> {
        let failed = |event| {
            self.stat.count(event, 1);
            OutOfMemory::of_memory(order)
        };
        if !gfp.wait {
            return Err(failed(Event::AllocFailed));
        }
        let _stalled = Stalled::begin(&self.machine);
        let mut retries = 0;
        let mut starves_since = None;
        while !self.machine.is_killed() {
            let progress = self.try_to_free_charged_pages(task, self.zonelist(gfp), gfp, retries > 0, work);
            if fits() {
                return Ok(());
            }
            if gfp.no_retry {
                return Err(failed(Event::AllocFailed));
            }
            self.list_for_next(progress);
            let has_helped = matches!(progress, Progress::Freed(_)) && order <= COSTLY_ORDER;
            if has_helped {
                starves_since = None;
                continue;
            }
            retries += 1;
            if retries <= RETRIES_MAX {
                continue;
            }
            if order > Order::ZERO {
                return Err(failed(Event::AllocFailed));
            }
            let now = self.machine.now();
            if now.since(*starves_since.get_or_insert(now)) >= STARVED {
                return Err(failed(Event::OutOfMemory));
            }
            self.wait_for_freed();
            if fits() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits for [`LOOK_AGAIN`]. Meanwhile other tasks may free pages, and writes of pages may end.
    #[doc(alias = "mem_cgroup_oom_synchronize")]
    fn wait_for_freed(&self) {
        let _waiting = Waiting::begin(&self.machine, WaitReason::FruitlessReclaim);
        self.machine.pause(LOOK_AGAIN);
    }
}
