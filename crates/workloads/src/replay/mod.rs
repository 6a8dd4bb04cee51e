//! A recorded load: the requests of a trace, issued again.
//!
//! `loaded` reads a trace and finds out how large its files are and how long each handle is used. `files` holds the
//! files of a run, with versions of their pages, so that contents can be verified. `worker` issues requests, and
//! `resident` holds the memory that is no file. The page docs/replay.md explains the workload to users.

mod files;
mod loaded;
mod places;
mod reported;
mod resident;
mod worker;

use crate::extent::{Extent, OPERATIONS_MAX};
use crate::meter::{Course, LOOK_EVERY, Length, Measured, Tally, measure_tasks};
use crate::system::{System, SystemError};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::figure::{RowName, names};
use figures::scale::Scale;
use files::Files;
use loaded::Loaded;
use machine::Nanos;
use reported::Reported;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use worker::{Shared, Worker};

/// Largest number of tasks that issue requests.
const DEPTH_MAX: u64 = 1024;

/// Longest think time, µs.
const THINK_MAX_US: u64 = 60_000_000;

/// Parameters of the workload `trace`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// The trace, a file in the format `.hwtrace`. `highwater trace convert` makes one of other formats.
    pub file: String,
    /// Number of tasks that issue requests. With 1, the requests are issued one after the other, in the order of the
    /// trace. With more, the requests of one open file stay in order, and so do all requests of a file that the trace
    /// truncates or deletes. Default 1.
    pub depth: u64,
    /// Sleep of a task after each read, write, load and store, µs. Default 0.
    pub think_us: u64,
    /// `true`: a request is issued at its time in the trace, or as soon as its task has done the requests before.
    /// Default: `false`, a task issues its next request at once.
    pub timed: bool,
    /// `true`: a task holds as much anonymous memory as was recorded, at each time of the trace. Default: `true`.
    pub resident: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { file: String::new(), depth: 1, think_us: 0, timed: false, resident: true }
    }
}

/// The workload `trace`: the requests of a trace, issued again.
#[derive(Debug)]
pub struct Replay;

impl Workload for Replay {
    type Params = Params;

    const NAME: &'static str = "trace";

    const ABOUT: &'static str = "the requests of a recorded trace, issued again";

    const VERIFIES: bool = true;

    const FILE: Option<&'static str> = Some("file");

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        if !(1..=DEPTH_MAX).contains(&params.depth) {
            return Err(format!("`depth` = {}: expected 1 to {DEPTH_MAX}", params.depth));
        }
        if params.think_us > THINK_MAX_US {
            return Err(format!("`think_us` = {}: expected at most {THINK_MAX_US}", params.think_us));
        }
        let loaded = load(params)?;
        loaded.check()?;
        let Resources { memory_pages, swap_pages, .. } = *resources;
        let most = if params.resident { loaded.resident.most_pages() } else { 0 };
        if most > memory_pages / 20 * 19 + swap_pages {
            return Err(format!(
                "the trace has {} MiB of memory that is no file; {} MiB of memory and {} MiB of swap are too little for \
                 it: give more memory, or leave it out with params.resident=false",
                most / 256,
                memory_pages / 256,
                swap_pages / 256
            ));
        }
        Ok(())
    }

    fn extent(params: &Params, _: &Resources, _: Scale) -> Extent {
        // An unreadable trace is reported by `check`.
        let Ok(loaded) = load(params) else { return Extent::default() };
        let trace_s = loaded.time_us / 1_000_000;
        let think_us = params.think_us.saturating_mul(loaded.accesses) / params.depth.max(1);
        Extent {
            time_s: params.timed.then_some(trace_s.max(1)),
            wait_s: think_us / 1_000_000,
            operations: loaded.page_accesses.min(OPERATIONS_MAX.saturating_add(1)),
            file_pages: loaded.files.iter().map(loaded::FileOf::most_pages).sum(),
        }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some(names(Reported::with_everything(&Course::with_everything())))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let loaded = load(params).map_err(SystemError)?;
        let files = Files::make(system, &loaded)?;
        let shared = Arc::new(Shared::new(loaded.clone(), files, params));
        let depth = params.depth as usize;
        let mut task_names: Vec<String> = (0..depth).map(|n| format!("replay {n}")).collect();
        let holds_memory = params.resident && loaded.resident.most_pages() > 0;
        if holds_memory {
            task_names.push("resident".into());
        }
        let measured = Measured {
            name: "replay",
            tasks: params.depth,
            length: Length::Operations(u64::MAX),
            fills_memory: false,
            keeps_step: false,
            look_every: LOOK_EVERY,
        };
        if params.timed {
            system.expect_end(system.now() + Nanos(loaded.time_us.saturating_mul(1000)));
        }
        let of_tasks = shared.clone();
        let course = measure_tasks(system, &measured, &task_names, move |system, n, tally: &mut Tally| {
            if n as usize == depth {
                return resident::hold(system, &of_tasks.loaded.resident, &of_tasks.followed, tally);
            }
            Worker::new(system, &of_tasks, n as usize).run(tally)
        })?;
        let counts = shared.counts.lock();
        let verified = shared.files.finish(system)?;
        let reported = Reported { course: &course, counts: &counts, verified };
        Ok(Measurements {
            rows: reported.rows(),
            report: reported.report(&loaded),
            times: course.times("Request"),
            ..Measurements::default()
        })
    }
}

fn load(params: &Params) -> Result<Arc<Loaded>, String> {
    if params.file.is_empty() {
        return Err("`file` is missing: expected the name of a trace, as in --set params.file=load.hwtrace".into());
    }
    loaded::load(Path::new(&params.file))
}
