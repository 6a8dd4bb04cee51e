//! The signs (growth of counters, and levels) of a cgroup that `memory.stat` states. The file is read from the running
//! kernel, or its text was saved before.

use super::signs::Signs;
use super::source::of_counters;
use super::usage::MemoryUse;
use engine::stat::Vmstat;
use machine::PAGE_BYTES;

/// Prefixes of the names in `memory.stat` that count events. The sizes in bytes in this file have names with other
/// prefixes.
const EVENTS: [&str; 6] = ["pg", "workingset_", "pswp", "swpin", "swpout", "thp_"];

/// Returns the signs of a cgroup from `grown`, the growth of the counters in its `memory.stat`.
#[must_use]
pub fn signs(grown: &Vmstat, elapsed_s: Option<f64>) -> Signs {
    let mut events = grown.clone();
    events.retain(|name, _| EVENTS.iter().any(|it| name.starts_with(it)));
    let of = |name: &str| events.get(name).map(|pages| *pages as f64);
    Signs {
        // Until 6.1 only the sum of all reclaimers is counted.
        stolen_together: of("pgsteal"),
        scanned_together: of("pgscan"),
        elapsed_s,
        ..of_counters(&events, elapsed_s.unwrap_or_default())
    }
}

/// Returns how a cgroup uses the memory up to its limit. `used` is the number of bytes charged to the cgroup; the rest
/// of its limit counts as free.
#[must_use]
pub fn usage(stat: &Vmstat, used: u64, limit: Option<u64>) -> MemoryUse {
    let pages = |bytes: u64| bytes as f64 / PAGE_BYTES as f64;
    let of = |names: [&str; 2]| names.iter().find_map(|name| stat.get(*name)).map(|bytes| pages(*bytes));
    MemoryUse {
        total: limit.map(pages),
        free: limit.map(|limit| pages(limit.saturating_sub(used))),
        cached: of(["file", "cache"]),
        anon: of(["anon", "rss"]),
        active_anon: of(["active_anon"; 2]),
        inactive_anon: of(["inactive_anon"; 2]),
        active_file: of(["active_file"; 2]),
        inactive_file: of(["inactive_file"; 2]),
        unevictable: of(["unevictable"; 2]),
        dirty: of(["file_dirty", "dirty"]),
        writeback: of(["file_writeback", "writeback"]),
        mapped: of(["file_mapped", "mapped_file"]),
        shmem: of(["shmem"; 2]),
        slab_reclaimable: of(["slab_reclaimable"; 2]),
        slab_unreclaimable: of(["slab_unreclaimable"; 2]),
        kernel_stack: of(["kernel_stack"; 2]),
        page_tables: of(["pagetables"; 2]),
        percpu: of(["percpu"; 2]),
        ..MemoryUse::default()
    }
}
