//! The sizes and kinds of free blocks, and the lists that hold them (`struct free_area`).
//!
//! Description: mechanisms/reclaim, 6.

use super::list::List;
use machine::Order;

/// Number of orders: 0 to 10 (`MAX_ORDER`).
pub const MAX_ORDERS: usize = 11;

/// Order of a pageblock, which is as large as a huge page.
pub const PAGEBLOCK_ORDER: Order = Order(9);

/// Pages of a pageblock.
pub const BLOCK_PAGES: u64 = PAGEBLOCK_ORDER.pages();

/// The mobility of pages: whether they can be moved or dropped. A pageblock has one type, so that pages that cannot
/// move stay together in few pageblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MigrateType {
    /// Kernel memory.
    Unmovable,
    /// Slab caches that can be shrunk.
    Reclaimable,
    /// Page cache and anonymous pages.
    Movable,
    /// A few blocks that serve every type when nothing else is left.
    Reserve,
}

/// States whether a request may take a part of another migrate type's pageblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mixing {
    /// The request may take a part of another type's pageblock. If there is nothing else, it takes from the reserve.
    Allowed,
    /// The request takes from other types only free blocks of at least a pageblock (`ALLOC_NOFRAGMENT`).
    Avoided,
}

impl MigrateType {
    /// All types, in order: `ALL[t as usize] == t`.
    pub const ALL: [Self; 4] = [Self::Unmovable, Self::Reclaimable, Self::Movable, Self::Reserve];

    /// Number of types that have per-CPU lists: the first three.
    pub const PER_CPU: usize = 3;

    /// Returns the name that `/proc/pagetypeinfo` prints.
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
