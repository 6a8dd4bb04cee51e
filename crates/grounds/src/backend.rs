//! The trait that each ground (simulator, library, this computer's kernel, guest) implements to run jobs.
//!
//! [`crate::simulation`] and [`crate::real_time`] hold the implementations. [`crate`] lists them and dispatches a job
//! to its ground.

use crate::job::{Failure, Job, NamedJob, Outcome, Runnable};
use crate::load::{Load, Needs};
use catalogue::ground::{Ground, GroundOptions};
use kit::progress::Progress;
use workloads::system::System;
use workloads::workload::Resources;

/// A ground: an environment that can run jobs, such as the simulator or the kernel of this computer.
pub trait Backend {
    /// The ground's name.
    const GROUND: Ground;

    /// The system that a workload sees on this ground.
    type System: System;

    /// Returns the name of this computer's kernel if this ground runs workloads directly on that kernel; otherwise
    /// `None`.
    #[must_use]
    fn running_kernel() -> Option<String> {
        None
    }

    /// Returns the names of the kernel files whose versions are nearest to the version of the kernel image that this
    /// ground boots. The list is empty on a ground that boots no image.
    #[must_use]
    fn fitting_kernels(place: &GroundOptions) -> Vec<&'static str> {
        let _ = place;
        Vec::new()
    }

    /// Returns the number of pages that fit on the device that holds the workload's files; `None` if that is unknown,
    /// or if the machine file decides it.
    #[must_use]
    fn device_pages(place: &GroundOptions) -> Option<u64> {
        let _ = place;
        None
    }

    /// Checks that this computer can provide `memory_bytes` on this ground.
    ///
    /// # Errors
    /// When a requirement is missing. The error names it, in words for the user.
    fn ready(place: &GroundOptions, memory_bytes: u64) -> Result<(), String>;

    /// Returns the resources that the ground offers to the workload of a job.
    ///
    /// # Errors
    /// When the ground cannot provide the machine of the job.
    fn resources(job: &Job) -> Result<Resources, Failure>;

    /// Checks a job before the job runs. `needs` are those of its workload.
    ///
    /// # Errors
    /// When the job's parameters are wrong, or its machine is too small.
    fn check(job: &Job, needs: &dyn Needs) -> Result<(), Failure>;

    /// Runs a workload in this process, and returns the outcome.
    ///
    /// # Errors
    /// When the ground cannot be set up, the workload fails, or an invariant does not hold at the end.
    fn run(job: &Job, load: Load<Self::System>, progress: &Progress) -> Result<Outcome, Failure>;

    /// Runs a job in this process or in a process of its own, as the ground requires, and returns the outcome. `order`
    /// describes the job to the process that is started for it.
    ///
    /// # Errors
    /// The errors of [`Backend::run`]. Also when the other process cannot be started or is killed.
    fn carry_out(
        workload: &dyn Runnable,
        job: &Job,
        order: &NamedJob,
        place: &GroundOptions,
        progress: &Progress,
    ) -> Result<Outcome, Failure>;
}
