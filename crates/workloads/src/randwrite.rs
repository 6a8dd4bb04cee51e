//! Writes of 4 KiB at random offsets in a file that is larger than memory, with a sync after every `sync_every` writes.
//!
//! Each task writes pages of its own, every nth page of the file for n tasks. It writes a new version of the page each
//! time, so that the whole file can be read back from the device and verified at the end.

use super::big_file;
use super::meter::{Course, LOOK_EVERY, Measured, Tally, latency_rows, measure};
use super::random::{Size, check_sizes, extent, length};
use crate::extent::Extent;
use crate::system::contents::Pattern;
use crate::system::{System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::histogram::Times;
use figures::scale::Scale;
use hdrhistogram::Histogram;
use machine::PAGE_BYTES;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// Name of the file that is written.
const FILE: &str = "randwrite.dat";

/// Task number `n` draws its random numbers from stream `STREAM + n` ([`System::rng`]).
const STREAM: u64 = 4000;

/// Parameters of the workload `randwrite`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Size of the file, percent of memory. Default 200.
    pub file_percent: u64,
    /// Size of the file in MiB at full scale, instead of `file_percent`.
    pub file_mib: Option<u64>,
    /// Number of tasks that write. Default 4.
    pub tasks: u64,
    /// A task syncs the file whenever it has done this number of writes; 0: no task syncs. Default 1000.
    pub sync_every: u64,
    /// The run ends when each task has done this number of measured operations. Default: the run ends after the time
    /// `full_s`.
    pub operations: Option<u64>,
    /// Measured time after memory is full, seconds, if `operations` is not given. Default 10.
    pub full_s: u64,
    /// Time after which memory counts as full even if it is not, s. Default 60.
    pub filling_s: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            file_percent: 200,
            file_mib: None,
            tasks: 4,
            sync_every: 1000,
            operations: None,
            full_s: 10,
            filling_s: 60,
        }
    }
}

impl Params {
    fn size(&self) -> Size {
        Size { percent: self.file_percent, mib: self.file_mib }
    }
}

/// The results of the tasks besides their counts of operations: versions of pages, and durations of syncs.
#[derive(Debug)]
struct Written {
    /// For each task, the last written version of each of its pages.
    versions: Vec<Vec<u32>>,
    /// Durations of syncs, ns.
    syncs: Histogram<u64>,
}

/// The workload `randwrite`: random writes of 4 KiB to a file larger than memory, with syncs.
#[derive(Debug)]
pub struct Randwrite;

impl Workload for Randwrite {
    type Params = Params;

    const NAME: &'static str = "randwrite";

    const ABOUT: &'static str = "random writes of 4 KiB to a file larger than memory, with syncs";

    const VERIFIES: bool = true;

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        check_sizes(params.tasks, params.size().pages(resources.memory_pages, Scale::FULL), "a file")
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let pages = params.size().pages(resources.memory_pages, scale);
        extent(params.operations, params.tasks, params.full_s.saturating_add(params.filling_s), pages)
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        let mut syncs = Histogram::new(3).expect("three digits are a precision");
        syncs.record(1).expect("it grows as far as need be");
        Some(names(rows(&Course::with_everything(), &syncs, 0)))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let Params { tasks, sync_every, .. } = *params;
        let pages = params.size().pages(system.memory_pages(), system.given().scale);
        big_file::make(system, FILE, pages)?;
        let written = Arc::new(Mutex::new(Written {
            versions: vec![Vec::new(); tasks as usize],
            syncs: Histogram::new(3).expect("three digits are a precision"),
        }));
        let found = written.clone();
        let length = length(params.operations, params.full_s, params.filling_s);
        let measured = Measured {
            name: "randwrite",
            tasks,
            length,
            fills_memory: true,
            keeps_step: false,
            look_every: LOOK_EVERY,
        };
        let course = measure(system, &measured, move |system, n, tally| {
            let own = (pages - n).div_ceil(tasks);
            let (versions, syncs) = write_at_random(system, n, tasks, own, sync_every, tally)?;
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.versions[n as usize] = versions;
            found.syncs.add(syncs).expect("it grows as far as need be");
            Ok(())
        })?;
        let Written { versions, syncs } = &*written.lock().unwrap_or_else(PoisonError::into_inner);
        // The whole file is read once more, from the device.
        let file = system.open(FILE)?;
        system.sync(&file)?;
        drop(file);
        system.drop_caches()?;
        let verified = big_file::read_through(system, FILE, pages, |page| {
            let version = versions[(page % tasks) as usize][(page / tasks) as usize];
            Pattern::new(FILE, version.into())
        })?;
        system.remove(FILE)?;
        let times = course.times("Write").into_iter().chain(Times::of("Sync", syncs)).collect();
        Ok(Measurements { rows: rows(&course, syncs, verified), times, ..Measurements::default() })
    }
}

fn rows(course: &Course, syncs: &Histogram<u64>, verified: u64) -> Vec<Row> {
    let verified =
        Row::new("verified", "Pages verified", "pages", Better::Neutral, Format::Decimals(0), verified as f64);
    let writes = [course.rate_rows("randwrite"), course.latency_rows("Write")].concat();
    [writes, latency_rows("Sync", syncs), course.cost_rows(), vec![verified]].concat()
}

/// Writes random pages of the file as task number `task` of `tasks` tasks. The task writes only its `own` pages: page
/// `task`, page `task + tasks`, and so on. Returns the last version of each of these pages, and the durations of the
/// task's syncs.
fn write_at_random<S: System>(
    system: &S,
    task: u64,
    tasks: u64,
    own: u64,
    sync_every: u64,
    tally: &mut Tally,
) -> Result<(Vec<u32>, Histogram<u64>), SystemError> {
    let kept = system.kept();
    let mut rng = system.rng(STREAM + task);
    let file = system.open(FILE)?;
    let mut versions = vec![1_u32; own as usize];
    let mut syncs = Histogram::new(3).expect("three digits are a precision");
    let mut bytes = vec![0; PAGE_BYTES];
    let mut since_sync = 0;
    tally.begin(system);
    while !tally.is_over() && !system.is_killed() {
        let index = rng.below(own);
        let offset = page_bytes(index * tasks + task);
        let version = &mut versions[index as usize];
        Pattern::new(FILE, u64::from(*version) + 1).fill(kept, offset, &mut bytes);
        let started = system.now();
        system.write(&file, offset, &bytes)?;
        *version += 1;
        tally.count(system.now().since(started));
        since_sync += 1;
        if since_sync == sync_every {
            since_sync = 0;
            let started = system.now();
            system.sync(&file)?;
            // The histogram grows as needed, so recording cannot fail.
            let _ = syncs.record(system.now().since(started).0.max(1));
        }
    }
    Ok((versions, syncs))
}
