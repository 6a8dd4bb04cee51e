//! Writes the machine file of a computer: its description for the simulator.

use super::measure::{Cost, DiskSpeed};
use super::read::{Disk, Swap};
use super::{BASE, Computer, groups, nearest};
use catalogue::embedded;
use placed::{Error, Node, Value};
use std::fmt::Write as _;

/// A group of steps, such as the scan of a page, that no program can time one by one. Their costs are all multiplied by
/// the same factor, so that an experiment takes as much CPU time on the simulated system as on this computer.
#[derive(Debug)]
pub struct Group {
    /// Name of the experiment that is run on this computer and on the simulator. The two CPU times determine the factor
    /// by which the costs of the steps are multiplied.
    pub experiment: &'static str,
    /// Changes to the experiment, each a key and its new value.
    pub set: &'static [(&'static str, &'static str)],
    /// The activity that the experiment measures, such as "random reads". The machine file names this activity in the
    /// source of each cost that is fitted to it.
    pub about: &'static str,
    /// Names of the steps whose costs are multiplied by this group's factor.
    pub steps: &'static [&'static str],
}

/// The groups of steps whose costs are fitted to this computer. The factors of the groups are determined in this order,
/// because the experiment of a group also uses steps of earlier groups.
pub const GROUPS: [Group; 3] = [
    Group {
        experiment: "randread",
        set: &[("params.operations", "100000"), ("params.verify", "stamps")],
        about: "random reads",
        steps: &[
            "allocate_fast",
            "buddy_take",
            "index_insert",
            "index_remove",
            "shadow_store",
            "lru_move",
            "isolate_page",
            "scan_page",
            "reference_check",
            "reference_walk",
            "free_page",
            "end_page",
            "interrupt_entry",
        ],
    },
    Group {
        experiment: "anon",
        set: &[("params.operations", "100000")],
        about: "touches of swapped pages",
        steps: &["unmap_page", "pte_set", "swap_slot"],
    },
    Group {
        experiment: "randwrite",
        set: &[("params.operations", "100000")],
        about: "random writes",
        steps: &["write_begin", "dirty_page", "writeback_page", "bio_page"],
    },
];

/// Largest memory of the simulated computer, pages, if a cgroup limits its tasks: 64 GiB. Memory far beyond the limit
/// would never be touched.
const PAGES_MAX: u64 = 64 << 18;

/// The values measured on this computer: costs of steps, factors by which the costs of groups of steps are multiplied,
/// and the speed of the disk.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Measured costs of steps.
    pub costs: Vec<Cost>,
    /// The measured speed of the disk; none if it could not be measured.
    pub disk: Option<DiskSpeed>,
    /// The factor of each group in [`GROUPS`] for the costs of its steps; none leaves these costs unchanged.
    pub factors: [Option<f64>; GROUPS.len()],
    /// Measurements that failed, each with the reason.
    pub failures: Vec<String>,
    /// Share of all CPUs that other processes used during the measurements, %; none if unknown.
    pub others_percent: Option<f64>,
}

/// Returns a line of a machine file: a value with its origin (such as `measured` or `assumed`) and its source.
fn constant(name: &str, value: impl std::fmt::Display, from: &str, source: &str) -> String {
    // A JSON string is also a TOML string.
    let source = serde_json::Value::from(source);
    format!("{name} = {{ value = {value}, from = \"{from}\", source = {source} }}\n")
}

fn cost_line(step: &str, ns: u64, from: &str, source: &str) -> String {
    let source = serde_json::Value::from(source);
    format!("{step} = {{ ns = {ns}, from = \"{from}\", source = {source} }}\n")
}

/// Returns the machine file of a computer. If `limit_pages` is given, a memory cgroup with this limit contains all
/// tasks.
///
/// # Errors
/// When the built-in machine from which assumed costs are taken lacks one of them. The error has its file and line.
pub fn machine(computer: &Computer, limit_pages: Option<u64>, measured: &Measured) -> Result<String, Error> {
    let mut text = head(computer, limit_pages);
    for failure in &measured.failures {
        let _ = writeln!(text, "# Not measured: {}", failure.replace(char::is_control, " "));
    }
    if let Some(others) = measured.others_percent {
        let _ = writeln!(
            text,
            "# While it was measured, others and the kernel's own tasks used {others:.0} % of all CPUs."
        );
    }
    memory(&mut text, computer, limit_pages);
    cpu(&mut text, computer);
    cost(&mut text, computer, measured)?;
    disk(&mut text, computer, measured);
    groups::write(&mut text, &computer.groups);
    Ok(text)
}

fn head(computer: &Computer, limit_pages: Option<u64>) -> String {
    let Computer { release, .. } = computer;
    let mib = computer.pages() >> 8;
    let limit = limit_pages.map_or_else(String::new, |pages| format!(", a memory cgroup of {} MiB", pages >> 8));
    let cpus = match computer.cpus() {
        0 => String::new(),
        cpus => format!(", {cpus} CPUs"),
    };
    let linux = if release.is_empty() { String::new() } else { format!(", Linux {release}") };
    let about = match &computer.told_by {
        Some(files) => format!("a computer by {files}: {mib} MiB{cpus}{linux}{limit}"),
        None => format!("this computer: {mib} MiB, {} CPUs, Linux {release}{limit}", computer.cpus().max(1)),
    };
    let mut text = format!("base = \"{BASE}\"\nabout = {}\n\n", serde_json::Value::from(about));
    let _ =
        writeln!(text, "# What is not here is the base's. The nearest kernel file is {}.", nearest::kernel(computer));
    if !computer.sysctls.is_empty() {
        text.push_str(
            "# Sysctls of this computer, where they are to be its kernel's (0 of a percentage: bytes are set):\n",
        );
    }
    for sysctl in &computer.sysctls {
        let _ = writeln!(text, "#   --set {}={}  # {}", sysctl.key, sysctl.value, sysctl.name);
    }
    computer.missing.iter().for_each(|why| {
        let _ = writeln!(text, "# Not read: {}", why.replace(char::is_control, " "));
    });
    text
}

fn memory(text: &mut String, computer: &Computer, limit_pages: Option<u64>) {
    if computer.nodes.is_empty() && limit_pages.is_none() {
        return;
    }
    text.push_str("\n[memory]\n");
    if let Some(pages) = limit_pages {
        let _ = writeln!(text, "limit_pages = {pages}");
    }
    if computer.nodes.is_empty() {
        return;
    }
    // The simulator has a descriptor for each page, so memory far beyond the limit, which is never touched, is left
    // out.
    let of_all = |pages: u64| match limit_pages {
        Some(_) => {
            (u128::from(pages) * u128::from(computer.pages().min(PAGES_MAX)) / u128::from(computer.pages().max(1)))
                as u64
        }
        None => pages,
    };
    if limit_pages.is_some() && computer.pages() > PAGES_MAX {
        let _ = writeln!(
            text,
            "# Zones are {} GiB in all: what is free beyond the limit is never touched.",
            PAGES_MAX >> 18
        );
    }
    // Hypervisors may plug memory in and out. The zones show what the allocator can give at this moment.
    if let Some(total) = computer.total_pages.filter(|total| *total != computer.pages()) {
        let [zones, total] = [computer.pages(), total].map(|pages| pages >> 8);
        let _ = writeln!(
            text,
            "# Zones have {zones} MiB in /proc/zoneinfo (managed), and MemTotal was {total} MiB a moment later: memory came or went."
        );
    }
    text.push_str("nodes = [\n");
    for node in &computer.nodes {
        let zones: Vec<String> = node
            .zones
            .iter()
            .map(|zone| format!("{{ kind = \"{}\", managed_pages = {} }}", zone.kind, of_all(zone.managed_pages)))
            .collect();
        let _ = writeln!(text, "    {{ zones = [{}] }},", zones.join(", "));
    }
    text.push_str("]\n");
    let nodes = computer.nodes.len();
    if nodes > 1 && computer.nodes.iter().all(|node| node.distances.len() == nodes) {
        let rows: Vec<String> = computer.nodes.iter().map(|node| format!("{:?}", node.distances)).collect();
        let _ = writeln!(text, "distances = [{}]", rows.join(", "));
    }
}

fn cpu(text: &mut String, computer: &Computer) {
    if computer.cpus() == 0 {
        return;
    }
    text.push_str("\n[cpu]\n");
    let (nodes_from, source) = match computer.told_by {
        Some(_) => ("assumed", "/proc/zoneinfo"),
        None => ("measured", "/sys/devices/system/node"),
    };
    text.push_str(&constant("count", computer.cpus(), "measured", source));
    text.push_str(&constant("interrupt_cpu", 0, "assumed", "default affinity"));
    if computer.nodes.len() > 1 {
        let mut of_cpu: Vec<(usize, usize)> =
            (0..).zip(&computer.nodes).flat_map(|(n, node)| node.cpus.iter().map(move |cpu| (*cpu, n))).collect();
        of_cpu.sort_unstable();
        let nodes: Vec<usize> = of_cpu.into_iter().map(|(_, node)| node).collect();
        text.push_str(&constant("nodes", format!("{nodes:?}"), nodes_from, source));
    }
}

/// Returns the cost of a step in the built-in machine from which assumed costs are taken, ns.
fn base_cost(step: &str) -> Result<u64, Error> {
    let path = format!("machines/{BASE}.toml");
    let base = Node::parse(&path, embedded::text(&path).unwrap_or_default())?;
    let ns = base.get("cost").and_then(|cost| cost.get(step)).and_then(|constant| constant.get("ns"));
    match ns.map(|node| (node, &node.value)) {
        Some((node, Value::Integer(_))) => node.read(),
        _ => Err(Error::at(&base.place, format!("the base machine has no cost of `{step}`"))),
    }
}

fn cost(text: &mut String, computer: &Computer, measured: &Measured) -> Result<(), Error> {
    let mut lines = String::new();
    for Cost { step, ns, source } in &measured.costs {
        lines.push_str(&cost_line(step, *ns, "measured", source));
    }
    for (group, factor) in GROUPS.iter().zip(measured.factors) {
        let Some(factor) = factor else { continue };
        let about = group.about;
        let source = format!("{factor:.2} times the base's, by the system's CPU time of {about} on this computer");
        for step in group.steps {
            lines.push_str(&cost_line(step, (base_cost(step)? as f64 * factor).round() as u64, "fitted", &source));
        }
    }
    if let Some(speed) = measured.disk.filter(|_| is_synchronous(computer)) {
        // The CPU that makes the request does the device's work.
        let syscall = measured.costs.iter().find(|cost| cost.step == "syscall_entry").map_or(0, |cost| cost.ns);
        let read = speed.read_ns.saturating_sub(syscall);
        lines.push_str(&cost_line("submit_request", read, "measured", "a direct read of 4 KiB, on the CPU that asks"));
        let write = base_cost("write_page")? + speed.write_ns.saturating_sub(speed.read_ns);
        lines.push_str(&cost_line(
            "write_page",
            write,
            "measured",
            "the base's, and what a direct write takes more than a read",
        ));
    }
    if !lines.is_empty() {
        let _ = write!(text, "\n[cost]\n{lines}");
    }
    Ok(())
}

fn is_synchronous(computer: &Computer) -> bool {
    computer.disk.as_ref().is_some_and(|disk| disk.is_synchronous)
}

/// Writes the section of the disk to `text`. In the machine file, files and swap share one disk, on which swap comes
/// after the files.
fn disk(text: &mut String, computer: &Computer, measured: &Measured) {
    let assumed = computer.told_by.as_ref().and(computer.swap.as_ref()).map(|_| assumed_disk(computer));
    let Some(disk) = computer.disk.as_ref().or(assumed.as_ref()) else { return };
    let (from, of_disk) = match computer.disk {
        Some(_) => ("measured", format!("/sys/block, {}", disk.name)),
        None => ("assumed", disk.name.clone()),
    };
    let (slots, of_swap) = match &computer.swap {
        Some(swap) if computer.told_by.is_some() => (swap.slots, swap.name.clone()),
        Some(swap) => (swap.slots, format!("/proc/swaps, {}", swap.name)),
        None => (0, "/proc/swaps: none".to_owned()),
    };
    text.push_str("\n[[disk]]\n");
    text.push_str(&constant("file_blocks", format!("[1, {}]", disk.blocks), from, &of_disk));
    text.push_str(&constant(
        "swap_first_block",
        disk.blocks,
        "assumed",
        "swap behind the files, as if on the same disk",
    ));
    text.push_str(&constant("swap_slots", slots, "measured", &of_swap));
    if computer.swap.as_ref().is_some_and(|swap| swap.is_synchronous) {
        if disk.is_synchronous {
            text.push_str(&constant("synchronous", true, "measured", &of_swap));
        } else {
            text.push_str("# Swap answers at once here, and the disk under files does not: as one disk, both are as slow as that.\n");
        }
    }
    if let Some(why) = two_devices(computer) {
        let _ = writeln!(text, "# {why}");
    }
    text.push_str("\n[disk.device]\n");
    let capacity = constant("capacity_blocks", disk.blocks + slots, from, &format!("{of_disk}, and swap"));
    // A disk does not rotate if its queue says so. Otherwise the measured time of a read decides, or without a
    // measurement the disk's model.
    let turns =
        disk.is_rotational && measured.disk.map_or(disk.why_not.is_none(), |speed| speed.read_ns >= TURNS_FROM_NS);
    if turns {
        text.push_str(&rotational(disk, measured, &capacity));
        return;
    }
    text.push_str("model = \"flash\"\n");
    let why = match measured.disk {
        Some(speed) => Some(format!("a read of {} ns says that it does not", speed.read_ns)),
        None => disk.why_not.as_ref().map(|why| format!("but {}", why.replace(char::is_control, " "))),
    };
    if let Some(why) = why.filter(|_| disk.is_rotational) {
        let _ = writeln!(text, "# queue/rotational says that it turns, as it does of many virtual disks; {why}.");
    }
    text.push_str(&capacity);
    let queue = disk.nr_requests.map_or((128, "assumed", "it has no queue, or does not tell"), |requests| {
        (requests, "measured", "queue/nr_requests")
    });
    text.push_str(&constant("queue_depth", queue.0, queue.1, queue.2));
    let Numbers { channels, read_ns, write_ns, read_bytes_per_s, write_bytes_per_s, from, source } =
        numbers(disk, measured.disk);
    for (name, value) in [
        ("channels", channels),
        ("read_latency_ns", read_ns),
        ("write_latency_ns", write_ns),
        ("read_bandwidth_bytes_per_s", read_bytes_per_s),
        ("write_bandwidth_bytes_per_s", write_bytes_per_s),
    ] {
        text.push_str(&constant(name, value, from, &source));
    }
    text.push_str(&constant("command_ns", 1, "assumed", "in the latencies"));
}

/// Returns the figures of a disk that does not rotate, such as its speed, measured or assumed.
fn numbers(disk: &Disk, measured: Option<DiskSpeed>) -> Numbers {
    match measured {
        // Times are so small and rates so large that only the cost of `submit_request` matters.
        Some(speed) if disk.is_synchronous => Numbers {
            read_ns: 1,
            write_ns: 1,
            channels: 64,
            read_bytes_per_s: 100_000_000_000,
            write_bytes_per_s: 100_000_000_000,
            from: "assumed",
            source: format!(
                "done on the CPU that asks: submit_request has it ({} ns a read, {} ns a write, measured)",
                speed.read_ns, speed.write_ns
            ),
        },
        Some(speed) => Numbers {
            read_ns: speed.read_ns,
            write_ns: speed.write_ns,
            channels: speed.channels,
            read_bytes_per_s: speed.read_bytes_per_s,
            write_bytes_per_s: speed.write_bytes_per_s,
            from: "measured",
            source: "direct I/O to a file of 128 MiB".into(),
        },
        None => Numbers {
            read_ns: 80_000,
            write_ns: 20_000,
            channels: 32,
            read_bytes_per_s: 3_200_000_000,
            write_bytes_per_s: 2_000_000_000,
            from: "assumed",
            source: "as the base's; `highwater calibrate` measures it".into(),
        },
    }
}

/// Returns the disk that is assumed if texts describe swap but no disk: a flash disk whose part for files is 16 times
/// as large as memory, and at least 64 GiB.
fn assumed_disk(computer: &Computer) -> Disk {
    Disk {
        name: "nothing tells of the disk: a flash disk is assumed".into(),
        blocks: 16 * computer.pages().max(1 << 20),
        is_rotational: false,
        why_not: None,
        is_synchronous: false,
        nr_requests: None,
    }
}

/// Returns a note if files and swap are on two devices, which become one disk in the machine file.
#[must_use]
pub fn two_devices(computer: &Computer) -> Option<String> {
    let disk = computer.disk.as_ref()?;
    let swap = computer.swap.as_ref().filter(|swap| !is_on(disk, swap))?;
    Some(format!(
        "Swap is on {} and files are on {}: runs use the first [[disk]] alone, so that both share its queue and speed here.",
        swap.name, disk.name
    ))
}

/// Returns whether the swap area `swap` is a partition of `disk`. Returns true for every swap file, because its disk is
/// not known.
fn is_on(disk: &Disk, swap: &Swap) -> bool {
    match swap.name.strip_prefix("/dev/") {
        // `sda1` and `sda2` belong to one disk, and so do `nvme0n1p1` and `nvme0n1p2`.
        Some(device) => whole(device) == whole(&disk.name),
        None => true,
    }
}

/// Returns the name of the disk that a partition is on.
fn whole(device: &str) -> &str {
    let without = device.trim_end_matches(|c: char| c.is_ascii_digit());
    match without.strip_suffix('p') {
        Some(disk) if disk.ends_with(|c: char| c.is_ascii_digit()) => disk,
        _ if ["sd", "vd", "hd", "xvd"].iter().any(|kind| device.starts_with(kind)) => without,
        _ => device,
    }
}

/// Smallest time, ns, that a measured random read must take so that a disk counts as rotating, if it also reports that
/// it rotates. Half a rotation at 15000 rpm takes 2 ms.
const TURNS_FROM_NS: u64 = 1_000_000;

/// Returns the part of a machine file that describes a rotating disk. The distance between the measured blocks is
/// unknown, so seek times are those of a typical drive.
fn rotational(disk: &Disk, measured: &Measured, capacity: &str) -> String {
    let mut text = format!("model = \"rotational\"\n{capacity}");
    text.push_str(&constant("rpm", 7200, "assumed", "queue/rotational is 1; as parallelio-8g, a common drive"));
    let (bandwidth, from, source) = match measured.disk {
        Some(speed) => (speed.read_bytes_per_s, "measured", "direct reads of a file of 128 MiB in order"),
        None => (150_000_000, "assumed", "a common drive; `highwater calibrate` measures it"),
    };
    text.push_str(&constant("bandwidth_bytes_per_s", bandwidth, from, source));
    for (name, ns) in [
        ("seek_track_to_track_ns", 1_000_000),
        ("seek_average_ns", 8_500_000),
        ("seek_full_ns", 18_000_000),
        ("command_ns", 150_000),
    ] {
        text.push_str(&constant(name, ns, "assumed", "as parallelio-8g, a common drive of 7200 rpm"));
    }
    if let Some(requests) = disk.nr_requests {
        text.push_str("\n[disk.device.queue]\n");
        text.push_str(&constant("nr_requests", requests, "measured", "queue/nr_requests"));
    }
    text
}

struct Numbers {
    read_ns: u64,
    write_ns: u64,
    channels: u64,
    read_bytes_per_s: u64,
    write_bytes_per_s: u64,
    from: &'static str,
    source: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::this_computer::read::{Node, Sysctl, Zone};
    use catalogue::hardware;
    use engine::kernel::Source;

    fn computer() -> Computer {
        let zone = |kind, managed_pages| Zone { kind, managed_pages };
        Computer {
            told_by: None,
            release: "6.18.44 \"test\"".into(),
            has_multigen: Some(false),
            nodes: vec![
                Node {
                    zones: vec![zone("dma32", 50_000), zone("normal", 500_000)],
                    cpus: vec![0, 2],
                    distances: vec![10, 21],
                },
                Node { zones: vec![zone("normal", 400_000)], cpus: vec![1, 3], distances: vec![21, 10] },
            ],
            total_pages: Some(950_000),
            disk: Some(Disk {
                name: "zram0".into(),
                blocks: 1_000_000,
                is_rotational: false,
                why_not: None,
                is_synchronous: true,
                nr_requests: None,
            }),
            swap: Some(Swap { name: "/dev/zram1".into(), slots: 300_000, is_synchronous: true }),
            sysctls: vec![Sysctl { name: "vm.swappiness", key: "lru.swappiness", value: 10 }],
            groups: Vec::new(),
            missing: vec!["/proc/x: not\nthere".into()],
        }
    }

    fn read(text: &str) -> hardware::Hardware {
        let resolve = |name: &str| embedded::source(&format!("machines/{name}.toml")).ok_or_else(|| name.to_owned());
        let source = Source { file: "here.toml".into(), text: text.to_owned() };
        hardware::machine("here", source, &resolve, &[], &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn the_file_is_read_as_what_the_computer_is() {
        let text = machine(&computer(), Some(131_072), &Measured::default()).unwrap();
        let machine = read(&text);
        assert_eq!((machine.memory.pages(), machine.memory.usable_pages()), (950_000, 131_072));
        assert_eq!(machine.cpu.node_of_each(2), [0, 1, 0, 1]);
        assert_eq!(machine.memory.distance(0, 1), 21);
        assert_eq!(machine.disks[0].swap_slots.value, 300_000);
        assert!(machine.disks[0].synchronous.as_ref().unwrap().value);
        assert!(
            text.contains("--set lru.swappiness=10") && text.contains("6.18-classic") && text.contains("not there")
        );
    }

    #[test]
    fn what_was_measured_stands_in_it_with_its_source() {
        let speed = DiskSpeed {
            read_ns: 2000,
            write_ns: 5000,
            channels: 2,
            read_bytes_per_s: 3_000_000_000,
            write_bytes_per_s: 1_000_000_000,
        };
        let costs = vec![Cost { step: "syscall_entry", ns: 150, source: "measured" }];
        let measured = Measured {
            costs,
            disk: Some(speed),
            factors: [Some(2.0), None, Some(0.5)],
            failures: vec!["swap: none".into()],
            others_percent: Some(37.4),
        };
        let text = machine(&computer(), None, &measured).unwrap();
        read(&text);
        assert!(
            text.contains("own tasks used 37 % of all CPUs") && text.contains("\n# Not measured: swap: none\n"),
            "{text}"
        );
        assert!(text.contains("submit_request = { ns = 1850, from = \"measured\""), "{text}");
        assert!(text.contains("scan_page = { ns = 250, from = \"fitted\""), "{text}");
        assert!(text.contains("write_page = { ns = 3500,") && text.contains("write_begin = { ns = 500,"), "{text}");
        assert!(!text.contains("unmap_page"), "its group was not measured: {text}");
        // The measured times of a disk that does not complete requests at once are used as they are.
        let mut plain = computer();
        plain.disk.as_mut().unwrap().is_synchronous = false;
        let text = machine(&plain, None, &measured).unwrap();
        read(&text);
        assert!(text.contains("read_latency_ns = { value = 2000,") && !text.contains("submit_request"), "{text}");
        assert!(read(&text).disks[0].synchronous.is_none() && text.contains("Swap answers at once here"), "{text}");
    }

    #[test]
    fn a_disk_that_turns_is_one_that_turns_unless_its_reads_say_otherwise() {
        let mut turning = computer();
        let disk = Disk {
            name: "sda1".into(),
            is_rotational: true,
            why_not: None,
            is_synchronous: false,
            nr_requests: Some(64),
            ..turning.disk.take().unwrap()
        };
        turning.disk = Some(disk);
        turning.swap.as_mut().unwrap().name = "/dev/sda2".into();
        let speed = |read_ns| DiskSpeed {
            read_ns,
            write_ns: 1,
            channels: 1,
            read_bytes_per_s: 99_000_000,
            write_bytes_per_s: 1_000_000_000,
        };
        let text_of = |disk| machine(&turning, None, &Measured { disk, ..Measured::default() }).unwrap();
        for (speed, bandwidth) in [(None, 150_000_000), (Some(speed(6_000_000)), 99_000_000)] {
            let text = text_of(speed);
            let sim::disk::DiskConfig::Rotational(device) = &read(&text).disks[0].device else { panic!("{text}") };
            assert_eq!((device.bandwidth_bytes_per_s.value, device.queue.nr_requests.value), (bandwidth, 64));
        }
        let text = text_of(Some(speed(90_000)));
        read(&text);
        assert!(
            text.contains("model = \"flash\"") && text.contains("a read of 90000 ns says that it does not"),
            "{text}"
        );
    }

    #[test]
    fn two_disks_and_memory_that_comes_and_goes_are_told() {
        let mut other = computer();
        assert!(
            machine(&other, None, &Measured::default())
                .unwrap()
                .contains("Swap is on /dev/zram1 and files are on zram0")
        );
        other.total_pages = Some(1_206_000);
        let text = machine(&other, None, &Measured::default()).unwrap();
        read(&text);
        assert!(text.contains("Zones have 3710 MiB in /proc/zoneinfo (managed), and MemTotal was 4710 MiB"), "{text}");
        let name = |disk: &str| Disk { name: disk.into(), ..computer().disk.unwrap() };
        let swap = |swap: &str| Swap { name: swap.into(), ..computer().swap.unwrap() };
        for (files, of_swap) in
            [("sda1", "/dev/sda2"), ("nvme0n1p1", "/dev/nvme0n1p3"), ("vda", "/swapfile"), ("sda", "/dev/sda3")]
        {
            assert!(is_on(&name(files), &swap(of_swap)), "{files}, {of_swap}");
        }
        for (files, of_swap) in
            [("sda1", "/dev/sdb1"), ("nvme0n1p1", "/dev/nvme1n1p1"), ("vda", "/dev/zram0"), ("dm-0", "/dev/dm-1")]
        {
            assert!(!is_on(&name(files), &swap(of_swap)), "{files}, {of_swap}");
        }
    }

    #[test]
    fn a_very_large_computer_is_cut_where_there_is_a_limit() {
        let mut large = computer();
        large.nodes[0].zones[1].managed_pages = 1 << 28;
        let pages = |limit_pages| read(&machine(&large, limit_pages, &Measured::default()).unwrap()).memory.pages();
        assert!((PAGES_MAX - 4..=PAGES_MAX).contains(&pages(Some(131_072))));
        assert_eq!(pages(None), large.pages());
    }

    #[test]
    fn groups_are_read_again_with_their_parents() {
        let group = |path: &str, mib: u64| groups::Group {
            path: path.into(),
            max: Some(mib << 20),
            low: Some(u64::MAX),
            ..groups::Group::default()
        };
        let here = Computer { groups: vec![group("a.slice/x.service", 64), group("a-b", 8)], ..computer() };
        let found = read(&machine(&here, None, &Measured::default()).unwrap()).groups;
        let told: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.max_mib, it.low_mib)).collect();
        assert_eq!(
            told,
            [("a-b", Some(8), Some(8)), ("a_slice", None, None), ("a_slice/x_service", Some(64), Some(64))]
        );
    }

    #[test]
    fn a_computer_of_which_nothing_is_known_is_the_base() {
        let text = machine(&Computer::default(), None, &Measured::default()).unwrap();
        assert_eq!(read(&text).memory.pages(), 131_072);
    }
}
