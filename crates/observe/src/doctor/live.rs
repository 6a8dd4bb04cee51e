//! Signs of the running kernel, from repeated readings of the files that [`crate::stat`] reads, and of cgroups' files
//! ([`group`]).

use super::Patient;
use super::course::{Course, Extent, Interval};
use super::group::{self, GroupNow};
use super::looks::of_slabs;
use super::signs::{Disk, FileSystem, Node, OutOfMemory, Process, Signs, Zone};
use super::source::{DirtyLooks, of_counters};
use super::usage::{MemoryUse, Usage};
use crate::stat::Snapshot;
use crate::stat::snapshot::{Source, Stalled};
use figures::cgroup;
use figures::counters::difference;
use procfs_core::DiskStat;
use recordings::looks::{Look as _, Meminfo, Slabs};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between two readings of the kernel's counters.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The subject of a diagnosis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The whole computer.
    Computer,
    /// A cgroup, by its folder ([`group::find`]).
    Cgroup(PathBuf),
    /// The process with this ID, and its cgroup.
    Process(u32),
}

/// Observes the computer, cgroup or process `whom` for `time`. Returns a patient (the subject of a diagnosis) with what
/// was observed. `sleep` waits, and returns `false` if the observation is to end early.
///
/// # Errors
/// When the process does not exist, or the cgroup has no memory values.
pub fn look(
    source: &Source,
    whom: &Whom,
    time: Duration,
    sleep: impl FnMut(Duration) -> bool,
) -> Result<Patient, String> {
    match whom {
        Whom::Computer => Ok(look_at_all(source, time, sleep)),
        Whom::Cgroup(folder) => look_at_group(source, folder, time, sleep),
        Whom::Process(pid) => look_at_process(source, *pid, time, sleep),
    }
}

/// Takes readings by calling `take` until `time` is over. After each reading but the first, calls `took` with the
/// previous reading, the new one, and the times of both, s. Returns the first reading, the last reading, and the time
/// between them, s.
fn watch<T>(
    time: Duration,
    mut sleep: impl FnMut(Duration) -> bool,
    mut take: impl FnMut() -> T,
    mut took: impl FnMut(&T, &T, [f64; 2]),
) -> (T, T, f64) {
    let begun = Instant::now();
    let first = take();
    let mut earlier: Option<T> = None;
    let mut from = 0.0;
    loop {
        let left = time.saturating_sub(begun.elapsed());
        let is_over = !sleep(left.min(LOOK_EVERY)) || left <= LOOK_EVERY;
        let now = take();
        let to = begun.elapsed().as_secs_f64();
        if to > from {
            took(earlier.as_ref().unwrap_or(&first), &now, [from, to]);
            from = to;
        }
        if is_over {
            return (first, now, to);
        }
        earlier = Some(now);
    }
}

fn look_at_all(source: &Source, time: Duration, sleep: impl FnMut(Duration) -> bool) -> Patient {
    let groups_before = group::all(source);
    let settings = settings(source);
    let mut dirty = DirtyLooks::default();
    let mut course = Course::default();
    let (before, after, elapsed_s) = watch(
        time,
        sleep,
        || {
            let now = Snapshot::take(source);
            dirty.look(&now.vmstat);
            now
        },
        |earlier, now, [from, to]| {
            course.push(Interval { place: Extent::Seconds { from, to }, signs: between(earlier, now, to - from) });
        },
    );
    let mut signs = between(&before, &after, elapsed_s);
    let counters = difference(&before.vmstat, &after.vmstat);
    signs.dirty = dirty.finish(counters.get("nr_dirtied").map(|pages| *pages as f64));
    signs.file_systems = file_systems(source);
    // Only root may read `/proc/slabinfo`. Other users see how much memory is slab, but not which caches have it.
    signs.slabs = source.read("proc/slabinfo").map(|text| of_slabs(&Slabs::of(&text))).unwrap_or_default();
    if let Some(whole) = course.whole() {
        // These signs are taken from all readings, so that the smallest values count.
        signs.swap = whole.signs.swap;
        signs.usage = whole.signs.usage;
        signs.nodes = whole.signs.nodes;
    }
    let groups = group::all(source);
    signs.at_limit = grown(&groups_before, &groups, |it| it.at_limit, times_grown);
    signs.out_of_memory = grown(&groups_before, &groups, |it| it.out_of_memory, out_of_memory_grown);
    let mut of_groups = groups.iter().filter_map(|(name, after)| {
        let before = groups_before.get(name)?;
        let mut signs = group::between(before, after, elapsed_s);
        let times = after.at_limit.map(|after| times_grown(before.at_limit, after).unwrap_or(0.0));
        signs.at_limit = times.map(|times| [(name.clone(), times)].into());
        // The root of a hierarchy is the whole computer, so it does not count as a cgroup.
        after.has_memory().then(|| (name.clone(), signs))
    });
    signs.groups = of_groups.by_ref().collect();
    signs.is_v1 =
        groups.keys().any(|name| group::is_v1(&source.path("sys/fs/cgroup").join(name.trim_start_matches('/'))));
    signs.settings = settings;
    Patient { course, ..Patient::new("this computer", signs) }
}

fn look_at_group(
    source: &Source,
    folder: &Path,
    time: Duration,
    sleep: impl FnMut(Duration) -> bool,
) -> Result<Patient, String> {
    let name = name_of(source, folder);
    let mut course = Course::default();
    let signs_of = |before: &GroupNow, after: &GroupNow, seconds: f64| {
        let mut signs = group::between(before, after, seconds);
        let by_name = |times: f64| BTreeMap::from([(name.clone(), times)]);
        let grown = after.at_limit.map(|after| times_grown(before.at_limit, after));
        signs.at_limit = grown.map(|times| times.map(by_name).unwrap_or_default());
        signs.out_of_memory = after.out_of_memory.map(|after| {
            let grown = out_of_memory_grown(before.out_of_memory, after);
            grown.map(|it| BTreeMap::from([(name.clone(), it)])).unwrap_or_default()
        });
        signs.group = Some(folder.display().to_string());
        signs.is_v1 = group::is_v1(folder);
        signs
    };
    let (before, after, elapsed_s) = watch(
        time,
        sleep,
        || GroupNow::take(folder),
        |earlier, now, [from, to]| {
            course.push(Interval { place: Extent::Seconds { from, to }, signs: signs_of(earlier, now, to - from) });
        },
    );
    if !after.has_memory() {
        return Err(format!("the cgroup {name} tells nothing of memory: it has ended, or lacks the memory controller"));
    }
    let mut signs = signs_of(&before, &after, elapsed_s);
    signs.usage = course.whole().and_then(|whole| whole.signs.usage);
    signs.settings = group::settings(folder);
    Ok(Patient { course, ..Patient::new(format!("cgroup {name}"), signs) })
}

fn look_at_process(
    source: &Source,
    pid: u32,
    time: Duration,
    sleep: impl FnMut(Duration) -> bool,
) -> Result<Patient, String> {
    let before = group::process(source, pid)?;
    let folder = group::of_process(source, pid)?;
    let mut patient = match &folder {
        // Version 1 does not count pages scanned and reclaimed by cgroup.
        Some(folder) if GroupNow::take(folder).counts_reclaim() => look_at_group(source, folder, time, sleep)?,
        Some(folder) => {
            let all = look_at_all(source, time, sleep);
            Patient { name: format!("{}, in cgroup {}", all.name, name_of(source, folder)), ..all }
        }
        None => look_at_all(source, time, sleep),
    };
    let after = group::process(source, pid).map_err(|_| format!("process {pid} ({}) has ended", before.name))?;
    let of = patient.name;
    patient.name = format!("process {pid} ({}) of {of}", after.name);
    if let Some(folder) = &folder {
        patient.signs.is_v1 = group::is_v1(folder);
        patient.signs.settings.extend(group::settings(folder));
    }
    patient.signs.process = Some(Process {
        pid,
        folder: folder.map(|folder| folder.display().to_string()),
        name: format!("{pid} ({})", after.name),
        major_faults: after.major_faults.saturating_sub(before.major_faults) as f64,
        resident: after.resident,
        resident_grown: after.resident - before.resident,
        resident_file: after.resident_file,
        swapped: after.swapped,
    });
    Ok(patient)
}

/// Returns the name of a cgroup: its path below the folder where hierarchies are mounted.
fn name_of(source: &Source, folder: &Path) -> String {
    format!("/{}", folder.strip_prefix(source.path("sys/fs/cgroup")).unwrap_or(folder).display())
}

fn times_grown(before: Option<u64>, after: u64) -> Option<f64> {
    let times = after.saturating_sub(before.unwrap_or(0)) as f64;
    (times > 0.0).then_some(times)
}

fn out_of_memory_grown(before: Option<cgroup::OutOfMemory>, after: cgroup::OutOfMemory) -> Option<OutOfMemory> {
    let before = before.unwrap_or_default();
    let grown = |before: u64, after: u64| after.saturating_sub(before) as f64;
    let now = OutOfMemory {
        times: grown(before.times, after.times),
        kills: grown(before.kills, after.kills),
        group_kills: grown(before.group_kills, after.group_kills),
        is_waiting: after.is_waiting,
    };
    (now != OutOfMemory::default()).then_some(now)
}

/// Settings below `/proc/sys/vm` that rules use.
const SETTINGS: [&str; 9] = [
    "swappiness",
    "min_free_kbytes",
    "watermark_scale_factor",
    "watermark_boost_factor",
    "zone_reclaim_mode",
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_ratio",
];

fn settings(source: &Source) -> BTreeMap<String, String> {
    let one = |name: &&str| {
        let text = source.read(&format!("proc/sys/vm/{name}")).ok()?;
        Some((format!("vm.{name}"), text.trim().to_owned()))
    };
    SETTINGS.iter().filter_map(one).collect()
}

/// Returns the signs over the time between two snapshots.
#[must_use]
pub fn between(before: &Snapshot, after: &Snapshot, elapsed_s: f64) -> Signs {
    let counters = difference(&before.vmstat, &after.vmstat);
    let cpu_s = |snapshot: &Snapshot| {
        let of_kswapd = snapshot.kernel_cpu_s.iter().filter(|(name, _)| name.starts_with("kswapd"));
        of_kswapd.map(|(_, time)| *time).reduce(|sum, time| sum + time)
    };
    let waited = |of: fn(&Stalled) -> u64| {
        let us = |snapshot: &Snapshot| snapshot.stalled.get("memory").map(of);
        // The files and the clock are not read at the same moment, so the share may seem to exceed 100 %.
        Some((us(after)?.saturating_sub(us(before)?) as f64 / 1e4 / elapsed_s).min(100.0))
    };
    let zones = after.zones.iter().map(|zone| Zone {
        name: zone.name.clone(),
        free: zone.free as f64,
        marks: zone.marks.map(|pages| pages as f64),
        blocks: zone.blocks.iter().map(|blocks| *blocks as f64).collect(),
    });
    Signs {
        kswapd_cpu_s: cpu_s(before).zip(cpu_s(after)).map(|(before, after)| (after - before).max(0.0)),
        some_waited_percent: waited(|it| it.some_us),
        all_waited_percent: waited(|it| it.full_us),
        zones: (!after.zones.is_empty()).then(|| zones.collect()),
        disks: disks(before, after, elapsed_s),
        swap: after.swap_pages.map(|pages| pages.map(|pages| pages as f64)),
        nodes: nodes(after),
        usage: used(before).zip(used(after)).map(|(before, after)| Usage::between(&before, &after)),
        missing: after.missing.clone(),
        ..of_counters(&counters, elapsed_s)
    }
}

/// Returns the nodes of memory, summed from their zones. The numbers of pages that kswapd and tasks scanned on a node
/// stay unknown, since the kernel has no counters for one reclaimer on one node.
fn nodes(snapshot: &Snapshot) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for zone in &snapshot.zones {
        let name = zone.name.split_once(" of node ").map_or("0", |(_, number)| number);
        let (pages, free) = (zone.managed as f64, zone.free as f64);
        match nodes.iter_mut().find(|node| node.name == name) {
            Some(node) => (node.pages, node.free) = (node.pages + pages, node.free + free),
            None => nodes.push(Node { name: name.to_owned(), pages, free, ..Node::default() }),
        }
    }
    nodes
}

/// Returns the use of memory at a snapshot; none if `/proc/meminfo` is unknown.
fn used(snapshot: &Snapshot) -> Option<Arc<MemoryUse>> {
    MemoryUse::of_meminfo(&Meminfo::of(&snapshot.meminfo)).map(Arc::new)
}

/// Returns the disks that were busy for some time between two snapshots.
fn disks(before: &Snapshot, after: &Snapshot, elapsed_s: f64) -> Vec<Disk> {
    let disk = |(name, after): (&String, &DiskStat)| {
        let before = before.disks.get(name)?;
        let grown = |of: fn(&DiskStat) -> u64| of(after).saturating_sub(of(before)) as f64;
        let (writes, busy_ms) = (grown(|disk| disk.writes), grown(|disk| disk.time_in_progress));
        let reads = grown(|disk| disk.reads);
        let read_wait_ms = (reads > 0.0).then(|| grown(|disk| disk.time_reading) / reads);
        let write_wait_ms = (writes > 0.0).then(|| grown(|disk| disk.time_writing) / writes);
        (busy_ms > 0.0).then(|| Disk {
            name: name.clone(),
            busy_percent: Some((busy_ms / 10.0 / elapsed_s).min(100.0)),
            read_wait_ms,
            write_wait_ms,
        })
    };
    after.disks.iter().filter_map(disk).collect()
}

/// Returns the writable file systems on disks. A file system that is mounted several times is returned once. Returns
/// none if the mounts cannot be read.
fn file_systems(source: &Source) -> Option<Vec<FileSystem>> {
    let text = source.read("proc/self/mountinfo").ok()?;
    let mut devices = BTreeSet::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        // The fields are ID, parent, device, root, mount, options, any number of others, "-", type, source, and the
        // options of the file system.
        let (Some([_, _, device, _, mount, ..]), Some(dash)) =
            (words.first_chunk::<5>(), words.iter().position(|it| *it == "-"))
        else {
            continue;
        };
        let [_, from, options] = words.get(dash + 1..dash + 4).and_then(|rest| rest.try_into().ok()).unwrap_or([""; 3]);
        let may_write = !options.split(',').any(|option| option == "ro");
        if !from.starts_with("/dev/") || !may_write || !devices.insert((*device).to_owned()) {
            continue;
        }
        let mount = mount.replace("\\040", " ");
        let Ok(room) = rustix::fs::statvfs(source.path(mount.trim_start_matches('/'))) else { continue };
        let bytes = |blocks: u64| blocks as f64 * room.f_frsize as f64;
        found.push(FileSystem { mount, bytes: bytes(room.f_blocks), free_bytes: bytes(room.f_bavail) });
    }
    Some(found)
}

/// Returns, for each cgroup, the growth of one figure between two readings. `of` gets the figure from a cgroup's
/// values, and `difference` computes the growth. Returns none if one of the readings has the figure for no cgroup.
fn grown<T: Copy, G>(
    before: &BTreeMap<String, GroupNow>,
    after: &BTreeMap<String, GroupNow>,
    of: fn(&GroupNow) -> Option<T>,
    difference: impl Fn(Option<T>, T) -> Option<G>,
) -> Option<BTreeMap<String, G>> {
    let tells = |groups: &BTreeMap<String, GroupNow>| groups.values().any(|it| of(it).is_some());
    let one = |(name, told): (&String, &GroupNow)| {
        Some((name.clone(), difference(before.get(name).and_then(of), of(told)?)?))
    };
    (tells(before) && tells(after)).then(|| after.iter().filter_map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Diagnosis;
    use kit::scratch::write;
    use std::fs;

    #[test]
    fn a_computer_is_looked_at_for_some_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let vmstat = |scanned: u64, dirty: u64| {
            format!(
                "nr_dirty {dirty}\nnr_writeback 0\nnr_dirty_threshold 100\nnr_dirty_background_threshold 50\nnr_dirtied {scanned}\n\
                 pgscan_kswapd {scanned}\npgscan_direct 0\npgsteal_kswapd {scanned}\npgsteal_direct 0\n"
            )
        };
        write(root, "proc/vmstat", &vmstat(1_000_000, 10));
        write(root, "proc/meminfo", "MemFree:  4 kB\nSwapTotal:  4000 kB\nSwapFree:  40 kB\n");
        write(
            root,
            "proc/zoneinfo",
            "Node 0, zone   Normal\n  pages free     25\n        min      10\n        low      20\n        high     30\n        \
             managed  4000\n",
        );
        write(root, "sys/fs/cgroup/a/b/memory.events.local", "low 0\nhigh 0\nmax 3\noom 0\n");
        write(root, "sys/fs/cgroup/memory/c/memory.failcnt", "7\n");
        write(root, "sys/fs/cgroup/memory/c/memory.oom_control", "oom_kill_disable 1\nunder_oom 0\noom_kill 0\n");
        let mut is_first = true;
        let patient = look(&Source::new(root), &Whom::Computer, Duration::from_millis(20), |time| {
            if std::mem::take(&mut is_first) {
                std::thread::sleep(time);
                write(root, "proc/vmstat", &vmstat(1_900_000, 90));
                write(root, "sys/fs/cgroup/a/b/memory.events.local", "low 0\nhigh 0\nmax 5\noom 1\noom_kill 2\n");
                write(
                    root,
                    "sys/fs/cgroup/memory/c/memory.oom_control",
                    "oom_kill_disable 1\nunder_oom 1\noom_kill 0\n",
                );
            }
            true
        });
        let Patient { signs, course, .. } = patient.unwrap();
        assert_eq!(signs.kswapd.scanned, Some(900_000.0));
        assert_eq!((course.len(), course[0].signs.kswapd.scanned), (1, Some(900_000.0)));
        assert_eq!(signs.usage.as_ref().unwrap().least.free, Some(1.0));
        assert_eq!(signs.dirty.unwrap().held_back_percent, 50.0);
        assert_eq!(signs.at_limit.as_ref().unwrap(), &BTreeMap::from([("/a/b".to_owned(), 2.0)]));
        let killed = OutOfMemory { times: 1.0, kills: 2.0, ..OutOfMemory::default() };
        let waits = OutOfMemory { is_waiting: true, ..OutOfMemory::default() };
        let expected = BTreeMap::from([("/a/b".to_owned(), killed), ("/memory/c".to_owned(), waits)]);
        assert_eq!(signs.out_of_memory.as_ref(), Some(&expected));
        assert!(signs.missing.iter().any(|why| why.contains("/proc/pressure/memory")), "{:?}", signs.missing);
        let found = Diagnosis::of(&signs);
        let causes: Vec<&str> = found.findings.iter().map(|it| it.cause).collect();
        assert_eq!(causes, ["killed", "swap-full", "cgroup-limit", "dirty-throttling", "kswapd-awake"]);
        assert!(found.findings[4].sentence.contains("Below the high mark at the end: Normal."));
    }

    #[test]
    fn a_file_system_in_memory_is_no_disk() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(
            root,
            "proc/self/mountinfo",
            "21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n22 1 0:20 / /run rw - tmpfs tmpfs rw,size=100k\n\
             23 1 8:2 / /old ro - ext4 /dev/sda2 ro\n24 1 8:1 /home /home rw - ext4 /dev/sda1 rw\n",
        );
        fs::create_dir(root.join("run")).unwrap();
        let mounts: Vec<String> = file_systems(&Source::new(root)).unwrap().into_iter().map(|it| it.mount).collect();
        assert_eq!(mounts, ["/"]);
    }
}
