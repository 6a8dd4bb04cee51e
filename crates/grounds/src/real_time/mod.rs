//! One run on a ground of real time, from a job to its system and the outcome of its workload.
//!
//! The run has a process of its own, which is limited if its ground says so: see [`apart`]. [`ground`] holds the
//! differences between the grounds; [`host`] and [`linux`] implement it. A run on [`mod@guest`] has a machine of its own instead.
//!
//! All this needs Linux. Builds without the feature `linux` use `no_real_time.rs` instead, which refuses these grounds
//! and provides the items that other modules use.

pub mod apart;
pub(crate) mod folder;
pub mod ground;
pub mod guest;
pub mod hits;
pub mod host;
pub mod linux;

use crate::backend::Backend;
use crate::job::{Failure, Inside, Job, Order, Outcome, Runnable};
use catalogue::ground::Place;
use computer::sys;
use figures::series::{Every, Recorder, Series};
use figures::{generations, series};
use folder::Folder;
use ground::RealGround;
use kit::interrupt;
use kit::progress::Progress;
use machine::Nanos;
use std::fs::File;
use std::path::Path;
use workloads::system::{Given, System, SystemError, page_bytes};
use workloads::workload::{Found, Resources, Workload};

/// Implements every ground of real time.
impl<R: RealGround> Backend for R {
    fn running_kernel() -> Option<String> {
        R::running_kernel()
    }

    fn device_pages(place: &Place) -> Option<u64> {
        room(&place.folder)
    }

    fn ready(place: &Place, memory_bytes: u64) -> Result<(), String> {
        // What is tried out is undone, too.
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

    fn check<W: Workload>(job: &Job) -> Result<(), Failure> {
        let params: W::Params = job.params.read()?;
        let fits = |job: &Job| {
            R::check_memory(job)?;
            fits::<W>(&params, job, &resources::<R>(job))
        };
        fits(job).map_err(|why| {
            let remedy = R::with_more(job).filter(|(job, _)| fits(job).is_ok());
            let remedy = remedy.map_or_else(String::new, |(_, remedy)| format!("; {remedy}"));
            Failure(format!("ground `{}`: {why}{remedy}", R::GROUND))
        })
    }

    fn run<W: Workload>(job: &Job, progress: &Progress) -> Result<Outcome, Failure> {
        let params: W::Params = job.params.read()?;
        run::<R>(job, progress, &|system| W::run(system, &params))
    }

    fn carry_out(
        _: &dyn Runnable,
        job: &Job,
        order: &Order,
        place: &Place,
        progress: &Progress,
    ) -> Result<Outcome, Failure> {
        apart::run::<R>(order, place, job, progress)
    }
}

/// A workload with its parameters.
type Body<'a, S> = &'a dyn Fn(&S) -> Result<Found, SystemError>;

/// Runs a workload on the system of a ground. It is compiled once for each ground, not for each workload.
fn run<R: RealGround>(job: &Job, progress: &Progress, workload: Body<'_, R::System>) -> Result<Outcome, Failure> {
    let nowhere = || Failure(format!("ground `{}` runs in a process of its own only", R::GROUND));
    let inside: &Inside = job.inside.as_ref().ok_or_else(nowhere)?;
    let given = Given { seed: job.seed, scale: job.scale, progress: progress.clone() };
    let told = |error: SystemError| Failure(error.0);
    let system = R::start(job, inside, given).map_err(told)?;
    let mut outcome =
        outcome_of(&system, workload, Records { series: job.series_every, generations: None }).map_err(told)?;
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

/// Returns the pages that the device under a folder has room for.
fn room(folder: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(folder).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize) / page_bytes(1))
}

/// Checks that the device under the files has room for a workload, and the memory.
///
/// # Errors
/// The size that does not fit.
fn fits<W: Workload>(params: &W::Params, job: &Job, resources: &Resources) -> Result<(), String> {
    W::extent(params, resources, job.scale).check(job.device_pages)?;
    W::check(params, resources)
}

fn resources<R: RealGround>(job: &Job) -> Resources {
    Resources { memory_pages: job.memory_pages(), used_pages: 0, swap_pages: R::swap_pages(job) }
}

/// Intervals between records, where some are requested.
#[derive(Clone, Copy, Debug, Default)]
struct Records {
    /// Of counters.
    series: Option<Every>,
    /// Of the generations of pages, which only a guest's kernel tells.
    generations: Option<Nanos>,
}

/// Runs a workload on a system. Other tasks record counters and generations, if requested.
fn outcome_of<S: System>(system: &S, workload: Body<'_, S>, records: Records) -> Result<Outcome, SystemError> {
    let series = records.series.map(|every| system.start("series", move |system| recorded_series(system, every)));
    let generations =
        records.generations.map(|every| system.start("generations", move |system| recorded_generations(system, every)));
    let found = workload(system);
    let series = series.map(|recorder| {
        recorder.kill(system);
        recorder.join(system)
    });
    let generations = generations.map(|recorder| {
        recorder.kill(system);
        recorder.join(system)
    });
    let Found { rows, profile, report, curves, times, steps } = found?;
    let profile = (!profile.is_empty()).then_some(profile);
    let virtual_time_ns = system.now().0;
    Ok(Outcome {
        rows,
        virtual_time_ns,
        series,
        generations,
        profile,
        report,
        curves,
        times,
        steps,
        ..Outcome::default()
    })
}

/// Records counters until the task is told to end.
fn recorded_series<S: System>(system: &S, every: Every) -> Series {
    let mut recorder = Recorder::new(every);
    while !system.is_killed() {
        let mut values = system.vmstat();
        series::add_operations(&mut values, system.given().progress.operations());
        if let Some(engine) = system.engine_view() {
            series::add_zones(&mut values, engine);
        }
        recorder.push(system.now(), &values);
        system.sleep(recorder.every());
    }
    recorder.finish()
}

/// Records the generations of pages that the kernel tells, until the task is told to end.
fn recorded_generations<S: System>(system: &S, every: Nanos) -> Vec<generations::Moment> {
    let mut moments = Vec::new();
    while !system.is_killed() {
        let text = std::fs::read_to_string("/sys/kernel/debug/lru_gen_full").unwrap_or_default();
        moments.push(generations::Moment { now_ns: system.now().0, mark: None, text });
        system.sleep(every);
    }
    moments
}
