//! Access to a cgroup by its folder: the kernel's counters and limits. `grounds::system::linux::limit` makes cgroups.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Number of bytes that one call of [`Cgroup::help`] frees for waiting processes.
const HELP_BYTES: u64 = 1 << 20;

/// The version of a cgroup hierarchy, 1 or 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Version {
    /// Version 1, with one hierarchy for each controller.
    V1,
    /// Version 2, with one hierarchy for all controllers.
    V2,
}

impl Version {
    /// Returns the version as a number: 1 or 2.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// A cgroup of the running kernel, as the path of its folder and the version of its hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Cgroup {
    /// The cgroup's folder.
    pub path: PathBuf,
    /// Version of the cgroup's hierarchy, which decides the names of its files.
    pub version: Version,
}

impl Cgroup {
    /// Returns the number of bytes charged to the cgroup now.
    ///
    /// # Errors
    /// When the cgroup's file cannot be read.
    pub fn used_bytes(&self) -> io::Result<u64> {
        let file = match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        let text = fs::read_to_string(self.path.join(file))?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// Returns the number of processes in the cgroup that the kernel has killed for lack of memory; `None` if the
    /// kernel does not count them.
    #[must_use]
    pub fn kills(&self) -> Option<u64> {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        number(&fs::read_to_string(self.path.join(file)).ok()?, "oom_kill")
    }

    /// Returns how often the cgroup reached its memory limit; `None` if the kernel does not count this.
    #[must_use]
    pub fn times_at_limit(&self) -> Option<u64> {
        times_at_limit(&self.path)
    }

    /// Returns the counts of events and the sizes, in bytes, from the cgroup's `memory.stat`. The result is empty if
    /// there is no such file.
    #[must_use]
    pub fn stat(&self) -> engine::stat::Vmstat {
        crate::counters::named(&fs::read_to_string(self.path.join("memory.stat")).unwrap_or_default())
    }

    /// Returns the text of the cgroup's `memory.pressure` (PSI); `None` if there is no such file.
    #[must_use]
    pub fn pressure(&self) -> Option<String> {
        fs::read_to_string(self.path.join("memory.pressure")).ok()
    }

    /// Returns whether processes of the cgroup wait because the cgroup is out of memory (`under_oom`). In version 2,
    /// processes never wait for this.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        let text = fs::read_to_string(self.path.join("memory.oom_control")).unwrap_or_default();
        self.version == Version::V1 && number(&text, "under_oom") == Some(1)
    }

    /// Frees some memory for processes that wait because the cgroup is out of memory, and wakes them. Works in version
    /// 1 only. For this, the limit of the cgroup is lowered and raised again.
    ///
    /// # Errors
    /// When nothing could be freed.
    pub fn help(&self) -> io::Result<()> {
        let file = self.path.join("memory.limit_in_bytes");
        let limit: u64 = fs::read_to_string(&file)?.trim().parse().map_err(io::Error::other)?;
        // When the limit is lowered, the kernel reclaims memory before the write returns. When it is raised, the kernel
        // wakes waiting tasks.
        let lowered = fs::write(&file, limit.saturating_sub(HELP_BYTES).to_string());
        fs::write(&file, limit.to_string())?;
        lowered
    }

    /// Puts a process into the cgroup.
    ///
    /// # Errors
    /// When the system does not permit it.
    pub fn put_in(&self, process: u32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), process.to_string())
    }
}

/// Returns how often the cgroup in `folder` reached its memory limit; `None` if the kernel does not count this. In
/// version 2 the number comes from `memory.events.local`, or from `memory.events` if there is no such file. In version
/// 1 it comes from `memory.failcnt`.
#[must_use]
pub fn times_at_limit(folder: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    match read("memory.events.local").or_else(|| read("memory.events")) {
        Some(events) => number(&events, "max"),
        None => read("memory.failcnt")?.trim().parse().ok(),
    }
}

/// The out-of-memory counters of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Number of allocations that were about to fail at the cgroup's limit (`oom`); 0 in version 1, which does not
    /// count them.
    pub times: u64,
    /// Number of processes in the cgroup that the out-of-memory killer has killed (`oom_kill`).
    pub kills: u64,
    /// Number of times that the cgroup was killed as a whole (`oom_group_kill`, since Linux 5.17).
    pub group_kills: u64,
    /// `true` if a process in the cgroup waits for memory and no kill will free it (`under_oom`, with
    /// `oom_kill_disable`). Always `false` in version 2.
    pub is_waiting: bool,
}

/// Returns the out-of-memory counters of the cgroup in `folder`; `None` if the cgroup has no memory controller. Events
/// of child cgroups are included only if the cgroup is of version 2 and has no file `memory.events.local`.
#[must_use]
pub fn out_of_memory(folder: &Path) -> Option<OutOfMemory> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let text = ["memory.events.local", "memory.events", "memory.oom_control"].iter().find_map(|name| read(name))?;
    let of = |name: &str| number(&text, name).unwrap_or(0);
    Some(OutOfMemory {
        times: of("oom"),
        kills: of("oom_kill"),
        group_kills: of("oom_group_kill"),
        // If the OOM killer is enabled, a process waits only until the killer has acted.
        is_waiting: of("under_oom") == 1 && of("oom_kill_disable") == 1,
    })
}

/// Returns the number after `name` on the line of `text` that begins with this name; `None` if there is no such line.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_whole_names() {
        let text = "oom_kill_disable 1\nunder_oom 0\noom_kill 3\n";
        assert_eq!(["oom_kill", "under_oom", "oom"].map(|name| number(text, name)), [Some(3), Some(0), None]);
    }
}
