//! Shrinks one lruvec: the policy isolates batches of pages until the scan ends (mechanisms/reclaim, 12, 14, 24;
//! mechanisms/multigen, 6.1 and 6.2).

use super::choices::{ForCompaction, ListStall, LumpyReclaim, WrittenPages, ZoneWriteback};
use super::control::COSTLY_ORDER;
use super::shrink_pages::ListCounts;
use super::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::compact::Suitability;
use crate::lru::wait::STALL;
use crate::lru::{Batch, CLUSTER, Demand, Entries, Isolated, Reach, Scan};
use crate::memory::{GroupId, ZoneFlag};
use crate::stat::ZoneEvent;
use crate::task::Task;
use machine::{FrameNumber, Func, Machine, Order, WaitReason};

/// The result of one scan of an lruvec's lists. `scanned_in_vain` also counts pages of earlier scans of the same
/// reclaim.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Number of pages that this scan examined.
    scanned: u64,
    /// Number of pages that this scan freed.
    reclaimed: u64,
    /// Number of pages that were scanned since a page was last freed. Pages of earlier scans of the same reclaim are
    /// included.
    scanned_in_vain: u64,
}

impl Round {
    fn followed_by(self, scanned: u64, reclaimed: u64) -> Self {
        let scanned_in_vain = if reclaimed == 0 { self.scanned_in_vain + scanned } else { 0 };
        Self { scanned, reclaimed, scanned_in_vain }
    }
}

impl<M: Machine> Reclaim<M> {
    /// Reclaims pages from the lruvecs of groups in the zones of `reach`, and repeats this while compaction needs more
    /// free pages (`shrink_zone`). If the priority is still the default, lowers it to the policy's first priority.
    pub(super) fn shrink_zone(&self, task: &mut Task, reach: Reach<'_, M>, control: &mut ScanControl) {
        let _span = self.machine.span(Func::ShrinkZone);
        let reach = self.lru().reach_in(reach, control.group);
        if control.priority == DEF_PRIORITY {
            control.priority = self.lru().first_priority(reach, &self.demand(control));
        }
        reach.lruvec.note_priority(control.priority);
        let mut round = Round::default();
        loop {
            let (scanned, reclaimed) = (control.scanned, control.reclaimed);
            self.shrink_groups(task, reach, control);
            self.stall_after_pass(reach, control);
            round = round.followed_by(control.scanned - scanned, control.reclaimed - reclaimed);
            if round.reclaimed > 0 {
                self.note_node_progress(reach, control.order);
            }
            if self.machine.is_killed() || !self.should_continue(reach, control, round) {
                return;
            }
        }
    }

    pub(super) fn shrink_lruvec(&self, task: &mut Task, reach: Reach<'_, M>, control: &mut ScanControl) {
        let _span = self.machine.span(Func::ShrinkLruvec);
        let mut scan = self.begin_counted_scan(reach, control);
        let mut freed = 0;
        let mut shrink = || {
            while let Some(batch) = self.lru().next_batch(reach, &mut scan, freed) {
                freed += self.shrink_batch(task, reach, &batch, control);
            }
        };
        match self.choices.written_pages {
            WrittenPages::AtOnce => shrink(),
            WrittenPages::Plugged => self.machine.plugged(shrink),
        }
        control.reclaimed += freed;
        control.has_got_on |= self.lru().has_got_on(freed);
        control.has_aged |= self.lru().has_aged(&scan);
        control.left_active |= self.lru().end_scan(reach, &scan);
        self.throttle_vm_writeout(control.gfp);
    }

    fn begin_counted_scan(&self, reach: Reach<'_, M>, control: &ScanControl) -> Scan {
        let _span = self.machine.span(Func::GetScanCount);
        self.lru().charge_scan_count();
        if control.priority == 0 {
            self.note_priority_zero(reach, control);
        }
        self.lru().begin_scan(reach, self.demand(control), control.order)
    }

    /// Returns the [`Demand`] with which a reclaim asks its policy for pages.
    pub(super) fn demand(&self, control: &ScanControl) -> Demand {
        let aged_order = match self.choices.lumpy_reclaim {
            LumpyReclaim::ByOrder => control.order,
            LumpyReclaim::AlignedBlocks | LumpyReclaim::SameList | LumpyReclaim::Never => Order::ZERO,
        };
        control.demand(aged_order, self.wanted_blocks(control))
    }

    /// Decides the fate of each page of a batch and carries it out. Returns the number of freed pages.
    #[doc(alias = "shrink_inactive_list")]
    #[doc(alias = "evict_folios")]
    pub(super) fn shrink_batch(
        &self,
        task: &mut Task,
        reach: Reach<'_, M>,
        batch: &Batch,
        control: &mut ScanControl,
    ) -> u64 {
        let _span = self.machine.span(Func::ShrinkInactiveList);
        if batch.is_dying {
            return CLUSTER;
        }
        self.count_scanned(reach, control, batch.counted);
        if batch.entries.is_empty() {
            // All pages that could be taken wait to be written, and perhaps no task is about to write them.
            if batch.to_write > 0 {
                self.writeback().wake_flushers(batch.to_write);
            }
            return 0;
        }
        if batch.has_blocks {
            return self.shrink_blocks(task, reach, batch, control);
        }
        let mut counts = ListCounts::default();
        let mut stay = self.shrink_clusters(task, reach, &batch.entries, control, &mut counts);
        let again = self.lru().take_out_retried(&mut stay, true);
        let taken = counts.taken;
        if !again.is_empty() {
            let mut stay_again = self.shrink_clusters(task, reach, &again, control, &mut counts);
            self.lru().take_out_retried(&mut stay_again, false);
            stay.add(&stay_again);
        }
        if batch.tells_flushers && counts.dirty.max(counts.unqueued_dirty) >= taken {
            self.writeback().wake_flushers(taken);
        }
        let freed = counts.freed;
        self.count_freed(reach, control, freed);
        self.lru().put_back_batch(reach, batch, &stay, counts.written, freed);
        self.wake_direct_waiters(freed);
        self.stall_after_list(reach, control, &counts, taken);
        freed
    }

    /// Decides the fate of pages and carries it out, a cluster (32 pages) at a time. Returns the pages that stay.
    pub(super) fn shrink_clusters(
        &self,
        task: &mut Task,
        reach: Reach<'_, M>,
        pages: &[FrameNumber],
        control: &mut ScanControl,
        counts: &mut ListCounts,
    ) -> Entries {
        let mut stay = Entries::default();
        for cluster in pages.chunks(CLUSTER as usize) {
            let (kept, split_off) = self.shrink_pages(task, reach, cluster, control, counts);
            stay.add(&kept);
            // These pages were counted as a part of their folio.
            let taken = counts.taken;
            for frames in split_off {
                let mut frames = frames.map(FrameNumber).peekable();
                while frames.peek().is_some() {
                    let cluster: Isolated = frames.by_ref().take(CLUSTER as usize).collect();
                    stay.add(&self.shrink_pages(task, reach, &cluster, control, counts).0);
                }
            }
            counts.taken = taken;
        }
        stay
    }

    /// Called when `taken` pages of a list were scanned. Sets flags of the zone, such as `CONGESTED`, by the numbers of
    /// scanned pages in each state (`counts`). Then waits, if the choice `reclaim.list_stall` demands it
    /// (mechanisms/reclaim, 12.3).
    pub(super) fn stall_after_list(
        &self,
        reach: Reach<'_, M>,
        control: &mut ScanControl,
        counts: &ListCounts,
        taken: u64,
    ) {
        let scaled = taken >> (DEF_PRIORITY - control.priority.min(DEF_PRIORITY));
        if self.choices.dirty_accounting.is_on_sight() {
            let is_full = match self.choices.zone_writeback {
                ZoneWriteback::ScaledByPriority => counts.writeback >= scaled,
                ZoneWriteback::All => counts.writeback == taken,
            };
            if counts.writeback > 0 && is_full {
                reach.zone.set(ZoneFlag::WRITEBACK);
            }
            if counts.unqueued_dirty == taken {
                reach.zone.set(ZoneFlag::TAIL_LRU_DIRTY);
            }
        }
        if counts.dirty > 0 && counts.dirty == counts.congested {
            reach.zone.set(ZoneFlag::CONGESTED);
        }
        match self.choices.list_stall {
            ListStall::WhenWriteback => {
                if counts.writeback > 0 && counts.writeback >= scaled {
                    self.wait_iff_congested(reach.zone, STALL, WaitReason::UnwrittenPages);
                }
            }
            ListStall::WhenDirtyUnqueued => {
                if counts.unqueued_dirty == taken || counts.immediate > 0 {
                    self.lru().congestion_wait(STALL, WaitReason::UnwrittenPages);
                }
                if !control.is_kswapd {
                    self.wait_iff_congested(reach.zone, STALL, WaitReason::UnwrittenPages);
                }
            }
            ListStall::ForWriteback => {
                if counts.unqueued_dirty > 0 {
                    self.writeback().wake_flushers(counts.unqueued_dirty);
                }
                if counts.writeback + counts.immediate + counts.unqueued_dirty >= taken {
                    self.wait_for_written(WaitReason::UnwrittenPages, || self.is_any_to_be_written());
                }
            }
            ListStall::ReclaimThrottle => control.met_again += counts.immediate,
            ListStall::Never => {}
        }
    }

    /// If the choice `reclaim.list_stall` is `ListStall::ReclaimThrottle`, waits after a pass over all lists of an
    /// lruvec. With the choice's other values, reclaim does not wait here: it waits after each list, or never.
    fn stall_after_pass(&self, reach: Reach<'_, M>, control: &mut ScanControl) {
        match self.choices.list_stall {
            ListStall::ReclaimThrottle => self.throttle_after_pass(reach, control),
            ListStall::WhenWriteback | ListStall::WhenDirtyUnqueued | ListStall::ForWriteback | ListStall::Never => {}
        }
    }

    /// Returns whether compaction needs more free pages from this lruvec (mechanisms/reclaim, 24).
    ///
    /// In Linux, a request with `__GFP_REPEAT` goes on while a round scans any page. But the lists may hold pages that
    /// cannot leave: dirty pages that no task writes, and anonymous pages without a swap slot if both families share a
    /// list. Each round scans such pages again. So here the request ends once as many pages were scanned without
    /// success as the zone has on lists.
    #[doc(alias = "should_continue_reclaim")]
    fn should_continue(&self, reach: Reach<'_, M>, control: &ScanControl, round: Round) -> bool {
        let order = control.order;
        let is_active = self.choices.for_compaction.is_obeyed()
            && order > Order::ZERO
            && (order > COSTLY_ORDER || control.priority < DEF_PRIORITY - 2);
        if !is_active {
            return false;
        }
        let may_look_on =
            || control.gfp.repeat && round.scanned > 0 && round.scanned_in_vain < self.lru().listed_pages_of_all(reach);
        if round.reclaimed == 0 && !may_look_on() {
            return false;
        }
        match self.choices.lumpy_reclaim {
            LumpyReclaim::SameList if !control.blocks_last => return false,
            LumpyReclaim::SameList | LumpyReclaim::ByOrder | LumpyReclaim::AlignedBlocks | LumpyReclaim::Never => {}
        }
        let needed = match self.choices.for_compaction {
            ForCompaction::ScaledByFailures if self.has_failed(reach.zone, order) => {
                (2 * order.pages()) << self.defer_shift(reach.zone)
            }
            ForCompaction::ScaledByFailures | ForCompaction::Obeyed | ForCompaction::Ignored => 2 * order.pages(),
        };
        if control.reclaimed < needed && self.lru().victim_pages(reach) > needed {
            return true;
        }
        self.suitable(reach.zone, order) == Suitability::Skipped
    }
}

/// Counters of scanned and of freed pages. They are the counters of kswapd or those of direct reclaim. A reclaim for one
/// group counts in the lruvecs of groups (`memory.stat`), and in the zone (`/proc/vmstat`) only if
/// `reclaim.group_counts` says so.
impl<M: Machine> Reclaim<M> {
    /// Counts the pages that a reclaim has scanned.
    fn count_scanned(&self, reach: Reach<'_, M>, control: &ScanControl, pages: u64) {
        let event = if control.is_kswapd { ZoneEvent::PgscanKswapd } else { ZoneEvent::PgscanDirect };
        self.count_reclaim(reach, control, event, pages);
    }

    /// Counts the pages that a reclaim has freed.
    pub(super) fn count_freed(&self, reach: Reach<'_, M>, control: &ScanControl, pages: u64) {
        let event = if control.is_kswapd { ZoneEvent::PgstealKswapd } else { ZoneEvent::PgstealDirect };
        self.count_reclaim(reach, control, event, pages);
    }

    fn count_reclaim(&self, reach: Reach<'_, M>, control: &ScanControl, event: ZoneEvent, pages: u64) {
        if control.group == GroupId::ROOT || self.choices.group_counts.are_of_machine() {
            self.lru().count_in(reach.lruvec, reach.zone, event, pages);
        } else {
            self.lru().count_in_groups(reach.lruvec, event, pages);
        }
    }
}
