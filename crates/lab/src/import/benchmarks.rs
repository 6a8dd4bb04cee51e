//! Logs of the benchmarks that experiments are named for.

use crate::figure::{Better, Format, Row};
use crate::system::CpuTimes;
use crate::workloads::multibuild::{Built, cputime_rows};
use machine::Nanos;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Is it a file that may hold figures?
#[must_use]
pub fn is_wanted(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(".gz");
    let endings = [".log", ".txt", ".json"];
    name == "time" || name.starts_with("ping") || name.starts_with("fio") || endings.iter().any(|it| name.ends_with(it))
}

/// The rows of a benchmark's logs, each with its path in the benchmark's folder.
#[must_use]
pub fn rows(files: &[(PathBuf, String)]) -> Vec<Row> {
    let mut rows = parallelio(files);
    let times: Vec<Built> =
        files.iter().filter(|(path, _)| name(path) == "time").flat_map(|(_, text)| built(text)).collect();
    if !times.is_empty() {
        rows.extend(cputime_rows(&times));
    }
    for (path, text) in files {
        match name(path) {
            "postmark.log" => rows.extend(postmark(text)),
            "log.txt" => rows.extend(highalloc(text)),
            name if name.starts_with("ping") => rows.extend(ping(text)),
            name if name.starts_with("fio") || name.ends_with(".json") => rows.extend(fio(text)),
            _ => {}
        }
    }
    rows
}

/// The name of a file, without that it is packed.
#[must_use]
pub fn name(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_suffix(".gz").unwrap_or(name)
}

/// memcachetest beside I/O of several sizes: `io-durations.log` has `STEP BYTES SECONDS`, a folder `memcachetest-STEP-N` the rate.
fn parallelio(files: &[(PathBuf, String)]) -> Vec<Row> {
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    let mut durations: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    let mut operations: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (path, text) in files {
        match name(path) {
            "io-durations.log" => {
                for line in text.lines() {
                    let mut words = line.split_whitespace();
                    let (Some(Ok(step)), Some(Ok(bytes))) =
                        (words.next().map(str::parse), words.next().map(str::parse::<u64>))
                    else {
                        continue;
                    };
                    sizes.insert(step, bytes >> 20);
                    if let Some(seconds) = words.next().and_then(measured) {
                        durations.entry(step).or_default().push(seconds);
                    }
                }
            }
            // The step without I/O is in no other log.
            "workload-durations.log" if text.lines().any(|line| line.split_whitespace().nth(1) == Some("0")) => {
                sizes.entry(0).or_insert(0);
            }
            "mmtests.log" => {
                let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
                let step = folder.strip_prefix("memcachetest-").and_then(|rest| rest.split('-').next()?.parse().ok());
                let mut rates = text
                    .lines()
                    .filter_map(|line| measured(line.split_once("ops/sec: ")?.1.split_whitespace().next()?));
                if let (Some(step), Some(rate)) = (step, rates.next_back()) {
                    operations.entry(step).or_default().push(rate);
                }
            }
            _ => {}
        }
    }
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let row = |what: &str, step: &u64, unit: &str, better, values: &Vec<f64>| {
        // Steps whose sizes no log tells are not taken for one.
        let size = sizes.get(step).map_or_else(|| format!("step{step}"), |size| format!("{size}M"));
        Row::new("Ops", format!("Ops {what}-{size}"), unit, better, Format::Decimals(2), mean(values))
    };
    let rates = operations.iter().map(|(step, values)| row("memcachetest", step, "ops/s", Better::Higher, values));
    let times = durations.iter().map(|(step, values)| row("io-duration", step, "s", Better::Lower, values));
    rates.chain(times).collect()
}

/// A rate or a time that can have been measured.
fn measured(word: &str) -> Option<f64> {
    word.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

/// The builds of a `time` file: `594.32user 2.02system 2:39.36elapsed 374%CPU`.
fn built(text: &str) -> Vec<Built> {
    let nanos = |seconds: f64| Nanos((seconds * 1e9).round() as u64);
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        let mut next = |unit: &str| words.next()?.strip_suffix(unit).map(str::to_owned);
        let user = measured(&next("user")?)?;
        let system = measured(&next("system")?)?;
        let elapsed = next("elapsed")?;
        // Hours and minutes are of base 60.
        let elapsed = elapsed.split(':').try_fold(0.0, |sum, part| Some(60.0 * sum + measured(part)?))?;
        Some(Built { elapsed: nanos(elapsed), cpu: CpuTimes { user: nanos(user), system: nanos(system) } })
    };
    text.lines().filter_map(one).collect()
}

/// What stands between a bracket and the next blank: `(26 per second)`.
fn in_brackets(line: &str) -> Option<f64> {
    line.rsplit_once('(')?.1.split_whitespace().next()?.parse().ok()
}

/// What Postmark prints.
fn postmark(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut is_deletion = false;
    for line in text.lines() {
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
        if let (Some((_, name, unit)), Some(value)) = (found, in_brackets(line)) {
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

/// What stress-highalloc prints: passes under load, and one at rest.
fn highalloc(text: &str) -> Vec<Row> {
    let mut pass = None;
    let mut rows = Vec::new();
    for line in text.lines() {
        pass = [("Results Pass 1", "Pass 1"), ("Results Pass 2", "Pass 2"), ("while Rested", "while Rested")]
            .into_iter()
            .find_map(|(words, name)| line.contains(words).then_some(name))
            .or(pass);
        if let (Some(pass), Some((_, rest))) = (pass, line.split_once("% Success"))
            && let Some(Ok(share)) = rest.trim_start_matches(':').split_whitespace().next().map(str::parse)
        {
            rows.push(Row::new("success", pass, "% of attempts", Better::Higher, Format::Points(2), share));
        }
    }
    rows
}

/// What ping prints at its end.
fn ping(text: &str) -> Vec<Row> {
    use Better::{Higher, Lower, Neutral};
    let mut rows = Vec::new();
    let mut put = |name: &str, unit: &str, better, decimals, value: Option<&str>| {
        let digits = |text: &str| text.trim_matches(|c: char| !(c.is_ascii_digit() || c == '.')).parse().ok();
        if let Some(value) = value.and_then(digits) {
            rows.push(Row::new("ping", name, unit, better, Format::Decimals(decimals), value));
        }
    };
    for line in text.lines() {
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

/// Random reads of fio's JSON: the rate of all jobs together, and the times of the first (with `group_reporting` that of all).
fn fio(text: &str) -> Vec<Row> {
    // Warnings may stand before it.
    let Some(report) = text.find('{').and_then(|at| serde_json::from_str::<Value>(&text[at..]).ok()) else {
        return Vec::new();
    };
    let Some(jobs) = report["jobs"].as_array().filter(|jobs| !jobs.is_empty()) else { return Vec::new() };
    let rate: f64 = jobs.iter().filter_map(|job| job["read"]["iops"].as_f64()).sum();
    let mut rows = vec![Row::new("Ops", "Ops randread", "ops/s", Better::Higher, Format::Decimals(0), rate)];
    let times = &jobs[0]["read"]["clat_ns"];
    let figures = [
        ("mean", &times["mean"]),
        ("p50", &times["percentile"]["50.000000"]),
        ("p99", &times["percentile"]["99.000000"]),
        ("p99.9", &times["percentile"]["99.900000"]),
        ("max", &times["max"]),
    ];
    for (name, value) in figures {
        if let Some(ns) = value.as_f64() {
            rows.push(Row::new("latency", format!("Read {name}"), "us", Better::Lower, Format::Decimals(2), ns / 1e3));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> Vec<(String, f64)> {
        rows(&[(path.into(), text.into())]).into_iter().map(|row| (row.name, row.value)).collect()
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
            rows(&files).into_iter().map(|row| (row.name, row.value)).collect::<Vec<_>>()
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
