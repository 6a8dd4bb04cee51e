//! Reads of 4 KiB at random offsets in files that are larger than memory, by tasks with many reads in flight, as with
//! io_uring.
//!
//! The files are on the device and not in memory, so the first reads miss. Memory fills with read pages until every
//! miss has to evict a page. The report lists the rates just before that moment and after it. For the time after, it
//! also lists the CPU time by task and by purpose. Description: mechanisms/multigen, 10.

use super::big_file;
use super::cpu_rows::{self, KSWAPD, Who};
use super::meter::{Course, Length, Measured, Tally, measure};
use super::random::{Size, check_sizes, check_theta};
use crate::choose::{Chooser, Distribution};
use crate::extent::Extent;
use crate::system::{System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use machine::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Prefix of the names of the tasks that read.
const READERS: &str = "reader";

/// Task number `n` draws its random numbers from stream `STREAM + n` ([`System::rng`]).
const STREAM: u64 = 5000;

/// Parameters of the workload `randread-async`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Size of all files together, percent of memory. Default 1600.
    pub file_percent: u64,
    /// Number of files. Default 1.
    pub files: u64,
    /// Which files a task reads. Default: any file, chosen at each read.
    pub choice: Choice,
    /// How often each page of a file is read. Default: all pages equally often.
    pub distribution: Distribution,
    /// Exponent of the distribution `zipf`: above 0. Default 0.8.
    pub theta: f64,
    /// Number of tasks that read. Default 1.
    pub tasks: u64,
    /// Largest number of reads that a task has in flight at a time. Default 256.
    pub depth: u64,
    /// Anonymous memory of a program that is idle, percent of the machine's memory. Default 0.
    pub idle_anon_percent: u64,
    /// Measured time after memory is full, milliseconds. Default 1000.
    pub full_ms: u64,
    /// Time after which memory counts as full even if it is not, s. Default 60.
    pub filling_s: u64,
}

/// The rule by which a task chooses the file for each of its reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// A task reads any file, chosen at random for each read.
    #[default]
    Any,
    /// A task reads only one file. If there are more tasks than files, several tasks read the same file.
    Own,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            file_percent: 1600,
            files: 1,
            choice: Choice::Any,
            distribution: Distribution::Uniform,
            theta: 0.8,
            tasks: 1,
            depth: 256,
            idle_anon_percent: 0,
            full_ms: 1000,
            filling_s: 60,
        }
    }
}

impl Params {
    fn pages(&self, memory_pages: u64, scale: Scale) -> u64 {
        Size { percent: self.file_percent, mib: None }.pages(memory_pages, scale)
    }
}

fn file_name(n: u64) -> String {
    format!("random-{n}.dat")
}

/// The workload `randread-async`: random reads of 4 KiB from files larger than memory, with many reads in flight at a
/// time.
#[derive(Debug)]
pub struct RandreadAsync;

impl Workload for RandreadAsync {
    type Params = Params;

    const NAME: &'static str = "randread-async";

    const ABOUT: &'static str = "random reads of 4 KiB, many of them under way at a time, of files larger than memory";

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        check_theta(params.distribution, params.theta)?;
        if params.depth == 0 || params.depth > 65_536 {
            return Err(format!("`depth` is {}: from 1 to 65536 reads can be under way", params.depth));
        }
        if params.files == 0 || params.files > 4096 {
            return Err(format!("`files` is {}: from 1 to 4096 can be", params.files));
        }
        if params.depth.saturating_mul(params.tasks) > resources.memory_pages / 4 {
            let (depth, tasks, memory) = (params.depth, params.tasks, resources.memory_pages);
            return Err(format!(
                "{tasks} tasks with {depth} reads each: at most a quarter of {memory} pages may be under way"
            ));
        }
        if params.idle_anon_percent > 90 {
            return Err(format!("`idle_anon_percent` is {}: at most 90", params.idle_anon_percent));
        }
        check_sizes(params.tasks, params.pages(resources.memory_pages, Scale::FULL) / params.files, "each file")
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let pages = params.pages(resources.memory_pages, scale);
        let time_s = params.full_ms.div_ceil(1000).saturating_add(params.filling_s);
        Extent { time_s: Some(time_s), operations: 0, file_pages: pages, wait_s: 0 }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        let mut course = Course::with_everything();
        // A machine with several nodes has rows for each node's kswapd; at most 8 nodes are listed.
        let tasks = (0..8).map(|node| format!("{}{node}", KSWAPD.prefix)).chain([READERS.to_owned()]);
        course.spent[1].profile.extend(tasks.map(|task| (task, Nanos(1))));
        Some(names(rows(&course)))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let pages = params.pages(system.memory_pages(), system.given().scale) / params.files;
        for n in 0..params.files {
            big_file::provide(system, &file_name(n), pages)?;
        }
        let idle = touch_idle(system, params)?;
        let chooser = Chooser::new(params.distribution, params.theta, pages);
        let Params { tasks, files, choice, depth, .. } = *params;
        let length =
            Length::Time { full: Nanos::from_millis(params.full_ms), filling: Nanos::from_secs(params.filling_s) };
        let measured = Measured {
            name: READERS,
            tasks,
            length,
            fills_memory: true,
            keeps_step: false,
            look_every: Nanos::from_millis(1),
        };
        let course = measure(system, &measured, move |system, n, tally| {
            let its_own = match choice {
                Choice::Any => 0..files,
                Choice::Own => n % files..n % files + 1,
            };
            read_ahead_of_use(system, its_own, &chooser, depth, n, tally)
        })?;
        idle.into_iter().for_each(|region| system.unmap(region));
        (0..files).try_for_each(|n| system.remove(&file_name(n)))?;
        let parts = ["filling", "full"].into_iter().zip(&course.spent);
        let stack = |part: &str, path: &str, time: &Nanos| format!("{part};{path} {}", time.0);
        let profile = parts.flat_map(|(part, spent)| {
            spent.profile.iter().filter(|(_, time)| time.0 > 0).map(move |(path, time)| stack(part, path, time))
        });
        let times = course.times("Read");
        Ok(Measurements { profile: profile.collect(), rows: rows(&course), times, ..Measurements::default() })
    }
}

/// Maps and touches the memory of a program that then stays idle. Returns the mapped region, or none if the program has
/// no memory.
fn touch_idle<S: System>(system: &S, params: &Params) -> Result<Option<S::Region>, SystemError> {
    let pages = (system.memory_pages() * params.idle_anon_percent / 100) as u32;
    if pages == 0 {
        return Ok(None);
    }
    let region = system.map(pages)?;
    system.touch(&region, 0..pages, true)?;
    Ok(Some(region))
}

/// A read in flight: its file, its page and the time of its start.
struct Started {
    file: usize,
    page: u64,
    at: Nanos,
}

/// Reads random pages of files, with `depth` reads in flight, until the measurement is over. Records the time of each
/// read from its start to its end.
fn read_ahead_of_use<S: System>(
    system: &S,
    files: std::ops::Range<u64>,
    chooser: &Chooser,
    depth: u64,
    task: u64,
    tally: &mut Tally,
) -> Result<(), SystemError> {
    let mut rng = system.rng(STREAM + task);
    let mut open = files.map(|n| system.open(&file_name(n))).collect::<Result<Vec<_>, _>>()?;
    open.iter_mut().for_each(|file| system.expect_random_reads(file));
    let mut bytes = vec![0; PAGE_BYTES];
    let mut started: VecDeque<Started> = VecDeque::new();
    tally.begin(system);
    while !tally.is_over() && !system.is_killed() {
        if (started.len() as u64) < depth {
            let file = if open.len() == 1 { 0 } else { rng.below(open.len() as u64) as usize };
            let page = chooser.next(&mut rng);
            let at = system.now();
            system.start_read(&mut open[file], page)?;
            started.push_back(Started { file, page, at });
            continue;
        }
        let Some(Started { file, page, at }) = started.pop_front() else { break };
        big_file::read_whole(system, &mut open[file], "of random reads", page_bytes(page), &mut bytes)?;
        tally.count(system.now().since(at));
    }
    Ok(())
}

fn rows(course: &Course) -> Vec<Row> {
    let mut rows = bandwidth_rows(course);
    rows.extend(course.rate_rows("randread"));
    rows.extend(course.hit_row("Hit ratio", 0));
    rows.push(swap_row(course));
    rows.extend(cpu_rows::rows(course, KSWAPD));
    rows.extend(cpu_rows::rows(course, Who { prefix: READERS, name: "Readers", tells_each: false }));
    rows.extend(course.latency_rows("Read"));
    rows.extend(course.cost_rows());
    rows
}

/// Returns the row of swap traffic: pages swapped in and out in the whole run, MB/s.
fn swap_row(course: &Course) -> Row {
    let pages: u64 = ["pswpin", "pswpout"].iter().filter_map(|name| course.counters.get(*name)).sum();
    let megabytes = pages as f64 * PAGE_BYTES as f64 / 1e6 / course.elapsed_s().max(1e-9);
    Row::new("swap", "Swap traffic", "MB/s", Better::Lower, Format::Decimals(2), megabytes)
}

/// Number of equal parts into which the time after memory was full is divided. The rates in the slowest and in the
/// fastest part are reported.
const PARTS: u64 = 10;

/// Returns the rows of the bandwidth before and after the moment when memory was full. The time after this moment is
/// divided into [`PARTS`] parts; two rows have the smallest and the largest bandwidth of a part. The last row has the
/// bandwidth after the moment in percent of that before. Returns no rows if memory never was full.
fn bandwidth_rows(course: &Course) -> Vec<Row> {
    let Some([before, after]) = course.before_and_after() else { return Vec::new() };
    let parts = course.rates_after(PARTS);
    let gb = |rate: f64| rate * PAGE_BYTES as f64 / 1e9;
    let row = |name: &str, unit, decimals, value| {
        Row::new("bandwidth", name, unit, Better::Higher, Format::Decimals(decimals), value)
    };
    vec![
        row("Bandwidth before full", "GB/s", 3, gb(before)),
        row("Bandwidth after", "GB/s", 3, gb(after)),
        row("Bandwidth after (low)", "GB/s", 3, gb(parts.iter().copied().fold(f64::INFINITY, f64::min))),
        row("Bandwidth after (high)", "GB/s", 3, gb(parts.iter().copied().fold(0.0, f64::max))),
        row("Bandwidth after / before", "%", 1, 100.0 * after / before.max(1e-9)),
    ]
}
