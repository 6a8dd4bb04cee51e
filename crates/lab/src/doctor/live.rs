//! Signs of the running kernel: some looks at the files that [`crate::stat`] reads, and at the limits of cgroups.

use super::Patient;
use super::course::{Course, Interval, Place};
use super::looks::of_slabs;
use super::signs::{Disk, FileSystem, OutOfMemory, Signs, Zone};
use super::source::{DirtyLooks, of_counters};
use super::usage::{MemoryUse, Usage};
use crate::cgroup::{self, times_at_limit};
use crate::recordings::looks::{Look as _, Meminfo, Slabs};
use crate::stat::Snapshot;
use crate::stat::snapshot::{Source, Stalled};
use crate::system::difference;
use procfs_core::DiskStat;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);

/// So deep cgroups are looked for.
const DEPTH_MAX: usize = 12;

/// Looks at the kernel for some time. `sleep` waits so long, or says that it is to end now.
pub fn look(source: &Source, time: Duration, mut sleep: impl FnMut(Duration) -> bool) -> Patient {
    let begun = Instant::now();
    let before = Snapshot::take(source);
    let cgroups_before = cgroups(source);
    let mut dirty = DirtyLooks::default();
    dirty.look(&before.vmstat);
    let mut after = before.clone();
    let mut course = Course::default();
    let mut least_swap: Option<[u64; 2]> = None;
    let (mut is_over, mut from) = (false, 0.0);
    while !is_over {
        let left = time.saturating_sub(begun.elapsed());
        is_over = !sleep(left.min(LOOK_EVERY)) || left <= LOOK_EVERY;
        let earlier = std::mem::replace(&mut after, Snapshot::take(source));
        let to = begun.elapsed().as_secs_f64();
        if to > from {
            course.push(Interval { place: Place::Seconds { from, to }, signs: between(&earlier, &after, to - from) });
            from = to;
        }
        dirty.look(&after.vmstat);
        least_swap = [least_swap, after.swap_pages].into_iter().flatten().min_by_key(|[_, free]| *free);
    }
    let mut signs = between(&before, &after, begun.elapsed().as_secs_f64());
    let counters = difference(&before.vmstat, &after.vmstat);
    signs.dirty = dirty.finish(counters.get("nr_dirtied").map(|pages| *pages as f64));
    signs.swap = least_swap.map(|pages| pages.map(|pages| pages as f64));
    signs.file_systems = file_systems(source);
    // For root alone: others learn how much is slab, and not of what.
    signs.slabs = source.read("proc/slabinfo").map(|text| of_slabs(&Slabs::of(&text))).unwrap_or_default();
    let cgroups = cgroups(source);
    signs.at_limit = grown(
        &cgroups_before,
        &cgroups,
        |it| it.at_limit,
        |before, after| {
            let times = after.saturating_sub(before.unwrap_or(0)) as f64;
            (times > 0.0).then_some(times)
        },
    );
    signs.out_of_memory = grown(
        &cgroups_before,
        &cgroups,
        |it| it.out_of_memory,
        |before, after| {
            let before = before.unwrap_or_default();
            let grown = |before: u64, after: u64| after.saturating_sub(before) as f64;
            let now = OutOfMemory {
                times: grown(before.times, after.times),
                kills: grown(before.kills, after.kills),
                group_kills: grown(before.group_kills, after.group_kills),
                is_waiting: after.is_waiting,
            };
            (now != OutOfMemory::default()).then_some(now)
        },
    );
    signs.usage = course.whole().and_then(|whole| whole.signs.usage);
    Patient { course, ..Patient::new("this computer", signs) }
}

/// What two snapshots show.
#[must_use]
pub fn between(before: &Snapshot, after: &Snapshot, elapsed_s: f64) -> Signs {
    let counters = difference(&before.vmstat, &after.vmstat);
    let cpu_s = |snapshot: &Snapshot| {
        let of_kswapd = snapshot.kernel_cpu_s.iter().filter(|(name, _)| name.starts_with("kswapd"));
        of_kswapd.map(|(_, time)| *time).reduce(|sum, time| sum + time)
    };
    let waited = |of: fn(&Stalled) -> u64| {
        let us = |snapshot: &Snapshot| snapshot.stalled.get("memory").map(of);
        Some(us(after)?.saturating_sub(us(before)?) as f64 / 1e4 / elapsed_s)
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
        usage: used(before).zip(used(after)).map(|(before, after)| Usage::between(&before, &after)),
        missing: after.missing.clone(),
        ..of_counters(&counters, elapsed_s)
    }
}

/// What memory is used for.
fn used(snapshot: &Snapshot) -> Option<Arc<MemoryUse>> {
    MemoryUse::of_meminfo(&Meminfo::of(&snapshot.meminfo)).map(Arc::new)
}

/// Disks that had something to do.
fn disks(before: &Snapshot, after: &Snapshot, elapsed_s: f64) -> Vec<Disk> {
    let disk = |(name, after): (&String, &DiskStat)| {
        let before = before.disks.get(name)?;
        let grown = |of: fn(&DiskStat) -> u64| of(after).saturating_sub(of(before)) as f64;
        let (writes, busy_ms) = (grown(|disk| disk.writes), grown(|disk| disk.time_in_progress));
        let write_wait_ms = (writes > 0.0).then(|| grown(|disk| disk.time_writing) / writes);
        (busy_ms > 0.0).then(|| Disk {
            name: name.clone(),
            busy_percent: Some(busy_ms / 10.0 / elapsed_s),
            write_wait_ms,
        })
    };
    after.disks.iter().filter_map(disk).collect()
}

/// File systems on disks that may be written, each once; none where mounts cannot be read.
fn file_systems(source: &Source) -> Option<Vec<FileSystem>> {
    let text = source.read("proc/self/mountinfo").ok()?;
    let mut devices = BTreeSet::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        // ID, parent, device, root, mount, options, any number of others, "-", type, source, options of the whole.
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

/// What a cgroup tells.
struct Told {
    at_limit: Option<u64>,
    out_of_memory: Option<cgroup::OutOfMemory>,
}

/// All cgroups, by their paths.
type Cgroups = BTreeMap<String, Told>;

/// What cgroups told later, with what they had told before; none where no cgroup tells it.
fn grown<T: Copy, G>(
    before: &Cgroups,
    after: &Cgroups,
    of: fn(&Told) -> Option<T>,
    difference: impl Fn(Option<T>, T) -> Option<G>,
) -> Option<BTreeMap<String, G>> {
    let tells = |cgroups: &Cgroups| cgroups.values().any(|it| of(it).is_some());
    let one =
        |(name, told): (&String, &Told)| Some((name.clone(), difference(before.get(name).and_then(of), of(told)?)?));
    (tells(before) && tells(after)).then(|| after.iter().filter_map(one).collect())
}

/// What each cgroup tells so far.
fn cgroups(source: &Source) -> Cgroups {
    let root = source.path("sys/fs/cgroup");
    let mut found = BTreeMap::new();
    walk(&root, &root, 0, &mut found);
    found
}

fn walk(root: &Path, folder: &Path, depth: usize, found: &mut Cgroups) {
    let told = Told { at_limit: times_at_limit(folder), out_of_memory: cgroup::out_of_memory(folder) };
    if told.at_limit.is_some() || told.out_of_memory.is_some() {
        let name = folder.strip_prefix(root).unwrap_or(folder).display().to_string();
        found.insert(format!("/{name}"), told);
    }
    if depth == DEPTH_MAX {
        return;
    }
    // A cgroup may end meanwhile.
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.for_each(|entry| walk(root, &entry.path(), depth + 1, found));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Diagnosis;

    fn write(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

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
        let Patient { signs, course, .. } = look(&Source::new(root), Duration::from_millis(20), |time| {
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
        assert_eq!(causes, ["killed", "dirty-throttling", "swap-full", "cgroup-limit", "kswapd-awake"]);
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
