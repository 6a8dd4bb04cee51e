//! The sizes and kinds of free blocks, and the lists that hold them (`struct free_area`).
//!
//! *Description*: mechanisms/reclaim, 6.

use super::list::List;
use machine::Order;

/// Number of orders: 0 to 10 (`MAX_ORDER`).
pub const MAX_ORDERS: usize = 11;

/// Order of a pageblock, which is as large as a huge page.
pub const PAGEBLOCK_ORDER: Order = Order(9);

/// Number of pages of a pageblock.
pub const BLOCK_PAGES: u64 = PAGEBLOCK_ORDER.pages();

/// The mobility of pages: whether they can be moved or dropped. A pageblock has one type, so that pages that cannot
/// move stay together in few pageblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MigrateType {
    /// Kernel memory, which can be neither moved nor dropped.
    Unmovable,
    /// Pages of slab caches that can be shrunk.
    Reclaimable,
    /// Pages of the page cache and anonymous pages, which can be moved.
    Movable,
    /// A few pageblocks that serve requests of every type when no other free block is left.
    Reserve,
}

/// The right of a request to take a part of another migrate type's pageblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mixing {
    /// The request may take a part of another type's pageblock. If there is no other free block, it takes one from the
    /// reserve.
    Allowed,
    /// The request takes from other types only free blocks of at least a pageblock (`ALLOC_NOFRAGMENT`).
    Avoided,
}

impl MigrateType {
    /// All migrate types, in declaration order: `ALL[t as usize] == t`.
    pub const ALL: [Self; 4] = [Self::Unmovable, Self::Reclaimable, Self::Movable, Self::Reserve];

    /// Number of migrate types that have per-CPU lists: the first three of [`Self::ALL`].
    pub const PER_CPU: usize = 3;

    /// Returns the name that `/proc/pagetypeinfo` shows for this migrate type.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unmovable => "Unmovable",
            Self::Reclaimable => "Reclaimable",
            Self::Movable => "Movable",
            Self::Reserve => "Reserve",
        }
    }

    pub(super) const fn fallbacks(self) -> [Self; 2] {
        match self {
            Self::Unmovable => [Self::Reclaimable, Self::Movable],
            Self::Reclaimable => [Self::Unmovable, Self::Movable],
            Self::Movable | Self::Reserve => [Self::Reclaimable, Self::Unmovable],
        }
    }
}

/// The free lists of one zone.
#[derive(Debug, Default)]
pub struct FreeArea {
    pub(super) lists: [[List; MigrateType::ALL.len()]; MAX_ORDERS],
}

impl FreeArea {
    /// Returns the list of the free blocks of one order and type.
    #[must_use]
    pub fn list(&self, order: usize, kind: MigrateType) -> &List {
        &self.lists[order][kind as usize]
    }
}
