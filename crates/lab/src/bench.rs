//! How fast the simulator and the library are on this computer: what `highwater bench` shows.
//!
//! The simulator: `spend` calls of tasks that take turns at nearly each, and a small parallelio. The library beside the
//! running kernel: pages that are in memory, in place and by copy, through [`System`] as a workload reads them. Wall
//! time is looked at here, so that no two reports are alike; the fingerprint is that of parallelio. What needs more
//! time (misses, eviction, disks, several threads) is in `cargo bench`.

use crate::figure::{Better, Format, Row};
use crate::ground::Ground;
use crate::interrupt;
use crate::job::{Failure, Job};
use crate::plan::fold;
use crate::progress::Progress;
use crate::real_time::folder::Folder;
use crate::report::{Column, Table, TableHead};
use crate::scale::Scale;
use crate::system::host::HostSystem;
use crate::system::linux::LinuxSystem;
use crate::system::linux::counters::Counters;
use crate::system::{Given, System, SystemError, page_bytes};
use crate::workloads::big_file;
use crate::workloads::random::Access;
use crate::{library, workloads};
use machine::{Machine, PAGE_BYTES, Step};
use sim::{Config, Sim};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Virtual CPUs whose tasks take turns.
const CPUS: [usize; 3] = [1, 8, 64];

/// The file whose pages are read.
const FILE: &str = "bench.dat";

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// How often, each time with a seed of its own.
    pub rounds: u64,
    /// `spend` calls.
    pub spends: u32,
    /// The scale of parallelio.
    pub scale: Scale,
    /// Pages of the file.
    pub pages: u64,
    /// Pages read in place; by copy, a quarter.
    pub hits: u64,
}

/// Measures all of it; files lie in a fresh folder of `folder`.
///
/// # Errors
/// When a simulation fails, a page cannot be read, or it is interrupted. A folder that lies in memory is no error: then
/// the running kernel is left out, with a note.
pub fn run(amount: &Amount, folder: &Path) -> Result<Table, Failure> {
    let _guard = interrupt::guard();
    let made = Folder::new(folder).map_err(|error| format!("cannot make a folder in {}: {error}", folder.display()))?;
    let mut hits = Hits::new(amount, &made.0)?;
    let mut fingerprints = Vec::new();
    let mut runs = Vec::new();
    for seed in 1..=amount.rounds {
        let mut rows = Vec::new();
        for cpus in CPUS {
            let plural = if cpus == 1 { "CPU" } else { "CPUs in turns" };
            rows.push(row(
                "sim",
                format!("M spend/s, {cpus} virtual {plural}"),
                "M/s",
                spends(cpus, amount.spends)? / 1e6,
            ));
        }
        rows.extend(parallelio(amount.scale, seed, &mut fingerprints)?);
        rows.extend(hits.rows(amount, seed)?);
        runs.push(rows);
        if interrupt::is_set() {
            return Err(Failure("interrupted".into()));
        }
    }
    let head = TableHead {
        experiment: "bench".into(),
        machine: "parallelio-8g".into(),
        scale: amount.scale,
        seeds: (1..=amount.rounds).collect(),
        fingerprint: Some(fold(fingerprints.into_iter())),
        columns: vec![Column {
            id: "here".into(),
            kernel: KERNEL.into(),
            ground: "here".into(),
            set: BTreeMap::new(),
            comparable: false,
        }],
        notes: hits.notes.clone(),
    };
    hits.finish()?;
    Ok(Table::of_runs(head, &[runs], None))
}

/// The kernel of parallelio: that whose reclaim works most.
const KERNEL: &str = "3.10-rc4-vanilla";

fn row(group: &str, name: String, unit: &str, value: f64) -> Row {
    Row::new(group, name, unit, Better::Higher, Format::Decimals(2), value)
}

/// `spend` calls a second, by a task on each of so many CPUs, each small and of another length than the others', so that
/// nearly every one lets another CPU go first.
fn spends(cpus: usize, steps: u32) -> Result<f64, Failure> {
    let sim = Sim::new(Config::uniform(cpus, 10));
    let started = Instant::now();
    let each = steps / cpus as u32;
    let spawn = |number: u32| {
        let worker = sim.clone();
        let work = move || (0..each).for_each(|step| worker.spend(Step::ScanPage, 1 + (step ^ number) % 3));
        sim.spawn("worker", work)
    };
    let tasks: Vec<_> = (0..cpus as u32).map(spawn).collect();
    let main = sim.clone();
    sim.run("main", move || {
        for task in tasks {
            main.join(task);
        }
    })
    .map_err(|failure| Failure(failure.to_string()))?;
    Ok(f64::from(each * cpus as u32) / started.elapsed().as_secs_f64())
}

fn parallelio(scale: Scale, seed: u64, fingerprints: &mut Vec<u64>) -> Result<[Row; 2], Failure> {
    let experiment = library::experiment("parallelio")?;
    let workload = workloads::find(&experiment.workload).expect("the workload of an embedded experiment");
    let job = Job {
        experiment: experiment.name,
        kernel: library::kernel(KERNEL)?,
        machine: Arc::new(library::machine(&experiment.machine)?),
        params: experiment.params,
        seed,
        scale,
        profile: false,
        series_every: None,
        trace: None,
        locks: false,
        ground: Ground::Sim,
        makes_swap: false,
        device_pages: None,
        inside: None,
    };
    let started = Instant::now();
    let outcome = workload.run(&job, &Progress::default())?;
    let seconds = started.elapsed().as_secs_f64();
    fingerprints.push(outcome.fingerprint);
    let rate = |what: &str, unit, amount: f64| row("sim", format!("{what}, parallelio"), unit, amount / seconds);
    Ok([
        rate("virtual s/s", "s/s", outcome.virtual_time_ns as f64 / 1e9),
        rate("M page events/s", "M/s", outcome.page_events as f64 / 1e6),
    ])
}

/// The grounds of real time, with a file of which every page is in memory.
struct Hits {
    host: HostSystem,
    linux: Option<LinuxSystem>,
    notes: Vec<String>,
}

impl Hits {
    fn new(amount: &Amount, folder: &Path) -> Result<Self, Failure> {
        let given = Given { seed: 1, scale: Scale::FULL, progress: Progress::default() };
        let words = |error: SystemError| Failure(error.0);
        // The file and a quarter: nothing is evicted. The library takes 4 MiB at least.
        let memory_pages = (amount.pages + amount.pages / 4).max(1024);
        let [ours, theirs] = ["host", "linux"].map(|name| folder.join(name));
        for folder in [&ours, &theirs] {
            std::fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let host = HostSystem::new(&ours, &library::kernel("highwater")?, memory_pages, 0, given.clone());
        let host = host.map_err(words)?;
        make(&host, amount.pages).map_err(words)?;
        let mut notes = host.notices();
        let linux = match LinuxSystem::new(theirs, memory_pages, Counters::new(None), given) {
            Ok(linux) => {
                make(&linux, amount.pages).map_err(words)?;
                Some(linux)
            }
            Err(missing) => {
                notes.push(format!("linux: skipped: {missing}"));
                None
            }
        };
        Ok(Self { host, linux, notes })
    }

    fn rows(&mut self, amount: &Amount, seed: u64) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        for (how, access, hits) in
            [("in place", Access::InPlace, amount.hits), ("by copy", Access::Copy, amount.hits / 4)]
        {
            let measured = |rate: f64, of: &str| row("hits", format!("M hits/s {how}, {of}"), "M/s", rate / 1e6);
            let (rate, found) = read(&self.host, amount.pages, access, hits, seed).map_err(|error| error.0)?;
            rows.push(measured(rate, "library"));
            if let Some(linux) = &self.linux {
                let (rate, expected) = read(linux, amount.pages, access, hits, seed).map_err(|error| error.0)?;
                let of = if access == Access::InPlace { "mmap" } else { "pread" };
                rows.push(measured(rate, of));
                if found != expected {
                    return Err(Failure(format!("hit {how}: the library and the running kernel read other bytes")));
                }
            }
        }
        Ok(rows)
    }

    fn finish(self) -> Result<(), Failure> {
        let gone = |error: SystemError| Failure(error.0);
        self.host.remove(FILE).map_err(gone)?;
        self.host.finish().map_err(gone)
    }
}

/// Makes the file, and has all of it in memory.
fn make<S: System>(system: &S, pages: u64) -> Result<(), SystemError> {
    big_file::make(system, FILE, pages)?;
    let pattern = |_| crate::system::contents::Pattern::new(FILE, 1);
    big_file::read_through(system, FILE, pages, pattern).map(drop)
}

/// Reads so many pages at random: pages a second, and a hash of what was read.
fn read<S: System>(system: &S, pages: u64, access: Access, hits: u64, seed: u64) -> Result<(f64, u64), SystemError> {
    let mut file = system.open(FILE)?;
    system.expect_random_reads(&mut file);
    let mut rng = system.rng(seed);
    let mut bytes = vec![0; PAGE_BYTES];
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    // A page that was never read through a mapping faults once: not a hit.
    if access == Access::InPlace {
        (0..pages)
            .try_for_each(|page| system.read_in_place(&mut file, page, |bytes| black_box(word(bytes))).map(drop))?;
    }
    let started = Instant::now();
    let mut hash = 0;
    for _ in 0..hits {
        let page = rng.below(pages);
        hash ^= match access {
            Access::Copy => {
                big_file::read_whole(system, &mut file, FILE, page_bytes(page), &mut bytes)?;
                word(&bytes)
            }
            Access::InPlace => system.read_in_place(&mut file, page, word)?,
        };
    }
    Ok((hits as f64 / started.elapsed().as_secs_f64(), hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_has_a_rate_and_nothing_stays_behind() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let scale = "1/64".parse().unwrap();
        let amount = Amount { rounds: 2, spends: 1000, scale, pages: 256, hits: 400 };
        let table = run(&amount, folder.path()).unwrap();
        assert_eq!(table.rows.len(), if table.notes.iter().any(|note| note.contains("skipped")) { 7 } else { 9 });
        for row in &table.rows {
            assert!(row.cells[0].value.is_some_and(|value| value.median > 0.0 && value.n == 2), "{}", row.name);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files stay behind");
        assert_eq!(run(&amount, folder.path()).unwrap().fingerprint, table.fingerprint);
    }
}
