//! Streaming through mapped files that are much larger than memory (MMTests; mechanisms/benchmarks, 1.7).
//!
//! Each task maps a sparse file of its own and touches page after page once, so that no page is needed again. Written
//! pages become dirty through the page table.

use crate::extent::Extent;
use crate::system::{MapMode, System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use engine::ReadPattern;
use figures::counters::difference;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use figures::vmscan;
use machine::Nanos;
use serde::{Deserialize, Serialize};
use sim::Sourced;

/// Largest number of tasks.
const TASKS_MAX: u64 = 1024;

/// The way in which a task accesses each page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Writes one word of the page.
    #[default]
    Write,
    /// Reads one byte of the page. The mapping has `MADV_RANDOM`, so that nothing is read ahead.
    Read,
}

/// Parameters of the workload `streaming`, from `[params]` in an experiment's file. A parameter that the benchmark's
/// own script sets has the script's value as its default; a parameter with an assumed value has no default.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Size of all files together, percent of memory. Default 1000.
    #[serde(default = "percent")]
    pub percent: u64,
    /// How a task accesses each page. Default `write`.
    #[serde(default)]
    pub access: Access,
    /// Number of tasks, each with a file of its own.
    pub tasks: Sourced<u64>,
    /// CPU time that a program spends on one page, ns.
    pub page_ns: Sourced<u64>,
}

fn percent() -> u64 {
    1000
}

/// Number of pages after which a task checks whether it must end.
const PIECE: u32 = 1024;

/// Each task starts after a random delay below this time.
const START_WITHIN: Nanos = Nanos::from_millis(10);

/// The workload `streaming`: tasks that touch each page of large mapped files once.
#[derive(Debug)]
pub struct Streaming;

impl Workload for Streaming {
    type Params = Params;

    const NAME: &'static str = "streaming";

    const ABOUT: &'static str = "tasks that touch each page of large mapped files once";

    const MAPS_FILES: bool = true;

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        if params.tasks.value == 0 || params.percent == 0 {
            return Err("`tasks` and `percent` must be above 0: nobody streams nothing".to_owned());
        }
        if params.tasks.value > TASKS_MAX {
            return Err(format!("`tasks` is {}: must be at most {TASKS_MAX}", params.tasks.value));
        }
        let pages = file_pages(params, resources.memory_pages);
        if pages == 0 || pages > u64::from(u32::MAX / 2) {
            return Err(format!("files of {pages} pages: a file has 1 to {} of them", u32::MAX / 2));
        }
        Ok(())
    }

    fn extent(params: &Params, resources: &Resources, _: Scale) -> Extent {
        let pages = file_pages(params, resources.memory_pages).saturating_mul(params.tasks.value);
        let wait_s = params.page_ns.value / 1_000_000_000;
        // The files are sparse: files that are only read take no room on the device.
        let file_pages = if params.access == Access::Write { pages } else { 0 };
        Extent { operations: pages, file_pages, wait_s, time_s: None }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some([names(vec![rate_row(0.0)]), vmscan::row_names()].concat())
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let pages = file_pages(params, system.memory_pages()) as u32;
        system.begin_measured();
        let (counters, cpu, started) = (system.vmstat(), system.cpu_times(), system.now());
        let tasks: Vec<_> = (0..params.tasks.value)
            .map(|n| {
                let (access, time) = (params.access, Nanos(params.page_ns.value));
                system.start(&format!("stream {n}"), move |system| stream(system, n, pages, access, time))
            })
            .collect();
        let ended: Vec<_> = tasks.into_iter().map(|task| task.join(system)).collect();
        let elapsed_s = system.now().since(started).as_secs_f64();
        system.end_measured();
        let counters = difference(&counters, &system.vmstat());
        let rate = (u64::from(pages) * params.tasks.value) as f64 / elapsed_s.max(1e-9);
        let mut rows = vec![rate_row(rate)];
        rows.extend(vmscan::duration_rows(system.cpu_times().since(cpu), elapsed_s));
        rows.extend(vmscan::rows(&counters));
        let profile = system.profile().into_iter().map(|(path, time)| format!("run;{path} {}", time.0)).collect();
        // The test ends with the last touch: dropping the pages that are still dirty is not part of the test.
        let removed = (0..params.tasks.value).try_for_each(|n| system.remove(&file_name(n)));
        ended.into_iter().chain([removed]).collect::<Result<(), SystemError>>()?;
        Ok(Measurements { rows, profile, ..Measurements::default() })
    }
}

fn rate_row(rate: f64) -> Row {
    Row::new("Ops", "Ops pages", "pages/s", Better::Higher, Format::Decimals(0), rate)
}

fn file_pages(params: &Params, memory_pages: u64) -> u64 {
    memory_pages.saturating_mul(params.percent) / 100 / params.tasks.value.max(1)
}

fn stream<S: System>(system: &S, n: u64, pages: u32, access: Access, time: Nanos) -> Result<(), SystemError> {
    let file = system.create(&file_name(n))?;
    system.set_length(&file, page_bytes(pages.into()))?;
    let pattern = match access {
        Access::Write => ReadPattern::Normal,
        Access::Read => ReadPattern::Random,
    };
    let region = system.map_file(&file, 0..pages, MapMode { pattern, ..MapMode::default() })?;
    // Tasks start at random times and compute for random times. Otherwise they would be in step, and all would enter
    // reclaim at once.
    let mut rng = system.rng(n);
    system.sleep(Nanos(rng.below(START_WITHIN.0)));
    let mut touched = Ok(());
    for start in (0..pages).step_by(PIECE as usize) {
        if system.is_killed() || touched.is_err() {
            break;
        }
        touched = (start..pages.min(start + PIECE)).try_for_each(|page| {
            system.compute(Nanos(time.0 / 2 + rng.below(time.0 + 1)));
            system.touch(&region, page..page + 1, access == Access::Write)
        });
    }
    system.unmap(region);
    touched
}

fn file_name(task: u64) -> String {
    format!("stream {task}")
}
