//! [`Contiguous`]: a block of memory whose pages lie one after the other.

#![allow(unsafe_code)]

use crate::error::Error;
use crate::shared::Shared;
use engine::memory::{Block, Gfp, MAX_ORDERS};
use machine::{FrameNumber, Machine, Order, PAGE_BYTES};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The allocation flags for a block of contiguous memory, which cannot be moved later (`GFP_KERNEL | __GFP_REPEAT`).
/// With these flags, reclaim continues until it has freed at least as many pages as the block has.
const CONTIGUOUS: Gfp = Gfp { repeat: true, ..Gfp::KERNEL };

/// A block of `4096 << order` contiguous bytes, which belongs to its holder alone until it is dropped. The bytes are
/// zeroes at first. The block is taken out of the [`Memory`](crate::Memory), which then holds fewer pages of files and
/// regions.
///
/// The address of a block is a multiple of the block's size, or of 2 MiB if the block is larger than that. A block of
/// order 9 takes one entry in the processor's page table, unless the system has given the memory no huge pages;
/// [`Memory::notices`](crate::Memory::notices) then says so.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// use highwater::Order;
///
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// let mut block = memory.contiguous(Order(9))?;
/// assert_eq!((block.len(), block.as_ptr() as usize % (2 << 20)), (2 << 20, 0));
/// block[1 << 20] = 7;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the block is given back at once"]
pub struct Contiguous {
    shared: Arc<Shared>,
    /// The block of frames that this value lends to the program. It is `None` only while this value is being dropped.
    block: Option<Block>,
    bytes: *mut u8,
    len: usize,
}

// SAFETY: like a `Box`, a block is memory that nothing else refers to; any thread may call the engine to give it back.
unsafe impl Send for Contiguous {}
// SAFETY: nothing else refers to the block's memory, and a shared `Contiguous` only reads it.
unsafe impl Sync for Contiguous {}

impl Contiguous {
    pub(crate) fn new(shared: &Arc<Shared>, order: Order) -> Result<Self, Error> {
        if usize::from(order.0) >= MAX_ORDERS {
            return Err(Error::OrderTooLarge { order });
        }
        let engine = &shared.engine;
        if !engine.memory().try_count_lent(order.pages()) {
            return Err(Error::OutOfMemory { state: too_many_blocks(shared, order) });
        }
        let take = || shared.with_task(None, |engine, task| engine.access().take_block(task, CONTIGUOUS, order));
        let block = take().or_else(|_| {
            // Pages in per-CPU batches for the LRU, and free pages on per-CPU lists, may have been in the way.
            // Compaction drains both kinds of lists.
            engine.compact().compact_memory();
            take()
        });
        let block = block.map_err(|error| {
            engine.memory().uncount_lent(order.pages());
            Error::OutOfMemory { state: error.to_string() }
        })?;
        let head = block.head();
        let frames = (0..order.pages() as u32).map(|n| FrameNumber(head.0 + n));
        frames.for_each(|frame| engine.machine().zero_frame(frame));
        let (bytes, len) = (engine.machine().bytes(head).cast(), order.pages() as usize * PAGE_BYTES);
        Ok(Self { shared: shared.clone(), block: Some(block), bytes, len })
    }

    /// Returns the base-2 logarithm of the block's number of pages.
    #[must_use]
    pub fn order(&self) -> Order {
        self.block.as_ref().expect("it is not being dropped").order()
    }
}

impl Deref for Contiguous {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the frames of a lent block lie one after the other in the arena, which lives as long as `shared`.
        // They hold zeroes or what was written, and nothing else uses them until the block is given back.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len) }
    }
}

impl DerefMut for Contiguous {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the frames of a lent block lie one after the other in the arena, which lives as long as `shared`, and
        // only this value accesses them until the block is given back.
        unsafe { std::slice::from_raw_parts_mut(self.bytes, self.len) }
    }
}

impl Drop for Contiguous {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            let pages = block.order().pages();
            self.shared.engine.memory().take_back(block);
            self.shared.engine.memory().uncount_lent(pages);
        }
    }
}

/// Returns words for the error that a block of order `order` would take more memory than blocks may.
#[cold]
fn too_many_blocks(shared: &Shared, order: Order) -> String {
    let memory = shared.engine.memory();
    let (fixed, managed) = (memory.fixed_pages(), memory.managed_pages());
    format!(
        "no contiguous block of order {}: page tables and contiguous blocks take {fixed} of {managed} pages, and may \
         take at most {}",
        order.0,
        memory.fixed_pages_max(managed)
    )
}

impl fmt::Debug for Contiguous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contiguous").field("order", &self.order()).finish_non_exhaustive()
    }
}
