//! Periodic lines of figures, in the style of `vmstat`.

use super::snapshot::Snapshot;
use engine::stat::Vmstat;
use figures::counters;
use figures::counters::difference;
use machine::PAGE_BYTES;

/// The columns of a line, each with its name, unit and width.
const COLUMNS: [(&str, &str, usize); 14] = [
    ("time", "s", 8),
    ("free", "MiB", 8),
    ("scan-k", "pages/s", 8),
    ("scan-d", "pages/s", 8),
    ("steal", "pages/s", 8),
    ("eff", "%", 5),
    ("refault", "pages/s", 8),
    ("swpin", "pages/s", 7),
    ("swpout", "pages/s", 7),
    ("majflt", "/s", 7),
    ("stall", "/s", 6),
    ("kswapd", "CPU%", 7),
    ("psi-some", "%", 8),
    ("psi-full", "%", 8),
];

/// Names of refault counters: the single counter until Linux 5.8, and the counters for anonymous and for file pages
/// since Linux 5.9.
const REFAULTS: [&str; 3] = ["workingset_refault", "workingset_refault_anon", "workingset_refault_file"];

/// Returns the heading: a line of names and a line of units. The columns are: time since the beginning; free memory;
/// pages scanned by kswapd; pages scanned by all other reclaim (by tasks, and at the limits of cgroups); pages
/// reclaimed, and their share of the scanned pages; refaults; pages swapped in and out; major faults; direct reclaims;
/// CPU time of kswapd; time stalled for memory.
#[must_use]
pub fn heading() -> String {
    let line = |word: fn(&(&'static str, &'static str, usize)) -> &'static str| -> String {
        COLUMNS.iter().map(|column| format!(" {:>width$}", word(column), width = column.2)).collect()
    };
    format!("{}\n{}", line(|(name, ..)| name), line(|(_, unit, _)| unit))
}

/// Returns the value of a counter. If the kernel has it only for each zone, returns the sum over the zones. Returns 0
/// if the kernel has neither.
fn sum(counters: &Vmstat, name: &str) -> u64 {
    counters::sum(counters, name).unwrap_or(0)
}

/// Returns the line of figures about the time between two snapshots. `at_s` is the time of the second snapshot, in
/// seconds since the command began to observe.
#[must_use]
pub fn line(before: &Snapshot, after: &Snapshot, at_s: f64) -> String {
    let counters = difference(&before.vmstat, &after.vmstat);
    let seconds = after.seconds_since(before).max(1e-9);
    let rate = |pages: u64| format!("{:.0}", pages as f64 / seconds);
    let [kswapd, direct] = ["pgscan_kswapd", "pgscan_direct"].map(|name| sum(&counters, name));
    let [scanned_at_limits, stolen_at_limits] = counters::at_limits(&counters).unwrap_or_default();
    let stolen = counters::reclaimed(&counters).into_iter().flatten().sum::<u64>() + stolen_at_limits;
    let direct = direct + scanned_at_limits;
    let scanned = kswapd + direct;
    let efficiency = if scanned > 0 { format!("{:.0}", 100.0 * stolen as f64 / scanned as f64) } else { "-".into() };
    let free_mib = (after.vmstat.get("nr_free_pages").copied().unwrap_or(0) * PAGE_BYTES as u64) >> 20;
    let cpu_s = |snapshot: &Snapshot| -> f64 {
        snapshot.kernel_cpu_s.iter().filter(|(name, _)| name.starts_with("kswapd")).map(|(_, time)| *time).sum()
    };
    let stalled = |of: fn(&super::snapshot::Stalled) -> u64| {
        let us = |snapshot: &Snapshot| snapshot.stalled.get("memory").map(of);
        match (us(before), us(after)) {
            (Some(before), Some(after)) => format!("{:.1}", after.saturating_sub(before) as f64 / 1e4 / seconds),
            _ => "-".into(),
        }
    };
    let values: [String; COLUMNS.len()] = [
        format!("{at_s:.1}"),
        free_mib.to_string(),
        rate(kswapd),
        rate(direct),
        rate(stolen),
        efficiency,
        rate(REFAULTS.iter().map(|name| sum(&counters, name)).sum()),
        rate(sum(&counters, "pswpin")),
        rate(sum(&counters, "pswpout")),
        rate(sum(&counters, "pgmajfault")),
        rate(sum(&counters, "allocstall")),
        format!("{:.1}", 100.0 * (cpu_s(after) - cpu_s(before)).max(0.0) / seconds),
        stalled(|it| it.some_us),
        stalled(|it| it.full_us),
    ];
    values.iter().zip(COLUMNS).map(|(value, (.., width))| format!(" {value:>width$}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use figures::counters::named;
    use std::time::{Duration, Instant};

    #[test]
    fn a_line_has_rates_under_their_headings() {
        let begun = Instant::now();
        let at = |s: u64, text: &str| Snapshot {
            vmstat: named(text),
            read_at: Some(begun + Duration::from_secs(s)),
            ..Snapshot::default()
        };
        let before =
            at(1, "pgscan_kswapd 0\npgscan_direct 0\npgsteal_kswapd 0\npgscan_direct_throttle 0\nnr_free_pages 512\n");
        let after = at(
            3,
            "pgscan_kswapd 400\npgscan_direct 100\npgsteal_kswapd 250\npgscan_direct_throttle 9\nnr_free_pages 512\n",
        );
        let line = line(&before, &after, 2.0);
        assert_eq!(line.split_whitespace().take(6).collect::<Vec<_>>(), ["2.0", "2", "200", "50", "125", "50"]);
        // Pages that only the counters by kind include were scanned at limits of cgroups.
        let at_limits = "pgscan_anon 700\npgscan_file 100\npgsteal_anon 250\npgsteal_file 100\n";
        let before = at(1, &format!("{0}{1}", "pgscan_kswapd 0\n", at_limits.replace(['1', '2', '5', '7'], "0")));
        let after = at(3, &format!("{0}{1}", "pgscan_kswapd 400\n", at_limits));
        let line_at_limits = super::line(&before, &after, 2.0);
        assert_eq!(
            line_at_limits.split_whitespace().take(6).collect::<Vec<_>>(),
            ["2.0", "0", "200", "200", "175", "44"]
        );
        let heading = heading();
        let [names, units]: [&str; 2] = heading.lines().collect::<Vec<_>>().try_into().unwrap();
        assert_eq!([names.len(), units.len()], [line.len(); 2], "each stands over its column");
        let first = |line: &str| line.split_whitespace().take(6).map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(first(names), ["time", "free", "scan-k", "scan-d", "steal", "eff"]);
        assert_eq!(first(units), ["s", "MiB", "pages/s", "pages/s", "pages/s", "%"]);
    }
}
