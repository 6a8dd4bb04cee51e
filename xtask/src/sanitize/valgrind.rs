//! Runs the library's tests under valgrind's memcheck, which also finds uses of uninitialised memory and needs no
//! special build.

use std::process::{Command, Stdio};

use super::{Ended, toolchain::said};
use crate::{run, shown};

/// The option that sets memcheck's exit status after a finding.
const FOUND: &str = "--error-exitcode=99";

/// Sources of the test programs, each with arguments that select tests. Tests that need io_uring are left out: valgrind
/// (3.19) does not know that the system call of io_uring waits, so a waiting thread stops all other threads for ever.
/// Tests with a time limit are also left out, and so are tests that map so much memory that valgrind cannot map it, or
/// takes long for it.
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
    // Valgrind is tried with a program, since some versions cannot run any program on this computer.
    if let Err(why) = said(Command::new("valgrind").args(["--quiet", FOUND, "true"])) {
        return Ok(Ended::Skipped(format!("no valgrind: {why}")));
    }
    // The tests are built as the step `test` of `cargo ci` builds them, so usually they are there already.
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
        // Under valgrind only one thread runs at a time. Without fair scheduling, a spinning thread could keep the
        // thread that it waits for from running.
        valgrind.args(["--quiet", FOUND, "--fair-sched=yes"]).arg(program);
        run(valgrind.args(chosen).env("HIGHWATER_TEST_IO", "threads"))?;
    }
    Ok(Ended::Clean)
}

/// Returns the path of the test program for a source, from cargo's messages; `None` if it was not built.
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
