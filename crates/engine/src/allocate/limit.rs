//! The limit of a memory cgroup that all tasks are in: who would exceed it makes room first (`try_charge`).
//!
//! There are no marks below the limit and no kswapd: each task that allocates at it reclaims a cluster, whatever is free
//! (mechanisms/modern, 6).

use super::{Allocate, OutOfMemory};
use crate::memory::{Gfp, MigrateType};
use crate::reclaim::control::COSTLY_ORDER;
use crate::reclaim::direct::Progress;
use crate::stat::Event;
use crate::task::Task;
use machine::atomic::Ordering::Relaxed;
use machine::note::Work;
use machine::{Machine, Order};

/// Reclaims that do not help before memory counts as exhausted (`MAX_RECLAIM_RETRIES`).
const RETRIES_MAX: u32 = 16;

impl<M: Machine> Allocate<M> {
    /// Makes room for 2^`order` pages under the limit, if they are charged: pages of files and of programs. *May sleep*, if `gfp`
    /// says so.
    ///
    /// # Errors
    /// When they are more than the limit, or nothing can be made free.
    #[doc(alias = "mem_cgroup_charge")]
    pub(super) fn make_room_under(
        &self,
        limit_pages: u64,
        task: &mut Task,
        gfp: Gfp,
        order: Order,
    ) -> Result<(), OutOfMemory> {
        // Who makes room, or is dying, may exceed it.
        let is_charged = gfp.migrate == MigrateType::Movable && !task.may_use_reserve;
        let fits = || self.charged_pages() + order.pages() <= limit_pages;
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
            OutOfMemory { order }
        };
        if !gfp.wait {
            return Err(failed(Event::AllocFailed));
        }
        let _stall = self.pressure.stall(&self.machine);
        let mut retries = 0;
        while !self.machine.is_killed() {
            let progress = self.try_to_free_charged_pages(task, self.zonelist(gfp), gfp, retries > 0, work);
            if fits() {
                return Ok(());
            }
            if gfp.no_retry {
                return Err(failed(Event::AllocFailed));
            }
            let has_helped = matches!(progress, Progress::Freed(_)) && order <= COSTLY_ORDER;
            retries += u32::from(!has_helped);
            if retries > RETRIES_MAX {
                let event = if order == Order::ZERO { Event::OutOfMemory } else { Event::AllocFailed };
                return Err(failed(event));
            }
        }
        Ok(())
    }
}
