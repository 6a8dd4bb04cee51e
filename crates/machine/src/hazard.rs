//! Hazard pointers: places in which a task publishes a frame that it is about to use, until the use ends.
//!
//! A reader with a hazard pointer changes nothing that others read, so it waits for no memory except the page's own. A
//! task that needs the page exclusively asks all readers ([`Hazards::barrier`]). Maged Michael, "Hazard Pointers: Safe
//! Memory Reclamation for Lock-Free Objects", 2004.

use crate::{FrameNumber, Machine};
use std::convert::Infallible;

/// Number of reads of which one is counted, on average, by a task that counts its reads ([`Hazards::counts_read`]).
pub const READS_PER_COUNT: u32 = 32;

/// A hazard pointer of a machine.
pub type HazardPointer<'a, M> = <<M as Machine>::Hazards as Hazards>::Pointer<'a>;

/// The hazard pointers of a machine's tasks; [`NoHazards`] where there are none.
pub trait Hazards: 'static {
    /// A place in which a frame is published.
    type Pointer<'a>: Copy
    where
        Self: 'a;

    /// Returns whether tasks have hazard pointers. Otherwise nothing is ever published.
    fn are_on(&self) -> bool;

    /// Returns whether this read of the calling task is to be counted. By chance, one read in [`READS_PER_COUNT`] is,
    /// and stands for all of them, so that counting costs little.
    fn counts_read(&self) -> bool;

    /// Publishes that the calling task is about to use a frame, until [`Hazards::withdraw`]. Returns `None` if all
    /// hazard pointers of the task are in use.
    ///
    /// For each [`Hazards::barrier`], one of two things holds: [`Hazards::published`] finds the frame after the
    /// barrier, or the calling task sees, after this call, everything that the caller of `barrier` did before it.
    fn publish(&self, frame: FrameNumber) -> Option<Self::Pointer<'_>>;

    /// Publishes as [`Hazards::publish`], if that is nearly free. After `None`, `publish` may still succeed.
    fn publish_at_once(&self, frame: FrameNumber) -> Option<Self::Pointer<'_>>;

    /// Withdraws a published pointer. Any task may withdraw it, not only the task that published it. A task that finds
    /// it withdrawn sees everything that the caller did before. For each [`Hazards::barrier`], one of two things holds:
    /// [`Hazards::published`] no longer returns the pointer, or the calling task sees, after this call, everything that
    /// the caller of `barrier` did before it.
    fn withdraw(&self, pointer: Self::Pointer<'_>);

    /// Makes all published and withdrawn pointers visible. Expensive, since it interrupts every CPU.
    fn barrier(&self);

    /// Returns the published frames, in ascending order: all frames that were published before the last
    /// [`Hazards::barrier`] and still are, and some that were published since.
    fn published(&self) -> Vec<FrameNumber>;
}

/// The hazard pointers of a machine whose tasks have none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHazards;

impl Hazards for NoHazards {
    type Pointer<'a> = Infallible;

    #[inline(always)]
    fn are_on(&self) -> bool {
        false
    }

    #[inline(always)]
    fn counts_read(&self) -> bool {
        true
    }

    #[inline(always)]
    fn publish(&self, _: FrameNumber) -> Option<Infallible> {
        None
    }

    #[inline(always)]
    fn publish_at_once(&self, _: FrameNumber) -> Option<Infallible> {
        None
    }

    #[inline(always)]
    fn withdraw(&self, pointer: Infallible) {
        match pointer {}
    }

    fn barrier(&self) {}

    fn published(&self) -> Vec<FrameNumber> {
        Vec::new()
    }
}
