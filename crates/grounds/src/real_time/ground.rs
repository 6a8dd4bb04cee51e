//! The differences between the grounds of real time.

use crate::job::{Inside, Job};
use crate::system::linux::limit::Limit;
use crate::system::linux::swap::SwapFile;
use catalogue::ground::{Ground, GroundOptions};
use std::io;
use std::path::Path;
use workloads::system::{Given, System, SystemError};

/// A ground of real time: its requirements, what it makes around a job's process, and its system. The default methods
/// are those of a ground that needs only a folder on a disk, and makes nothing.
pub trait RealGround {
    /// The ground's name.
    const GROUND: Ground;

    /// The system that a workload sees.
    type System: System;

    /// Returns the name of the running kernel, on a ground whose figures are those of the running kernel and not of a
    /// kernel file; otherwise `None`.
    #[must_use]
    fn running_kernel() -> Option<String> {
        None
    }

    /// Checks the requirements of the ground, apart from the folder. Anything made for the check is removed again.
    ///
    /// # Errors
    /// The missing requirement, in words for the user.
    fn ready(place: &GroundOptions, memory_bytes: u64) -> Result<(), String> {
        let _ = (place, memory_bytes);
        Ok(())
    }

    /// Returns the size of the swap that the ground offers a job, pages.
    #[must_use]
    fn swap_pages(job: &Job) -> u64 {
        job.swap_pages()
    }

    /// Checks that the ground can provide the memory of a job.
    ///
    /// # Errors
    /// The reason why the ground cannot provide the memory.
    fn check_memory(job: &Job) -> Result<(), String> {
        let _ = job;
        Ok(())
    }

    /// Returns the job with more resources, and words that tell the user how to request them; `None` if the ground
    /// cannot give the job more.
    #[must_use]
    fn with_more(job: &Job) -> Option<(Job, &'static str)> {
        let _ = job;
        None
    }

    /// Makes the memory limit for the process of a job; `None` if the ground needs none.
    ///
    /// # Errors
    /// The missing requirement, in words for the user.
    fn limit(place: &GroundOptions, job: &Job) -> Result<Option<Limit>, String> {
        let _ = (place, job);
        Ok(None)
    }

    /// Makes swap for the time of a job, in the job's folder; `None` if the ground needs none.
    ///
    /// # Errors
    /// When the system does not permit the swap.
    fn make_swap(place: &GroundOptions, job: &Job, folder: &Path) -> io::Result<Option<SwapFile>> {
        let _ = (place, job, folder);
        Ok(None)
    }

    /// Makes the system of a job in this process.
    ///
    /// # Errors
    /// When the system cannot be made.
    fn start(job: &Job, inside: &Inside, given: Given) -> Result<Self::System, SystemError>;

    /// Ends a system after its workload. Returns notes for readers of the report.
    ///
    /// # Errors
    /// When an invariant does not hold, or written data cannot be stored.
    fn finish(system: Self::System, job: &Job, inside: &Inside) -> Result<Vec<String>, SystemError>;
}
