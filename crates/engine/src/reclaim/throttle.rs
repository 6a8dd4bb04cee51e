//! The waits of reclaim and of its callers (mechanisms/reclaim, 17.3, 21.3, 22). The waits of Linux 5.16 and later,
//! which are divided by the reason of the wait (`VMSCAN_THROTTLE_…`), are in `throttle/by_reason.rs`.

mod by_reason;

pub(super) use by_reason::WriteWaiters;

use super::Reclaim;
use super::choices::WriteoutThrottle;
use crate::lru::CLUSTER;
use crate::lru::wait::{LOOK_AGAIN, STALL};
use crate::memory::{Gfp, NodeId, Zone, ZoneFlag};
use crate::stat::{Event, Gauge};
use crate::task::Task;
use machine::atomic::Ordering::SeqCst;
use machine::{Func, Machine, Nanos, Operation, Order, WaitReason, Waiting};

/// Time after which a task that waits for others' direct reclaim looks for free pages itself, because pages may also
/// become free without direct reclaim. The time is long, because many tasks may wait, and each of them looks.
const LOOK_FOR_PAGES: Nanos = Nanos::from_millis(100);

/// A task's right to reclaim directly. When the value is dropped, the right passes to a waiting task.
pub(crate) struct DirectTurn<'a, M: Machine> {
    /// The [`Reclaim`] whose count of direct reclaimers falls by one when this right to reclaim is dropped; `None` if
    /// the number of direct reclaimers is not limited.
    counted_by: Option<&'a Reclaim<M>>,
}

impl<M: Machine> Drop for DirectTurn<'_, M> {
    fn drop(&mut self) {
        if let Some(reclaim) = self.counted_by {
            reclaim.direct_reclaimers.fetch_sub(1, SeqCst);
            reclaim.wake_direct_waiters(1);
        }
    }
}

impl<M: Machine> Reclaim<M> {
    /// Returns the largest number of tasks that may be in direct reclaim at the same time. A result of 0 means that
    /// there is no limit.
    fn direct_reclaimers_max(&self) -> u64 {
        let by_cpus = (self.machine.cpus() as u64).checked_div(self.choices.cpus_per_direct_reclaimer);
        match self.choices.direct_reclaimers {
            0 => 0,
            least => least.max(by_cpus.unwrap_or(0)),
        }
    }

    /// Gives a task the right to reclaim directly. Returns `None` if [`Reclaim::direct_reclaimers_max`] tasks already
    /// have this right, because more tasks would scan the same few pages and take them from each other.
    pub(crate) fn try_begin_direct(&self, task: &Task, gfp: Gfp, order: Order) -> Option<DirectTurn<'_, M>> {
        let max = self.direct_reclaimers_max();
        // The limit does not apply to kernel tasks, to tasks that hold what others may wait for, and to requests for a
        // block, which freed single pages do not serve.
        if max == 0 || task.is_kernel || !gfp.fs || !gfp.io || order > Order::ZERO {
            return Some(DirectTurn { counted_by: None });
        }
        let one_more = |reclaimers| (reclaimers < max).then_some(reclaimers + 1);
        let is_counted = self.direct_reclaimers.fetch_update(SeqCst, SeqCst, one_more).is_ok();
        is_counted.then(|| DirectTurn { counted_by: Some(self) })
    }

    /// Waits until `attempt` returns a value, and returns that value. Calls `attempt` again when other tasks have ended
    /// their direct reclaim or have freed pages, and when the task is killed.
    pub(crate) fn wait_for_direct<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        let _span = self.machine.span(Func::ThrottleDirectReclaim);
        self.stat.count(Event::DirectReclaimWait, 1);
        self.direct_waiters.fetch_add(1, SeqCst);
        let found = loop {
            let ticket = self.machine.ticket(&self.direct_wait);
            if let Some(found) = attempt() {
                break found;
            }
            let deadline = self.machine.now() + LOOK_FOR_PAGES;
            let _waiting = Waiting::begin(&self.machine, WaitReason::DirectReclaimers);
            self.machine.sleep(&self.direct_wait, ticket, Some(deadline));
        };
        self.direct_waiters.fetch_sub(1, SeqCst);
        // If this task was woken to reclaim and found pages instead, the next waiting task gets its turn.
        if self.direct_reclaimers.load(SeqCst) < self.direct_reclaimers_max() {
            self.wake_direct_waiters(1);
        }
        found
    }

    /// Wakes tasks that wait for others' direct reclaim: one task for each of `pages` freed pages.
    pub(super) fn wake_direct_waiters(&self, pages: u64) {
        for _ in 0..pages.min(self.direct_waiters.load(SeqCst)) {
            self.machine.wake_first(&self.direct_wait);
        }
    }

    /// Sleeps until some device's queue stops being congested, but at most for `time`. Does not sleep if no queue is
    /// congested, or if the zone is not marked congested.
    pub fn wait_iff_congested(&self, zone: &Zone<M>, time: Nanos, reason: WaitReason) {
        let _span = self.machine.span(Func::WaitIffCongested);
        if zone.is(ZoneFlag::CONGESTED) && self.machine.is_any_congested(Operation::Write) {
            self.lru().congestion_wait(time, reason);
        } else {
            self.machine.relax();
        }
    }

    /// Sleeps until the write of some page ends that reclaim has marked to be freed, but at most for 10 ms. The limit
    /// is needed because reclaim may mark a page just after the page's write has ended. Nothing wakes the task then.
    /// Returns at once if `is_needed` returns `false`.
    pub(super) fn wait_for_written(&self, reason: WaitReason, is_needed: impl Fn() -> bool) {
        let _span = self.machine.span(Func::CongestionWait);
        let deadline = self.machine.now() + LOOK_AGAIN;
        let ticket = self.machine.ticket(&self.written);
        if is_needed() {
            let _waiting = Waiting::begin(&self.machine, reason);
            self.machine.sleep(&self.written, ticket, Some(deadline));
        }
    }

    /// Returns whether memory has any page that is under writeback, or that is dirty and whose last write did not fail.
    pub(super) fn is_any_to_be_written(&self) -> bool {
        self.writeback().dirty_pages() > 0
    }

    /// Waits while the number of pages under writeback is more than 1.1 times the dirty limit. If reclaim wrote more
    /// pages, these would only wait in queues.
    pub(super) fn throttle_vm_writeout(&self, gfp: Gfp) {
        let may_do_all = gfp.io && gfp.fs;
        let until_written = match self.choices.writeout_throttle {
            WriteoutThrottle::Never => return,
            WriteoutThrottle::AlwaysWithoutFs if !may_do_all => {
                return self.lru().congestion_wait(STALL, WaitReason::VmWriteout);
            }
            WriteoutThrottle::AlwaysWithoutFs | WriteoutThrottle::ByLimit => false,
            WriteoutThrottle::ForWriteback => true,
        };
        let _span = self.machine.span(Func::ThrottleVmWriteout);
        // With swap full, hardly any page can become dirty, and the limit may be near 0. A cluster, as one reclaimer
        // takes at a time, is no excess.
        let limit = || (self.writeback().dirty_limits().dirty * 11 / 10).max(CLUSTER);
        let is_too_much = || self.writeback_pages() > limit();
        while is_too_much() && !self.machine.is_killed() {
            if until_written {
                self.wait_for_written(WaitReason::VmWriteout, is_too_much);
            } else {
                self.lru().congestion_wait(STALL, WaitReason::VmWriteout);
            }
            if !may_do_all {
                return;
            }
        }
    }

    /// Returns whether the node has more free pages than half of the sum of its zones' min marks. Zones in which
    /// nothing can be reclaimed are left out: kswapd would never fill their reserve, and a task that waits for it would
    /// never notice that memory is exhausted.
    pub(super) fn is_reserve_ok(&self, node: NodeId) -> bool {
        let (mut free, mut min) = (0, 0);
        for id in &self.memory().node(node).zones {
            let zone = self.memory().zone(*id);
            if self.looks_hopeless(zone) {
                continue;
            }
            min += zone.min();
            free += zone.gauges.get(Gauge::NrFreePages);
        }
        min == 0 || free > min / 2
    }

    /// Puts a task that is no kernel task to sleep before direct reclaim, while the node's free pages are below half of
    /// its zones' min marks. Returns `true` if the task was killed meanwhile, so that it need not reclaim.
    pub(crate) fn throttle_direct_reclaim(&self, task: &Task, node: NodeId, gfp: Gfp) -> bool {
        if task.is_kernel || self.machine.is_killed() || !self.waits_for_reserve(node) {
            return false;
        }
        let _span = self.machine.span(Func::ThrottleDirectReclaim);
        self.stat.count(Event::PgscanDirectThrottle, 1);
        let state = self.node_state(node);
        // If the caller may not enter the file system, kswapd may depend on the caller: give up after a second.
        let deadline = (!gfp.fs).then(|| self.machine.now() + Nanos::from_secs(1));
        while self.waits_for_reserve(node)
            && !self.machine.is_killed()
            && !self.is_abandoned.load(machine::atomic::Ordering::Relaxed)
        {
            let ticket = self.machine.ticket(&state.reserve_wait);
            if !self.waits_for_reserve(node) {
                break;
            }
            state.requests.note_waiters();
            self.machine.wake(&state.kswapd_wait);
            state.waiters.fetch_add(1, machine::atomic::Ordering::Relaxed);
            // Checks again every 100 ms, because other tasks than kswapd free memory, too.
            let look_again = self.machine.now() + Nanos::from_millis(100);
            let until = deadline.map_or(look_again, |deadline| deadline.min(look_again));
            let waiting = Waiting::begin(&self.machine, WaitReason::Reserve);
            self.machine.sleep(&state.reserve_wait, ticket, Some(until));
            drop(waiting);
            state.waiters.fetch_sub(1, machine::atomic::Ordering::Relaxed);
            if deadline.is_some_and(|deadline| self.machine.now() >= deadline) {
                break;
            }
        }
        self.machine.is_killed()
    }
}
