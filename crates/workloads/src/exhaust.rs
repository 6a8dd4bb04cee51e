//! Programs that want more than exists: memory until a request fails, or disk space until a write fails.
//!
//! A program stores page after page, or appends to a file, until memory or disk space is refused. Then its pages are
//! freed, as at a process exit. The next program begins after a pause.

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

/// Resource that programs exhaust.
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
    /// Exhausted resource: `"memory"` or `"disk"`. Default `"memory"`.
    pub of: Of,
    /// Number of programs, which run one after the other. Default 3.
    pub programs: u64,
    /// Time between two programs, ms. Default 200.
    pub pause_ms: u64,
    /// Free disk space at the start, percent of memory. Default 200.
    pub room_percent: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self { of: Of::Memory, programs: 3, pause_ms: 200, room_percent: 200 }
    }
}

/// The workload `exhaust`: programs that want more memory, or more of the disk, than there is.
#[derive(Debug)]
pub struct Exhaust;

impl Workload for Exhaust {
    type Params = Params;

    const NAME: &'static str = "exhaust";

    const ABOUT: &'static str = "programs that want more memory, or more of the disk, than there is";

    const VERIFIES: bool = true;

    const SIM_ONLY: Option<&'static str> = Some("the other grounds end with the process that memory is exhausted for");

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
        Some(names(rows(&[1], CpuTimes::default(), 1.0, &vmstat::zeroes())))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let room = system.memory_pages().saturating_mul(params.room_percent) / 100;
        let old_pages = if params.of == Of::Disk { free_blocks(system).saturating_sub(room) } else { 0 };
        let has_old_file = old_pages > 0 && system.import(OLD_FILE, old_pages)?;
        let (counters, cpu, started) = (system.vmstat(), system.cpu_times(), system.now());
        let mut taken = Vec::new();
        for n in 0..params.programs {
            if system.is_killed() {
                break;
            }
            let program = match params.of {
                Of::Memory => system.start(&format!("program {n}"), store_until_refused),
                Of::Disk => system.start(&format!("program {n}"), write_until_refused),
            };
            taken.push(program.join(system)?);
            system.sleep(Nanos::from_millis(params.pause_ms));
        }
        let elapsed_s = system.now().since(started).as_secs_f64();
        let counters = difference(&counters, &system.vmstat());
        let rows = rows(&taken, system.cpu_times().since(cpu), elapsed_s, &counters);
        if has_old_file {
            system.remove(OLD_FILE)?;
        }
        Ok(Measurements { rows, ..Measurements::default() })
    }
}

/// Stores pages until memory is exhausted. Returns the number of pages stored.
fn store_until_refused<S: System>(system: &S) -> Result<u64, SystemError> {
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
    if was_refused || system.is_killed() { Ok(pages) } else { ended.map(|()| pages) }
}

/// Appends to a file until the disk is full, and removes the file. Returns the number of pages written.
fn write_until_refused<S: System>(system: &S) -> Result<u64, SystemError> {
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
    if was_refused || system.is_killed() { Ok(pages) } else { ended.map(|()| pages) }
}

/// Returns the number of free blocks on the disk.
fn free_blocks<S: System>(system: &S) -> u64 {
    system.engine_view().map_or(0, |view| view.room()[1])
}

fn rows(taken: &[u64], cpu: CpuTimes, elapsed_s: f64, counters: &Vmstat) -> Vec<Row> {
    let row = |group: &str, name: &str, unit: &str, better, value: u64| {
        Row::new(group, name, unit, better, Format::Decimals(0), value as f64)
    };
    let least = taken.iter().copied().min().unwrap_or(0);
    let of_programs = vec![
        row("programs", "Refused", "programs", Better::Neutral, taken.len() as u64),
        row("programs", "Pages before refusal", "pages", Better::Higher, least),
        row("programs", "oom", "events", Better::Lower, counters.get("oom").copied().unwrap_or(0)),
    ];
    [of_programs, vmscan::duration_rows(cpu, elapsed_s), vmscan::rows(counters)].concat()
}
