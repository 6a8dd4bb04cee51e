//! The rows that MMTests derives from two snapshots of `/proc/vmstat` and from iostat.

use std::collections::BTreeMap;

use crate::counters;
use crate::figure::{Better, Format, Row, RowName, names};
use crate::system::DiskSample;

/// Zones in the order in which their velocities are printed.
const ZONES: [&str; 5] = ["normal", "dma32", "dma", "highmem", "movable"];

/// Samples with a queue longer or a wait in milliseconds greater than this are dropped: iostat's first
/// report covers the time since boot, and counters that wrapped make absurd ones.
const SAMPLE_MAX: f64 = 7200.0;

/// Devices with a shorter mean queue are left out.
const QUEUE_MIN: f64 = 0.01;

/// Names of the rows that [`vmstat_rows`] may give.
#[must_use]
pub fn vmstat_row_names() -> Vec<RowName> {
    let scans = ZONES.iter().flat_map(|zone| ["kswapd", "direct"].map(|who| (format!("pgscan_{who}_{zone}"), 1)));
    names(vmstat_rows(&scans.collect(), 1.0))
}

/// The group `vmstat`: `counters` holds what each name of `/proc/vmstat` grew by during the whole test
/// of `elapsed_s` seconds. Names that an engine or era lacks count as 0, zones that have no scan
/// counter have no row.
#[must_use]
pub fn vmstat_rows(counters: &BTreeMap<String, u64>, elapsed_s: f64) -> Vec<Row> {
    use Better::{Higher, Lower, Neutral};
    let of = |name: &str| counters.get(name).copied().unwrap_or(0) as f64;
    let sum = |name: &str| counters::sum(counters, name).unwrap_or(0) as f64;
    let velocity = |pages: f64| if elapsed_s > 0.0 { pages / elapsed_s } else { 0.0 };
    let whole =
        |name: &str, unit: &str, better, value| Row::new("vmstat", name, unit, better, Format::Decimals(0), value);
    let rate = |name: &str, value| Row::new("vmstat", name, "pages/s", Lower, Format::Decimals(3), value);
    let share = |name: &str, better, value: f64| Row::new("vmstat", name, "%", better, Format::Percent, value.trunc());

    let (kswapd_scanned, direct_scanned) = (sum("pgscan_kswapd"), sum("pgscan_direct"));
    let [kswapd_freed, direct_freed] = counters::reclaimed(counters).map(|pages| pages.unwrap_or(0) as f64);
    let efficiency = |freed: f64, scanned: f64| if scanned > 0.0 { 100.0 * freed / scanned } else { 100.0 };
    let scanned = kswapd_scanned + direct_scanned;

    let mut rows = vec![
        whole("Minor Faults", "faults", Lower, of("pgfault") - of("pgmajfault")),
        whole("Major Faults", "faults", Lower, of("pgmajfault")),
        whole("Swap Ins", "pages", Lower, of("pswpin")),
        whole("Swap Outs", "pages", Lower, of("pswpout")),
        whole("Direct pages scanned", "pages", Lower, direct_scanned),
        whole("Kswapd pages scanned", "pages", Lower, kswapd_scanned),
        whole("Kswapd pages reclaimed", "pages", Neutral, kswapd_freed),
        whole("Direct pages reclaimed", "pages", Neutral, direct_freed),
        share("Kswapd efficiency", Higher, efficiency(kswapd_freed, kswapd_scanned)),
        rate("Kswapd velocity", velocity(kswapd_scanned)),
        share("Direct efficiency", Higher, efficiency(direct_freed, direct_scanned)),
        rate("Direct velocity", velocity(direct_scanned)),
        share("Percentage direct scans", Lower, if scanned > 0.0 { 100.0 * direct_scanned / scanned } else { 0.0 }),
    ];
    for zone in ZONES {
        let names = ["pgscan_kswapd", "pgscan_direct"].map(|scan| format!("{scan}_{zone}"));
        if names.iter().any(|name| counters.contains_key(name)) {
            rows.push(rate(&format!("Zone {zone} velocity"), velocity(of(&names[0]) + of(&names[1]))));
        }
    }
    let (writes, swap_outs) = (of("nr_vmscan_write"), of("pswpout"));
    rows.extend([
        whole("Page writes by reclaim", "pages", Lower, writes),
        whole("Page writes file", "pages", Lower, writes - swap_outs),
        whole("Page writes anon", "pages", Lower, swap_outs),
        whole("Page reclaim immediate", "pages", Lower, of("nr_vmscan_immediate_reclaim")),
        whole("Sector Reads", "KiB", Lower, of("pgpgin")),
        whole("Sector Writes", "KiB", Lower, of("pgpgout")),
        whole("Page rescued immediate", "pages", Neutral, of("pgrescued")),
        whole("Slabs scanned", "objects", Lower, of("slabs_scanned")),
        whole("Direct inode steals", "pages", Lower, of("pginodesteal")),
        whole("Kswapd inode steals", "pages", Lower, of("kswapd_inodesteal")),
        whole("Kswapd skipped wait", "events", Neutral, of("kswapd_skip_congestion_wait")),
    ]);
    rows
}

/// One figure of a sample.
type Part = fn(&DiskSample) -> f64;

/// The group `iostat` of one device: means, then maxima, over the samples taken. No rows when nothing
/// was sampled or the device was idle.
#[must_use]
pub fn iostat_rows(device: &str, samples: &[DiskSample]) -> Vec<Row> {
    let kept: Vec<&DiskSample> =
        samples.iter().filter(|sample| sample.avgqz <= SAMPLE_MAX && sample.await_ms <= SAMPLE_MAX).collect();
    let columns: [(&str, &str, Part); 4] = [
        ("avgqz", "requests", |sample| sample.avgqz),
        ("await", "ms", |sample| sample.await_ms),
        ("r_await", "ms", |sample| sample.r_await_ms),
        ("w_await", "ms", |sample| sample.w_await_ms),
    ];
    let mean = |of: Part| kept.iter().map(|sample| of(sample)).sum::<f64>() / kept.len() as f64;
    let max = |of: Part| kept.iter().map(|sample| of(sample)).fold(0.0, f64::max);
    if kept.is_empty() || mean(|sample| sample.avgqz) < QUEUE_MIN {
        return Vec::new();
    }
    let row = |statistic: &str, name: &str, unit: &str, value| {
        let name = format!("{statistic} {device}-{name}");
        Row::new("iostat", name, unit, Better::Lower, Format::Decimals(2), value)
    };
    let means = columns.iter().map(|(name, unit, of)| row("Mean", name, unit, mean(*of)));
    let maxima = columns.iter().map(|(name, unit, of)| row("Max", name, unit, max(*of)));
    means.chain(maxima).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Published;

    fn published() -> Published {
        let text = crate::embedded::text("experiments/parallelio/published.toml").unwrap();
        Published::parse("published.toml", text).unwrap()
    }

    /// Counters of the posting of 28 Jun 2013, put back together from its rows; `column` is its column.
    fn counters(published: &Published, column: usize) -> (BTreeMap<String, u64>, f64) {
        let of = |name: &str| published.rows.iter().find(|row| row.name == name).unwrap().values[column];
        let elapsed_s = of("Kswapd pages scanned") / of("Kswapd velocity");
        let zone = |zone: &str| (of(&format!("Zone {zone} velocity")) * elapsed_s).round() as u64;
        let (kswapd, direct) = (of("Kswapd pages scanned") as u64, of("Direct pages scanned") as u64);
        let (normal, dma32) = (zone("normal"), zone("dma32"));
        let direct_normal = direct.min(normal);
        let counters = [
            ("pgfault", of("Minor Faults") + of("Major Faults")),
            ("pgmajfault", of("Major Faults")),
            ("pswpin", of("Swap Ins")),
            ("pswpout", of("Swap Outs")),
            ("pgscan_kswapd_normal", (normal - direct_normal) as f64),
            ("pgscan_kswapd_dma32", (kswapd - (normal - direct_normal)) as f64),
            ("pgscan_kswapd_dma", 0.0),
            ("pgscan_direct_normal", direct_normal as f64),
            ("pgscan_direct_dma32", (direct - direct_normal) as f64),
            ("pgscan_direct_dma", 0.0),
            ("pgscan_direct_throttle", 77.0),
            ("pgsteal_kswapd_normal", of("Kswapd pages reclaimed") - 5.0),
            ("pgsteal_kswapd_dma32", 5.0),
            ("pgsteal_direct_normal", of("Direct pages reclaimed")),
            ("nr_vmscan_write", of("Page writes by reclaim")),
            ("nr_vmscan_immediate_reclaim", of("Page reclaim immediate")),
            ("pgpgin", of("Sector Reads")),
            ("pgpgout", of("Sector Writes")),
            ("slabs_scanned", of("Slabs scanned")),
            ("kswapd_inodesteal", of("Kswapd inode steals")),
        ];
        assert!(zone("dma") == 0 && dma32.abs_diff(kswapd + direct - normal) <= 2, "zones do not sum");
        (counters.map(|(name, value)| (name.to_owned(), value as u64)).into(), elapsed_s)
    }

    #[test]
    fn every_vmstat_row_of_the_posting_comes_out_as_printed() {
        let published = published();
        for column in 0..3 {
            let (counters, elapsed_s) = counters(&published, column);
            let rows = vmstat_rows(&counters, elapsed_s);
            let printed: Vec<_> = published.rows.iter().filter(|row| row.group == "vmstat").collect();
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            assert_eq!(names, printed.iter().map(|row| row.name.as_str()).collect::<Vec<_>>());
            for (row, printed) in rows.iter().zip(printed) {
                let expected = printed.values[column];
                assert_eq!((row.unit.as_str(), row.better), (printed.unit.as_str(), printed.better()), "{}", row.name);
                // Velocities of zones went through a whole number of pages.
                let slack = if row.name.starts_with("Zone") { 0.002 } else { 0.0005 };
                assert!((row.value - expected).abs() <= slack, "{}: {} for {expected}", row.name, row.value);
            }
        }
    }

    #[test]
    fn checks_that_hold_in_the_posting_hold_in_the_rows() {
        let (counters, elapsed_s) = counters(&published(), 0);
        let rows = vmstat_rows(&counters, elapsed_s);
        let of = |name: &str| rows.iter().find(|row| row.name == name).unwrap().value;
        let zones: f64 = ["normal", "dma32", "dma"].map(|zone| of(&format!("Zone {zone} velocity"))).iter().sum();
        assert!((zones - of("Kswapd velocity") - of("Direct velocity")).abs() < 1e-9);
        assert_eq!(of("Page writes file") + of("Page writes anon"), of("Page writes by reclaim"));
        assert_eq!(of("Page writes anon"), of("Swap Outs"));
        assert!((elapsed_s - 1165.73).abs() < 0.01);
    }

    #[test]
    fn efficiency_is_truncated_and_full_when_nothing_was_scanned() {
        let rows =
            vmstat_rows(&[("pgscan_kswapd_normal".into(), 1000), ("pgsteal_kswapd_normal".into(), 679)].into(), 0.0);
        let of = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!((of("Kswapd efficiency").value, of("Direct efficiency").value), (67.0, 100.0));
        assert_eq!(of("Kswapd velocity").value, 0.0);
        assert_eq!(of("Kswapd efficiency").format.show(67.0), "67");
    }

    #[test]
    fn counters_of_other_eras_are_summed() {
        let old = [("pgscan_kswapd_dma32", 70), ("pgsteal_dma32", 50), ("pgsteal_normal", 20), ("kswapd_steal", 60)];
        let rows = vmstat_rows(&old.map(|(name, value)| (name.to_owned(), value)).into(), 1.0);
        let of = |rows: &[Row], name: &str| rows.iter().find(|row| row.name == name).unwrap().value;
        assert_eq!((of(&rows, "Kswapd pages reclaimed"), of(&rows, "Direct pages reclaimed")), (60.0, 10.0));
        let new = [("pgscan_kswapd", 70), ("pgsteal_kswapd", 60), ("pgsteal_direct", 10)];
        let rows = vmstat_rows(&new.map(|(name, value)| (name.to_owned(), value)).into(), 1.0);
        assert_eq!((of(&rows, "Kswapd pages scanned"), of(&rows, "Direct pages reclaimed")), (70.0, 10.0));
        assert!(!rows.iter().any(|row| row.name.starts_with("Zone")));
    }

    #[test]
    fn absurd_samples_are_dropped_but_long_write_waits_stay() {
        let sample = |avgqz, await_ms, w_await_ms| DiskSample { avgqz, await_ms, r_await_ms: 8.0, w_await_ms };
        let rows = iostat_rows(
            "sda",
            &[
                sample(100.0, 800.0, 30_565.93),
                sample(9000.0, 1.0, 1.0),
                sample(1.0, 7201.0, 1.0),
                sample(200.0, 1000.0, 0.0),
            ],
        );
        let shown: Vec<String> =
            rows.iter().map(|row| format!("{} {}", row.name, row.format.show(row.value))).collect();
        assert_eq!(
            shown,
            [
                "Mean sda-avgqz 150.00",
                "Mean sda-await 900.00",
                "Mean sda-r_await 8.00",
                "Mean sda-w_await 15282.97",
                "Max sda-avgqz 200.00",
                "Max sda-await 1000.00",
                "Max sda-r_await 8.00",
                "Max sda-w_await 30565.93",
            ]
        );
        assert!(iostat_rows("sdb", &[sample(0.001, 1.0, 1.0)]).is_empty());
        assert!(iostat_rows("sdc", &[]).is_empty());
        let published = published();
        let printed: Vec<&str> =
            published.rows.iter().filter(|row| row.group == "iostat").map(|row| row.name.as_str()).collect();
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), printed);
    }
}
