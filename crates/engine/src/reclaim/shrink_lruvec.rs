//! Shrinking one zone: clusters of each list in turn until the targets, or enough pages, are reached
//! (mechanisms/reclaim, 12, 14, 24).

use super::choices::{
    ActiveScan, DirtyAccounting, EarlyExit, ForCompaction, IsolatedLimit, ListStall, LumpyReclaim, ZoneWriteback,
};
use super::scan_count::Targets;
use super::shrink_pages::ListCounts;
use super::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::compact::Suitability;
use crate::lru::{CLUSTER, Family, ListKind, Recent};
use crate::memory::{Zone, ZoneFlag};
use crate::stat::ZoneEvent;
use crate::task::Task;
use machine::{Func, Machine, Nanos, Order};

/// How long reclaim sleeps when it has to.
pub(super) const STALL: Nanos = Nanos::from_millis(100);

/// Orders above this are costly: nothing is promised for them.
pub const COSTLY_ORDER: Order = Order(3);

/// What a scan of a zone's lists came to, and those before it in the same reclaim.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Pages looked at.
    scanned: u64,
    /// Pages freed.
    reclaimed: u64,
    /// Pages looked at since one was freed, in earlier rounds too.
    scanned_in_vain: u64,
}

impl Round {
    fn followed_by(self, scanned: u64, reclaimed: u64) -> Self {
        let scanned_in_vain = if reclaimed == 0 { self.scanned_in_vain + scanned } else { 0 };
        Self { scanned, reclaimed, scanned_in_vain }
    }
}

impl<M: Machine> Reclaim<M> {
    /// Reclaims from one zone; again while compaction needs more (`shrink_zone`).
    pub(super) fn shrink_zone(&self, task: &mut Task, zone: &Zone<M>, control: &mut ScanControl) {
        let _span = self.machine.span(Func::ShrinkZone);
        self.note_priority(zone, control.priority);
        let mut round = Round::default();
        loop {
            let (scanned, reclaimed) = (control.scanned, control.reclaimed);
            self.shrink_lruvec(task, zone, control);
            round = round.followed_by(control.scanned - scanned, control.reclaimed - reclaimed);
            if self.machine.is_killed() || !self.should_continue(zone, control, round) {
                return;
            }
        }
    }

    fn shrink_lruvec(&self, task: &mut Task, zone: &Zone<M>, control: &mut ScanControl) {
        let _span = self.machine.span(Func::ShrinkLruvec);
        let original = self.scan_count(zone, control);
        let mut left = original;
        let mut adjusted = false;
        let mut freed = 0;
        let order = match self.choices.active_scan {
            ActiveScan::Always => {
                [ListKind::ActiveAnon, ListKind::InactiveAnon, ListKind::ActiveFile, ListKind::InactiveFile]
            }
            ActiveScan::WhenInactiveLow => ListKind::ALL,
        };
        // What is left of the active anonymous list alone does not keep the scan going.
        let goes_on = |left: &Targets| {
            [ListKind::InactiveAnon, ListKind::ActiveFile, ListKind::InactiveFile].iter().any(|k| left[*k as usize] > 0)
        };
        while goes_on(&left) && !self.machine.is_killed() {
            for kind in order {
                let pages = left[kind as usize].min(CLUSTER);
                if pages > 0 {
                    left[kind as usize] -= pages;
                    freed += self.shrink_list(task, zone, kind, pages, control);
                }
            }
            self.machine.cond_resched();
            if freed < control.to_reclaim_pages || adjusted {
                continue;
            }
            match self.choices.early_exit {
                EarlyExit::BelowDefaultPriority if control.priority < DEF_PRIORITY => break,
                EarlyExit::BelowDefaultPriority | EarlyExit::Never => {}
                EarlyExit::Proportional if !control.is_kswapd => break,
                EarlyExit::Proportional => {
                    trim_in_proportion(&original, &mut left);
                    adjusted = true;
                }
            }
        }
        control.reclaimed += freed;
        self.age_active_anon(zone, control);
        self.throttle_vm_writeout(control.gfp);
    }

    fn shrink_list(
        &self,
        task: &mut Task,
        zone: &Zone<M>,
        kind: ListKind,
        pages: u64,
        control: &mut ScanControl,
    ) -> u64 {
        if kind.is_active() {
            // Where nothing was found, there may be inactive pages enough, and all of them held.
            let is_wanted = control.doubts_marks || self.choices.active_scan == ActiveScan::Always;
            if is_wanted || self.is_inactive_low(zone, kind.family()) {
                self.shrink_active(zone, kind, pages, control);
            }
            return 0;
        }
        self.shrink_inactive(task, zone, kind.family(), pages, control)
    }

    /// Reclaims one cluster of an inactive list; returns the pages freed (`shrink_inactive_list`).
    #[doc(alias = "shrink_inactive_list")]
    fn shrink_inactive(
        &self,
        task: &mut Task,
        zone: &Zone<M>,
        family: Family,
        pages: u64,
        control: &mut ScanControl,
    ) -> u64 {
        let _span = self.machine.span(Func::ShrinkInactiveList);
        while !control.is_kswapd && self.are_too_many_isolated(zone, family, control) {
            self.wait_for_putback(|| self.are_too_many_isolated(zone, family, control));
            if self.machine.is_killed() {
                return CLUSTER;
            }
        }
        self.drain_before_scan();
        if control.order > Order::ZERO && self.choices.lumpy_reclaim != LumpyReclaim::Never {
            return self.shrink_blocks(task, zone, family, pages, control);
        }
        let (taken, scanned) = self.isolate(zone, family.inactive(), pages);
        let (scan_event, steal_event) = reclaim_events(control);
        self.stat.count_zone(scan_event, zone.kind as usize, scanned);
        if taken.is_empty() {
            return 0;
        }
        let mut counts = ListCounts::default();
        let survivors = self.shrink_pages(task, zone, &taken, control, &mut counts);
        let freed = (taken.len() - survivors.len()) as u64;
        self.stat.count_zone(steal_event, zone.kind as usize, freed);
        let recent = Recent { scanned: taken.len() as u64, rotated: 0, counts_active: true };
        self.putback(zone, family, &survivors, recent);
        self.finish_isolation(zone, family, taken.len() as u64);
        self.stall_after_list(zone, control, &counts, taken.len() as u64);
        freed
    }

    /// Would so many pages in the hands of reclaimers make a list look empty to others?
    fn are_too_many_isolated(&self, zone: &Zone<M>, family: Family, control: &ScanControl) -> bool {
        if self.choices.isolated_limit == IsolatedLimit::None {
            return false;
        }
        let inactive = self.list_pages(zone, family.inactive());
        // Callers that may not enter the file system get more room, or they would wait for those
        // that wait for them.
        let is_eighth = self.choices.isolated_limit == IsolatedLimit::Eighth && control.gfp.io && control.gfp.fs;
        let limit = if is_eighth { inactive / 8 } else { inactive };
        self.isolated_pages(zone, family) > limit
    }

    /// Marks the zone by what the list was like, and waits accordingly (mechanisms/reclaim, 12.3).
    pub(super) fn stall_after_list(&self, zone: &Zone<M>, control: &ScanControl, counts: &ListCounts, taken: u64) {
        let scaled = taken >> (DEF_PRIORITY - control.priority.min(DEF_PRIORITY));
        if self.choices.dirty_accounting == DirtyAccounting::OnSight {
            let is_full = match self.choices.zone_writeback {
                ZoneWriteback::ScaledByPriority => counts.writeback >= scaled,
                ZoneWriteback::All => counts.writeback == taken,
            };
            if counts.writeback > 0 && is_full {
                zone.set(ZoneFlag::WRITEBACK);
            }
            if counts.unqueued_dirty == taken {
                zone.set(ZoneFlag::TAIL_LRU_DIRTY);
            }
        }
        if counts.dirty > 0 && counts.dirty == counts.congested {
            zone.set(ZoneFlag::CONGESTED);
        }
        match self.choices.list_stall {
            ListStall::WhenWriteback => {
                if counts.writeback > 0 && counts.writeback >= scaled {
                    self.wait_iff_congested(zone, STALL);
                }
            }
            ListStall::WhenDirtyUnqueued => {
                if counts.unqueued_dirty == taken || counts.immediate > 0 {
                    self.congestion_wait(STALL);
                }
                if !control.is_kswapd {
                    self.wait_iff_congested(zone, STALL);
                }
            }
            ListStall::ForWriteback => {
                if counts.unqueued_dirty > 0 {
                    self.wake_flushers(counts.unqueued_dirty);
                }
                if counts.writeback + counts.immediate + counts.unqueued_dirty >= taken {
                    self.wait_for_written(|| self.is_any_to_be_written());
                }
            }
            ListStall::Never => {}
        }
    }

    /// Does compaction need more free pages from this zone (mechanisms/reclaim, 24)?
    ///
    /// mechanisms/reclaim, 24 has a request that repeats go on while a round looks at any page. But the lists may hold pages that
    /// cannot go: dirty ones that nobody writes, and anonymous ones without a swap slot where both families share a list.
    /// Each round looks at those again. So it goes on until as many pages as the zone has listed were looked at in vain.
    #[doc(alias = "should_continue_reclaim")]
    fn should_continue(&self, zone: &Zone<M>, control: &ScanControl, round: Round) -> bool {
        let order = control.order;
        let is_active = self.choices.for_compaction == ForCompaction::Obeyed
            && order > Order::ZERO
            && (order > COSTLY_ORDER || control.priority < DEF_PRIORITY - 2);
        if !is_active {
            return false;
        }
        if round.reclaimed == 0 {
            let listed: u64 = ListKind::ALL.into_iter().map(|kind| self.list_pages(zone, kind)).sum();
            if !control.gfp.repeat || round.scanned == 0 || round.scanned_in_vain >= listed {
                return false;
            }
        }
        let needed = 2 * order.pages();
        let mut inactive = self.list_pages(zone, ListKind::InactiveFile);
        if self.swap.free_slots() > 0 {
            inactive += self.list_pages(zone, ListKind::InactiveAnon);
        }
        if control.reclaimed < needed && inactive > needed {
            return true;
        }
        self.suitable(zone, order) == Suitability::Skipped
    }
}

/// Under which events a reclaim counts what it scans and frees.
pub(super) fn reclaim_events(control: &ScanControl) -> (ZoneEvent, ZoneEvent) {
    if control.is_kswapd {
        (ZoneEvent::PgscanKswapd, ZoneEvent::PgstealKswapd)
    } else {
        (ZoneEvent::PgscanDirect, ZoneEvent::PgstealDirect)
    }
}

/// Enough was freed: stop with the family that has less left, and trim the other so that both were
/// scanned in the same proportion (mechanisms/reclaim, 14.4).
fn trim_in_proportion(original: &Targets, left: &mut Targets) {
    let sum =
        |targets: &Targets, family: Family| targets[family.inactive() as usize] + targets[family.active() as usize];
    let (small, large) = if sum(left, Family::File) > sum(left, Family::Anon) {
        (Family::Anon, Family::File)
    } else {
        (Family::File, Family::Anon)
    };
    let percent_left = sum(left, small) * 100 / (sum(original, small) + 1);
    for kind in [small.inactive(), small.active()] {
        left[kind as usize] = 0;
    }
    for kind in [large.inactive(), large.active()] {
        let kind = kind as usize;
        let done = original[kind] - left[kind];
        left[kind] = (original[kind] * (100 - percent_left) / 100).saturating_sub(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimming_leaves_the_larger_family_scanned_as_far_as_the_smaller() {
        // Anonymous: 100 of 400 scanned, 300 left; file: 100 of 1000 scanned, 900 left.
        let original = [400, 0, 1000, 0];
        let mut left = [300, 0, 900, 0];
        trim_in_proportion(&original, &mut left);
        // 74 % of the smaller is left (of 401), so 26 % of the larger is to be scanned, 100 of it done.
        assert_eq!(left, [0, 0, 160, 0]);
    }

    #[test]
    fn trimming_leaves_the_larger_family_in_full_when_the_smaller_had_no_target() {
        let mut left = [0, 0, 900, 50];
        trim_in_proportion(&[0, 0, 1000, 60], &mut left);
        assert_eq!(left, [0, 0, 900, 50], "0 % of nothing is left: the larger is scanned in full");
    }
}
