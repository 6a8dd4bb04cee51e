//! The requests that a recording found, as lines of text.

use record::memory::Watch;
use record::{Error, Means, Options, Recorded, Target};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use trace::{Operation, Trace};

/// The recorded requests that concern files in the test's folder, and two more results of the recording.
#[derive(Debug)]
pub struct Found {
    /// A line for each request, such as `read name 0+4096` (operation, file name, offset, length).
    pub lines: Vec<String>,
    /// Operation, file name, offset and length of each request.
    pub requests: Vec<(Operation, String, u64, u64)>,
    /// Number of tasks, threads included.
    pub tasks: usize,
    /// The activities that the recording could not see, in words.
    pub not_seen: Vec<String>,
}

/// Returns the path of the record of a test.
pub fn output(folder: &TempDir) -> PathBuf {
    folder.path().join("record.hwtrace")
}

/// Records the command `words` with the default options of these tests, after `change` has changed them.
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

    /// Returns whether the recording has a request with the text `line`.
    pub fn has(&self, line: &str) -> bool {
        self.lines.iter().any(|it| it == line)
    }

    /// Returns the number of bytes of the file `name` that requests of the kind `operation` cover. Panics if two
    /// requests cover the same byte.
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
