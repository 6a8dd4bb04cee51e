//! A program with huge pages and 60 % of memory, beside the copying of a big file.
//!
//! A file as large as memory is written, so that the page cache fills memory, and then copied again and again. A
//! program of several tasks maps memory that may have huge pages, writes all of it once, page by page, and then touches
//! it at random. The number of huge pages that the program got while it filled its memory decides the cost of a touch,
//! if the machine states the cost of a page-table walk (`[cpu.tlb]`). So successful compaction shortens the run's
//! touches.
//!
//! Touches are simulated as samples: one page is touched, which sets its accessed bit and uses the processor's TLB.
//! This one touch stands for [`Params::sample`] touches of similar pages.

use super::meter::add_profile;
use crate::extent::{Extent, times};
use crate::system::{System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use engine::stat::{Vmstat, vmstat};
use figures::counters::difference;
use figures::figure::{Better, Format, Row, RowName, duration_rows, names};
use figures::mmtests;
use figures::scale::Scale;
use figures::usage::CpuTimes;
use machine::{Func, Nanos};
use serde::{Deserialize, Serialize};
use sim::Sourced;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Task number `n` draws its random numbers from stream `STREAM + n` ([`System::rng`]).
const STREAM: u64 = 8000;

/// Number of small pages in a huge page.
const HUGE_PAGES: u64 = 512;

/// Number of pages that one write or one step of a copy covers: 256 KiB, an assumed value, as in `highalloc`.
const PIECE_PAGES: u64 = 64;

/// Interval at which the share of the program's memory that is in huge pages (the *coverage*) is sampled.
const LOOK_EVERY: Nanos = Nanos::from_millis(500);

/// Name of the program's tasks in a profile.
const PROGRAM: &str = "program";

const SOURCE: &str = "source";
const TARGET: &str = "target";

/// Parameters of the workload `thp`, from `[params]` in an experiment's file. Sizes follow the scale of a run.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Size of the program's memory, percent of the machine's memory. Default 60.
    #[serde(default = "program_percent")]
    pub program_percent: u64,
    /// Number of the program's tasks, each with a region of its own.
    pub tasks: Sourced<u64>,
    /// Time for which the program touches its memory after it has filled it, s.
    pub touch_s: Sourced<u64>,
    /// Share of touches that write, percent.
    pub store_percent: Sourced<u64>,
    /// Time that a touch takes, ns. The translation of the address takes time in addition.
    pub touch_ns: Sourced<u64>,
    /// One simulated touch stands for this number of touches.
    pub sample: Sourced<u64>,
    /// Size of the file that is copied, percent of memory; 0: no file is copied. Default 100.
    #[serde(default = "file_percent")]
    pub file_percent: u64,
}

const fn program_percent() -> u64 {
    60
}

const fn file_percent() -> u64 {
    100
}

impl Params {
    /// Returns the number of pages in each task's region. It is a multiple of [`HUGE_PAGES`].
    fn region_pages(&self, memory_pages: u64) -> u64 {
        memory_pages.saturating_mul(self.program_percent) / 100 / self.tasks.value.max(1) / HUGE_PAGES * HUGE_PAGES
    }

    fn file_pages(&self, memory_pages: u64) -> u64 {
        memory_pages.saturating_mul(self.file_percent) / 100
    }
}

/// The workload `thp`: a program whose memory may have huge pages, beside a task that copies a file again and again.
#[derive(Debug)]
pub struct Thp;

impl Workload for Thp {
    type Params = Params;

    const NAME: &'static str = "thp";

    const ABOUT: &'static str = "a program with huge pages beside the copy of a file";

    const SIM_ONLY: Option<&'static str> =
        Some("its times are told apart by function of the kernel, which the other grounds cannot");

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        let positive = [
            ("tasks", &params.tasks),
            ("touch_s", &params.touch_s),
            ("touch_ns", &params.touch_ns),
            ("sample", &params.sample),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, value)| value.value == 0) {
            return Err(format!("`{name}` is 0: must be at least 1"));
        }
        for (name, value, most) in [
            ("tasks", params.tasks.value, TASKS_MAX),
            ("store_percent", params.store_percent.value, 100),
            ("sample", params.sample.value, SAMPLE_MAX),
            ("touch_ns", params.touch_ns.value, TOUCH_MAX_NS),
            ("file_percent", params.file_percent, FILE_MAX_PERCENT),
        ] {
            if value > most {
                return Err(format!("`{name}` is {value}: must be at most {most}"));
            }
        }
        let Resources { memory_pages, used_pages, swap_pages } = *resources;
        let pages = params.region_pages(memory_pages);
        if pages == 0 {
            return Err(format!(
                "{} % of {memory_pages} pages for {} tasks: less than a huge page for each",
                params.program_percent, params.tasks.value
            ));
        }
        // A tenth of memory is left for pages outside the program and the file.
        if pages.saturating_mul(params.tasks.value).saturating_add(used_pages) > memory_pages / 10 * 9 + swap_pages {
            return Err(format!(
                "{pages} pages for each of {} tasks do not fit {memory_pages} pages of memory and {swap_pages} of swap",
                params.tasks.value
            ));
        }
        Ok(())
    }

    fn extent(params: &Params, resources: &Resources, _: Scale) -> Extent {
        let touches = times(params.touch_s.value, params.touch_ns.value.saturating_mul(params.sample.value));
        let fills = params.region_pages(resources.memory_pages);
        Extent {
            operations: touches.saturating_add(fills).saturating_mul(params.tasks.value),
            file_pages: params.file_pages(resources.memory_pages).saturating_mul(2),
            wait_s: params.touch_s.value,
            time_s: Some(params.touch_s.value),
        }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        let seen = Seen {
            tasks: vec![OfTask { faults: vec![Nanos(1)], ..OfTask::default() }],
            coverage: vec![0.0],
            counters: vmstat::zeroes(),
            ..Seen::default()
        };
        Some([names(seen.rows()), mmtests::vmstat_row_names()].concat())
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let file_pages = params.file_pages(system.memory_pages());
        write_source(system, file_pages)?;
        let mut lines = Vec::new();
        let mut profile = system.profile();
        system.begin_measured();
        let (counters, cpu, started) = (system.vmstat(), system.cpu_times(), system.now());
        let copier =
            (file_pages > 0).then(|| system.start("copy", move |system| copy_again_and_again(system, file_pages)));
        let program = Arc::new(Program::of(params, system.memory_pages()));
        let tasks: Vec<_> = (0..params.tasks.value)
            .map(|n| {
                let program = program.clone();
                system.start(PROGRAM, move |system| program.run(system, n))
            })
            .collect();
        // When the last task has filled its region, all tasks begin to touch their regions.
        let (mut coverage, mut was_filled) = (Vec::new(), false);
        while program.left.load(Relaxed) > 0 && !system.is_killed() {
            system.sleep(LOOK_EVERY);
            if !was_filled && program.is_filled.load(Relaxed) {
                was_filled = true;
                add_profile(&mut lines, "fill", &mut profile, system.profile());
            }
            // Coverage is sampled only until the first task ends, since a task that has ended has unmapped its memory.
            if was_filled && program.left.load(Relaxed) == program.tasks {
                coverage.push(program.coverage(&system.vmstat()));
            }
        }
        let tasks = tasks.into_iter().map(|task| task.join(system)).collect::<Result<Vec<_>, _>>()?;
        add_profile(&mut lines, "touch", &mut profile, system.profile());
        let copied = copier.map(|copier| {
            copier.kill(system);
            copier.join(system)
        });
        system.end_measured();
        let seen = Seen {
            tasks,
            coverage,
            copied_pages: copied.transpose()?.unwrap_or(0),
            sample: params.sample.value,
            counters: difference(&counters, &system.vmstat()),
            elapsed: system.now().since(started),
            cpu: system.cpu_times().since(cpu),
            direct: [Func::DirectCompact, Func::DirectReclaim].map(|func| time_of(&lines, func)),
        };
        if file_pages > 0 {
            system.remove(SOURCE)?;
        }
        Ok(Measurements { rows: seen.rows(), profile: lines, ..Measurements::default() })
    }
}

/// Largest number of tasks.
const TASKS_MAX: u64 = 256;

/// Largest value of [`Params::sample`].
const SAMPLE_MAX: u64 = 1 << 20;

/// Longest time of a touch: 1 ms.
const TOUCH_MAX_NS: u64 = 1_000_000;

/// Largest size of the file, percent of memory: ten times memory.
const FILE_MAX_PERCENT: u64 = 1000;

/// Writes the file that is copied later. A file of the default size fills memory with its pages.
fn write_source<S: System>(system: &S, pages: u64) -> Result<(), SystemError> {
    if pages == 0 {
        return Ok(());
    }
    let file = system.create(SOURCE)?;
    let bytes = vec![0; page_bytes(PIECE_PAGES) as usize];
    for start in (0..pages).step_by(PIECE_PAGES as usize).take_while(|_| !system.is_killed()) {
        let bytes = &bytes[..page_bytes(PIECE_PAGES.min(pages - start)) as usize];
        system.write(&file, page_bytes(start), bytes)?;
    }
    system.sync(&file)
}

/// Copies the file until the task is told to end. Each copy replaces the one before. Returns the number of pages
/// copied.
fn copy_again_and_again<S: System>(system: &S, pages: u64) -> Result<u64, SystemError> {
    let mut bytes = vec![0; page_bytes(PIECE_PAGES) as usize];
    let mut copied = 0;
    while !system.is_killed() {
        let target = system.create(TARGET)?;
        let mut source = system.open(SOURCE)?;
        for start in (0..pages).step_by(PIECE_PAGES as usize) {
            let pages = PIECE_PAGES.min(pages - start);
            let bytes = &mut bytes[..page_bytes(pages) as usize];
            let done = system
                .read(&mut source, page_bytes(start), bytes)
                .and_then(|_| system.write(&target, page_bytes(start), bytes));
            if system.is_killed() {
                break;
            }
            done?;
            copied += pages;
        }
        drop(target);
        system.remove(TARGET)?;
    }
    Ok(copied)
}

/// State that the program's tasks share.
#[derive(Debug)]
struct Program {
    tasks: u64,
    region_pages: u64,
    store_percent: u64,
    sample: u32,
    /// Total time of the `sample` touches that one simulated touch stands for.
    touch: Nanos,
    touch_s: u64,
    /// Number of tasks that have filled their regions.
    filled: AtomicU64,
    is_filled: AtomicBool,
    /// Number of tasks that have not ended.
    left: AtomicU64,
}

/// The measurements of one task of the workload: durations, and the number of its touches of memory.
#[derive(Clone, Debug, Default)]
struct OfTask {
    /// Time that the task took to fill its region.
    fill: Nanos,
    /// Number of touches that were simulated after the task had filled its memory. Each simulated touch stands for
    /// `sample` touches of the program.
    touches: u64,
    /// Duration of the touches after the task has filled its memory.
    touching: Nanos,
    /// Duration of each touch that caused a page fault, both while the region was filled and afterwards.
    faults: Vec<Nanos>,
}

impl Program {
    fn of(params: &Params, memory_pages: u64) -> Self {
        let tasks = params.tasks.value;
        Self {
            tasks,
            region_pages: params.region_pages(memory_pages),
            store_percent: params.store_percent.value,
            sample: params.sample.value as u32,
            touch: Nanos(params.touch_ns.value * params.sample.value),
            touch_s: params.touch_s.value,
            filled: AtomicU64::new(0),
            is_filled: AtomicBool::new(false),
            left: AtomicU64::new(tasks),
        }
    }

    /// Returns the share of the program's memory that is in huge pages, percent.
    fn coverage(&self, vmstat: &Vmstat) -> f64 {
        let huge = vmstat.get("nr_anon_transparent_hugepages").copied().unwrap_or(0) * HUGE_PAGES;
        100.0 * huge as f64 / (self.region_pages * self.tasks) as f64
    }

    fn run<S: System>(&self, system: &S, task: u64) -> Result<OfTask, SystemError> {
        let result = self.fill_and_touch(system, task);
        if result.is_err() {
            // The other tasks need not wait for this one.
            self.is_filled.store(true, Relaxed);
        }
        self.left.fetch_sub(1, Relaxed);
        result
    }

    fn fill_and_touch<S: System>(&self, system: &S, task: u64) -> Result<OfTask, SystemError> {
        let mut found = OfTask::default();
        let region = system.map_huge(self.region_pages as u32)?;
        let started = system.now();
        for page in 0..self.region_pages as u32 {
            found.touch(system, || system.touch_sample(&region, page, true, 1))?;
        }
        found.fill = system.now().since(started);
        if self.filled.fetch_add(1, Relaxed) + 1 == self.tasks {
            self.is_filled.store(true, Relaxed);
        }
        while !self.is_filled.load(Relaxed) && !system.is_killed() {
            system.sleep(LOOK_EVERY);
        }
        let mut rng = system.rng(STREAM + task);
        let started = system.now();
        let end = started + Nanos::from_secs(self.touch_s);
        while system.now() < end && !system.is_killed() {
            let page = rng.below(self.region_pages) as u32;
            let write = rng.below(100) < self.store_percent;
            found.touch(system, || system.touch_sample(&region, page, write, self.sample))?;
            system.compute(self.touch);
            found.touches += 1;
        }
        found.touching = system.now().since(started);
        system.unmap(region);
        Ok(found)
    }
}

impl OfTask {
    /// Touches a page, and records the time if the touch faulted.
    fn touch<S: System>(
        &mut self,
        system: &S,
        touch: impl FnOnce() -> Result<(), SystemError>,
    ) -> Result<(), SystemError> {
        let (faults, started) = (system.faults(), system.now());
        touch()?;
        let after = system.faults();
        if (after.minor, after.major) != (faults.minor, faults.major) {
            self.faults.push(system.now().since(started));
        }
        Ok(())
    }
}

/// Returns the CPU time that the program's tasks spent in a function and its callees, from the lines of a profile.
fn time_of(lines: &[String], func: Func) -> Nanos {
    let of_line = |line: &String| {
        let (path, ns) = line.rsplit_once(' ')?;
        let is_meant = path.split(';').nth(1) == Some(PROGRAM) && path.split(';').any(|part| part == func.name());
        is_meant.then(|| ns.parse::<u64>().ok()).flatten()
    };
    Nanos(lines.iter().filter_map(of_line).sum())
}

/// The record of a run: the tasks' results, the share of memory in huge pages over time, counters and CPU time.
#[derive(Debug, Default)]
struct Seen {
    tasks: Vec<OfTask>,
    /// Share of the program's memory that is in huge pages, percent, at each sample since the memory was filled.
    coverage: Vec<f64>,
    copied_pages: u64,
    sample: u64,
    counters: Vmstat,
    elapsed: Nanos,
    cpu: CpuTimes,
    /// Two CPU times of the program: that spent in direct compaction, and that spent in direct reclaim.
    direct: [Nanos; 2],
}

impl Seen {
    fn rows(&self) -> Vec<Row> {
        [
            self.program_rows(),
            self.coverage_rows(),
            self.stall_rows(),
            self.copy_rows(),
            duration_rows(self.cpu.user.as_secs_f64(), self.cpu.system.as_secs_f64(), self.elapsed.as_secs_f64()),
            mmtests::vmstat_rows(&self.counters, self.elapsed.as_secs_f64()),
            counter_rows(&self.counters),
        ]
        .concat()
    }

    fn program_rows(&self) -> Vec<Row> {
        let fill = self.tasks.iter().map(|task| task.fill).max().unwrap_or_default();
        let rate = |task: &OfTask| (task.touches * self.sample) as f64 / task.touching.as_secs_f64().max(1e-9);
        let touches = self.tasks.iter().map(rate).sum::<f64>() / 1e6;
        vec![
            Row::rate("Ops", "Touches", "M/s", touches),
            Row::new("Ops", "Fill", "s", Better::Lower, Format::Decimals(2), fill.as_secs_f64()),
        ]
    }

    fn coverage_rows(&self) -> Vec<Row> {
        let mean = self.coverage.iter().sum::<f64>() / (self.coverage.len() as f64).max(1.0);
        let last = self.coverage.last().copied().unwrap_or(0.0);
        [
            ("Coverage filled", self.coverage.first().copied().unwrap_or(0.0)),
            ("Coverage mean", mean),
            ("Coverage end", last),
        ]
        .map(|(name, value)| Row::new("coverage", name, "% of the program", Better::Higher, Format::Points(1), value))
        .into()
    }

    /// Returns the rows about stalls of the program: the durations of its touches that faulted, and its time in direct
    /// compaction and direct reclaim.
    fn stall_rows(&self) -> Vec<Row> {
        let mut sorted: Vec<Nanos> = self.tasks.iter().flat_map(|task| task.faults.iter().copied()).collect();
        sorted.sort_unstable();
        let all = Nanos(sorted.iter().map(|fault| fault.0).sum());
        let mut rows = Vec::new();
        for (statistic, per_mille) in [("p50", 500), ("p99", 990), ("max", 1000)] {
            let rank = (sorted.len() * per_mille).div_ceil(1000).max(1);
            let us = sorted.get(rank - 1).map_or(0.0, |fault| fault.as_secs_f64() * 1e6);
            let name = format!("Fault {statistic}");
            rows.push(Row::new("stalls", name, "us", Better::Lower, Format::Decimals(1), us));
        }
        let [compact, reclaim] = self.direct;
        for (name, time) in [("Time in faults", all), ("in direct compaction", compact), ("in direct reclaim", reclaim)]
        {
            rows.push(Row::new("stalls", name, "s", Better::Lower, Format::Decimals(2), time.as_secs_f64()));
        }
        rows
    }

    fn copy_rows(&self) -> Vec<Row> {
        let mb = page_bytes(self.copied_pages) as f64 / 1e6;
        vec![Row::rate("copy", "Copied", "MB/s", mb / self.elapsed.as_secs_f64().max(1e-9))]
    }
}

/// Returns rows of all the engine's counters about huge pages, compaction and requests for several pages.
fn counter_rows(counters: &Vmstat) -> Vec<Row> {
    const BEGINNINGS: [&str; 5] = ["thp", "compact", "pgmigrate", "alloc_high_order", "alloc_failed"];
    let is_meant = |name: &str| BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
    let row = |(name, value): (&String, &u64)| {
        Row::new("huge pages", name, "events", Better::Neutral, Format::Decimals(0), *value as f64)
    };
    counters.iter().filter(|(name, _)| is_meant(name)).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_touches_and_not_of_samples() {
        let task = |fill, touches| OfTask {
            fill: Nanos::from_secs(fill),
            touches,
            touching: Nanos::from_secs(10),
            faults: (1..=fill * 100).map(|n| Nanos(n * 1000)).collect(),
        };
        let seen = Seen {
            tasks: vec![task(1, 1_000_000), task(3, 2_000_000)],
            coverage: vec![10.0, 20.0, 30.0],
            sample: 64,
            ..Seen::default()
        };
        let value = |name: &str| seen.rows().iter().find(|row| row.name == name).expect("a row").value;
        assert_eq!((value("Touches"), value("Fill")), (19.2, 3.0));
        assert_eq!((value("Coverage filled"), value("Coverage mean"), value("Coverage end")), (10.0, 20.0, 30.0));
        assert_eq!((value("Fault p50"), value("Fault max")), (100.0, 300.0));
    }

    #[test]
    fn time_is_that_of_the_program_in_both_parts() {
        let lines = [
            "fill;program;handle_mm_fault;__alloc_pages_direct_compact 5",
            "touch;program;handle_mm_fault;__alloc_pages_direct_compact;compact_zone 7",
            "touch;copy;__alloc_pages_direct_compact 11",
            "touch;program;user 13",
        ];
        assert_eq!(time_of(&lines.map(String::from), Func::DirectCompact), Nanos(12));
    }
}
