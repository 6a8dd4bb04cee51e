//! Blocks that are lent to a user outside of the engine, such as a driver, a kernel module or a test.
//!
//! The engine does not know the contents of these blocks, so it can neither free nor move them. They count as kernel
//! memory, but no gauge counts them, because `/proc/vmstat` has no gauge for such pages.

use super::{Flags, Memory, Owner};
use crate::stat::Gauge;
use machine::atomic::Ordering::Relaxed;
use machine::{FrameNumber, Machine, Order};

/// The page index in the descriptor of each lent page. It marks the page as lent: no other kernel page has this index.
const LENT: u32 = u32::MAX;

/// Page tables and counted blocks together may take at most the managed memory divided by this number. They are never
/// reclaimed: without the limit, they could fill memory, and no page could be read in. A page-table page maps 512 pages,
/// so a program that uses all pages that it maps needs a 512th of its memory for tables. Only a program that maps much
/// memory, and uses single pages far from each other, comes near the limit by tables alone.
const FIXED_SHARE: u64 = 2;

/// A block of pages that is lent to a user outside of the engine. The user returns the block by [`Memory::take_back`];
/// a block that is only dropped is leaked.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Block {
    head: FrameNumber,
    order: Order,
}

impl Block {
    /// Returns the first frame of the block.
    #[must_use]
    pub const fn head(&self) -> FrameNumber {
        self.head
    }

    /// Returns the order of the block, which has 2^order pages.
    #[must_use]
    pub const fn order(&self) -> Order {
        self.order
    }
}

impl<M: Machine> Memory<M> {
    /// Lends an allocated block, whose first page has one reference, to a user outside of the engine.
    pub fn lend(&self, head: FrameNumber, order: Order) -> Block {
        for n in 0..order.pages() as u32 {
            let descriptor = &self.frames[FrameNumber(head.0 + n)];
            descriptor.set(Flags::KERNEL);
            descriptor.set_owner(Owner::None, LENT);
        }
        self.lent_pages.fetch_add(order.pages(), Relaxed);
        Block { head, order }
    }

    /// Takes back a lent block, and frees it.
    pub fn take_back(&self, block: Block) {
        let Block { head, order } = block;
        self.lent_pages.fetch_sub(order.pages(), Relaxed);
        for n in 0..order.pages() as u32 {
            let descriptor = &self.frames[FrameNumber(head.0 + n)];
            descriptor.clear(Flags::KERNEL);
            descriptor.set_owner(Owner::None, 0);
        }
        self.free_block(head, order);
    }

    /// Returns whether the frame belongs to a block that is lent to a user outside of the engine, such as a driver.
    pub fn is_lent(&self, frame: FrameNumber) -> bool {
        let descriptor = &self.frames[frame];
        descriptor.is(Flags::KERNEL) && descriptor.index() == LENT
    }

    /// Counts `pages` pages of a block that is to be lent, so that they take part in the limit that page tables have.
    /// Returns `false`, and counts nothing, if page tables and counted blocks would then take too much of memory. A user
    /// of the engine calls this if its own users decide how many blocks are lent. [`Memory::uncount_lent`] takes the
    /// pages back.
    #[must_use]
    pub fn try_count_lent(&self, pages: u64) -> bool {
        self.counted_pages.fetch_add(pages, Relaxed);
        let may_lend = self.fixed_pages() <= self.fixed_pages_max(self.managed_pages());
        if !may_lend {
            self.uncount_lent(pages);
        }
        may_lend
    }

    /// Takes pages back that [`Memory::try_count_lent`] has counted.
    pub fn uncount_lent(&self, pages: u64) {
        self.counted_pages.fetch_sub(pages, Relaxed);
    }

    /// Returns the number of pages that page tables and counted blocks take, none of which can be reclaimed.
    pub fn fixed_pages(&self) -> u64 {
        self.gauge(Gauge::NrPageTablePages) + self.counted_pages.load(Relaxed)
    }

    /// Returns the largest number of pages that page tables and counted blocks together may take of `managed` pages of
    /// memory.
    pub fn fixed_pages_max(&self, managed: u64) -> u64 {
        managed / FIXED_SHARE
    }

    /// Returns the number of pages in all blocks that are lent to users outside of the engine.
    pub fn lent_pages(&self) -> u64 {
        self.lent_pages.load(Relaxed)
    }
}
