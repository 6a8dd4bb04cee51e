//! The work of a ground on a job: the trait that each ground implements once.
//!
//! [`crate::simulation`] and [`crate::real_time`] hold the implementations; [`crate`] lists them, and takes a job
//! to that of its ground.

use crate::job::{Failure, Job, Order, Outcome, Runnable};
use catalogue::ground::Place;
use kit::progress::Progress;
use workloads::workload::{Resources, Workload};

/// A ground as a job needs it.
pub trait Backend {
    /// The kernel that columns of this ground are of, where the running kernel decides it and no file.
    #[must_use]
    fn running_kernel() -> Option<String> {
        None
    }

    /// Pages that the device under its files has room for, where that is known and the machine file does not say it.
    #[must_use]
    fn device_pages(place: &Place) -> Option<u64> {
        let _ = place;
        None
    }

    /// Is what it needs for so much memory here?
    ///
    /// # Errors
    /// What is missing, in words for the user.
    fn ready(place: &Place, memory_bytes: u64) -> Result<(), String>;

    /// The system that it offers to the workload of a job.
    ///
    /// # Errors
    /// When the machine of the job cannot be had on it.
    fn resources(job: &Job) -> Result<Resources, Failure>;

    /// Looks at a job of a workload before it runs.
    ///
    /// # Errors
    /// When its parameters are wrong, or its machine is too small.
    fn check<W: Workload>(job: &Job) -> Result<(), Failure>;

    /// Runs a workload in this process.
    ///
    /// # Errors
    /// When the ground cannot be made, the workload fails, or an invariant does not hold at the end.
    fn run<W: Workload>(job: &Job, progress: &Progress) -> Result<Outcome, Failure>;

    /// Runs a job where jobs of this ground run: in this process, or in one of its own, which gets it as `order`.
    ///
    /// # Errors
    /// As [`Backend::run`], and when a process of its own cannot be made or is killed.
    fn carry_out(
        workload: &dyn Runnable,
        job: &Job,
        order: &Order,
        place: &Place,
        progress: &Progress,
    ) -> Result<Outcome, Failure>;
}
