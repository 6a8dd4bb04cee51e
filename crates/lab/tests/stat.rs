//! Tests `highwater stat` on two snapshots: its figures must equal those that the test computes as MMTests does.
#![cfg(all(feature = "linux", target_os = "linux"))]

use lab::stat::snapshot::Source;
use lab::stat::{Interval, Snapshot};
use std::collections::HashMap;
use std::fs;

/// Returns a counter in a text of `/proc/vmstat`; 0 if the counter is missing, as in MMTests.
fn by_hand(text: &str, name: &str) -> i64 {
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.map_or(0, |line| line.split(' ').nth(1).expect("a value").parse().expect("a number"))
}

/// Computes the rows of MMTests from `/proc/vmstat` before and after a test, and formats each row as MMTests prints it
/// (mechanisms/benchmarks, 2.2 and 2.5). Kernels up to 4.7 have a counter for each zone, and the counters of all zones
/// are added. Later kernels have one counter for all zones.
fn mmtests(before: &str, after: &str, elapsed_s: f64) -> HashMap<&'static str, String> {
    let grown = |name: &str| by_hand(after, name) - by_hand(before, name);
    let zones = ["dma", "dma32", "normal", "high", "movable"];
    let by_zone = |name: &str| zones.iter().map(|zone| grown(&format!("{name}_{zone}"))).sum::<i64>() + grown(name);
    let kswapd_scan = by_zone("pgscan_kswapd");
    let direct_scan = by_zone("pgscan_direct");
    let is_of_old = after.lines().any(|line| line.starts_with("kswapd_steal "));
    let (kswapd_steal, direct_steal) = if is_of_old {
        (grown("kswapd_steal"), by_zone("pgsteal") - grown("kswapd_steal"))
    } else {
        (by_zone("pgsteal_kswapd"), by_zone("pgsteal_direct"))
    };
    let percent = |part: i64, of: i64, none: i64| if of == 0 { none } else { part * 100 / of };
    let velocity = |pages: i64| format!("{:.3}", pages as f64 / elapsed_s);
    let scan_of = |zone: &str| grown(&format!("pgscan_kswapd_{zone}")) + grown(&format!("pgscan_direct_{zone}"));
    let has_zones = after.contains("pgscan_kswapd_dma");
    let mut rows = HashMap::from([
        ("Minor Faults", (grown("pgfault") - grown("pgmajfault")).to_string()),
        ("Major Faults", grown("pgmajfault").to_string()),
        ("Swap Ins", grown("pswpin").to_string()),
        ("Swap Outs", grown("pswpout").to_string()),
        ("Direct pages scanned", direct_scan.to_string()),
        ("Kswapd pages scanned", kswapd_scan.to_string()),
        ("Kswapd pages reclaimed", kswapd_steal.to_string()),
        ("Direct pages reclaimed", direct_steal.to_string()),
        ("Kswapd efficiency", percent(kswapd_steal, kswapd_scan, 100).to_string()),
        ("Kswapd velocity", velocity(kswapd_scan)),
        ("Direct efficiency", percent(direct_steal, direct_scan, 100).to_string()),
        ("Direct velocity", velocity(direct_scan)),
        ("Percentage direct scans", percent(direct_scan, kswapd_scan + direct_scan, 0).to_string()),
        ("Page writes by reclaim", grown("nr_vmscan_write").to_string()),
        ("Page writes file", (grown("nr_vmscan_write") - grown("pswpout")).to_string()),
        ("Page writes anon", grown("pswpout").to_string()),
        ("Page reclaim immediate", grown("nr_vmscan_immediate_reclaim").to_string()),
        ("Sector Reads", grown("pgpgin").to_string()),
        ("Sector Writes", grown("pgpgout").to_string()),
        ("Page rescued immediate", grown("pgrescued").to_string()),
        ("Slabs scanned", grown("slabs_scanned").to_string()),
        ("Direct inode steals", grown("pginodesteal").to_string()),
        ("Kswapd inode steals", grown("kswapd_inodesteal").to_string()),
        ("Kswapd skipped wait", grown("kswapd_skip_congestion_wait").to_string()),
    ]);
    if has_zones {
        rows.insert("Zone normal velocity", velocity(scan_of("normal")));
        rows.insert("Zone dma32 velocity", velocity(scan_of("dma32")));
        rows.insert("Zone dma velocity", velocity(scan_of("dma")));
    }
    rows
}

/// Returns the groups `vmstat` and `counters` that `stat` prints for two texts of `/proc/vmstat`.
fn printed(before: &str, after: &str, elapsed_s: f64) -> Vec<(String, String, String)> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let take = |name: &str, text: &str| {
        let proc = folder.path().join(name).join("proc");
        fs::create_dir_all(&proc).expect("a temporary folder");
        fs::write(proc.join("vmstat"), text).expect("a temporary file");
        Snapshot::take(&Source::new(&folder.path().join(name)))
    };
    let (before, after) = (take("before", before), take("after", after));
    let rows = Interval { before: &before, after: &after, command: None, elapsed_s }.rows();
    rows.into_iter().map(|row| (row.group, row.name, row.format.show(row.value))).collect()
}

/// Checks that every row of `stat` is as MMTests prints it, and that no row of MMTests is missing. One row may be
/// missing: the efficiency of a reclaimer that scanned nothing, which MMTests prints as 100 %.
fn must_agree(before: &str, after: &str, elapsed_s: f64) {
    let mut expected = mmtests(before, after, elapsed_s);
    for who in ["Kswapd", "Direct"] {
        if expected[&*format!("{who} pages scanned")] == "0" {
            expected.remove(&*format!("{who} efficiency"));
        }
    }
    let printed = printed(before, after, elapsed_s);
    let of_vmstat: Vec<_> = printed.iter().filter(|(group, ..)| group == "vmstat").collect();
    assert_eq!(of_vmstat.len(), expected.len(), "{of_vmstat:?} {expected:?}");
    for (_, name, value) in of_vmstat {
        assert_eq!(Some(value), expected.get(name.as_str()), "{name}");
    }
    let mut counters = 0;
    for (_, name, value) in printed.iter().filter(|(group, ..)| group == "counters") {
        let zones = ["dma", "dma32", "normal", "movable", "device"].map(|zone| format!("{name}_{zone}"));
        let names = std::iter::once(name).chain(if name == "allocstall" { &zones[..] } else { &[] });
        let grown: i64 = names.map(|name| by_hand(after, name) - by_hand(before, name)).sum();
        assert_eq!(*value, grown.to_string(), "{name}");
        counters += 1;
    }
    assert!(counters > 0, "{printed:?}");
}

#[test]
fn figures_of_an_old_kernel_are_those_of_mmtests_to_the_last_digit() {
    let before = "pgpgin 1000\npgpgout 2000\npswpin 7\npswpout 11\npgfault 5000\npgmajfault 30\n\
                  pgsteal_kswapd_dma 0\npgsteal_kswapd_dma32 40\npgsteal_kswapd_normal 50\n\
                  pgsteal_direct_dma 0\npgsteal_direct_dma32 3\npgsteal_direct_normal 4\n\
                  pgscan_kswapd_dma 1\npgscan_kswapd_dma32 100\npgscan_kswapd_normal 200\n\
                  pgscan_direct_dma 0\npgscan_direct_dma32 5\npgscan_direct_normal 6\npgscan_direct_throttle 2\n\
                  slabs_scanned 128\nkswapd_inodesteal 9\nnr_vmscan_write 44\nnr_vmscan_immediate_reclaim 3\nallocstall 8\n";
    let after = "pgpgin 2024\npgpgout 90210\npswpin 139693\npswpout 40011\npgfault 11230171\npgmajfault 1038\n\
                 pgsteal_kswapd_dma 0\npgsteal_kswapd_dma32 13040\npgsteal_kswapd_normal 9050\n\
                 pgsteal_direct_dma 0\npgsteal_direct_dma32 1003\npgsteal_direct_normal 904\n\
                 pgscan_kswapd_dma 2\npgscan_kswapd_dma32 300100\npgscan_kswapd_normal 200\n\
                 pgscan_direct_dma 0\npgscan_direct_dma32 3005\npgscan_direct_normal 2006\npgscan_direct_throttle 77\n\
                 slabs_scanned 4224\nkswapd_inodesteal 90\nnr_vmscan_write 3065275\nnr_vmscan_immediate_reclaim 5\nallocstall 19\n";
    must_agree(before, after, 1165.73);
    // Until 3.3 the kernel counted all reclaimed pages by zone, and the pages that kswapd reclaimed once more in
    // `kswapd_steal`.
    let older = |text: &str| {
        let kept = text.lines().filter(|line| !line.starts_with("pgsteal_")).collect::<Vec<_>>().join("\n");
        let stolen = by_hand(text, "pgsteal_kswapd_dma32") + by_hand(text, "pgsteal_kswapd_normal");
        format!("{kept}\npgsteal_dma32 {}\npgsteal_normal 3\nkswapd_steal {stolen}\n", stolen + 17)
    };
    must_agree(&older(before), &older(after), 3.0);
}

/// Reads the running kernel's `/proc/vmstat` before and after some memory and file I/O. The rows of `stat` for the two
/// texts are those of MMTests.
#[test]
fn figures_of_the_running_kernel_are_those_of_mmtests_to_the_last_digit() {
    let read = || fs::read_to_string("/proc/vmstat").expect("/proc/vmstat is there");
    let before = read();
    let mut pages = vec![0_u8; 32 << 20];
    pages.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("file"), &pages).expect("a temporary file");
    let file = fs::File::open(folder.path().join("file")).expect("it was written");
    file.sync_all().expect("it can be written");
    let after = read();
    assert!(by_hand(&after, "pgfault") > by_hand(&before, "pgfault"));
    must_agree(&before, &after, 0.731);
}
