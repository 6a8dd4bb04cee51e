//! One pass over a file that is larger than memory, beside a hot set that fits into memory.
//!
//! Tasks read the hot set at random, first alone, then during the pass. The hit ratio of the hot set shows how much of
//! the set stays in memory. The misses of the hot set are the pages that were read in during the pass, except the pages
//! of the large file.

use super::big_file;
use super::meter::{Course, LOOK_EVERY, Length, Measured, measure};
use super::pass::{COLD, Files, HOT};
use super::random::{Access, Reads, Size, Verify, check_theta, read_at_random};
use crate::choose::{Chooser, Distribution};
use crate::extent::Extent;
use crate::system::contents::Pattern;
use crate::system::{System, SystemError};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use machine::Nanos;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Parameters of the workload `scan`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Size of the hot set, percent of memory. Default 50.
    pub hot_percent: u64,
    /// Size of the hot set in MiB at full scale, instead of `hot_percent`.
    pub hot_mib: Option<u64>,
    /// Size of the large file that is read once, percent of memory. Default 400.
    pub cold_percent: u64,
    /// Size of the large file that is read once, in MiB at full scale, instead of `cold_percent`.
    pub cold_mib: Option<u64>,
    /// How often each page of the hot set is read. Default: all pages equally often.
    pub distribution: Distribution,
    /// Exponent of the distribution `zipf`: above 0. Default 1.2.
    pub theta: f64,
    /// Number of tasks that read the hot set. Default 4.
    pub tasks: u64,
    /// How a page of the hot set is read. Default: copied.
    pub access: Access,
    /// Seconds for which the hot set is read alone, before the pass over the large file begins. Default 3.
    pub alone_s: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            hot_percent: 50,
            hot_mib: None,
            cold_percent: 400,
            cold_mib: None,
            distribution: Distribution::Uniform,
            theta: 1.2,
            tasks: 4,
            access: Access::Copy,
            alone_s: 3,
        }
    }
}

impl Params {
    /// Returns the sizes of the hot set's file and of the large file.
    fn files(&self, memory_pages: u64, scale: Scale) -> Files {
        let hot = Size { percent: self.hot_percent, mib: self.hot_mib };
        let cold = Size { percent: self.cold_percent, mib: self.cold_mib };
        Files::of(hot, cold, memory_pages, scale)
    }
}

/// The workload `scan`: one pass over a file larger than memory, beside a hot set that fits in memory.
#[derive(Debug)]
pub struct Scan;

impl Workload for Scan {
    type Params = Params;

    const NAME: &'static str = "scan";

    const ABOUT: &'static str = "one pass over a file larger than memory, beside a hot set that fits";

    const VERIFIES: bool = true;

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        check_theta(params.distribution, params.theta)?;
        params.files(resources.memory_pages, Scale::FULL).check(params.tasks)
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let file_pages = params.files(resources.memory_pages, scale).pages();
        // No duration is predicted: the duration of the pass is a result.
        Extent { wait_s: params.alone_s, operations: file_pages, file_pages, time_s: None }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some(names(rows(&Course::with_everything(), &Course::with_everything(), 0, Nanos(1))))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let files = params.files(system.memory_pages(), system.given().scale);
        let Files { hot, cold } = files;
        files.make(system)?;
        // The hot set is read twice, since a page that was used only once is not hot yet.
        for _ in 0..2 {
            big_file::read_through(system, HOT, hot, |_| Pattern::new(HOT, 1))?;
        }
        let chooser = Chooser::new(params.distribution, params.theta, hot);
        let access = params.access;
        let read_hot = move |system: &S, n: u64, tally: &mut super::meter::Tally| {
            let reads = Reads { access, verify: Verify::All, random_advice: true, warm_up: 0, drop_every: 0 };
            read_at_random(system, HOT, &chooser, reads, n, tally)
        };
        let measured = Measured {
            name: "hot",
            tasks: params.tasks,
            length: Length::Steady(Nanos::from_secs(params.alone_s)),
            fills_memory: false,
            keeps_step: false,
            look_every: LOOK_EVERY,
        };
        let alone = measure(system, &measured, read_hot.clone())?;
        let is_through = Arc::new(AtomicBool::new(false));
        let through = is_through.clone();
        let pass = system.start("pass", move |system| {
            let started = system.now();
            let passed = big_file::read_through(system, COLD, cold, |_| Pattern::new(COLD, 1));
            through.store(true, Relaxed);
            passed.map(|pages| (pages, system.now().since(started)))
        });
        let beside = measure(system, &Measured { length: Length::Until(is_through), ..measured }, read_hot);
        let (passed, time) = pass.join(system)?;
        let beside = beside?;
        Files::remove(system)?;
        let times = [alone.times("Read alone"), beside.times("Read beside")].concat();
        Ok(Measurements { rows: rows(&alone, &beside, passed, time), times, ..Measurements::default() })
    }
}

/// Returns the report's rows. `alone` are the reads before the pass over the large file, and `beside` are the reads
/// during this pass. The pass read `passed` pages in `time`.
fn rows(alone: &Course, beside: &Course, passed: u64, time: Nanos) -> Vec<Row> {
    let rate = passed as f64 / 256.0 / time.as_secs_f64();
    let pass_row = Row::new("Ops", "Ops scan-pass", "MiB/s", Better::Higher, Format::Decimals(0), rate);
    let hits = [alone.hit_row("Hit ratio alone", 0), beside.hit_row("Hit ratio beside", passed)];
    let rows = [
        alone.rate_rows("scan-alone"),
        beside.rate_rows("scan-beside"),
        vec![pass_row],
        hits.into_iter().flatten().collect(),
        alone.latency_rows("Read alone"),
        beside.latency_rows("Read beside"),
        beside.cost_rows(),
    ];
    rows.concat()
}
