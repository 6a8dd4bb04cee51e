//! Hazard pointers: places in which a task publishes a frame that it is about to use, until the use ends.
//!
//! A reader with a hazard pointer changes no cache line that other tasks use, so it never waits for such a line. The
//! cost falls on a task that needs a page exclusively: it must look at the hazard pointers of all tasks
//! ([`Hazards::barrier`], [`Hazards::published`]). Source: Maged Michael, "Hazard Pointers: Safe Memory Reclamation for
//! Lock-Free Objects", 2004.

use crate::{FrameNumber, Machine};
use std::convert::Infallible;

/// Average number of page reads from one counted read to the next; see [`Hazards::counts_read`].
pub const READS_PER_COUNT: u32 = 32;

/// The type of the hazard pointers of the machine `M`.
pub type HazardPointer<'a, M> = <<M as Machine>::Hazards as Hazards>::Pointer<'a>;

/// The hazard pointers of a machine's tasks. Machines without hazard pointers use [`NoHazards`].
pub trait Hazards: 'static {
    /// A hazard pointer that publishes one frame, until [`Hazards::withdraw`] is called.
    type Pointer<'a>: Copy
    where
        Self: 'a;

    /// Returns whether tasks have hazard pointers. If they have none, no frame is ever published.
    fn are_on(&self) -> bool;

    /// Returns whether the calling task is to count the page read that it is now making. To save time, only one read in
    /// [`READS_PER_COUNT`], chosen at random, is counted, and it stands for [`READS_PER_COUNT`] reads.
    fn counts_read(&self) -> bool;

    /// Publishes a frame that the calling task is about to use, in a hazard pointer, until [`Hazards::withdraw`] is
    /// called. Returns `None` if all hazard pointers of the task are in use.
    ///
    /// For each call of [`Hazards::barrier`], one of two things holds. Either [`Hazards::published`], called after the
    /// barrier, finds the frame; or the calling task, after `publish`, sees everything that the caller of `barrier` had
    /// done before the barrier.
    fn publish(&self, frame: FrameNumber) -> Option<Self::Pointer<'_>>;

    /// Publishes a frame as [`Hazards::publish`] does, but returns `None` if this would take more than a few
    /// instructions. After `None`, [`Hazards::publish`] may still succeed.
    fn publish_at_once(&self, frame: FrameNumber) -> Option<Self::Pointer<'_>>;

    /// Withdraws the frame that is published in `pointer`. Any task may call this, not only the task that published the
    /// frame.
    ///
    /// A task that finds the frame withdrawn sees everything that the caller did before `withdraw`. For each call of
    /// [`Hazards::barrier`], one of two things holds. Either [`Hazards::published`], called after the barrier, does not
    /// return the frame; or the calling task, after `withdraw`, sees everything that the caller of `barrier` had done
    /// before the barrier.
    fn withdraw(&self, pointer: Self::Pointer<'_>);

    /// Makes every earlier publication and withdrawal, by any task, visible to the caller. The call is expensive: on a
    /// machine of real threads, it interrupts every CPU.
    fn barrier(&self);

    /// Returns published frames, in ascending order. The list has every frame that was published before the last
    /// [`Hazards::barrier`] and has not been withdrawn. It may also have frames that were published later.
    fn published(&self) -> Vec<FrameNumber>;
}

/// An implementation of [`Hazards`] for machines without hazard pointers: no frame is ever published.
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
