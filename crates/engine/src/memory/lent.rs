//! Blocks that are lent to a user outside of the engine, such as a driver, a kernel module or a test.
//!
//! The engine does not know the contents of these blocks, so it can neither free nor move them. They count as kernel
//! memory, but no gauge counts them, because `/proc/vmstat` has no gauge for such pages.

use super::{Flags, Memory, Owner};
use machine::atomic::Ordering::Relaxed;
use machine::{FrameNumber, Machine, Order};

/// The page index in the descriptor of each lent page. It marks the page as lent: no other kernel page has this index.
const LENT: u32 = u32::MAX;

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

    /// Returns the number of pages in all blocks that are lent to users outside of the engine.
    pub fn lent_pages(&self) -> u64 {
        self.lent_pages.load(Relaxed)
    }
}
