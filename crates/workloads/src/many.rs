//! One program's load, divided among many memory control groups.
//!
//! A task reads stretches of `run_pages` adjacent pages at random places of a file. Each part of the file belongs to a
//! group: before the task reads a stretch, it enters the group of the stretch. The reads do not depend on the number of
//! groups. So two measurements that differ only in this number show what groups cost.

use super::big_file;
use super::cpu_rows;
use super::meter::{Course, LOOK_EVERY, Length, Measured, Tally, measure};
use super::random::Size;
use crate::extent::Extent;
use crate::system::{System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::counters;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use machine::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

/// Name of the file that is read.
const FILE: &str = "many";

/// Number of the random stream ([`System::rng`]) from which the places of the reads are drawn.
const STREAM: u64 = 7100;

/// Parameters of the workload `many`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Name of a section `[[group]]` of the machine file. The file that the tasks read is divided among the control
    /// groups for which the section stands (`count`). Default: the task stays in the group in which it starts.
    pub group: Option<String>,
    /// Size of the file, percent of memory. Default 200.
    pub file_percent: u64,
    /// Size of the file in MiB at full scale, instead of `file_percent`.
    pub file_mib: Option<u64>,
    /// Number of page reads in the whole run, percent of the file's number of pages. Default 300.
    pub read_percent: u64,
    /// Number of consecutive pages in a stretch. The workload chooses stretches at random and reads each as a whole.
    /// Default 16.
    pub run_pages: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self { group: None, file_percent: 200, file_mib: None, read_percent: 300, run_pages: 16 }
    }
}

impl Params {
    /// Returns the number of pages in the file, a multiple of `run_pages`.
    fn file_pages(&self, memory_pages: u64, scale: Scale) -> u64 {
        let pages = Size { percent: self.file_percent, mib: self.file_mib }.pages(memory_pages, scale);
        pages.max(1).next_multiple_of(self.run_pages.max(1))
    }

    /// Returns the number of stretches that the tasks read in the whole workload. A stretch has `run_pages` pages, and
    /// its place in the file is random.
    fn runs(&self, file_pages: u64) -> u64 {
        (file_pages.saturating_mul(self.read_percent) / 100).div_ceil(self.run_pages.max(1)).max(1)
    }
}

/// The workload `many`: random reads of a file whose parts belong to many control groups.
#[derive(Debug)]
pub struct Many;

impl Workload for Many {
    type Params = Params;

    const NAME: &'static str = "many";

    const ABOUT: &'static str = "random reads of a file whose parts belong to many control groups";

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        if params.run_pages == 0 {
            return Err("run_pages is 0: expected at least 1".into());
        }
        match (Size { percent: params.file_percent, mib: params.file_mib }).pages(resources.memory_pages, Scale::FULL) {
            0 => Err("the file has no pages: file_percent or file_mib must be above 0".into()),
            _ => Ok(()),
        }
    }

    fn groups(params: &Params) -> Vec<&str> {
        params.group.iter().map(String::as_str).collect()
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let file_pages = params.file_pages(resources.memory_pages, scale);
        let operations = params.runs(file_pages).saturating_mul(params.run_pages);
        Extent { wait_s: 0, operations, file_pages, time_s: None }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        let of_reclaim = rows_of_reclaim((Nanos(1), [1, 1]));
        Some(names([rows(&Course::with_everything()), of_reclaim].concat()))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let pages = params.file_pages(system.memory_pages(), system.given().scale);
        big_file::provide(system, FILE, pages)?;
        let groups = match &params.group {
            None => Vec::new(),
            Some(name) => system.group_names(name)?,
        };
        let (runs, run_pages) = (params.runs(pages), params.run_pages);
        let measured = Measured {
            name: "many",
            tasks: 1,
            length: Length::Operations(runs * run_pages),
            fills_memory: true,
            keeps_step: false,
            look_every: LOOK_EVERY,
        };
        let course = measure(system, &measured, move |system, _, tally| {
            read_in_groups(system, pages, run_pages, &groups, tally)
        })?;
        system.remove(FILE)?;
        Ok(Measurements { rows: rows(&course), times: course.times("Read"), ..Measurements::default() })
    }
}

/// Reads random stretches of `run_pages` pages of the file, until the measurement is over. The file is divided among
/// the control groups `groups`. Before each stretch, the task moves to the group that has this part of the file.
fn read_in_groups<S: System>(
    system: &S,
    pages: u64,
    run_pages: u64,
    groups: &[String],
    tally: &mut Tally,
) -> Result<(), SystemError> {
    let mut rng = system.rng(STREAM);
    let mut file = system.open(FILE)?;
    system.expect_random_reads(&mut file);
    let mut bytes = vec![0; PAGE_BYTES];
    let runs = pages / run_pages;
    tally.begin(system);
    while !tally.is_over() && !system.is_killed() {
        let run = rng.below(runs);
        if !groups.is_empty() {
            let group = run * groups.len() as u64 / runs;
            system.enter_group(Some(&groups[group as usize]))?;
        }
        for offset in (run * run_pages..(run + 1) * run_pages).map(page_bytes) {
            let started = system.now();
            big_file::read_whole(system, &mut file, FILE, offset, &mut bytes)?;
            tally.count(system.now().since(started));
        }
    }
    Ok(())
}

/// Returns kswapd's CPU time during a measurement, and the numbers of pages that kswapd scanned and reclaimed.
fn kswapd_work(course: &Course) -> (Nanos, [u64; 2]) {
    let spent = course.spent.iter().flat_map(|spent| &spent.profile);
    let of_kswapd = spent.filter(|(path, _)| path.starts_with(cpu_rows::KSWAPD.prefix));
    let time = of_kswapd.fold(Nanos(0), |sum, (_, time)| sum + *time);
    (time, ["pgscan_kswapd", "pgsteal_kswapd"].map(|name| counters::sum(&course.counters, name).unwrap_or_default()))
}

/// Returns the rows of kswapd's CPU time and of scanned pages, both divided by the number of pages that kswapd
/// reclaimed. Returns no rows if kswapd reclaimed nothing. There is no row of CPU time if the system does not measure
/// CPU time by task.
fn rows_of_reclaim((time, [scanned, reclaimed]): (Nanos, [u64; 2])) -> Vec<Row> {
    if reclaimed == 0 {
        return Vec::new();
    }
    let row = |name: &str, unit: &str, decimals, value: u64| {
        let of_each = value as f64 / reclaimed as f64;
        Row::new("reclaim", name, unit, Better::Lower, Format::Decimals(decimals), of_each)
    };
    let cpu = (time > Nanos(0)).then(|| row("kswapd CPU per page", "ns", 0, time.0));
    cpu.into_iter().chain([row("kswapd scans per page", "pages", 3, scanned)]).collect()
}

fn rows(course: &Course) -> Vec<Row> {
    let hits = course.hit_row("Hit ratio", 0).into_iter().collect();
    [
        course.rate_rows("many"),
        rows_of_reclaim(kswapd_work(course)),
        hits,
        course.latency_rows("Read"),
        course.cost_rows(),
    ]
    .concat()
}
