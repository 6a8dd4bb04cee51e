//! The ground `linux`: runs a job on the kernel of this computer, in a process that a cgroup limits, with a swap file
//! if requested.

use super::folder::Folder;
use super::ground::RealGround;
use crate::job::{Inside, Job};
use crate::system::linux::LinuxSystem;
use crate::system::linux::limit::Limit;
use crate::system::linux::swap::SwapFile;
use catalogue::ground::{Ground, GroundOptions};
use computer::counters::{Counters, free_swap_pages, release};
use figures::cgroup::Cgroup;
use std::io;
use std::path::Path;
use workloads::system::contents::Kept;
use workloads::system::{Given, SystemError, page_bytes};

/// Number of pages of the swap file that is made, before any run, to test whether the system permits a swap file.
const TRIAL_PAGES: u64 = 16;

/// The ground `linux`: workloads on this computer's kernel.
#[derive(Debug)]
pub struct Linux;

impl RealGround for Linux {
    const GROUND: Ground = Ground::Linux;

    type System = LinuxSystem;

    fn running_kernel() -> Option<String> {
        Some(release())
    }

    fn ready(place: &GroundOptions, memory_bytes: u64) -> Result<(), String> {
        if place.is_limited {
            let without = "with `--no-limit` it runs with all the memory of the computer";
            Limit::new(memory_bytes).map_err(|missing| format!("{missing}; {without}"))?;
        }
        if place.makes_swap {
            let folder = place.folder.display();
            let unusable = |error: io::Error| format!("no swap file can be used in {folder}: {error}");
            let made = Folder::new(&place.folder).map_err(unusable)?;
            // The trial swap file is dropped before its folder.
            drop(SwapFile::new(made.0.join("swap"), TRIAL_PAGES).map_err(unusable)?);
        }
        Ok(())
    }

    fn swap_pages(job: &Job) -> u64 {
        let own = if job.makes_swap { job.swap_pages() } else { 0 };
        own + free_swap_pages()
    }

    fn with_more(job: &Job) -> Option<(Job, &'static str)> {
        Some((Job { makes_swap: true, ..job.clone() }, "`--swap` gives it a swap file"))
    }

    fn limit(place: &GroundOptions, job: &Job) -> Result<Option<Limit>, String> {
        place.is_limited.then(|| Limit::new(page_bytes(job.memory_pages())).map(Limit::waiting)).transpose()
    }

    fn make_swap(place: &GroundOptions, job: &Job, folder: &Path) -> io::Result<Option<SwapFile>> {
        // The name begins with a dot, because no file of a workload may have such a name.
        place.makes_swap.then(|| SwapFile::new(folder.join(".swap"), job.swap_pages())).transpose()
    }

    fn start(job: &Job, inside: &Inside, given: Given) -> Result<LinuxSystem, SystemError> {
        LinuxSystem::new(
            inside.folder.clone(),
            job.memory_pages(),
            Counters::new(inside.cgroup.clone()),
            given,
            Kept::Bytes,
        )
    }

    fn finish(_: LinuxSystem, job: &Job, inside: &Inside) -> Result<Vec<String>, SystemError> {
        let memory_mib = page_bytes(job.memory_pages()) >> 20;
        let limit = match &inside.cgroup {
            Some(Cgroup { version, .. }) => format!("{memory_mib} MiB by a cgroup, version {}", version.number()),
            None => "not limited: nothing need leave memory".into(),
        };
        let swap = match Self::swap_pages(job) {
            0 if job.swap_pages() > 0 => ", no swap: `--swap` gives it a swap file",
            _ => "",
        };
        Ok(vec![format!("kernel {}, memory {limit}{swap}", release())])
    }
}
