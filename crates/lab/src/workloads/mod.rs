//! The workloads by name, and the way of each to its ground.

pub mod anon;
pub mod big_file;
pub mod meter;
pub mod multibuild;
pub mod parallelio;
pub mod ping;
pub mod postmark;
pub mod random;
pub mod randread;
pub mod randwrite;
pub mod scan;
pub mod simon;
pub mod streaming;

use crate::ground::Ground;
use crate::job::{Failure, Job, Outcome, Progress, Runnable};
use crate::workload::{Resources, Workload};
use crate::{real_time, simulation};
use engine::kernel::text::Node;

/// Every workload, in the order in which they are listed.
#[must_use]
pub fn all() -> &'static [&'static dyn Runnable] {
    &[
        &parallelio::Parallelio,
        &multibuild::Multibuild,
        &postmark::Postmark,
        &streaming::Streaming,
        &ping::Ping,
        &randread::Randread,
        &randwrite::Randwrite,
        &anon::Anon,
        &scan::Scan,
        &simon::Simon,
    ]
}

/// The workload called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Runnable> {
    all().iter().copied().find(|workload| workload.name() == name)
}

/// Runs a workload on the ground of its job.
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

    fn sim_only(&self) -> Option<&'static str> {
        W::SIM_ONLY
    }

    fn check(&self, job: &Job) -> Result<(), Failure> {
        match job.ground {
            Ground::Sim => simulation::check::<W>(job),
            Ground::Host | Ground::Linux => real_time::check::<W>(job),
        }
    }

    fn time_s(&self, job: &Job) -> Option<u64> {
        W::extent(&job.params.read().ok()?, &resources(job)?, job.scale).time_s
    }

    fn row_names(&self, job: &Job) -> Option<Vec<String>> {
        W::row_names(&job.params.read().ok()?, &resources(job)?)
    }

    fn run(&self, job: &Job, progress: &Progress) -> Result<Outcome, Failure> {
        match job.ground {
            Ground::Sim => simulation::run::<W>(job, progress),
            Ground::Host | Ground::Linux => real_time::run::<W>(job, progress),
        }
    }
}

/// What the ground of a job offers.
fn resources(job: &Job) -> Option<Resources> {
    match job.ground {
        Ground::Sim => Some(simulation::Simulation::of_job(job).ok()?.resources()),
        Ground::Host | Ground::Linux => Some(real_time::resources(job)),
    }
}
