//! The lists of one lruvec: active and inactive, anonymous and file.

use crate::lru::{Family, ListKind};
use crate::memory::List;

/// The lists of one lruvec, and counts of recently scanned and rotated pages.
#[derive(Debug, Default)]
pub struct Lists {
    lists: [List; ListKind::ALL.len()],
    /// Number of recently scanned pages of each family. Pages that a batch put on a list count as scanned.
    pub recent_scanned: [u64; 2],
    /// Number of recently scanned pages of each family that were found in use.
    pub recent_rotated: [u64; 2],
    /// The recent cost of evicting pages of each family (`lru.family_balance`).
    costs: [u64; 2],
}

impl Lists {
    /// Adds the cost of evicting pages of a family. The costs of both families are halved if their sum is more than a
    /// quarter of `listed`, the number of pages on all lists.
    pub(in crate::lru) const fn note_cost(&mut self, family: Family, cost: u64, listed: u64) {
        self.costs[family as usize] += cost;
        if self.costs[0] + self.costs[1] > listed / 4 {
            self.costs[0] /= 2;
            self.costs[1] /= 2;
        }
    }

    /// Returns the recent cost of evicting pages of each family.
    pub(super) const fn costs(&self) -> [u64; 2] {
        self.costs
    }

    /// Returns the list of a kind.
    #[must_use]
    pub const fn list(&self, kind: ListKind) -> &List {
        &self.lists[kind as usize]
    }

    /// Returns the list of a kind as a mutable reference.
    pub const fn list_mut(&mut self, kind: ListKind) -> &mut List {
        &mut self.lists[kind as usize]
    }
}
