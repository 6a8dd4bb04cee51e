//! Readers of logs, for the benchmarks that experiments of this project model.

use figures::cputime::{Built, cputime_rows};
use figures::figure::{Better, Format, Row};
use figures::usage::CpuTimes;
use kit::wrong::Wrong;
use machine::Nanos;
use recordings::mmtests::summed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Returns whether [`rows`] can read the file at `path`, judged by the file's name alone.
#[must_use]
pub fn is_known(path: &Path) -> bool {
    let name = name(path);
    ["time", "io-durations.log", "workload-durations.log", "mmtests.log", "postmark.log", "log.txt"].contains(&name)
        || name.starts_with("ping")
        || name.starts_with("fio")
        || name.ends_with(".json")
}

/// Reads the logs of a benchmark, and returns their figures as rows of a report. Each log is given with its path in the
/// benchmark's `folder`. Implausible figures are left out, and added to `wrong`.
#[must_use]
pub fn rows(folder: &Path, files: &[(PathBuf, String)], wrong: &mut Vec<Wrong>) -> Vec<Row> {
    let mut read = |(path, text): &(PathBuf, String), parse: &mut dyn FnMut(&mut Log<'_>)| {
        let mut log = Log { file: folder.join(path).display().to_string(), text, wrong: Vec::new() };
        parse(&mut log);
        wrong.extend(summed(log.wrong));
    };
    let mut rows = parallelio(files, &mut read);
    let mut times: Vec<Built> = Vec::new();
    for file in files.iter().filter(|(path, _)| name(path) == "time") {
        read(file, &mut |log| times.extend(built(log)));
    }
    if !times.is_empty() {
        rows.extend(cputime_rows(&times));
    }
    for file in files {
        let parse = match name(&file.0) {
            "postmark.log" => postmark,
            "log.txt" => highalloc,
            name if name.starts_with("ping") => ping,
            name if name.starts_with("fio") || name.ends_with(".json") => fio,
            _ => continue,
        };
        read(file, &mut |log| rows.extend(parse(log)));
    }
    rows
}

/// The text of a log that is being read, and the faults found in it so far.
struct Log<'a> {
    file: String,
    text: &'a str,
    wrong: Vec<Wrong>,
}

impl<'a> Log<'a> {
    /// Returns the log's lines, numbered from 0.
    fn lines(&self) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
        self.text.lines().enumerate()
    }

    /// Reads a rate, time or share from `word`. If `word` is not a number of at least 0, records a fault for the log's
    /// line `line` and returns none.
    fn figure(&mut self, line: usize, word: &str) -> Option<f64> {
        let value = word.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        if value.is_none() {
            self.wrong.push(Wrong::at(&self.file, line, format!("expected a number from 0 on: found `{word}`")));
        }
        value
    }
}

/// A function that reads the log in a file by means of a reader, and collects the faults that the reader finds. The
/// first argument is the path and the text of the file, the second is the reader.
type Read<'a> = dyn FnMut(&(PathBuf, String), &mut dyn FnMut(&mut Log<'_>)) + 'a;

/// Returns the name of a file, without its folder and without the ending `.gz`.
#[must_use]
pub fn name(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_suffix(".gz").unwrap_or(name)
}

/// Reads logs of the benchmark parallelio, which runs memcachetest beside I/O of several sizes, one size in each step.
/// `io-durations.log` has lines `STEP BYTES SECONDS`. The folders `memcachetest-STEP-N` have the rates that
/// memcachetest reached in each step.
fn parallelio(files: &[(PathBuf, String)], read: &mut Read<'_>) -> Vec<Row> {
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    let mut durations: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    let mut operations: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for file in files {
        let (path, text) = file;
        match name(path) {
            "io-durations.log" => read(file, &mut |log| {
                for (n, line) in log.lines() {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    let [step, bytes, rest @ ..] = words.as_slice() else { continue };
                    let (Ok(step), Ok(bytes)) = (step.parse(), bytes.parse::<u64>()) else {
                        let what = format!("expected `STEP BYTES SECONDS`: found `{line}`");
                        log.wrong.push(Wrong::at(&log.file, n, what));
                        continue;
                    };
                    sizes.insert(step, bytes >> 20);
                    if let Some(seconds) = rest.first().and_then(|word| log.figure(n, word)) {
                        durations.entry(step).or_default().push(seconds);
                    }
                }
            }),
            // The step without I/O occurs in no other log.
            "workload-durations.log" if text.lines().any(|line| line.split_whitespace().nth(1) == Some("0")) => {
                sizes.entry(0).or_insert(0);
            }
            "mmtests.log" => {
                let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
                let step = folder.strip_prefix("memcachetest-").and_then(|rest| rest.split('-').next()?.parse().ok());
                let Some(step) = step else { continue };
                read(file, &mut |log| {
                    let word =
                        |line: &'_ str| Some(line.split_once("ops/sec: ")?.1.split_whitespace().next()?.to_owned());
                    let found: Vec<(usize, String)> =
                        log.lines().filter_map(|(n, line)| Some((n, word(line)?))).collect();
                    let rates: Vec<f64> = found.iter().filter_map(|(n, word)| log.figure(*n, word)).collect();
                    operations.entry(step).or_default().extend(rates.last());
                });
            }
            _ => {}
        }
    }
    operations.retain(|_, rates| !rates.is_empty());
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let row = |what: &str, step: &u64, unit: &str, better, values: &Vec<f64>| {
        // If no log has a step's size, the step is named by its number, so that several are not taken for one.
        let size = sizes.get(step).map_or_else(|| format!("step{step}"), |size| format!("{size}M"));
        Row::new("Ops", format!("Ops {what}-{size}"), unit, better, Format::Decimals(2), mean(values))
    };
    let rates = operations.iter().map(|(step, values)| row("memcachetest", step, "ops/s", Better::Higher, values));
    let times = durations.iter().map(|(step, values)| row("io-duration", step, "s", Better::Lower, values));
    rates.chain(times).collect()
}

/// Reads the builds in a log of the program `time`, with lines such as `594.32user 2.02system 2:39.36elapsed 374%CPU`.
fn built(log: &mut Log<'_>) -> Vec<Built> {
    let nanos = |seconds: f64| Nanos((seconds * 1e9).round() as u64);
    let mut builds = Vec::new();
    for (n, line) in log.lines() {
        let mut words = line.split_whitespace();
        let mut next = |unit: &str| words.next()?.strip_suffix(unit);
        let (Some(user), Some(system), Some(elapsed)) = (next("user"), next("system"), next("elapsed")) else {
            continue;
        };
        let (user, system) = (log.figure(n, user), log.figure(n, system));
        // Hours, minutes and seconds are separated by colons.
        let elapsed = elapsed.split(':').try_fold(0.0, |sum, part| Some(60.0 * sum + log.figure(n, part)?));
        if let (Some(user), Some(system), Some(elapsed)) = (user, system, elapsed) {
            let cpu = CpuTimes { user: nanos(user), system: nanos(system) };
            builds.push(Built { elapsed: nanos(elapsed), cpu });
        }
    }
    builds
}

/// Returns the text between the last opening parenthesis and the next space: `26` in `(26 per second)`.
fn in_brackets(line: &str) -> Option<&str> {
    line.rsplit_once('(')?.1.split_whitespace().next()
}

/// Reads the output of Postmark.
fn postmark(log: &mut Log<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut is_deletion = false;
    for (n, line) in log.lines() {
        is_deletion = is_deletion && !line.contains("Creation alone:") || line.contains("Deletion alone:");
        let found = [
            ("seconds of transactions", "Transactions", "transactions/s"),
            ("megabytes read", "Data megabytes read", "MB/s"),
            ("megabytes written", "Data megabytes written", "MB/s"),
            ("Creation alone:", "Files created alone", "files/s"),
            ("Deletion alone:", "Files deleted alone", "files/s"),
            (
                "Mixed with transactions",
                if is_deletion { "Files delete/transact" } else { "Files create/transact" },
                "files/s",
            ),
        ]
        .into_iter()
        .find(|(words, ..)| line.contains(words));
        if let (Some((_, name, unit)), Some(word)) = (found, in_brackets(line))
            && let Some(value) = log.figure(n, word)
        {
            rows.push(Row::new(
                "postmark",
                format!("{name} per second"),
                unit,
                Better::Higher,
                Format::Decimals(2),
                value,
            ));
        }
    }
    rows
}

/// Reads the output of stress-highalloc, which allocates blocks of a high order in passes under load and in a pass at
/// rest.
fn highalloc(log: &mut Log<'_>) -> Vec<Row> {
    let mut pass = None;
    let mut rows = Vec::new();
    for (n, line) in log.lines() {
        pass = [("Results Pass 1", "Pass 1"), ("Results Pass 2", "Pass 2"), ("while Rested", "while Rested")]
            .into_iter()
            .find_map(|(words, name)| line.contains(words).then_some(name))
            .or(pass);
        if let (Some(pass), Some((_, rest))) = (pass, line.split_once("% Success"))
            && let Some(word) = rest.trim_start_matches(':').split_whitespace().next()
            && let Some(share) = log.figure(n, word)
        {
            rows.push(Row::new("success", pass, "% of attempts", Better::Higher, Format::Points(2), share));
        }
    }
    rows
}

/// Reads the summary at the end of ping's output.
fn ping(log: &mut Log<'_>) -> Vec<Row> {
    use Better::{Higher, Lower, Neutral};
    let mut rows = Vec::new();
    for (n, line) in log.lines() {
        let mut put = |name: &str, unit: &str, better, decimals, value: Option<&str>| {
            // Some numbers are followed directly by their units: `0%`, `59966ms`.
            let number = |word: &'_ str| word.strip_suffix('%').or(word.strip_suffix("ms")).unwrap_or(word).to_owned();
            if let Some(value) = value.and_then(|word| log.figure(n, &number(word))) {
                rows.push(Row::new("ping", name, unit, better, Format::Decimals(decimals), value));
            }
        };
        if line.contains("packets transmitted") {
            let part = |words: &str| line.split(", ").find(|part| part.contains(words));
            let first = |words: &str| part(words).and_then(|part| part.split_whitespace().next());
            put("Packets transmitted", "packets", Neutral, 0, first("packets transmitted"));
            put("Packets received", "packets", Higher, 0, first("received"));
            put("Packet loss", "%", Lower, 0, first("packet loss"));
            put("Time", "ms", Neutral, 0, part("time ").and_then(|part| part.split_whitespace().nth(1)));
        }
        if let Some((_, rest)) = line.split_once("min/avg/max/mdev = ") {
            let parts: Vec<&str> = rest.split(", ").collect();
            let times: Vec<&str> = parts[0].split_whitespace().next().unwrap_or_default().split('/').collect();
            for (name, value) in ["min", "avg", "max", "mdev"].into_iter().zip(times) {
                put(&format!("rtt {name}"), "ms", Lower, 3, Some(value));
            }
            put("pipe", "packets", Lower, 0, parts.iter().find_map(|part| part.strip_prefix("pipe ")));
            let both = parts
                .iter()
                .find_map(|part| part.strip_prefix("ipg/ewma ")?.split_whitespace().next()?.split_once('/'));
            put("ipg", "ms", Neutral, 3, both.map(|(ipg, _)| ipg));
            put("ewma", "ms", Lower, 3, both.map(|(_, ewma)| ewma));
        }
    }
    rows
}

/// Reads the results of random reads from fio's JSON: the rate of all jobs together, and the durations of the first
/// job's reads. With the option `group_reporting`, fio reports all jobs as one, so the durations are those of all jobs.
fn fio(log: &mut Log<'_>) -> Vec<Row> {
    let text = log.text;
    // Warnings may stand before the JSON.
    let Some(report) = text.find('{').and_then(|at| serde_json::from_str::<Value>(&text[at..]).ok()) else {
        return Vec::new();
    };
    let Some(jobs) = report["jobs"].as_array().filter(|jobs| !jobs.is_empty()) else { return Vec::new() };
    // Faults have no line number, since those of JSON are of no use to a reader.
    let mut figure = |name: &str, value: &Value| {
        let value = value.as_f64()?;
        if value < 0.0 {
            log.wrong.push(Wrong::of(&log.file, format!("expected a number from 0 on as {name}: found {value}")));
        }
        Some(value).filter(|value| *value >= 0.0)
    };
    let rates: Vec<f64> = jobs.iter().filter_map(|job| figure("read.iops", &job["read"]["iops"])).collect();
    let mut rows = Vec::new();
    if !rates.is_empty() {
        let rate = rates.iter().sum();
        rows.push(Row::new("Ops", "Ops randread", "ops/s", Better::Higher, Format::Decimals(0), rate));
    }
    let times = &jobs[0]["read"]["clat_ns"];
    let figures = [
        ("mean", &times["mean"]),
        ("p50", &times["percentile"]["50.000000"]),
        ("p99", &times["percentile"]["99.000000"]),
        ("p99.9", &times["percentile"]["99.900000"]),
        ("max", &times["max"]),
    ];
    for (name, value) in figures {
        if let Some(ns) = figure(&format!("read.clat_ns, {name}"), value) {
            rows.push(Row::new("latency", format!("Read {name}"), "us", Better::Lower, Format::Decimals(2), ns / 1e3));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> Vec<(String, f64)> {
        let mut wrong = Vec::new();
        let found = rows(Path::new("logs"), &[(path.into(), text.into())], &mut wrong);
        assert_eq!(wrong, []);
        found.into_iter().map(|row| (row.name, row.value)).collect()
    }

    /// Reads rows from a log with path `path` and contents `text`. Returns the number of rows, and the warnings about
    /// lines that could not be read.
    fn told(path: &str, text: &str) -> (usize, String) {
        let mut wrong = Vec::new();
        let found = rows(Path::new("logs"), &[(path.into(), text.into())], &mut wrong);
        (found.len(), wrong.iter().map(Wrong::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn what_cannot_have_been_measured_is_told_with_its_line() {
        let expected = |place: &str, word: &str| format!("logs/{place}: expected a number from 0 on: found `{word}`");
        for odd in ["NaN", "inf", "-3", "x"] {
            let io = told("io-durations.log", &format!("1 1048576 2\n2 2097152 {odd}\n"));
            assert_eq!(io, (1, expected("io-durations.log:2", odd)));
            let rate = told("memcachetest-1-1/mmtests.log", &format!("a\nops/sec: {odd}\n"));
            assert_eq!(rate, (0, expected("memcachetest-1-1/mmtests.log:2", odd)));
            let builds = told("noprofile/time", &format!("{odd}user 4.00system 1:44.00elapsed 100%CPU\n"));
            assert_eq!(builds, (0, expected("noprofile/time:1", odd)));
            let builds = told("noprofile/time", &format!("1.0user 4.00system {odd}:44.00elapsed 100%CPU\n"));
            assert_eq!(builds, (0, expected("noprofile/time:1", odd)));
            let mark = told("postmark.log", &format!("\n77 seconds of transactions ({odd} per second)\n"));
            assert_eq!(mark, (0, expected("postmark.log:2", odd)));
            let pass = told("log.txt", &format!("Results Pass 1\n% Success:  {odd}\n"));
            assert_eq!(pass, (0, expected("log.txt:2", odd)));
            let times = told("ping.log", &format!("rtt min/avg/max/mdev = 0.1/4.5/{odd}/7.2 ms\n"));
            assert_eq!(times, (3, expected("ping.log:1", odd)));
        }
        let loss = told("ping.log", "9 packets transmitted, 9 received, -1% packet loss, time 5ms\n");
        assert_eq!(loss, (3, expected("ping.log:1", "-1")));
        let fio = told("fio.json", "{\"jobs\":[{\"read\":{\"iops\":-1.5,\"clat_ns\":{\"mean\":2000}}}]}");
        assert_eq!(fio, (1, "logs/fio.json: expected a number from 0 on as read.iops: found -1.5".into()));
        assert_eq!(
            told("io-durations.log", "x 5 7\n").1,
            "logs/io-durations.log:1: expected `STEP BYTES SECONDS`: found `x 5 7`"
        );
    }

    fn has(found: &[(String, f64)], expected: &[(&str, f64)]) {
        for (name, value) in expected {
            assert!(found.iter().any(|it| it.0 == *name && it.1 == *value), "{name} = {value} is not in {found:?}");
        }
    }

    #[test]
    fn builds_have_their_statistics() {
        let text = "100.00user 4.00system 1:44.00elapsed 100%CPU (0avgtext)\n0inputs\n104.00user 4.00system 1:40.00elapsed 108%CPU\n";
        has(&of("noprofile/time", text), &[("User mean", 102.0), ("Elapsed max", 104.0), ("Elapsed range", 4.0)]);
    }

    #[test]
    fn steps_of_unknown_size_stay_apart_and_what_is_no_measure_is_none() {
        let of_steps = |durations: &str, rates: [&str; 2]| {
            let log = |step: usize| {
                let path = format!("memcachetest-{step}-1/mmtests.log");
                (PathBuf::from(path), format!("ops/sec: {}\n", rates[step - 1]))
            };
            let files = [("io-durations.log".into(), durations.to_owned()), log(1), log(2)];
            let found = rows(Path::new("logs"), &files, &mut Vec::new());
            found.into_iter().map(|row| (row.name, row.value)).collect::<Vec<_>>()
        };
        let found = of_steps("1 1048576 2\n2 2097152 -7\n", ["5", "NaN"]);
        assert_eq!(found, [("Ops memcachetest-1M".to_owned(), 5.0), ("Ops io-duration-1M".to_owned(), 2.0)]);
        let found = of_steps("", ["5", "6"]);
        assert_eq!(found, [("Ops memcachetest-step1".to_owned(), 5.0), ("Ops memcachetest-step2".to_owned(), 6.0)]);
    }

    #[test]
    fn postmark_tells_files_apart() {
        let text = "Time:\n\t400 seconds total\n\t77 seconds of transactions (26 per second)\n\nFiles:\n\t2 created (5 per second)\n\
            \t\tCreation alone: 1 files (39 per second)\n\t\tMixed with transactions: 1 files (12 per second)\n\
            \t\tDeletion alone: 1 files (221 per second)\n\t\tMixed with transactions: 1 files (13 per second)\n\nData:\n\
            \t29.5 megabytes read (3.63 megabytes per second)\n\t40.2 megabytes written (4.94 megabytes per second)\n";
        let found = of("postmark.log", text);
        assert_eq!(found.len(), 7);
        has(&found, &[("Transactions per second", 26.0), ("Files create/transact per second", 12.0)]);
        has(&found, &[("Files delete/transact per second", 13.0), ("Data megabytes written per second", 4.94)]);
    }

    #[test]
    fn highalloc_ping_and_fio_are_read() {
        let text = "Results Pass 1\n% Success:        38\nResults Pass 2\n% Success:        45\nTest while Rested\n% Success:        82\n";
        has(&of("noprofile/log.txt", text), &[("Pass 1", 38.0), ("Pass 2", 45.0), ("while Rested", 82.0)]);
        let text = "3000 packets transmitted, 2999 received, 0% packet loss, time 59966ms\n\
            rtt min/avg/max/mdev = 0.072/4.510/172.1/7.244 ms, pipe 9, ipg/ewma 19.995/2.045 ms\n";
        has(
            &of("ping.log", text),
            &[("Packets received", 2999.0), ("Time", 59966.0), ("rtt max", 172.1), ("ewma", 2.045)],
        );
        has(&of("ping.log", text), &[("pipe", 9.0), ("Packet loss", 0.0)]);
        let text = "fio: warning\n{\"jobs\":[{\"read\":{\"iops\":100.5,\"clat_ns\":{\"mean\":2000.0,\"max\":9000,\"percentile\":{\"99.000000\":8000}}}},{\"read\":{\"iops\":50}}]}";
        has(&of("fio.log", text), &[("Ops randread", 150.5), ("Read mean", 2.0), ("Read p99", 8.0), ("Read max", 9.0)]);
        assert_eq!(of("fio.log", "no JSON"), []);
    }
}
