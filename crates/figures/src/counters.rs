//! Reads counters of `/proc/vmstat` of any kernel version, whether the kernel keeps a counter for each zone or in
//! total.

use engine::stat::Vmstat;

/// Reads counters from a text of lines that have a name and a number each, as in `/proc/vmstat` and in a cgroup's
/// `memory.stat`.
#[must_use]
pub fn named(text: &str) -> Vmstat {
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// Names of zones. A counter that is kept for each zone has such a name at the end of its own name.
const ZONES: [&str; 7] = ["dma", "dma32", "normal", "high", "highmem", "movable", "device"];

/// Returns the zone at the end of a counter's name: `normal` if `key` is `pgscan_direct_normal` and `name` is
/// `pgscan_direct`. Returns `None` if `key` is not `name` with a zone.
#[must_use]
pub fn zone_of<'k>(key: &'k str, name: &str) -> Option<&'k str> {
    key.strip_prefix(name)?.strip_prefix('_').filter(|rest| ZONES.contains(rest))
}

/// Returns the value of the counter `name`. If the kernel keeps it only for each zone, returns the sum over the zones.
/// Returns `None` if the kernel has no such counter at all.
#[must_use]
pub fn sum(counters: &Vmstat, name: &str) -> Option<u64> {
    let of_zones = || {
        let zones = counters.iter().filter(|(key, _)| zone_of(key, name).is_some());
        zones.map(|(_, value)| *value).reduce(|sum, value| sum + value)
    };
    counters.get(name).copied().or_else(of_zones)
}

/// Returns how many pages were scanned, and how many were reclaimed, by reclaim other than kswapd and direct reclaim:
/// by reclaim at limits of cgroups, in khugepaged, and on demand (`memory.reclaim`). Returns `None` for kernels before
/// Linux 5.8, which lack `pgscan_anon` and the similar counters that are needed.
#[must_use]
pub fn at_limits(counters: &Vmstat) -> Option<[u64; 2]> {
    let of = |event: &str| {
        let pages = |by: &str| counters.get(&format!("{event}_{by}")).copied();
        let others = ["kswapd", "direct"].into_iter().filter_map(|by| sum(counters, &format!("{event}_{by}"))).sum();
        Some((pages("anon")? + pages("file")?).saturating_sub(others))
    };
    Some([of("pgscan")?, of("pgsteal")?])
}

/// Returns the number of pages that kswapd reclaimed, and the number that direct reclaim reclaimed. A number is `None`
/// if the kernel does not count it. Linux up to 3.3 counts the sum of both and kswapd's pages; later kernels count each
/// number by itself.
#[must_use]
pub fn reclaimed(counters: &Vmstat) -> [Option<u64>; 2] {
    match counters.get("kswapd_steal") {
        Some(kswapd) => [Some(*kswapd), sum(counters, "pgsteal").map(|all| all.saturating_sub(*kswapd))],
        None => ["pgsteal_kswapd", "pgsteal_direct"].map(|name| sum(counters, name)),
    }
}

/// Returns by how much each value grew from `before` to `after`. If a value fell, as a gauge may, the result for it is
/// 0.
#[must_use]
pub fn difference(before: &Vmstat, after: &Vmstat) -> Vmstat {
    let of = |name: &String| before.get(name).copied().unwrap_or(0);
    after.iter().map(|(name, value)| (name.clone(), value.saturating_sub(of(name)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_old_and_new_kernels_are_summed() {
        let of = |counters: &[(&str, u64)]| counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let old: Vmstat = of(&[("pgsteal_normal", 70), ("pgsteal_dma", 10), ("kswapd_steal", 50), ("allocstall", 3)]);
        assert_eq!((reclaimed(&old), sum(&old, "allocstall")), ([Some(50), Some(30)], Some(3)));
        let new: Vmstat = of(&[("pgsteal_kswapd", 70), ("allocstall_normal", 2), ("allocstall_movable", 3)]);
        assert_eq!((reclaimed(&new), sum(&new, "allocstall")), ([Some(70), None], Some(5)));
        // If a counter is kept both for each zone and in total, the total is the result.
        let both: Vmstat = of(&[("pgscan_kswapd", 70), ("pgscan_kswapd_normal", 60), ("pgscan_kswapd_dma32", 10)]);
        assert_eq!(sum(&both, "pgscan_kswapd"), Some(70));
        let scans: Vmstat = of(&[("pgscan_direct_throttle", 9), ("pgscan_direct_high", 1)]);
        assert_eq!(
            (sum(&scans, "pgscan_direct"), zone_of("pgscan_direct_high", "pgscan_direct")),
            (Some(1), Some("high"))
        );
    }

    #[test]
    fn what_neither_kswapd_nor_tasks_reclaimed_for_want_of_memory_was_reclaimed_at_limits() {
        let text = [
            ("pgscan_kswapd", 100),
            ("pgscan_direct", 20),
            ("pgscan_anon", 300),
            ("pgscan_file", 70),
            ("pgsteal_kswapd", 90),
            ("pgsteal_direct", 20),
            ("pgsteal_anon", 130),
        ];
        let mut counters: Vmstat = text.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(at_limits(&counters), None);
        counters.insert("pgsteal_file".into(), 60);
        assert_eq!(at_limits(&counters), Some([250, 80]));
    }
}
