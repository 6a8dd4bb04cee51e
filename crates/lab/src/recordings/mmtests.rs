//! Log directories of MMTests: `tests-timestamp`, with `/proc/vmstat` before and after each benchmark, and the monitors `proc-vmstat`,
//! `vmstat` and `iostat` beside it, packed or not.
//!
//! Names were `tests-timestamp-RUN` and `proc-vmstat-RUN-BENCHMARK` until some years ago, and have no run in them since; then there
//! is a directory `iter-0` and so on for each time that a benchmark was repeated. Both are found (mechanisms/benchmarks, 2.6).

use super::{Sample, Wrong, procps, read, sysstat};
use engine::stat::Vmstat;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// So deep directories are looked into.
const DEPTH_MAX: usize = 4;

/// Interval of the monitors where their lines have no times of their own, s: MMTests' default.
const MONITORS_EVERY_S: f64 = 10.0;

/// A benchmark that ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Benchmark {
    /// The run: a kernel in most cases.
    pub run: String,
    /// Its name.
    pub name: String,
    /// The directory.
    pub folder: PathBuf,
    /// How long it was, s.
    pub elapsed_s: Option<f64>,
    /// `/proc/vmstat` before it.
    pub before: Vmstat,
    /// The same after it.
    pub after: Vmstat,
    /// Swap and what was free of it after it, pages, where `/proc/meminfo` was kept.
    pub swap_pages: Option<[u64; 2]>,
    /// `/proc/vmstat` meanwhile: s since 1970, and the counters.
    pub counters: Vec<(f64, Vmstat)>,
    /// What `vmstat` printed meanwhile.
    pub vmstat: Vec<Sample>,
    /// What `iostat` printed meanwhile, by device.
    pub disks: BTreeMap<String, Vec<BTreeMap<String, f64>>>,
}

/// All benchmarks of a directory, those of directories in it included.
///
/// # Errors
/// When there is no `tests-timestamp`, or the first file that is none of those that MMTests writes.
pub fn read_all(folder: &Path) -> Result<Vec<Benchmark>, Wrong> {
    let mut found = Vec::new();
    find(folder, 0, &mut found)?;
    found.sort();
    if found.is_empty() {
        let what = "expected a log directory of MMTests: there is no file `tests-timestamp` in it";
        return Err(Wrong::of(&folder.display().to_string(), what));
    }
    let all: Result<Vec<Vec<Benchmark>>, Wrong> = found.iter().map(|path| read_run(path)).collect();
    Ok(all?.into_iter().flatten().collect())
}

fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Wrong> {
    let told = |error: std::io::Error| Wrong::of(&folder.display().to_string(), format!("cannot be read: {error}"));
    for entry in fs::read_dir(folder).map_err(told)?.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("tests-timestamp") && path.is_file() {
            found.push(path);
        } else if depth < DEPTH_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find(&path, depth + 1, found)?;
        }
    }
    Ok(())
}

/// The benchmarks of a `tests-timestamp`.
fn read_run(path: &Path) -> Result<Vec<Benchmark>, Wrong> {
    let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let suffix = name.trim_end_matches(".gz").trim_start_matches("tests-timestamp").trim_start_matches('-').to_owned();
    let run = if suffix.is_empty() { run_of(&folder) } else { suffix.clone() };
    let mut benchmarks = parse(&path.display().to_string(), &read(path)?)?;
    for benchmark in &mut benchmarks {
        let monitor = |kind: &str| -> Result<Option<(String, String)>, Wrong> {
            let long = format!("{kind}-{suffix}-{}", benchmark.name);
            let names = [format!("{kind}-{}", benchmark.name), long];
            let paths = names.iter().flat_map(|name| [folder.join(name), folder.join(format!("{name}.gz"))]);
            let Some(path) = paths.into_iter().find(|path| path.is_file()) else { return Ok(None) };
            Ok(Some((path.display().to_string(), read(&path)?)))
        };
        if let Some((file, text)) = monitor("proc-vmstat")? {
            benchmark.counters = parse_counters(&file, &text)?;
        }
        if let Some((file, text)) = monitor("vmstat")? {
            benchmark.vmstat = procps::read(&file, &text, MONITORS_EVERY_S)?;
        }
        if let Some((file, text)) = monitor("iostat")? {
            benchmark.disks = sysstat::read_iostat(&file, &text)?;
        }
        (benchmark.run, benchmark.folder) = (run.clone(), folder.clone());
    }
    Ok(benchmarks)
}

/// The nearest directory that is not one of iterations.
fn run_of(folder: &Path) -> String {
    let name = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_named = |folder: &&Path| name(folder).is_some_and(|name| !name.starts_with("iter-"));
    folder.ancestors().find(is_named).and_then(name).unwrap_or_else(|| "run".to_owned())
}

/// Which file's copy a `tests-timestamp` is in.
#[derive(Clone, Copy, PartialEq)]
enum Copy {
    VmstatBefore,
    VmstatAfter,
    MeminfoAfter,
    /// One that nobody asks for.
    Other,
}

fn parse(file: &str, text: &str) -> Result<Vec<Benchmark>, Wrong> {
    let mut done: Vec<Benchmark> = Vec::new();
    let mut open: Option<(Benchmark, f64)> = None;
    let mut copy = Copy::Other;
    let mut swap = [None, None];
    for (n, line) in text.lines().enumerate() {
        let told = |what: String| Wrong::at(file, n, what);
        if let Some((what, rest)) = line.split_once(" :: ") {
            copy = Copy::Other;
            let words: Vec<&str> = rest.split_whitespace().collect();
            let time = |word: Option<&&str>| {
                let found = word.and_then(|word| word.parse::<f64>().ok());
                found.ok_or_else(|| told(format!("expected `{what} :: NAME SECONDS`: found `{line}`")))
            };
            match (what, &mut open) {
                ("test begin", None) => {
                    let begun = time(words.get(1))?;
                    open = Some((Benchmark { name: words[0].to_owned(), ..Benchmark::default() }, begun));
                    swap = [None, None];
                }
                ("test begin", Some(_)) => return Err(told("expected `test end` before the next `test begin`".into())),
                ("test end", Some((benchmark, begun))) => {
                    let ended = time(words.get(1))?;
                    // The clock of the shell has whole seconds; `time` is finer.
                    benchmark.elapsed_s.get_or_insert(ended - *begun);
                    benchmark.swap_pages = match swap {
                        [Some(all), Some(free)] => Some([all, free]),
                        _ => None,
                    };
                    done.extend(open.take().map(|(benchmark, _)| benchmark));
                }
                // After its end.
                ("time", None) => {
                    let name = words.first().copied().unwrap_or_default();
                    if let Some(benchmark) = done.iter_mut().rev().find(|benchmark| benchmark.name == name) {
                        benchmark.elapsed_s = elapsed(&words).or(benchmark.elapsed_s);
                    }
                }
                ("file start", _) if rest == "/proc/vmstat" => copy = Copy::VmstatBefore,
                ("file end", _) if rest == "/proc/vmstat" => copy = Copy::VmstatAfter,
                ("file end", _) if rest == "/proc/meminfo" => copy = Copy::MeminfoAfter,
                _ => {}
            }
            continue;
        }
        let Some((benchmark, _)) = &mut open else { continue };
        let pair = || pair(line).ok_or_else(|| told(format!("expected `NAME NUMBER` of /proc/vmstat: found `{line}`")));
        match copy {
            Copy::VmstatBefore => benchmark.before.extend([pair()?]),
            Copy::VmstatAfter => benchmark.after.extend([pair()?]),
            Copy::MeminfoAfter => {
                for (name, pages) in ["SwapTotal:", "SwapFree:"].into_iter().zip(&mut swap) {
                    let kib =
                        line.strip_prefix(name).and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
                    *pages = kib.map(|kib| kib / 4).or(*pages);
                }
            }
            Copy::Other => {}
        }
    }
    if let Some((benchmark, _)) = open {
        return Err(Wrong::of(
            file,
            format!("expected `test end :: {}`: it was cut off, or did not end", benchmark.name),
        ));
    }
    if done.is_empty() {
        return Err(Wrong::of(file, "expected `test begin :: NAME SECONDS`, and found none"));
    }
    Ok(done)
}

/// Seconds before the word `elapsed`: `NAME 1.50 user 2.00 system 62.25 elapsed`.
fn elapsed(words: &[&str]) -> Option<f64> {
    let at = words.iter().position(|word| *word == "elapsed")?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

fn pair(line: &str) -> Option<(String, u64)> {
    let (name, value) = line.split_once(' ')?;
    Some((name.to_owned(), value.trim().parse().ok()?))
}

/// What the monitor `proc-vmstat` wrote: a line `time: 1370512345`, and `/proc/vmstat`, again and again.
fn parse_counters(file: &str, text: &str) -> Result<Vec<(f64, Vmstat)>, Wrong> {
    let mut moments: Vec<(f64, Vmstat)> = Vec::new();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if let Some(time) = line.strip_prefix("time: ") {
            let time = time
                .trim()
                .parse()
                .map_err(|_| Wrong::at(file, n, format!("expected `time: SECONDS`: found `{line}`")))?;
            moments.push((time, Vmstat::new()));
            continue;
        }
        let Some((_, counters)) = moments.last_mut() else {
            return Err(Wrong::at(file, n, format!("expected `time: SECONDS` first: found `{line}`")));
        };
        let pair = pair(line).ok_or_else(|| Wrong::at(file, n, format!("expected `NAME NUMBER`: found `{line}`")));
        // The monitor is killed in the middle of a line.
        match pair {
            Ok(pair) => counters.extend([pair]),
            Err(_) if n + 1 == text.lines().count() => {}
            Err(wrong) => return Err(wrong),
        }
    }
    if moments.is_empty() {
        return Err(Wrong::of(file, "expected `time: SECONDS`, and found none"));
    }
    // So is the last moment incomplete.
    let names = moments[0].1.len();
    moments.retain(|(_, counters)| counters.len() >= names);
    Ok(moments)
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

    #[test]
    fn benchmarks_have_their_counters_and_monitors() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("3.10-vanilla/iter-0");
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("tests-timestamp"), TIMES).unwrap();
        fs::write(
            logs.join("proc-vmstat-parallelio"),
            "time: 105\npgfault 10\nnr_dirty 3\ntime: 115\npgfault 11\nnr_di",
        )
        .unwrap();
        fs::write(logs.join("iostat-parallelio"), "Device r/s\nsda 1\n\nDevice r/s\nsda 2\n").unwrap();
        let [first, second] = <[Benchmark; 2]>::try_from(read_all(folder.path()).unwrap()).unwrap();
        assert_eq!((&*first.run, &*first.name, first.elapsed_s), ("3.10-vanilla", "parallelio", Some(62.25)));
        assert_eq!((first.before["pgfault"], first.after["pgfault"], first.swap_pages), (10, 25, Some([1000, 100])));
        assert_eq!((first.counters.len(), first.disks["sda"][0]["r/s"]), (1, 2.0));
        assert_eq!((second.elapsed_s, second.swap_pages, second.counters.len()), (Some(10.0), None, 0));
    }

    #[test]
    fn old_names_have_the_run_in_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tests-timestamp-vanilla"), TIMES).unwrap();
        fs::write(folder.path().join("proc-vmstat-vanilla-second"), "time: 171\npgfault 30\n").unwrap();
        let found = read_all(folder.path()).unwrap();
        assert_eq!((&*found[1].run, found[1].counters.len()), ("vanilla", 1));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let wrong = |text: &str| parse("t", text).unwrap_err().to_string();
        assert_eq!(wrong("start :: 1\n"), "t: expected `test begin :: NAME SECONDS`, and found none");
        assert!(wrong("test begin :: a\n").starts_with("t:1: expected `test begin :: NAME SECONDS`"));
        assert!(wrong(&TIMES.replace("pgfault 25", "pgfault x")).starts_with("t:9: expected `NAME NUMBER`"));
        assert!(wrong("test begin :: a 1\n").contains("expected `test end :: a`"));
        assert!(
            parse_counters("c", "pgfault 1\n")
                .unwrap_err()
                .to_string()
                .starts_with("c:1: expected `time: SECONDS` first")
        );
        let empty = tempfile::tempdir().unwrap();
        assert!(read_all(empty.path()).unwrap_err().to_string().contains("no file `tests-timestamp`"));
    }
}
