//! The trait that each ground implements to run jobs.
//!
//! [`crate::simulation`] and [`crate::real_time`] hold the implementations. [`crate`] lists them and dispatches a job
//! to its ground.

use crate::job::{Failure, Job, Order, Outcome, Runnable};
use catalogue::ground::Place;
use kit::progress::Progress;
use workloads::workload::{Resources, Workload};

/// A ground, as jobs use it.
pub trait Backend {
    /// Returns the name of the running kernel, on grounds where it and not a file decides the kernel of a column.
    #[must_use]
    fn running_kernel() -> Option<String> {
        None
    }

    /// Returns the kernel files that come nearest to the kernel of a ground that has one of its own, which is not the running one.
    #[must_use]
    fn fitting_kernels(place: &Place) -> Vec<&'static str> {
        let _ = place;
        Vec::new()
    }

    /// Returns the pages that the device under the files has room for; none if unknown or if the machine file says it.
    #[must_use]
    fn device_pages(place: &Place) -> Option<u64> {
        let _ = place;
        None
    }

    /// Checks that this computer can provide `memory_bytes` on this ground.
    ///
    /// # Errors
    /// What is missing, in words for the user.
    fn ready(place: &Place, memory_bytes: u64) -> Result<(), String>;

    /// Returns the resources that the ground offers to the workload of a job.
    ///
    /// # Errors
    /// When the ground cannot provide the machine of the job.
    fn resources(job: &Job) -> Result<Resources, Failure>;

    /// Checks a job of a workload before it runs.
    ///
    /// # Errors
    /// When its parameters are wrong, or its machine is too small.
    fn check<W: Workload>(job: &Job) -> Result<(), Failure>;

    /// Runs a workload in this process.
    ///
    /// # Errors
    /// When the ground cannot be made, the workload fails, or an invariant does not hold at the end.
    fn run<W: Workload>(job: &Job, progress: &Progress) -> Result<Outcome, Failure>;

    /// Runs a job in this process or in one of its own, as the ground requires. `order` describes the job to the other
    /// process.
    ///
    /// # Errors
    /// As for [`Backend::run`], and when the other process cannot be started or is killed.
    fn carry_out(
        workload: &dyn Runnable,
        job: &Job,
        order: &Order,
        place: &Place,
        progress: &Progress,
    ) -> Result<Outcome, Failure>;
}
