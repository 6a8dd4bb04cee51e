//! Waits by their reason, from Linux 5.16 on (`reclaim_throttle`; mechanisms/modern, 4).
//!
//! In earlier kernels a reclaimer waited until the queue of some device was no longer congested, whatever the reason of
//! the wait. Often no event woke the reclaimer. Since Linux 5.16 each reason has its own wait. The reasons are: pages
//! that are still under writeback when reclaim meets them again, too many pages that other reclaimers have isolated
//! ([`crate::lru::Lru::wait_for_putback`]), a congested zone, and no progress.

use crate::lru::wait::{STALL, TICK};
use crate::lru::{CLUSTER, Reach};
use crate::memory::{NodeId, ZoneFlag};
use crate::reclaim::{Reclaim, ScanControl};
use crate::stat::{Event, Gauge};
use machine::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use machine::{FrameNumber, Func, Machine, WaitReason, Waiting};

/// Highest priority at which a direct reclaim is throttled for lack of progress, if it has freed nothing. A scan at
/// this priority examines half of each list.
const LOW_PRIORITY: u32 = 1;

/// Reclaimers that wait until pages of their node are written.
pub(in crate::reclaim) struct WriteWaiters<M: Machine> {
    /// The queue in which reclaimers wait until pages of the node are written.
    queue: M::WaitQueue,
    /// Number of reclaimers that wait.
    tasks: AtomicU32,
    /// Number of pages of the node whose writeback has ended since the queue was last empty, that is, since the first
    /// of the tasks that wait now began to wait (`NR_THROTTLED_WRITTEN`).
    written: AtomicU64,
}

impl<M: Machine> WriteWaiters<M> {
    /// Creates the state in which no reclaimer waits.
    pub fn new(machine: &M) -> Self {
        Self { queue: machine.wait_queue(), tasks: AtomicU32::new(0), written: AtomicU64::new(0) }
    }
}

impl<M: Machine> Reclaim<M> {
    /// Throttles the reclaimer after a pass over a zone's lists. Kswapd waits if it met pages that it had met under
    /// writeback before, and that are still under writeback: it scans faster than the disk writes. A task also waits a
    /// tick if the zone is congested.
    pub(in crate::reclaim) fn throttle_after_pass(&self, reach: Reach<'_, M>, control: &mut ScanControl) {
        let met_again = std::mem::take(&mut control.met_again);
        if met_again > 0 {
            self.throttle_for_writeback(reach.lruvec.node);
        }
        if !control.is_kswapd && reach.zone.is(ZoneFlag::CONGESTED) {
            self.throttle_for_a_tick(reach.lruvec.node);
        }
    }

    /// Throttles a direct reclaim that has ended a pass. `node` is the node of the pass's first zone. The task waits a
    /// tick (1 ms) if nothing was freed and the priority is 1 or 0. A task at a cgroup's limit does not wait, because a
    /// cgroup has no kswapd.
    pub(in crate::reclaim) fn throttle_without_progress(&self, node: NodeId, control: &ScanControl) {
        if control.reclaimed == 0 && control.priority <= LOW_PRIORITY && !control.is_cgroup {
            self.throttle_for_a_tick(node);
        }
    }

    /// Notes that the write of a folio of `pages` pages has ended, whose head is `frame`.
    pub(crate) fn note_written(&self, frame: FrameNumber, pages: u64) {
        let waiters = &self.node_state(self.memory().zone_of(frame).node).write_waiters;
        let tasks = waiters.tasks.load(Relaxed);
        if tasks == 0 {
            return;
        }
        self.stat.count(Event::NrThrottledWritten, pages);
        if waiters.written.fetch_add(pages, Relaxed) + pages >= u64::from(tasks) * CLUSTER {
            self.machine.wake(&waiters.queue);
        }
    }

    /// Sleeps until 32 pages (a cluster) of the node were written for each task that sleeps in this function, but at
    /// most 100 ms.
    #[doc(alias = "VMSCAN_THROTTLE_WRITEBACK")]
    pub fn throttle_for_writeback(&self, node: NodeId) {
        let _span = self.machine.span(Func::ReclaimThrottle);
        let waiters = &self.node_state(node).write_waiters;
        let deadline = self.machine.now() + STALL;
        let ticket = self.machine.ticket(&waiters.queue);
        if waiters.tasks.fetch_add(1, Relaxed) == 0 {
            waiters.written.store(0, Relaxed);
        }
        let waiting = Waiting::begin(&self.machine, WaitReason::UnwrittenPages);
        self.machine.sleep(&waiters.queue, ticket, Some(deadline));
        drop(waiting);
        waiters.tasks.fetch_sub(1, Relaxed);
    }

    /// Sleeps for a tick (1 ms) if that may help: if most of the node's reclaimable pages are unwritten, and its kswapd
    /// has not given up. Otherwise lets other tasks run.
    #[doc(alias = "VMSCAN_THROTTLE_NOPROGRESS")]
    #[doc(alias = "VMSCAN_THROTTLE_CONGESTED")]
    pub fn throttle_for_a_tick(&self, node: NodeId) {
        if self.has_kswapd_failed(node) || !self.is_mostly_unwritten(node) {
            return self.machine.relax();
        }
        let _span = self.machine.span(Func::ReclaimThrottle);
        let _waiting = Waiting::begin(&self.machine, WaitReason::NoProgress);
        self.machine.pause(TICK);
    }

    /// Returns whether more than half of the node's reclaimable pages are dirty or under writeback.
    fn is_mostly_unwritten(&self, node: NodeId) -> bool {
        let zones = || self.memory().node(node).zones.iter().map(|id| self.memory().zone(*id));
        let sum = |gauge| zones().map(|zone| zone.gauges.get(gauge)).sum::<u64>();
        2 * (sum(Gauge::NrDirty) + sum(Gauge::NrWriteback))
            > zones().map(|zone| self.writeback().reclaimable_pages(zone)).sum()
    }
}
