//! What a recording found, as lines.

use record::memory::Watch;
use record::{Error, Means, Options, Recorded, Target};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use trace::{Operation, Trace};

/// The requests that concern files of a folder: `read name 0+4096`.
#[derive(Debug)]
pub struct Found {
    /// One for each request.
    pub lines: Vec<String>,
    /// Operation, name, offset and length of each.
    pub requests: Vec<(Operation, String, u64, u64)>,
    /// Number of tasks, threads included.
    pub tasks: usize,
    /// What was not seen.
    pub not_seen: Vec<String>,
}

/// Returns the path of the record of a test.
pub fn output(folder: &TempDir) -> PathBuf {
    folder.path().join("record.hwtrace")
}

/// Records a command with changed options.
pub fn record(folder: &TempDir, words: &[&str], change: impl FnOnce(&mut Options)) -> Result<Recorded, Error> {
    let mut options = Options {
        target: Target::Command(words.iter().map(|word| (*word).to_owned()).collect()),
        means: Means::Shim { pages_open: 0 },
        output: output(folder),
        seconds: None,
        watch: Watch { every: Duration::from_millis(20), working_set: None, cgroup: None },
        hasher: None,
    };
    change(&mut options);
    record::record(&options)
}

/// Records a command.
pub fn recorded(folder: &TempDir, words: &[&str]) -> Found {
    let recorded = record(folder, words, |_| {}).unwrap();
    Found::read(folder, recorded)
}

impl Found {
    /// Reads the record of a folder.
    pub fn read(folder: &TempDir, recorded: Recorded) -> Self {
        let mode = std::os::unix::fs::PermissionsExt::mode(&output(folder).metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "a record has names of files, for its owner alone");
        let trace = Trace::open(&output(folder)).unwrap();
        let folder = format!("{}/", folder.path().canonicalize().unwrap().display());
        let mut requests = Vec::new();
        for request in trace.requests() {
            if matches!(request.operation, Operation::Fork | Operation::Exit) {
                continue;
            }
            let name = trace.file_name(request.file).map(String::from_utf8_lossy).unwrap_or_default();
            if let Some(name) = name.strip_prefix(&folder) {
                requests.push((request.operation, name.to_owned(), request.offset, request.len));
            }
        }
        let line = |(operation, name, offset, len): &(Operation, String, u64, u64)| {
            format!("{} {name} {offset}+{len}", operation.name())
        };
        let tasks = trace.metadata()["tasks"].as_array().map_or(0, Vec::len);
        Self { lines: requests.iter().map(line).collect(), requests, tasks, not_seen: recorded.not_seen }
    }

    /// Returns whether there is such a request.
    pub fn has(&self, line: &str) -> bool {
        self.lines.iter().any(|it| it == line)
    }

    /// Returns how many bytes of a file were concerned, each exactly once; panics if one was twice.
    pub fn covered(&self, operation: &str, name: &str) -> u64 {
        let mut ranges = self.requests.iter().filter(|it| it.0.name() == operation && it.1 == name).collect::<Vec<_>>();
        ranges.sort_by_key(|it| it.2);
        let mut end = 0;
        for (_, _, offset, len) in &ranges {
            assert_eq!(*offset, end, "{operation} {name}: {ranges:?}");
            end += len;
        }
        end
    }
}
