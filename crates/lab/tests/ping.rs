//! The experiment `ping`, small: its report as it was, and the tables of locks in every form.

use std::{fs, path::Path, process::Command};

/// 128 MiB, but the disk as fast beside the CPUs as at full size: two thirds of a second, in which 8 hogs begin to
/// swap.
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
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/ping/report.smoke.txt");
    let found = highwater(&["--locks"]);
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
