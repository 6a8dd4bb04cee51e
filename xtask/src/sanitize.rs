//! Checks in addition to tests: every interleaving of a few threads (loom), wrong uses of memory (address sanitizer,
//! valgrind), races (thread sanitizer).
//!
//! A check runs if this computer and its toolchains permit it; otherwise a line says what is missing. Builds for checks
//! are in the folder `sanitize/` of the target folder, so that ordinary builds do not become stale. There is no check
//! with Miri: all unsafe code of the project makes system calls, switches stacks, or uses memory that such code
//! provides, and Miri supports none of these.

mod toolchain;
mod valgrind;

use std::{path::PathBuf, process::Command, time::Instant};

use crate::{run, target};
use toolchain::{Sanitizer, Toolchain};

/// Tests of the library (the package `highwater`), which has unsafe code for real memory. `--lib` means its unit tests.
const HOST_TESTS: [&str; 8] = [
    "--lib",
    "--test=conformance",
    "--test=disk",
    "--test=edges",
    "--test=engine",
    "--test=faults",
    "--test=memory",
    "--test=swap_file",
];

/// Arguments that skip tests which need or limit a large address space. The thread sanitizer multiplies the address
/// space that a test needs.
const TOO_MUCH_TO_SHADOW: [&str; 3] = ["--skip=room_to_grow", "--skip=a_refused_index", "--skip=a_hole_of_terabytes"];

/// The outcome of a check that did not fail.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Clean,
    Skipped(String),
}

type Check = fn() -> Result<Ended, String>;

const CHECKS: [(&str, Check); 4] =
    [("loom", loom), ("address", address), ("thread", thread), ("valgrind", valgrind::check)];

/// Runs the checks called `names`, or all checks, and prints the outcome of each in a line. For each check that was
/// skipped, returns what it lacks.
///
/// # Errors
/// When a check finds something, or when a name is unknown.
pub fn sanitize(names: &[&str]) -> Result<Vec<String>, String> {
    if let Some(unknown) = names.iter().find(|name| CHECKS.iter().all(|(known, _)| known != *name)) {
        let known = CHECKS.map(|(name, _)| name).join(", ");
        return Err(format!("there is no check `{unknown}`, only {known}"));
    }
    let checks = CHECKS.iter().filter(|(name, _)| names.is_empty() || names.contains(name));
    let ended: Vec<_> = checks.map(|(name, check)| (*name, Instant::now(), check(), Instant::now())).collect();
    let (mut failed, mut lacking) = (Vec::new(), Vec::new());
    for (name, began, result, finished) in &ended {
        let seconds = finished.duration_since(*began).as_secs();
        match result {
            Ok(Ended::Clean) => println!("{name}: nothing found ({seconds} s)"),
            Ok(Ended::Skipped(why)) => {
                println!("{name}: skipped: {why}");
                lacking.push(why.clone());
            }
            Err(error) => {
                println!("{name}: FAILED: {error}");
                failed.push(*name);
            }
        }
    }
    if failed.is_empty() { Ok(lacking) } else { Err(format!("found something: {}", failed.join(", "))) }
}

/// Returns the folder that holds the builds of a check.
fn folder(check: &str) -> PathBuf {
    target().join("sanitize").join(check)
}

/// Checks the concurrency core of the engine in every interleaving.
fn loom() -> Result<Ended, String> {
    let mut command = Command::new("cargo");
    command.args(["test", "--profile=sanitize", "--package=highwater-engine", "--test=loom", "--target-dir"]);
    command.arg(folder("loom"));
    run(command.env("RUSTFLAGS", "--cfg loom"))?;
    Ok(Ended::Clean)
}

/// Checks the library and its tests for uses after free and after return, overflows and leaks. Contents of the arena's
/// frames are not checked, since the sanitizer sees them as one mapping.
fn address() -> Result<Ended, String> {
    let mut options = "detect_stack_use_after_return=1:allocator_may_return_null=1".to_owned();
    let toolchain = match Toolchain::with(Sanitizer::Address, &options) {
        Ok(toolchain) => toolchain,
        // To find leaks, the sanitizer traces the process, which some containers forbid.
        Err(_) => {
            options.push_str(":detect_leaks=0");
            match Toolchain::with(Sanitizer::Address, &options) {
                Ok(toolchain) => toolchain,
                Err(why) => return Ok(Ended::Skipped(why)),
            }
        }
    };
    let mut command = toolchain.tests(Sanitizer::Address, &folder("address"));
    run(command.args(["--package", "highwater"]).args(HOST_TESTS).env("ASAN_OPTIONS", options))?;
    Ok(Ended::Clean)
}

/// Checks the library and its tests for races. The standard library is built with the sanitizer, too; otherwise
/// synchronisation in it would not be seen, and accesses would look like races.
fn thread() -> Result<Ended, String> {
    let toolchain = match Toolchain::with(Sanitizer::Thread, "") {
        Ok(toolchain) => toolchain,
        Err(why) => return Ok(Ended::Skipped(why)),
    };
    let mut command = toolchain.tests(Sanitizer::Thread, &folder("thread"));
    // The suppressions list the code whose races are intended.
    let meant = concat!("suppressions=", env!("CARGO_MANIFEST_DIR"), "/src/sanitize/thread.supp");
    command.args(["--package", "highwater"]).args(HOST_TESTS).arg("--").args(TOO_MUCH_TO_SHADOW);
    run(command.env("TSAN_OPTIONS", meant))?;
    Ok(Ended::Clean)
}
