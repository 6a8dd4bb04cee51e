//! The lists of one lruvec: active and inactive, anonymous and file.

use crate::lru::{Family, ListKind};
use crate::memory::List;

/// The lists of one lruvec, and how scanning them went lately.
#[derive(Debug, Default)]
pub struct Lists {
    lists: [List; ListKind::ALL.len()],
    /// Pages scanned lately, by family: isolated for reclaim, or put on a list by a batch.
    pub recent_scanned: [u64; 2],
    /// Pages among them that were found in use, by family.
    pub recent_rotated: [u64; 2],
    /// The recent cost of taking pages of each family (`lru.family_balance`).
    costs: [u64; 2],
}

impl Lists {
    /// Adds the cost of taking pages of a family. All costs are halved once they are more than a quarter of the pages
    /// `listed`.
    pub(in crate::lru) const fn note_cost(&mut self, family: Family, cost: u64, listed: u64) {
        self.costs[family as usize] += cost;
        if self.costs[0] + self.costs[1] > listed / 4 {
            self.costs[0] /= 2;
            self.costs[1] /= 2;
        }
    }

    /// Returns the recent cost of taking pages of each family.
    pub(super) const fn costs(&self) -> [u64; 2] {
        self.costs
    }

    /// Returns the list of a kind.
    #[must_use]
    pub const fn list(&self, kind: ListKind) -> &List {
        &self.lists[kind as usize]
    }

    /// Returns the list of a kind, to be changed.
    pub const fn list_mut(&mut self, kind: ListKind) -> &mut List {
        &mut self.lists[kind as usize]
    }
}
