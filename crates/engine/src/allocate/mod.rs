//! Allocation: the fast path, and what happens below the low mark.
//!
//! *Flow*: [`Allocate::allocate`] tries the zonelist at the low mark ([`fast`]); failing that it wakes
//! kswapd, tries at the min mark, compacts, reclaims, tries again, and in the end reports that memory is
//! exhausted ([`slow`]). *Called by* `access`. *Locks*: none of its own. *Description*: spec reclaim, 15, 16.
//!
//! Next: [`crate::access`].

pub mod choices;
pub mod fast;
pub mod slow;

pub use choices::Choices;

use crate::memory::{Gfp, Warmth};
use crate::reclaim::Reclaim;
use crate::stat::Gauge;
use crate::task::Task;
use machine::{FrameNumber, Func, Machine, Order};
use std::ops::Deref;

/// A request that could not be met: nothing is free, and nothing can be made free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Its order.
    pub order: Order,
}

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "out of memory: no block of {} is free or can be made free", self.order)
    }
}

impl std::error::Error for OutOfMemory {}

/// The floor of allocation.
pub struct Allocate<M: Machine> {
    reclaim: Reclaim<M>,
    /// The section `[allocate]` of the kernel file.
    pub choices: Choices,
}

impl<M: Machine> Deref for Allocate<M> {
    type Target = Reclaim<M>;
    #[inline]
    fn deref(&self) -> &Reclaim<M> {
        &self.reclaim
    }
}

impl<M: Machine> Allocate<M> {
    /// Nothing is allocated yet.
    pub fn new(reclaim: Reclaim<M>, choices: Choices) -> Self {
        Self { reclaim, choices }
    }

    /// Allocates 2^`order` contiguous pages, with one reference on the first. *May sleep*, if `gfp` says so.
    ///
    /// # Errors
    /// When nothing is free and nothing can be made free, within what `gfp` allows.
    #[doc(alias = "alloc_pages")]
    pub fn allocate(&self, task: &mut Task, gfp: Gfp, order: Order) -> Result<FrameNumber, OutOfMemory> {
        let _span = self.machine.span(Func::AllocPages);
        match self.allocate_fast(gfp, order) {
            Some(frame) => Ok(frame),
            None => self.allocate_slow(task, gfp, order),
        }
    }

    /// Allocates a page for the kernel's own use, counted under `gauge`.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn allocate_kernel(&self, task: &mut Task, gfp: Gfp, gauge: Gauge) -> Result<FrameNumber, OutOfMemory> {
        let frame = self.allocate(task, gfp, Order::ZERO)?;
        self.frames[frame].set(crate::memory::Flags::KERNEL);
        self.add_gauge(frame, gauge, 1);
        Ok(frame)
    }

    /// Frees a page of [`Allocate::allocate_kernel`].
    pub fn free_kernel(&self, frame: FrameNumber, gauge: Gauge) {
        self.add_gauge(frame, gauge, -1);
        self.frames[frame].clear(crate::memory::Flags::KERNEL);
        self.free_block(frame, Order::ZERO);
    }

    /// Frees a block of [`Allocate::allocate`] whose pages nobody was given.
    pub fn free_block(&self, head: FrameNumber, order: Order) {
        if self.frames[head].put() {
            self.free(head, order, Warmth::Hot);
            return;
        }
        // A lookup took the first page for the one that was in the frame before. It frees that page when
        // it sees its mistake; the rest of the block goes now, half by half.
        for half in (0..order.0).rev().map(Order) {
            self.free(FrameNumber(head.0 + half.pages() as u32), half, Warmth::Hot);
        }
    }
}
