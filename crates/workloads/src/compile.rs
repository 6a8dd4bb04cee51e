//! The compilers of one kernel build in little memory. The measure is operations per second.
//!
//! Each compiler is a program of [`super::build`]: it maps the text that all compilers share, reads a source and the
//! shared headers, touches memory of its own while it computes, frees that memory, and writes an object. Each task runs
//! one compiler after another, for a fixed part of the units (source files), so that every ground does the same work.
//! The workload `multibuild` runs whole builds and reports their times.

use super::build::{self, Build};
use super::meter::{Course, LOOK_EVERY, Length, Measured, measure};
use crate::extent::Extent;
use crate::system::{System, SystemError};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::figure::{Row, RowName, names};
use figures::scale::Scale;
use serde::{Deserialize, Serialize};

/// Number of the source tree. The workload has only this tree.
const TREE: u64 = 0;

/// Largest number of compilers that run at a time.
const JOBS_MAX: u64 = 1024;

/// Parameters of the workload `compile`, from `[params]` in an experiment's file. Sizes follow the scale of a run.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of compilers that run at a time. Default 4.
    #[serde(default = "jobs")]
    pub jobs: u64,
    /// Parameters of the build. Each task compiles an equal part of the build's units.
    pub build: build::Params,
}

const fn jobs() -> u64 {
    4
}

/// The workload `compile`: the compilers of one kernel build. It measures how many units (source files) are compiled
/// per second, and how long each takes.
#[derive(Debug)]
pub struct Compile;

impl Workload for Compile {
    type Params = Params;

    const NAME: &'static str = "compile";

    const ABOUT: &'static str = "the compilers of one kernel build, by operations";

    const MAPS_FILES: bool = true;

    fn about_param(key: &str) -> Option<&'static str> {
        match key.strip_prefix("build.") {
            Some(key) => build::Params::get_field_docs(key).ok(),
            None => Params::get_field_docs(key).ok(),
        }
    }

    fn check(params: &Params, _: &Resources) -> Result<(), String> {
        params.build.check()?;
        let (jobs, units) = (params.jobs, params.build.units.value);
        if !(1..=JOBS_MAX).contains(&jobs) || jobs > units {
            return Err(format!("jobs is {jobs}: from 1 to {JOBS_MAX}, and at most one for each of {units} units"));
        }
        Ok(())
    }

    fn extent(params: &Params, _: &Resources, _: Scale) -> Extent {
        let tree = params.build.tree_pages();
        let operations = tree.saturating_add(params.build.units.value.saturating_mul(params.build.unit_operations()));
        Extent { operations, file_pages: tree, wait_s: params.build.wait_s(), time_s: None }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some(names(rows(&Course::with_everything())))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let model = Build::of(&params.build, system.given().scale);
        let jobs = params.jobs;
        model.unpack_cold(system, TREE)?;
        let measured = Measured {
            name: "compiler",
            tasks: jobs,
            length: Length::Operations(params.build.units.value / jobs),
            fills_memory: false,
            keeps_step: false,
            look_every: LOOK_EVERY,
        };
        let course = measure(system, &measured, move |system, n, tally| {
            tally.begin(system);
            let mut unit = n;
            while !tally.is_over() && !system.is_killed() {
                let started = system.now();
                model.compile(system, TREE, unit)?;
                tally.count(system.now().since(started));
                unit += jobs;
            }
            Ok(())
        })?;
        model.remove_objects(system, TREE);
        model.remove_sources(system, TREE)?;
        system.remove(build::COMPILER)?;
        Ok(Measurements { rows: rows(&course), times: course.times("Compile"), ..Measurements::default() })
    }
}

fn rows(course: &Course) -> Vec<Row> {
    [course.rate_rows("compile"), course.latency_rows("Compile"), course.cost_rows()].concat()
}
