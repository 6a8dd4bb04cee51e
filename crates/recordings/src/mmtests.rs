//! Log directories of MMTests. Each has `tests-timestamp`, with `/proc/vmstat` before and after each benchmark, and the
//! output of the monitors `proc-vmstat`, `proc-meminfo`, `vmstat` and `iostat`, packed or not.
//!
//! In older versions files are named `tests-timestamp-RUN` and `proc-vmstat-RUN-BENCHMARK`. In newer ones names do not
//! contain the run, and each repetition has its directory `iter-0`, `iter-1` and so on. Both forms are found
//! (mechanisms/benchmarks, 2.6).
//!
//! A damaged log does not prevent the reading of others: [`read_all`] and [`Benchmark::monitors`] leave faulty parts
//! out and report them.

use super::{
    Figures, OTHERWISE_PACKED, Sample, files_below, most_in_swap, otherwise_packed, procps, read_lossy, sysstat,
};
use engine::stat::Vmstat;
use kit::wrong::Wrong;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest number of levels of subdirectories that are searched.
const DEPTH_MAX: usize = 4;

/// Interval of the monitors, s, that is assumed if their lines have no times: the default of MMTests.
const MONITORS_EVERY_S: f64 = 10.0;

/// The benchmarks found in a directory of logs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// The benchmarks that ran, in order of run, iteration and time.
    pub benchmarks: Vec<Benchmark>,
    /// Faults in the parts of logs that were left out.
    pub wrong: Vec<Wrong>,
}

/// A benchmark that ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Benchmark {
    /// The name of the run, in most cases that of a kernel.
    pub run: String,
    /// The benchmark's name.
    pub name: String,
    /// The directory of the benchmark's logs.
    pub folder: PathBuf,
    /// The run's name as it appears in the names of log files. `None` if the names of log files do not contain it, as
    /// in newer versions.
    pub suffix: Option<String>,
    /// User, system and elapsed time, s, as the shell's `time` printed them.
    pub times: Option<[f64; 3]>,
    /// The benchmark's duration, s, as `time` printed it; if that is missing, the whole seconds between two clock
    /// readings.
    pub elapsed_s: Option<f64>,
    /// `/proc/vmstat` before the benchmark.
    pub before: Option<Vmstat>,
    /// `/proc/vmstat` after the benchmark.
    pub after: Option<Vmstat>,
    /// Total swap and free swap after the benchmark, pages, if `/proc/meminfo` was kept.
    pub swap_pages: Option<[u64; 2]>,
    /// Two times, us: the time in which at least one task waited for memory, and the time in which all tasks did. They
    /// are known if `/proc/pressure/memory` was kept before and after the benchmark, which MMTests does not do by
    /// default.
    pub stalled_us: Option<[u64; 2]>,
}

/// The output of monitors during a benchmark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Monitors {
    /// Copies of `/proc/vmstat`. Each has the time, s, and the counters. The time is counted since 1970, or since the
    /// start if the log has no times.
    pub counters: Vec<(f64, Counters)>,
    /// The output of `vmstat`.
    pub vmstat: Vec<Sample>,
    /// The output of `iostat`, by device.
    pub disks: BTreeMap<String, Vec<Figures>>,
    /// Total swap and free swap, pages, at each reading of `/proc/meminfo`.
    pub swap_pages: Vec<[u64; 2]>,
}

/// The contents of `/proc/vmstat` at a moment. The moments of a recording share one list of names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    names: Arc<[String]>,
    values: Box<[u64]>,
}

impl Counters {
    /// Makes the counters of one sample of `/proc/vmstat`. If the sample `earlier` has the same names in the same
    /// order, both share one list of names.
    #[must_use]
    pub fn of(counters: &Vmstat, earlier: Option<&Self>) -> Self {
        let known = earlier.filter(|earlier| earlier.names.iter().eq(counters.keys()));
        let names = known.map_or_else(|| counters.keys().cloned().collect(), |earlier| earlier.names.clone());
        Self { names, values: counters.values().copied().collect() }
    }

    /// Returns the counters, each with its name.
    #[must_use]
    pub fn vmstat(&self) -> Vmstat {
        self.names.iter().cloned().zip(self.values.iter().copied()).collect()
    }
}

/// Reads all benchmarks in a directory and its subdirectories.
///
/// # Errors
/// When there is no `tests-timestamp` with a benchmark.
pub fn read_all(folder: &Path) -> Result<Recorded, Wrong> {
    let mut all = Recorded::default();
    let found = find(folder, &mut all.wrong);
    if found.is_empty() {
        let what =
            "expected a log directory of MMTests: there is no file `tests-timestamp` or `tests-timestamp-KERNEL` in it";
        let none = Wrong::of(&folder.display().to_string(), what);
        return Err(all.wrong.into_iter().next().unwrap_or(none));
    }
    for log in &found {
        // A fault in one run does not affect the others.
        if let Err(wrong) = log.read(&mut all) {
            all.wrong.push(wrong);
        }
    }
    if let (true, Some(first)) = (all.benchmarks.is_empty(), all.wrong.first()) {
        return Err(first.clone());
    }
    tell_runs_apart(folder, &mut all.benchmarks);
    let iteration = |it: &Benchmark| iteration_of(&it.folder);
    all.benchmarks.sort_by(|a, b| (&a.run, iteration(a), &a.folder).cmp(&(&b.run, iteration(b), &b.folder)));
    Ok(all)
}

/// A `tests-timestamp` file: its folder, and the name of the run if the file is called `tests-timestamp-NAME`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Log {
    folder: PathBuf,
    suffix: Option<String>,
}

fn find(folder: &Path, wrong: &mut Vec<Wrong>) -> Vec<Log> {
    let log = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let rest = name.trim_end_matches(".gz").strip_prefix("tests-timestamp")?;
        let suffix = if rest.is_empty() { None } else { Some(rest.strip_prefix('-')?.to_owned()) };
        Some(Log { folder: path.parent()?.to_owned(), suffix })
    };
    let files = files_below(folder, DEPTH_MAX, wrong);
    let is_log = |plain: &Path| {
        plain.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("tests-timestamp"))
    };
    wrong.extend(
        files.iter().filter(|path| otherwise_packed(path).is_some_and(|it| is_log(&it))).map(|it| Wrong::packed(it)),
    );
    let mut found: Vec<Log> = files.into_iter().filter_map(log).collect();
    found.sort();
    // A log may exist both packed and unpacked.
    found.dedup();
    found
}

impl Log {
    /// Adds the benchmarks of this log to `all`.
    fn read(&self, all: &mut Recorded) -> Result<(), Wrong> {
        let Self { folder, suffix } = self;
        let suffix = suffix.as_deref();
        let run = suffix.map_or_else(|| run_of(folder), str::to_owned);
        let text_of = |name: &str| -> Result<Option<(String, String)>, Wrong> {
            let Some(path) = log(folder, &[Some(name), suffix]) else {
                return packed_log(folder, &[Some(name), suffix]).map_or(Ok(None), Err);
            };
            Ok(Some((path.display().to_string(), read_lossy(&path)?)))
        };
        let mut benchmarks = Vec::new();
        if let Some((file, text)) = text_of("tests-timestamp")? {
            let mut wrong = Vec::new();
            benchmarks = parse(&file, &text, &mut wrong);
            all.wrong.extend(summed(wrong));
        }
        // In some versions copies of files are in `tests-sysstate`, apart from the times.
        if let Some((file, text)) = text_of("tests-sysstate")? {
            let mut wrong = Vec::new();
            for of_state in parse(&file, &text, &mut wrong) {
                let Some(known) = benchmarks.iter_mut().find(|it| it.name == of_state.name) else { continue };
                known.before = of_state.before.or(known.before.take());
                known.after = of_state.after.or(known.after.take());
                known.swap_pages = of_state.swap_pages.or(known.swap_pages);
                known.stalled_us = of_state.stalled_us.or(known.stalled_us);
            }
            all.wrong.extend(summed(wrong));
        }
        let of_run = |it: Benchmark| Benchmark {
            run: run.clone(),
            folder: folder.clone(),
            suffix: suffix.map(str::to_owned),
            ..it
        };
        all.benchmarks.extend(benchmarks.into_iter().map(of_run));
        Ok(())
    }
}

/// Returns the file in `folder` whose name is the given words joined by `-`, either plain or compressed with gzip; none
/// if there is no such file.
fn log(folder: &Path, words: &[Option<&str>]) -> Option<PathBuf> {
    let name = words.iter().copied().flatten().collect::<Vec<_>>().join("-");
    let paths = [name.clone(), format!("{name}.gz")].map(|name| folder.join(name));
    // An existing path that is no regular file, such as a pipe or a dangling link, is reported when it is read.
    let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok() && !path.is_dir();
    paths.iter().find(|path| path.is_file()).or_else(|| paths.iter().find(is_there)).cloned()
}

/// Returns a fault if `folder` has a log in a compressed form that this program cannot unpack. The name of the log
/// consists of `words`, joined by `-`, and of an ending such as `.bz2`.
fn packed_log(folder: &Path, words: &[Option<&str>]) -> Option<Wrong> {
    let name = words.iter().copied().flatten().collect::<Vec<_>>().join("-");
    let paths = OTHERWISE_PACKED.iter().map(|ending| folder.join(format!("{name}{ending}")));
    paths.into_iter().find(|path| otherwise_packed(path).is_some()).map(|path| Wrong::packed(&path))
}

/// Returns the first of `wrong`, the faults of a file; none if there are no faults. The text of the result also says
/// how many other faults there are.
#[must_use]
pub fn summed(wrong: Vec<Wrong>) -> Option<Wrong> {
    let more = match wrong.len() {
        0 | 1 => String::new(),
        2 => "; one more of its lines is wrong".into(),
        n => format!("; {} more of its lines are wrong", n - 1),
    };
    let first = wrong.into_iter().next()?;
    Some(Wrong { what: first.what.clone() + &more, ..first })
}

/// Returns the name of the run. It is the name of `folder`, or of the nearest directory above it if `folder` is called
/// `iter-N`.
fn run_of(folder: &Path) -> String {
    let place = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    // If a link leads to the directory, the link's name is used.
    let name = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_named = |folder: &&Path| name(folder).is_some_and(|name| !name.starts_with("iter-"));
    let nearest = |folder: &Path| folder.ancestors().find(is_named).and_then(name);
    nearest(folder).or_else(|| nearest(&place)).unwrap_or_else(|| "run".to_owned())
}

/// Returns the number N of a directory `iter-N`; none for another directory.
fn iteration_of(folder: &Path) -> Option<u64> {
    folder.file_name()?.to_str()?.strip_prefix("iter-")?.parse().ok()
}

/// Puts the directory's name before the name of a run if runs in several directories have the same name.
fn tell_runs_apart(folder: &Path, benchmarks: &mut [Benchmark]) {
    let place = |it: &Benchmark| match iteration_of(&it.folder) {
        Some(_) => it.folder.parent().unwrap_or(&it.folder).to_owned(),
        None => it.folder.clone(),
    };
    let mut places: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for it in benchmarks.iter() {
        let known = places.entry(it.run.clone()).or_default();
        let place = place(it);
        if !known.contains(&place) {
            known.push(place);
        }
    }
    for it in benchmarks.iter_mut().filter(|it| places[&it.run].len() > 1) {
        let path = place(it);
        let path = path.strip_prefix(folder).unwrap_or(&path);
        let path = if it.suffix.is_some() { path.join(&it.run) } else { path.to_owned() };
        it.run = if path.as_os_str().is_empty() { it.run.clone() } else { path.display().to_string() };
    }
}

impl Benchmark {
    /// Returns two shares of the benchmark's time, %: the share in which at least one task waited for memory, and the
    /// share in which all tasks did. None if the shares are unknown.
    #[must_use]
    pub fn stalled_percent(&self) -> Option<[f64; 2]> {
        let elapsed_s = self.elapsed_s.filter(|time| *time > 0.0)?;
        Some(self.stalled_us?.map(|time| time as f64 / 1e4 / elapsed_s))
    }

    /// Returns total swap and the smallest free swap, pages, from copies of `/proc/meminfo` and from the swap use that
    /// `vmstat` reports.
    #[must_use]
    pub fn least_free_swap(&self, monitors: &Monitors) -> Option<[f64; 2]> {
        let looks = self.swap_pages.iter().chain(&monitors.swap_pages).map(|look| look.map(|pages| pages as f64));
        let [all, free] = looks.min_by(|a, b| a[1].total_cmp(&b[1]))?;
        let used = most_in_swap(&monitors.vmstat).unwrap_or(0.0);
        Some([all, free.min((all - used).max(0.0))])
    }

    /// Returns the number of the iteration; none if iterations have no directories.
    #[must_use]
    pub fn iteration(&self) -> Option<u64> {
        iteration_of(&self.folder)
    }

    /// Returns the directory of the benchmark's own logs, which may not exist.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        match &self.suffix {
            Some(run) => self.folder.join(format!("{}-{run}", self.name)),
            None => self.folder.join(&self.name),
        }
    }

    /// Returns the output of the benchmark's monitors. Faulty parts are left out and reported.
    #[must_use]
    pub fn monitors(&self, wrong: &mut Vec<Wrong>) -> Monitors {
        let mut monitor = |kind: &str, parse: &mut dyn FnMut(&str, &str, &mut Vec<Wrong>)| {
            let long = log(&self.folder, &[Some(kind), self.suffix.as_deref(), Some(self.name.as_str())]);
            let short = || log(&self.folder, &[Some(kind), Some(self.name.as_str())]);
            let Some(path) = long.or_else(short) else {
                let names = [self.suffix.as_deref(), None].map(|suffix| [Some(kind), suffix, Some(self.name.as_str())]);
                return wrong.extend(names.iter().find_map(|words| packed_log(&self.folder, words)));
            };
            match read_lossy(&path) {
                Ok(text) => {
                    let mut found = Vec::new();
                    parse(&path.display().to_string(), whole_lines(&text), &mut found);
                    wrong.extend(summed(found));
                }
                Err(why) => wrong.push(why),
            }
        };
        let mut all = Monitors::default();
        monitor("proc-vmstat", &mut |file, text, wrong| all.counters = parse_counters(file, text, wrong));
        monitor("vmstat", &mut |file, text, wrong| all.vmstat = procps::read(file, text, MONITORS_EVERY_S, wrong));
        monitor("proc-meminfo", &mut |file, text, wrong| all.swap_pages = parse_meminfo(file, text, wrong));
        monitor("iostat", &mut |file, text, wrong| all.disks = sysstat::read_iostat(file, text, wrong));
        all
    }
}

/// Returns a text up to its last complete line: monitors may be killed in the middle of a line.
fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

/// The file, such as `/proc/vmstat`, whose copy in a `tests-timestamp` is being read.
#[derive(Clone, Copy, PartialEq)]
enum Copy {
    VmstatBefore,
    VmstatAfter,
    MeminfoAfter,
    PressureBefore,
    PressureAfter,
    /// A file whose contents are not used.
    Other,
}

/// Reads the benchmarks in a `tests-timestamp`, in order. If a benchmark is repeated, only its last run is kept.
/// Faulty parts are left out and reported.
#[must_use]
pub fn parse(file: &str, text: &str, wrong: &mut Vec<Wrong>) -> Vec<Benchmark> {
    let mut done: Vec<Benchmark> = Vec::new();
    let mut open: Option<(Benchmark, Option<f64>)> = None;
    let mut copy = Copy::Other;
    let (mut swap, mut stalled) = ([None, None], [[None, None]; 2]);
    for (n, line) in text.lines().enumerate() {
        let told = |what: String| Wrong::at(file, n, what);
        if let Some((what, rest)) = line.split_once(" :: ") {
            copy = Copy::Other;
            let words: Vec<&str> = rest.split_whitespace().collect();
            // The time of the begin or end is useful, but not needed.
            let mut moment = || match words.get(1).map(|word| word.parse::<f64>()) {
                Some(Err(_)) => {
                    wrong.push(told(format!("expected `{what} :: NAME SECONDS`: found `{line}`")));
                    None
                }
                found => found.transpose().ok().flatten(),
            };
            match (what, words.as_slice()) {
                ("test begin", []) => wrong.push(told(format!("expected `{what} :: NAME SECONDS`: found `{line}`"))),
                ("test begin", [name, ..]) => {
                    let begun = moment();
                    if let Some((earlier, _)) = open.take() {
                        let what = format!("expected `test end :: {}` before the next `test begin`", earlier.name);
                        wrong.push(told(what));
                        done.push(earlier);
                    }
                    done.retain(|it| it.name != **name);
                    open = Some((Benchmark { name: (*name).to_owned(), ..Benchmark::default() }, begun));
                    (swap, stalled) = ([None, None], [[None, None]; 2]);
                }
                ("test end", _) => {
                    let ended = moment();
                    let Some((mut benchmark, begun)) = open.take() else { continue };
                    let by_the_clock = begun.zip(ended).map(|(begun, ended)| ended - begun).filter(|time| *time > 0.0);
                    benchmark.elapsed_s = benchmark.elapsed_s.or(by_the_clock);
                    benchmark.swap_pages = pair_of(swap);
                    let [before, after] = stalled.map(pair_of);
                    // If the computer was restarted during the benchmark, its counters began at 0 again.
                    let grown = |(before, after): ([u64; 2], [u64; 2])| {
                        Some([after[0].checked_sub(before[0])?, after[1].checked_sub(before[1])?])
                    };
                    benchmark.stalled_us = before.zip(after).and_then(grown);
                    done.push(benchmark);
                }
                ("time", [name, figures @ ..]) => {
                    let of_open = open.as_mut().map(|(benchmark, _)| benchmark);
                    let Some(benchmark) = done.iter_mut().chain(of_open).find(|it| it.name == **name) else {
                        wrong.push(told(format!("expected `test begin :: {name} SECONDS` before: found `{line}`")));
                        continue;
                    };
                    match times(figures) {
                        Some(times) => (benchmark.times, benchmark.elapsed_s) = (Some(times), Some(times[2])),
                        None => wrong.push(told(format!(
                            "expected `time :: NAME SECONDS user SECONDS system SECONDS elapsed`: found `{line}`"
                        ))),
                    }
                }
                ("file start", ["/proc/vmstat"]) => copy = Copy::VmstatBefore,
                ("file end", ["/proc/vmstat"]) => copy = Copy::VmstatAfter,
                ("file end", ["/proc/meminfo"]) => copy = Copy::MeminfoAfter,
                ("file start", ["/proc/pressure/memory"]) => copy = Copy::PressureBefore,
                ("file end", ["/proc/pressure/memory"]) => copy = Copy::PressureAfter,
                _ => {}
            }
            continue;
        }
        let Some((benchmark, _)) = &mut open else { continue };
        let counters = match copy {
            Copy::VmstatBefore => &mut benchmark.before,
            Copy::VmstatAfter => &mut benchmark.after,
            Copy::MeminfoAfter => {
                add_swap(line, &mut swap);
                continue;
            }
            Copy::PressureBefore | Copy::PressureAfter => {
                let total = line.rsplit_once(" total=").and_then(|(_, time)| time.trim().parse().ok());
                let stalled = &mut stalled[usize::from(copy == Copy::PressureAfter)];
                for (who, time) in ["some ", "full "].into_iter().zip(stalled) {
                    *time = total.filter(|_| line.starts_with(who)).or(*time);
                }
                continue;
            }
            Copy::Other => continue,
        };
        match pair(line) {
            Some(pair) => counters.get_or_insert_default().extend([pair]),
            None if line.trim().is_empty() => {}
            None => wrong.push(told(format!("expected `NAME NUMBER` of /proc/vmstat: found `{line}`"))),
        }
    }
    if let Some((benchmark, _)) = open {
        let what = format!("expected `test end :: {}`: it was cut off, or did not end", benchmark.name);
        wrong.push(Wrong::of(file, what));
        done.push(benchmark);
    }
    if done.is_empty() {
        wrong.push(Wrong::of(file, "expected `test begin :: NAME SECONDS`, and found none"));
    }
    for Benchmark { name: benchmark, before, after, .. } in &mut done {
        let (Some(before), Some(after)) = (before, after) else { continue };
        after.retain(|name, now| {
            // A counter that is missing or faulty in the copy before the benchmark would seem to have grown from 0.
            let Some(then) = before.get(name) else { return false };
            let is_sound = is_level(name) || *now >= *then;
            if !is_sound {
                let what = format!(
                    "{benchmark}: {name} was {then} before and is {now} after it: it is left out, since it counts up"
                );
                wrong.push(Wrong::of(file, what));
            }
            is_sound
        });
    }
    done
}

/// Returns the two values without `Option`; none if either is unknown.
fn pair_of([first, second]: [Option<u64>; 2]) -> Option<[u64; 2]> {
    first.zip(second).map(|(first, second)| [first, second])
}

/// Reads a line of `/proc/meminfo`. `SwapTotal` is stored as the first value of `swap` and `SwapFree` as the second, in
/// pages. Other lines change nothing.
fn add_swap(line: &str, swap: &mut [Option<u64>; 2]) {
    for (name, pages) in ["SwapTotal:", "SwapFree:"].into_iter().zip(swap) {
        let kib = line.strip_prefix(name).and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        *pages = kib.map(|kib| kib / 4).or(*pages);
    }
}

/// Reads the output of the monitor `proc-meminfo`: copies of `/proc/meminfo`, each after a line `time: 1370512345`.
/// Returns total swap and free swap of each copy, pages.
fn parse_meminfo(file: &str, text: &str, wrong: &mut Vec<Wrong>) -> Vec<[u64; 2]> {
    let (mut looks, mut swap) = (Vec::new(), [None, None]);
    for line in text.lines() {
        add_swap(line, &mut swap);
        if let Some(look) = pair_of(swap) {
            looks.push(look);
            swap = [None, None];
        }
    }
    if looks.is_empty() {
        wrong.push(Wrong::of(file, "expected `SwapTotal:` and `SwapFree:` of /proc/meminfo, and found none"));
    }
    looks
}

/// Reads user, system and elapsed time from words such as `1.50 user 2.00 system 62.25 elapsed`.
fn times(words: &[&str]) -> Option<[f64; 3]> {
    let [user, "user", system, "system", elapsed, "elapsed", ..] = words else { return None };
    let mut times = [0.0; 3];
    for (time, word) in times.iter_mut().zip([user, system, elapsed]) {
        *time = word.parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0)?;
    }
    Some(times)
}

/// Returns whether `name`, from `/proc/vmstat`, is the name of a level (such as free memory) and not of a counter.
fn is_level(name: &str) -> bool {
    name.starts_with("nr_") || name == "workingset_nodes"
}

/// Reads name and value from a line of `/proc/vmstat`. A gauge such as `nr_dirty` may be negative for a moment; it is
/// then read as 0. Returns `None` if the line has another form.
fn pair(line: &str) -> Option<(String, u64)> {
    let (name, value) = line.split_once(' ')?;
    let value: i128 = value.trim().parse().ok()?;
    Some((name.to_owned(), u64::try_from(value.max(0)).ok()?))
}

/// Reads the output of the monitor `proc-vmstat`: copies of `/proc/vmstat`, each after a line `time: 1370512345`. If
/// there are no times, a copy begins where the first name is repeated, and the interval is the default of MMTests.
fn parse_counters(file: &str, text: &str, wrong: &mut Vec<Wrong>) -> Vec<(f64, Counters)> {
    // Each moment has the line on which it begins.
    let mut moments: Vec<(usize, f64, Counters)> = Vec::new();
    // The counters of the last moment are collected here first.
    let mut filled = Vmstat::new();
    let close = |moments: &mut Vec<(usize, f64, Counters)>, filled: &mut Vmstat| {
        match moments.as_mut_slice() {
            [.., (.., earlier), (.., last)] => *last = Counters::of(filled, Some(earlier)),
            [(.., only)] => *only = Counters::of(filled, None),
            [] => {}
        }
        filled.clear();
    };
    let has_times = text.lines().any(|line| line.starts_with("time: "));
    let mut first: Option<String> = None;
    let mut is_wrong = false;
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if let Some(time) = line.strip_prefix("time: ") {
            let earlier = moments.last().map(|(_, time, _)| *time);
            let time = time.trim().parse::<f64>().ok().filter(|time| time.is_finite());
            is_wrong = time.is_none_or(|time| earlier.is_some_and(|earlier| time <= earlier));
            match time {
                Some(time) if !is_wrong => {
                    close(&mut moments, &mut filled);
                    moments.push((n, time, Counters::default()));
                }
                Some(_) => wrong.push(Wrong::at(file, n, format!("expected a later time than before: found `{line}`"))),
                None => wrong.push(Wrong::at(file, n, format!("expected `time: SECONDS`: found `{line}`"))),
            }
            continue;
        }
        // The counters after a faulty time are left out, too.
        if is_wrong {
            continue;
        }
        let Some((name, value)) = pair(line) else {
            wrong.push(Wrong::at(file, n, format!("expected `NAME NUMBER`: found `{line}`")));
            continue;
        };
        if !has_times && first.as_ref().is_none_or(|first| *first == name) {
            close(&mut moments, &mut filled);
            moments.push((n, MONITORS_EVERY_S * moments.len() as f64, Counters::default()));
            first = Some(name.clone());
        }
        match moments.last() {
            Some(_) => _ = filled.insert(name, value),
            None => wrong.push(Wrong::at(file, n, format!("expected `time: SECONDS` first: found `{line}`"))),
        }
    }
    close(&mut moments, &mut filled);
    let names = moments.iter().map(|(.., counters)| counters.names.len()).max().unwrap_or_default();
    if names == 0 {
        wrong.push(Wrong::of(file, "expected `NAME NUMBER` of /proc/vmstat, and found none"));
    }
    let last = moments.len().saturating_sub(1);
    let is_whole = |(at, (n, _, counters)): &(usize, (usize, f64, Counters))| {
        let is_whole = counters.names.len() == names && names > 0;
        // The last copy is incomplete if the monitor was killed while writing it.
        if !is_whole && *at < last {
            let what = format!("expected {names} counters at this moment: found {}", counters.names.len());
            wrong.push(Wrong::at(file, *n, what));
        }
        is_whole
    };
    let whole = moments.into_iter().enumerate().filter(is_whole);
    let whole = whole.map(|(_, (_, time, counters))| (time, counters)).collect();
    wrong.sort_by_key(|wrong| wrong.line);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: &str = "\
start :: 100
test begin :: parallelio 105
file start :: /proc/vmstat
pgfault 10
pswpin 1
file start :: /proc/zoneinfo
Node 0, zone      DMA
file end :: /proc/vmstat
pgfault 25
pswpin 4
file end :: /proc/meminfo
SwapTotal:  4000 kB
SwapFree:    400 kB
test end :: parallelio 168
time :: parallelio 1.50 user 2.00 system 62.25 elapsed
test begin :: second 170
file start :: /proc/vmstat
pgfault 30
file end :: /proc/vmstat
pgfault 31
test end :: second 180
finish :: 181
";

    fn put(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Reads all benchmarks in a directory, and their monitors. Checks that no log has a fault.
    fn all_of(folder: &Path) -> Vec<(Benchmark, Monitors)> {
        let Recorded { benchmarks, mut wrong } = read_all(folder).unwrap();
        let found = benchmarks.into_iter().map(|it| (it.clone(), it.monitors(&mut wrong))).collect();
        assert_eq!(wrong, []);
        found
    }

    #[test]
    fn benchmarks_have_their_counters_and_monitors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        put(path, "3.10-vanilla/iter-0/tests-timestamp", TIMES);
        let counters = "time: 105\npgfault 10\nnr_dirty 3\ntime: 115\npgfault 11\nnr_di";
        put(path, "3.10-vanilla/iter-0/proc-vmstat-parallelio", counters);
        put(path, "3.10-vanilla/iter-0/iostat-parallelio", "Device r/s\nsda 1\n\nDevice r/s\nsda 2\n");
        let [(first, of_first), (second, of_second)] = all_of(path).try_into().unwrap();
        assert_eq!((&*first.run, &*first.name, first.iteration()), ("3.10-vanilla", "parallelio", Some(0)));
        assert_eq!((first.times, first.elapsed_s), (Some([1.5, 2.0, 62.25]), Some(62.25)));
        let of = |counters: &Option<Vmstat>| counters.as_ref().unwrap()["pgfault"];
        assert_eq!((of(&first.before), of(&first.after), first.swap_pages), (10, 25, Some([1000, 100])));
        assert_eq!((of_first.counters.len(), of_first.disks["sda"][0]["r/s"]), (1, 2.0));
        assert_eq!((second.times, second.elapsed_s, second.swap_pages), (None, Some(10.0), None));
        assert_eq!((of_second, second.logs()), (Monitors::default(), path.join("3.10-vanilla/iter-0/second")));
    }

    #[test]
    fn old_names_have_the_run_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        put(path, "tests-timestamp-vanilla", TIMES);
        put(path, "proc-vmstat-vanilla-second", "time: 171\npgfault 30\n");
        // An edited copy of a log, which is not itself the log of a run.
        put(path, "tests-timestamp.old", "x");
        let found = all_of(path);
        let (second, monitors) = &found[1];
        assert_eq!((&*second.run, monitors.counters.len()), ("vanilla", 1));
        assert_eq!(second.logs(), path.join("second-vanilla"));
    }

    #[test]
    fn runs_and_iterations_come_in_order_and_have_names_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for place in ["old/vanilla/iter-10", "old/vanilla/iter-9", "new/vanilla/iter-0", "fixed"] {
            put(path, &format!("{place}/tests-timestamp"), TIMES);
        }
        let packed = path.join("fixed/tests-timestamp.gz");
        fs::write(packed, "beside the one that is not").unwrap();
        let found = all_of(path);
        let all: Vec<_> = found.iter().step_by(2).map(|(it, _)| (&*it.run, it.iteration())).collect();
        assert_eq!(
            all,
            [("fixed", None), ("new/vanilla", Some(0)), ("old/vanilla", Some(9)), ("old/vanilla", Some(10))]
        );
        let [(of_iteration, _), _] = all_of(&path.join("old/vanilla/iter-9")).try_into().unwrap();
        assert_eq!(of_iteration.run, "vanilla");
    }

    #[cfg(unix)]
    #[test]
    fn logs_that_are_no_files_are_told_and_not_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        put(path, "a/tests-timestamp", TIMES);
        let pipe = |place: &str| {
            fs::create_dir_all(path.join(place).parent().unwrap()).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(path.join(place)).status().unwrap().success());
        };
        pipe("b/tests-timestamp");
        pipe("a/vmstat-second");
        fs::create_dir(path.join("c")).unwrap();
        std::os::unix::fs::symlink("nowhere", path.join("c/tests-timestamp")).unwrap();
        let Recorded { benchmarks, mut wrong } = read_all(path).unwrap();
        assert_eq!(benchmarks.len(), 2);
        let _ = benchmarks[1].monitors(&mut wrong);
        let told: Vec<String> =
            wrong.iter().map(|it| it.to_string().replace(&format!("{}/", path.display()), "")).collect();
        let pipe = "cannot be read: it is not a regular file, but a pipe that nobody writes to";
        let expected = [
            format!("b/tests-timestamp: {pipe}"),
            "c/tests-timestamp: cannot be read: no such file or directory".into(),
            format!("a/vmstat-second: {pipe}"),
        ];
        assert_eq!(told, expected);
        assert!(read_all(&path.join("b")).unwrap_err().to_string().ends_with(pipe));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_but_in_no_circle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        put(path, "elsewhere/iter-0/tests-timestamp", TIMES);
        fs::create_dir(path.join("logs")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", path.join("logs/3.10")).unwrap();
        std::os::unix::fs::symlink("..", path.join("logs/above")).unwrap();
        std::os::unix::fs::symlink(".", path.join("elsewhere/itself")).unwrap();
        let names: Vec<String> = all_of(&path.join("logs/3.10")).into_iter().map(|(it, _)| it.run).collect();
        assert_eq!(names, ["3.10", "3.10"]);
    }

    #[test]
    fn a_repeated_benchmark_counts_with_its_last_run_and_copies_may_lie_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let without = "test begin :: a 5\ntest end :: a 9\ntime :: a 1 user 1 system 4 elapsed\n";
        let again = "test begin :: a 20\ntest end :: a 27\ntime :: a 1 user 1 system 7 elapsed\n";
        put(path, "run/tests-timestamp", &[without, again].concat());
        let copies = TIMES.replace("parallelio", "a").replace("second", "a");
        put(path, "run/tests-sysstate", &copies[..copies.find("test begin :: a 170").unwrap()]);
        let [(found, _)] = all_of(path).try_into().unwrap();
        assert_eq!((found.elapsed_s, found.after.unwrap()["pgfault"]), (Some(7.0), 25));
        assert_eq!(found.swap_pages, Some([1000, 100]));
    }

    #[test]
    fn monitors_may_have_no_times() {
        let mut wrong = Vec::new();
        let found = parse_counters("c", "nr_free_pages 5\npgfault 1\nnr_free_pages -4\npgfault 2\n", &mut wrong);
        let of = |free, faults| [("nr_free_pages".to_owned(), free), ("pgfault".to_owned(), faults)].into();
        assert!(Arc::ptr_eq(&found[0].1.names, &found[1].1.names), "names are kept once");
        let found: Vec<(f64, Vmstat)> = found.iter().map(|(time, counters)| (*time, counters.vmstat())).collect();
        assert_eq!((found, wrong.len()), (vec![(0.0, of(5, 1)), (10.0, of(0, 2))], 0));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_left_out() {
        let of = |text: &str| {
            let mut wrong = Vec::new();
            let found = parse("t", text, &mut wrong);
            (found, wrong.iter().map(Wrong::to_string).collect::<Vec<_>>().join("\n"))
        };
        assert_eq!(of("start :: 1\n"), (vec![], "t: expected `test begin :: NAME SECONDS`, and found none".into()));
        let (found, wrong) = of("test begin :: a x\ntest end :: a 9\n");
        assert_eq!((found[0].elapsed_s, wrong.starts_with("t:1: expected `test begin :: NAME SECONDS`")), (None, true));
        let (found, wrong) = of(&TIMES.replace("pgfault 25", "pgfault x"));
        assert_eq!(wrong, "t:9: expected `NAME NUMBER` of /proc/vmstat: found `pgfault x`");
        assert_eq!(found[0].after, Some([("pswpin".to_owned(), 4)].into()));
        let (found, _) = of(&TIMES.replace("pgfault 10", "pgfault x"));
        assert_eq!(found[0].after, Some([("pswpin".to_owned(), 4)].into()), "it would count from 0");
        let (found, wrong) = of("test begin :: a 1\n");
        assert_eq!((found.len(), wrong.contains("expected `test end :: a`")), (1, true));
        let (found, wrong) = of("test begin :: a 1\ntest begin :: b 2\ntest end :: b 3\n");
        assert_eq!((found.len(), wrong.starts_with("t:2: expected `test end :: a` before")), (2, true));
        let (_, wrong) = of(&TIMES.replace("62.25 elapsed", "62.25"));
        assert!(wrong.starts_with("t:15: expected `time :: NAME SECONDS user"), "{wrong}");
        let empty = tempfile::tempdir().unwrap();
        assert!(read_all(empty.path()).unwrap_err().to_string().contains("no file `tests-timestamp`"));
    }

    #[test]
    fn of_a_damaged_monitor_the_rest_is_read() {
        let of = |text: &str| {
            let mut wrong = Vec::new();
            let found = parse_counters("c", text, &mut wrong);
            (found.len(), wrong.iter().map(Wrong::to_string).collect::<Vec<_>>().join("\n"))
        };
        assert_eq!(
            of("pgfault 1\ntime: 5\npgfault 2\n"),
            (1, "c:1: expected `time: SECONDS` first: found `pgfault 1`".into())
        );
        let whole = "time: 5\na 1\nb 1\ntime: 6\na 2\nb 2\ntime: 7\na 3\nb 3\ntime: 8\na 4\n";
        assert_eq!(of(whole), (3, String::new()));
        assert_eq!(
            of(&whole.replace("b 2", "b ?")),
            (2, "c:4: expected 2 counters at this moment: found 1\nc:6: expected `NAME NUMBER`: found `b ?`".into())
        );
        assert_eq!(
            of(&whole.replace("time: 6", "time: 4")),
            (2, "c:4: expected a later time than before: found `time: 4`".into())
        );
        assert_eq!(of(""), (0, "c: expected `NAME NUMBER` of /proc/vmstat, and found none".into()));
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "run/tests-timestamp", TIMES);
        let log = "Device r/s\nsda 1\nsda ?\nsda ?\nsda 3\nsda 4";
        put(folder.path(), "run/iostat-second", log);
        let mut wrong = Vec::new();
        let disks = read_all(folder.path()).unwrap().benchmarks[1].monitors(&mut wrong).disks;
        assert_eq!(disks["sda"].iter().map(|it| it["r/s"]).collect::<Vec<_>>(), [3.0], "the last line is cut off");
        let [wrong] = wrong.try_into().unwrap();
        let told = wrong.to_string();
        assert!(
            told.ends_with(
                "iostat-second:3: expected a number in column r/s: found `?`; one more of its lines is wrong"
            ),
            "{told}"
        );
    }
}
