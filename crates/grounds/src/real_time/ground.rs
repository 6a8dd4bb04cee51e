//! The differences between `host` (the library) and `linux` (this computer's kernel), which both run in real time.

use crate::job::{Inside, Job};
use crate::system::linux::limit::Limit;
use crate::system::linux::swap::SwapFile;
use catalogue::ground::{Ground, GroundOptions};
use std::io;
use std::path::Path;
use workloads::system::{Given, System, SystemError};

/// A ground whose jobs run in real time in a process of their own. The methods check the requirements of the ground,
/// make the memory limit and the swap of a job, and make the system that the workload sees. By default a ground needs
/// only a folder on a disk, and makes no limit and no swap.
pub trait RealGround {
    /// The ground's name.
    const GROUND: Ground;

    /// The system that a workload sees.
    type System: System;

    /// Returns the name of this computer's kernel if this ground runs workloads directly on that kernel; otherwise
    /// `None`.
    #[must_use]
    fn running_kernel() -> Option<String> {
        None
    }

    /// Checks the requirements of the ground, apart from the folder for files, which the caller checks. Anything made
    /// for the check is removed again.
    ///
    /// # Errors
    /// When a requirement is missing. The error names it, in words for the user.
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
    /// When the ground cannot provide the memory. The error says why.
    fn check_memory(job: &Job) -> Result<(), String> {
        let _ = job;
        Ok(())
    }

    /// Returns a copy of the job for which the ground makes more swap, and words that tell the user how to request
    /// this. Returns `None` if the ground can make no more swap.
    #[must_use]
    fn with_more(job: &Job) -> Option<(Job, &'static str)> {
        let _ = job;
        None
    }

    /// Makes the memory limit for the process of a job, and returns it; `None` if the ground needs no limit.
    ///
    /// # Errors
    /// When a requirement is missing. The error names it, in words for the user.
    fn limit(place: &GroundOptions, job: &Job) -> Result<Option<Limit>, String> {
        let _ = (place, job);
        Ok(None)
    }

    /// Makes swap in the job's folder. The swap exists as long as the returned value. Returns `None` if the ground
    /// needs no swap.
    ///
    /// # Errors
    /// When the system does not permit the swap.
    fn make_swap(place: &GroundOptions, job: &Job, folder: &Path) -> io::Result<Option<SwapFile>> {
        let _ = (place, job, folder);
        Ok(None)
    }

    /// Makes, in this process, the system that the workload of a job sees.
    ///
    /// # Errors
    /// When the system cannot be made.
    fn start(job: &Job, inside: &Inside, given: Given) -> Result<Self::System, SystemError>;

    /// Ends a system after its workload has ended. Returns notes for readers of the report.
    ///
    /// # Errors
    /// When an invariant does not hold, or written data cannot be stored.
    fn finish(system: Self::System, job: &Job, inside: &Inside) -> Result<Vec<String>, SystemError>;
}
