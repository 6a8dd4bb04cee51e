//! Draws a random world from a seed: a machine, a kernel, and tasks.

use super::chance::{log_between, pick};
use super::drawn::Drawn;
use super::task::Children;
use super::{groups, log, processes};
use catalogue::{embedded, find};
use engine::Kernel;
use engine::kernel::choice::{self, Choice};
use engine::memory::{LOCAL_DISTANCE, Layout, NodeLayout, ZoneKind, ZoneLayout};
use engine::swap::SwapLayout;
use engine::writeback::DeviceLayout;
use engine::writeback::choices::StablePages;
use machine::{DeviceId, Nanos, Operation};
use sim::disk::config::{
    CfqConfig, DeadlineConfig, ElevatorConfig, EraseConfig, FlashConfig, QueueConfig, RotationalConfig, SyncArrival,
};
use sim::disk::{DiskConfig, Fault};
use sim::{CostModel, Interleaving, LockFairness, Origin, Pct, Perturb, Rng, Scheduler, Sourced};
use std::fmt;

/// The work that a task of a world does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The task writes, rewrites, syncs and removes files of its own.
    Writer,
    /// The task appends to a file of its own, and reads earlier pages back.
    Extender,
    /// The task reads and writes pages of files and regions that several tasks share.
    Sharer,
    /// The task writes and reads memory of its own: mostly anonymous memory, sometimes a mapped file.
    Toucher,
    /// The task allocates and frees blocks of pages of many orders, kernel pages and buffers.
    Blocks,
    /// The task makes short-lived regions and many small files, and removes them again.
    Churn,
    /// The task drops clean caches from time to time.
    DropCaches,
}

/// The roles from which the role of each task is drawn. A role that is listed twice is drawn twice as often.
const ROLES: [Role; 11] = [
    Role::Writer,
    Role::Extender,
    Role::Sharer,
    Role::Sharer,
    Role::Toucher,
    Role::Toucher,
    Role::Toucher,
    Role::Toucher,
    Role::Blocks,
    Role::Churn,
    Role::DropCaches,
];

/// The work that one task of a world is to do.
#[derive(Clone, Debug)]
pub(super) struct TaskPlan {
    pub role: Role,
    /// Number of pages that the task touches in all, counting repeated touches.
    pub budget_pages: u64,
    /// Number of pages of the task's largest file or region.
    pub size_pages: u32,
    /// The time at which the task is told to end; `None` if it ends by itself.
    pub killed_at: Option<Nanos>,
}

/// A random world: machine, kernel, tasks and faults, all drawn from a seed.
#[derive(Debug)]
pub(super) struct World {
    pub seed: u64,
    pub cpus: usize,
    /// Sizes of the zones DMA, DMA32 and Normal of the first node, pages.
    pub zones: [u64; 3],
    /// The memory nodes after the first.
    pub more_nodes: MoreNodes,
    pub step_ns: u64,
    pub fairness: LockFairness,
    pub interleaving: Interleaving,
    pub slice: Nanos,
    pub interrupt_cpu: usize,
    pub disks: Vec<DiskConfig>,
    /// Number of blocks for files on each disk. The blocks of swap follow them.
    pub file_blocks: u64,
    pub file_device: DeviceId,
    pub swap_device: DeviceId,
    /// Number of swap slots; 0 for no swap.
    pub swap_slots: u32,
    pub cgroup: Cgroup,
    /// True if there are memory control groups.
    pub has_groups: bool,
    /// True if each task is a process, which may be killed when memory is exhausted.
    pub has_processes: bool,
    /// `true` if tasks that use memory of their own fork it, and use the copies.
    pub has_forks: bool,
    /// The interval that [`log::draw`] has drawn. The kernel decides whether it is used.
    log_every: Option<Nanos>,
    pub kernel: Kernel,
    pub tasks: Vec<TaskPlan>,
    /// Number of shared files and regions.
    pub shared: u64,
    pub faults: Vec<(Nanos, DeviceId, Fault)>,
    /// The workload that runs instead of the tasks; `None` if the tasks run. No faults happen in a world with a
    /// workload.
    pub workload: Option<Drawn>,
    /// Interval between runs of compaction over all memory; `None` if there are none.
    pub compacts_every: Option<Nanos>,
}

impl World {
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed, u64::MAX - 7);
        let rng = &mut rng;
        let cpus = log_between(rng, 1, 16) as usize;
        let pages = log_between(rng, 1024, 16384);
        let more_nodes = MoreNodes::draw(seed, cpus, pages);
        let zones = draw_zones(rng, pages - more_nodes.pages.iter().sum::<u64>());
        let disks: Vec<DiskConfig> = (0..1 + rng.below(2)).map(|_| draw_disk(rng)).collect();
        let device = |rng: &mut Rng| DeviceId(rng.below(disks.len() as u64) as u32);
        let (file_device, swap_device) = (device(rng), device(rng));
        let swap_slots = match rng.below(4) {
            0 => 0,
            1 => log_between(rng, 2, 256) as u32,
            2 => (pages / 2) as u32,
            _ => (4 * pages) as u32,
        };
        let interleaving = draw_interleaving(seed, rng);
        let tasks = draw_tasks(rng, pages);
        let faults = draw_faults(rng, disks.len() as u64);
        let workload = Drawn::draw(seed, pages, swap_slots, &disks[0]);
        Self {
            seed,
            cpus,
            zones,
            more_nodes,
            step_ns: log_between(rng, 50, 2000),
            fairness: if rng.below(2) == 0 { LockFairness::Fifo } else { LockFairness::Random },
            interleaving,
            slice: Nanos(log_between(rng, 20_000, 8_000_000)),
            interrupt_cpu: rng.below(cpus as u64) as usize,
            disks,
            file_blocks: 64 * pages,
            file_device,
            swap_device,
            swap_slots,
            cgroup: Cgroup::draw(seed, pages, workload.is_some()),
            has_groups: groups::draw(seed, workload.is_some()),
            has_processes: processes::draw(seed, workload.is_some()),
            has_forks: Children::draw(seed, workload.is_some()),
            log_every: log::draw(seed, workload.is_some()),
            kernel: draw_kernel(rng),
            tasks,
            shared: 1 + rng.below(3),
            faults,
            workload,
            compacts_every: draw_compaction(seed),
        }
    }

    /// Returns the mean virtual duration of a step of the engine's work, including random delays.
    pub fn mean_step(&self) -> Nanos {
        let delay = match &self.interleaving {
            Interleaving::Perturbed(perturb) => u64::from(perturb.delay_chance) * perturb.delay_max.0 / 2 / 65536,
            _ => 0,
        };
        Nanos(self.step_ns + delay)
    }

    /// Returns the interval at which the log of all writes to files becomes durable; `None` if writes are not logged. They
    /// are only logged with kernels that do not change a page while it is being written.
    pub fn log_every(&self) -> Option<Nanos> {
        self.log_every.filter(|_| !matches!(self.kernel.choices.writeback.stable_pages, StablePages::No))
    }

    pub fn layout(&self) -> Layout {
        let [dma, dma32, normal] = self.zones;
        let mut layout = Layout::single_node(dma, dma32, normal);
        let node = |pages: &u64| NodeLayout { zones: vec![ZoneLayout::new(ZoneKind::Normal, *pages)] };
        layout.nodes.extend(self.more_nodes.pages.iter().map(node));
        layout.distances = self.more_nodes.distances.clone();
        layout.limit_pages = self.cgroup.limit_pages;
        if self.has_groups {
            (layout.groups, layout.group_version) = (groups::ROOM, groups::draw_version(self.seed));
        }
        layout
    }

    fn sim_nodes(&self) -> Option<sim::Nodes> {
        let layout = self.layout();
        (layout.nodes.len() > 1).then(|| sim::Nodes {
            of_cpu: self.more_nodes.of_cpu.clone(),
            first_frames: layout.first_frames(),
            distances: layout.all_distances(),
        })
    }

    pub fn devices(&self) -> Vec<DeviceLayout> {
        self.disks.iter().map(|_| DeviceLayout { file_blocks: 1..1 + self.file_blocks }).collect()
    }

    pub fn swap(&self) -> SwapLayout {
        SwapLayout {
            device: self.swap_device,
            first_block: 1 + self.file_blocks,
            slots: self.swap_slots,
            is_synchronous: self.cgroup.swap_is_synchronous,
            memory_percent: 0,
        }
    }

    pub fn sim_config(&self) -> sim::Config {
        sim::Config {
            cost: CostModel::uniform(self.step_ns),
            scheduler: Scheduler { slice: self.slice, ..Scheduler::default() },
            lock_fairness: self.fairness,
            nodes: self.sim_nodes(),
            seed: self.seed,
            frames: self.layout().frames() as usize,
            stamps: true,
            disks: self.disks.clone(),
            interrupt_cpus: vec![self.interrupt_cpu; self.disks.len()],
            interleaving: self.interleaving.clone(),
            // The simulator's clock ends at 72,057 s.
            time_limit: Some(Nanos::from_secs(70_000)),
            stack_bytes: 256 << 10,
            ..sim::Config::uniform(self.cpus, self.step_ns)
        }
    }
}

/// The memory limit and the kind of swap of a random world. Some worlds have a limit for all tasks, as a cgroup sets
/// it. In some worlds, reads and writes of swap finish at once, as if swap were in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Cgroup {
    /// The memory limit of all tasks together, if any.
    pub limit_pages: Option<u64>,
    /// True if reads and writes of swap finish at once, as in memory.
    pub swap_is_synchronous: bool,
}

impl Cgroup {
    /// Draws the memory limit of all tasks together, and the kind of swap. A world with a workload gets no limit,
    /// because the sizes that a workload uses follow from the machine.
    fn draw(seed: u64, pages: u64, is_workload: bool) -> Self {
        let mut rng = Rng::new(seed, u64::MAX - 31);
        let is_limited = rng.below(6) == 0 && !is_workload;
        let limit_pages = is_limited.then(|| log_between(&mut rng, 1024, pages));
        Self { limit_pages, swap_is_synchronous: rng.below(3) == 0 }
    }
}

/// The memory nodes of a random world, except for the first node. The zones of the first node are in `World::zones`.
#[derive(Clone, Debug, Default)]
pub(super) struct MoreNodes {
    /// Number of pages of each node after the first.
    pub pages: Vec<u64>,
    /// The node of each CPU; some nodes may have no CPU.
    pub of_cpu: Vec<u8>,
    /// Distances between nodes, as in machine files.
    pub distances: Vec<Vec<u8>>,
}

/// Smallest size of a memory node in a random world, pages.
const NODE_PAGES_MIN: u64 = 512;

impl MoreNodes {
    /// Draws the memory nodes that a random world has besides its first node: one to three nodes for one world in four,
    /// no nodes for the others. A small memory gets fewer. The draw has its own random stream, so that it does not
    /// change the other properties of worlds.
    fn draw(seed: u64, cpus: usize, pages: u64) -> Self {
        let rng = &mut Rng::new(seed, u64::MAX - 10);
        if rng.below(4) > 0 {
            return Self::default();
        }
        let nodes = (2 + rng.below(3)).min(pages / NODE_PAGES_MIN);
        let share = pages / nodes;
        let node_pages = (1..nodes).map(|_| NODE_PAGES_MIN + rng.below(share - NODE_PAGES_MIN + 1)).collect();
        let of_cpu = (0..cpus).map(|_| rng.below(nodes) as u8).collect();
        let mut distances = vec![vec![LOCAL_DISTANCE; nodes as usize]; nodes as usize];
        for (a, b) in (0..nodes as usize).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let distance = LOCAL_DISTANCE + 1 + rng.below(50) as u8;
            (distances[a][b], distances[b][a]) = (distance, distance);
        }
        Self { pages: node_pages, of_cpu, distances }
    }
}

/// Draws the rule for the order in which the tasks of a simulated world run: with a probability of one in four, by
/// random priorities; otherwise, by virtual time, mostly with random delays. The priorities have a random stream of
/// their own, so that they do not change the other properties of worlds.
fn draw_interleaving(seed: u64, rng: &mut Rng) -> Interleaving {
    let perturb = (rng.below(8) > 0).then(|| Perturb {
        delay_chance: log_between(rng, 1, 2048) as u32,
        delay_max: Nanos(log_between(rng, 100, 500_000)),
        yield_chance: log_between(rng, 1, 4096) as u32,
    });
    let rng = &mut Rng::new(seed, u64::MAX - 12);
    if rng.below(4) == 0 {
        // The number of steps of a world is not known in advance, so each power of two is equally likely.
        return Interleaving::ByPriority(Pct {
            depth: 1 + rng.below(5) as u32,
            steps: log_between(rng, 1 << 8, 1 << 26),
            patience: log_between(rng, 1 << 8, 1 << 16),
        });
    }
    perturb.map_or(Interleaving::InTime, Interleaving::Perturbed)
}

fn draw_zones(rng: &mut Rng, pages: u64) -> [u64; 3] {
    let low = pages / (2 + rng.below(6));
    let lowest = 128 + rng.below(low / 2);
    match rng.below(5) {
        0 => [0, 0, pages],
        1 => [0, pages, 0],
        2 => [0, low, pages - low],
        3 => [lowest, 0, pages - lowest],
        _ => [lowest, low, pages - low - lowest],
    }
}

fn constant(value: u64) -> Sourced<u64> {
    Sourced::new(value, Origin::Assumed, "drawn")
}

/// Number of blocks of a disk: enough for the files and the swap of a world with 64 MiB of memory.
const CAPACITY_BLOCKS: u64 = 2 << 20;

fn draw_disk(rng: &mut Rng) -> DiskConfig {
    let elevator = match rng.below(3) {
        0 => ElevatorConfig::Noop,
        1 => ElevatorConfig::Deadline(DeadlineConfig::default()),
        _ => ElevatorConfig::Cfq(CfqConfig {
            sync_arrival: pick(rng, &[SyncArrival::WaitsForSlice, SyncArrival::Preempts]),
            ..CfqConfig::default()
        }),
    };
    let queue = QueueConfig {
        nr_requests: constant(log_between(rng, 1, 1024)),
        max_request_pages: constant(log_between(rng, 1, 256)),
        command_depth: (rng.below(2) == 0).then(|| constant(log_between(rng, 1, 64))),
        elevator,
    };
    if rng.below(3) == 0 {
        return DiskConfig::Rotational(RotationalConfig {
            capacity_blocks: constant(CAPACITY_BLOCKS),
            queue,
            rpm: constant(7200),
            bandwidth_bytes_per_s: constant(113_000_000),
            inner_bandwidth_bytes_per_s: None,
            seek_track_to_track_ns: constant(1_000_000),
            seek_average_ns: constant(8_500_000),
            seek_full_ns: constant(18_000_000),
            command_ns: constant(150_000),
        });
    }
    DiskConfig::Flash(FlashConfig {
        capacity_blocks: constant(CAPACITY_BLOCKS),
        queue,
        queue_depth: constant(log_between(rng, 1, 128)),
        channels: constant(log_between(rng, 1, 32)),
        stripe_blocks: (rng.below(4) == 0).then(|| constant(log_between(rng, 2, 64))),
        read_latency_ns: constant(log_between(rng, 5_000, 500_000)),
        write_latency_ns: constant(log_between(rng, 5_000, 2_000_000)),
        read_bandwidth_bytes_per_s: constant(3_200_000_000),
        write_bandwidth_bytes_per_s: constant(2_000_000_000),
        command_ns: constant(5_000),
        erase: (rng.below(3) == 0).then(|| EraseConfig { every_pages: constant(64), stall_ns: constant(20_000_000) }),
    })
}

fn draw_tasks(rng: &mut Rng, pages: u64) -> Vec<TaskPlan> {
    let count = 1 + rng.below(8);
    // All tasks together use between half and four times as many pages as memory has, and touch each page up to four
    // times.
    let total = pages * (1 + rng.below(8)) / 2;
    let budget = (total * (1 + rng.below(4))).min(1 << 16);
    (0..count)
        .map(|_| TaskPlan {
            role: pick(rng, &ROLES),
            budget_pages: budget / count,
            size_pages: (16 + total * (1 + rng.below(8)) / 4 / count) as u32,
            killed_at: (rng.below(8) == 0).then(|| Nanos(log_between(rng, 1_000_000, 4_000_000_000))),
        })
        .collect()
}

fn draw_faults(rng: &mut Rng, disks: u64) -> Vec<(Nanos, DeviceId, Fault)> {
    if rng.below(5) > 0 {
        return Vec::new();
    }
    (0..1 + rng.below(3))
        .map(|_| {
            let time = Nanos(log_between(rng, 1_000, 2_000_000_000));
            let error = machine::IoError::Device;
            let fault = match rng.below(4) {
                0 => Fault::StallUntil(time + Nanos::from_millis(rng.below(3000))),
                1 => {
                    let start = log_between(rng, 1, CAPACITY_BLOCKS / 2);
                    let operation = pick(rng, &[None, Some(Operation::Read), Some(Operation::Write)]);
                    Fault::Blocks { blocks: start..start + log_between(rng, 1, 256), operation, error }
                }
                _ => Fault::Nth { nth: log_between(rng, 1, 256), error },
            };
            (time, DeviceId(rng.below(disks) as u32), fault)
        })
        .collect()
}

/// Draws the kernel of a world: either a built-in kernel, or a kernel with random choices.
fn draw_kernel(rng: &mut Rng) -> Kernel {
    if rng.below(3) == 0 {
        let mut names: Vec<&str> = embedded::names("kernels").collect();
        names.sort_unstable();
        return find::kernel(pick(rng, &names)).expect("embedded kernels are sound");
    }
    let mut choices: Vec<&Choice> = choice::all().collect();
    choices.sort_unstable_by_key(|choice| choice.draw_order);
    let mut text = String::new();
    for choice in choices {
        let drawn = choice.drawn();
        let value = &drawn[rng.below(drawn.len() as u64) as usize];
        text.push_str(&format!("{} = {value}\n", choice.path()));
    }
    Kernel::parse("random", "random", &text, &|_| Err(String::new())).expect("only known values are drawn")
}

/// Draws whether all memory of the world is compacted again and again, and returns the interval between two
/// compactions. Returns `None` for half of all seeds: in their worlds there is no such compaction. The draw has its own
/// random stream, so that it does not change the other properties of worlds.
fn draw_compaction(seed: u64) -> Option<Nanos> {
    let rng = &mut Rng::new(seed, u64::MAX - 11);
    (rng.below(2) == 0).then(|| Nanos(log_between(rng, 100_000, 100_000_000)))
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, cpus, zones, step_ns, fairness, slice, interrupt_cpu, swap_slots, .. } = self;
        let [dma, dma32, normal] = zones;
        write!(f, "seed {seed:#x}: {cpus} CPUs, pages DMA {dma} DMA32 {dma32} Normal {normal}, ")?;
        let MoreNodes { pages, of_cpu, distances } = &self.more_nodes;
        if !pages.is_empty() {
            write!(f, "nodes of Normal {pages:?} at {distances:?}, CPUs on {of_cpu:?}, ")?;
        }
        write!(f, "{step_ns} ns a step, slices of {slice}, locks {fairness:?}, interrupts on CPU {interrupt_cpu}, ")?;
        match &self.interleaving {
            Interleaving::Perturbed(Perturb { delay_chance, delay_max, yield_chance }) => {
                write!(f, "perturbed {delay_chance} {} {yield_chance}", delay_max.0)?;
            }
            Interleaving::ByPriority(Pct { depth, steps, patience }) => {
                write!(f, "by priority, depth {depth}, {steps} steps, patience {patience}")?;
            }
            Interleaving::InTime | Interleaving::Replayed(_) => write!(f, "not perturbed")?,
        }
        for (n, disk) in self.disks.iter().enumerate() {
            let queue = disk.queue();
            let elevator = match queue.elevator {
                ElevatorConfig::Noop => "noop",
                ElevatorConfig::Deadline(_) => "deadline",
                ElevatorConfig::Cfq(_) => "cfq",
            };
            let model = match disk {
                DiskConfig::Rotational(_) => "rotational".to_owned(),
                DiskConfig::Flash(flash) => format!(
                    "flash {} deep, {} channels, {}/{} ns",
                    flash.queue_depth.value,
                    flash.channels.value,
                    flash.read_latency_ns.value,
                    flash.write_latency_ns.value
                ),
            };
            let (requests, pages) = (queue.nr_requests.value, queue.max_request_pages.value);
            write!(f, "; disk {n} {model}, {elevator} of {requests} requests of {pages} pages")?;
        }
        let files_on = if self.workload.is_some() { 0 } else { self.file_device.0 };
        write!(f, "; files on {files_on}, {swap_slots} swap slots on {}", self.swap_device.0)?;
        write!(f, "; kernel {}", self.kernel.name)?;
        if self.kernel.name == "random" {
            for setting in self.kernel.differences() {
                write!(f, " {}.{}={}", setting.section, setting.key, setting.value)?;
            }
        }
        if let Some(drawn) = &self.workload {
            return write!(f, "; {drawn}");
        }
        if let Some(interval) = self.compacts_every {
            write!(f, "; compacts every {interval}")?;
        }
        if let Some(interval) = self.log_every() {
            write!(f, "; log every {interval}")?;
        }
        write!(f, "; {} shared; tasks", self.shared)?;
        for TaskPlan { role, budget_pages, size_pages, killed_at } in &self.tasks {
            write!(f, " {role:?}({size_pages}, {budget_pages}")?;
            if let Some(time) = killed_at {
                write!(f, ", killed at {time}")?;
            }
            write!(f, ")")?;
        }
        for (time, device, fault) in &self.faults {
            write!(f, "; at {time} disk {}: {fault:?}", device.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_world_fits_its_disk() {
        const { assert!(1 + 64 * 16384 + 4 * 16384 <= CAPACITY_BLOCKS) };
        for seed in 0..200 {
            let world = World::draw(seed);
            world.disks.iter().for_each(|disk| disk.check().unwrap_or_else(|error| panic!("{world}: {error}")));
            assert!(world.layout().pages() >= 1024, "{world}");
        }
    }
}
