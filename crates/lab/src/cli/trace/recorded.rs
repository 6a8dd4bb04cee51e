//! The command `highwater trace record`, which writes the file accesses of a running program as a trace.

use super::super::End;
use figures::cgroup::{Cgroup, Version};
use kit::interrupt;
use kit::shown::harmless;
use record::answer::answer;
use record::hash::Hasher;
use record::memory::Watch;
use record::{Error, Means, Options, Target};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for which a process or a cgroup is recorded if the user states no time.
const SECONDS: Duration = Duration::from_secs(10);

/// Arguments of `highwater trace record`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The command to run and to record, behind `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Record this process, which runs, with those that it starts; as root
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "cgroup"])]
    pid: Option<u32>,
    /// Record the processes of this cgroup, as root: its path, or its name below /sys/fs/cgroup. With a command: run the command in it
    #[arg(long, value_name = "CGROUP")]
    cgroup: Option<String>,
    /// End after so many seconds: a command runs on, unrecorded [default: 10 for --pid and --cgroup]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Record a command by the kernel's tracing, as root, and not by a library in the program: sees static programs, io_uring and
    /// program text, but no advice
    #[arg(long, conflicts_with = "pages")]
    tracefs: bool,
    /// Record each touch of a page of mapped files. So many pages are open at a time: fewer are more exact, and slower
    #[arg(long, value_name = "OPEN", num_args = 0..=1, default_missing_value = "1024", require_equals = true,
        value_parser = clap::value_parser!(u64).range(1..=65_535))]
    pages: Option<u64>,
    /// Measure which anonymous memory is touched in each interval of so many seconds. The kernel forgets for this which pages were
    /// touched, which reclaim sees
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    working_set: Option<Duration>,
    /// Look at resident memory so often
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = seconds)]
    every: Duration,
    /// Replace each part of each name by a hash under a random key
    #[arg(long)]
    hash_names: bool,
    /// Replace names by hashes under the key in this file: records with the same key have equal hashes of equal names
    #[arg(long, value_name = "FILE")]
    hash_key: Option<PathBuf>,
    /// Write the record to this file
    #[arg(long, short, value_name = "FILE.hwtrace", required = true)]
    output: PathBuf,
}

impl Arguments {
    fn options(&self) -> Result<Options, End> {
        let cgroup = self.cgroup.as_deref().map(find).transpose()?;
        let (target, is_running) = match (&*self.command, self.pid, &cgroup) {
            ([], Some(process), _) => (Target::Process(process), true),
            ([], None, Some(cgroup)) => (Target::Cgroup(cgroup.path.clone()), true),
            ([], None, None) => {
                let why = "record: what? A command behind `--`, --pid or --cgroup is expected";
                return Err(End::Usage(why.to_owned()));
            }
            (command, ..) => (Target::Command(command.to_vec()), false),
        };
        let means = if self.tracefs || is_running {
            Means::Tracefs
        } else {
            Means::Shim { pages_open: self.pages.unwrap_or(0) }
        };
        if is_running && self.pages.is_some() {
            return Err(End::Usage("--pages: the touches of pages can be recorded of a command alone".to_owned()));
        }
        let hasher = match &self.hash_key {
            Some(path) => {
                let wrong = |why: &str| End::Usage(format!("--hash-key {}: {why}", path.display()));
                let key = fs::read(path).map_err(|error| wrong(&kit::input::why(&error)))?;
                if key.trim_ascii().is_empty() {
                    // Without a key, everybody can compute the hashes of guessed names.
                    return Err(wrong("it is empty: expected a key"));
                }
                Some(Hasher::with_key(&key))
            }
            None if self.hash_names => Some(Hasher::random().map_err(|error| End::Failed(error.to_string()))?),
            None => None,
        };
        Ok(Options {
            target,
            means,
            output: self.output.clone(),
            seconds: self.seconds.or(is_running.then_some(SECONDS)),
            watch: Watch { every: self.every, working_set: self.working_set, cgroup },
            hasher,
        })
    }
}

/// Records what the user chose.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let options = arguments.options()?;
    check_output(&options.output)?;
    let _guard = interrupt::guard();
    let recorded = record::record(&options).map_err(|error| match error {
        Error::Usage(why) => End::Usage(why),
        Error::Failed(why) => End::Failed(why),
    })?;
    // Standard output belongs to the command.
    let _ = io::stderr().write_all(harmless(&answer(&options, &recorded)).as_bytes());
    match recorded.status {
        Some(status) if !status.success() && !recorded.is_interrupted => {
            Err(End::Failed(format!("the command ended with {status}; its record is complete")))
        }
        _ => Ok(()),
    }
}

/// Refuses an output that is no regular file, or whose folder does not exist, before anything runs. The record replaces
/// its output, so a device, a pipe or a link would be lost.
fn check_output(output: &Path) -> Result<(), End> {
    let refused = |why: &str| Err(End::Usage(format!("cannot write to {}: {why}", output.display())));
    match output.symlink_metadata() {
        Ok(about) if about.is_dir() => refused("it is a directory"),
        Ok(about) if !about.is_file() => refused("it is no regular file, and a record replaces its file"),
        Ok(_) => Ok(()),
        Err(_) => match output.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) if !folder.is_dir() => refused("its folder does not exist"),
            _ => Ok(()),
        },
    }
}

/// Finds a cgroup by its path or its name.
fn find(name: &str) -> Result<Cgroup, End> {
    let below = ["", "memory"].map(|folder| Path::new("/sys/fs/cgroup").join(folder).join(name));
    for path in below {
        for (file, version) in [("memory.current", Version::V2), ("memory.usage_in_bytes", Version::V1)] {
            if path.join(file).exists() {
                return Ok(Cgroup { path, version });
            }
        }
    }
    Err(End::Usage(format!("--cgroup {name}: there is no cgroup of this path, or it does not count memory")))
}

/// Parses a number of seconds above 0.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok().filter(|it| *it >= 0.001);
    let seconds = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok()).filter(|it| it.as_secs() < 1 << 30);
    seconds.ok_or_else(|| "expected a number of seconds from 0.001 on".to_owned())
}
