//! Checks whether compaction of a zone could help a request (mechanisms/reclaim, 23.1 and 23.2).

use super::Compact;
use super::choices::BlockThere;
use crate::memory::{MAX_ORDERS, MarkRights, Zone};
use machine::atomic::Ordering::Relaxed;
use machine::{Func, Machine, Order, Step};

/// The result of a check whether compaction could help a request, or of a run of compaction. The variants are in
/// ascending order: a later one means that compaction has come further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suitability {
    /// Reclaim has to come first: too few pages are free for other pages to move to, or the request would fail because
    /// memory is short, and not because free memory is in small pieces.
    Skipped,
    /// Compaction could make a block of the wanted order.
    Continue,
    /// The request would succeed without (more) compaction, or a run of compaction was stopped before it had scanned
    /// the whole zone.
    Partial,
    /// A run scanned the whole zone.
    Complete,
}

impl<M: Machine> Compact<M> {
    /// Returns the fragmentation index of free memory for a request. The index is -1000 if a block of the requested
    /// order is free. Otherwise it is near 0 if too little memory is free for the block, and near 1000 if free memory
    /// is in small pieces.
    #[must_use]
    pub fn fragmentation_index(&self, zone: &Zone<M>, order: Order) -> i64 {
        let blocks = |o: usize| zone.nr_free[o].load(Relaxed);
        let requested = usize::from(order.0);
        let free_pages: u64 = (0..MAX_ORDERS).map(|o| blocks(o) << o).sum();
        let free_blocks: u64 = (0..MAX_ORDERS).map(blocks).sum();
        let suitable: u64 = (requested..MAX_ORDERS).map(|o| blocks(o) << (o - requested)).sum();
        if free_blocks == 0 {
            0
        } else if suitable > 0 {
            -1000
        } else {
            1000 - ((1000 + free_pages * 1000 / order.pages()) / free_blocks) as i64
        }
    }

    /// Returns [`Suitability::Continue`] if compaction of the zone could help a request of order `order`. Otherwise
    /// returns the reason why compaction could not help, or is not needed.
    #[must_use]
    #[doc(alias = "compaction_suitable")]
    pub fn suitable(&self, zone: &Zone<M>, order: Order) -> Suitability {
        let _span = self.machine.span(Func::CompactionSuitable);
        self.machine.spend(Step::WatermarkCheck, 2);
        let rights = MarkRights::default();
        let mark = zone.low() + 2 * order.pages();
        if !zone.is_above(mark, Order::ZERO, 0, rights) {
            return Suitability::Skipped;
        }
        let index = self.fragmentation_index(zone, order);
        if (0..=self.choices.extfrag_threshold).contains(&index) {
            return Suitability::Skipped;
        }
        match self.choices.block_there {
            BlockThere::Partial if index == -1000 && zone.is_above(mark, order, 0, rights) => {
                return Suitability::Partial;
            }
            BlockThere::Partial | BlockThere::Compacts => {}
        }
        Suitability::Continue
    }
}
