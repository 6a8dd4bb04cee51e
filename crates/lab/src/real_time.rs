//! One run on a ground of real time, in this process: from a job to its system, and what its workload found.
//!
//! The process is one of its own, and limited, if its ground says so: see [`crate::apart`].

use crate::apart::limit_in_words;
use crate::ground::Ground;
use crate::interrupt;
use crate::job::{Failure, Inside, Job, Outcome, Progress};
use crate::series::{self, Every, Recorder, Series};
use crate::simulation::{before, scaled_layout};
use crate::system::host::HostSystem;
use crate::system::linux::LinuxSystem;
use crate::system::linux::counters::{Counters, free_swap_pages, release};
use crate::system::{Given, System, SystemError, page_bytes};
use crate::workload::{Found, Resources, Workload};

/// What a ground offers a workload.
#[must_use]
pub fn resources(job: &Job) -> Resources {
    let swap_pages = match job.ground {
        Ground::Linux if job.makes_swap => job.swap_pages() + free_swap_pages(),
        Ground::Linux => free_swap_pages(),
        Ground::Sim | Ground::Host => job.swap_pages(),
    };
    Resources { memory_pages: job.memory_pages(), used_pages: 0, swap_pages }
}

/// Looks at a job of a workload before it runs.
///
/// # Errors
/// When its parameters are wrong, or memory or swap too small.
pub fn check<W: Workload>(job: &Job) -> Result<(), Failure> {
    let params: W::Params = job.params.read()?;
    let fits = |job: &Job| {
        let resources = resources(job);
        if job.ground == Ground::Host {
            engine::memory::check_layout(&scaled_layout(job)).map_err(|error| error.to_string())?;
        }
        W::extent(&params, &resources, job.scale).check(job.device_pages)?;
        W::check(&params, &resources)
    };
    fits(job).map_err(|why| {
        let lacks_swap = job.ground == Ground::Linux && fits(&Job { makes_swap: true, ..job.clone() }).is_ok();
        let remedy = if lacks_swap { "; `--swap` gives it a swap file" } else { "" };
        Failure(format!("ground `{}`: {why}{remedy}", job.ground))
    })
}

/// Runs a workload here.
///
/// # Errors
/// When the ground cannot be made, the workload fails, or an invariant of the engine does not hold at the end.
pub fn run<W: Workload>(job: &Job, progress: &Progress) -> Result<Outcome, Failure> {
    let params: W::Params = job.params.read()?;
    let nowhere = || Failure(format!("ground `{}` runs in a process of its own only", job.ground));
    let Inside { folder, cgroup } = job.inside.as_ref().ok_or_else(nowhere)?;
    let given = Given { seed: job.seed, scale: job.scale, progress: progress.clone() };
    let (memory_pages, swap_pages) = (job.memory_pages(), job.swap_pages());
    let told = |error: SystemError| Failure(error.0);
    let (found, series, elapsed, mut notes) = match job.ground {
        Ground::Sim => return Err(Failure("the simulator is no ground of real time".into())),
        Ground::Host => {
            let system = HostSystem::new(folder, &job.kernel, memory_pages, swap_pages, given).map_err(told)?;
            let (found, series) = run_recorded::<W, _>(&system, &params, job.series_every).map_err(told)?;
            let elapsed = system.now();
            let mut notes = vec![format!("{} MiB in the process", page_bytes(memory_pages) >> 20)];
            notes.extend(system.notices());
            system.finish().map_err(told)?;
            (found, series, elapsed, notes)
        }
        Ground::Linux => {
            let counters = Counters::new(cgroup.clone());
            let system = LinuxSystem::new(folder.clone(), memory_pages, counters, given).map_err(told)?;
            let (found, series) = run_recorded::<W, _>(&system, &params, job.series_every).map_err(told)?;
            let limit = limit_in_words(cgroup.as_ref(), page_bytes(memory_pages));
            (found, series, system.now(), vec![format!("kernel {}, memory {limit}", release())])
        }
    };
    if interrupt::is_set() {
        return Err(Failure("interrupted".into()));
    }
    if before::pages(&job.machine.before, job.scale) > 0 {
        let what = "what the machine's [before] says that memory holds is of the ground `sim` alone";
        notes.push(format!("{what}: here memory begins empty of it"));
    }
    let Found { rows, profile, report } = found;
    let profile = (!profile.is_empty()).then_some(profile);
    Ok(Outcome { rows, virtual_time_ns: elapsed.0, series, notes, profile, report, ..Outcome::default() })
}

/// Runs a workload while another task records counters, if that is wanted.
fn run_recorded<W: Workload, S: System>(
    system: &S,
    params: &W::Params,
    every: Option<Every>,
) -> Result<(Found, Option<Series>), SystemError> {
    let recorder = every.map(|every| {
        system.start("series", move |system| {
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
        })
    });
    let found = W::run(system, params);
    let series = recorder.map(|recorder| {
        recorder.kill(system);
        recorder.join(system)
    });
    Ok((found?, series))
}
