//! Conversion of MMTests logs to reports, and of reports to MMTests logs.
//!
//! [`recordings::mmtests`] reads the directories, and this module makes a report from them: each run becomes a column,
//! and each iteration one of the column's samples. [`monitors`] makes rows from monitors, [`benchmarks`] from the
//! benchmarks' own logs; [`mod@write`] writes such logs. Rows are named and computed like those of experiments, so that
//! both fit one table. [`texts`] makes columns from texts of other tools.
//!
//! Next: [`monitors`].

pub mod benchmarks;
pub mod monitors;
pub mod texts;
pub mod write;

use catalogue::ground::Ground;
use figures::counters::difference;
use figures::figure::{Better, Format, Row, duration_rows};
use figures::scale::Scale;
use figures::series::RunSeries;
use figures::usage::CpuTimes;
use figures::vmscan;
use kit::wrong::Wrong;
use machine::Nanos;
use recordings::mmtests::{Benchmark, Monitors, Recorded};
use recordings::{files_below, mmtests, otherwise_packed, read_lossy};
use report::{Column, Table, TableHead};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Number of levels of folders below a benchmark's folder that are searched for logs.
const DEPTH_MAX: usize = 6;

/// Tests of MMTests that were also run for tables posted in 2010 and 2011. Reports on these tests also have the rows of
/// those tables.
const EARLY_TESTS: [&str; 3] = ["postmark", "micro", "streaming"];

/// The contents of a directory of MMTests.
#[derive(Debug)]
pub struct Imported {
    /// The table of figures, with a column for each run of the test (each kernel). Each iteration of the run gives one
    /// of the column's samples.
    pub table: Table,
    /// Counters over time of each run and iteration, if the monitor `proc-vmstat` ran.
    pub series: Vec<RunSeries>,
    /// Faults in files that could not be read.
    pub warnings: Vec<String>,
}

/// Reads the logs of one test from a directory of MMTests. `wanted` names the test; it may be none if there is only
/// one. `kernels` names the runs to read, in the order of the report's columns; if it is empty, all runs are read.
///
/// # Errors
/// When the directory has no logs of MMTests, or when it has several tests and `wanted` is none. The message says
/// what was expected.
pub fn read(folder: &Path, wanted: Option<&str>, kernels: &[String]) -> Result<Imported, String> {
    let Recorded { benchmarks, mut wrong } = mmtests::read_all(folder).map_err(|wrong| wrong.to_string())?;
    let test = chosen_test(folder, &benchmarks, wanted)?;
    let mut runs: BTreeMap<String, Vec<Benchmark>> = BTreeMap::new();
    for benchmark in benchmarks {
        runs.entry(benchmark.run.clone()).or_default().push(benchmark);
    }
    let of_test = |run: &String| runs[run].iter().find(|it| it.name == test);
    let firsts: Vec<Benchmark> = runs.keys().filter_map(of_test).cloned().collect();
    let mut heads = write::heads(&firsts, &mut wrong);
    let place = |run: &String| of_test(run).and_then(|it| heads.iter().find_map(|head| head.place(it)));
    let order = chosen_runs(folder, &runs.keys().cloned().collect::<Vec<_>>(), place, kernels)?;
    let (mut columns, mut rows, mut series) = (Vec::new(), Vec::new(), Vec::new());
    for run in order {
        let mut of_run = Vec::new();
        let column = of_test(&run).and_then(|it| heads.iter().find_map(|head| head.column(it)));
        let column = column.unwrap_or_else(|| Column::new(&run, Ground::Linux));
        // Columns of two reports may have the same name, but no two runs have.
        let column = if heads.len() > 1 { Column { id: run.clone(), ..column } } else { column };
        for (n, iteration) in runs[&run].chunk_by(|a, b| a.folder == b.folder).enumerate() {
            let Some(benchmark) = iteration.iter().find(|it| it.name == test) else {
                let place = iteration[0].folder.display().to_string();
                wrong.push(Wrong { file: place, line: None, what: format!("there is no test `{test}` in it") });
                continue;
            };
            let monitors = benchmark.monitors(&mut wrong);
            let found = monitors::series(&monitors.counters);
            series.extend(found.map(|series| RunSeries { column: column.id.clone(), seed: n as u64, series }));
            of_run.push(rows_of(benchmark, &monitors, &mut wrong));
        }
        columns.push(column);
        rows.push(of_run);
    }
    let warnings = wrong.iter().map(Wrong::to_string).collect();
    let of_logs = TableHead {
        experiment: test,
        machine: "that of the logs".into(),
        scale: Scale::FULL,
        seeds: Vec::new(),
        fingerprint: None,
        columns,
        notes: vec![format!("MMTests: {}", folder.display())],
    };
    let mut table = Table::of_runs(of_logs, &rows, None);
    if let Some(head) = heads.pop().filter(|_| heads.is_empty()) {
        let main_rows = head.main_rows().to_vec();
        let (head, histograms) = head.of_columns(&table);
        table = Table { histograms, main_rows, ..Table::of_runs(head, &rows, None) };
    }
    Ok(Imported { table, series, warnings })
}

/// Returns the test that `wanted` names or, if `wanted` is none, the only test in the logs. If there is no such test,
/// the error lists the tests that exist.
fn chosen_test(folder: &Path, benchmarks: &[Benchmark], wanted: Option<&str>) -> Result<String, String> {
    let mut tests: Vec<&str> = Vec::new();
    for Benchmark { name, .. } in benchmarks {
        if !tests.contains(&name.as_str()) {
            tests.push(name);
        }
    }
    match (wanted, tests.as_slice()) {
        (Some(wanted), tests) if tests.contains(&wanted) => Ok(wanted.to_owned()),
        (None, [test]) => Ok((*test).to_owned()),
        (wanted, tests) => {
            let missing = wanted.map_or_else(String::new, |wanted| format!("there is no test `{wanted}`; "));
            let (folder, tests) = (folder.display(), tests.join(", "));
            Err(format!("{folder}: {missing}choose one of the tests with --test: {tests}"))
        }
    }
}

/// Returns the runs that `kernels` names, in the order of `kernels`. If `kernels` is empty, returns all runs, in the
/// order of the report's columns if the logs were written from a report.
fn chosen_runs(
    folder: &Path,
    runs: &[String],
    place: impl Fn(&String) -> Option<usize>,
    kernels: &[String],
) -> Result<Vec<String>, String> {
    if let Some(kernel) = kernels.iter().find(|kernel| !runs.contains(kernel)) {
        return Err(format!("{}: there is no run `{kernel}` among {}", folder.display(), runs.join(", ")));
    }
    if !kernels.is_empty() {
        return Ok(kernels.to_vec());
    }
    let mut all = runs.to_vec();
    // Runs that are not in the report come last, sorted by name.
    all.sort_by_key(|run| place(run).unwrap_or(usize::MAX));
    Ok(all)
}

/// Returns the rows of one iteration of a run, made from its logs and its monitors.
fn rows_of(benchmark: &Benchmark, monitors: &Monitors, wrong: &mut Vec<Wrong>) -> Vec<Row> {
    let files = files_in(&benchmark.logs(), wrong);
    let rows = rows_of_logs(benchmark, monitors, &files, wrong);
    let of_rows = files.iter().find(|(path, _)| benchmarks::name(path) == write::ROWS_FILE);
    // Without a log of a known form, a benchmark has only the figures that MMTests measures for every benchmark.
    if of_rows.is_none() && benchmark.logs().is_dir() && !files.iter().any(|(path, _)| benchmarks::is_known(path)) {
        let what = format!("no log of `{}` is of a form that is known: its own figures are left out", benchmark.name);
        // The fault is reported once for all runs and iterations.
        if wrong.iter().all(|told| told.what != what) {
            wrong.push(Wrong { file: benchmark.logs().display().to_string(), line: None, what });
        }
    }
    match of_rows {
        Some((path, order)) => write::in_order(&benchmark.logs().join(path), order, rows, wrong),
        None => rows,
    }
}

/// Returns the rows that follow from the logs and monitors of one benchmark.
fn rows_of_logs(
    benchmark: &Benchmark,
    monitors: &Monitors,
    files: &[(PathBuf, String)],
    wrong: &mut Vec<Wrong>,
) -> Vec<Row> {
    let mut rows = benchmarks::rows(&benchmark.logs(), files, wrong);
    let is_early = EARLY_TESTS.contains(&benchmark.name.as_str());
    if let Some([user, system, elapsed]) = benchmark.times {
        rows.extend(duration_rows(user, system, elapsed));
        if is_early {
            let nanos = |seconds: f64| Nanos((seconds * 1e9).round() as u64);
            let cpu = CpuTimes { user: nanos(user), system: nanos(system) };
            rows.extend(vmscan::duration_rows(cpu, elapsed));
        }
    }
    // If the test's own copies are missing, the monitor's first and last copies are the nearest.
    let [first, last] = [monitors.counters.first(), monitors.counters.last()];
    let span = first.zip(last).filter(|(first, last)| last.0 > first.0);
    let of_span =
        span.map(|((begun, first), (ended, last))| (difference(&first.vmstat(), &last.vmstat()), ended - begun));
    // The monitor's copies cover its own time, which may be longer or shorter than the test's.
    let counted = match (&benchmark.before, &benchmark.after) {
        (Some(before), Some(after)) => {
            let elapsed = benchmark.elapsed_s.or(of_span.as_ref().map(|(_, elapsed)| *elapsed));
            elapsed.map(|elapsed| (difference(before, after), elapsed))
        }
        _ => of_span,
    };
    if let Some((counters, elapsed)) = counted {
        rows.extend(figures::mmtests::vmstat_rows(&counters, elapsed));
        if is_early {
            rows.extend(vmscan::rows(&counters));
        }
    }
    rows.extend(monitors::iostat_rows(benchmark, &monitors.disks, wrong));
    rows.extend(monitors::vmstat_means(&monitors.vmstat));
    rows.extend(stall_and_swap_rows(benchmark, monitors));
    rows
}

/// Returns the rows of two groups: memory pressure (the shares of time in which tasks were stalled for memory), and
/// swap (its total size and the smallest free part). `highwater stat` names these rows in the same way.
fn stall_and_swap_rows(benchmark: &Benchmark, monitors: &Monitors) -> Vec<Row> {
    let share = |(name, percent): (&str, f64)| {
        Row::new("pressure", name, "% of the time", Better::Lower, Format::Decimals(2), percent)
    };
    let stalls = benchmark.stalled_percent().into_iter();
    let stalls = stalls.flat_map(|shares| ["memory some", "memory full"].into_iter().zip(shares)).map(share);
    let swap =
        |(part, pages): (&str, f64)| Row::new("swap", part, "pages", Better::Neutral, Format::Decimals(0), pages);
    let parts = benchmark.least_free_swap(monitors).into_iter();
    stalls.chain(parts.flat_map(|pages| ["total", "free"].into_iter().zip(pages)).map(swap)).collect()
}

/// Returns the texts of the known logs below `folder`, each with its path relative to `folder`, sorted by path.
fn files_in(folder: &Path, wrong: &mut Vec<Wrong>) -> Vec<(PathBuf, String)> {
    if !folder.exists() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for path in files_below(folder, DEPTH_MAX, wrong) {
        if otherwise_packed(&path).is_some_and(|path| benchmarks::is_known(&path)) {
            wrong.push(Wrong::packed(&path));
        }
        if !benchmarks::is_known(&path) && benchmarks::name(&path) != write::ROWS_FILE {
            continue;
        }
        match read_lossy(&path) {
            Ok(text) => found.push((path.strip_prefix(folder).unwrap_or(&path).to_owned(), text)),
            Err(why) => wrong.push(why),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs::{self, File};
    use std::io::Write as _;

    const TIMESTAMP: &str = "start :: 1\narch :: x86_64\ntest begin :: parallelio 10\nfile start :: /proc/vmstat\n\
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
        // Runs can be read in another order, or only some of them.
        let named = |names: &[&str]| read(path, None, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(named(&["old", "new"]).unwrap().table.columns[0].id, "old");
        assert!(named(&["older"]).unwrap_err().contains("there is no run `older` among new, old"));
        // A directory with only one run.
        assert_eq!(read(&path.join("new"), None, &[]).unwrap().table.columns[0].id, "new");
    }

    /// The directory of MMTests has logs of two benchmarks, logs packed by xz, and a log of an unknown form. When
    /// either benchmark is imported, its elapsed time must be right, and each file that matters to it and is not read
    /// must be in a warning.
    #[test]
    fn what_is_in_a_directory_and_not_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let two = TIMESTAMP.replace("parallelio", "tbench4");
        put(path, "a/iter-1/tests-timestamp", &[TIMESTAMP, &two].concat());
        put(path, "a/iter-1/parallelio/logs/io-durations.log", "0 0 5\n1 749731840 21\n");
        put(path, "a/iter-1/parallelio/logs/memcachetest-1-1/mmtests.log.xz", "packed");
        put(path, "a/iter-1/parallelio/logs/memcachetest-1-1/other.log.xz", "packed, and nobody asks for it");
        put(path, "a/iter-1/tbench4/logs/tbench-1.log.gz", "Throughput 345.1 MB/sec\n");
        put(path, "a/iter-1/proc-vmstat-parallelio.xz", "packed");
        put(path, "a/iter-1/vmstat-parallelio.xz", "packed, but also");
        put(path, "a/iter-1/vmstat-parallelio", "procs ---memory--\n r b si\n 1 1 1\n 1 1 1\n");
        put(path, "a/iter-2/tests-timestamp.xz", "packed");
        let told = |test: &str| {
            let Imported { table, warnings, .. } = read(path, Some(test), &[]).unwrap();
            assert_eq!(median(&table, "Elapsed", 0), Some(10.0));
            let prefix = format!("{}/a/", path.display());
            warnings.iter().map(|it| it.strip_prefix(&prefix).unwrap_or(it).to_owned()).collect::<Vec<_>>()
        };
        let packed = |file: &str| {
            format!("{file}: it is packed in a way that is not read: expected it plain, or packed by gzip")
        };
        let timestamp = packed("iter-2/tests-timestamp.xz");
        let of_test = [
            packed("iter-1/proc-vmstat-parallelio.xz"),
            packed("iter-1/parallelio/logs/memcachetest-1-1/mmtests.log.xz"),
        ];
        assert_eq!(told("parallelio"), [&[timestamp.clone()][..], &of_test].concat());
        let unknown = "iter-1/tbench4: no log of `tbench4` is of a form that is known: its own figures are left out";
        assert_eq!(told("tbench4"), [timestamp, unknown.to_owned()]);
    }

    /// Imports the logs of a run that was stalled for memory and used nearly all of its swap. The stalls and the free
    /// swap must become rows. In a saved report, the doctor must find the illnesses that these rows show.
    #[test]
    fn stalls_and_swap_that_were_kept_are_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let pressure = |total: u32| {
            let line = |who: &str, total: u32| format!("{who} avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
            format!("/proc/pressure/memory\n{}{}", line("some", 2 * total), line("full", total))
        };
        let start = format!("file start :: {}file start :: /proc/vmstat", pressure(1_000_000));
        let end = format!(
            "file end :: {}file end :: /proc/meminfo\nSwapTotal: 4000 kB\nSwapFree: 40 kB\ntest end",
            pressure(2_500_000)
        );
        let text = TIMESTAMP.replace("file start :: /proc/vmstat", &start).replace("test end", &end);
        put(path, "run/tests-timestamp", &text);
        let Imported { table, warnings, .. } = read(path, None, &[]).unwrap();
        assert_eq!(warnings, [""; 0]);
        assert_eq!((median(&table, "memory some", 0), median(&table, "memory full", 0)), (Some(30.0), Some(15.0)));
        assert_eq!((median(&table, "total", 0), median(&table, "free", 0)), (Some(1000.0), Some(10.0)));
        // Less swap was free during the benchmark.
        put(path, "run/proc-meminfo-parallelio", "time: 5\nSwapTotal: 4000 kB\nSwapFree: 8 kB\n");
        assert_eq!(median(&read(path, None, &[]).unwrap().table, "free", 0), Some(2.0));
        let saved = report::json::render(&table);
        let patients = crate::doctor::source::patients("logs.json", &saved).unwrap();
        let illnesses: Vec<&str> = crate::doctor::Diagnosis::of(&patients[0].signs).illnesses().collect();
        assert!(["all-wait", "swap-full"].iter().all(|it| illnesses.contains(it)), "{illnesses:?}");
    }

    #[test]
    fn rates_of_a_monitor_are_of_its_own_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        put(
            path,
            "run/tests-timestamp",
            "test begin :: parallelio 10\ntest end :: parallelio 20\n\
            time :: parallelio 3.25 user 1.50 system 10.00 elapsed\n",
        );
        let moment = |time: u32, scanned: u32| {
            format!("time: {time}\nallocstall 0\npgscan_kswapd_normal {scanned}\npgsteal_kswapd_normal 0\n")
        };
        put(path, "run/proc-vmstat-parallelio", &[moment(100, 0), moment(130, 2000), moment(140, 4000)].concat());
        let Imported { table, warnings, .. } = read(path, None, &[]).unwrap();
        assert_eq!(warnings, [""; 0]);
        // The monitor counted 4000 pages in 40 s, though the test took 10 s.
        assert_eq!((median(&table, "Kswapd velocity", 0), median(&table, "Elapsed", 0)), (Some(100.0), Some(10.0)));
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
    fn logs_that_cannot_be_read_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        put(path, "run/iter-0/tests-timestamp", TIMESTAMP);
        put(path, "run/iter-0/parallelio/logs/mmtests.log/no-file", "");
        put(path, "run/iter-1/tests-timestamp", &TIMESTAMP.replace("parallelio", "other"));
        put(path, write::HEAD_FILE, "{}");
        let Imported { warnings, .. } = read(path, Some("parallelio"), &[]).unwrap();
        let [head, unknown, other] = warnings.as_slice() else { panic!("{warnings:?}") };
        assert!(unknown.contains("iter-0/parallelio: no log of `parallelio` is of a form that is known"), "{unknown}");
        assert!(head.contains(write::HEAD_FILE) && head.contains("is not known"), "{head}");
        assert!(other.ends_with("iter-1: there is no test `parallelio` in it"), "{other}");
        // A path that is not a file, or a file that cannot be unpacked.
        let log = path.join("run/iter-0/parallelio/logs").join(write::ROWS_FILE);
        fs::write(&log, [0x1f, 0x8b, 1]).unwrap();
        let told = |path: &Path| read(path, Some("parallelio"), &[]).unwrap().warnings.join("\n");
        assert!(told(path).contains("highwater-rows.log: cannot be read: "), "{}", told(path));
        fs::remove_file(&log).unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("nowhere", &log).unwrap();
            assert!(told(path).contains("highwater-rows.log: cannot be read: "), "{}", told(path));
        }
    }

    #[test]
    fn what_is_no_directory_of_mmtests_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(read(&path.join("none"), None, &[]).unwrap_err().contains("none: cannot be read: "));
        assert!(read(path, None, &[]).unwrap_err().contains("expected a log directory of MMTests"));
        put(path, "run/tests-timestamp", "start :: 1\n");
        assert!(read(path, None, &[]).unwrap_err().contains("expected `test begin :: NAME SECONDS`"));
        put(path, "run/tests-timestamp", &format!("{TIMESTAMP}{}", TIMESTAMP.replace("parallelio", "kernbench")));
        let why = read(path, None, &[]).unwrap_err();
        assert!(why.contains("choose one of the tests with --test: parallelio, kernbench"), "{why}");
        assert!(read(path, Some("other"), &[]).unwrap_err().contains("there is no test `other`"));
        assert_eq!(read(path, Some("kernbench"), &[]).unwrap().table.experiment, "kernbench");
    }
}
