//! Logs of MMTests as reports, and reports as such logs.
//!
//! MMTests writes a folder for each kernel and in it one for each iteration, with `tests-timestamp` (when each test began, counters
//! before and after, its times), a file for each monitor and a folder of the benchmark's own logs; before 2018 all runs lay in one
//! folder with the run's name behind each file's. [`logs`] reads the former, [`benchmarks`] the latter; [`mod@write`] is the way back.
//! Rows are named and computed as those of experiments, so that both stand in one table.
//!
//! Next: [`logs`].

pub mod benchmarks;
pub mod logs;
pub mod write;

use crate::figure::Row;
use crate::recordings;
use crate::report::{Column, Table, TableHead, duration_rows, mmtests, vmscan};
use crate::scale::Scale;
use crate::series::{RunSeries, Series};
use crate::system::{CpuTimes, difference};
use logs::Test;
use machine::Nanos;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders below a benchmark's are followed so deep.
const DEPTH_MAX: u32 = 6;

/// Tests whose tables are those of 2010 and 2011.
const EARLY_TESTS: [&str; 3] = ["postmark", "micro", "streaming"];

/// What was found in a directory.
#[derive(Debug)]
pub struct Imported {
    /// A column for each run; each iteration is one of its samples.
    pub table: Table,
    /// Counters over time of each run and iteration, where the monitor `proc-vmstat` ran.
    pub series: Vec<RunSeries>,
    /// What could not be read.
    pub warnings: Vec<String>,
}

/// A folder with the logs of one iteration.
#[derive(Clone, Debug)]
struct Iteration {
    folder: PathBuf,
    /// The run's name, where it stands in those of files.
    run: Option<String>,
}

impl Iteration {
    /// The log of a monitor beside a test, or `tests-timestamp` of none.
    fn log(&self, monitor: &str, test: Option<&str>) -> Option<PathBuf> {
        let words = [Some(monitor), self.run.as_deref(), test];
        let name = words.into_iter().flatten().collect::<Vec<_>>().join("-");
        [name.clone(), format!("{name}.gz")].into_iter().map(|name| self.folder.join(name)).find(|path| path.is_file())
    }

    /// The folder of a benchmark's own logs.
    fn folder_of(&self, test: &str) -> PathBuf {
        match &self.run {
            Some(run) => self.folder.join(format!("{test}-{run}")),
            None => self.folder.join(test),
        }
    }
}

/// Reads a directory; of several tests the one that is named, and of all runs those that are named, in that order.
///
/// # Errors
/// When it holds no logs of MMTests, or several tests and none is named: what was expected.
pub fn read(folder: &Path, wanted: Option<&str>, kernels: &[String]) -> Result<Imported, String> {
    let runs = runs_in(folder)?;
    if runs.is_empty() {
        return Err(format!(
            "{}: expected a directory of MMTests: a folder for each kernel with iter-*/tests-timestamp, or files \
             tests-timestamp-KERNEL",
            folder.display()
        ));
    }
    let runs = chosen(folder, runs, kernels)?;
    let mut tests: Vec<String> = Vec::new();
    let mut read = Vec::new();
    for (run, iterations) in runs {
        let mut of_run = Vec::new();
        for iteration in iterations {
            let path = iteration
                .log("tests-timestamp", None)
                .ok_or_else(|| format!("{}: there is no tests-timestamp", iteration.folder.display()))?;
            let mut found = logs::tests(&text(&path)?);
            if let Some(path) = iteration.log("tests-sysstate", None) {
                logs::add_snapshots(&mut found, &text(&path)?);
            }
            for test in &found {
                if !tests.contains(&test.name) {
                    tests.push(test.name.clone());
                }
            }
            of_run.push((iteration, found));
        }
        read.push((run, of_run));
    }
    let test = match (wanted, tests.as_slice()) {
        (Some(wanted), _) if tests.iter().any(|test| test == wanted) => wanted.to_owned(),
        (None, [test]) => test.clone(),
        (_, []) => {
            return Err(format!(
                "{}: its tests-timestamp name no test: expected a line `test begin :: NAME`",
                folder.display()
            ));
        }
        (wanted, _) => {
            let missing = wanted.map_or_else(String::new, |wanted| format!("there is no test `{wanted}`; "));
            return Err(format!(
                "{}: {missing}choose one of the tests with --test: {}",
                folder.display(),
                tests.join(", ")
            ));
        }
    };
    let (mut columns, mut rows, mut series, mut warnings) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (run, iterations) in read {
        let mut of_run = Vec::new();
        for (n, (iteration, tests)) in iterations.into_iter().enumerate() {
            let Some(found) = tests.into_iter().find(|it| it.name == test) else {
                warnings.push(format!("{}: no test `{test}`", iteration.folder.display()));
                continue;
            };
            let (found_rows, found_series) = rows_of(&iteration, found, &mut warnings);
            series.extend(found_series.map(|series| RunSeries { column: run.clone(), seed: n as u64, series }));
            of_run.push(found_rows);
        }
        columns.push(column(&run));
        rows.push(of_run);
    }
    let head = TableHead {
        experiment: test,
        machine: "that of the logs".into(),
        scale: Scale::FULL,
        seeds: Vec::new(),
        fingerprint: None,
        columns,
        notes: vec![format!("MMTests: {}", folder.display())],
    };
    Ok(Imported { table: Table::of_runs(head, &rows, None), series, warnings })
}

fn column(run: &str) -> Column {
    let (id, kernel) = (run.to_owned(), run.to_owned());
    Column { id, kernel, ground: "linux".into(), set: BTreeMap::new(), comparable: false, saved: None }
}

/// The runs that are named, in that order; without names all of them, in the order of [`write::COLUMNS_FILE`] where there is one.
fn chosen(
    folder: &Path,
    runs: Vec<(String, Vec<Iteration>)>,
    kernels: &[String],
) -> Result<Vec<(String, Vec<Iteration>)>, String> {
    if kernels.is_empty() {
        let order = fs::read_to_string(folder.join(write::COLUMNS_FILE)).unwrap_or_default();
        let place = |run: &str| order.lines().position(|line| line == run).unwrap_or(usize::MAX);
        let mut runs = runs;
        // Those that it does not name come last, by name as before.
        runs.sort_by_key(|(run, _)| place(run));
        return Ok(runs);
    }
    let find = |kernel: &String| {
        let known = || runs.iter().map(|(run, _)| run.as_str()).collect::<Vec<_>>().join(", ");
        let found = runs.iter().find(|(run, _)| run == kernel).cloned();
        found.ok_or_else(|| format!("{}: there is no run `{kernel}` among {}", folder.display(), known()))
    };
    kernels.iter().map(find).collect()
}

/// The rows of an iteration, and its counters over time.
fn rows_of(iteration: &Iteration, test: Test, warnings: &mut Vec<String>) -> (Vec<Row>, Option<Series>) {
    let mut monitor = |monitor: &str| -> Option<String> {
        let path = iteration.log(monitor, Some(&test.name))?;
        text(&path).map_err(|why| warnings.push(why)).ok()
    };
    let series = monitor("proc-vmstat").map(|log| logs::snapshots(&log)).filter(|series| !series.points.is_empty());
    let (iostat, vmstat) = (monitor("iostat"), monitor("vmstat"));
    let files = files_in(&iteration.folder_of(&test.name), warnings);
    let order = files.iter().find(|(path, _)| path.ends_with(write::ROWS_FILE)).map(|(_, text)| text.clone());
    let rows = rows_of_logs(&test, series.as_ref(), iostat.as_deref(), vmstat.as_deref(), &files);
    let rows = match order {
        Some(order) => write::in_order(&order, rows, warnings),
        None => rows,
    };
    (rows, series)
}

/// Rows of what logs hold.
fn rows_of_logs(
    test: &Test,
    series: Option<&Series>,
    iostat: Option<&str>,
    vmstat: Option<&str>,
    files: &[(PathBuf, String)],
) -> Vec<Row> {
    let mut rows = benchmarks::rows(files);
    let is_early = EARLY_TESTS.contains(&test.name.as_str());
    if let Some([user, system, elapsed]) = test.times {
        rows.extend(duration_rows(user, system, elapsed));
        if is_early {
            let nanos = |seconds: f64| Nanos((seconds * 1e9).round() as u64);
            let cpu = CpuTimes { user: nanos(user), system: nanos(system) };
            rows.extend(vmscan::duration_rows(cpu, elapsed));
        }
    }
    // Where the test's own snapshots are missing, the monitor's first and last are nearest.
    let counters = match (&test.before, &test.after) {
        (Some(before), Some(after)) => Some(difference(before, after)),
        _ => series.and_then(logs::growth),
    };
    let elapsed = test.times.map(|times| times[2]).or_else(|| series.and_then(logs::span_s));
    if let (Some(counters), Some(elapsed)) = (counters, elapsed) {
        rows.extend(mmtests::vmstat_rows(&counters, elapsed));
        if is_early {
            rows.extend(vmscan::rows(&counters));
        }
    }
    if let Some(log) = iostat {
        for (device, samples) in logs::iostat(log) {
            rows.extend(mmtests::iostat_rows(&device, &samples));
        }
    }
    rows.extend(vmstat.map(logs::vmstat_means).unwrap_or_default());
    rows
}

/// Runs by their names, each with its iterations.
fn runs_in(folder: &Path) -> Result<Vec<(String, Vec<Iteration>)>, String> {
    let told = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(told)? {
        names.push(entry.map_err(told)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let flat = names.iter().filter_map(|name| name.strip_prefix("tests-timestamp-"));
    let mut runs: Vec<(String, Vec<Iteration>)> = flat
        .map(|name| name.trim_end_matches(".gz").to_owned())
        .map(|run| (run.clone(), vec![Iteration { folder: folder.to_owned(), run: Some(run) }]))
        .collect();
    if runs.is_empty() {
        let own = iterations_in(folder);
        if !own.is_empty() {
            let name =
                fs::canonicalize(folder).ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
            return Ok(vec![(name.unwrap_or_else(|| "run".into()), own)]);
        }
        let of_runs = names.into_iter().map(|name| (iterations_in(&folder.join(&name)), name));
        runs = of_runs.filter(|(iterations, _)| !iterations.is_empty()).map(|(it, name)| (name, it)).collect();
    }
    Ok(runs)
}

/// The iterations of a run: `iter-0`, `iter-1`, …, or the folder itself.
fn iterations_in(folder: &Path) -> Vec<Iteration> {
    let iteration = |folder: PathBuf| Iteration { folder, run: None };
    let has = |it: &Iteration| it.log("tests-timestamp", None).is_some();
    let itself = iteration(folder.to_owned());
    if has(&itself) {
        return vec![itself];
    }
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(u64, Iteration)> = entries
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("iter-")?.parse().ok()?;
            Some((number, iteration(entry.path())))
        })
        .filter(|(_, it)| has(it))
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, it)| it).collect()
}

/// The texts below a folder, each with its path from there, by path.
fn files_in(folder: &Path, warnings: &mut Vec<String>) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), DEPTH_MAX)];
    while let Some((at, depth)) = folders.pop() {
        let Ok(entries) = fs::read_dir(&at) else { continue };
        for entry in entries.flatten() {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if kind.is_dir() && depth > 0 {
                folders.push((path, depth - 1));
            } else if kind.is_file() && benchmarks::is_wanted(&path) {
                match text(&path) {
                    Ok(text) => found.push((path.strip_prefix(folder).unwrap_or(&path).to_owned(), text)),
                    Err(why) => warnings.push(why),
                }
            }
        }
    }
    found.sort();
    found
}

/// The text of a log, packed or not; what is no UTF-8 in it is replaced.
fn text(path: &Path) -> Result<String, String> {
    let bytes = recordings::read_bytes(path).map_err(|wrong| wrong.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs::File;
    use std::io::Write as _;

    pub(super) const TIMESTAMP: &str = "start :: 1\narch :: x86_64\ntest begin :: parallelio 10\nfile start :: /proc/vmstat\n\
        nr_free_pages 100\npgfault 1000\npgmajfault 10\npgscan_kswapd_normal 50\npgsteal_kswapd_normal 20\n\
        file start :: /proc/zoneinfo\nNode 0, zone Normal\nfile end :: /proc/vmstat\nnr_free_pages 90\npgfault 5000\npgmajfault 30\n\
        pgscan_kswapd_normal 1050\npgsteal_kswapd_normal 820\nfile end :: /proc/zoneinfo\ntest end :: parallelio 20\n\
        time :: parallelio 3.25 user 1.50 system 10.00 elapsed\nfinish :: 21\n";

    fn put(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if path.extension().is_some_and(|ending| ending == "gz") {
            let mut out = GzEncoder::new(File::create(path).unwrap(), Compression::fast());
            out.write_all(text.as_bytes()).unwrap();
            out.finish().unwrap();
        } else {
            fs::write(path, text).unwrap();
        }
    }

    fn median(table: &Table, name: &str, column: usize) -> Option<f64> {
        table.rows.iter().find(|row| row.name == name)?.median(column)
    }

    #[test]
    fn runs_are_columns_and_iterations_their_samples() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        put(path, "new/iter-0/tests-timestamp", TIMESTAMP);
        put(path, "new/iter-1/tests-timestamp.gz", &TIMESTAMP.replace("10.00 elapsed", "20.00 elapsed"));
        put(path, "new/iter-0/parallelio/logs/workload-durations.log", "memcachetest 0 60\nmemcachetest 1 60\n");
        put(path, "new/iter-0/parallelio/logs/io-durations.log", "1 749731840 21\n");
        put(path, "new/iter-0/parallelio/logs/memcachetest-0-1/mmtests.log", "ops/sec: 23018\n");
        put(path, "new/iter-0/parallelio/logs/memcachetest-1-1/mmtests.log.gz", "x\nops/sec: 22767\n");
        put(path, "old/tests-timestamp", TIMESTAMP);
        let Imported { table, warnings, .. } = read(path, None, &[]).unwrap();
        assert_eq!(warnings, [""; 0]);
        let ids: Vec<&str> = table.columns.iter().map(|column| column.id.as_str()).collect();
        assert_eq!((ids, table.experiment.as_str()), (vec!["new", "old"], "parallelio"));
        assert_eq!((median(&table, "Elapsed", 0), median(&table, "Elapsed", 1)), (Some(15.0), Some(10.0)));
        assert_eq!(median(&table, "Kswapd efficiency", 1), Some(80.0));
        assert_eq!(median(&table, "Kswapd velocity", 1), Some(100.0));
        assert_eq!(median(&table, "Minor Faults", 1), Some(3980.0));
        assert_eq!(median(&table, "Ops memcachetest-715M", 0), Some(22767.0));
        assert_eq!(median(&table, "Ops io-duration-715M", 0), Some(21.0));
        // In another order, or some of them.
        let named = |names: &[&str]| read(path, None, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(named(&["old", "new"]).unwrap().table.columns[0].id, "old");
        assert!(named(&["older"]).unwrap_err().contains("there is no run `older` among new, old"));
        // One run of it alone.
        assert_eq!(read(&path.join("new"), None, &[]).unwrap().table.columns[0].id, "new");
    }

    #[test]
    fn files_of_all_runs_may_lie_in_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        put(path, "tests-timestamp-3.10-rc4", &TIMESTAMP.replace("parallelio", "postmark"));
        put(path, "postmark-3.10-rc4/noprofile/postmark.log", "\t77 seconds of transactions (26 per second)\n");
        put(
            path,
            "proc-vmstat-3.10-rc4-postmark.gz",
            "time: 5\nnr_free_pages 7\npgfault 3\ntime: 6\nnr_free_pages 8\npgfault 9\n",
        );
        let Imported { table, series, .. } = read(path, None, &[]).unwrap();
        assert_eq!(median(&table, "Transactions per second", 0), Some(26.0));
        assert_eq!(median(&table, "Direct reclaim pages scanned", 0), Some(0.0));
        assert_eq!(median(&table, "User/Sys Time Running Test (seconds)", 0), Some(4.75));
        assert_eq!((series.len(), series[0].series.points.len()), (1, 2));
    }

    #[test]
    fn what_is_no_directory_of_mmtests_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(read(&path.join("none"), None, &[]).unwrap_err().starts_with("cannot read "));
        assert!(read(path, None, &[]).unwrap_err().contains("expected a directory of MMTests"));
        put(path, "run/tests-timestamp", "start :: 1\n");
        assert!(read(path, None, &[]).unwrap_err().contains("expected a line `test begin :: NAME`"));
        put(path, "run/tests-timestamp", &format!("{TIMESTAMP}{}", TIMESTAMP.replace("parallelio", "kernbench")));
        let why = read(path, None, &[]).unwrap_err();
        assert!(why.contains("choose one of the tests with --test: parallelio, kernbench"), "{why}");
        assert!(read(path, Some("other"), &[]).unwrap_err().contains("there is no test `other`"));
        assert_eq!(read(path, Some("kernbench"), &[]).unwrap().table.experiment, "kernbench");
    }
}
