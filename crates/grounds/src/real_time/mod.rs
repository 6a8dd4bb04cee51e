//! One run in real time, on the library (`host`) or this computer's kernel (`linux`): makes a system from a job, runs
//! the workload, and returns the outcome.
//!
//! The run has a process of its own ([`apart`]). On `linux`, a cgroup limits the memory of this process, unless the
//! user wants no limit. The trait in [`ground`] holds the differences between the library and the kernel; [`host`] and
//! [`linux`] implement the trait. A run on [`mod@guest`] has a virtual machine of its own instead.
//!
//! This module needs Linux. Builds without the feature `linux` use `no_real_time.rs` instead, which refuses jobs in
//! real time and provides the items that other modules use.

pub mod apart;
pub(crate) mod folder;
pub mod ground;
pub mod guest;
pub mod hits;
pub mod host;
pub mod linux;
mod records;

use crate::backend::Backend;
use crate::job::{Failure, Inside, Job, NamedJob, Outcome, Runnable};
use crate::load::{Body, Load, Needs};
use catalogue::ground::{Ground, GroundOptions};
use computer::sys;
use folder::Folder;
use ground::RealGround;
use kit::interrupt;
use kit::progress::Progress;
pub(crate) use records::RECORDER;
use records::Records;
use std::fs::File;
use std::path::Path;
use workloads::system::{Given, System, SystemError, page_bytes};
use workloads::workload::{Measurements, Resources};

/// Runs jobs of the grounds `host` and `linux`, each job in a process of its own.
impl<R: RealGround> Backend for R {
    const GROUND: Ground = <R as RealGround>::GROUND;

    type System = R::System;

    fn running_kernel() -> Option<String> {
        R::running_kernel()
    }

    fn device_pages(place: &GroundOptions) -> Option<u64> {
        room(&place.folder)
    }

    fn ready(place: &GroundOptions, memory_bytes: u64) -> Result<(), String> {
        // The guard keeps an interrupt from ending the process before the trial files and cgroups are removed.
        let _guard = interrupt::guard();
        let folder = place.folder.display();
        let opened = Folder::new(&place.folder).and_then(|made| sys::is_in_memory(&File::open(&made.0)?));
        match opened {
            Err(error) => return Err(format!("cannot make a folder in {folder}: {error}")),
            Ok(true) => return Err(format!("{folder} lies in memory (tmpfs): `--dir` must name a folder on a disk")),
            Ok(false) => {}
        }
        R::ready(place, memory_bytes)?;
        if interrupt::is_set() { Err("interrupted".into()) } else { Ok(()) }
    }

    fn resources(job: &Job) -> Result<Resources, Failure> {
        Ok(resources::<R>(job))
    }

    fn check(job: &Job, needs: &dyn Needs) -> Result<(), Failure> {
        let fits = |job: &Job| {
            if !job.machine.groups.is_empty() {
                return Err(
                    "the machine has control groups ([[group]], --group), which only `sim` and `guest` have".to_owned()
                );
            }
            R::check_memory(job)?;
            self::fits(needs, job, &resources::<R>(job))
        };
        fits(job).map_err(|why| {
            let remedy = R::with_more(job).filter(|(job, _)| fits(job).is_ok());
            let remedy = remedy.map_or_else(String::new, |(_, remedy)| format!("; {remedy}"));
            Failure(format!("ground `{}`: {why}{remedy}", R::GROUND))
        })
    }

    fn run(job: &Job, load: Load<R::System>, progress: &Progress) -> Result<Outcome, Failure> {
        run::<R>(job, load.body, progress)
    }

    fn carry_out(
        _: &dyn Runnable,
        job: &Job,
        order: &NamedJob,
        place: &GroundOptions,
        progress: &Progress,
    ) -> Result<Outcome, Failure> {
        apart::run::<R>(order, place, job, progress)
    }
}

/// Runs a workload on the system of a ground, and returns the outcome.
fn run<R: RealGround>(job: &Job, workload: Body<R::System>, progress: &Progress) -> Result<Outcome, Failure> {
    let nowhere = || Failure(format!("ground `{}` runs in a process of its own only", R::GROUND));
    let inside: &Inside = job.inside.as_ref().ok_or_else(nowhere)?;
    let given = Given { seed: job.seed, scale: job.scale, progress: progress.clone() };
    let told = |error: SystemError| Failure(error.0);
    let system = R::start(job, inside, given).map_err(told)?;
    let mut outcome =
        outcome_of(&system, workload, Records { series: job.series_every, ..Records::default() }).map_err(told)?;
    outcome.notes.extend(R::finish(system, job, inside).map_err(told)?);
    if interrupt::is_set() {
        return Err(Failure("interrupted".into()));
    }
    if job.machine.before.pages(job.scale) > 0 {
        outcome
            .notes
            .push("memory began without what [before] of the machine describes: only the ground `sim` has that".into());
    }
    Ok(outcome)
}

/// Returns the number of free pages of 4 KiB on the device that holds a folder; `None` if the device does not report
/// it.
fn room(folder: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(folder).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize) / page_bytes(1))
}

/// Checks that a workload's files fit on the device, and that its memory fits into memory and swap.
///
/// # Errors
/// When a size does not fit. The error names the size.
fn fits(needs: &dyn Needs, job: &Job, resources: &Resources) -> Result<(), String> {
    needs.extent(resources, job.scale).check(job.device_pages)?;
    needs.check(resources)
}

fn resources<R: RealGround>(job: &Job) -> Resources {
    Resources { memory_pages: job.memory_pages(), used_pages: 0, swap_pages: R::swap_pages(job) }
}

/// Runs a workload on a system, and returns the outcome. While the workload runs, other tasks make the requested
/// records.
fn outcome_of<S: System>(system: &S, workload: Body<S>, records: Records) -> Result<Outcome, SystemError> {
    let recorders = records.start(system);
    let found = workload(system);
    let recorded = recorders.end(system);
    let Measurements { rows, profile, report, curves, times, steps } = found?;
    let profile = (!profile.is_empty()).then_some(profile);
    let virtual_time_ns = system.now().0;
    Ok(Outcome { rows, virtual_time_ns, profile, report, curves, times, steps, ..recorded })
}
