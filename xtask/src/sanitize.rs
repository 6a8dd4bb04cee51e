//! Checks beyond tests alone: every interleaving of a few threads (loom), wrong uses of memory (address sanitizer,
//! valgrind), races (thread sanitizer).
//!
//! Each check runs where this computer and its toolchains permit it; where not, a line says what is missing. What is
//! built for it lies in `sanitize/` of the target folder, so that nobody else's build grows stale. There is nothing for
//! Miri: all of the project's unsafe code calls the system or switches stacks, or has to do with memory from there, and
//! Miri imitates neither.

mod toolchain;
mod valgrind;

use std::{path::PathBuf, process::Command, time::Instant};

use crate::{run, target};
use toolchain::{Sanitizer, Toolchain};

/// Tests of the crate with unsafe code under real memory: `--lib` is its unit tests.
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

/// Tests of much address space, or of limits to it: the thread sanitizer takes several times as much for itself.
const TOO_MUCH_TO_SHADOW: [&str; 3] = ["--skip=room_to_grow", "--skip=a_refused_index", "--skip=a_hole_of_terabytes"];

/// How a check ended that found nothing.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Clean,
    Skipped(String),
}

type Check = fn() -> Result<Ended, String>;

const CHECKS: [(&str, Check); 4] =
    [("loom", loom), ("address", address), ("thread", thread), ("valgrind", valgrind::check)];

/// Runs the checks of these names, or all where none is named, and says in one line for each how it ended. Returns what those
/// lack that were skipped.
///
/// # Errors
/// When one of them found something, or there is none of a name.
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

/// A folder for what is built for a check.
fn folder(check: &str) -> PathBuf {
    target().join("sanitize").join(check)
}

/// The concurrency core of the engine, in every interleaving.
fn loom() -> Result<Ended, String> {
    let mut command = Command::new("cargo");
    command.args(["test", "--profile=sanitize", "--package=highwater-engine", "--test=loom", "--target-dir"]);
    command.arg(folder("loom"));
    run(command.env("RUSTFLAGS", "--cfg loom"))?;
    Ok(Ended::Clean)
}

/// Uses after free and after return, overflows and leaks in the library and its tests. What the arena's frames hold is
/// not seen: to the sanitizer they are one mapping.
fn address() -> Result<Ended, String> {
    let mut options = "detect_stack_use_after_return=1:allocator_may_return_null=1".to_owned();
    let toolchain = match Toolchain::with(Sanitizer::Address, &options) {
        Ok(toolchain) => toolchain,
        // Leaks are looked for by tracing the process, which some containers forbid.
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

/// Races in the library and its tests. The standard library has to be built for it, too: else what is synchronised
/// through that would look like a race.
fn thread() -> Result<Ended, String> {
    let toolchain = match Toolchain::with(Sanitizer::Thread, "") {
        Ok(toolchain) => toolchain,
        Err(why) => return Ok(Ended::Skipped(why)),
    };
    let mut command = toolchain.tests(Sanitizer::Thread, &folder("thread"));
    // What is meant to race.
    let meant = concat!("suppressions=", env!("CARGO_MANIFEST_DIR"), "/src/sanitize/thread.supp");
    command.args(["--package", "highwater"]).args(HOST_TESTS).arg("--").args(TOO_MUCH_TO_SHADOW);
    run(command.env("TSAN_OPTIONS", meant))?;
    Ok(Ended::Clean)
}
