//! Counters of the running kernel, under the names of `/proc/vmstat`.
//!
//! The kernel counts most events for the whole computer. What a cgroup counts for itself takes the place of that, and
//! what the computer's counters do not see of a cgroup is left out: reclaim in a cgroup that has reached its limit
//! scans and frees pages that `/proc/vmstat` counts neither for kswapd nor for tasks. Version 1 does not count them for the cgroup
//! either; there they are what was scanned and reclaimed at limits of all cgroups ([`at_limits`]). `pgpgin` is what this process had read
//! (`/proc/self/io`), KiB; `pgpgout` and swapping stay those of the whole computer where the cgroup does not tell.

use engine::stat::Vmstat;
use figures::cgroup::{Cgroup, Version};
use figures::counters::{at_limits, named};
use machine::PAGE_BYTES;
use std::fs;

/// Counters that reclaim in a cgroup keeps to the cgroup.
const KEPT_TO_CGROUP: [&str; 4] = ["pgscan", "pgsteal", "pgrefill", "allocstall"];

/// Of version 1's `memory.stat`, what means the same as in `/proc/vmstat`.
const OF_VERSION_1: [&str; 2] = ["pgfault", "pgmajfault"];

/// Where counters are read.
#[derive(Clone, Debug)]
pub struct Counters {
    cgroup: Option<Cgroup>,
}

impl Counters {
    /// Of the computer, and of a cgroup in which this process is.
    #[must_use]
    pub fn new(cgroup: Option<Cgroup>) -> Self {
        Self { cgroup }
    }

    /// Pages that are free: what the cgroup may still take; without one, of the computer.
    #[must_use]
    pub fn free_pages(&self, memory_pages: u64) -> u64 {
        match &self.cgroup {
            Some(cgroup) => memory_pages.saturating_sub(cgroup.used_bytes().unwrap_or(0) / PAGE_BYTES as u64),
            None => named(&read("/proc/vmstat")).get("nr_free_pages").copied().unwrap_or(0),
        }
    }

    /// All of them now.
    #[must_use]
    pub fn vmstat(&self) -> Vmstat {
        let mut vmstat = named(&read("/proc/vmstat"));
        if let Some(cgroup) = &self.cgroup {
            let at_limits = at_limits(&vmstat);
            vmstat.retain(|name, _| !KEPT_TO_CGROUP.iter().any(|kept| name.starts_with(kept)));
            let of_cgroup = named(&read(cgroup.path.join("memory.stat")));
            let counts = |name: &str| match cgroup.version {
                Version::V1 => OF_VERSION_1.contains(&name),
                // Sizes have other names there.
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

/// Bytes that this process had read from devices so far; none where the kernel does not count them.
#[must_use]
pub fn bytes_read_in() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

/// Pages of swap that are free.
#[must_use]
pub fn free_swap_pages() -> u64 {
    swap_pages(&read("/proc/meminfo")).map_or(0, |[_, free]| free)
}

/// Swap and what is free of it, pages; none where `/proc/meminfo` does not tell.
#[must_use]
pub fn swap_pages(meminfo: &str) -> Option<[u64; 2]> {
    let pages = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib * 1024 / PAGE_BYTES as u64)
    };
    Some([pages("SwapTotal:")?, pages("SwapFree:")?])
}

/// Returns the version of the running kernel.
#[must_use]
pub fn release() -> String {
    read("/proc/sys/kernel/osrelease").trim().to_owned()
}

fn read(path: impl AsRef<std::path::Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
