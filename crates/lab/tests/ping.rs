//! Tests of the experiment `ping` at a small size: its report, the tables of locks in every form, and the cause of a
//! stall in a trace.

use std::{fs, path::Path, process::Command};

use lab::trace::read::{Row, Shown, rows};

/// Options for 128 MiB, with the same ratio of disk speed to CPU speed as at full size. In 2/3 s, 8 hogs begin to swap.
const SMALL: [&str; 8] = [
    "compare",
    "ping+packets=40+hogs=8+apart_ms=5",
    "--scale",
    "1/64",
    "--machine",
    "ping-8g+disk.device.bandwidth_bytes_per_s=3840000000+disk.device.queue.nr_requests=8\
     +disk.device.queue.max_request_pages=32",
    "--jobs",
    "1",
];

fn highwater(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.args(SMALL).args(arguments).output().expect("the binary was built for this test");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("reports are UTF-8")
}

#[test]
fn a_small_ping_is_reported_as_it_was() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../catalogue/experiments/ping/report.smoke.txt");
    let found = highwater(&["--locks", "--all"]);
    if std::env::var_os("HIGHWATER_BLESS").is_some() {
        return fs::write(&golden, found).expect("the experiment's folder is writable");
    }
    let expected = fs::read_to_string(&golden).expect("HIGHWATER_BLESS=1 writes it");
    assert_eq!(found, expected, "if this is meant, run HIGHWATER_BLESS=1 cargo test --test ping");
}

#[test]
fn locks_are_told_in_every_form_and_change_nothing() {
    let kernel = ["--kernels", "2.6.23-rc5"];
    let run = |more: &[&str]| highwater(&[&kernel, more].concat());
    let [plain, with] = [run(&["--format", "json"]), run(&["--format", "json", "--locks"])];
    let [plain, with]: [serde_json::Value; 2] = [&plain, &with].map(|text| serde_json::from_str(text).expect("JSON"));
    assert_eq!(plain["fingerprint"], with["fingerprint"]);
    let has = |report: &serde_json::Value, name: &str| {
        report["rows"].as_array().expect("rows").iter().filter(|row| row["name"] == name).count()
    };
    assert_eq!((has(&plain, "Lock lru contended"), has(&with, "Lock lru contended")), (0, 1));
    assert_eq!(has(&with, "Interrupts off by lru max"), 1, "the workload has that row, too");
    let csv = run(&["--format", "csv", "--locks", "--rows", "lock lru,lock zone"]);
    assert_eq!(csv.lines().count(), 1 + 2 * 6, "{csv}");
    assert!(csv.contains("locks,Lock lru wait max,us,lower,2.6.23-rc5,"), "{csv}");
}

/// Options for 128 MiB of memory, with a disk so fast that the interrupt handler of 2.6.23-rc5 falls behind: it ends
/// three or more commands in one interrupt.
const STALLS: [&str; 11] = [
    "run",
    "ping+packets=40+hogs=8+apart_ms=5",
    "--kernel",
    "2.6.23-rc5",
    "--scale",
    "1/64",
    "--machine",
    "ping-8g+disk.device.bandwidth_bytes_per_s=15360000000+disk.device.queue.nr_requests=64\
     +disk.device.queue.max_request_pages=32",
    "--format",
    "json",
    "--locks",
];

fn stalled(more: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.args(STALLS).args(more).output().expect("the binary was built for this test");
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
    assert!(output.status.success(), "{more:?}: {err}");
    // The line with the duration differs between runs.
    let err = err.lines().filter(|line| !line.starts_with("ended: ")).map(str::to_owned);
    (out, err.collect())
}

/// Returns all slices (spans of time on a track) in a Perfetto trace, each with the name of its track.
fn slices(file: &Path) -> Vec<(String, Shown)> {
    let rows = rows(&fs::read(file).expect("it was written")).expect("a trace");
    let of_row = |row: Row| row.slices.into_iter().map(move |slice| (row.track.clone(), slice));
    rows.into_iter().flat_map(of_row).collect()
}

fn longest<'a>(slices: &'a [(String, Shown)], track: &str) -> &'a Shown {
    let of_track = slices.iter().filter(|(its, _)| its == track).map(|(_, slice)| slice);
    of_track.max_by_key(|slice| slice.length()).unwrap_or_else(|| panic!("nothing on `{track}`"))
}

#[test]
fn a_trace_names_the_cause_of_the_longest_round_trip() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ping.pftrace");
    let plain = stalled(&[]);
    let traced = stalled(&["--trace", file.to_str().expect("UTF-8")]);
    assert_eq!(plain, traced, "a run is the same with a trace, and this one is not full");
    let all = slices(&file);

    let off = longest(&all, "CPU 0 interrupts off");
    assert_eq!(off.name, "interrupt", "{off:?}");
    let packet = longest(&all, "packets");
    assert!(packet.length() > 2_000_000, "{packet:?}");
    assert!(off.from < packet.from && packet.from < off.to, "it came while they were off: {packet:?} {off:?}");
    let within = |track: &str, name: &str| -> Vec<&Shown> {
        let is = |(its, slice): &&(String, Shown)| its == track && slice.name == name && slice.is_in(off);
        all.iter().filter(is).map(|(_, slice)| slice).collect()
    };
    let commands = within("CPU 0 interrupts off", "sda");
    let pages: u64 = commands.iter().map(|command| command.figures["pages"]).sum();
    assert!(commands.len() >= 3 && pages >= 96, "one after the other: {commands:?}");
    let waits = within("CPU 0 locks", "waits for lru");
    let waited: u64 = waits.iter().map(|wait| wait.length()).sum();
    assert!(
        waited > off.length() / 2 && waits.len() as u64 > pages / 2,
        "{waited} of {off:?} in {} waits",
        waits.len()
    );

    let has = |track: &str, name: &str| all.iter().any(|(its, slice)| its == track && slice.name == name);
    assert!(has("CPU 7", "hog 3") && has("kswapd0", "balance_pgdat") && has("hog 2", "try_to_free_pages"));
    assert!(has("sda", "write") && has("sda", "done, waits for its CPU"));
}

#[test]
fn a_window_bounds_a_trace_and_must_make_sense() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ping.pftrace");
    let name = file.to_str().expect("UTF-8");
    stalled(&["--trace", name, "--trace-window", "0.1..0.11"]);
    let all = slices(&file);
    let (from, to) = (100_000_000, 110_000_000);
    assert!(!all.is_empty() && all.iter().all(|(_, slice)| slice.from >= from && slice.to <= to), "{all:?}");
    let wrong = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        let output = command.args(STALLS).args(more).output().expect("the binary was built for this test");
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    for window in ["2..1", "1", "a..2", "1..1", "-1..2"] {
        let message = wrong(&["--trace", name, "--trace-window", window]);
        assert!(message.contains("2.1..2.9"), "{window}: {message}");
    }
    assert!(wrong(&["--trace-window", "1..2"]).contains("--trace <FILE>"));
    assert!(wrong(&["--trace", name, "--output", name]).contains("same file"));
    assert!(wrong(&["--trace", name, "--on", "host"]).contains("`sim` alone"));
}
