//! Random touches of anonymous memory that exceeds physical memory; the rest is in swap.
//!
//! Each task has a region of its own. First the task stores every page once, in order. Then it loads and verifies
//! random pages, and stores some of them again. The reported rates are those of this second part.
//!
//! The tasks keep step, as the threads of a parallel program with barriers do. If the tasks did not keep step, chance
//! would decide a whole run: a task whose region happens to be in memory touches it a hundred times as often as a task
//! that waits for faults, so reclaim finds the first task's pages in use and takes the other tasks' pages. Depending on
//! chance, all tasks would fault equally often, or a few tasks would never fault and do most of the operations. With
//! equal work, every region keeps the same share of its pages in memory, on any ground.
//!
//! A region may be a private mapping of a file instead, whose pages are copied when they are first stored to. Or the
//! task forks a process that has a copy of the region and sleeps: then, too, each page is copied when it is first
//! stored to.

use super::big_file;
use super::meter::{Course, LOOK_EVERY, Length, Measured, Tally, measure};
use super::random::{Size, check_sizes, check_theta, extent};
use crate::choose::{Chooser, Distribution};
use crate::extent::Extent;
use crate::system::contents::Pattern;
use crate::system::{MapMode, Sharing, Started, System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::figure::{Row, RowName, names};
use figures::scale::Scale;
use machine::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

/// Task number `n` draws its random numbers from stream `STREAM + n` ([`System::rng`]).
const STREAM: u64 = 5000;

/// Parameters of the workload `anon`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Size of the regions of all tasks together, percent of memory. Default 150.
    pub region_percent: u64,
    /// Size of the regions of all tasks together, MiB at full scale; given instead of `region_percent`.
    pub region_mib: Option<u64>,
    /// `true`: each region is a private mapping of a file of the same size, whose pages are copied when they are first
    /// stored to. Unlike anonymous regions, they are not filled before the random touches begin. Default: `false`,
    /// which makes the regions anonymous.
    pub private_file: bool,
    /// `true`: when the measurement begins, each task forks a process that has a copy of the task's region, and sleeps
    /// to the end. Default: `false`.
    pub forked: bool,
    /// The distribution by which the pages to touch are chosen. Default: all pages equally often.
    pub distribution: Distribution,
    /// Exponent of the distribution `zipf`: above 0. Default 1.2.
    pub theta: f64,
    /// Share of touches that load the page and then store to it, percent. The other touches only load. Default 50.
    pub store_percent: u64,
    /// Number of tasks, each with a region of its own. Default 4.
    pub tasks: u64,
    /// The run ends when each task has done this number of measured operations. Default: the run ends after the time
    /// `touch_s`.
    pub operations: Option<u64>,
    /// Number of operations that each task does before the measurement begins. Default 0.
    pub warm_up_operations: u64,
    /// Duration of the measurement, seconds, if `operations` is not given. Default 10.
    pub touch_s: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            region_percent: 150,
            region_mib: None,
            private_file: false,
            forked: false,
            distribution: Distribution::Uniform,
            theta: 1.2,
            store_percent: 50,
            tasks: 4,
            operations: None,
            warm_up_operations: 0,
            touch_s: 10,
        }
    }
}

impl Params {
    fn size(&self) -> Size {
        Size { percent: self.region_percent, mib: self.region_mib }
    }

    fn backing(&self) -> Backing {
        match (self.private_file, self.forked) {
            (true, _) => Backing::PrivateFile,
            (false, true) => Backing::Forked,
            (false, false) => Backing::Anonymous,
        }
    }
}

/// The memory that a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    Anonymous,
    /// Anonymous memory of which a forked process has a copy.
    Forked,
    PrivateFile,
}

/// The workload `anon`: random touches of anonymous memory that exceeds physical memory.
#[derive(Debug)]
pub struct Anon;

impl Workload for Anon {
    type Params = Params;

    const NAME: &'static str = "anon";

    const ABOUT: &'static str = "random touches of anonymous memory larger than memory";

    const VERIFIES: bool = true;

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn forks(params: &Params) -> bool {
        params.forked
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        let Resources { memory_pages, used_pages, swap_pages } = *resources;
        check_theta(params.distribution, params.theta)?;
        if params.forked && params.private_file {
            return Err("`forked` and `private_file` are both set: expected one of the two".into());
        }
        let pages = params.size().pages(memory_pages, Scale::FULL);
        let copied = if params.forked { pages } else { 0 };
        // A tenth of memory is left for pages outside the regions.
        if pages.saturating_add(copied).saturating_add(used_pages) > memory_pages / 10 * 9 + swap_pages {
            return Err(format!(
                "{pages} pages of regions do not fit 90 % of {memory_pages} pages of memory and {swap_pages} of swap"
            ));
        }
        check_sizes(params.tasks, pages, "regions")
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let pages = params.size().pages(resources.memory_pages, scale);
        let file_pages = if params.private_file { pages } else { 0 };
        extent(params.operations, params.tasks, params.touch_s, file_pages)
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some(names(rows(&Course::with_everything())))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let Params { tasks, private_file, store_percent, warm_up_operations: warm_up, .. } = *params;
        let backing = params.backing();
        let own = params.size().pages(system.memory_pages(), system.given().scale) / tasks;
        let chooser = Chooser::new(params.distribution, params.theta, own);
        let length = params.operations.map_or(Length::Steady(Nanos::from_secs(params.touch_s)), Length::Operations);
        let files = if private_file { tasks } else { 0 };
        (0..files).try_for_each(|task| big_file::make(system, &name_of(task), own))?;
        // Memory is full before the measured part begins.
        let measured =
            Measured { name: "anon", tasks, length, fills_memory: false, keeps_step: true, look_every: LOOK_EVERY };
        let course = measure(system, &measured, move |system, n, tally| {
            touch_at_random(system, n, (backing, own as u32), &chooser, (store_percent, warm_up), tally)
        })?;
        (0..files).try_for_each(|task| system.remove(&name_of(task)))?;
        Ok(Measurements { rows: rows(&course), times: course.times("Touch"), ..Measurements::default() })
    }
}

fn rows(course: &Course) -> Vec<Row> {
    let hits = course.fault_hit_row("Hit ratio").into_iter().collect();
    [course.rate_rows("anon"), hits, course.latency_rows("Touch"), course.cost_rows()].concat()
}

/// Returns the name of a task's region. The region's test pattern has the same name, and so has the file that the
/// region maps, if it maps one.
fn name_of(task: u64) -> String {
    format!("anon {task}")
}

/// Maps a task's region. If the region is anonymous, fills each page once with version 1 of the test pattern. Returns
/// the region.
fn region_of<S: System>(
    system: &S,
    name: &str,
    (backing, pages): (Backing, u32),
    bytes: &mut [u8],
) -> Result<S::Region, SystemError> {
    if backing == Backing::PrivateFile {
        let mode = MapMode { sharing: Sharing::Private, ..MapMode::default() };
        return system.map_file(&system.open(name)?, 0..pages, mode);
    }
    let region = system.map(pages)?;
    for offset in (0..pages.into()).map(page_bytes) {
        if system.is_killed() {
            break;
        }
        Pattern::new(name, 1).fill(system.kept(), offset, bytes);
        system.store(&region, offset, bytes)?;
    }
    Ok(region)
}

fn touch_at_random<S: System>(
    system: &S,
    task: u64,
    (backing, pages): (Backing, u32),
    chooser: &Chooser,
    (store_percent, warm_up): (u64, u64),
    tally: &mut Tally,
) -> Result<(), SystemError> {
    let kept = system.kept();
    let name = name_of(task);
    let mut rng = system.rng(STREAM + task);
    let mut versions = vec![1_u32; pages as usize];
    let mut bytes = vec![0; PAGE_BYTES];
    let region = region_of(system, &name, (backing, pages), &mut bytes)?;
    let mut touch = || {
        let page = chooser.next(&mut rng);
        let offset = page_bytes(page);
        let version = &mut versions[page as usize];
        let started = system.now();
        system.load(&region, offset, &mut bytes)?;
        let mut time = system.now().since(started);
        Pattern::new(&name, (*version).into()).verify(kept, offset, &bytes)?;
        if rng.below(100) < store_percent {
            Pattern::new(&name, u64::from(*version) + 1).fill(kept, offset, &mut bytes);
            let started = system.now();
            system.store(&region, offset, &bytes)?;
            *version += 1;
            time += system.now().since(started);
        }
        Ok::<_, SystemError>(time)
    };
    for _ in 0..warm_up {
        if system.is_killed() {
            break;
        }
        touch()?;
    }
    tally.begin(system);
    let copy = (backing == Backing::Forked).then(|| hold_a_copy(system, &name, &region)).transpose()?;
    let mut touch_all = || {
        while !tally.is_over() && !system.is_killed() {
            tally.keep_step(system);
            tally.count(touch()?);
        }
        Ok(())
    };
    let result = touch_all();
    if let Some(copy) = copy {
        // The end of the copy is not measured.
        tally.end(system);
        copy.kill(system);
        let was_held = copy.join_unless_killed(system).is_some() || system.is_killed();
        if !was_held && result.is_ok() {
            return Err(SystemError(format!("the process with the copy of region `{name}` was killed")));
        }
    }
    system.unmap(region);
    result
}

/// Forks a process that has a copy of a region until it is told to end.
fn hold_a_copy<S: System>(system: &S, name: &str, region: &S::Region) -> Result<Started<S, ()>, SystemError> {
    system.fork_and_return(&format!("copy of {name}"), &[region], |system, regions| {
        while !system.is_killed() {
            system.sleep(Nanos::from_secs(1));
        }
        regions.into_iter().for_each(|region| system.unmap(region));
    })
}
