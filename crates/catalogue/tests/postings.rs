//! Tests that rows printed in a posting follow from the posting's counters (`figures::mmtests`, `figures::vmscan`).

use catalogue::embedded;
use catalogue::experiment::Published;
use figures::figure::Row;
use figures::mmtests::{iostat_rows, vmstat_rows};
use figures::usage::DiskSample;
use figures::vmscan;
use std::collections::BTreeMap;

fn published() -> Published {
    let text = embedded::text("experiments/parallelio/published.toml").unwrap();
    Published::parse("published.toml", text).unwrap()
}

/// Returns the counters of the posting of 28 Jun 2013, reconstructed from the rows of `column`.
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
            // The posting computed the velocity of a zone from a whole number of pages, so a recomputed velocity
            // differs a little.
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
    let rows = vmstat_rows(&[("pgscan_kswapd_normal".into(), 1000), ("pgsteal_kswapd_normal".into(), 679)].into(), 0.0);
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
    let shown: Vec<String> = rows.iter().map(|row| format!("{} {}", row.name, row.format.show(row.value))).collect();
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

/// Computes figures from the counters in postings, and compares the figures with those in the postings.
#[test]
fn derived_rows_recompute_to_the_printed_digit() {
    for name in ["streaming", "postmark"] {
        let text = embedded::text(&format!("experiments/{name}/published.toml")).unwrap();
        let published = Published::parse("published.toml", text).unwrap();
        for kernel in &published.columns {
            let figure = |name: &str| {
                let group = if name.ends_with("Faults") { "faults" } else { "vmscan" };
                published.figure(group, name, kernel).unwrap().value
            };
            let counters = [
                ("pgscan_kswapd_normal", "Kswapd pages scanned"),
                ("pgscan_direct_normal", "Direct reclaim pages scanned"),
                ("pgsteal_kswapd_normal", "Kswapd pages reclaimed"),
                ("pgsteal_direct_normal", "Direct reclaim pages reclaimed"),
                ("nr_vmscan_write", "Pages written"),
                ("allocstall", "Direct reclaims"),
            ];
            let counters = counters.iter().map(|(key, name)| ((*key).to_owned(), figure(name) as u64)).collect();
            for row in vmscan::rows(&counters).iter().filter(|row| row.group == "vmscan" && row.name.contains("otal")) {
                let printed = format!("{:.2}", figure(&row.name));
                assert_eq!(format!("{:.2}", row.value), printed, "{} of {kernel}", row.name);
            }
        }
    }
}
