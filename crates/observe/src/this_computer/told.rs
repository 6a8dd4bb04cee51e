//! Descriptions of a computer from texts that its owner pasted, for `highwater machine from`.

use super::read::{Computer, Node, SYSCTLS, Swap, Sysctl, add_zone, is_synchronous};
use recordings::kernel_log::Report;
use recordings::looks::zoneinfo::Zone;
use recordings::looks::{Meminfo, Swaps, Told};

/// Size of a page, KiB.
const PAGE_KIB: u64 = 4;

/// Returns the computer that the texts describe. `files` has the names of the texts. Zones are taken from
/// `/proc/zoneinfo`, or else from the last report of a kernel log. If there is neither, the computer gets a single zone
/// of the size in `/proc/meminfo`.
///
/// # Errors
/// When no text states the size of memory.
pub fn computer(files: &str, told: &[Told]) -> Result<Computer, String> {
    let mut this = Computer { told_by: Some(files.to_owned()), ..Computer::default() };
    let zoneinfo = told
        .iter()
        .rev()
        .find_map(|it| if let Told::Zoneinfo(look) = it { Some(&look.zones) } else { None })
        .filter(|zones| zones.iter().any(|zone| zone.managed() > 0));
    let meminfo = told.iter().rev().find_map(|it| if let Told::Meminfo(look) = it { Some(look) } else { None });
    let swaps = told.iter().rev().find_map(|it| if let Told::Swaps(look) = it { Some(look) } else { None });
    let logs = || told.iter().filter_map(|it| if let Told::Log(log) = it { Some(log) } else { None });
    let report =
        logs().flat_map(|log| &log.reports).rfind(|report| report.zones.iter().any(|zone| zone.kib("managed") > 0));
    this.release = logs().find_map(|log| log.release.clone()).unwrap_or_default();
    this.total_pages = meminfo.and_then(|look| look.get("MemTotal")).map(|kib| kib / PAGE_KIB);
    match (zoneinfo, report, this.total_pages) {
        (Some(zones), ..) => of_zones(&mut this, zones),
        (None, Some(report), _) => of_report(&mut this, report),
        (None, None, Some(pages)) => {
            add_zone(&mut this.nodes, 0, "Normal", pages);
            this.missing.push("/proc/zoneinfo: all memory is taken for one zone".into());
        }
        (None, None, None) => {
            return Err("nothing in it tells how much memory there is: /proc/zoneinfo, /proc/meminfo, or a report of the kernel with its zones does".into());
        }
    }
    this.nodes.retain(|node| !node.zones.is_empty());
    if this.cpus() == 0 {
        this.missing.push("CPUs: /proc/zoneinfo has them".into());
    }
    this.swap = swap(swaps, meminfo, report);
    if this.swap.is_none() {
        this.missing.push("swap: /proc/meminfo or /proc/swaps has it".into());
    }
    this.missing.push("the disk: a flash disk is assumed".into());
    let sysctls = told.iter().filter_map(|it| if let Told::Sysctls(look) = it { Some(look) } else { None });
    for (name, key) in SYSCTLS {
        if let Some(value) = sysctls.clone().rev().find_map(|look| look.number(name)) {
            this.sysctls.retain(|known| known.name != name);
            this.sysctls.push(Sysctl { name, key, value });
        }
    }
    Ok(this)
}

/// Sets the computer's zones and CPUs from `/proc/zoneinfo`. Also sets `vm.min_free_kbytes` to the value from which the
/// min marks of the zones follow.
fn of_zones(this: &mut Computer, zones: &[Zone]) {
    for zone in zones.iter().filter(|zone| zone.managed() > 0) {
        add_zone(&mut this.nodes, zone.node as usize, &zone.name, zone.managed());
    }
    // A zone has batches for each CPU, so the number of CPUs is known, but not the node of each CPU.
    let cpus = zones.iter().map(|zone| zone.cpus).max().unwrap_or(0);
    spread(&mut this.nodes, cpus);
    if this.nodes.iter().filter(|node| !node.zones.is_empty()).count() > 1 && cpus > 0 {
        this.missing.push("which CPU is of which node: they are spread evenly".into());
    }
    // High memory and movable memory have marks of their own. A boost of the mark is temporary.
    let is_of_it = |zone: &&Zone| !matches!(&*zone.name, "HighMem" | "Movable" | "Device");
    let min = |zone: &Zone| zone.get("min").map(|min| min.saturating_sub(zone.get("boost").unwrap_or(0)));
    min_free(this, zones.iter().filter(is_of_it).filter_map(min).sum::<u64>() * PAGE_KIB);
}

fn of_report(this: &mut Computer, report: &Report) {
    for zone in &report.zones {
        let kind = zone.kind.to_string();
        add_zone(&mut this.nodes, zone.node as usize, &kind, zone.kib("managed") / PAGE_KIB);
    }
    let is_of_it = |kind: &str| !matches!(kind, "HighMem" | "Movable" | "Device");
    let zones = report.zones.iter().filter(|zone| is_of_it(&zone.kind.to_string()));
    min_free(this, zones.map(|zone| zone.kib("min").saturating_sub(zone.kib("boost"))).sum());
}

fn min_free(this: &mut Computer, kib: u64) {
    let known = SYSCTLS.iter().find(|(name, _)| *name == "vm.min_free_kbytes");
    this.sysctls.extend(known.filter(|_| kib > 0).map(|(name, key)| Sysctl { name, key, value: kib }));
}

/// Distributes `cpus` CPUs evenly over the nodes that have memory.
fn spread(nodes: &mut [Node], cpus: usize) {
    let mut with_memory: Vec<&mut Node> = nodes.iter_mut().filter(|node| !node.zones.is_empty()).collect();
    let count = with_memory.len().max(1);
    for cpu in 0..cpus {
        if let Some(node) = with_memory.get_mut(cpu * count / cpus) {
            node.cpus.push(cpu);
        }
    }
}

/// Returns the computer's swap; none if no text states its size. The name is that of the first swap device. If the
/// devices are unknown, it is the name of the text that states the size.
fn swap(swaps: Option<&Swaps>, meminfo: Option<&Meminfo>, report: Option<&Report>) -> Option<Swap> {
    if let Some(swaps) = swaps {
        let [kib, _] = swaps.kib();
        let name = swaps.all.first().map_or("none", |first| &*first.name);
        let device = name.rsplit('/').next().unwrap_or(name);
        return Some(Swap {
            name: name.to_owned(),
            slots: kib as u64 / PAGE_KIB,
            is_synchronous: is_synchronous(device),
        });
    }
    let (name, kib) = match (meminfo.and_then(|look| look.get("SwapTotal")), report.and_then(|report| report.swap[0])) {
        (Some(kib), _) => ("SwapTotal of /proc/meminfo", kib),
        (None, Some(kib)) => ("`Total swap` of the kernel log", kib),
        (None, None) => return None,
    };
    Some(Swap { name: name.to_owned(), slots: kib / PAGE_KIB, is_synchronous: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::this_computer::text::{Measured, machine};
    use catalogue::embedded;
    use engine::kernel::Source;
    use recordings::kernel_log::read;
    use recordings::looks::{Look as _, Sysctls, Zoneinfo};

    const ZONEINFO: &str = "\
Node 0, zone      DMA
  pages free     2816
        boost    0
        min      16
        managed  3840
  pagesets
    cpu: 0
    cpu: 1
Node 0, zone   Normal
  pages free     120
        boost    100
        min      1116
        managed  400000
  pagesets
    cpu: 0
    cpu: 1
Node 0, zone  Movable
  pages free     0
        managed  0
Node 1, zone   Normal
  pages free     120
        min      1000
        managed  300000
";

    #[test]
    fn zones_cpus_and_marks_are_those_of_zoneinfo() {
        let told = [
            Told::Zoneinfo(Zoneinfo::of(ZONEINFO)),
            Told::Meminfo(Meminfo::of("MemTotal: 2815360 kB\nSwapTotal: 4096 kB\nSwapFree: 0 kB\n")),
            Told::Sysctls(Sysctls::of("vm.swappiness = 10\n")),
        ];
        let computer = computer("z.txt, m.txt", &told).unwrap();
        assert_eq!((computer.pages(), computer.cpus(), computer.nodes[1].cpus.as_slice()), (703_840, 2, &[1][..]));
        let sysctls: Vec<(&str, u64)> = computer.sysctls.iter().map(|it| (it.key, it.value)).collect();
        assert_eq!(sysctls, [("memory.min_free_kbytes", 8128), ("lru.swappiness", 10)]);
        assert_eq!(computer.swap.as_ref().map(|swap| swap.slots), Some(1024));
        let text = machine(&computer, None, &Measured::default()).unwrap();
        assert!(text.contains("about = \"a computer by z.txt, m.txt: 2749 MiB, 2 CPUs\""), "{text}");
        assert!(
            text.contains(
                "swap_slots = { value = 1024, from = \"measured\", source = \"SwapTotal of /proc/meminfo\" }"
            ),
            "{text}"
        );
        assert!(!text.contains("/sys/"), "{text}");
        let machine = read_machine(&text);
        assert_eq!((machine.memory.pages(), machine.disks[0].swap_slots.value), (703_840, 1024));
    }

    fn read_machine(text: &str) -> catalogue::hardware::Hardware {
        let resolve = |name: &str| embedded::source(&format!("machines/{name}.toml")).ok_or_else(|| name.to_owned());
        let source = Source { file: "there.toml".into(), text: text.to_owned() };
        catalogue::hardware::machine("there", source, &resolve, &[], &[])
            .unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn a_kernel_log_or_meminfo_alone_will_do() {
        let log = read(recordings::kernel_log::samples::GLOBAL_6_1);
        let computer_of = |told: Told| computer("f", &[told]);
        let of_log = computer_of(Told::Log(log)).unwrap();
        assert_eq!((of_log.pages(), &*of_log.release, of_log.nodes[0].zones.len()), (4_078_429, "6.1.0-13-amd64", 3));
        assert_eq!(of_log.swap.map(|swap| swap.slots), Some(249_855));
        let alone = computer_of(Told::Meminfo(Meminfo::of("MemTotal: 4096 kB\n"))).unwrap();
        assert_eq!((alone.pages(), alone.cpus()), (1024, 0));
        assert!(computer_of(Told::Sysctls(Sysctls::default())).unwrap_err().contains("/proc/zoneinfo"));
    }
}
