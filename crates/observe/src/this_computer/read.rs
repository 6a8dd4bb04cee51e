//! Reads the description of a computer from its running kernel.

use super::groups::{self, Group};
use super::turns;
use crate::stat::Snapshot;
use crate::stat::snapshot::Source;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A zone of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The zone's kind in machine files: `dma`, `dma32`, `normal`.
    pub kind: &'static str,
    /// Pages that the zone's allocator manages.
    pub managed_pages: u64,
}

/// A NUMA node of a computer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The node's zones, lowest first.
    pub zones: Vec<Zone>,
    /// The node's CPUs.
    pub cpus: Vec<usize>,
    /// The node's distances to all nodes, in the order of nodes.
    pub distances: Vec<u8>,
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The disk's name: `sda`, `zram0`.
    pub name: String,
    /// The disk's size in blocks of 4096 bytes.
    pub blocks: u64,
    /// True if the disk's queue reports a rotating disk.
    pub is_rotational: bool,
    /// The reason why the disk certainly does not rotate, even if its queue reports that it does: for example, the disk
    /// is virtual. None if no reason is known.
    pub why_not: Option<String>,
    /// True if the disk completes requests at once, as zram, persistent memory and RAM disks do.
    pub is_synchronous: bool,
    /// Number of requests that the disk's queue holds; none if the disk has no queue.
    pub nr_requests: Option<u64>,
}

/// Swap of a computer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// The name of the swap device or swap file.
    pub name: String,
    /// Number of slots, each for one page.
    pub slots: u64,
    /// True if the swap device completes requests at once.
    pub is_synchronous: bool,
}

/// A sysctl that corresponds to a key in kernel files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// The sysctl's name, such as `vm.swappiness`.
    pub name: &'static str,
    /// The key of kernel files that corresponds to the sysctl.
    pub key: &'static str,
    /// The sysctl's value.
    pub value: u64,
}

/// The description of a computer.
#[derive(Clone, Debug, Default)]
pub struct Computer {
    /// Names of the texts from which the description was read; none if it was read from the kernel's own files.
    pub told_by: Option<String>,
    /// The kernel's release.
    pub release: String,
    /// `Some(true)` if the multi-generational LRU is on; none if the kernel does not have it.
    pub has_multigen: Option<bool>,
    /// The computer's NUMA nodes.
    pub nodes: Vec<Node>,
    /// `MemTotal` in `/proc/meminfo`, pages. It is the sum of all managed pages, unless memory was plugged in or out
    /// between the readings of `/proc/zoneinfo` and `/proc/meminfo`.
    pub total_pages: Option<u64>,
    /// The disk that holds the folder given to [`Computer::read`]; none if unknown.
    pub disk: Option<Disk>,
    /// The swap of all devices together. Its name is that of the first device.
    pub swap: Option<Swap>,
    /// Sysctls with their values.
    pub sysctls: Vec<Sysctl>,
    /// Memory control groups with a limit or a protection, those with the most memory first.
    pub groups: Vec<Group>,
    /// Files that could not be read, each with the reason.
    pub missing: Vec<String>,
}

/// Sysctls that are read, each with its key in kernel files.
pub(super) const SYSCTLS: [(&str, &str); 7] = [
    ("vm.swappiness", "lru.swappiness"),
    ("vm.min_free_kbytes", "memory.min_free_kbytes"),
    ("vm.watermark_scale_factor", "memory.watermark_scale_factor"),
    ("vm.page-cluster", "swap.page_cluster"),
    ("vm.dirty_ratio", "writeback.dirty_ratio"),
    ("vm.dirty_background_ratio", "writeback.dirty_background_ratio"),
    ("vm.zone_reclaim_mode", "reclaim.zone_reclaim_mode"),
];

/// Prefixes of the names of block devices whose contents are in memory, and which therefore complete requests at once.
const SYNCHRONOUS: [&str; 3] = ["zram", "pmem", "ram"];

impl Computer {
    /// Reads the description of a computer from the files of `source`. The disk in the description is the one that
    /// holds `folder`.
    #[must_use]
    pub fn read(source: &Source, folder: &Path) -> Self {
        let snapshot = Snapshot::take(source);
        let mut this = Self { missing: snapshot.missing.clone(), ..Self::default() };
        let text = |path: &str| fs::read_to_string(source.path(path)).map(|text| text.trim().to_owned());
        this.release = text("proc/sys/kernel/osrelease").unwrap_or_default();
        let enabled = text("sys/kernel/mm/lru_gen/enabled").ok();
        this.has_multigen = enabled.map(|word| !["0x0000", "0"].contains(&word.as_str()));
        this.nodes = nodes(&snapshot, &text);
        this.total_pages = text("proc/meminfo").ok().and_then(|meminfo| total_pages(&meminfo));
        if this.nodes.is_empty() {
            this.missing.push("/proc/zoneinfo: no zone that the allocator manages".into());
        }
        match disk_under(source, folder) {
            Ok(disk) => this.disk = Some(disk),
            Err(why) => this.missing.push(why),
        }
        this.groups = groups::read(source);
        this.swap = text("proc/swaps").ok().and_then(|swaps| swap(&swaps));
        for (name, key) in SYSCTLS {
            let path = format!("proc/sys/{}", name.replace('.', "/"));
            if let Some(value) = text(&path).ok().and_then(|word| word.parse().ok()) {
                this.sysctls.push(Sysctl { name, key, value });
            }
        }
        this
    }

    /// Returns the number of managed pages in all zones together.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.nodes.iter().flat_map(|node| &node.zones).map(|zone| zone.managed_pages).sum()
    }

    /// Returns the number of CPUs on all nodes.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.nodes.iter().map(|node| node.cpus.len()).sum()
    }
}

/// Returns the nodes with their zones and CPUs.
fn nodes(snapshot: &Snapshot, text: &dyn Fn(&str) -> std::io::Result<String>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for zone in &snapshot.zones {
        let (name, number) = zone.name.split_once(" of node ").unwrap_or((&zone.name, "0"));
        let Ok(number) = number.parse::<usize>() else { continue };
        add_zone(&mut nodes, number, name, zone.managed);
    }
    for (number, node) in nodes.iter_mut().enumerate() {
        let of_node = |file: &str| text(&format!("sys/devices/system/node/node{number}/{file}"));
        node.cpus = of_node("cpulist").ok().and_then(|list| numbers(&list)).unwrap_or_default();
        let distances = of_node("distance").unwrap_or_default();
        node.distances = distances.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    }
    if nodes.iter().all(|node| node.cpus.is_empty())
        && let Some(first) = nodes.first_mut()
    {
        first.cpus = text("sys/devices/system/cpu/online").ok().and_then(|list| numbers(&list)).unwrap_or_default();
    }
    // A node without memory has no zone to reclaim from. Its CPUs are assigned to the first node.
    let homeless: Vec<usize> =
        nodes.iter_mut().filter(|node| node.zones.is_empty()).flat_map(|node| std::mem::take(&mut node.cpus)).collect();
    nodes.retain(|node| !node.zones.is_empty());
    if let Some(first) = nodes.first_mut() {
        first.cpus.extend(homeless);
    }
    nodes
}

/// Adds a zone to node number `number`. The pages of zones above Normal count as part of Normal.
pub(super) fn add_zone(nodes: &mut Vec<Node>, number: usize, name: &str, managed_pages: u64) {
    let kind = match name {
        "DMA" => "dma",
        "DMA32" => "dma32",
        "Device" => return,
        _ => "normal",
    };
    // No kernel has more than 1024 nodes.
    let number = number.min(1023);
    nodes.resize_with(nodes.len().max(number + 1), Node::default);
    let zones = &mut nodes[number].zones;
    match zones.iter_mut().find(|zone| zone.kind == kind) {
        Some(same) => same.managed_pages += managed_pages,
        None => zones.push(Zone { kind, managed_pages }),
    }
}

/// Returns `MemTotal` from `/proc/meminfo`, pages.
fn total_pages(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(total.split_whitespace().next()?.parse::<u64>().ok()? / 4)
}

/// Reads a list of numbers in the kernel's form: `0-3,8`.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        found.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(found)
}

/// Returns the disk that holds a folder's files.
fn disk_under(source: &Source, folder: &Path) -> Result<Disk, String> {
    let told = |why: String| format!("the disk under {}: {why}", folder.display());
    let device = fs::metadata(folder).map_err(|error| told(error.to_string()))?.dev();
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    let place = source.path("sys/dev/block").join(&number);
    let place = fs::canonicalize(&place)
        .map_err(|_| told(format!("its file system lies on no block device ({number} is none of /sys/dev/block)")))?;
    disk_at(&place).ok_or_else(|| told(format!("{} does not tell its size", place.display())))
}

fn disk_at(place: &Path) -> Option<Disk> {
    let read = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let sectors: u64 = read(&place.join("size"))?.parse().ok()?;
    // A partition uses the queue of its disk.
    let queue = [place.join("queue"), place.parent()?.join("queue")].into_iter().find(|queue| queue.is_dir());
    let of_queue = |file: &str| queue.as_ref().and_then(|queue| read(&queue.join(file)));
    let name = place.file_name()?.to_string_lossy().into_owned();
    Some(Disk {
        blocks: sectors / 8,
        is_rotational: of_queue("rotational").as_deref() == Some("1"),
        why_not: turns::why_not(place),
        is_synchronous: is_synchronous(&name),
        nr_requests: of_queue("nr_requests").and_then(|word| word.parse().ok()),
        name,
    })
}

pub(super) fn is_synchronous(name: &str) -> bool {
    SYNCHRONOUS
        .iter()
        .any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))
}

fn swap(swaps: &str) -> Option<Swap> {
    let mut found: Option<Swap> = None;
    for line in swaps.lines().skip(1) {
        let mut words = line.split_whitespace();
        let (Some(name), Some(kib)) = (words.next(), words.nth(1).and_then(|word| word.parse::<u64>().ok())) else {
            continue;
        };
        let slots = kib / 4;
        match &mut found {
            Some(swap) => swap.slots += slots,
            None => {
                let device = name.rsplit('/').next().unwrap_or(name);
                found = Some(Swap { name: name.to_owned(), slots, is_synchronous: is_synchronous(device) });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::scratch::write;

    #[test]
    fn a_computer_of_two_nodes_is_read() {
        let root = tempfile::tempdir().unwrap();
        let zones = "Node 0, zone      DMA\n  pages free 1\n        managed  3840\nNode 0, zone   Normal\n  pages free 1\n        \
                     managed  1000000\nNode 0, zone  Movable\n  pages free 1\n        managed  5000\nNode 1, zone   Normal\n  pages \
                     free 1\n        managed  900000\n";
        write(root.path(), "proc/zoneinfo", zones);
        write(root.path(), "proc/sys/kernel/osrelease", "6.18.44-test\n");
        write(root.path(), "proc/sys/vm/swappiness", "10\n");
        write(root.path(), "proc/sys/vm/page-cluster", "0\n");
        write(root.path(), "proc/meminfo", "MemTotal:        8000004 kB\nMemFree: 5 kB\n");
        write(
            root.path(),
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/zram1 partition 2097148 0 -2\n/swap file 4096 0 -3\n",
        );
        write(root.path(), "sys/kernel/mm/lru_gen/enabled", "0x0007\n");
        write(root.path(), "sys/devices/system/node/node0/cpulist", "0-1,4\n");
        write(root.path(), "sys/devices/system/node/node0/distance", "10 21\n");
        write(root.path(), "sys/devices/system/node/node1/cpulist", "2-3\n");
        write(root.path(), "sys/devices/system/node/node1/distance", "21 10\n");
        let computer = Computer::read(&Source::new(root.path()), root.path());
        let of_zone = |kind, managed_pages| Zone { kind, managed_pages };
        assert_eq!(computer.nodes[0].zones, [of_zone("dma", 3840), of_zone("normal", 1_005_000)]);
        assert_eq!((&*computer.nodes[0].cpus, &*computer.nodes[1].cpus), (&[0, 1, 4][..], &[2, 3][..]));
        assert_eq!((computer.pages(), computer.cpus(), computer.has_multigen), (1_908_840, 5, Some(true)));
        assert_eq!((&*computer.nodes[1].distances, computer.total_pages), (&[21, 10][..], Some(2_000_001)));
        assert_eq!(computer.swap, Some(Swap { name: "/dev/zram1".into(), slots: 525_311, is_synchronous: true }));
        assert_eq!(computer.sysctls.len(), 2);
        // The test's folder is on a disk that this copy of /sys does not have.
        assert!(computer.disk.is_none() && computer.missing.iter().any(|why| why.contains("block device")));
    }

    #[test]
    fn a_partition_has_the_queue_of_its_disk() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "sda/queue/rotational", "1\n");
        write(root.path(), "sda/queue/nr_requests", "256\n");
        write(root.path(), "sda/sda1/size", "8000\n");
        let disk = disk_at(&root.path().join("sda/sda1")).unwrap();
        let expected = Disk {
            name: "sda1".into(),
            blocks: 1000,
            is_rotational: true,
            why_not: None,
            is_synchronous: false,
            nr_requests: Some(256),
        };
        assert_eq!(disk, expected);
        assert!(
            is_synchronous("zram0") && is_synchronous("pmem1") && !is_synchronous("ramen") && !is_synchronous("sda")
        );
        assert_eq!(numbers("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!((numbers(""), numbers("x")), (Some(vec![]), None));
    }
}
