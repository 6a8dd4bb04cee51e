//! Recording by the kernel's tracing, where that is permitted.

use crate::found::{Found, record};
use record::{Error, Means, Target};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::Duration;

/// Returns the result of a recording by tracefs. Prints a notice and returns `None` if this process may not trace.
fn permitted(found: Result<record::Recorded, Error>) -> Option<record::Recorded> {
    match found {
        Ok(recorded) => Some(recorded),
        Err(Error::Failed(why)) if why.contains("trac") => {
            eprintln!("skipped: {why}");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// Returns a new folder in the build's folder, so that its files are on a disk's file system and are read through the
/// kernel's page cache.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn the_kernel_sees_what_dd_reads() {
    let folder = folder();
    let path = folder.path().join("from");
    fs::write(&path, vec![7; 50_000]).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    let from = format!("if={}", path.display());
    let words = ["dd", &from, "of=/dev/null", "bs=8192", "status=none"];
    let Some(recorded) = permitted(record(&folder, &words, |options| options.means = Means::Tracefs)) else { return };
    let found = Found::read(&folder, recorded);
    let expected = (0..7).map(|at| format!("read from {}+{}", at * 8192, (50_000 - at * 8192).min(8192)));
    let reads = found.lines.iter().filter(|line| line.starts_with("read")).cloned().collect::<Vec<_>>();
    assert_eq!(reads, expected.collect::<Vec<_>>());
    let trace = trace::Trace::open(&crate::found::output(&folder)).unwrap();
    assert_eq!(trace.metadata()["means"], "tracefs");
    assert!(trace.metadata()["readahead_kib"].as_object().is_some_and(|it| !it.is_empty()), "{:?}", trace.metadata());
}

#[test]
fn a_process_that_runs_is_recorded() {
    let folder = folder();
    let path = folder.path().join("a");
    fs::write(&path, vec![7; 4096]).unwrap();
    // A reader that goes on for so long, and a child of it.
    let script = format!("while true; do cat {} > /dev/null; sleep 0.05; done", path.display());
    let mut reader = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let found = record(&folder, &[], |options| {
        options.means = Means::Tracefs;
        options.target = Target::Process(reader.id());
        options.seconds = Some(Duration::from_millis(700));
    });
    reader.kill().unwrap();
    reader.wait().unwrap();
    let Some(recorded) = permitted(found) else { return };
    let found = Found::read(&folder, recorded);
    assert!(found.lines.iter().filter(|line| *line == "read a 0+4096").count() >= 2, "{found:?}");
    assert!(found.tasks > 2, "{found:?}");
    let mut byte = [0];
    File::open(&path).unwrap().read_exact_at(&mut byte, 0).unwrap();
}

#[test]
fn a_process_that_is_gone_is_refused() {
    let folder = folder();
    let found = record(&folder, &[], |options| {
        options.means = Means::Tracefs;
        options.target = Target::Process(u32::MAX);
    });
    assert!(found.is_err(), "{found:?}");
    let found = record(&folder, &[], |options| options.target = Target::Process(1));
    assert!(matches!(&found, Err(Error::Usage(said)) if said.contains("tracefs")), "{found:?}");
}
