//! Programs that want more than exists: memory until the program is killed, or disk space until a write fails.
//!
//! A program stores page after page until memory and swap are full and the out-of-memory killer ends it, or appends to a
//! file until disk space is refused. Then its pages are freed. The next program begins after a pause.

use crate::extent::Extent;
use crate::system::contents::Pattern;
use crate::system::{System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use engine::stat::{Vmstat, vmstat};
use figures::counters::difference;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use figures::usage::CpuTimes;
use figures::vmscan;
use machine::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

/// Number of pages by which a program grows at a time.
const PIECE_PAGES: u64 = 64;

/// Name of the file that grows.
const FILE: &str = "log";

/// Name of the file that exists before the programs start.
const OLD_FILE: &str = "old data";

/// The resource that the programs exhaust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Anonymous memory.
    Memory,
    /// Disk space for a file.
    Disk,
}

/// Parameters of the workload `exhaust`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Resource that the programs exhaust: `"memory"` or `"disk"`. Default `"memory"`.
    pub of: Of,
    /// Number of programs, which run one after the other. Default 3.
    pub programs: u64,
    /// Time between the end of a program and the start of the next, ms. Default 200.
    pub pause_ms: u64,
    /// Free disk space at the start, percent of the size of memory. Default 200.
    pub room_percent: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self { of: Of::Memory, programs: 3, pause_ms: 200, room_percent: 200 }
    }
}

/// The workload `exhaust`: programs that request more memory, or more of the disk, than there is.
#[derive(Debug)]
pub struct Exhaust;

impl Workload for Exhaust {
    type Params = Params;

    const NAME: &'static str = "exhaust";

    const ABOUT: &'static str = "programs that want more memory, or more of the disk, than there is";

    const MEASURES_KILLS: bool = true;

    const VERIFIES: bool = true;

    const SIM_ONLY: Option<&'static str> =
        Some("on other grounds all tasks are one process, which the kernel would kill");

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, _: &Resources) -> Result<(), String> {
        let positive = [("programs", params.programs), ("room_percent", params.room_percent)];
        match positive.into_iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(format!("`{name}` is 0: must be at least 1")),
            None => Ok(()),
        }
    }

    fn extent(params: &Params, resources: &Resources, _: Scale) -> Extent {
        let Resources { memory_pages, swap_pages, .. } = *resources;
        let room = memory_pages.saturating_mul(params.room_percent) / 100;
        let pages = if params.of == Of::Memory { memory_pages + swap_pages } else { room };
        Extent {
            operations: pages.saturating_mul(params.programs),
            file_pages: if params.of == Of::Memory { 0 } else { room },
            wait_s: params.pause_ms / 1000,
            // Only the pauses are known in advance; the programs themselves take some seconds. If the pauses sum to
            // less than a second, no time is predicted.
            time_s: Some(params.pause_ms.saturating_mul(params.programs) / 1000).filter(|time_s| *time_s > 0),
        }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some(names(rows(&[(1, Fate::Killed)], CpuTimes::default(), 1.0, &vmstat::zeroes())))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let room = system.memory_pages().saturating_mul(params.room_percent) / 100;
        let old_pages = if params.of == Of::Disk { free_blocks(system).saturating_sub(room) } else { 0 };
        let has_old_file = old_pages > 0 && system.import(OLD_FILE, old_pages)?;
        system.begin_measured();
        let (counters, cpu, started) = (system.vmstat(), system.cpu_times(), system.now());
        let mut taken = Vec::new();
        for n in 0..params.programs {
            if system.is_killed() {
                break;
            }
            let program = match params.of {
                Of::Memory => system.start(&format!("program {n}"), store_until_killed),
                Of::Disk => system.start(&format!("program {n}"), write_until_refused),
            };
            taken.push(program.join(system)?);
            system.sleep(Nanos::from_millis(params.pause_ms));
        }
        let elapsed_s = system.now().since(started).as_secs_f64();
        system.end_measured();
        let counters = difference(&counters, &system.vmstat());
        let rows = rows(&taken, system.cpu_times().since(cpu), elapsed_s, &counters);
        if has_old_file {
            system.remove(OLD_FILE)?;
        }
        Ok(Measurements { rows, ..Measurements::default() })
    }
}

/// The way in which a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The program was killed.
    Killed,
    /// The system refused to give the program memory, or refused a write of the program.
    Refused,
}

/// Runs a program that stores page after page until it is killed, or until a request for memory is refused because no
/// process can be killed. Returns the number of pages stored, and how the program ended.
fn store_until_killed<S: System>(system: &S) -> Result<(u64, Fate), SystemError> {
    let kept = system.kept();
    let exhausted = |system: &S| system.vmstat().get("oom").copied().unwrap_or(0);
    let before = exhausted(system);
    let pattern = Pattern::new("memory", 1);
    let mut bytes = vec![0; PAGE_BYTES];
    let (mut regions, mut pages, mut ended) = (Vec::new(), 0, Ok(()));
    while ended.is_ok() && !system.is_killed() {
        let region = system.map(PIECE_PAGES as u32)?;
        for offset in (0..PIECE_PAGES).map(page_bytes) {
            pattern.fill(kept, offset, &mut bytes);
            ended = system.store(&region, offset, &bytes);
            if ended.is_err() {
                break;
            }
            pages += 1;
        }
        regions.push(region);
    }
    let was_refused = exhausted(system) > before;
    regions.into_iter().for_each(|region| system.unmap(region));
    fate(system, was_refused, ended).map(|fate| (pages, fate))
}

/// Runs a program that appends to a file until the disk is full, and then removes the file. Returns the number of pages
/// written, and how the program ended.
fn write_until_refused<S: System>(system: &S) -> Result<(u64, Fate), SystemError> {
    let kept = system.kept();
    let pattern = Pattern::new(FILE, 1);
    let file = system.create(FILE)?;
    let mut bytes = vec![0; PAGE_BYTES];
    let (mut pages, mut ended) = (0, Ok(()));
    while !system.is_killed() {
        pattern.fill(kept, page_bytes(pages), &mut bytes);
        ended = system.write(&file, page_bytes(pages), &bytes);
        if ended.is_err() {
            break;
        }
        pages += 1;
    }
    let was_refused = free_blocks(system) == 0;
    drop(file);
    system.remove(FILE)?;
    fate(system, was_refused, ended).map(|fate| (pages, fate))
}

/// Returns the way in which a program ended. `ended` is the outcome of the program's last operation. If this operation
/// failed although the program was neither killed nor refused memory or disk space, returns the operation's error.
fn fate<S: System>(system: &S, was_refused: bool, ended: Result<(), SystemError>) -> Result<Fate, SystemError> {
    if system.is_killed() {
        Ok(Fate::Killed)
    } else if was_refused {
        Ok(Fate::Refused)
    } else {
        ended.map(|()| Fate::Refused)
    }
}

/// Returns the number of free blocks on the disk.
fn free_blocks<S: System>(system: &S) -> u64 {
    system.engine_view().map_or(0, |view| view.room()[1])
}

fn rows(taken: &[(u64, Fate)], cpu: CpuTimes, elapsed_s: f64, counters: &Vmstat) -> Vec<Row> {
    let row = |group: &str, name: &str, unit: &str, better, value: u64| {
        Row::new(group, name, unit, better, Format::Decimals(0), value as f64)
    };
    let least = taken.iter().map(|(pages, _)| *pages).min().unwrap_or(0);
    let ended = |fate: Fate| taken.iter().filter(|(_, of)| *of == fate).count() as u64;
    let events = |name: &str| row("programs", name, "events", Better::Lower, counters.get(name).copied().unwrap_or(0));
    let of_programs = vec![
        row("programs", "Killed", "programs", Better::Neutral, ended(Fate::Killed)),
        row("programs", "Refused", "programs", Better::Neutral, ended(Fate::Refused)),
        row("programs", "Pages before the end", "pages", Better::Higher, least),
        events("oom_kill"),
        events("oom"),
    ];
    [of_programs, vmscan::duration_rows(cpu, elapsed_s), vmscan::rows(counters)].concat()
}
