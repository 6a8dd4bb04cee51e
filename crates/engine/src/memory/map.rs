//! A map of physical memory at one moment: free blocks, migrate types of pageblocks, and the use of each page.
//!
//! The functions of this module only read: they take no lock, change nothing and take no virtual time. They read
//! nothing but descriptors, because the simulator may call them between any two steps of its tasks. Pages that a task
//! has taken off a list at this moment count as [`Use::Other`]. *Description*: mechanisms/reclaim, 6.

use super::buddy::free_order;
use super::free_area::BLOCK_PAGES;
use super::{Flags, MAX_ORDERS, Memory, MigrateType, NodeId, Owner, PAGEBLOCK_ORDER, Zone};
use machine::atomic::Ordering::Relaxed;
use machine::{FrameNumber, Machine};
use std::fmt;

/// The use of a page at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The page is free. It is on a free list or a per-CPU list, or on no list yet.
    Free,
    /// The page is on an LRU list of file pages.
    File,
    /// The page is on an LRU list of anonymous pages.
    Anonymous,
    /// The page is part of a huge page, a folio of order 9.
    Huge,
    /// The page is kernel memory.
    Kernel,
    /// The page is part of a block that is lent to a user outside of the engine ([`super::Block`]).
    Lent,
    /// The page is on an LRU list, and has more references than those of its file's index, the swap cache and page
    /// tables.
    Pinned,
    /// The page was taken offline.
    Offline,
    /// The page is isolated from its LRU list, waits in a batch to be put on a list, or is held by a task.
    Other,
}

impl Use {
    /// All uses, in declaration order: `ALL[u as usize] == u`.
    pub const ALL: [Self; 9] = [
        Self::Free,
        Self::File,
        Self::Anonymous,
        Self::Huge,
        Self::Kernel,
        Self::Lent,
        Self::Pinned,
        Self::Offline,
        Self::Other,
    ];
}

/// The map of a pageblock: how many of its pages have each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMap {
    /// Migrate type of the pageblock.
    pub kind: MigrateType,
    /// Number of pages with each use; `pages[u as usize]` is the number for the use `u`. The sum is 512, or less at the
    /// end of a zone.
    pub pages: [u16; Use::ALL.len()],
}

impl BlockMap {
    /// Returns the use that more than half of the pageblock's pages have; `None` if there is no such use.
    #[must_use]
    pub fn most(&self) -> Option<Use> {
        let all: u16 = self.pages.iter().sum();
        Use::ALL.into_iter().find(|it| 2 * self.pages[*it as usize] > all)
    }
}

/// The map of a zone: its free blocks, and the maps of its pageblocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneMap {
    /// Node of the zone.
    pub node: NodeId,
    /// Name of the zone, as the kernel prints it.
    pub name: &'static str,
    /// Number of free blocks; `free[order][type]` is the number for an order and for the migrate type of the list.
    /// Pages on per-CPU lists, and frames that are on no list yet, are not counted.
    pub free: [[u64; MigrateType::ALL.len()]; MAX_ORDERS],
    /// The maps of the zone's pageblocks, from low to high frames. Pageblocks that were never present are left out.
    pub blocks: Vec<BlockMap>,
}

impl ZoneMap {
    /// Returns the number of pageblocks of a migrate type.
    #[must_use]
    pub fn pageblocks(&self, kind: MigrateType) -> u64 {
        self.blocks.iter().filter(|block| block.kind == kind).count() as u64
    }

    /// Returns the zone's line of `/proc/buddyinfo`, with the number of free blocks of each order from 0 to 10.
    #[must_use]
    pub fn buddyinfo(&self) -> String {
        let counts = self.free.iter().map(|kinds| format!("{:>6} ", kinds.iter().sum::<u64>()));
        format!("Node {}, zone {:>8} {}", self.node.0, self.name, counts.collect::<String>())
    }
}

impl fmt::Display for ZoneMap {
    /// Writes the zone's lines of `/proc/pagetypeinfo`: the numbers of free blocks of each type and order, then the
    /// numbers of pageblocks of each type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in MigrateType::ALL {
            write!(f, "Node {:>4}, zone {:>8}, type {:>12} ", self.node.0, self.name, kind.name())?;
            self.free.iter().try_for_each(|kinds| write!(f, "{:>6} ", kinds[kind as usize]))?;
            writeln!(f)?;
        }
        write!(f, "Node {}, zone {:>8} ", self.node.0, self.name)?;
        MigrateType::ALL.into_iter().try_for_each(|kind| write!(f, "{:>12} ", self.pageblocks(kind)))
    }
}

impl<M: Machine> Memory<M> {
    /// Returns the number of free blocks of each order, as the zone counts them.
    #[must_use]
    pub fn free_blocks(&self, zone: &Zone<M>) -> [u64; MAX_ORDERS] {
        zone.nr_free.each_ref().map(|blocks| blocks.load(Relaxed))
    }

    /// Returns the map of each zone, in order of the zones' numbers. A map shows how many pages of each pageblock have
    /// each use.
    #[must_use]
    pub fn map(&self) -> Vec<ZoneMap> {
        self.zones.iter().map(|zone| self.map_of(zone)).collect()
    }

    /// Returns the map of a zone, which shows how many pages of each pageblock have each use.
    #[must_use]
    pub fn map_of(&self, zone: &Zone<M>) -> ZoneMap {
        let (online, present) = (zone.online(), zone.present());
        let block = |n: u64| BlockMap {
            kind: zone.block_type(FrameNumber(zone.start.0 + (n * BLOCK_PAGES) as u32)),
            pages: Default::default(),
        };
        let mut blocks: Vec<BlockMap> = (0..present.div_ceil(BLOCK_PAGES)).map(block).collect();
        let mut free = [[0; MigrateType::ALL.len()]; MAX_ORDERS];
        let mut count = |offset: u64, of: Use| blocks[(offset / BLOCK_PAGES) as usize].pages[of as usize] += 1;
        let mut offset = 0;
        while offset < online {
            let frame = FrameNumber(zone.start.0 + offset as u32);
            let Some(order) = free_order(&self.frames, frame) else {
                count(offset, self.use_of(frame));
                offset += 1;
                continue;
            };
            let kind = self.frames[frame].free_block().1 as usize;
            // If other tasks run meanwhile, the block may have been taken since, and its word may then be any number.
            free[usize::from(order.0)][kind.min(MigrateType::ALL.len() - 1)] += 1;
            let end = (offset + order.pages()).min(online);
            (offset..end).for_each(|offset| count(offset, Use::Free));
            offset = end;
        }
        // Frames that are on no list yet are free. Their descriptors were never touched.
        (online..present).for_each(|offset| count(offset, Use::Free));
        ZoneMap { node: zone.node, name: zone.kind.name(), free, blocks }
    }

    /// Returns the use of a page that is not in a free block.
    fn use_of(&self, frame: FrameNumber) -> Use {
        let descriptor = &self.frames[frame];
        let flags = descriptor.flags();
        if flags.has(Flags::PER_CPU) {
            return Use::Free;
        }
        if flags.has(Flags::OFFLINE) {
            return Use::Offline;
        }
        if flags.has(Flags::KERNEL) {
            return if self.is_lent(frame) { Use::Lent } else { Use::Kernel };
        }
        // The head has the state of its folio.
        let folio = self.frames.folio(frame);
        if folio.order == PAGEBLOCK_ORDER {
            return Use::Huge;
        }
        let head = &self.frames[folio.head];
        let flags = head.flags();
        if !flags.has(Flags::LRU) {
            return Use::Other;
        }
        let is_file = matches!(head.owner(), Owner::File(_));
        // The mappings of a large folio have one reference together.
        let mapped = if folio.is_large() { head.mappings().min(1) } else { head.mappings() };
        let expected = mapped + u32::from(flags.has(Flags::SWAPCACHE)) + u32::from(is_file);
        match head.references() > expected {
            true => Use::Pinned,
            false if flags.has(Flags::SWAPBACKED) => Use::Anonymous,
            false => Use::File,
        }
    }
}
