//! The options of a recording: its target, its means and its output.

use crate::hash::Hasher;
use crate::memory::Watch;
use std::path::PathBuf;
use std::time::Duration;

/// The target of a recording: a command, a process or a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A command with its arguments. The recording starts the command, and ends when the command ends.
    Command(Vec<String>),
    /// A running process, by its number (PID), and all processes that it starts.
    Process(u32),
    /// The processes of the cgroup with this folder, and all processes that they start.
    Cgroup(PathBuf),
}

impl Target {
    /// Returns the target in words: the command line, `process 123`, or `cgroup /sys/fs/cgroup/x`.
    #[must_use]
    pub fn described(&self) -> String {
        match self {
            Self::Command(words) => words.join(" "),
            Self::Process(process) => format!("process {process}"),
            Self::Cgroup(path) => format!("cgroup {}", path.display()),
        }
    }
}

/// The way in which requests are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// A library (the shim) that is loaded into the recorded program.
    Shim {
        /// Largest number of mapped pages that a recorded process may have open at a time. A process accesses open
        /// pages without a fault. With 0, touches of mapped pages are not recorded.
        pages_open: u64,
    },
    /// The tracing of the running kernel (tracefs).
    Tracefs,
}

/// The options of a recording: what is recorded, and in which way.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command, process or cgroup that is recorded.
    pub target: Target,
    /// The way in which requests are recorded.
    pub means: Means,
    /// Path of the file for the record.
    pub output: PathBuf,
    /// Longest duration of the recording. With `None`, the recording ends when the target ends.
    pub seconds: Option<Duration>,
    /// The way in which the target's memory is sampled. If `watch` has a cgroup, a recorded command is started in this
    /// cgroup.
    pub watch: Watch,
    /// The hasher that replaces file names by hashes in the record; `None` keeps the names.
    pub hasher: Option<Hasher>,
}
