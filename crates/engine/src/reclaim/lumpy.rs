//! Lumpy reclaim: whole aligned blocks are taken off the lists, so that blocks of an order above 0 become free without
//! compaction (mechanisms/reclaim, 12.1 and 12.2).

use super::choices::LumpyReclaim;
use super::control::COSTLY_ORDER;
use super::shrink_pages::ListCounts;
use super::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::lru::wait::STALL;
use crate::lru::{Batch, Blocks, Reach};
use crate::task::Task;
use machine::{Machine, Order, WaitReason};

impl<M: Machine> Reclaim<M> {
    /// Returns how a reclaim takes pages in aligned blocks; `None` if it takes single pages.
    ///
    /// With each page at the tail of a list, reclaim takes other pages of the page's aligned block: either only pages
    /// on the same list, or pages on any list. With `LumpyReclaim::AlignedBlocks`, it takes pages on any list at
    /// priorities below 10, and for a costly order at every priority. With `LumpyReclaim::ByOrder`, it does so only for
    /// a costly order; with `LumpyReclaim::SameList`, never.
    pub(super) fn wanted_blocks(&self, control: &ScanControl) -> Option<Blocks> {
        let order = control.order;
        if order == Order::ZERO {
            return None;
        }
        let (any_list, ends_at_gap) = match self.choices.lumpy_reclaim {
            LumpyReclaim::ByOrder => (order > COSTLY_ORDER, false),
            LumpyReclaim::AlignedBlocks => (is_urgent(control), true),
            LumpyReclaim::SameList => (false, true),
            LumpyReclaim::Never => return None,
        };
        Some(Blocks { order, any_list, ends_at_gap })
    }

    /// Frees or puts back a batch of isolated pages: pages from the tail of a list, each with the other pages of its
    /// aligned block. Returns the number of freed pages.
    ///
    /// Recently used pages are freed, too, at priorities below 10, and for a costly order at every priority. With
    /// `LumpyReclaim::ByOrder` they are freed only for a costly order; with `LumpyReclaim::SameList`, never. If pages
    /// are left, a task in direct reclaim tries once more, and then waits for pages under writeback. It does so at
    /// priority 4 and below, and for a costly order at every priority. With `LumpyReclaim::ByOrder`, it does so only
    /// for a costly order, and sleeps for up to 100 ms before the second try. Kswapd does not wait.
    pub(super) fn shrink_blocks(
        &self,
        task: &mut Task,
        reach: Reach<'_, M>,
        batch: &Batch,
        control: &mut ScanControl,
    ) -> u64 {
        let is_costly = control.order > COSTLY_ORDER;
        let (by_order, takes_blocks) = match self.choices.lumpy_reclaim {
            LumpyReclaim::ByOrder => (true, is_costly),
            LumpyReclaim::AlignedBlocks | LumpyReclaim::SameList | LumpyReclaim::Never => (false, is_urgent(control)),
        };
        let taken = &batch.entries;
        self.lru().deactivate_isolated(taken);
        let mut counts = ListCounts::default();
        control.takes_blocks = takes_blocks;
        let mut survivors = self.shrink_clusters(task, reach, taken, control, &mut counts);
        let taken = counts.taken;
        let waits_from = if is_costly { Some(DEF_PRIORITY) } else { (!by_order).then_some(4) };
        let waits = !control.is_kswapd && waits_from.is_some_and(|priority| control.priority <= priority);
        if control.takes_blocks && waits && !survivors.is_empty() {
            if by_order {
                self.lru().congestion_wait(STALL, WaitReason::UnwrittenPages);
                self.lru().deactivate_isolated(&survivors);
            }
            control.waits_for_writeback = true;
            survivors = self.shrink_clusters(task, reach, &survivors, control, &mut counts);
            control.waits_for_writeback = false;
        }
        control.blocks_last = control.takes_blocks;
        control.takes_blocks = false;
        let freed = counts.freed;
        self.count_freed(reach, control, freed);
        self.lru().put_back_blocks(reach, batch, &survivors);
        self.stall_after_list(reach, control, &counts, taken);
        freed
    }
}

/// Returns whether a reclaim should also take pages that are in use, to make a free block. This is so at every priority
/// if the order is costly, and for every order at priorities below 10.
fn is_urgent(control: &ScanControl) -> bool {
    control.order > COSTLY_ORDER || control.priority < DEF_PRIORITY - 2
}
