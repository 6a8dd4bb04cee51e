//! Counters of the running kernel, under the names of `/proc/vmstat`.
//!
//! The kernel counts most events for the whole computer. If a cgroup is given and counts an event itself, the cgroup's
//! value is used instead.
//!
//! Pages that reclaim scans and frees in a cgroup at its limit are missing from `pgscan_kswapd`, `pgscan_direct` and
//! similar counters of `/proc/vmstat`, so these counters are left out. A cgroup of version 2 counts such pages. A
//! cgroup of version 1 does not; the values are then sums over the limits of all cgroups ([`at_limits`]).
//!
//! `pgpgin` is the number of KiB that this process has read from devices (`/proc/self/io`). `pgpgout` and the counters
//! of swapping are those of the whole computer if the cgroup does not count them.

use engine::stat::Vmstat;
use figures::cgroup::{Cgroup, Version};
use figures::counters::{at_limits, named};
use machine::PAGE_BYTES;
use std::fs;

/// Prefixes of the names of counters. When reclaim works in a cgroup at its limit, the kernel raises these counters
/// only for the cgroup, and not in `/proc/vmstat`.
const KEPT_TO_CGROUP: [&str; 4] = ["pgscan", "pgsteal", "pgrefill", "allocstall"];

/// Counters that count the same events in `memory.stat` of a cgroup of version 1 and in `/proc/vmstat`.
const OF_VERSION_1: [&str; 2] = ["pgfault", "pgmajfault"];

/// A source of counters: the computer alone, or the computer and a cgroup.
#[derive(Clone, Debug)]
pub struct Counters {
    cgroup: Option<Cgroup>,
}

impl Counters {
    /// Creates a source of the computer's counters. If a cgroup is given, the counters of this cgroup are read, too;
    /// this process must be in the cgroup.
    #[must_use]
    pub fn new(cgroup: Option<Cgroup>) -> Self {
        Self { cgroup }
    }

    /// Returns the cgroup of the counters, if there is one.
    #[must_use]
    pub fn cgroup(&self) -> Option<&Cgroup> {
        self.cgroup.as_ref()
    }

    /// Returns the number of pages that can still be taken. In a cgroup, this is `memory_pages`, the cgroup's limit,
    /// less the pages that the cgroup uses. Without a cgroup, it is the number of free pages of the computer.
    #[must_use]
    pub fn free_pages(&self, memory_pages: u64) -> u64 {
        match &self.cgroup {
            Some(cgroup) => memory_pages.saturating_sub(cgroup.used_bytes().unwrap_or(0) / PAGE_BYTES as u64),
            None => named(&read("/proc/vmstat")).get("nr_free_pages").copied().unwrap_or(0),
        }
    }

    /// Reads all counters. If the cgroup counts an event itself, the result has the cgroup's count; all other counts
    /// are those of the computer.
    #[must_use]
    pub fn vmstat(&self) -> Vmstat {
        let mut vmstat = named(&read("/proc/vmstat"));
        if let Some(cgroup) = &self.cgroup {
            let at_limits = at_limits(&vmstat);
            vmstat.retain(|name, _| !KEPT_TO_CGROUP.iter().any(|kept| name.starts_with(kept)));
            let of_cgroup = named(&read(cgroup.path.join("memory.stat")));
            let counts = |name: &str| match cgroup.version {
                Version::V1 => OF_VERSION_1.contains(&name),
                // In version 2, sizes have other names than in `/proc/vmstat` and are left out.
                Version::V2 => name.starts_with("pg") || name.starts_with("workingset_") || name.starts_with("pswp"),
            };
            vmstat.extend(of_cgroup.into_iter().filter(|(name, _)| counts(name)));
            if let (Version::V1, Some(pages)) = (cgroup.version, at_limits) {
                vmstat.extend(["pgscan_direct".to_owned(), "pgsteal_direct".to_owned()].into_iter().zip(pages));
            }
        }
        match bytes_read_in() {
            Some(bytes) => vmstat.insert("pgpgin".into(), bytes / 1024),
            None => vmstat.remove("pgpgin"),
        };
        vmstat
    }
}

/// Returns the number of bytes that this process has read from devices so far; `None` if the kernel does not count
/// them.
#[must_use]
pub fn bytes_read_in() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

/// Returns the number of free pages of swap.
#[must_use]
pub fn free_swap_pages() -> u64 {
    swap_pages(&read("/proc/meminfo")).map_or(0, |[_, free]| free)
}

/// Returns the size of swap and the size of its free part, both in pages, from the text of `/proc/meminfo`; `None` if
/// the text does not have them.
#[must_use]
pub fn swap_pages(meminfo: &str) -> Option<[u64; 2]> {
    let pages = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib * 1024 / PAGE_BYTES as u64)
    };
    Some([pages("SwapTotal:")?, pages("SwapFree:")?])
}

/// Returns the number of bytes of memory that programs may still take on this computer (`MemAvailable`); `None` if the
/// kernel does not report it.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    let meminfo = read("/proc/meminfo");
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Returns the release of the running kernel, as `uname -r` prints it.
#[must_use]
pub fn release() -> String {
    read("/proc/sys/kernel/osrelease").trim().to_owned()
}

fn read(path: impl AsRef<std::path::Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
