//! Reads counters of a guest's kernel that are not in `/proc/vmstat`. They get the names that they have in records of
//! the simulator.

use computer::counters;
use engine::stat::Vmstat;
use figures::cgroup::Cgroup;
use guest::inside;
use machine::PAGE_BYTES;
use machine::pressure::Stalls;
use recordings::looks::{Look, Pressure};
use std::fs;
use std::path::Path;

/// Names of a guest's disks: that with the workload's files, and that for swap. The machine file describes both as one.
const DISKS: [&str; 2] = ["vda", "vdb"];

/// Fields of a line of `/proc/diskstats`. For each field: its position after the disk's name, and the name that it gets
/// in records.
const DISK_FIELDS: [(usize, &str); 9] = [
    (0, "reads"),
    (2, "read_sectors"),
    (3, "read_ms"),
    (4, "writes"),
    (6, "write_sectors"),
    (7, "write_ms"),
    (8, "in_flight"),
    (9, "io_ms"),
    (10, "weighted_ms"),
];

/// Length of a tick in `/proc/PID/stat`, us: there Linux counts time in 100 ticks a second.
const TICK_US: u64 = 10_000;

/// Adds to `values` figures that `/proc/vmstat` lacks: the free pages of each zone, stall times, the CPU time of
/// kswapd, the sizes of swap and of the space for files, and counters of the disk and of nodes. Values that this kernel
/// does not report are left out. If there is a cgroup, the stall times for memory are those of its tasks.
pub(super) fn add(values: &mut Vmstat, cgroup: Option<&Cgroup>) {
    for zone in guest::zoneinfo::read(&read("/proc/zoneinfo")) {
        *values.entry(format!("nr_free_pages_{}", zone.name.to_lowercase())).or_default() += zone.free;
    }
    let of_memory = cgroup.and_then(Cgroup::pressure).unwrap_or_else(|| read("/proc/pressure/memory"));
    values.extend(stalls("memory", &of_memory));
    values.extend(stalls("io", &read("/proc/pressure/io")));
    values.insert("kswapd_cpu_us".into(), kswapd_us());
    if let Some([all, free]) = counters::swap_pages(&read("/proc/meminfo")) {
        values.extend([("nr_swap_total".into(), all), ("nr_swap_free".into(), free)]);
    }
    if let Ok(room) = rustix::fs::statvfs(inside::FILES) {
        let pages = |blocks: u64| blocks.saturating_mul(room.f_frsize) / PAGE_BYTES as u64;
        values.extend([("nr_blocks_total".into(), pages(room.f_blocks))]);
        values.extend([("nr_blocks_free".into(), pages(room.f_bavail))]);
    }
    values.extend(cgroup.and_then(Cgroup::times_at_limit).map(|times| ("memory_events_max".into(), times)));
    values.extend(disk(&read("/proc/diskstats")));
    let nodes = nodes();
    if nodes.len() > 1 {
        for (node, counts) in nodes.into_iter().enumerate() {
            values.extend(counts.into_iter().map(|(name, value)| (format!("node{node}_{name}"), value)));
        }
    }
}

/// Returns for each memory node its counters and gauges.
pub(super) fn nodes() -> Vec<Vmstat> {
    let of_node = |node: usize| {
        let folder = Path::new("/sys/devices/system/node").join(format!("node{node}"));
        let mut counts = figures::counters::named(&fs::read_to_string(folder.join("vmstat")).ok()?);
        // Since 4.14 the events of placement on nodes are in this file, too.
        counts.extend(figures::counters::named(&fs::read_to_string(folder.join("numastat")).unwrap_or_default()));
        Some(counts)
    };
    (0..).map_while(of_node).collect()
}

/// Returns the total stall times, us, in `text`, the contents of the PSI file of `resource`. Each has a name such as
/// `psi_memory_some_us`.
fn stalls(resource: &str, text: &str) -> Vec<(String, u64)> {
    let Pressure { some, full } = Pressure::of(text);
    let of = |(line, stalls): (&str, Option<Stalls>)| Some((format!("psi_{resource}_{line}_us"), stalls?.total_us));
    [("some", some), ("full", full)].into_iter().filter_map(of).collect()
}

/// Returns the counters in `text`, the text of `/proc/diskstats`, of a guest's disks together. Returned names begin with
/// `sda_`, as in records of the simulator, so that both can be compared.
fn disk(text: &str) -> Vec<(String, u64)> {
    let fields = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let is_ours = words.next().is_some_and(|name| DISKS.contains(&name));
        is_ours.then(|| words.map(|word| word.parse().unwrap_or(0)).collect::<Vec<u64>>())
    };
    let found: Vec<_> = text.lines().filter_map(fields).collect();
    let sum = |place: usize| found.iter().map(|fields| fields.get(place).copied()).sum::<Option<u64>>();
    if found.is_empty() {
        return Vec::new();
    }
    DISK_FIELDS.iter().filter_map(|(place, name)| Some((format!("sda_{name}"), sum(*place)?))).collect()
}

/// Returns the CPU time of all tasks `kswapd0`, `kswapd1`, … together, us.
fn kswapd_us() -> u64 {
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    let ticks = |entry: fs::DirEntry| kswapd_ticks(&fs::read_to_string(entry.path().join("stat")).ok()?);
    ids.filter_map(ticks).sum::<u64>() * TICK_US
}

/// Returns the CPU time of a kswapd, in ticks, from `stat`, the text of its `/proc/PID/stat`; `None` if the task is not
/// a kswapd.
fn kswapd_ticks(stat: &str) -> Option<u64> {
    let (before, behind) = stat.rsplit_once(')')?;
    before.split_once('(')?.1.strip_prefix("kswapd")?;
    let mut times = behind.split_whitespace().skip(11);
    Some(times.next()?.parse::<u64>().ok()? + times.next()?.parse::<u64>().ok()?)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_totals_in_microseconds() {
        let text =
            "some avg10=1.50 avg60=0.00 avg300=0.02 total=5606772\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=27\n";
        let expected = [("psi_memory_some_us".to_owned(), 5_606_772), ("psi_memory_full_us".to_owned(), 27)];
        assert_eq!(stalls("memory", text), expected);
        assert!(stalls("memory", "Operation not supported").is_empty());
    }

    #[test]
    fn the_disks_together_have_the_names_of_the_simulated_one() {
        let text = " 254  16 vdb 1 2 3 4 5 6 7 8 9 10 11\n 254   0 vda 100 1 800 40 7 2 56 9 3 45 49 0 0 0 0 11 3\n \
                    7 0 loop0 9 9 9 9 9 9 9 9 9 9 9\n";
        let found = disk(text);
        for (name, value) in [("sda_reads", 101), ("sda_write_sectors", 63), ("sda_in_flight", 12), ("sda_io_ms", 55)] {
            assert!(found.contains(&(name.to_owned(), value)), "{name}: {found:?}");
        }
        assert!(disk("").is_empty());
    }

    #[test]
    fn only_kswapd_is_counted_as_kswapd() {
        let stat = |name: &str| format!("44 ({name}) S 2 0 0 0 -1 10758208 0 0 0 0 30 12 0 0 20 0 1 0 70 0 0");
        assert_eq!((kswapd_ticks(&stat("kswapd0")), kswapd_ticks(&stat("kcompactd0"))), (Some(42), None));
    }
}
