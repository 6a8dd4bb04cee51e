//! Tests of `highwater explain stall`: its figures add up, are reproducible, and match the trace.

use lab::trace::read;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

fn print(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.args(arguments).stdin(Stdio::null()).output().expect("the binary was built for this test");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is UTF-8")
}

fn run_of(text: &str) -> Value {
    let value: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(value["schema"], 1);
    value["runs"][0].clone()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn stalls(run: &Value) -> &Vec<Value> {
    run["longest"].as_array().expect("a list")
}

/// Checks that every part of a stall is counted once: waits and work add up to the stall's duration.
fn adds_up(stall: &Value) {
    let time = number(&stall["to_ns"]) - number(&stall["from_ns"]);
    let waits = stall["waits"].as_array().expect("a list").iter();
    let waits: Vec<u64> = waits.map(|wait| number(&wait["ns"])).collect();
    assert!(waits.is_sorted_by(|a, b| a >= b), "the longest is first: {stall:#}");
    let told = waits.iter().sum::<u64>() + number(&stall["worked_ns"]);
    // Each time is truncated to ns.
    assert!(told.abs_diff(time) <= 1000 + time / 1000, "{told} of {time} ns are told: {stall:#}");
}

#[test]
fn direct_reclaims_are_told_by_what_they_asked_scanned_and_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("trace");
    let trace = path.to_str().expect("UTF-8");
    for seed in ["1", "2"] {
        let run = ["anon", "--kernel", "3.10-rc4-vanilla", "--scale", "1/64", "--seed", seed, "--over", "0.5"];
        let arguments = [&["explain", "stall"][..], &run, &["--format", "json", "--trace", trace]].concat();
        let text = print(&arguments);
        assert_eq!(text, print(&arguments), "a seed gives the same each time");
        let found = run_of(&text);
        assert!(number(&found["stalls"]) > 0 && number(&found["total_ns"]) >= number(&found["over_ns"]), "{found:#}");
        let rows = read::rows(&fs::read(&path).expect("it was written")).expect("it is a trace");
        let mut reclaims = 0;
        for stall in stalls(&found) {
            adds_up(stall);
            assert!(number(&stall["to_ns"]) - number(&stall["from_ns"]) >= 500_000);
            assert_eq!((&stall["asked"]["order"], &stall["asked"]["is_served"]), (&0.into(), &true.into()));
            assert!(stall["asked"]["gfp"].as_str().expect("words").contains("wait"), "{stall:#}");
            if number(&stall["did"]["reclaims"]) == 0 {
                continue;
            }
            reclaims += 1;
            assert!(number(&stall["did"]["scanned"]) > 0, "{stall:#}");
            let (name, at) = (&stall["slice"]["name"], number(&stall["slice"]["at_ns"]));
            let is_it = |slice: &read::Shown| slice.name == *name && slice.from == at;
            let mut of_track = rows.iter().filter(|row| row.track == stall["track"]);
            assert!(of_track.any(|row| row.slices.iter().any(is_it)), "it is not in the trace: {stall:#}");
        }
        assert!(reclaims > 0, "{found:#}");
    }
}

#[test]
fn writers_held_back_are_told_by_limit_and_disk() {
    for kernel in ["3.10-rc4-vanilla", "2.6.37-traceonly", "highwater"] {
        let run = ["randwrite", "--kernel", kernel, "--scale", "1/64", "--over", "2", "--most", "300"];
        let found = run_of(&print(&[&["explain", "stall"][..], &run, &["--format", "json"]].concat()));
        let held: Vec<&Value> = stalls(&found).iter().filter(|stall| stall["held_back"].is_object()).collect();
        assert!(!held.is_empty(), "{kernel}: {found:#}");
        for stall in held {
            adds_up(stall);
            assert!(number(&stall["held_back"]["limit_pages"]) > 0, "{stall:#}");
            assert_eq!(stall["slice"]["name"], "balance_dirty_pages", "{stall:#}");
            let disk = stall["disks"][0].as_str().expect("the disk was at work");
            let writes = disk.split(" and ").last().and_then(|writes| writes.split(' ').next()?.parse::<u64>().ok());
            assert!(disk.starts_with("sda: ") && writes > Some(0), "{disk}");
        }
    }
}

#[test]
fn where_memory_suffices_nobody_stands_still() {
    let fits = ["anon", "--kernel", "7.2-mglru", "--scale", "1/64", "--set", "params.region_percent=50"];
    let text = print(&[&["explain", "stall"][..], &fits].concat());
    assert!(text.contains("no stall of at least 10.000 ms"), "{text}");
    let page = print(&[&["explain", "stall"][..], &fits, &["--format", "html"]].concat());
    assert!(!page.contains("<table"), "there is none to be shown");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains(text.lines().next().expect("a line")), "{page}");
}

/// Memory is exhausted. A request whose reclaims free nothing sleeps for a quarter of a second before it fails.
/// `explain stall` reports this sleep as the longest wait, and names no holder, because the request does not wait for a
/// page or a lock.
#[test]
fn a_request_that_backs_off_says_so() {
    let run = ["exhaust", "--kernel", "3.10-rc4-vanilla", "--scale", "1/64", "--over", "200"];
    let found = run_of(&print(&[&["explain", "stall"][..], &run, &["--format", "json"]].concat()));
    assert!(!stalls(&found).is_empty(), "{found:#}");
    for stall in stalls(&found) {
        adds_up(stall);
        let (longest, time) = (&stall["waits"][0], number(&stall["to_ns"]) - number(&stall["from_ns"]));
        assert_eq!(longest["on"], "before it tried again, because its reclaims had freed nothing", "{stall:#}");
        assert_eq!(longest["held_by"], Value::Array(vec![]), "{stall:#}");
        assert!(number(&longest["ns"]) * 10 > time * 9, "{stall:#}");
    }
}

/// Sleeping tasks state their reason, so almost no time remains unexplained.
#[test]
fn next_to_no_time_is_left_untold() {
    let kernels = ["2.6.23-rc5", "2.6.37-traceonly", "3.10-rc4-vanilla", "7.2-mglru", "highwater"];
    for (experiment, kernel) in
        ["anon", "randwrite", "exhaust"].into_iter().flat_map(|name| kernels.map(|kernel| (name, kernel)))
    {
        let run = [experiment, "--kernel", kernel, "--scale", "1/64", "--over", "1"];
        let found = run_of(&print(&[&["explain", "stall"][..], &run, &["--format", "json"]].concat()));
        assert!(!stalls(&found).is_empty(), "{experiment} on {kernel} has nothing to look at");
        for stall in stalls(&found) {
            let time = number(&stall["to_ns"]) - number(&stall["from_ns"]);
            let waits = stall["waits"].as_array().expect("a list").iter();
            let untold = waits.filter(|wait| wait["on"] == "for what the trace does not say");
            let untold: u64 = untold.map(|wait| number(&wait["ns"])).sum();
            assert!(untold <= 20_000 + time / 20, "{experiment} on {kernel}: {untold} of {time} ns: {stall:#}");
        }
    }
}

/// Similar stalls are reported once, with their number and their total duration.
#[test]
fn equal_stalls_are_told_together() {
    let run = ["exhaust", "--kernel", "3.10-rc4-vanilla", "--scale", "1/64", "--most", "1000"];
    let found = run_of(&print(&[&["explain", "stall"][..], &run, &["--format", "json"]].concat()));
    let of = |name: &str| stalls(&found).iter().map(|stall| number(&stall[name])).sum::<u64>();
    assert_eq!((of("count"), of("total_ns")), (number(&found["stalls"]), number(&found["total_ns"])), "{found:#}");
    assert_eq!(stalls(&found).len() as u64, number(&found["groups"]), "{found:#}");
    assert!(number(&found["groups"]) < number(&found["stalls"]), "{found:#}");
    for (n, one) in stalls(&found).iter().enumerate() {
        let others = stalls(&found)[n + 1..].iter();
        let alike = |other: &&Value| {
            ["track", "asked", "held_back"].iter().all(|part| one[part] == other[part])
                && one["waits"][0]["on"] == other["waits"][0]["on"]
        };
        assert_eq!(others.filter(alike).count(), 0, "{one:#}");
    }
}
