//! The rows that MMTests computes from `/proc/vmstat` before and after a test, and from iostat.

use std::collections::BTreeMap;

use crate::counters;
use crate::figure::{Better, Format, Row, RowName, names};
use crate::usage::DiskSample;

/// Zones in the order in which MMTests prints their scan velocities.
const ZONES: [&str; 5] = ["normal", "dma32", "dma", "highmem", "movable"];

/// Largest plausible value in a sample of iostat, both for the mean queue length and for the mean wait in ms. A sample
/// with a larger value is ignored: the first report of iostat covers the time since boot, and a counter that wrapped
/// makes absurd values.
const SAMPLE_MAX: f64 = 7200.0;

/// Smallest mean queue length, over all samples, of a device that gets rows. A device with a smaller mean queue length
/// counts as idle.
const QUEUE_MIN: f64 = 0.01;

/// Returns the names of all rows that [`vmstat_rows`] may return.
#[must_use]
pub fn vmstat_row_names() -> Vec<RowName> {
    let scans = ZONES.iter().flat_map(|zone| ["kswapd", "direct"].map(|who| (format!("pgscan_{who}_{zone}"), 1)));
    names(vmstat_rows(&scans.collect(), 1.0))
}

/// Returns the rows of the group `vmstat`. `counters` says by how much each counter of `/proc/vmstat` grew during the
/// test, which took `elapsed_s` seconds. A missing counter counts as 0; a zone without a scan counter gets no row.
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

/// A function that returns one figure of a sample of iostat.
type Part = fn(&DiskSample) -> f64;

/// Returns the rows of the group `iostat` for one device: means over all samples, then maxima. Returns no rows if there
/// are no samples, or if the device was idle.
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
