//! The sections of a machine file: CPUs, disks, network, and the contents of memory before a run. The engine defines
//! the section `[memory]`, and the simulator `[cost]`.

use crate::machine_file::MachineFile;
use documented::DocumentedFields;
use engine::kernel::Source;
use engine::memory::Layout;
use figures::scale::Scale;
use machine::{LockClass, Nanos, Order};
use placed::{Entry, Error, Node, Value};
use serde::{Deserialize, Serialize};
use sim::disk::DiskConfig;
use sim::{CPUS_MAX, CostModel, LockFairness, Sourced, Turn};

/// A machine file, read with the types of this module: the simulated computer for a run.
pub type Hardware = MachineFile<Layout, Cpu, CostModel, Disk, Network, Before>;

impl Hardware {
    /// Returns the disk that holds swap, with its index: the first disk with swap slots, or the first disk if no disk
    /// has any.
    #[must_use]
    pub fn swap_disk(&self) -> Option<(usize, &Disk)> {
        let has_slots = |(_, disk): &(usize, &Disk)| disk.swap_slots.value > 0;
        self.disks.iter().enumerate().find(has_slots).or_else(|| self.disks.iter().enumerate().next())
    }
}

/// Makes a machine from its file and the file's bases, and checks its disks. `resolve` returns the text of the base
/// with a given name. `groups` are the tables of the control groups that an experiment adds. `changes` are applied
/// last; each is a path of keys, such as `cpu.count` or `disk.device.queue.command_depth`, and the new value.
///
/// # Errors
/// The errors of [`MachineFile::of_node`]. Also when a base is missing or is based on this file, when a disk has an
/// impossible value, and when a changed key does not exist. Errors have file and line.
pub fn machine(
    name: &str,
    source: Source,
    resolve: &dyn Fn(&str) -> Result<Source, String>,
    groups: &[Node],
    changes: &[(&str, &str)],
) -> Result<Hardware, Error> {
    let file = source.file.clone();
    let (mut node, bases) = over_bases(name, source, resolve)?;
    crate::group::lay_over(&mut node, groups);
    changes.iter().try_for_each(|(path, value)| crate::change::change(&mut node, path, value))?;
    let machine = Hardware { bases, ..Hardware::of_node(name, &file, node)? };
    for (n, disk) in machine.disks.iter().enumerate() {
        disk.device.check().map_err(|error| {
            let place = place_of(&machine.node, n, &format!("device.{}", error.key));
            Error::at(&place.place, format!("in [disk.device]: {error}"))
        })?;
    }
    check_parts(&machine)?;
    Ok(machine)
}

/// Lays a file over its base, that base over its own base, and so on. Tables are merged key by key, but a list replaces
/// the base's list, and a constant (a table with a key `from`, `value` or `ns`) replaces the base's constant. A table
/// over a list of tables changes the first table in the list: `[disk]` changes the base's first disk, while `[[disk]]`
/// replaces all disks. If two tables differ in `model` or `name`, the base's table is dropped. The `about` of a base is
/// dropped. Returns the whole file and the names of the bases, nearest first.
fn over_bases(
    name: &str,
    source: Source,
    resolve: &dyn Fn(&str) -> Result<Source, String>,
) -> Result<(Node, Vec<String>), Error> {
    let mut node = Node::parse(&source.file, &source.text)?;
    let mut chain = vec![name.to_owned()];
    while let Some(base) = node.take("base") {
        chain.push(base.read()?);
        let (wanted, above) = chain.split_last().expect("one was pushed");
        if above.contains(wanted) {
            return Err(Error::at(&base.place, format!("the bases go round in a circle: {}", chain.join(" -> "))));
        }
        let source = resolve(wanted).map_err(|message| Error::at(&base.place, message))?;
        let mut below = Node::parse(&source.file, &source.text)?;
        below.take("about");
        node = over(node, below);
    }
    Ok((node, chain.split_off(1)))
}

/// Returns the table `base` with the keys of `top` added or replaced, by the rules of [`over_bases`].
fn over(top: Node, base: Node) -> Node {
    let is_constant = |node: &Node| ["from", "value", "ns"].iter().any(|key| node.get(key).is_some());
    let is_of_another_kind =
        |key: &str| matches!((top.get(key), base.get(key)), (Some(a), Some(b)) if a.value != b.value);
    if is_constant(&top) || is_constant(&base) || ["model", "name"].into_iter().any(is_of_another_kind) {
        return top;
    }
    let Node { value: Value::Table(mut top), place, comment } = top else { return top };
    let base = match base.value {
        Value::Table(base) => base,
        Value::List(mut list) if matches!(list.first().map(|node| &node.value), Some(Value::Table(_))) => {
            let top = Node { value: Value::Table(top), place: place.clone(), comment: comment.clone() };
            list[0] = over(top, list[0].clone());
            return Node { value: Value::List(list), place, comment };
        }
        _ => return Node { value: Value::Table(top), place, comment },
    };
    for entry in base {
        match top.iter().position(|known| known.key == entry.key) {
            Some(at) => {
                let above = top.remove(at);
                top.insert(at, Entry { node: over(above.node, entry.node), ..above });
            }
            None => top.push(entry),
        }
    }
    Node { value: Value::Table(top), place, comment }
}

/// Checks that the numbers of a machine are possible and fit each other: CPUs, memory nodes and zones, blocks of disks,
/// percentages.
fn check_parts(machine: &Hardware) -> Result<(), Error> {
    let at = |path: &[&str]| {
        let inner = path.iter().try_fold(&machine.node, |node, key| node.get(key));
        inner.unwrap_or(&machine.node).place.clone()
    };
    let ensure = |holds: bool, path: &[&str], words: String| {
        if holds { Ok(()) } else { Err(Error::at(&at(path), format!("in [{}]: {words}", path[0]))) }
    };
    let Cpu { count, interrupt_cpu, .. } = &machine.cpu;
    let words = format!("{} CPUs: 1 to {CPUS_MAX} can be", count.value);
    ensure((1..=CPUS_MAX).contains(&count.value), &["cpu", "count"], words)?;
    let highest = count.value - 1;
    let words = format!("`interrupt_cpu` is {}: CPUs are 0 to {highest}", interrupt_cpu.value);
    ensure(interrupt_cpu.value <= highest, &["cpu", "interrupt_cpu"], words)?;
    let slowdown = machine.cpu.slowdown();
    let words = format!("`slowdown` is {slowdown}: 1 to {SLOWDOWN_MAX} can be");
    ensure((1..=SLOWDOWN_MAX).contains(&slowdown), &["cpu", "slowdown"], words)?;
    for (key, work) in [("page_work_ns", &machine.cpu.page_work_ns), ("write_work_ns", &machine.cpu.write_work_ns)] {
        let work = nanos_of(work).0;
        let words = format!("`{key}` is {work}: 0 to {PROGRAM_WORK_MAX_NS} can be");
        ensure(work <= PROGRAM_WORK_MAX_NS, &["cpu", key], words)?;
    }
    let words = format!("`tlb`: at most {} translations of a size, and walks of 1 s", Tlb::ENTRIES_MAX);
    ensure(machine.cpu.tlb.as_ref().is_none_or(Tlb::is_sound), &["cpu", "tlb"], words)?;
    let words = format!(
        "`cache_lines`: at most {} lines with one thing, and {} ns of travel",
        CacheLines::LINES_MAX,
        CacheLines::TRAVEL_MAX_NS
    );
    let is_sound = machine.cpu.cache_lines.as_ref().is_none_or(CacheLines::is_sound);
    ensure(is_sound, &["cpu", "cache_lines"], words)?;
    if let Some(network) = &machine.network {
        let words = format!("`interrupt_cpu` is {}: CPUs are 0 to {highest}", network.interrupt_cpu.value);
        ensure(network.interrupt_cpu.value <= highest, &["network", "interrupt_cpu"], words)?;
    }
    let nodes = machine.memory.nodes.len();
    let of_cpu = machine.cpu.node_of_each(nodes);
    let words = format!("`nodes` has a number from 0 to {} for each of {} CPUs", nodes.saturating_sub(1), count.value);
    let is_each = of_cpu.len() == count.value && of_cpu.iter().all(|node| usize::from(*node) < nodes.max(1));
    ensure(is_each, &["cpu", "nodes"], words)?;
    let is_limited = machine.memory.usable_pages() < machine.memory.pages();
    let of_memory = if is_limited { "limit_pages" } else { "nodes" };
    engine::memory::check_layout(&machine.memory)
        .map_err(|error| Error::at(&at(&["memory", of_memory]), format!("in [memory]: {error}")))?;
    for (n, disk) in machine.disks.iter().enumerate() {
        let [first, end] = disk.file_blocks.value;
        let swap_first = disk.swap_first_block.value;
        let swap_end = swap_first + disk.swap_slots.value;
        let capacity = disk.device.capacity_blocks();
        let place = place_of(&machine.node, n, "device.capacity_blocks");
        let fits = first <= end && end <= capacity && swap_end <= capacity;
        let words = || {
            format!(
                "in [disk]: files are to lie in blocks {first} to {end} and swap ends at {swap_end}, of {capacity} blocks"
            )
        };
        if !fits {
            return Err(Error::at(&place.place, words()));
        }
        if swap_first < end.min(swap_end) && first < swap_end {
            let place = place_of(&machine.node, n, "swap_first_block");
            let words = format!(
                "in [disk]: swap has blocks {swap_first} to {swap_end}, of which files have {first} to {end} too"
            );
            return Err(Error::at(&place.place, words));
        }
    }
    let Before { kernel_mib, kernel_peak_mib, file_cache_active_percent: active, file_kib, .. } = &machine.before;
    if let Some(peak) = kernel_peak_mib {
        let words = format!("`kernel_peak_mib` is {}: `kernel_mib`, {}, was left of it", peak.value, kernel_mib.value);
        ensure(peak.value >= kernel_mib.value, &["before", "kernel_peak_mib"], words)?;
    }
    if let Some(pool) = &machine.before.dma_pool_kib {
        let words = format!("`dma_pool_kib` is {}: expected a power of two, 4 to 4096", pool.value);
        let is_block = pool.value.is_power_of_two() && (4..=4096).contains(&pool.value);
        ensure(is_block, &["before", "dma_pool_kib"], words)?;
    }
    let words = format!("`file_cache_active_percent` is {}: 100 is all", active.value);
    ensure(active.value <= 100, &["before", "file_cache_active_percent"], words)?;
    let page = || "a file has at least a page: 4 KiB".to_owned();
    ensure(file_kib.value >= 4, &["before", "file_kib"], page())?;
    let Some(programs) = &machine.before.programs else { return Ok(()) };
    ensure(programs.file_kib.value >= 4, &["before", "programs", "file_kib"], page())?;
    let words = "they wake at most once a second".to_owned();
    ensure(programs.wake_s.value > 0, &["before", "programs", "wake_s"], words)
}

/// Returns the node under a path of keys in disk `n`. If a key of the path does not exist, returns the node of the last
/// key that exists.
fn place_of<'n>(file: &'n Node, n: usize, path: &str) -> &'n Node {
    let disk = match file.get("disk").map(|node| &node.value) {
        Some(Value::List(disks)) => disks.get(n),
        _ => None,
    };
    let mut node = disk.unwrap_or(file);
    for key in path.split('.') {
        let Some(inner) = node.get(key) else { break };
        node = inner;
    }
    node
}

/// The section `[cpu]` of a machine file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Number of logical CPUs.
    pub count: Sourced<usize>,
    /// The CPU that takes the disks' interrupts.
    pub interrupt_cpu: Sourced<usize>,
    /// The memory node of each CPU. By default the nodes have equal numbers of CPUs, and the first CPUs are on the
    /// first node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Sourced<Vec<u8>>>,
    /// Factor by which each step takes longer than `[cost]` says, because the CPU is emulated. 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Sourced<u64>>,
    /// CPU time for which a workload's program works on each page of memory that it loads or stores, ns: it makes or
    /// checks the page's contents, and chooses the next page. The copy is not included, and `slowdown` does not apply.
    /// At most a second. 0 by default: programs that do nothing but load and store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_work_ns: Option<Sourced<u64>>,
    /// CPU time for which a workload's program makes the contents of each page that it writes to a file, ns. `slowdown`
    /// does not apply. At most a second. 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_work_ns: Option<Sourced<u64>>,
    /// The order in which CPUs that spin for a lock get it; `fifo` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_fairness: Option<Sourced<LockFairness>>,
    /// Costs of touching data that another CPU touched last; no costs by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_lines: Option<CacheLines>,
    /// The TLB of each CPU. By default address translations cost nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlb: Option<Tlb>,
}

/// The section `[cpu.tlb]`: the number of address translations that a CPU keeps, and the cost of a miss.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Number of translations that are kept for pages of 4 KiB.
    pub entries_4k: Sourced<usize>,
    /// Number of translations that are kept for pages of 2 MiB.
    pub entries_2m: Sourced<usize>,
    /// Time of a page-table walk to a page of 4 KiB, ns.
    pub walk_4k_ns: Sourced<u64>,
    /// Time of a page-table walk to a page of 2 MiB, ns.
    pub walk_2m_ns: Sourced<u64>,
}

impl Tlb {
    /// Largest number of TLB entries that a machine file may give for one page size. It is a hundred times the number
    /// that a processor has.
    const ENTRIES_MAX: usize = 1 << 18;
    /// Largest duration of a page-table walk that a machine file may give: 1 s.
    const WALK_MAX_NS: u64 = 1_000_000_000;

    fn sim_config(&self) -> sim::TlbConfig {
        sim::TlbConfig {
            entries_4k: self.entries_4k.value,
            entries_2m: self.entries_2m.value,
            walk_4k: machine::Nanos(self.walk_4k_ns.value),
            walk_2m: machine::Nanos(self.walk_2m_ns.value),
        }
    }

    fn is_sound(&self) -> bool {
        [&self.entries_4k, &self.entries_2m].iter().all(|entries| entries.value <= Self::ENTRIES_MAX)
            && [&self.walk_4k_ns, &self.walk_2m_ns].iter().all(|walk| walk.value <= Self::WALK_MAX_NS)
    }
}

/// The section `[cpu.cache_lines]`: cache lines that another CPU wrote last. When a CPU touches such a line, the line
/// travels to this CPU.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLines {
    /// Time that a cache line travels, ns.
    pub travel_ns: Sourced<u64>,
    /// Number of cache lines that travel with the lock of an index: those of the lock, the index nodes and their tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub i_pages: Option<Sourced<u32>>,
    /// Number of cache lines that travel with the lock of LRU lists: the lines of the lock itself, of the list heads
    /// and of the counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lru: Option<Sourced<u32>>,
    /// Number of cache lines that travel with the lock of a zone: those of the lock, the heads of the free lists and
    /// counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Sourced<u32>>,
    /// Number of cache lines that travel with a frame: the lines of its descriptor, and those of the descriptors next
    /// to it on its LRU list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Sourced<u32>>,
}

impl CacheLines {
    /// Largest allowed value of `travel_ns`, the time in which a cache line comes from the cache of another CPU, ns: 1
    /// ms.
    const TRAVEL_MAX_NS: u64 = 1_000_000;
    /// Largest number of cache lines that travel with one lock or frame: 64, as many as a page of 4 KiB has.
    const LINES_MAX: u32 = 64;

    fn of_locks(&self) -> [(LockClass, &Option<Sourced<u32>>); 3] {
        [(LockClass::IPages, &self.i_pages), (LockClass::Lru, &self.lru), (LockClass::Zone, &self.zone)]
    }

    fn sim_config(&self) -> sim::CacheLines {
        let lines = |given: &Option<Sourced<u32>>| given.as_ref().map_or(0, |lines| lines.value);
        let mut by_lock = [0; LockClass::ALL.len()];
        for (class, given) in self.of_locks() {
            by_lock[class as usize] = lines(given);
        }
        sim::CacheLines { travel: machine::Nanos(self.travel_ns.value), by_lock, by_frame: lines(&self.frame) }
    }

    fn is_sound(&self) -> bool {
        let mut lines = self.of_locks().into_iter().map(|(_, given)| given).chain([&self.frame]).flatten();
        self.travel_ns.value <= Self::TRAVEL_MAX_NS && lines.all(|lines| lines.value <= Self::LINES_MAX)
    }
}

/// Largest value of the key `slowdown` in `[cpu]`, the factor by which each step takes longer.
const SLOWDOWN_MAX: u64 = 1000;

/// Largest value of the keys `page_work_ns` and `write_work_ns` in `[cpu]`: a second.
const PROGRAM_WORK_MAX_NS: u64 = 1_000_000_000;

/// CPU times that the programs of workloads take for their own work. Copies of the kernel are not included.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramWork {
    /// Time for each page of memory that a program loads or stores, beside the copy.
    pub touch: Nanos,
    /// Time for each page that a program writes to a file.
    pub write: Nanos,
}

/// Returns the value of a key with a time in nanoseconds, which is 0 by default.
fn nanos_of(given: &Option<Sourced<u64>>) -> Nanos {
    Nanos(given.as_ref().map_or(0, |given| given.value))
}

impl Cpu {
    /// Returns the CPU times that programs take for their own work.
    #[must_use]
    pub fn program_work(&self) -> ProgramWork {
        ProgramWork { touch: nanos_of(&self.page_work_ns), write: nanos_of(&self.write_work_ns) }
    }

    /// Returns the factor by which each step takes longer than its cost in `[cost]`.
    #[must_use]
    pub fn slowdown(&self) -> u64 {
        self.slowdown.as_ref().map_or(1, |given| given.value)
    }

    /// Returns the simulator's costs of touching data that another CPU touched last; none if the machine file has none.
    #[must_use]
    pub fn sim_cache_lines(&self) -> Option<sim::CacheLines> {
        self.cache_lines.as_ref().map(CacheLines::sim_config)
    }

    /// Returns the simulator's configuration of the TLB; none if the machine file has no TLB, so that translations cost
    /// nothing.
    #[must_use]
    pub fn sim_tlb(&self) -> Option<sim::TlbConfig> {
        self.tlb.as_ref().map(Tlb::sim_config)
    }

    /// Returns the memory node of each CPU, on a machine with `nodes` nodes.
    #[must_use]
    pub fn node_of_each(&self, nodes: usize) -> Vec<u8> {
        let spread = || (0..self.count.value).map(|cpu| (cpu * nodes / self.count.value) as u8).collect();
        self.nodes.as_ref().map_or_else(spread, |given| given.value.clone())
    }

    /// Returns the nodes of a simulated machine with the memory `layout`; none if there is only one node.
    #[must_use]
    pub fn sim_nodes(&self, layout: &Layout) -> Option<sim::Nodes> {
        (layout.nodes.len() > 1).then(|| sim::Nodes {
            of_cpu: self.node_of_each(layout.nodes.len()),
            first_frames: layout.first_frames(),
            distances: layout.all_distances(),
        })
    }
}

/// The section `[network]` of a machine file: a network card.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The CPU that takes the card's interrupts.
    pub interrupt_cpu: Sourced<usize>,
    /// Time that a packet and its answer spend outside of the machine, ns.
    pub wire_ns: Sourced<u64>,
    /// CPU time that one packet and its answer take, ns.
    pub packet_ns: Sourced<u64>,
    /// The rule by which a CPU that also ends disk requests chooses when to answer packets: after all completed disk
    /// requests, or after each of them.
    pub turn: Sourced<Turn>,
}

/// One `[[disk]]` of a machine file. The first disk holds files; swap lies on the first disk that has swap slots.
#[derive(Clone, Debug, PartialEq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Range of the blocks that hold files: the first, and one past the last, at full scale.
    pub file_blocks: Sourced<[u64; 2]>,
    /// Block that holds the first swap slot.
    pub swap_first_block: Sourced<u64>,
    /// Number of swap slots of 4 KiB, at full scale; 0 for no swap.
    pub swap_slots: Sourced<u64>,
    /// True if the disk completes a request at once, as zram and persistent memory do; `false` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronous: Option<Sourced<bool>>,
    /// Memory that a page in swap takes if the disk is compressed memory of the computer (zram), in percent of a page.
    /// By default a page in swap takes no memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_percent: Option<Sourced<u32>>,
    /// The properties of the simulated disk device.
    pub device: DiskConfig,
}

/// The section `[before]` of a machine file: the contents of memory before a run. Sizes are those at full scale.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// Kernel memory that is never freed, MiB.
    pub kernel_mib: Sourced<u64>,
    /// Size of kernel memory before most of it was freed, MiB. The remaining pages are scattered among the freed pages.
    /// By default nothing was freed, and kernel memory is contiguous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_peak_mib: Option<Sourced<u64>>,
    /// Kernel memory in zone DMA that was taken in one block at boot and is never freed, such as the kernel's pool for
    /// atomic allocations of drivers (`coherent_pool`), KiB. A power of two, 4 to 4096. By default there is none,
    /// nor without a zone DMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dma_pool_kib: Option<Sourced<u64>>,
    /// Anonymous memory of idle processes, MiB.
    pub idle_anon_mib: Sourced<u64>,
    /// Clean page cache that holds files which are no longer read, MiB.
    pub file_cache_mib: Sourced<u64>,
    /// Share of the `file_cache_mib` that was read twice and is therefore active, percent.
    pub file_cache_active_percent: Sourced<u64>,
    /// Size of each file in the page cache of `file_cache_mib`, KiB.
    pub file_kib: Sourced<u64>,
    /// Size of the inode tables that a fresh file system still has to write in the background, MiB.
    pub inode_tables_mib: Sourced<u64>,
    /// Time that the writer of inode tables rests after each piece, as a multiple of the time that writing the piece
    /// took.
    pub inode_tables_rest: Sourced<u64>,
    /// Programs that run beside the workload, if any are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<Programs>,
}

/// Number of pages of 4 KiB in one MiB.
pub const MIB_PAGES: u64 = 256;

impl Before {
    /// Returns the order of the block of `dma_pool_kib` at a scale; `None` if there is no block, or less than a page of
    /// it at this scale.
    #[must_use]
    pub fn dma_pool(&self, scale: Scale) -> Option<Order> {
        let kib = self.dma_pool_kib.as_ref()?.value;
        scale.of(kib / 4).checked_ilog2().map(|order| Order(order as u8))
    }

    /// Returns the number of pages that kernel memory, idle memory, page cache and programs take together at a scale.
    #[must_use]
    pub fn pages(&self, scale: Scale) -> u64 {
        let mapped_mib = self.programs.as_ref().map_or(0, |programs| programs.mapped_mib.value);
        let mib = self.kernel_mib.value + self.idle_anon_mib.value + self.file_cache_mib.value + mapped_mib;
        scale.of(mib * MIB_PAGES)
    }
}

/// Programs and libraries that run beside a workload: daemons, shells, the monitors of a test. Their files are mapped
/// executable. All of their pages were used once, and some are used again from time to time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    /// Size of the used part of the programs' files, MiB.
    pub mapped_mib: Sourced<u64>,
    /// Size of one file, KiB. All files of the programs have this size.
    pub file_kib: Sourced<u64>,
    /// Time between two wake-ups of the programs, s.
    pub wake_s: Sourced<u64>,
    /// Number of pages used at each wake-up, at full scale. The pages are drawn by Zipf's law with exponent 1, since
    /// some code is used all the time and most code hardly ever.
    pub touched_pages: Sourced<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::disk::config::{CfqConfig, ElevatorConfig};

    const FILE: &str = "machines/parallelio-8g.toml";

    /// Reads the built-in machine `parallelio-8g` after replacing the text `from` in its file by `to`.
    fn changed(from: &str, to: &str) -> Result<Hardware, String> {
        let text = crate::embedded::text(FILE).unwrap();
        assert!(text.contains(from), "{FILE} has no `{from}`");
        parse(text.replacen(from, to, 1))
    }

    /// Reads a machine called `m` from the text of its file. The text may name a base: `base` is the built-in machine,
    /// and `m` is this machine itself.
    fn parse(text: String) -> Result<Hardware, String> {
        let source = |text: &str| Source { file: "m.toml".into(), text: text.to_owned() };
        let resolve = |name: &str| match name {
            "base" => Ok(Source { file: FILE.into(), text: crate::embedded::text(FILE).unwrap().to_owned() }),
            "m" => Ok(source(&text)),
            _ => Err(format!("no machine `{name}`")),
        };
        machine("m", source(&text), &resolve, &[], &[]).map_err(|error| error.to_string())
    }

    /// Returns the number of the line that begins with `start` in the embedded machine file.
    fn line(start: &str) -> usize {
        1 + crate::embedded::text(FILE).unwrap().lines().position(|line| line.starts_with(start)).unwrap()
    }

    #[test]
    fn parts_that_do_not_fit_each_other_are_told_with_their_line() {
        let wrong = |from: &str, to: &str| changed(from, to).unwrap_err();
        let found = wrong("interrupt_cpu = { value = 0", "interrupt_cpu = { value = 9");
        assert_eq!(found, format!("m.toml:{}: in [cpu]: `interrupt_cpu` is 9: CPUs are 0 to 7", line("interrupt_cpu")));
        let found = wrong("count = { value = 8", "count = { value = 0");
        assert_eq!(found, format!("m.toml:{}: in [cpu]: 0 CPUs: 1 to 256 can be", line("count")));
        let slow = "slowdown = { value = 0, from = \"assumed\", source = \"a test\" }\ncount = { value = 8";
        let found = wrong("count = { value = 8", slow);
        assert_eq!(found, format!("m.toml:{}: in [cpu]: `slowdown` is 0: 1 to 1000 can be", line("count")));
        let found = wrong("file_cache_active_percent = { value = 50", "file_cache_active_percent = { value = 150");
        let expected = format!("m.toml:{}: in [before]: ", line("file_cache_active_percent"));
        assert!(found.starts_with(&expected), "{found}");
        assert!(wrong("kind = \"dma32\"", "kind = \"normal\"").contains("in [memory]: zones must stand in the order"));
        let found = wrong("kind = \"dma32\"", "kind = \"norml\"");
        assert!(found.ends_with("in [memory]: `kind`: unknown value `norml`: did you mean `normal`?"), "{found}");
    }

    #[test]
    fn a_machine_is_its_base_but_for_what_it_says() {
        let base = parse("base = \"base\"".into()).unwrap();
        let count = "count = { value = 2, from = \"assumed\", source = \"a test\" }";
        let found = parse(format!("base = \"base\"\nabout = \"small\"\n[cpu]\n{count}\n")).unwrap();
        assert_eq!((&*found.about, &*base.about, found.cpu.count.value), ("small", "", 2));
        assert_eq!((&found.cpu.interrupt_cpu, &found.cost), (&base.cpu.interrupt_cpu, &base.cost));
        assert_eq!(found.bases, ["base"]);
        // A constant that replaces the base's constant must have an origin of its own.
        let bare = parse("base = \"base\"\n[cpu]\ncount = { value = 2 }\n".into()).unwrap_err();
        assert!(bare.starts_with("m.toml:3: in [cpu]: ") && bare.contains("from"), "{bare}");

        // A table changes the first table of a list, key by key, at any depth. A list replaces all of the base's list.
        let slots = "swap_slots = { value = 7, from = \"assumed\", source = \"a test\" }";
        let found = parse(format!("base = \"base\"\n[disk]\n{slots}\n[disk.device.queue]\nnr_requests = {{ value = 9, from = \"assumed\", source = \"a test\" }}\n")).unwrap();
        assert_eq!((found.disks[0].swap_slots.value, found.disks[0].device.queue().nr_requests.value), (7, 9));
        assert_eq!(found.disks[0].file_blocks, base.disks[0].file_blocks);
        let anew = parse(format!("base = \"base\"\n[[disk]]\n{slots}\n")).unwrap_err();
        assert!(
            anew.ends_with(
                "key `file_blocks` is missing: `[[disk]]` gives all disks anew, `[disk]` changes the base's"
            ),
            "{anew}"
        );
        // A table for another model keeps no keys of the base's table.
        let flash = parse("base = \"base\"\n[disk.device]\nmodel = \"flash\"\n".into()).unwrap_err();
        assert!(flash.starts_with("m.toml:2: in [disk]: key `capacity_blocks` is missing"), "{flash}");

        let wrong = |text: &str| parse(text.into()).unwrap_err();
        assert_eq!(
            wrong("base = \"base\"\n[cpu]\ncount = 2"),
            "m.toml:3: in [cpu]: `count`: expected a constant with where it is from, `count = { value = 2, from = \"assumed\", source = \"…\" }`, found 2"
        );
        let bare = wrong("base = \"base\"\n[cost]\nscan_page = { ns = 9 }");
        assert!(
            bare.contains("in [cost]: `scan_page`: key `from` is missing: `scan_page = { ns = 9, from = "),
            "{bare}"
        );
        let unit = wrong("base = \"base\"\n[cpu]\ncount = { ns = 2, from = \"assumed\", source = \"\" }");
        assert!(
            unit.contains("in [cpu]: `count`: unknown key `ns`") && unit.contains("`count = { value = 2,"),
            "{unit}"
        );
        assert_eq!(wrong("\nbase = \"other\""), "m.toml:2: no machine `other`");
        assert_eq!(wrong("base = \"m\""), "m.toml:1: the bases go round in a circle: m -> m");
        assert_eq!(
            wrong("base = \"base\"\n[before]\nkernel = 4\n").split(':').take(2).collect::<Vec<_>>(),
            ["m.toml", "3"]
        );
    }

    /// Reads the built-in machine after replacing its elevator by `table`. Returns the elevator.
    fn with_elevator(table: &str) -> Result<ElevatorConfig, String> {
        let text = crate::embedded::text(FILE).unwrap();
        let start = text.find("[disk.device.queue.elevator]").unwrap();
        let end = start + text[start..].find("\n[before]").unwrap();
        let text = format!("{}{table}\n{}", &text[..start], &text[end..]);
        let machine = parse(text)?;
        Ok(machine.disks[0].device.queue().elevator.clone())
    }

    #[test]
    fn an_elevator_is_a_name_or_a_table_with_origins_in_any_order() {
        let cfq = ElevatorConfig::Cfq(CfqConfig::default());
        assert_eq!(with_elevator("elevator = \"cfq\"").unwrap(), cfq);
        assert_eq!(with_elevator("elevator = { name = \"cfq\" }").unwrap(), cfq);
        let slice = "slice_async_ms = { value = 80, from = \"assumed\", source = \"a test\" }";
        let inline = with_elevator(&format!("elevator = {{ {slice}, name = \"cfq\" }}")).unwrap();
        let table = with_elevator(&format!("[disk.device.queue.elevator]\n{slice}\nname = \"cfq\"")).unwrap();
        let ElevatorConfig::Cfq(found) = &inline else { panic!("{inline:?}") };
        assert_eq!(found.slice_async_ms.to_string(), "80 (assumed: a test)");
        assert_eq!(inline, table);
    }

    #[test]
    fn what_is_wrong_with_a_disk_is_told_with_its_line() {
        let at = line("[disk.device.queue.elevator]");
        let wrong = |text: &str| with_elevator(text).unwrap_err();
        assert_eq!(
            wrong("elevator = { name = \"cfq\", slice_async = 80 }"),
            format!("m.toml:{at}: in [disk]: unknown key `slice_async`: did you mean `slice_async_ms`?")
        );
        assert_eq!(
            wrong("[disk.device.queue.elevator]\nname = \"cfq\"\nslice_async = 80"),
            format!("m.toml:{}: in [disk]: unknown key `slice_async`: did you mean `slice_async_ms`?", at + 2)
        );
        assert_eq!(
            wrong("elevator = \"cfk\""),
            format!("m.toml:{at}: in [disk]: `elevator`: unknown value `cfk`: did you mean `cfq`?")
        );
        assert_eq!(
            wrong("elevator = { name = \"cfq\", slice_async_ms = { value = 0, from = \"assumed\", source = \"\" } }"),
            format!("m.toml:{at}: in [disk.device]: queue.elevator.slice_async_ms is 0: must be at least 1")
        );
        assert_eq!(
            wrong("elevator = 8"),
            format!(
                "m.toml:{at}: in [disk]: `elevator`: expected an elevator's name in quotes, or a table with its `name`, found 8"
            )
        );
        let rpm = line("rpm");
        assert_eq!(
            changed("rpm = ", "rmp = ").unwrap_err(),
            format!("m.toml:{rpm}: in [disk]: unknown key `rmp`: did you mean `rpm`?")
        );
        let first = line("swap_first_block");
        let overlaps =
            changed("swap_first_block = { value = 1000", "swap_first_block = { value = 9_000_000").unwrap_err();
        assert!(overlaps.starts_with(&format!("m.toml:{first}: in [disk]: swap has blocks 9000000 to ")), "{overlaps}");
        let slots = line("swap_slots");
        assert_eq!(
            changed("swap_slots", "swap_slot").unwrap_err(),
            format!("m.toml:{slots}: in [disk]: unknown key `swap_slot`: did you mean `swap_slots`?")
        );
    }
}
