//! Counters under the names of `/proc/vmstat` in any kernel, kept by zone or not.

use engine::stat::Vmstat;

/// Returns counters from lines with a name and a number, as in `/proc/vmstat` and in a cgroup's `memory.stat`.
#[must_use]
pub fn named(text: &str) -> Vmstat {
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// Suffixes of counters that are kept by zone.
const ZONES: [&str; 7] = ["dma", "dma32", "normal", "high", "highmem", "movable", "device"];

/// Returns the zone in a counter's name `key` if this name is `name` with a zone as its suffix; otherwise none.
#[must_use]
pub fn zone_of<'k>(key: &'k str, name: &str) -> Option<&'k str> {
    key.strip_prefix(name)?.strip_prefix('_').filter(|rest| ZONES.contains(rest))
}

/// Returns the value of a counter, or the sum over its zones if the counter is only kept by zone; none if neither
/// exists.
#[must_use]
pub fn sum(counters: &Vmstat, name: &str) -> Option<u64> {
    let of_zones = || {
        let zones = counters.iter().filter(|(key, _)| zone_of(key, name).is_some());
        zones.map(|(_, value)| *value).reduce(|sum, value| sum + value)
    };
    counters.get(name).copied().or_else(of_zones)
}

/// Returns the numbers of pages that were scanned and reclaimed neither by kswapd nor by direct reclaim: at limits of
/// cgroups, by khugepaged, and on demand. Returns none for kernels before 5.8, which do not have these counters.
#[must_use]
pub fn at_limits(counters: &Vmstat) -> Option<[u64; 2]> {
    let of = |event: &str| {
        let pages = |by: &str| counters.get(&format!("{event}_{by}")).copied();
        let others = ["kswapd", "direct"].into_iter().filter_map(|by| sum(counters, &format!("{event}_{by}"))).sum();
        Some((pages("anon")? + pages("file")?).saturating_sub(others))
    };
    Some([of("pgscan")?, of("pgsteal")?])
}

/// Returns the numbers of pages reclaimed by kswapd and by others; each is none if it is not known. Kernels up to 3.3
/// counted the total and kswapd's part.
#[must_use]
pub fn reclaimed(counters: &Vmstat) -> [Option<u64>; 2] {
    match counters.get("kswapd_steal") {
        Some(kswapd) => [Some(*kswapd), sum(counters, "pgsteal").map(|all| all.saturating_sub(*kswapd))],
        None => ["pgsteal_kswapd", "pgsteal_direct"].map(|name| sum(counters, name)),
    }
}

/// Returns the growth of each counter. For a gauge that fell, the growth is 0.
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
        // A counter that is kept both by zone and in total counts once.
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
