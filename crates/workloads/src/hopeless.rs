//! Memory full of pages that cannot be reclaimed, beside a control group that reclaims for itself.
//!
//! One task does all the work, so that the workload runs alike on each ground. The machine has no swap. The task fills
//! memory with anonymous pages until free memory is below the low mark, so kswapd can never balance the node. Then the
//! task alternates between two reads. In its group, which is at `memory.high` and so reclaims its own pages, it reads
//! the next pages of a file. Outside of the group, it reads a random page of a hot file. The workload shows whether
//! kswapd gives up, or runs on and evicts the hot file again and again. Source: mechanisms/modern, 8 (the posting
//! "mm/vmscan: fix unintended reset of kswapd_failures", December 2025).

use super::big_file;
use super::random::Size;
use crate::extent::Extent;
use crate::system::contents::Pattern;
use crate::system::{System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use engine::stat::{Vmstat, vmstat};
use figures::counters::{difference, sum};
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use machine::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of the file that is read by a task in the memory control group.
const OWN: &str = "own";
/// Name of the hot file, which is read outside of the group.
const HOT: &str = "hot";

/// Number of the random stream ([`System::rng`]) that decides which pages of the hot file are read.
const STREAM: u64 = 7100;

/// Number of pages that are filled between two checks of free memory.
const STEP_PAGES: u32 = 16;

/// Percentage of the high mark. The workload fills memory with anonymous pages until free memory is at this level,
/// which lies halfway between the min mark (two thirds of the high mark) and the low mark (five sixths). From there,
/// the 100 pages or so that a group's reclaim frees at a time do not lift free memory to the high mark.
const FILL_TO_PERCENT: u64 = 75;

/// Parameters of the workload `hopeless`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// The memory control group of the reader, a section `[[group]]` of the machine file. Default: no group, so that
    /// only kswapd reclaims.
    pub group: Option<String>,
    /// Size of the file that the group reads again and again, MiB at full scale. Default 32.
    pub own_mib: u64,
    /// Size of the hot file, MiB at full scale. Default 1.
    pub hot_mib: u64,
    /// Number of pages that the group reads between two reads of the hot file. Default 16.
    pub own_pages: u64,
    /// Pause after each read of the hot file, us. Default 5000.
    pub pause_us: u64,
    /// Duration of the measurement, s. Default 10.
    pub seconds: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self { group: None, own_mib: 32, hot_mib: 1, own_pages: 16, pause_us: 5000, seconds: 10 }
    }
}

/// The workload `hopeless`: memory that cannot be reclaimed, beside a control group that reclaims its own pages.
#[derive(Debug)]
pub struct Hopeless;

impl Params {
    fn pages(&self, scale: Scale) -> [u64; 2] {
        [self.own_mib, self.hot_mib].map(|mib| Size { percent: 0, mib: Some(mib) }.pages(0, scale))
    }
}

impl Workload for Hopeless {
    type Params = Params;

    const NAME: &'static str = "hopeless";

    const ABOUT: &'static str = "memory that cannot be reclaimed, beside a control group that reclaims for itself";

    const VERIFIES: bool = true;

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        let Params { own_mib, hot_mib, own_pages, seconds, .. } = params;
        for (name, value) in
            [("own_mib", own_mib), ("hot_mib", hot_mib), ("own_pages", own_pages), ("seconds", seconds)]
        {
            if *value == 0 {
                return Err(format!("`{name}` is 0: must be at least 1"));
            }
        }
        if resources.swap_pages > 0 {
            return Err("anonymous pages can go to swap: the machine must have none (disk.swap_slots = 0)".into());
        }
        Ok(())
    }

    fn groups(params: &Params) -> Vec<&str> {
        params.group.iter().map(String::as_str).collect()
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let file_pages = params.pages(scale).iter().sum();
        let operations = resources.memory_pages.saturating_add(params.seconds.saturating_mul(1_000_000));
        Extent { wait_s: params.seconds, operations, file_pages, time_s: Some(params.seconds) }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some(names(rows(&Course {
            kswapd_cpu: Some(0.0),
            runs: [0; 2],
            reads: 0,
            seconds: 1.0,
            counters: vmstat::zeroes(),
        })))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let [own, hot] = params.pages(system.given().scale);
        big_file::make(system, OWN, own)?;
        big_file::make(system, HOT, hot)?;
        let mut reader = Reader::open(system, own, hot)?;
        reader.read_own(system, &params.group, own)?;
        let filled = fill(system)?;
        let course = alternate(system, params, &mut reader)?;
        filled.into_iter().for_each(|region| system.unmap(region));
        drop(reader);
        system.remove(OWN)?;
        system.remove(HOT)?;
        Ok(Measurements { rows: rows(&course), ..Measurements::default() })
    }
}

/// Fills memory with anonymous pages until free memory is below the low mark ([`FILL_TO_PERCENT`]). Returns the mapped
/// regions.
fn fill<S: System>(system: &S) -> Result<Vec<S::Region>, SystemError> {
    let mark = system.high_mark_pages().ok_or_else(|| SystemError("this ground does not tell its high mark".into()))?;
    let mut regions = Vec::new();
    while system.free_pages() > mark * FILL_TO_PERCENT / 100 && !system.is_killed() {
        let region = system.map(STEP_PAGES)?;
        system.touch(&region, 0..STEP_PAGES, true)?;
        regions.push(region);
    }
    Ok(regions)
}

/// The reader: its open files, and the number of the page of the group's file that it reads next.
struct Reader<S: System> {
    own: S::File,
    hot: S::File,
    own_pages: u64,
    hot_pages: u64,
    next: u64,
    bytes: Vec<u8>,
}

impl<S: System> Reader<S> {
    fn open(system: &S, own_pages: u64, hot_pages: u64) -> Result<Self, SystemError> {
        let (own, mut hot) = (system.open(OWN)?, system.open(HOT)?);
        system.expect_random_reads(&mut hot);
        Ok(Self { own, hot, own_pages, hot_pages, next: 0, bytes: vec![0; PAGE_BYTES] })
    }

    /// Reads the next `pages` pages of the group's file, as a member of the group.
    fn read_own(&mut self, system: &S, group: &Option<String>, pages: u64) -> Result<(), SystemError> {
        if group.is_some() {
            system.enter_group(group.as_deref())?;
        }
        for _ in (0..pages).take_while(|_| !system.is_killed()) {
            let offset = page_bytes(self.next);
            big_file::read_whole(system, &mut self.own, OWN, offset, &mut self.bytes)?;
            Pattern::new(OWN, 1).verify(system.kept(), offset, &self.bytes)?;
            self.next = (self.next + 1) % self.own_pages;
        }
        if group.is_some() {
            system.enter_group(None)?;
        }
        Ok(())
    }

    /// Reads a page of the hot file, and verifies it.
    fn read_hot(&mut self, system: &S, page: u64) -> Result<(), SystemError> {
        let offset = page_bytes(page);
        big_file::read_whole(system, &mut self.hot, HOT, offset, &mut self.bytes)?;
        Ok(Pattern::new(HOT, 1).verify(system.kept(), offset, &self.bytes)?)
    }
}

/// The measurements of a run.
struct Course {
    /// CPU time of kswapd, percent of a CPU; none if the system does not measure it.
    kswapd_cpu: Option<f64>,
    /// Number of runs of kswapd (`pageoutrun`) in each half of the measurement.
    runs: [u64; 2],
    reads: u64,
    seconds: f64,
    counters: Vmstat,
}

/// Reads two files in turn for `params.seconds` seconds: the group's own file, as a member of the group, and then a
/// page of the hot file, outside of the group. Returns the measurements.
fn alternate<S: System>(system: &S, params: &Params, reader: &mut Reader<S>) -> Result<Course, SystemError> {
    let mut rng = system.rng(STREAM);
    system.begin_measured();
    let (before, profile, began) = (system.vmstat(), system.profile(), system.now());
    let length = Nanos::from_secs(params.seconds);
    let (half, end) = (began + Nanos(length.0 / 2), began + length);
    system.expect_end(end);
    let (mut middle, mut reads) = (None, 0);
    while system.now() < end && !system.is_killed() {
        reader.read_own(system, &params.group, params.own_pages)?;
        let page = rng.below(reader.hot_pages);
        reader.read_hot(system, page)?;
        reads += 1;
        system.sleep(Nanos(params.pause_us * 1000));
        if middle.is_none() && system.now() >= half {
            middle = Some(system.vmstat());
        }
    }
    system.end_measured();
    let after = system.vmstat();
    let seconds = system.now().since(began).as_secs_f64().max(f64::MIN_POSITIVE);
    let runs = |from: &Vmstat, to: &Vmstat| difference(from, to).get("pageoutrun").copied().unwrap_or_default();
    let middle = middle.unwrap_or_else(|| before.clone());
    let spent = system.profile();
    let kswapd_cpu = (!spent.is_empty()).then(|| {
        let of = |profile: &BTreeMap<String, Nanos>| {
            let theirs = profile.iter().filter(|(path, _)| path.starts_with("kswapd"));
            theirs.map(|(_, time)| time.as_secs_f64()).sum::<f64>()
        };
        100.0 * (of(&spent) - of(&profile)) / seconds
    });
    let runs = [runs(&before, &middle), runs(&middle, &after)];
    Ok(Course { kswapd_cpu, runs, reads, seconds, counters: difference(&before, &after) })
}

fn rows(course: &Course) -> Vec<Row> {
    let Course { kswapd_cpu, runs, reads, seconds, counters } = course;
    let row = |group: &str, name: &str, unit: &str, better, decimals, value: f64| {
        Row::new(group, name, unit, better, Format::Decimals(decimals), value)
    };
    let rate = |name: &str| sum(counters, name).unwrap_or_default() as f64 / seconds;
    let cpu = kswapd_cpu.map(|cpu| row("kswapd", "Kswapd CPU", "% of a CPU", Better::Lower, 2, cpu));
    let others = [
        row("kswapd", "Kswapd runs, first half", "runs", Better::Lower, 0, runs[0] as f64),
        row("kswapd", "Kswapd runs, second half", "runs", Better::Lower, 0, runs[1] as f64),
        row("kswapd", "Kswapd pages scanned", "pages/s", Better::Lower, 1, rate("pgscan_kswapd")),
        row("kswapd", "Kswapd pages reclaimed", "pages/s", Better::Lower, 1, rate("pgsteal_kswapd")),
        row("hot file", "Hot reads", "reads/s", Better::Higher, 1, *reads as f64 / seconds),
        row("hot file", "File refaults", "pages/s", Better::Lower, 1, rate("workingset_refault_file")),
        row("group", "Direct pages reclaimed", "pages/s", Better::Neutral, 1, rate("pgsteal_direct")),
    ];
    cpu.into_iter().chain(others).collect()
}
