//! The library's tests under valgrind's memcheck, which also knows what was never written, and needs no build of its own.

use std::process::{Command, Stdio};

use super::{Ended, toolchain::said};
use crate::{run, shown};

/// The status with which memcheck ends a program that did something wrong, unless it fails by itself.
const FOUND: &str = "--error-exitcode=99";

/// Sources of the test programs, with the arguments that choose among their tests. Left out is what needs io_uring, for where
/// valgrind (3.19) does not know that a call of it waits, the thread that waits holds all others up, for ever; what has to
/// be done in so many seconds; and what maps more than valgrind can, or takes it minutes.
const TESTS: [(&str, &[&str]); 5] = [
    ("crates/host/src/lib.rs", &[]),
    ("crates/host/tests/swap_file.rs", &[]),
    ("crates/host/tests/conformance.rs", &["over_threads"]),
    ("crates/host/tests/engine.rs", &["through_threads"]),
    (
        "crates/host/tests/memory.rs",
        &[
            "--skip=nothing_is_lost",
            "--skip=everything_is_in_its_place",
            "--skip=room_to_grow",
            "--skip=a_hole_of_terabytes",
            "--skip=reading_what_was_never_written",
        ],
    ),
];

pub fn check() -> Result<Ended, String> {
    // With a program: some cannot run any on this computer.
    if let Err(why) = said(Command::new("valgrind").args(["--quiet", FOUND, "true"])) {
        return Ok(Ended::Skipped(format!("no valgrind: {why}")));
    }
    // As the test command builds them, which has run before this as a rule.
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    eprintln!("--- {}", shown(&cargo));
    let output = cargo.stderr(Stdio::inherit()).output().map_err(|error| format!("{}: {error}", shown(&cargo)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", shown(&cargo), output.status));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    for (source, chosen) in TESTS {
        let program = program(&messages, source).ok_or_else(|| format!("no program of {source} was built"))?;
        let mut valgrind = Command::new("valgrind");
        // Threads take turns under valgrind: fairly, or one that spins keeps the one that it waits for from running.
        valgrind.args(["--quiet", FOUND, "--fair-sched=yes"]).arg(program);
        run(valgrind.args(chosen).env("HIGHWATER_TEST_IO", "threads"))?;
    }
    Ok(Ended::Clean)
}

/// The test program of a source that cargo's messages tell of.
fn program(messages: &str, source: &str) -> Option<String> {
    messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_test =
            message["profile"]["test"].as_bool()? && message["target"]["src_path"].as_str()?.ends_with(source);
        is_test.then(|| message["executable"].as_str().map(str::to_owned))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_messages() {
        let message = |is_test: bool, source: &str, program: &str| {
            let target = serde_json::json!({ "src_path": source });
            let profile = serde_json::json!({ "test": is_test });
            serde_json::json!({ "target": target, "profile": profile, "executable": program }).to_string()
        };
        let messages = [
            message(false, "/src/disk.rs", "/target/debug/disk"),
            message(true, "/src/memory.rs", "/target/debug/deps/memory-1"),
            message(true, "/src/disk.rs", "/target/debug/deps/disk-1"),
            "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
        ];
        assert_eq!(program(&messages.join("\n"), "src/disk.rs").as_deref(), Some("/target/debug/deps/disk-1"));
        assert_eq!(program("{\"reason\":\"build-finished\"}", "src/disk.rs"), None);
    }
}
