//! Tests of `highwater doctor` on recordings: a short illness in a long log is found with its lines, facts that would
//! refute a claim are checked, and nothing is found in healthy logs of many kinds.

use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

/// Returns the diagnosis of a text that is in a file called `name`.
fn diagnosis(name: &str, text: &str) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("a temporary file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.args(["doctor", "--format", "json"]).arg(&path).stdin(Stdio::null());
    let output = command.output().expect("the binary was built for this test");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns the only patient (diagnosed system) in a text that is in a file called `name`.
fn patient(name: &str, text: &str) -> Value {
    let found = diagnosis(name, text);
    let patients = found["patients"].as_array().expect("patients");
    assert_eq!(patients.len(), 1, "{found:#}");
    patients[0].clone()
}

fn illnesses(patient: &Value) -> Vec<&str> {
    let findings = patient["findings"].as_array().expect("findings").iter();
    findings.filter(|it| it["weight"] == "illness").map(|it| it["cause"].as_str().expect("a cause")).collect()
}

/// Returns the finding with this cause in the diagnosis of a patient (diagnosed system). Panics if there is none.
fn finding<'p>(patient: &'p Value, cause: &str) -> &'p Value {
    let found = patient["findings"].as_array().expect("findings").iter().find(|it| it["cause"] == cause);
    found.unwrap_or_else(|| panic!("{cause}: {patient:#}"))
}

/// A line of `vmstat 1`.
#[derive(Clone, Copy)]
struct Line {
    blocked: u32,
    swapped: u32,
    free: u32,
    cache: u32,
    come: u32,
    leave: u32,
    read: u32,
}

/// A computer at rest.
const QUIET: Line = Line { blocked: 0, swapped: 40_000, free: 900_000, cache: 2_500_000, come: 0, leave: 0, read: 20 };

/// Returns these lines as `vmstat 1` prints them, after the average since boot. The first of `lines` is line 4 of the
/// text.
fn vmstat(lines: impl IntoIterator<Item = Line>) -> String {
    let heading = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
                   r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    let mut text = heading.to_owned();
    for line in [QUIET].into_iter().chain(lines) {
        let Line { blocked, swapped, free, cache, come, leave, read } = line;
        writeln!(
            text,
            " 1 {blocked:2} {swapped} {free}   9000 {cache} {come:4} {leave:4} {read:5}    40  400  600  5  2 92  1  0"
        )
        .expect("a string");
    }
    text
}

/// Returns a day as `sar -B -W` prints it, with a line for every ten minutes.
fn sar(of: impl Fn(usize) -> [f64; 6]) -> String {
    let time = |n: usize| format!("{:02}:{:02}:01", n / 6, n % 6 * 10);
    let mut text = "Linux 6.1.0-18-amd64 (files1) \t03/11/26 \t_x86_64_\t(8 CPU)\n\n".to_owned();
    let mut block = |heading: &str, line: &dyn Fn([f64; 6]) -> String| {
        writeln!(text, "{}{heading}", time(0)).expect("a string");
        for n in 1..144 {
            writeln!(text, "{}{}", time(n), line(of(n))).expect("a string");
        }
        writeln!(text).expect("a string");
    };
    block("     pgpgin/s pgpgout/s   fault/s  majflt/s  pgfree/s pgscank/s pgscand/s pgsteal/s    %vmeff", &|[
        kswapd,
        direct,
        stolen,
        faults,
        ..,
    ]| {
        let of_scanned = if kswapd + direct > 0.0 { 100.0 * stolen / (kswapd + direct) } else { 0.0 };
        format!(
            "     {:9.2}     50.00    900.00 {faults:9.2}   1200.00 {kswapd:9.2} {direct:9.2} {stolen:9.2} {of_scanned:9.2}",
            4.0 * stolen
        )
    });
    block("     pswpin/s pswpout/s", &|[.., come, leave]| format!("     {come:9.2} {leave:9.2}"));
    text
}

/// Returns the text of a series (CSV) with a sample for each second from 0 to `seconds`. `of` returns the names and
/// values in `/proc/vmstat` at a second.
fn series(seconds: u64, of: impl Fn(u64) -> Vec<(&'static str, u64)>) -> String {
    let mut text = "column,seed,seconds,name,value,per_second\n".to_owned();
    for second in 0..=seconds {
        for (name, value) in of(second) {
            writeln!(text, "host,1,{second}.000,{name},{value},").expect("a string");
        }
    }
    text
}

/// Returns the values in `/proc/vmstat` at the second `second`: counters that begin at 0 and grow at the rates `rates`
/// per second, and gauges that have the values `levels` all the time.
fn counted(second: u64, rates: &[(&'static str, u64)], levels: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
    rates.iter().map(|(name, rate)| (*name, rate * second)).chain(levels.iter().copied()).collect()
}

const THRASHING: Line =
    Line { blocked: 9, swapped: 1_600_000, free: 60_000, cache: 90_000, come: 8000, leave: 7600, read: 9000 };

#[test]
fn half_a_minute_of_thrashing_is_found_in_an_hour_and_in_a_day() {
    // Programs that were swapped out before stay in swap all the time.
    let quiet = Line { swapped: 1_500_000, free: 400_000, cache: 300_000, ..QUIET };
    for (lines, first, long) in [(900, 300, 15), (3600, 3000, 30), (86_400, 40_000, 30)] {
        let loud = |n: usize| (first..first + long).contains(&n);
        let text = vmstat((0..lines).map(|n| if loud(n) { THRASHING } else { quiet }));
        let patient = patient("vmstat.txt", &text);
        assert_eq!(illnesses(&patient), ["anonymous-thrashing"], "{patient:#}");
        let found = finding(&patient, "anonymous-thrashing");
        // The first sample is on line 4 of the text.
        let place = format!("lines {} to {}", first + 4, first + long + 3);
        assert_eq!((&found["when"]["worst"]["place"], &found["when"]["count"]), (&place.into(), &1.into()));
        let sentence = found["sentence"].as_str().expect("words");
        assert!(sentence.contains("2000 pages a second") && sentence.contains("9 tasks are blocked"), "{sentence}");
        assert!(sentence.contains("Programs are larger than memory: only"), "{sentence}");
    }
}

#[test]
fn a_bad_hour_of_a_day_of_sar_is_found_with_its_times() {
    let bad = |n: usize| (80..86).contains(&n);
    let text =
        sar(|n| if bad(n) { [9000.0, 2500.0, 7000.0, 900.0, 1800.0, 1700.0] } else { [0.0, 0.0, 0.0, 0.2, 0.0, 0.0] });
    let patient = patient("sar.txt", &text);
    for cause in ["direct-reclaim", "anonymous-thrashing"] {
        let when = &finding(&patient, cause)["when"];
        assert_eq!(when["worst"]["place"], "13:10:01 to 14:10:01", "{patient:#}");
        assert_eq!(when["over_for_s"], 34_800.0);
    }
}

#[test]
fn an_illness_that_goes_on_to_the_end_is_said_to() {
    let text = vmstat((0..600).map(|n| if n >= 560 || (100..120).contains(&n) { THRASHING } else { QUIET }));
    let patient = patient("vmstat.txt", &text);
    let when = &finding(&patient, "anonymous-thrashing")["when"];
    assert_eq!(
        (&when["count"], &when["over_for_s"], &when["worst"]["place"]),
        (&2.into(), &0.0.into(), &"lines 564 to 603".into())
    );
}

#[test]
fn swapping_beside_a_large_cache_is_not_for_the_size_of_programs() {
    let beside = |cache: u32, swapped: u32| Line { cache, swapped, come: 12_000, leave: 13_000, free: 90_000, ..QUIET };
    // zram with much in swap, zram with little, and a server whose cache was filled by a backup.
    for line in [beside(2_600_000, 400_000), beside(1_900_000, 3_000_000), beside(24_000_000, 9_000_000)] {
        let patient = patient("vmstat.txt", &vmstat([line; 60]));
        assert_eq!(illnesses(&patient), ["swap-beside-cache", "anonymous-thrashing"], "{patient:#}");
        let text = patient.to_string();
        assert!(!text.contains("Programs are larger than memory") && text.contains("swappiness"), "{text}");
        let next = &finding(&patient, "swap-beside-cache")["next"][0];
        assert_eq!((&next["do"], &next["name"]), (&"setting".into(), &"vm.swappiness".into()));
    }
    let small = patient("vmstat.txt", &vmstat([beside(80_000, 4_000_000); 60]));
    assert_eq!(illnesses(&small), ["anonymous-thrashing"]);
    assert!(small.to_string().contains("Programs are larger than memory: only"));
}

#[test]
fn much_free_memory_beside_kswapd_is_for_the_marks() {
    let text = |free: u64, anon: u64| {
        series(60, |second| {
            let rates = [
                ("pgscan_kswapd", 9000),
                ("pgsteal_kswapd", 4000),
                ("pgscan_direct", 0),
                ("pgsteal_direct", 0),
                ("pswpin", 2000),
                ("pswpout", 2200),
            ];
            let levels = [
                ("nr_free_pages", free),
                ("nr_active_anon", anon / 2),
                ("nr_inactive_anon", anon / 2),
                ("nr_active_file", 20_000),
                ("nr_inactive_file", 20_000),
                ("nr_file_pages", 40_000),
            ];
            counted(second, &rates, &levels)
        })
    };
    for free in [200_000, 500_000, 4_000_000] {
        let patient = patient("series.csv", &text(free, 500_000));
        assert!(illnesses(&patient).contains(&"marks-too-high"), "{patient:#}");
        let words = patient.to_string();
        assert!(!words.contains("Memory is full") && !words.contains("are larger than memory"), "{words}");
    }
    // `vmstat` shows neither kswapd nor the size of memory. But 5 GiB are free, which is more than is in swap.
    let free = Line { free: 5_400_000, swapped: 800_000, cache: 70_000, come: 9000, leave: 9000, ..QUIET };
    let words = patient("vmstat.txt", &vmstat([free; 60])).to_string();
    assert!(words.contains("min_free_kbytes") && !words.contains("are larger than memory"), "{words}");
    let full = patient("series.csv", &text(9000, 2_000_000));
    assert!(!illnesses(&full).contains(&"marks-too-high") && full.to_string().contains("Memory is full"), "{full:#}");
}

#[test]
fn a_node_that_tasks_reclaim_beside_free_ones_is_named() {
    let text = |by_tasks: u64, by_kswapd: u64, free_elsewhere: u64| {
        series(30, |second| {
            let rates = [
                ("pgscan_direct", by_tasks),
                ("pgscan_kswapd", by_kswapd),
                ("pgsteal_direct", by_tasks),
                ("pgsteal_kswapd", by_kswapd),
                ("node3_pgscan_direct_normal", by_tasks),
                ("node3_pgscan_kswapd_normal", by_kswapd),
            ];
            let levels = [
                ("nr_free_pages", 3 * free_elsewhere + 900),
                ("node0_nr_free_pages", free_elsewhere),
                ("node1_nr_free_pages", free_elsewhere),
                ("node2_nr_free_pages", free_elsewhere),
                ("node3_nr_free_pages", 900),
                ("node0_nr_file_pages", 20_000),
                ("node1_nr_file_pages", 20_000),
                ("node2_nr_file_pages", 20_000),
                ("node3_nr_file_pages", 150_000),
            ];
            counted(second, &rates, &levels)
        })
    };
    for (by_tasks, by_kswapd) in [(9000, 70), (4000, 0), (3000, 9000)] {
        let patient = patient("series.csv", &text(by_tasks, by_kswapd, 100_000));
        let found = finding(&patient, "one-node");
        assert_eq!(found["weight"], "illness", "{patient:#}");
        assert!(
            found["sentence"]
                .as_str()
                .expect("words")
                .starts_with("Node 3 is reclaimed while memory of others is free (0, 1, 2)")
        );
        assert!(!patient.to_string().contains("Memory is full"), "{patient:#}");
    }
    let even = patient("series.csv", &text(9000, 70, 400));
    assert!(!illnesses(&even).contains(&"one-node"), "{even:#}");
}

#[test]
fn reclaim_at_a_limit_is_not_laid_to_kswapd() {
    let text = |hits: u64, kswapd: u64| {
        series(20, |second| {
            let rates = [
                ("pgscan_direct", 2000),
                ("pgsteal_direct", 1200),
                ("pgscan_kswapd", kswapd),
                ("pgsteal_kswapd", kswapd),
                ("allocstall", 0),
                ("pswpin", 0),
                ("pswpout", 0),
                ("pgrotated", 1500),
                ("nr_vmscan_write", 0),
                ("nr_vmscan_immediate_reclaim", 0),
                ("psi_memory_some_us", 400_000),
                ("psi_memory_full_us", 10_000),
                ("memory_events_max", hits),
            ];
            counted(second, &rates, &[("nr_free_pages", 40_000)])
        })
    };
    let of = |hits, kswapd| {
        let patient = patient("series.csv", &text(hits, kswapd));
        let found = finding(&patient, "direct-reclaim")["sentence"].as_str().expect("words").to_owned();
        assert!(illnesses(&patient).contains(&"reclaim-meets-unwritten"), "{patient:#}");
        assert!(!found.contains("0.0 times a second"), "{found}");
        found
    };
    let at_limit = of(50, 0);
    assert!(!at_limit.contains("does not keep up") && at_limit.contains("came to its limit 1000 times"), "{at_limit}");
    let by_others = of(0, 0);
    assert!(!by_others.contains("does not keep up") && by_others.contains("zone_reclaim_mode"), "{by_others}");
    assert!(of(0, 5000).contains("kswapd does not keep up"));
}

#[test]
fn a_group_that_thrashes_beside_a_copy_is_named_by_what_stat_saved() {
    let report = |rows: &[(&str, &str, f64)]| {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(group, name, value)| {
                let cell = serde_json::json!({ "median": value, "low": value, "high": value, "n": 1 });
                serde_json::json!({ "group": group, "name": name, "unit": "", "better": "neutral", "values": { "here": cell } })
            })
            .collect();
        let columns = [serde_json::json!({ "id": "here", "kernel": "here", "ground": "linux" })];
        serde_json::json!({ "schema": 1, "experiment": "app", "machine": "m", "columns": columns, "rows": rows })
            .to_string()
    };
    let copy = [
        ("duration", "Elapsed", 10.0),
        ("counters", "pgscan_kswapd", 0.0),
        ("counters", "pgscan_direct", 0.0),
        ("counters", "pgsteal_kswapd", 0.0),
        ("counters", "pgsteal_direct", 0.0),
        ("counters", "pgsteal_anon", 0.0),
        ("counters", "pgsteal_file", 400_000.0),
    ];
    // Older reports have only the command's faults. Newer reports have the counters of the command's cgroup, too.
    let faults = [
        ("counters", "workingset_refault_file", 24_000.0),
        ("duration", "Major faults of the command", 30_000.0),
        ("cgroup", "Times at the limit", 20_000.0),
    ];
    let own = [
        ("counters", "workingset_refault_file", 60_000.0),
        ("duration", "Major faults of the command", 30_000.0),
        ("cgroup", "Times at the limit", 20_000.0),
        ("cgroup", "workingset_refault_file of the cgroup", 29_000.0),
        ("cgroup", "pgsteal of the cgroup", 31_000.0),
    ];
    for group in [&faults[..], &own] {
        let patient = patient("stat.json", &report(&[&copy[..], group].concat()));
        assert!(illnesses(&patient).contains(&"group-thrashing"), "{patient:#}");
        assert!(!illnesses(&patient).contains(&"file-cache-thrashing"), "the computer does not thrash: {patient:#}");
        let words = finding(&patient, "group-thrashing")["sentence"].as_str().expect("words");
        assert!(words.contains("3000 major faults a second") && words.contains("20000 times"), "{words}");
    }
    // A starting program at its cgroup's limit, while the same copy runs.
    let starts = [
        ("counters", "workingset_refault_file", 40.0),
        ("duration", "Major faults of the command", 900.0),
        ("cgroup", "Times at the limit", 3.0),
    ];
    let patient = patient("stat.json", &report(&[&copy[..], &starts].concat()));
    assert!(!illnesses(&patient).contains(&"group-thrashing"), "{patient:#}");
}

/// Diagnoses ten logs of healthy computers.
#[test]
fn healthy_logs_of_ten_kinds_are_called_so() {
    let spread = |n: usize, by: u32| (n as u32).wrapping_mul(2_654_435_761) >> 16 & by;
    let reclaim = |of: &dyn Fn(u64) -> [u64; 6]| {
        // Counters are sums over the seconds so far, since rates vary.
        series(300, |second| {
            let sum = |n: usize| (0..second).map(|at| of(at)[n]).sum::<u64>();
            vec![
                ("pgscan_kswapd", sum(0)),
                ("pgsteal_kswapd", sum(1)),
                ("pgscan_direct", sum(2)),
                ("pgsteal_direct", sum(3)),
                ("workingset_refault_file", sum(4)),
                ("pswpin", 0),
                ("pswpout", 0),
                ("allocstall", 0),
                ("pgrotated", sum(5)),
                ("nr_vmscan_write", 0),
                ("nr_vmscan_immediate_reclaim", 0),
                ("psi_memory_some_us", 200 * second),
                ("psi_memory_full_us", 50 * second),
                ("nr_free_pages", 30_000 + second % 7 * 1000),
                ("nr_file_pages", 3_000_000),
                ("nr_active_file", 1_500_000),
                ("nr_inactive_file", 1_500_000),
                ("nr_active_anon", 200_000),
                ("nr_inactive_anon", 100_000),
            ]
        })
    };
    let logs: [(&str, String); 10] = [
        ("a desktop that somebody comes back to", {
            let back = |n: usize| (800..806).contains(&n);
            vmstat((0..3600).map(|n| {
                if back(n) { Line { come: 6000, leave: 40, blocked: 2, free: 700_000, ..QUIET } } else { QUIET }
            }))
        }),
        ("a job of the night", {
            let night = |n: usize| (1000..1060).contains(&n);
            vmstat(
                (0..3600).map(|n| if night(n) { Line { come: 180, leave: 120, read: 9000, ..QUIET } } else { QUIET }),
            )
        }),
        ("one odd sample", {
            vmstat(
                (0..900).map(|n| {
                    if n == 444 { Line { come: 160_000, leave: 160_000, blocked: 4, ..QUIET } } else { QUIET }
                }),
            )
        }),
        ("a build", {
            let line = |n: usize| Line {
                free: 3_000_000 - 2000 * (n as u32 % 1200),
                cache: 500_000 + 1500 * (n as u32 % 1200),
                read: 3000 + spread(n, 4095),
                ..QUIET
            };
            vmstat((0..1200).map(line))
        }),
        ("the start of a computer", {
            let line = |n: usize| Line {
                swapped: 0,
                free: 15_000_000 - 20_000 * (n.min(90) as u32),
                cache: 200_000 + 9000 * (n.min(90) as u32),
                read: if n < 60 { 90_000 } else { 10 },
                blocked: u32::from(n < 60) * 3,
                ..QUIET
            };
            vmstat((0..300).map(line))
        }),
        ("idle pages that leave for swap and stay there", {
            let leaves = |n: usize| (500..700).contains(&n);
            vmstat(
                (0..1800).map(|n| if leaves(n) { Line { leave: 6000, come: 8, free: 90_000, ..QUIET } } else { QUIET }),
            )
        }),
        ("a backup that reads all files", {
            sar(|n| {
                if (12..30).contains(&n) {
                    [26_000.0, 60.0, 25_900.0, 1.5, 0.1, 0.3]
                } else {
                    [0.0, 0.0, 0.0, 0.2, 0.0, 0.0]
                }
            })
        }),
        ("a day of a database that is left alone", {
            sar(|n| [200.0 + f64::from(spread(n, 255)), 0.0, 190.0 + f64::from(spread(n, 255)), 0.8, 0.6, 0.9])
        }),
        ("a server of files whose cache turns over", {
            // An eighth of the reclaimed pages is read again, at times a third.
            reclaim(&|at| {
                let stolen = 18_000 + u64::from(spread(at as usize, 4095));
                [stolen + 900, stolen, 0, 0, if at % 40 < 8 { stolen / 3 } else { stolen / 8 }, 30]
            })
        }),
        ("a stream with bursts that tasks reclaim for", {
            reclaim(&|at| {
                [30_000, 29_000, if at % 50 == 0 { 2000 } else { 0 }, if at % 50 == 0 { 1900 } else { 0 }, 100, 0]
            })
        }),
    ];
    for (what, text) in &logs {
        let name = if text.starts_with("column") { "series.csv" } else { "log.txt" };
        let patient = patient(name, text);
        assert_eq!(illnesses(&patient), [""; 0], "{what}: {patient:#}");
    }
}

#[test]
fn a_diagnosis_ends_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("vmstat.txt");
    fs::write(&path, vmstat([THRASHING; 60])).expect("a temporary file");
    let print = |format: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        let output = command.args(["doctor", "--format", format]).arg(&path).output().expect("it was built");
        String::from_utf8(output.stdout).expect("text")
    };
    let text = print("text");
    assert!(text.contains("\n  next: look at `grep -H VmSwap"), "{text}");
    assert!(text.contains("\n  next: simulate it by `highwater compare anon"), "{text}");
    assert!(print("html").contains("simulate it by"));
    let value: Value = serde_json::from_str(&print("json")).expect("JSON");
    let next = value["patients"][0]["findings"][0]["next"].as_array().expect("a list").clone();
    assert!(next.iter().any(|step| step["do"] == "experiment" && step["line"].as_str().is_some()), "{next:?}");
}
