//! Speed of the simulator and the library on this computer: `highwater bench`.
//!
//! The simulator is measured by a small run of the experiment `parallelio`, and by `spend` calls, which use virtual CPU
//! time. The calling tasks take turns at nearly each call. The library is compared with the running kernel ([`Hits`]):
//! reads of pages in memory, in place and by copy, through [`System`](workloads::system::System) as a workload reads
//! them. The reports contain wall time, so no two reports are equal; their fingerprint covers only `parallelio`. Longer
//! measurements are left to `cargo bench`: misses, eviction, disks, several threads.

use crate::plan::fold;
use catalogue::find;
use figures::figure::Row;
use figures::scale::Scale;
use grounds::job::{Failure, Job};
use grounds::real_time::hits::Hits;
use grounds::spends;
use kit::interrupt;
use kit::progress::Progress;
use report::{Column, Table, TableHead};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Numbers of virtual CPUs on which the cost of `spend` calls is measured. The tasks on these CPUs take turns.
const CPUS: [usize; 3] = [1, 8, 64];

/// The amounts of work that the measurements do.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Number of runs of all measurements, each with its own seed.
    pub runs: u64,
    /// Number of `spend` calls in a measurement.
    pub spends: u32,
    /// Scale of the runs of the experiment `parallelio`.
    pub scale: Scale,
    /// Number of pages in the file that is read.
    pub pages: u64,
    /// Number of reads of cached pages in place, in one measurement. A quarter as many reads copy their page.
    pub hits: u64,
}

/// Runs all measurements, with files in a new folder inside `folder`. Returns the table of their figures. If `folder`
/// lies in memory (tmpfs), the running kernel is not measured, and a note says so.
///
/// # Errors
/// When a simulation fails, a page cannot be read, or the user interrupts.
pub fn run(amount: &Amount, folder: &Path) -> Result<Table, Failure> {
    let _guard = interrupt::guard();
    let hits = Hits::new(amount.pages, folder)?;
    let mut fingerprints = Vec::new();
    let mut runs = Vec::new();
    for seed in 1..=amount.runs {
        let mut rows = Vec::new();
        for cpus in CPUS {
            let plural = if cpus == 1 { "CPU" } else { "CPUs in turns" };
            rows.push(Row::rate(
                "sim",
                format!("M spend/s, {cpus} virtual {plural}"),
                "M/s",
                spends::rate(cpus, amount.spends)? / 1e6,
            ));
        }
        rows.extend(parallelio(amount.scale, seed, &mut fingerprints)?);
        rows.extend(hits.rows(amount.hits, seed)?);
        runs.push(rows);
        if interrupt::is_set() {
            return Err(Failure("interrupted".into()));
        }
    }
    let head = TableHead {
        experiment: "bench".into(),
        machine: "parallelio-8g".into(),
        scale: amount.scale,
        // The table has no seeds: runs are repetitions on one computer, and only the simulation draws from a seed in
        // each run.
        seeds: Vec::new(),
        fingerprint: Some(fold(fingerprints.into_iter())),
        columns: vec![Column {
            id: "here".into(),
            set: [("runs".into(), amount.runs.to_string())].into(),
            ..Column::new(KERNEL, "here")
        }],
        notes: [vec![runs_in_words(amount.runs)], hits.notes()].concat(),
    };
    hits.finish()?;
    Ok(Table::of_runs(head, &[runs], None))
}

/// Returns the note that a report has for `count` runs of a benchmark.
fn runs_in_words(count: u64) -> String {
    match count {
        1 => "1 run: how far others would lie apart is not known".to_owned(),
        _ => format!("medians of {count} runs on this computer, one after the other"),
    }
}

/// The kernel on which the experiment `parallelio` runs. It is the one whose reclaim does the most work.
const KERNEL: &str = "3.10-rc4-vanilla";

fn parallelio(scale: Scale, seed: u64, fingerprints: &mut Vec<u64>) -> Result<[Row; 2], Failure> {
    let experiment = find::experiment("parallelio")?;
    let workload = grounds::find(&experiment.workload).expect("the workload of an embedded experiment");
    let job = Job {
        seed,
        ..Job::simulated(
            experiment.name,
            find::kernel(KERNEL)?,
            Arc::new(find::machine(&experiment.machine)?),
            experiment.params,
            scale,
        )
    };
    let started = Instant::now();
    let outcome = workload.run(&job, &Progress::default())?;
    let seconds = started.elapsed().as_secs_f64();
    fingerprints.push(outcome.fingerprint);
    let rate = |what: &str, unit, amount: f64| Row::rate("sim", format!("{what}, parallelio"), unit, amount / seconds);
    Ok([
        rate("virtual s/s", "s/s", outcome.virtual_time_ns as f64 / 1e9),
        rate("M page events/s", "M/s", outcome.page_events as f64 / 1e6),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_has_a_rate_and_nothing_stays_behind() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let scale = "1/64".parse().unwrap();
        let amount = Amount { runs: 2, spends: 1000, scale, pages: 256, hits: 400 };
        let table = run(&amount, folder.path()).unwrap();
        let is_told = |what: &str| table.notes.iter().any(|note| note.starts_with(what));
        let (library, kernel) = (!is_told("hits: skipped"), !is_told("hits: skipped") && !is_told("linux: skipped"));
        assert_eq!(library, cfg!(feature = "linux"));
        assert_eq!(table.rows.len(), 5 + 2 * usize::from(library) + 2 * usize::from(kernel));
        for row in &table.rows {
            assert!(row.cells[0].value.is_some_and(|value| value.median > 0.0 && value.n == 2), "{}", row.name);
        }
        let text = report::text::render(&table, report::Show::default());
        assert!(text.contains("runs = 2") && text.contains("medians of 2 runs") && !text.contains("round"), "{text}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files stay behind");
        assert_eq!(run(&amount, folder.path()).unwrap().fingerprint, table.fingerprint);
    }
}
