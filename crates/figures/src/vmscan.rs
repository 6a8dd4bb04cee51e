//! The rows that MMTests printed in 2010 and 2011: the duration, reclaim statistics from `/proc/vmstat`, and page
//! faults. Source: mechanisms/benchmarks, 2.2.

use crate::counters;
use crate::figure::{Better, Format, Row, RowName, names};
use crate::usage::CpuTimes;
use engine::stat::Vmstat;

/// Returns the rows of the group `duration`: CPU time and elapsed time of the test.
#[must_use]
pub fn duration_rows(cpu: CpuTimes, elapsed_s: f64) -> Vec<Row> {
    let row = |name: &str, value| Row::new("duration", name, "s", Better::Lower, Format::Decimals(2), value);
    vec![
        row("User/Sys Time Running Test (seconds)", (cpu.user + cpu.system).as_secs_f64()),
        row("Total Elapsed Time (seconds)", elapsed_s),
    ]
}

/// Returns the names of all rows that [`duration_rows`] and [`rows`] may return.
#[must_use]
pub fn row_names() -> Vec<RowName> {
    let counters = DIAGNOSIS.map(|(_, counter)| (counter.to_owned(), 1)).into();
    names([duration_rows(CpuTimes::default(), 1.0), rows(&counters)].concat())
}

/// Names of the rows of the group `diagnosis`, each with the name of the counter that the row shows. The counters say
/// whether memory was ever requested in blocks of several pages, and whether kswapd was ever woken for such a block.
const DIAGNOSIS: [(&str, &str); 2] =
    [("Requests of order > 0", "alloc_high_order"), ("Of them below the low mark", "alloc_high_order_slow")];

/// Returns the rows of the groups `vmscan` and `faults`. `counters` has the growth of each counter of `/proc/vmstat`.
/// If it also has the counters of the group `diagnosis`, which only the engine counts, returns the rows of this group,
/// too.
#[must_use]
pub fn rows(counters: &Vmstat) -> Vec<Row> {
    use Better::{Higher, Lower, Neutral};
    let of = |name: &str| counters.get(name).copied().unwrap_or(0) as f64;
    let known = |pages: Option<u64>| pages.unwrap_or(0) as f64;
    let [kswapd_scanned, direct_scanned] =
        ["pgscan_kswapd", "pgscan_direct"].map(|name| known(counters::sum(counters, name)));
    let [kswapd_freed, direct_freed] = counters::reclaimed(counters).map(known);
    let (scanned, freed, written) =
        (kswapd_scanned + direct_scanned, kswapd_freed + direct_freed, of("nr_vmscan_write"));
    let percent = |part: f64| if scanned > 0.0 { 100.0 * part / scanned } else { 0.0 };
    let major = of("pgmajfault");
    let rows: [(&str, &str, &str, Better, u8, f64); 21] = [
        ("vmscan", "Direct reclaims", "events", Lower, 0, of("allocstall")),
        ("vmscan", "Direct reclaim pages scanned", "pages", Lower, 0, direct_scanned),
        ("vmscan", "Direct reclaim pages reclaimed", "pages", Neutral, 0, direct_freed),
        ("vmscan", "Kswapd pages scanned", "pages", Lower, 0, kswapd_scanned),
        ("vmscan", "Kswapd pages reclaimed", "pages", Neutral, 0, kswapd_freed),
        ("vmscan", "Kswapd low wmark quickly", "events", Neutral, 0, of("kswapd_low_wmark_hit_quickly")),
        ("vmscan", "Kswapd high wmark quickly", "events", Neutral, 0, of("kswapd_high_wmark_hit_quickly")),
        ("vmscan", "Kswapd skip congestion_wait", "events", Neutral, 0, of("kswapd_skip_congestion_wait")),
        ("vmscan", "Pages activated", "pages", Neutral, 0, of("pgactivate")),
        ("vmscan", "Pages deactivated", "pages", Neutral, 0, of("pgdeactivate")),
        ("vmscan", "Pages written", "pages", Lower, 0, written),
        ("vmscan", "Total pages scanned", "pages", Lower, 0, scanned),
        ("vmscan", "Total pages reclaimed", "pages", Neutral, 0, freed),
        ("vmscan", "%age total pages scanned/reclaimed", "%", Higher, 2, percent(freed)),
        ("vmscan", "%age total pages scanned/written", "%", Lower, 2, percent(written)),
        ("faults", "Major Faults", "faults", Lower, 0, major),
        ("faults", "Minor Faults", "faults", Neutral, 0, of("pgfault") - major),
        ("faults", "Page ins", "KiB", Lower, 0, of("pgpgin")),
        ("faults", "Page outs", "KiB", Lower, 0, of("pgpgout")),
        ("faults", "Swap ins", "pages", Lower, 0, of("pswpin")),
        ("faults", "Swap outs", "pages", Lower, 0, of("pswpout")),
    ];
    let row = |(group, name, unit, better, decimals, value): (&str, &str, &str, Better, u8, f64)| {
        Row::new(group, name, unit, better, Format::Decimals(decimals), value)
    };
    let mut rows: Vec<Row> = rows.into_iter().map(row).collect();
    for (name, counter) in DIAGNOSIS.into_iter().filter(|(_, counter)| counters.contains_key(*counter)) {
        rows.push(Row::new("diagnosis", name, "requests", Neutral, Format::Decimals(0), of(counter)));
    }
    rows
}
