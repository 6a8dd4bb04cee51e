//! Lumpy reclaim: whole aligned blocks are taken off the lists, so that an order above 0 can be had without compaction
//! (mechanisms/reclaim, 12.1 and 12.2).

use super::choices::LumpyReclaim;
use super::control::COSTLY_ORDER;
use super::shrink_lruvec::reclaim_events;
use super::shrink_pages::ListCounts;
use super::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::lru::wait::STALL;
use crate::lru::{CLUSTER, Pool};
use crate::memory::Zone;
use crate::task::Task;
use machine::{FrameNumber, Machine, WaitReason};

impl<M: Machine> Reclaim<M> {
    /// Reclaims pages of a pool with the blocks that they lie in; returns the pages freed.
    ///
    /// With `LumpyReclaim::ByOrder` a costly order takes all pages of a block at every priority, and a task naps once
    /// and then waits for those that are being written; otherwise, above priority 9, a block's pages must be on the
    /// same list; below, all are taken, active and in use or not, and a task waits for those that are being written
    /// once little else is left (priority 4). With `LumpyReclaim::SameList` pages are taken from the same list alone, and
    /// waited for in the same way.
    pub(super) fn shrink_blocks(
        &self,
        task: &mut Task,
        zone: &Zone<M>,
        pool: Pool,
        pages: u64,
        control: &mut ScanControl,
    ) -> u64 {
        let is_costly = control.order > COSTLY_ORDER;
        let is_urgent = is_costly || control.priority < DEF_PRIORITY - 2;
        let (by_order, any_list, takes_blocks) = match self.choices.lumpy_reclaim {
            LumpyReclaim::ByOrder => (true, is_costly, is_costly),
            LumpyReclaim::AlignedBlocks | LumpyReclaim::Never => (false, is_urgent, is_urgent),
            LumpyReclaim::SameList => (false, false, is_urgent),
        };
        let (victims, scanned) = self.isolate_block_victims(zone, pool, pages, control.order, any_list, !by_order);
        let taken = &victims.pages;
        let (scan_event, steal_event) = reclaim_events(control);
        zone.stat.count(scan_event, scanned);
        if taken.is_empty() {
            return 0;
        }
        self.deactivate_isolated(taken);
        let mut counts = ListCounts::default();
        control.takes_blocks = takes_blocks;
        let mut survivors = self.shrink_clusters(task, zone, taken, control, &mut counts);
        let waits_from = if is_costly { Some(DEF_PRIORITY) } else { (!by_order).then_some(4) };
        let waits = !control.is_kswapd && waits_from.is_some_and(|priority| control.priority <= priority);
        if control.takes_blocks && waits && !survivors.is_empty() {
            if by_order {
                self.congestion_wait(STALL, WaitReason::UnwrittenPages);
                self.deactivate_isolated(&survivors);
            }
            control.waits_for_writeback = true;
            survivors = self.shrink_clusters(task, zone, &survivors, control, &mut counts);
            control.waits_for_writeback = false;
        }
        control.blocks_last = control.takes_blocks;
        control.takes_blocks = false;
        let freed = (taken.len() - survivors.len()) as u64;
        zone.stat.count(steal_event, freed);
        self.put_back_block_victims(zone, &victims, &survivors);
        self.stall_after_list(zone, control, &counts, taken.len() as u64);
        freed
    }

    pub(super) fn shrink_clusters(
        &self,
        task: &mut Task,
        zone: &Zone<M>,
        pages: &[FrameNumber],
        control: &mut ScanControl,
        counts: &mut ListCounts,
    ) -> Vec<FrameNumber> {
        let clusters = pages.chunks(CLUSTER as usize);
        clusters.flat_map(|cluster| self.shrink_pages(task, zone, cluster, control, counts)).collect()
    }
}
