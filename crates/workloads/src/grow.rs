//! A program that grows in its memory control group, and then is asked to give pages back.
//!
//! The task enters its group and reads a file once, then writes anonymous memory, MiB by MiB. Each of the last MiB is
//! timed, which shows how `memory.high` throttles. In the end it can write to the group's `memory.reclaim`, and reports
//! which pages were freed.

use super::big_file;
use super::controller::{self, CONTROLS, Controls, Done, Kind, Running, Steered};
use super::random::Size;
use crate::extent::Extent;
use crate::system::contents::Pattern;
use crate::system::{System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use engine::stat::Vmstat;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use machine::PAGE_BYTES;
use serde::{Deserialize, Serialize};

/// Name of the file that is read.
const FILE: &str = "read";
/// The anonymous memory has the test pattern that is made from this name.
const MEMORY: &str = "memory";

/// Number of pages in a MiB.
const MIB_PAGES: u64 = 256;

/// Largest size of a file or of memory, MiB: 8 TiB.
const MIB_MAX: u64 = 8 << 20;

/// Largest value of [`Params::timed_mib`]. Each timed MiB has a row in the report.
const TIMED_MAX: u64 = 64;

/// Parameters of the workload `grow`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Default, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// The memory control group of the program, a section `[[group]]` of the machine file. Default: the program stays
    /// in the group in which its task starts.
    pub group: Option<String>,
    /// Size of the file that is read once at the beginning, MiB. Default 0.
    pub file_mib: u64,
    /// Anonymous memory that is written once, MiB. Default 0.
    pub anon_mib: u64,
    /// Size of the last part of the anonymous memory, MiB. For each MiB of this part, the time to write it is measured.
    /// Default 0.
    pub timed_mib: u64,
    /// Number of MiB that the workload finally asks the group to free, by a write to `memory.reclaim`. Default 0: the
    /// group is not asked.
    pub reclaim_mib: u64,
    /// Controller that runs beside the program: `"none"`, `"senpai"`, `"oomd"`, `"kubelet"`. Default `"none"`.
    pub controller: Kind,
    /// Constants of the controllers.
    pub controls: Controls,
    /// Value of `swappiness=` in the request that is written to `memory.reclaim`. Default: the request has no
    /// `swappiness=`.
    pub reclaim_swappiness: Option<u64>,
}

impl Params {
    fn sizes(&self, scale: Scale) -> [u64; 2] {
        let pages = |mib| Size { percent: 0, mib: Some(mib) }.pages(0, scale);
        [pages(self.file_mib), pages(self.anon_mib)]
    }
}

/// The workload `grow`: a program that grows in its control group, after which the group is asked to give pages back.
#[derive(Debug)]
pub struct Grow;

impl Workload for Grow {
    type Params = Params;

    const NAME: &'static str = "grow";

    const ABOUT: &'static str = "a program that grows in its control group, and is asked to give pages back";

    const MEASURES_KILLS: bool = true;

    const VERIFIES: bool = true;

    fn about_param(key: &str) -> Option<&'static str> {
        key.strip_prefix(CONTROLS).map_or_else(|| Params::get_field_docs(key).ok(), Controls::about)
    }

    fn check(params: &Params, _: &Resources) -> Result<(), String> {
        let Params { anon_mib, timed_mib, reclaim_mib, reclaim_swappiness, .. } = params;
        if timed_mib > anon_mib || *timed_mib > TIMED_MAX {
            return Err(format!("timed_mib is {timed_mib}: at most {TIMED_MAX}, and at most anon_mib, {anon_mib}"));
        }
        for (name, mib) in [("file_mib", params.file_mib), ("anon_mib", *anon_mib), ("reclaim_mib", *reclaim_mib)] {
            if mib > MIB_MAX {
                return Err(format!("{name} is {mib}: at most {MIB_MAX}"));
            }
        }
        params.controls.check()?;
        if params.controller != Kind::None && params.group.is_none() {
            return Err("a controller steers a group: `group` must name one".into());
        }
        if *reclaim_mib > 0 && params.group.is_none() {
            return Err("reclaim_mib asks a group: `group` must name one".into());
        }
        match reclaim_swappiness {
            Some(swappiness) if *swappiness > 200 => Err(format!("reclaim_swappiness is {swappiness}: at most 200")),
            Some(_) | None => Ok(()),
        }
    }

    fn groups(params: &Params) -> Vec<&str> {
        params.group.iter().map(String::as_str).collect()
    }

    fn extent(params: &Params, _: &Resources, scale: Scale) -> Extent {
        let [file_pages, anon] = params.sizes(scale);
        // A MiB above a `high` line may take 8 s, because 64 pages take 2 s.
        let wait_s = params.timed_mib.saturating_mul(8);
        Extent { wait_s, operations: file_pages.saturating_add(anon), file_pages, time_s: None }
    }

    fn row_names(params: &Params, _: &Resources) -> Option<Vec<RowName>> {
        let empty = Vmstat::new();
        let freed = (params.reclaim_mib > 0).then_some((&empty, &empty, false));
        let of_controller =
            if params.controller == Kind::None { Vec::new() } else { with_controller(true, &Done::default()) };
        Some(names([rows(params, &vec![0.0; params.timed_mib as usize], freed), of_controller].concat()))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let [file, _] = params.sizes(system.given().scale);
        if file > 0 {
            big_file::make(system, FILE, file)?;
            system.drop_caches()?;
        }
        let found = match params.controller {
            Kind::None => grow(system, params)?.0,
            kind => grow_beside(system, params, kind)?,
        };
        if file > 0 {
            system.remove(FILE)?;
        }
        Ok(Measurements { rows: found, ..Measurements::default() })
    }
}

/// Runs the growing program in a process of its own, beside a controller that may kill it. Returns the rows of the
/// program and of the controller.
fn grow_beside<S: System>(system: &S, params: &Params, kind: Kind) -> Result<Vec<Row>, SystemError> {
    let name = params.group.clone().unwrap_or_default();
    let groups = vec![Steered { name: name.clone(), request_pages: 0 }];
    let controller = Running::start(system, kind, &params.controls, groups, Some(name));
    let of_program = params.clone();
    let program = system.start("program", move |system| grow(system, &of_program));
    let found = program.join(system);
    let done = controller.map_or_else(|| Ok(Done::default()), |controller| controller.stop(system))?;
    let (found, was_killed) = found?;
    Ok([found, with_controller(was_killed, &done)].concat())
}

fn with_controller(was_killed: bool, done: &Done) -> Vec<Row> {
    let killed = f64::from(u8::from(was_killed));
    let killed = Row::new("controller", "Program killed", "", Better::Lower, Format::Decimals(0), killed);
    [vec![killed], controller::rows(done)].concat()
}

/// Runs the program. Returns the rows of its measurements, and whether the program was told to end.
fn grow<S: System>(system: &S, params: &Params) -> Result<(Vec<Row>, bool), SystemError> {
    let [file, anon] = params.sizes(system.given().scale);
    if let Some(group) = &params.group {
        system.enter_group(Some(group))?;
    }
    let mut bytes = vec![0; PAGE_BYTES];
    if file > 0 {
        let mut open = system.open(FILE)?;
        for offset in (0..file).map(page_bytes).take_while(|_| !system.is_killed()) {
            match big_file::read_whole(system, &mut open, FILE, offset, &mut bytes) {
                Err(_) if system.is_killed() => break,
                read => read?,
            }
        }
    }
    let region = system.map(anon.max(1) as u32)?;
    // At another scale than 1, a MiB of the parameters is more or fewer pages.
    let mib_pages = system.given().scale.of(MIB_PAGES).max(1);
    let timed_from = anon.saturating_sub(params.timed_mib * mib_pages);
    let mut times = Vec::new();
    let mut began = system.now();
    for page in (0..anon).take_while(|_| !system.is_killed()) {
        Pattern::new(MEMORY, 1).fill(system.kept(), page_bytes(page), &mut bytes);
        match system.store(&region, page_bytes(page), &bytes) {
            Err(_) if system.is_killed() => break,
            stored => stored?,
        }
        if page < timed_from {
            began = system.now();
        } else if (page + 1 - timed_from).is_multiple_of(mib_pages) {
            times.push(system.now().since(began).0 as f64 / 1e9);
            began = system.now();
        }
    }
    let freed = reclaim(system, params)?;
    for page in (0..anon).take_while(|_| !system.is_killed()) {
        match system.load(&region, page_bytes(page), &mut bytes) {
            Err(_) if system.is_killed() => break,
            loaded => loaded?,
        }
        Pattern::new(MEMORY, 1).verify(system.kept(), page_bytes(page), &bytes)?;
    }
    system.unmap(region);
    system.enter_group(None).or_else(|error| if params.group.is_some() { Err(error) } else { Ok(()) })?;
    if times.len() < params.timed_mib as usize && params.controller == Kind::None {
        return Err(SystemError("the program was told to end before all of its memory was written".into()));
    }
    let freed = freed.as_ref().map(|(before, after, is_all)| (before, after, *is_all));
    Ok((rows(params, &times, freed), system.is_killed()))
}

/// Writes to the group's `memory.reclaim`, if the parameters ask for it. Returns the group's counters before and after,
/// and whether the group freed as much as was requested. Returns none if the parameters do not ask for it.
fn reclaim<S: System>(system: &S, params: &Params) -> Result<Option<(Vmstat, Vmstat, bool)>, SystemError> {
    let Some(group) = params.group.as_ref().filter(|_| params.reclaim_mib > 0) else { return Ok(None) };
    let stat = || system.group_stat(group).map(Option::unwrap_or_default);
    let before = stat()?;
    let pages = system.given().scale.of(params.reclaim_mib * MIB_PAGES);
    let is_all = system.reclaim_group(group, pages, params.reclaim_swappiness)?;
    Ok(Some((before, stat()?, is_all)))
}

fn rows(params: &Params, times: &[f64], freed: Option<(&Vmstat, &Vmstat, bool)>) -> Vec<Row> {
    let first = params.anon_mib - params.timed_mib.min(params.anon_mib) + 1;
    let timed = (first..).zip(times).map(|(mib, seconds)| {
        Row::new("seconds for a MiB", format!("MiB {mib}"), "s", Better::Lower, Format::Decimals(2), *seconds)
    });
    let freed = freed.into_iter().flat_map(|(before, after, is_all)| {
        let sum = |stat: &Vmstat, names: [&str; 2]| names.iter().filter_map(|name| stat.get(*name)).sum::<u64>() as f64;
        let mib = |name: &str, lists: [&str; 2]| {
            let pages = sum(before, lists) - sum(after, lists);
            Row::new("memory.reclaim", name, "MiB", Better::Neutral, Format::Decimals(1), pages / MIB_PAGES as f64)
        };
        let is_all = f64::from(u8::from(is_all));
        [
            mib("freed anon", ["inactive_anon", "active_anon"]),
            mib("freed file", ["inactive_file", "active_file"]),
            Row::new("memory.reclaim", "all freed", "", Better::Higher, Format::Decimals(0), is_all),
        ]
    });
    timed.chain(freed).collect()
}
