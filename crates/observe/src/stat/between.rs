//! Rows of a report about the time between two snapshots of the kernel's counters.

use super::snapshot::{Snapshot, ZoneNow};
use computer::sys::Used;
use engine::memory::PAGEBLOCK_ORDER;
use engine::stat::Vmstat;
use figures::counters::difference;
use figures::figure::{Better, Format, Row, duration_rows};
use figures::{counters, mmtests};
use procfs_core::DiskStat;

/// Size of a sector in `/proc/diskstats`, bytes.
const SECTOR_BYTES: f64 = 512.0;

/// Two snapshots, with the resources that a command used between them.
#[derive(Debug)]
pub struct Interval<'a> {
    /// The earlier snapshot.
    pub before: &'a Snapshot,
    /// The later snapshot.
    pub after: &'a Snapshot,
    /// The resources used by the command and by all processes that it started and waited for; none without a command.
    pub command: Option<Used>,
    /// Time between the snapshots, s.
    pub elapsed_s: f64,
}

/// Counters of `/proc/vmstat` about reclaim, each with its unit. Each of them gets a row, unless the kernel lacks the
/// counter.
///
/// Some of them, at the beginning of the list, also get rows under the names that MMTests uses. The rows under the
/// names of `/proc/vmstat` serve to compare reports of real runs with reports of simulated runs.
const MORE: [(&str, &str); 38] = [
    ("pgscan_kswapd", "pages"),
    ("pgscan_direct", "pages"),
    ("pgsteal_kswapd", "pages"),
    ("pgsteal_direct", "pages"),
    ("pswpin", "pages"),
    ("pswpout", "pages"),
    ("pgpgin", "KiB"),
    ("pgpgout", "KiB"),
    ("pgfault", "faults"),
    ("pgactivate", "pages"),
    ("pgdeactivate", "pages"),
    ("pgrefill", "pages"),
    ("pgscan_anon", "pages"),
    ("pgscan_file", "pages"),
    ("pgsteal_anon", "pages"),
    ("pgsteal_file", "pages"),
    ("workingset_refault_anon", "pages"),
    ("workingset_refault_file", "pages"),
    ("workingset_activate_anon", "pages"),
    ("workingset_activate_file", "pages"),
    ("workingset_restore_anon", "pages"),
    ("workingset_restore_file", "pages"),
    ("workingset_nodereclaim", "nodes"),
    ("pgmajfault", "faults"),
    ("pgrotated", "pages"),
    ("swpin_zero", "pages"),
    ("swpout_zero", "pages"),
    ("kswapd_low_wmark_hit_quickly", "events"),
    ("kswapd_high_wmark_hit_quickly", "events"),
    ("pageoutrun", "events"),
    ("compact_stall", "events"),
    ("compact_success", "events"),
    ("compact_fail", "events"),
    ("compact_migrate_scanned", "pages"),
    ("compact_free_scanned", "pages"),
    ("thp_fault_alloc", "events"),
    ("thp_fault_fallback", "events"),
    ("oom_kill", "events"),
];

impl Interval<'_> {
    /// Returns all rows. The free blocks of a zone have a row for each order.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        self.rows_with(blocks_by_order)
    }

    /// Returns the rows for a short report, which people read. The free blocks of a zone have two rows with sums
    /// instead of a row for each order.
    #[must_use]
    pub fn short_rows(&self) -> Vec<Row> {
        self.rows_with(blocks_in_short)
    }

    /// Returns the rows of the report on the time between the two snapshots. `blocks` makes the rows of the free blocks
    /// of a zone.
    fn rows_with(&self, blocks: fn(&ZoneNow) -> Vec<Row>) -> Vec<Row> {
        let counters = difference(&self.before.vmstat, &self.after.vmstat);
        let mut rows = match self.command {
            Some(used) => duration_rows(used.user_s, used.system_s, self.elapsed_s),
            None => vec![row("duration", "Elapsed", "s", Better::Lower, 2, self.elapsed_s)],
        };
        if let Some(used) = self.command {
            rows.push(row(
                "duration",
                "Major faults of the command",
                "faults",
                Better::Lower,
                0,
                used.major_faults as f64,
            ));
            rows.push(row(
                "duration",
                "Minor faults of the command",
                "faults",
                Better::Neutral,
                0,
                used.minor_faults as f64,
            ));
        }
        rows.extend(self.stall_rows());
        for (task, after_s) in &self.after.kernel_cpu_s {
            let spent_s = after_s - self.before.kernel_cpu_s.get(task).copied().unwrap_or(0.0);
            rows.push(row("kernel", &format!("{task} CPU"), "s", Better::Lower, 2, spent_s.max(0.0)));
        }
        rows.extend(reclaim_rows(&counters, self.elapsed_s));
        let has = |(name, _): &&(&str, &str)| self.after.vmstat.contains_key(*name);
        rows.extend(MORE.iter().filter(has).map(|(name, unit)| {
            row("counters", name, unit, Better::Neutral, 0, counters.get(*name).copied().unwrap_or(0) as f64)
        }));
        // Until 4.9 there is a single counter. Since then there is one for each zone that requests named.
        let direct_reclaims = counters::sum(&counters, "allocstall");
        rows.extend(direct_reclaims.map(|n| row("counters", "allocstall", "events", Better::Lower, 0, n as f64)));
        rows.extend(self.disk_rows());
        rows.extend(self.after.zones.iter().flat_map(|zone| [zone_rows(zone), blocks(zone)].concat()));
        if let Some(swap) = self.after.swap_pages {
            let parts = ["total", "free"].into_iter().zip(swap);
            rows.extend(parts.map(|(part, pages)| row("swap", part, "pages", Better::Neutral, 0, pages as f64)));
        }
        rows
    }

    fn stall_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (resource, after) in &self.after.stalled {
            let Some(before) = self.before.stalled.get(resource) else { continue };
            let shares = [
                ("some", before.some_us, after.some_us, after.some_avg10),
                ("full", before.full_us, after.full_us, after.full_avg10),
            ];
            for (who, before_us, after_us, avg10) in shares {
                let stalled_us = after_us.saturating_sub(before_us) as f64;
                // PSI and the clock are read one after the other, so a share may seem to be slightly above 100 %.
                let share = if self.elapsed_s > 0.0 { (stalled_us / 1e4 / self.elapsed_s).min(100.0) } else { 0.0 };
                let name = format!("{resource} {who}");
                rows.push(row("pressure", &name, "% of the time", Better::Lower, 2, share));
                rows.push(row("pressure", &format!("{name} total"), "ms", Better::Lower, 1, stalled_us / 1e3));
                rows.push(row("pressure", &format!("{name} avg10 at the end"), "%", Better::Lower, 2, avg10));
            }
        }
        rows
    }

    /// Returns rows about the disks that had requests.
    fn disk_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (name, after) in &self.after.disks {
            let Some(before) = self.before.disks.get(name) else { continue };
            let grown = |of: fn(&DiskStat) -> u64| of(after).saturating_sub(of(before)) as f64;
            let (reads, writes) = (grown(|disk| disk.reads), grown(|disk| disk.writes));
            if reads + writes == 0.0 {
                continue;
            }
            let mib = |sectors: f64| sectors * SECTOR_BYTES / f64::from(1 << 20);
            let each = |ms: f64, requests: f64| if requests > 0.0 { ms / requests } else { 0.0 };
            let busy_ms = grown(|disk| disk.time_in_progress);
            let queue_ms = grown(|disk| disk.weighted_time_in_progress);
            let share = |ms: f64, per: f64| if self.elapsed_s > 0.0 { ms / per / self.elapsed_s } else { 0.0 };
            rows.extend([
                row("disks", &format!("{name} reads"), "requests", Better::Neutral, 0, reads),
                row("disks", &format!("{name} read"), "MiB", Better::Neutral, 1, mib(grown(|disk| disk.sectors_read))),
                row(
                    "disks",
                    &format!("{name} r_await"),
                    "ms",
                    Better::Lower,
                    2,
                    each(grown(|disk| disk.time_reading), reads),
                ),
                row("disks", &format!("{name} writes"), "requests", Better::Neutral, 0, writes),
                row(
                    "disks",
                    &format!("{name} written"),
                    "MiB",
                    Better::Neutral,
                    1,
                    mib(grown(|disk| disk.sectors_written)),
                ),
                row(
                    "disks",
                    &format!("{name} w_await"),
                    "ms",
                    Better::Lower,
                    2,
                    each(grown(|disk| disk.time_writing), writes),
                ),
                row("disks", &format!("{name} busy"), "%", Better::Lower, 1, share(busy_ms, 10.0).min(100.0)),
                row("disks", &format!("{name} avgqz"), "requests", Better::Lower, 2, share(queue_ms, 1000.0)),
            ]);
        }
        rows
    }
}

/// Returns the rows about reclaim that MMTests prints. The row with the efficiency of kswapd, or of direct reclaim, is
/// left out if it scanned no page. Also returns rows for reclaim at the limits of cgroups, which the kernel counts
/// neither as kswapd's nor as direct reclaim.
fn reclaim_rows(counters: &Vmstat, elapsed_s: f64) -> Vec<Row> {
    let mut rows = mmtests::vmstat_rows(counters, elapsed_s);
    for who in ["Kswapd", "Direct"] {
        let scanned = rows.iter().find(|row| row.name == format!("{who} pages scanned")).map_or(0.0, |row| row.value);
        rows.retain(|row| scanned > 0.0 || row.name != format!("{who} efficiency"));
    }
    let [scanned, reclaimed] = counters::at_limits(counters).unwrap_or_default();
    if scanned > 0 {
        rows.push(row("vmstat", "Pages scanned at limits of cgroups", "pages", Better::Lower, 0, scanned as f64));
        rows.push(row("vmstat", "Pages reclaimed at limits of cgroups", "pages", Better::Neutral, 0, reclaimed as f64));
    }
    rows
}

fn row(group: &str, name: &str, unit: &str, better: Better, decimals: u8, value: f64) -> Row {
    Row::new(group, name, unit, better, Format::Decimals(decimals), value)
}

/// Returns the rows of a zone at the later snapshot: its free pages and marks.
fn zone_rows(zone: &ZoneNow) -> Vec<Row> {
    let page_row = |what: &str, pages: u64| {
        row("zones", &format!("{} {what}", zone.name), "pages", Better::Neutral, 0, pages as f64)
    };
    let mut rows = vec![page_row("free", zone.free)];
    rows.extend(["min", "low", "high"].into_iter().zip(zone.marks).map(|(mark, pages)| page_row(mark, pages)));
    rows
}

/// Returns a row for each order: the number of a zone's free blocks of this order. `zone` is of the later of two
/// snapshots.
fn blocks_by_order(zone: &ZoneNow) -> Vec<Row> {
    let blocks = zone.blocks.iter().enumerate().map(|(order, blocks)| {
        row("buddyinfo", &format!("{} order {order}", zone.name), "blocks", Better::Neutral, 0, *blocks as f64)
    });
    blocks.collect()
}

/// Returns two rows with the numbers of pages in a zone's free blocks at the later snapshot: one for blocks smaller
/// than a huge page, one for all other blocks.
fn blocks_in_short(zone: &ZoneNow) -> Vec<Row> {
    let orders = zone.blocks.len();
    let huge = usize::from(PAGEBLOCK_ORDER.0);
    let parts = [0..orders.min(huge), huge..orders];
    let sum = |orders: std::ops::Range<usize>| {
        let pages: f64 = orders.clone().map(|order| zone.blocks[order] as f64 * (1_u64 << order) as f64).sum();
        let name = format!("{} orders {}-{}", zone.name, orders.start, orders.end - 1);
        row("buddyinfo", &name, "pages", Better::Neutral, 0, pages)
    };
    parts.into_iter().filter(|orders| !orders.is_empty()).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::snapshot::Stalled;
    use figures::counters::named;

    fn snapshot(vmstat: &str, stalled_us: u64, kswapd_s: f64) -> Snapshot {
        Snapshot {
            vmstat: named(vmstat),
            stalled: [("memory", Stalled { some_us: stalled_us, ..Stalled::default() })].into(),
            kernel_cpu_s: [("kswapd0".to_owned(), kswapd_s)].into(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn rows_are_what_grew() {
        let before = snapshot(
            "pgscan_kswapd 100\npgscan_direct 0\npgsteal_kswapd 50\npgsteal_direct 0\noom_kill 1\n",
            1_000_000,
            2.0,
        );
        let after = snapshot(
            "pgscan_kswapd 500\npgscan_direct 100\npgsteal_kswapd 250\npgsteal_direct 25\noom_kill 1\n",
            1_500_000,
            2.25,
        );
        let rows = Interval { before: &before, after: &after, command: None, elapsed_s: 2.0 }.rows();
        let of =
            |name: &str| rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row `{name}`")).value;
        assert_eq!((of("Kswapd pages scanned"), of("Kswapd efficiency"), of("Kswapd velocity")), (400.0, 50.0, 200.0));
        assert_eq!((of("Direct efficiency"), of("Percentage direct scans")), (25.0, 20.0));
        assert_eq!(
            (of("memory some"), of("memory some total"), of("kswapd0 CPU"), of("oom_kill")),
            (25.0, 500.0, 0.25, 0.0)
        );
    }

    #[test]
    fn free_blocks_are_summed_for_people() {
        let zone = |name: &str, blocks: &[u64]| ZoneNow {
            name: name.to_owned(),
            blocks: blocks.to_vec(),
            ..ZoneNow::default()
        };
        let mut after = snapshot("pgfault 1\n", 0, 0.0);
        after.zones = vec![zone("DMA", &[3, 1]), zone("Normal", &[1, 2, 0, 0, 0, 0, 0, 0, 0, 5, 1])];
        let interval = Interval { before: &after, after: &after, command: None, elapsed_s: 1.0 };
        let of = |rows: Vec<Row>| {
            let blocks = rows.into_iter().filter(|row| row.group == "buddyinfo");
            blocks.map(|row| (row.name, row.unit, row.value)).collect::<Vec<_>>()
        };
        let sums = [("DMA orders 0-1", 5.0), ("Normal orders 0-8", 5.0), ("Normal orders 9-10", 3584.0)];
        assert_eq!(of(interval.short_rows()), sums.map(|(name, pages)| (name.to_owned(), "pages".to_owned(), pages)));
        let whole = of(interval.rows());
        assert_eq!((whole.len(), &*whole[2].0, &*whole[2].1), (13, "Normal order 0", "blocks"));
        assert_eq!(interval.rows().len() - whole.len(), interval.short_rows().len() - sums.len());
    }
}
