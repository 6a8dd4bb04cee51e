//! The library's tests under valgrind's memcheck, which also knows what was never written, and needs no build of its own.

use std::process::{Command, Stdio};

use super::{Ended, toolchain::said};
use crate::{run, shown};

/// What memcheck ends a program with that did something wrong, unless it fails by itself.
const FOUND: &str = "--error-exitcode=99";

/// The tests that need no io_uring, with arguments that choose among them: where valgrind (3.19) does not know that a call
/// of it waits, the thread that waits holds all others up, for ever. What has to be done in so many seconds is left out.
const TESTS: [(&str, &[&str]); 5] = [
    ("--lib", &[]),
    ("--test=swap_file", &[]),
    ("--test=conformance", &["over_threads"]),
    ("--test=engine", &["through_threads"]),
    ("--test=memory", &["--skip", "nothing_is_lost"]),
];

pub fn check() -> Result<Ended, String> {
    if let Err(why) = said(Command::new("valgrind").arg("--version")) {
        return Ok(Ended::Skipped(format!("no valgrind: {why}")));
    }
    for (test, chosen) in TESTS {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--no-run", "--message-format=json-render-diagnostics", "--package", "highwater", test]);
        let mut valgrind = Command::new("valgrind");
        // Threads take turns under valgrind: fairly, or one that spins keeps the one that it waits for from running.
        valgrind.args(["--quiet", FOUND, "--fair-sched=yes"]).arg(test_program(&mut cargo)?);
        run(valgrind.args(chosen).env("HIGHWATER_TEST_IO", "threads"))?;
    }
    Ok(Ended::Clean)
}

/// The program that `cargo test` would run.
fn test_program(cargo: &mut Command) -> Result<String, String> {
    eprintln!("--- {}", shown(cargo));
    let output = cargo.stderr(Stdio::inherit()).output().map_err(|error| format!("{}: {error}", shown(cargo)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", shown(cargo), output.status));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    program(&messages).ok_or_else(|| format!("{}: no program was built", shown(cargo)))
}

/// The test program that cargo's messages tell of.
fn program(messages: &str) -> Option<String> {
    messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"].as_bool()?;
        is_test.then(|| message["executable"].as_str().map(str::to_owned))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_messages() {
        let messages = "{\"profile\":{\"test\":false},\"executable\":\"/target/debug/build/script\"}\n\
            {\"profile\":{\"test\":true},\"executable\":\"/target/debug/deps/disk-1\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(program(messages).as_deref(), Some("/target/debug/deps/disk-1"));
        assert_eq!(program("{\"reason\":\"build-finished\"}"), None);
    }
}
