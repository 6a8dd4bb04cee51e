//! Counters under the names of `/proc/vmstat`, of any era: kept by zone or not.

use engine::stat::Vmstat;

/// How names of counters that are kept by zone end.
const ZONES: [&str; 7] = ["dma", "dma32", "normal", "high", "highmem", "movable", "device"];

/// The zone of which a counter is, if it is `name` of a zone.
#[must_use]
pub fn zone_of<'k>(key: &'k str, name: &str) -> Option<&'k str> {
    key.strip_prefix(name)?.strip_prefix('_').filter(|rest| ZONES.contains(rest))
}

/// A counter, or the sum over its zones where it is kept by zone; none where there is neither.
#[must_use]
pub fn sum(counters: &Vmstat, name: &str) -> Option<u64> {
    let is_it = |key: &str| key == name || zone_of(key, name).is_some();
    counters.iter().filter(|(key, _)| is_it(key)).map(|(_, value)| *value).reduce(|sum, value| sum + value)
}

/// Pages that kswapd reclaimed, and others. Until 3.3 the kernel counted all and kswapd's.
#[must_use]
pub fn reclaimed(counters: &Vmstat) -> [Option<u64>; 2] {
    match counters.get("kswapd_steal") {
        Some(kswapd) => [Some(*kswapd), sum(counters, "pgsteal").map(|all| all.saturating_sub(*kswapd))],
        None => ["pgsteal_kswapd", "pgsteal_direct"].map(|name| sum(counters, name)),
    }
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
        let scans: Vmstat = of(&[("pgscan_direct_throttle", 9), ("pgscan_direct_high", 1)]);
        assert_eq!(
            (sum(&scans, "pgscan_direct"), zone_of("pgscan_direct_high", "pgscan_direct")),
            (Some(1), Some("high"))
        );
    }
}
