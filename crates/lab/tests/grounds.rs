//! Tests of the grounds (systems that run workloads) in real time: each passes the suite for all grounds, and leaves
//! the computer as it was.
//!
//! Tests that this computer does not permit are skipped, with a message on what is missing.

use lab::cgroup::Cgroup;
use lab::computer::counters::{Counters, free_swap_pages};
use lab::find;
use lab::ground::{Ground, GroundOptions};
use lab::grounds;
use lab::grounds::system::host::HostSystem;
use lab::grounds::system::linux::LinuxSystem;
use lab::grounds::system::linux::limit::Limit;
use lab::grounds::system::linux::swap::SwapFile;
use lab::job::{Failure, Inside, Job, Runnable};
use lab::progress::Progress;
use lab::scale::Scale;
use lab::system::conformance;
use lab::system::contents::Kept;
use lab::system::{Given, System, SystemError, page_bytes};
use lab::workload::{Measurements, Resources, Workload};
use placed::{Node, Value};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

/// Memory of the library, pages. The smallest possible memory is 4 MiB.
const HOST_PAGES: u64 = 2048;

/// Memory that the process under a limit may use, pages. The program itself takes a part of it.
const LINUX_PAGES: u64 = 6144;

/// Environment variables that tell a child process of these tests its cgroup (`CGROUP`) and its folder (`FOLDER`).
const CGROUP: &str = "HIGHWATER_TEST_CGROUP";
const FOLDER: &str = "HIGHWATER_TEST_FOLDER";

fn given() -> Given {
    Given { seed: 1, scale: Scale::FULL, progress: Progress::default() }
}

/// Returns a folder on a disk. It lies in the build's folder, since the system's temporary folder may be in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build's folder is writable")
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("it is there").next().is_none()
}

#[test]
fn the_library_is_a_ground() {
    let kernel = find::kernel("highwater").expect("an embedded kernel");
    for (name, check) in conformance::suite() {
        println!("{name}");
        let folder = folder();
        let system = HostSystem::new(folder.path(), &kernel, HOST_PAGES, 2 * HOST_PAGES, given()).expect("it is made");
        check(&system).unwrap_or_else(|error| panic!("{name}: {error}"));
        system.finish().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn the_running_kernel_is_a_ground() {
    let limit = match Limit::new(page_bytes(LINUX_PAGES)) {
        Ok(limit) => limit.waiting(),
        Err(missing) => return eprintln!("skipped: the running kernel as a ground: {missing}"),
    };
    let folder = folder();
    // Swap changes the computer for all its users, so the test uses it only on request.
    let wanted = std::env::var_os("HIGHWATER_TEST_SWAP").is_some();
    let beside = self::folder();
    let _swap = wanted.then(|| SwapFile::new(beside.path().join("swap"), 4 * LINUX_PAGES).expect("root may swap"));
    // The limited process is to be a separate one, so this test starts itself again.
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command.args(["--exact", "limited::the_running_kernel_passes_the_suite", "--nocapture", "--include-ignored"]);
    command.env(CGROUP, serde_json::to_string(&limit.cgroup).expect("a path is text")).env(FOLDER, folder.path());
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it is there");
    limit.cgroup.put_in(child.id()).expect("the cgroup is ours");
    // The end of its input lets the process begin.
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    let path = limit.cgroup.path.clone();
    drop(limit);
    assert!(!path.exists(), "{} is still there", path.display());
}

mod limited {
    use super::*;

    #[test]
    #[ignore = "run by the test `the_running_kernel_is_a_ground`, in a cgroup"]
    fn the_running_kernel_passes_the_suite() {
        let Some((cgroup, folder)) = std::env::var(CGROUP).ok().zip(std::env::var_os(FOLDER)) else {
            return eprintln!("skipped: not in a cgroup");
        };
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("standard input ends");
        let cgroup: Cgroup = serde_json::from_str(&cgroup).expect("it was written so");
        let counters = || Counters::new(Some(cgroup.clone()));
        for (name, check) in conformance::suite() {
            let swap = free_swap_pages();
            if name.ends_with("swap") && swap < 3 * LINUX_PAGES {
                let needed = 3 * LINUX_PAGES;
                eprintln!(
                    "skipped: {name}: {swap} pages of swap are free, {needed} are needed (HIGHWATER_TEST_SWAP=1)"
                );
                continue;
            }
            let folder = PathBuf::from(&folder);
            let system = LinuxSystem::new(folder, LINUX_PAGES, counters(), given(), Kept::Bytes)
                .expect("the folder is on a disk");
            check(&system).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(is_empty(Path::new(&folder)), "files stay behind");
    }
}

fn highwater(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the binary was built for this test")
}

/// Writes the file of an experiment that takes a second. Returns its path.
fn experiment(folder: &Path, params: &str) -> String {
    let path = folder.join("small.toml");
    let head = "about = \"small\"\nmachine = \"randread-512m\"\nworkload = \"randread\"\nkernels = [\"highwater\"]\n";
    std::fs::write(&path, format!("{head}[params]\n{params}")).expect("a temporary file");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn one_table_has_a_column_for_each_ground_and_nothing_stays_behind() {
    ["copy", "in-place"].into_iter().for_each(one_table_by);
}

fn one_table_by(access: &str) {
    let (files, outside) = (folder(), folder());
    let params = format!("tasks = 2\noperations = 3000\nfile_percent = 200\naccess = \"{access}\"\n");
    let experiment = experiment(outside.path(), &params);
    let directory = files.path().to_str().expect("UTF-8");
    let place = GroundOptions { folder: files.path().to_owned(), ..GroundOptions::default() };
    let can_limit = grounds::ready(Ground::Linux, &place, 32 << 20);
    let arguments =
        ["compare", &experiment, "--on", "host,linux,sim", "--scale", "1/16", "--dir", directory, "--format", "json"];
    let output = highwater(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the report is JSON");
    let grounds: Vec<&str> =
        report["columns"].as_array().expect("columns").iter().filter_map(|column| column["ground"].as_str()).collect();
    match &can_limit {
        Ok(()) => assert_eq!(grounds, ["host", "linux", "sim"]),
        Err(missing) => {
            eprintln!("skipped: the column `linux`: {missing}");
            assert_eq!(grounds, ["host", "sim"]);
        }
    }
    let row = |name: &str| {
        let rows = report["rows"].as_array().expect("rows");
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}: {report}")).clone()
    };
    let values = row("Ops randread")["values"].as_object().expect("values").clone();
    assert_eq!(values.len(), grounds.len());
    assert!(values.values().all(|value| value["median"].as_f64().is_some_and(|rate| rate > 0.0)), "{values:?}");
    assert!(report["fingerprint"].is_string(), "the simulated column has one");
    assert!(is_empty(files.path()), "files stay behind");
}

#[test]
fn a_load_that_forks_runs_on_the_running_kernel_and_not_in_the_library() {
    let files = folder();
    let place = GroundOptions { folder: files.path().to_owned(), ..GroundOptions::default() };
    let mut arguments = vec!["run", "snapshot", "--scale", "1/8", "--set", "params.region.data={percent=30}"];
    arguments.extend(["--set", "params.seconds=2", "--format", "json", "--dir", files.path().to_str().expect("UTF-8")]);
    let on = |ground| highwater(&[&arguments[..], &["--on", ground]].concat());

    let refused = on("host");
    assert_eq!(refused.status.code(), Some(2));
    let told = "error: ground `host`: the load forks, and memory belongs to one process there";
    assert!(String::from_utf8_lossy(&refused.stderr).starts_with(told), "{refused:?}");

    if let Err(missing) = grounds::ready(Ground::Linux, &place, 32 << 20) {
        return eprintln!("skipped: a load that forks on the running kernel: {missing}");
    }
    let output = on("linux");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the report is JSON");
    let value = |name: &str| {
        let rows = report["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}: {report}"));
        row["values"].as_object().expect("values").values().next().and_then(|value| value["median"].as_f64())
    };
    // The children write the file, and this process verifies it.
    assert_eq!(value("Pages verified"), Some(12288.0));
    for row in ["Fork p50", "Request p99", "Sync p50"] {
        assert!(value(row) > Some(0.0), "{row}");
    }
    assert!(is_empty(files.path()), "files stay behind");
}

#[test]
fn an_interrupt_ends_a_run_and_everything_is_undone() {
    let (files, outside) = (folder(), folder());
    let experiment = experiment(outside.path(), "tasks = 2\nfull_s = 1000\nfilling_s = 1000\nfile_percent = 100\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.args(["compare", &experiment, "--on", "linux", "--no-limit", "--scale", "1/32", "--dir"]).arg(files.path());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    while is_empty(files.path()) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("there is a `kill`");
    assert!(told.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"), "{output:?}");
    assert!(is_empty(files.path()), "files stay behind");
}

#[test]
fn what_only_the_simulator_runs_says_so() {
    let output = highwater(&["compare", "parallelio", "--on", "linux"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.starts_with("error: experiment `parallelio` does not run on the ground `"), "{text}");
}

#[test]
fn a_folder_in_memory_or_nowhere_is_refused() {
    let on = |grounds: &str, directory: &str| {
        let output = highwater(&["compare", "randread", "--on", grounds, "--dir", directory]);
        assert_eq!(output.status.code(), Some(2), "{directory}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for grounds in ["host", "host,sim"] {
        let text = on(grounds, "/nowhere/at/all");
        assert_eq!(text.trim_end(), "error: --dir /nowhere/at/all: there is no such folder");
    }
    if Path::new("/dev/shm").is_dir() {
        assert!(on("host", "/dev/shm").contains("lies in memory"), "{}", on("host", "/dev/shm"));
    }
}

/// A workload that prints its own report and has a profile.
struct Talks;

impl Workload for Talks {
    type Params = std::collections::BTreeMap<String, u64>;

    const NAME: &'static str = "talks";

    const ABOUT: &'static str = "says something";

    fn check(_: &Self::Params, _: &Resources) -> Result<(), String> {
        Ok(())
    }

    fn run<S: System>(_: &S, _: &Self::Params) -> Result<Measurements, SystemError> {
        Ok(Measurements {
            rows: Vec::new(),
            profile: vec!["part;task;func 7".into()],
            report: vec!["all is well".into()],
            ..Measurements::default()
        })
    }
}

fn job_on_the_library(folder: &Path, machine: &str, scale: &str) -> Job {
    let machine = find::machine(machine).expect("an embedded machine");
    let kernel = find::kernel("highwater").expect("an embedded kernel");
    let params = Node { value: Value::Table(Vec::new()), ..machine.node.clone() };
    Job {
        ground: Ground::Host,
        inside: Some(Inside { folder: folder.to_owned(), cgroup: None }),
        ..Job::simulated("talks", kernel, Arc::new(machine), params, scale.parse().expect("a scale"))
    }
}

#[test]
fn what_a_workload_says_is_kept_and_what_a_ground_leaves_out_is_told() {
    let folder = folder();
    let run = |machine| {
        let job = job_on_the_library(folder.path(), machine, "1/64");
        Talks.run(&job, &Progress::default()).expect("it runs")
    };
    let found = run("parallelio-8g");
    assert_eq!(found.report, ["all is well"]);
    assert_eq!(found.profile.as_deref(), Some(&["part;task;func 7".to_owned()][..]));
    let is_told = |notes: &[String]| notes.iter().any(|note| note.contains("[before]"));
    assert!(is_told(&found.notes), "{:?}", found.notes);
    assert!(!is_told(&run("randread-512m").notes), "nothing was there before");
}

#[test]
fn a_ground_that_is_too_small_is_refused_before_the_run() {
    let folder = folder();
    let job = job_on_the_library(folder.path(), "randread-512m", "1/256");
    let Failure(message) = Talks.check(&job).expect_err("2 MiB are too few");
    assert!(message.starts_with("ground `host`: 512 pages of memory (2048 KiB) are too few"), "{message}");
}

/// `calibrate` measures what a program can time, such as the copy of a page. Other costs it fits, by comparing runs on
/// the kernel with runs on the simulator. The result must be a valid machine file.
#[test]
fn calibrate_measures_this_computer() {
    if let Err(why) = Limit::new(64 << 20) {
        return println!("skipped: {why}");
    }
    let folder = folder();
    let here = folder.path().join("here.toml");
    let highwater = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(arguments).stdin(Stdio::null()).output().expect("the binary was built for this test")
    };
    let [place, file] = [folder.path(), &here].map(|path| path.to_str().expect("UTF-8"));
    let output = highwater(&["calibrate", "--limit", "64M", "--dir", place, "--output", file]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let text = std::fs::read_to_string(&here).expect("it was written");
    assert!(text.contains("copy_page = { ns = ") && text.contains("from = \"measured\""), "{text}");
    let is_fitted = told.contains("for a million random reads") && text.contains("from = \"fitted\"");
    assert!(is_fitted || told.contains("costs of random reads are left as they are assumed"), "{told}\n{text}");
    assert!(
        highwater(&["run", "randread", "--kernel", "6.18-classic", "--machine", file, "--dry-run"]).status.success()
    );
    std::fs::remove_file(&here).expect("it is there");
    assert!(is_empty(folder.path()), "nothing stays behind");
}
