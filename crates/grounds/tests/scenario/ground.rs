//! The machine on which the scenarios run.

use engine::anonymous::Region;
use engine::kernel::{Choices, Kernel};
use engine::memory::{Flags, Gfp, Layout};
use engine::page_cache::File;
use engine::stat::{Gauge, Vmstat};
use engine::swap::SwapLayout;
use engine::writeback::DeviceLayout;
use engine::{Engine, Error, KernelTask, ReadState, Task};
use machine::{DeviceId, FrameNumber, Machine, Nanos, PAGE_BYTES, Step};
use sim::disk::config::{ElevatorConfig, FlashConfig, QueueConfig};
use sim::disk::{DiskConfig, Fault};
use sim::{Origin, Sim, Sourced, TaskId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Number of pages of 4 KiB in 16 MiB.
pub const PAGES: u64 = 4096;

/// The only disk of most machines.
pub const DISK: DeviceId = DeviceId(0);

/// Number of the disk's blocks for files. The blocks of swap follow them.
pub const FILE_BLOCKS: u64 = 1 << 17;

/// Returns the choices of a kernel of this repository.
pub fn choices_of(kernel: &str) -> Choices {
    Kernel::built_in(kernel).unwrap_or_else(|| panic!("no kernel `{kernel}`")).choices
}

/// The description of a machine.
#[derive(Clone)]
pub struct Plan {
    pub choices: Choices,
    pub layout: Layout,
    pub swap_slots: u32,
    pub cpus: usize,
    pub write_ns: u64,
    /// For each further disk, the time that it takes to write a page, ns. These disks are as large as the first, and
    /// have no swap.
    pub more_disks_write_ns: Vec<u64>,
    pub swap_is_synchronous: bool,
    /// Memory that a page in swap takes, as a percentage of a page.
    pub swap_memory_percent: u32,
    /// Steps whose cost differs from the others', with their cost in ns.
    pub costs: Vec<(Step, u64)>,
    /// Number of requests that the disk's queue takes.
    pub nr_requests: u64,
    pub with_kswapd: bool,
    pub with_flusher: bool,
}

impl Default for Plan {
    fn default() -> Self {
        let mut choices = choices_of("mm1-mmotm-20130606");
        choices.memory.min_free_kbytes = 1024;
        Self {
            choices,
            layout: Layout::flat(PAGES),
            swap_slots: 16385,
            cpus: 2,
            write_ns: 20_000,
            more_disks_write_ns: Vec::new(),
            swap_is_synchronous: false,
            swap_memory_percent: 0,
            costs: Vec::new(),
            nr_requests: 128,
            with_kswapd: true,
            with_flusher: true,
        }
    }
}

fn disk(write_ns: u64, nr_requests: u64) -> DiskConfig {
    let value = |value| Sourced::new(value, Origin::Assumed, "a disk for stories");
    DiskConfig::Flash(FlashConfig {
        capacity_blocks: value(1 << 20),
        queue: QueueConfig {
            nr_requests: value(nr_requests),
            elevator: ElevatorConfig::Noop,
            ..QueueConfig::default()
        },
        queue_depth: value(32),
        channels: value(4),
        stripe_blocks: None,
        read_latency_ns: value(80_000),
        write_latency_ns: value(write_ns),
        read_bandwidth_bytes_per_s: value(3_200_000_000),
        write_bandwidth_bytes_per_s: value(2_000_000_000),
        command_ns: value(5_000),
        erase: None,
    })
}

/// A running simulated machine, with the operations that the tests use.
#[derive(Clone)]
pub struct Ground {
    pub sim: Sim,
    pub engine: Rc<Engine<Sim>>,
    kernel_tasks: Rc<Vec<TaskId>>,
    pub task: Rc<RefCell<Task>>,
}

impl Plan {
    /// Runs `story`, the body of a test, as the main task of a simulated machine. Returns the counters at its end.
    pub fn run(self, story: impl FnOnce(&Ground) + 'static) -> Vmstat {
        // Boxed, so that what follows is compiled once, and not for each story.
        self.run_boxed(Box::new(story))
    }

    fn run_boxed(self, story: Box<dyn FnOnce(&Ground)>) -> Vmstat {
        let write_ns: Vec<u64> = [self.write_ns].into_iter().chain(self.more_disks_write_ns).collect();
        // As in the machine files, the cost of this step is part of the cost of ending a page.
        let cost = sim::CostModel::uniform(100)
            .with(Step::BatchPage, 0)
            .with(Step::PageReference, 0)
            .with(Step::ShadowStore, 0);
        let sim = Sim::new(sim::Config {
            frames: self.layout.frames() as usize,
            stamps: true,
            nodes: (self.layout.nodes.len() > 1).then(|| sim::Nodes {
                of_cpu: (0..self.cpus).map(|cpu| (cpu * self.layout.nodes.len() / self.cpus) as u8).collect(),
                first_frames: self.layout.first_frames(),
                distances: self.layout.all_distances(),
            }),
            disks: write_ns.iter().map(|write_ns| disk(*write_ns, self.nr_requests)).collect(),
            time_limit: Some(Nanos::from_secs(100_000)),
            cost: self.costs.iter().fold(cost, |cost, (step, ns)| cost.with(*step, *ns)),
            ..sim::Config::uniform(self.cpus, 100)
        });
        let devices: Vec<_> = write_ns.iter().map(|_| DeviceLayout { file_blocks: 1..1 + FILE_BLOCKS }).collect();
        let swap = SwapLayout {
            device: DISK,
            first_block: 1 + FILE_BLOCKS,
            slots: self.swap_slots,
            is_synchronous: self.swap_is_synchronous,
            memory_percent: self.swap_memory_percent,
        };
        let engine = Rc::new(Engine::new(sim.clone(), &self.choices, &self.layout, &devices, swap).unwrap());
        sim.attach(engine.clone());
        let is_wanted = |task: &KernelTask| match task {
            KernelTask::Kswapd(_) => self.with_kswapd,
            KernelTask::Flusher(_) => self.with_flusher,
            // A story starts these itself.
            KernelTask::Khugepaged | KernelTask::OomReaper => false,
        };
        let start = |task: KernelTask| {
            let engine = engine.clone();
            let id = sim.spawn_on(task.node(), &task.name(), move || engine.run(task));
            sim.set_aside(id);
            id
        };
        let kernel_tasks = Rc::new(engine.kernel_tasks().into_iter().filter(is_wanted).map(start).collect());
        let ground = Ground { sim: sim.clone(), engine, kernel_tasks, task: Rc::new(RefCell::new(Task::user())) };
        let ended_on = Rc::new(RefCell::new(Vmstat::new()));
        let vmstat = ended_on.clone();
        sim.run("story", move || {
            story(&ground);
            *vmstat.borrow_mut() = ground.engine.vmstat();
            ground.come_to_rest();
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
        ended_on.take()
    }
}

impl Ground {
    /// Ends the engine's own tasks, waits for devices, and checks the whole machine.
    fn come_to_rest(&self) {
        for id in self.kernel_tasks.iter() {
            self.sim.kill(*id);
            self.sim.join(*id);
        }
        self.check();
    }

    /// Waits until no kernel task is inside the engine and no device is busy, and checks the whole machine. A kswapd
    /// that is still running would hold pages that are on no list.
    pub fn check(&self) {
        let is_at_rest = || {
            let isolated = self.count("nr_isolated_anon") + self.count("nr_isolated_file");
            isolated == 0 && self.kernel_tasks.iter().all(|id| self.sim.is_asleep(*id) || self.sim.is_finished(*id))
        };
        for _ in 0..10_000 {
            self.wait_for_devices();
            if is_at_rest() {
                break;
            }
            self.pause_ms(10);
        }
        self.engine.check().unwrap();
    }

    /// Waits until no page is locked or under writeback.
    pub fn wait_for_devices(&self) {
        let is_busy = |n| {
            let flags = self.engine.memory().frames[FrameNumber(n)].flags();
            flags.has(Flags::LOCKED) || flags.has(Flags::WRITEBACK)
        };
        for _ in 0..10_000 {
            if !(0..self.engine.memory().frames.len()).any(is_busy) {
                return;
            }
            self.pause_ms(10);
        }
        let frame = (0..self.engine.memory().frames.len()).find(|n| is_busy(*n)).map(FrameNumber).unwrap();
        panic!("{frame} is still busy after 100 s: {:?}", self.engine.memory().frames[frame]);
    }

    pub fn pause_ms(&self, ms: u64) {
        self.sim.pause(Nanos::from_millis(ms));
    }

    /// Returns the present value of a counter or gauge.
    pub fn count(&self, name: &str) -> u64 {
        *self.engine.vmstat().get(name).unwrap_or_else(|| panic!("no counter is called {name}"))
    }

    pub fn free(&self) -> u64 {
        self.engine.memory().gauge(Gauge::NrFreePages)
    }

    pub fn inject(&self, fault: Fault) {
        self.sim.inject(DISK, fault);
    }

    /// Starts a task that runs `body`.
    pub fn spawn(&self, name: &str, body: impl FnOnce(&Self) + 'static) -> TaskId {
        self.spawn_boxed(None, name, Box::new(body))
    }

    /// Starts a task that runs `body` on the CPUs of one memory node.
    pub fn spawn_on(&self, node: usize, name: &str, body: impl FnOnce(&Self) + 'static) -> TaskId {
        self.spawn_boxed(Some(node), name, Box::new(body))
    }

    fn spawn_boxed(&self, node: Option<usize>, name: &str, body: Box<dyn FnOnce(&Self)>) -> TaskId {
        let ground = Self { task: Rc::new(RefCell::new(Task::user())), ..self.clone() };
        match node {
            Some(node) => self.sim.spawn_on(node, name, move || body(&ground)),
            None => self.sim.spawn(name, move || body(&ground)),
        }
    }

    // ---- files ----

    pub fn create(&self) -> Arc<File<Sim>> {
        self.create_on(DISK)
    }

    pub fn create_on(&self, disk: DeviceId) -> Arc<File<Sim>> {
        self.engine.access().create(&mut self.task.borrow_mut(), disk).unwrap()
    }

    /// Creates a file whose contents are on the disk and not in memory.
    pub fn import(&self, pages: u32) -> Arc<File<Sim>> {
        let file = self.create();
        assert!(self.engine.writeback().allocate_blocks(&file, u64::from(pages) * PAGE_BYTES as u64));
        file
    }

    pub fn write(&self, file: &Arc<File<Sim>>, pages: std::ops::Range<u32>) -> Result<(), Error> {
        let mut bytes = [0; PAGE_BYTES];
        pages.into_iter().try_for_each(|page| {
            bytes[..8].copy_from_slice(&stamp(page));
            self.engine.access().write(&mut self.task.borrow_mut(), file, u64::from(page) * PAGE_BYTES as u64, &bytes)
        })
    }

    /// Reads pages one after the other, and returns their stamps.
    pub fn read(&self, file: &Arc<File<Sim>>, pages: std::ops::Range<u32>) -> Result<Vec<[u8; 8]>, Error> {
        let mut state = ReadState::default();
        let mut bytes = vec![0; PAGE_BYTES];
        let mut read = |page| {
            let offset = u64::from(page) * PAGE_BYTES as u64;
            self.engine.access().read(&mut self.task.borrow_mut(), file, &mut state, offset, &mut bytes)?;
            Ok(bytes[..8].try_into().unwrap())
        };
        pages.map(&mut read).collect()
    }

    pub fn fsync(&self, file: &Arc<File<Sim>>) -> Result<(), Error> {
        self.engine.access().fsync(&mut self.task.borrow_mut(), file)
    }

    // ---- memory ----

    pub fn region(&self, pages: u32) -> Arc<Region<Sim>> {
        self.engine.anonymous().create_region(self.task.borrow().process, pages, false)
    }

    pub fn touch(&self, region: &Region<Sim>, pages: std::ops::Range<u32>, write: bool) -> Result<(), Error> {
        self.engine.access().touch(&mut self.task.borrow_mut(), region, pages, write)
    }

    pub fn write_stamps(&self, region: &Region<Sim>, pages: std::ops::Range<u32>) -> Result<(), Error> {
        pages.into_iter().try_for_each(|page| {
            let offset = u64::from(page) * PAGE_BYTES as u64;
            self.engine.access().write_region(&mut self.task.borrow_mut(), region, offset, &stamp(page))
        })
    }

    pub fn read_stamp(&self, region: &Region<Sim>, page: u32) -> Result<[u8; 8], Error> {
        let mut bytes = [0; 8];
        let offset = u64::from(page) * PAGE_BYTES as u64;
        self.engine.access().read_region(&mut self.task.borrow_mut(), region, offset, &mut bytes).map(|()| bytes)
    }

    /// Returns the number of minor and of major faults of this task so far.
    pub fn faults(&self) -> (u64, u64) {
        let task = self.task.borrow();
        (task.minor_faults, task.major_faults)
    }

    /// Allocates kernel pages until only `wanted` pages are free; returns the allocated pages.
    pub fn take_until_free(&self, wanted: u64) -> Vec<FrameNumber> {
        let mut task = Task { may_use_reserve: true, ..Task::user() };
        let mut taken = Vec::new();
        loop {
            self.engine.memory().drain_all_per_cpu();
            if self.free() <= wanted {
                return taken;
            }
            let page = self.engine.allocate().allocate_kernel(&mut task, Gfp::KERNEL, Gauge::NrSlabUnreclaimable);
            taken.push(page.unwrap());
        }
    }

    pub fn give_back(&self, pages: impl IntoIterator<Item = FrameNumber>) {
        pages.into_iter().for_each(|page| self.engine.memory().free_kernel(page, Gauge::NrSlabUnreclaimable));
    }
}

/// Returns the stamp of page `page`, the first bytes that it must have.
pub fn stamp(page: u32) -> [u8; 8] {
    (0x5a00_0000_0000_0000 | u64::from(page)).to_le_bytes()
}

/// A value that the simulated part of a test sets, and that the test reads after the simulation.
#[derive(Clone, Default)]
pub struct Found<T: Default + Clone>(Rc<Cell<T>>);

impl<T: Default + Clone> Found<T> {
    pub fn set(&self, value: T) {
        self.0.set(value);
    }
    pub fn get(&self) -> T {
        self.0.take()
    }
}
