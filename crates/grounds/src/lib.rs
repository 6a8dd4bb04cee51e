//! Runs each workload on each ground: on a simulated machine (`sim`), the library (`host`), this computer's kernel
//! (`linux`), and a kernel in a virtual machine (`guest`). This module maps a [`Ground`] to its [`Backend`], and makes
//! each workload [`Runnable`] on all grounds.
//!
//! The engine and the workloads are generic. They are instantiated in this crate and in no crate above it, because each
//! crate that instantiates them compiles them anew. For this reason [`swarm`], which runs the engine in random worlds,
//! is a module of this crate, and the scenarios that test the engine on a simulated machine are in its folder `tests`.

pub mod backend;
pub mod groups;
pub mod job;
pub mod kernel_log;
pub mod load;
#[cfg(feature = "linux")]
pub mod real_time;
#[cfg(not(feature = "linux"))]
#[path = "no_real_time.rs"]
pub mod real_time;
pub mod simulation;
pub mod spends;
pub mod swarm;
pub mod system;

use crate::backend::Backend;
use crate::job::{Described, Failure, Job, NamedJob, Outcome, Runnable};
use crate::load::Load;
use crate::real_time::guest::Guest;
use crate::real_time::host::Host;
use crate::real_time::linux::Linux;
use crate::simulation::Simulated;
use catalogue::ground::{Ground, GroundOptions};
use figures::figure::RowName;
use kit::progress::Progress;
use placed::Node;
use workloads::extent::Extent;
use workloads::system::System;
use workloads::workload::{Resources, Workload};

/// Evaluates the expression `$value`, in which `$backend` stands for the type that implements `Backend` for the ground
/// `$ground`.
macro_rules! on {
    ($ground:expr, $backend:ident => $value:expr) => {
        match $ground {
            Ground::Sim => {
                type $backend = Simulated;
                $value
            }
            Ground::Host => {
                type $backend = Host;
                $value
            }
            Ground::Linux => {
                type $backend = Linux;
                $value
            }
            Ground::Guest => {
                type $backend = Guest;
                $value
            }
        }
    };
}

/// Returns the name of this computer's kernel if `ground` runs workloads directly on that kernel; otherwise `None`.
#[must_use]
pub fn running_kernel(ground: Ground) -> Option<String> {
    on!(ground, B => B::running_kernel())
}

/// Returns the names of the kernel files whose versions are nearest to that of the kernel image that a ground boots.
/// The list is empty on a ground that boots no image.
#[must_use]
pub fn fitting_kernels(ground: Ground, place: &GroundOptions) -> Vec<&'static str> {
    on!(ground, B => B::fitting_kernels(place))
}

/// Returns the number of pages that fit on the device that holds a ground's files; `None` if that is unknown, or if the
/// machine file decides it.
#[must_use]
pub fn device_pages(ground: Ground, place: &GroundOptions) -> Option<u64> {
    on!(ground, B => B::device_pages(place))
}

/// Checks that this computer can provide `memory_bytes` on a ground.
///
/// # Errors
/// When a requirement is missing. The error names it, in words for the user.
pub fn ready(ground: Ground, place: &GroundOptions, memory_bytes: u64) -> Result<(), String> {
    on!(ground, B => B::ready(place, memory_bytes))
}

/// Runs a job in this process or in a process of its own, as the job's ground requires, and returns the outcome.
/// `order` describes the job to the process that is started for it.
///
/// # Errors
/// When the run could not be finished, as for [`Runnable::run`], or when the process was killed.
pub fn carry_out(
    workload: &dyn Runnable,
    job: &Job,
    order: &NamedJob,
    place: &GroundOptions,
    progress: &Progress,
) -> Result<Outcome, Failure> {
    on!(job.ground, B => B::carry_out(workload, job, order, place, progress))
}

fn resources(job: &Job) -> Result<Resources, Failure> {
    on!(job.ground, B => B::resources(job))
}

/// Returns the reason why the workload `W` does not run on a ground; `None` if it runs there.
const fn refusal<W: Workload>(ground: Ground) -> Option<&'static str> {
    match ground {
        Ground::Sim => None,
        Ground::Host if W::MAPS_FILES => Some("it maps files, and the library does not"),
        Ground::Host | Ground::Linux | Ground::Guest => W::SIM_ONLY,
    }
}

/// Reads the parameters of the workload `W` for a run on the ground `B`. Where the ground refuses the workload, the
/// condition is constant, so that the workload is not compiled for that ground. This saves a tenth of the time to build
/// the crate.
///
/// # Errors
/// When the ground refuses the workload, or a parameter is unknown, missing or wrong.
fn load<W: Workload, B: Backend>(params: &Node) -> Result<Load<B::System>, Failure> {
    if const { refusal::<W>(B::GROUND).is_some() } {
        let why = refusal::<W>(B::GROUND).unwrap_or_default();
        return Err(Failure(format!("`{}` does not run on ground `{}`: {why}", W::NAME, B::GROUND)));
    }
    Load::new::<W>(params)
}

/// Makes each workload [`Runnable`]: it can be run on the ground that a job names.
impl<W: Workload> Runnable for W {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn about(&self) -> &'static str {
        W::ABOUT
    }

    fn params(&self, given: &Node) -> Option<serde_json::Value> {
        serde_json::to_value(given.read::<W::Params>().ok()?).ok()
    }

    fn file(&self) -> Option<&'static str> {
        W::FILE
    }

    fn refused_on(&self, ground: Ground) -> Option<&'static str> {
        refusal::<W>(ground)
    }

    fn check(&self, job: &Job) -> Result<(), Failure> {
        let needs = load::read::<W>(&job.params)?;
        if needs.forks() && !on!(job.ground, B => <B as Backend>::System::FORKS) {
            let ground = job.ground;
            return Err(Failure(format!("ground `{ground}`: the load forks, and memory belongs to one process there")));
        }
        on!(job.ground, B => B::check(job, &*needs))
    }

    fn extent(&self, job: &Job) -> Option<Extent> {
        Some(load::read::<W>(&job.params).ok()?.extent(&resources(job).ok()?, job.scale))
    }

    fn about_param(&self, key: &str) -> Option<&'static str> {
        W::about_param(key)
    }

    fn row_names(&self, job: &Job) -> Option<Vec<RowName>> {
        let own = load::read::<W>(&job.params).ok()?.row_names(&resources(job).ok()?)?;
        Some(own.into_iter().chain(groups::row_names(&job.machine.groups, job.layout().group_version)).collect())
    }

    fn run_described(&self, job: &Described, progress: &Progress) -> Result<Outcome, Failure> {
        let load = load::<W, Guest>(&job.params)?;
        real_time::guest::run_described(job, load, progress)
    }

    fn run(&self, job: &Job, progress: &Progress) -> Result<Outcome, Failure> {
        on!(job.ground, B => B::run(job, load::<W, B>(&job.params)?, progress))
    }
}

/// All workloads, in the order in which they are listed to users. This is a static, because a constant would be inlined
/// into each crate that uses it, and each such crate would compile every workload anew.
static ALL: [&dyn Runnable; 24] = [
    &workloads::parallelio::Parallelio,
    &workloads::multibuild::Multibuild,
    &workloads::highalloc::Highalloc,
    &workloads::postmark::Postmark,
    &workloads::streaming::Streaming,
    &workloads::ping::Ping,
    &workloads::randread::Randread,
    &workloads::randread_async::RandreadAsync,
    &workloads::randwrite::Randwrite,
    &workloads::anon::Anon,
    &workloads::scan::Scan,
    &workloads::hotset::Hotset,
    &workloads::compile::Compile,
    &workloads::exits::Exits,
    &workloads::grow::Grow,
    &workloads::hopeless::Hopeless,
    &workloads::pods::Pods,
    &workloads::many::Many,
    &workloads::simon::Simon,
    &workloads::thp::Thp,
    &workloads::exhaust::Exhaust,
    &workloads::livelock::Livelock,
    &workloads::tasks::Tasks,
    &workloads::replay::Replay,
];

/// Returns every workload, in the order in which they are listed to users.
#[must_use]
pub fn all() -> &'static [&'static dyn Runnable] {
    &ALL
}

/// Returns the workload called `name`; `None` if there is none.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Runnable> {
    all().iter().copied().find(|workload| workload.name() == name)
}
