//! Direct reclaim: a task that needs a page frees pages itself (`try_to_free_pages`; mechanisms/reclaim, 17).

use super::choices::{DirectNap, Hopeless, ListStall, MinScanPriority};
use super::control::COSTLY_ORDER;
use super::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::compact::Suitability;
use crate::lru::wait::STALL;
use crate::memory::{Gfp, MarkRights, Zone, ZoneFlag, ZoneId};
use crate::stat::{Event, Gauge};
use crate::task::Task;
use machine::note::Work;
use machine::{Func, Machine, Order, WaitReason};

/// The result of a direct reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// This number of pages was freed.
    Freed(u64),
    /// No page was freed, but another reclaim may free some.
    Hope,
    /// No page was freed, and in zones that are not marked hopeless (`all_unreclaimable`) no page was even scanned at
    /// any priority. Either other tasks hold all pages there, or the kernel's choices keep reclaim from the pages that
    /// no task holds.
    Blind,
    /// No page was freed, but the task has waited for a page under writeback. Another try may then free pages.
    Waited,
    /// No page was freed, and another try is not worth it.
    Nothing,
}

/// The result of a pass over the zones of a request.
#[derive(Clone, Copy, Debug, Default)]
struct ZonesPass {
    /// True if the pass left out at least one zone, because the zone already has enough free pages for compaction.
    aborted: bool,
    /// Number of pages that were scanned in zones that are not hopeless. A request with `doubts_marks` also scans
    /// hopeless zones, but pages scanned there give no reason to try again.
    scanned_in_hope: u64,
}

impl<M: Machine> Reclaim<M> {
    /// Reclaims from the zones of a zonelist until a cluster (32 pages) was freed. With `doubts_marks`, also scans
    /// zones that are marked hopeless (`all_unreclaimable`).
    pub(crate) fn try_to_free_pages(
        &self,
        task: &mut Task,
        zonelist: &[ZoneId],
        order: Order,
        gfp: Gfp,
        doubts_marks: bool,
        work: &mut Work,
    ) -> Progress {
        self.stat.count(Event::Allocstall, 1);
        self.free_pages(task, zonelist, ScanControl { doubts_marks, ..ScanControl::direct(gfp, order) }, work)
    }

    /// Reclaims until a cluster (32 pages) was freed, however much memory is free, because the memory cgroup that
    /// contains all tasks is at its limit.
    #[doc(alias = "try_to_free_mem_cgroup_pages")]
    pub(crate) fn try_to_free_charged_pages(
        &self,
        task: &mut Task,
        zonelist: &[ZoneId],
        gfp: Gfp,
        doubts_marks: bool,
        work: &mut Work,
    ) -> Progress {
        self.free_pages(task, zonelist, ScanControl { doubts_marks, ..ScanControl::cgroup(gfp) }, work)
    }

    fn free_pages(&self, task: &mut Task, zonelist: &[ZoneId], mut control: ScanControl, work: &mut Work) -> Progress {
        let _span = self.machine.span(Func::DirectReclaim);
        let had_reserve = std::mem::replace(&mut task.may_use_reserve, true);
        let freed = self.do_try_to_free_pages(task, zonelist, &mut control);
        for reach in self.lruvecs(zonelist.iter().map(|id| self.memory().zone(*id))) {
            reach.lruvec.end_at_priority(control.priority);
            self.lru().end_reclaim(reach.lruvec);
        }
        task.may_use_reserve = had_reserve;
        control.add_to(work);
        freed
    }

    fn do_try_to_free_pages(&self, task: &mut Task, zonelist: &[ZoneId], control: &mut ScanControl) -> Progress {
        let threshold = control.to_reclaim_pages + control.to_reclaim_pages / 2;
        let (mut total_scanned, mut scanned_in_hope) = (0, 0);
        let mut aborted = false;
        let mut floor = match self.choices.min_scan_priority {
            MinScanPriority::Zero => 0,
            MinScanPriority::OneUntilStuck => 1,
        };
        let mut priority = DEF_PRIORITY as i64;
        loop {
            while priority >= floor {
                control.priority = priority as u32;
                control.scanned = 0;
                let pass = self.shrink_zones(task, zonelist, control);
                aborted |= pass.aborted;
                scanned_in_hope += pass.scanned_in_hope;
                let lru_pages =
                    zonelist.iter().map(|id| self.writeback().reclaimable_pages(self.memory().zone(*id))).sum();
                control.reclaimed += self.shrink_slab(task, control.scanned, lru_pages).pages;
                total_scanned += control.scanned;
                control.scanned_in_all += control.scanned;
                if control.reclaimed >= control.to_reclaim_pages {
                    return Progress::Freed(control.reclaimed);
                }
                if self.machine.is_killed() {
                    return Progress::Hope;
                }
                if total_scanned > threshold {
                    self.writeback().wake_flushers(total_scanned);
                }
                self.direct_nap(self.memory().zone(zonelist[0]), control);
                priority -= 1;
            }
            if control.reclaimed > 0 {
                return Progress::Freed(control.reclaimed);
            }
            if !aborted && self.begins_full_walk(control) {
                priority = DEF_PRIORITY as i64;
                continue;
            }
            if control.left_active && !control.forces_aging && !aborted {
                // The active pages that were left alone may be all that there is.
                control.forces_aging = true;
                priority = DEF_PRIORITY as i64;
                continue;
            }
            if control.has_left_low && !control.breaks_low {
                control.breaks_low = true;
                priority = DEF_PRIORITY as i64;
                continue;
            }
            match self.choices.hopeless {
                Hopeless::ByScan => {}
                Hopeless::ByFailures if aborted => return Progress::Hope,
                Hopeless::ByFailures => {
                    if self.waits_for_written() {
                        return Progress::Waited;
                    }
                    match self.choices.direct_nap {
                        DirectNap::ReclaimThrottle => {}
                        DirectNap::CongestionWait | DirectNap::WaitIffCongested | DirectNap::None => {
                            self.wait_if_mostly_written(zonelist);
                        }
                    }
                    return Progress::Nothing;
                }
            }
            if aborted || !zonelist.iter().all(|id| self.looks_hopeless(self.memory().zone(*id))) {
                return if scanned_in_hope > 0 || aborted { Progress::Hope } else { Progress::Blind };
            }
            if floor == 0 {
                return if self.waits_for_written() { Progress::Waited } else { Progress::Nothing };
            }
            // The allocator is about to report that memory is exhausted, so one more pass is made, at priority 0.
            floor = 0;
            priority = 0;
        }
    }

    /// Waits after a pass over the zones, as the choice `reclaim.direct_nap` says. `first` is the first zone of the
    /// pass.
    pub(super) fn direct_nap(&self, first: &Zone<M>, control: &ScanControl) {
        let is_due = control.scanned > 0 && control.priority < DEF_PRIORITY - 2;
        match self.choices.direct_nap {
            DirectNap::CongestionWait if is_due => self.lru().congestion_wait(STALL, WaitReason::ReclaimPass),
            DirectNap::WaitIffCongested if is_due => self.wait_iff_congested(first, STALL, WaitReason::ReclaimPass),
            DirectNap::CongestionWait | DirectNap::WaitIffCongested | DirectNap::None => {}
            DirectNap::ReclaimThrottle => self.throttle_without_progress(first.node, control),
        }
    }

    /// Waits if more than half of the reclaimable pages of some zone are under writeback. Called after a reclaim that
    /// freed nothing. Linux 4.7 to 5.15 wait in this case before they count the reclaim as fruitless.
    fn wait_if_mostly_written(&self, zonelist: &[ZoneId]) {
        let mut zones = zonelist.iter().map(|id| self.memory().zone(*id));
        if zones.any(|zone| 2 * zone.gauges.get(Gauge::NrWriteback) > self.writeback().reclaimable_pages(zone)) {
            self.lru().congestion_wait(STALL, WaitReason::UnwrittenPages);
        }
    }

    /// Waits for the write of one page, if any page is under writeback or will be written (`ListStall::ForWriteback`).
    /// Returns whether the task has waited, so that another try is worth it. Without this wait, reclaim could scan all
    /// of memory six times, and give up, before a disk has written one page.
    fn waits_for_written(&self) -> bool {
        let waits = match self.choices.list_stall {
            ListStall::ForWriteback => self.is_any_to_be_written(),
            ListStall::WhenWriteback | ListStall::WhenDirtyUnqueued | ListStall::Never | ListStall::ReclaimThrottle => {
                false
            }
        };
        if waits {
            self.wait_for_written(WaitReason::UnwrittenPages, || self.is_any_to_be_written());
        }
        waits
    }

    /// Reclaims in one pass over the zones of `zonelist`, at the priority of `control`. Returns the result of the pass.
    fn shrink_zones(&self, task: &mut Task, zonelist: &[ZoneId], control: &mut ScanControl) -> ZonesPass {
        let mut pass = ZonesPass::default();
        for reach in self.lruvecs(zonelist.iter().map(|id| self.memory().zone(*id))) {
            let zone = reach.zone;
            if zone.is(ZoneFlag::ALL_UNRECLAIMABLE) && !control.doubts_marks && control.priority != DEF_PRIORITY {
                continue;
            }
            let for_compaction = self.choices.for_compaction.is_obeyed();
            if for_compaction && control.order > COSTLY_ORDER && self.is_compaction_ready(zone, control.order) {
                pass.aborted = true;
                continue;
            }
            let before = control.scanned;
            self.shrink_zone(task, reach, control);
            if !self.looks_hopeless(zone) {
                pass.scanned_in_hope += control.scanned - before;
            }
        }
        pass
    }

    /// Returns whether the zone has enough free pages for compaction (mechanisms/reclaim, 24).
    #[doc(alias = "compaction_ready")]
    fn is_compaction_ready(&self, zone: &Zone<M>, order: Order) -> bool {
        let mark = zone.high() + self.balance_gap(zone) + 2 * order.pages();
        let is_ok = zone.is_above(mark, Order::ZERO, 0, MarkRights::default());
        if self.is_deferred(zone, order) {
            return is_ok;
        }
        is_ok && self.suitable(zone, order) != Suitability::Skipped
    }
}
