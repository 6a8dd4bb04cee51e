//! The state of memory at a moment, read from the running kernel.

use computer::counters::swap_pages;
use engine::stat::Vmstat;
use figures::counters::named;
use kit::input::why;
use procfs_core::prelude::*;
use procfs_core::{DiskStat, DiskStats};
use recordings::looks::{Buddyinfo, Look as _, Pressure, Zoneinfo, zoneinfo};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

/// Clock ticks per second in `/proc/PID/stat` (`USER_HZ`). It is 100 on every architecture that the kernel supports
/// today.
pub const TICKS_PER_S: f64 = 100.0;

/// The folder that has the `proc` and `sys` of a running kernel: `/`, or a folder into which their files were copied.
#[derive(Clone, Debug)]
pub struct Source {
    root: PathBuf,
    /// The folders of the kernel's tasks whose CPU time is reported. They are searched for only once, because these
    /// tasks exist from boot on, and a search through a thousand processes for each snapshot would cost a percent of a
    /// CPU.
    tasks: OnceLock<Vec<PathBuf>>,
}

impl Default for Source {
    fn default() -> Self {
        Self::new(Path::new("/"))
    }
}

impl Source {
    /// Makes a source that reads snapshots of counters from the files in the folders `proc` and `sys` of `folder`.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { root: folder.to_owned(), tasks: OnceLock::new() }
    }

    /// Returns the full path of a file or folder below the root.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Reads a file of `/proc` or `/sys`. `path` is relative to the folder that stands for the root of the file system.
    ///
    /// # Errors
    /// When the file cannot be read. The error is a message for the user.
    pub fn read(&self, path: &str) -> Result<String, String> {
        fs::read_to_string(self.path(path)).map_err(|error| format!("/{path}: {}", why(&error)))
    }
}

/// Times for which tasks were stalled (PSI).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stalled {
    /// Total time in which at least one task was stalled (`some`), us.
    pub some_us: u64,
    /// Total time in which all tasks that had work were stalled (`full`), us.
    pub full_us: u64,
    /// Share of the last ten seconds in which at least one task was stalled (`some`), percent.
    pub some_avg10: f64,
    /// Share of the last ten seconds in which all tasks that had work were stalled (`full`), percent.
    pub full_avg10: f64,
}

/// A zone of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneNow {
    /// The zone's name, such as `Normal`. The name of a zone on another node than the first includes the node: `Normal
    /// of node 1`.
    pub name: String,
    /// Free pages.
    pub free: u64,
    /// The zone's marks, pages: min, low, high.
    pub marks: [u64; 3],
    /// Pages that the allocator manages.
    pub managed: u64,
    /// Number of free blocks of each order. The order is the index.
    pub blocks: Vec<u64>,
}

/// The kernel's counters and levels of memory at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Time at which counters were read.
    pub read_at: Option<Instant>,
    /// Time since boot, s.
    pub uptime_s: f64,
    /// The contents of `/proc/vmstat`.
    pub vmstat: Vmstat,
    /// Stall times by resource (`memory`, `io`, `cpu`).
    pub stalled: BTreeMap<&'static str, Stalled>,
    /// CPU time since boot of each kswapd, kcompactd and khugepaged, s, by the name of the task.
    pub kernel_cpu_s: BTreeMap<String, f64>,
    /// Statistics of whole disks, by name.
    pub disks: BTreeMap<String, DiskStat>,
    /// Zones with pages, in the order of `/proc/zoneinfo`.
    pub zones: Vec<ZoneNow>,
    /// The text of `/proc/meminfo`.
    pub meminfo: String,
    /// Total swap and free swap from [`Snapshot::meminfo`], pages.
    pub swap_pages: Option<[u64; 2]>,
    /// Files that could not be read, each with the reason.
    pub missing: Vec<String>,
}

/// Resources with PSI, each with its file.
const RESOURCES: [(&str, &str); 3] =
    [("memory", "proc/pressure/memory"), ("io", "proc/pressure/io"), ("cpu", "proc/pressure/cpu")];

/// Names of the kernel's tasks whose CPU time is reported.
const TASKS: [&str; 3] = ["kswapd", "kcompactd", "khugepaged"];

impl Snapshot {
    /// Takes a snapshot: reads all files that it needs. [`Snapshot::missing`] names the files that cannot be read.
    #[must_use]
    pub fn take(source: &Source) -> Self {
        // The first time, all tasks are searched, which takes long. The search comes before the clock and the counters
        // are read, so that these are read close together.
        let kernel_cpu_s = kernel_cpu(source);
        let mut this = Self { kernel_cpu_s, read_at: Some(Instant::now()), ..Self::default() };
        let mut missing = Vec::new();
        let mut of = |text: Result<String, String>| text.map_err(|why| missing.push(why)).ok();
        if let Some(text) = of(source.read("proc/uptime")) {
            this.uptime_s = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
        }
        if let Some(text) = of(source.read("proc/vmstat")) {
            this.vmstat = named(&text);
        }
        for (resource, path) in RESOURCES {
            if let Some(text) = of(source.read(path)) {
                this.stalled.insert(resource, stalled(&text));
            }
        }
        if let Some(text) = of(source.read("proc/diskstats")) {
            let is_whole = |disk: &DiskStat| source.root.join("sys/block").join(&disk.name).exists();
            let disks = DiskStats::from_read(text.as_bytes()).map(|disks| disks.0).unwrap_or_default();
            this.disks = disks.into_iter().filter(is_whole).map(|disk| (disk.name.clone(), disk)).collect();
        }
        if let Some(text) = of(source.read("proc/zoneinfo")) {
            this.zones = zones(&text);
        }
        if let Some(text) = of(source.read("proc/buddyinfo")) {
            add_blocks(&mut this.zones, &text);
        }
        if let Some(text) = of(source.read("proc/meminfo")) {
            this.swap_pages = swap_pages(&text);
            this.meminfo = text;
        }
        this.missing = missing;
        this
    }

    /// Returns the time between the readings of the counters of `earlier` and of this snapshot, s.
    #[must_use]
    pub fn seconds_since(&self, earlier: &Self) -> f64 {
        let times = self.read_at.zip(earlier.read_at);
        times.map_or(0.0, |(now, then)| now.saturating_duration_since(then).as_secs_f64())
    }
}

/// Reads PSI from the text of a file in `/proc/pressure`, or of a cgroup's `memory.pressure`.
#[must_use]
pub fn stalled(text: &str) -> Stalled {
    let Pressure { some, full } = Pressure::of(text);
    let (some, full) = (some.unwrap_or_default(), full.unwrap_or_default());
    Stalled { some_us: some.total_us, full_us: full.total_us, some_avg10: some.percent[0], full_avg10: full.percent[0] }
}

/// Returns the zones with pages from the text of `/proc/zoneinfo`.
fn zones(text: &str) -> Vec<ZoneNow> {
    let with_pages = Zoneinfo::of(text).zones.into_iter().filter(|zone| zone.managed() > 0);
    let now = |zone: zoneinfo::Zone| {
        let of = |name: &str| zone.get(name).unwrap_or(0);
        let marks = ["min", "low", "high"].map(of);
        ZoneNow { name: zone.called(), free: of("free"), marks, managed: zone.managed(), blocks: Vec::new() }
    };
    with_pages.map(now).collect()
}

fn add_blocks(zones: &mut [ZoneNow], text: &str) {
    for (node, name, blocks) in Buddyinfo::of(text).zones {
        let name = zoneinfo::called(node, &name);
        if let Some(zone) = zones.iter_mut().find(|zone| zone.name == name) {
            zone.blocks = blocks;
        }
    }
}

/// Returns the CPU time since boot of the tasks in [`TASKS`], s, by the name of the task.
fn kernel_cpu(source: &Source) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    let tasks = source.tasks.get_or_init(|| {
        let entries = fs::read_dir(source.path("proc")).into_iter().flatten().flatten();
        let is_task = |name: &[u8]| name.iter().all(u8::is_ascii_digit);
        let folders = entries.filter(|entry| is_task(entry.file_name().as_encoded_bytes()));
        folders.map(|entry| entry.path().join("stat")).filter(|path| task(path).is_some()).collect()
    });
    for (name, time) in tasks.iter().filter_map(|path| task(path)) {
        *found.entry(name).or_insert(0.0) += time;
    }
    found
}

/// Returns the name and CPU time, s, of a task; none if the task is none of [`TASKS`].
fn task(path: &Path) -> Option<(String, f64)> {
    let stat = fs::read_to_string(path).ok()?;
    // The name is in parentheses and may itself contain parentheses.
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    TASKS.iter().find(|task| name.starts_with(**task))?;
    let ticks = rest.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum::<f64>();
    Some((name.to_owned(), ticks / TICKS_PER_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_their_marks_and_blocks() {
        let zoneinfo = "Node 0, zone   Normal\n  pages free     120\n        min      10\n        low      20\n        high     30\n        \
                        managed  4000\n  pagesets\n    cpu: 0\n              count: 3\n              high:  186\n\
                        Node 1, zone  Movable\n  pages free     0\n        managed  0\nNode 1, zone   Normal\n  pages free     7\n        \
                        managed  8\n";
        let mut found = zones(zoneinfo);
        add_blocks(&mut found, "Node 0, zone   Normal     3      2      1 \nNode 1, zone   Normal     0      1 \n");
        let normal =
            ZoneNow { name: "Normal".into(), free: 120, marks: [10, 20, 30], managed: 4000, blocks: vec![3, 2, 1] };
        assert_eq!(found[0], normal);
        assert_eq!((found.len(), &*found[1].name, &*found[1].blocks), (2, "Normal of node 1", &[0, 1][..]));
    }

    #[test]
    fn stalls_are_read() {
        let text = "some avg10=1.50 avg60=0.00 avg300=0.02 total=5606772\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=2773432\n";
        let expected = Stalled { some_us: 5_606_772, full_us: 2_773_432, some_avg10: 1.5, full_avg10: 0.25 };
        assert_eq!(stalled(text), expected);
    }

    #[test]
    fn swap_is_told_in_pages() {
        assert_eq!(swap_pages("MemFree: 9 kB\nSwapTotal:    8000 kB\nSwapFree:  400 kB\n"), Some([2000, 100]));
        assert_eq!(swap_pages("MemFree: 9 kB\n"), None);
    }

    #[test]
    fn a_source_without_files_says_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc/77")).unwrap();
        fs::write(folder.path().join("proc/vmstat"), "pgfault 7\nnr_free_pages 3\n").unwrap();
        fs::write(folder.path().join("proc/77/stat"), "77 (kswapd0) S 2 0 0 0 -1 0 0 0 0 0 5 145 0 0 20 0 1 0")
            .unwrap();
        let found = Snapshot::take(&Source::new(folder.path()));
        assert_eq!(found.vmstat["pgfault"], 7);
        assert_eq!(found.kernel_cpu_s["kswapd0"], 1.5);
        assert!(found.missing.iter().any(|why| why.starts_with("/proc/zoneinfo: ")), "{:?}", found.missing);
    }
}
