//! Differences between the grounds of real time.

use crate::job::{Inside, Job};
use crate::system::linux::limit::Limit;
use crate::system::linux::swap::SwapFile;
use catalogue::ground::{Ground, Place};
use std::io;
use std::path::Path;
use workloads::system::{Given, System, SystemError};

/// A ground of real time: what it needs, what is made around the process of a job, and its system. By default nothing but
/// a folder on a disk is needed, and nothing made.
pub trait RealGround {
    /// Its name.
    const GROUND: Ground;

    /// The system that a workload sees.
    type System: System;

    /// The kernel that its columns are of, where no file decides it.
    #[must_use]
    fn running_kernel() -> Option<String> {
        None
    }

    /// Is what it needs beside the folder here? What is tried out is undone.
    ///
    /// # Errors
    /// What is missing, in words for the user.
    fn ready(place: &Place, memory_bytes: u64) -> Result<(), String> {
        let _ = (place, memory_bytes);
        Ok(())
    }

    /// Swap that it offers a job, pages.
    #[must_use]
    fn swap_pages(job: &Job) -> u64 {
        job.swap_pages()
    }

    /// Can it have the memory of a job?
    ///
    /// # Errors
    /// Why not.
    fn check_memory(job: &Job) -> Result<(), String> {
        let _ = job;
        Ok(())
    }

    /// The job with more than it has, and the words that tell the user how to get that; none where there is no more.
    #[must_use]
    fn with_more(job: &Job) -> Option<(Job, &'static str)> {
        let _ = job;
        None
    }

    /// Limits the process of a job.
    ///
    /// # Errors
    /// What is missing, in words for the user.
    fn limit(place: &Place, job: &Job) -> Result<Option<Limit>, String> {
        let _ = (place, job);
        Ok(None)
    }

    /// Makes swap for the time of a job, in its folder.
    ///
    /// # Errors
    /// When the system does not permit it.
    fn make_swap(place: &Place, job: &Job, folder: &Path) -> io::Result<Option<SwapFile>> {
        let _ = (place, job, folder);
        Ok(None)
    }

    /// The system of a job, in this process.
    ///
    /// # Errors
    /// When it cannot be made.
    fn start(job: &Job, inside: &Inside, given: Given) -> Result<Self::System, SystemError>;

    /// Ends a system when the workload is done; what a reader must know of it.
    ///
    /// # Errors
    /// When an invariant does not hold, or what was written cannot be kept.
    fn finish(system: Self::System, job: &Job, inside: &Inside) -> Result<Vec<String>, SystemError>;
}
