//! Random tests of the engine. Each test is a *world*: a machine, a kernel and tasks drawn from a seed, with every
//! check enabled.
//!
//! *Flow*: `draw` makes a world from a seed. The world's tasks (`task`) write stamps into pages, and compare every
//! stamp that they read with a model in memory (`store`), while the simulator delays and reorders the tasks at random.
//! At the end every page is read back, the whole machine is checked, and all files and regions are dropped; all memory,
//! swap and blocks must then be accounted for. Instead of the tasks, some worlds run a workload of the experiments
//! (`workload`), which verifies its contents itself.
//!
//! A bug that was found this way gets a test in the engine. The seed alone is not enough, because after the next change
//! of the code the same seed does something else.

mod chance;
#[cfg(test)]
mod conditions;
mod draw;
mod drawn;
mod groups;
mod log;
mod processes;
mod store;
mod task;
mod workload;

use self::draw::{Role, World};
use self::store::{Part, Store, What};
use self::task::{Children, Worker};
pub use chance::CORRUPTING_SEED;
use engine::anonymous::Sharing;
use engine::slab::SlabCache;
use engine::stat::Gauge;
use engine::{Engine, ReadState, Task};
use machine::{DeviceId, Func, Machine};
use sim::{Rng, Sim, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// The outcome of a random world (a machine, a kernel and tasks that are drawn from a seed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwarmReport {
    /// A description of the world in one line.
    pub drawn: String,
    /// Hash over every state and event of the run. Two runs with the same seed have the same hash.
    pub fingerprint: u64,
    /// Counters (`/proc/vmstat`) of the engine at the end of the run.
    pub vmstat: engine::stat::Vmstat,
}

/// The failure of a random world (a machine, a kernel and tasks that are drawn from a seed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwarmFailure {
    /// The seed from which the world was drawn.
    pub seed: u64,
    /// A description of the world in one line.
    pub drawn: String,
    /// A message that names the check that failed, with its values.
    pub message: String,
}

impl fmt::Display for SwarmFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, drawn, message } = self;
        write!(f, "{drawn}\n  {message}\n  replay: highwater swarm --seed {seed:#x}")
    }
}

impl std::error::Error for SwarmFailure {}

/// The shared state of all tasks of a random world: a simulated machine with tasks and faults drawn from a seed.
struct Shared {
    sim: Sim,
    engine: Rc<Engine<Sim>>,
    file_device: DeviceId,
    has_faults: bool,
    /// Number of tasks that write to the files and regions in `common`.
    sharers: u32,
    common: RefCell<Vec<Rc<Store>>>,
    /// All files and regions that were not dropped yet, by number.
    live: RefCell<BTreeMap<u64, Rc<Store>>>,
    next_number: Cell<u64>,
    /// The memory control groups.
    groups: groups::Tree,
    /// The task of each process; `None` in a world without processes.
    processes: Option<processes::Tasks>,
    /// The log of the writes to files; `None` in a world without one.
    log: Option<log::Log>,
    /// Number of operations that failed because memory was exhausted, over all tasks.
    out_of_memory: Rc<Cell<u64>>,
    /// True if the world has used so much CPU time that its tasks must end ([`LATE_PART`]).
    is_late: Rc<Cell<bool>>,
}

impl Shared {
    fn add(&self, what: What) -> Rc<Store> {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        let store = Store::new(what, number, self.has_faults);
        self.live.borrow_mut().insert(number, store.clone());
        store
    }

    /// Records that one task has stopped using a store (a file or region). If this was the last task that used the
    /// store, drops the store.
    fn release(&self, store: &Rc<Store>) {
        store.users.set(store.users.get() - 1);
        if store.users.get() == 0 {
            self.live.borrow_mut().remove(&store.number);
            store.drop_all(&self.engine);
        }
    }
}

/// Runs the world of one seed, and returns its outcome.
///
/// # Errors
/// When a check fails, or anything panics.
pub fn run(seed: u64) -> Result<SwarmReport, SwarmFailure> {
    let world = World::draw(seed);
    let drawn = world.to_string();
    match run_drawn(&world) {
        Ok((fingerprint, vmstat)) => Ok(SwarmReport { drawn, fingerprint, vmstat }),
        Err(message) => Err(SwarmFailure { seed, drawn, message }),
    }
}

/// Runs the random simulation that `world` describes. Returns the run's fingerprint and its counters at the end. If the
/// run fails or panics, the error is its message.
fn run_drawn(world: &World) -> Result<(u64, engine::stat::Vmstat), String> {
    let work = || world.workload.as_ref().map_or_else(|| run_world(world), |drawn| workload::run(world, drawn));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(kit::panics::message(&*payload)))
}

fn run_world(world: &World) -> Result<(u64, engine::stat::Vmstat), String> {
    let sim = Sim::new(world.sim_config());
    let engine = Engine::new(sim.clone(), &world.kernel.choices, &world.layout(), &world.devices(), world.swap());
    let engine = Rc::new(engine.map_err(|error| error.to_string())?);
    sim.attach(engine.clone());
    let mut kernel_tasks: Vec<TaskId> = engine
        .kernel_tasks()
        .into_iter()
        .chain(engine.khugepaged())
        .map(|task| {
            let engine = engine.clone();
            sim.spawn_on(task.node(), &task.name(), move || engine.run(task))
        })
        .collect();
    let log = world.log_every().map(|_| log::Log::new(world.seed, &engine));
    let shared = Rc::new(Shared {
        sim: sim.clone(),
        engine,
        file_device: world.file_device,
        has_faults: !world.faults.is_empty(),
        sharers: world.tasks.iter().filter(|task| task.role == Role::Sharer).count().max(1) as u32,
        common: RefCell::default(),
        live: RefCell::default(),
        next_number: Cell::new(1),
        groups: groups::Tree::default(),
        processes: world.has_processes.then(processes::Tasks::default),
        log,
        out_of_memory: Rc::default(),
        is_late: Rc::default(),
    });
    kernel_tasks.extend(shared.processes.iter().map(|tasks| tasks.begin(&sim, &shared.engine)));
    let result = Rc::new(RefCell::new(Ok(engine::stat::Vmstat::new())));
    let (found, plan) = (result.clone(), Plan::of(world));
    let refused = shared.out_of_memory.clone();
    sim.run("main", move || *found.borrow_mut() = run_main(&shared, &plan, &kernel_tasks))
        .map_err(|failure| failure.to_string())?;
    let vmstat = result.replace(Err(String::new()))?;
    vmstat.values().for_each(|value| sim.mix(*value));
    sim.mix(refused.get());
    Ok((sim.fingerprint(), vmstat))
}

/// Number of times that a task may find memory exhausted before it gives up. Each time, reclaim has tried for 0.1 s or
/// more. The limit is needed because in a world without processes no task is killed to free memory.
const REFUSALS_MAX: u32 = 20;

/// Largest number of steps of all tasks of a world together, which is five hundred times the number that most worlds
/// need. Tasks may need many steps because they scan while a disk is slow, or because without swap they scan all of
/// memory for each page.
const STEPS_MAX: u64 = 1_500_000_000;

/// Part of the CPU time of [`STEPS_MAX`] steps after which a world is late: 1/`LATE_PART`. The tasks of a late world
/// end, and the last check stops reading pages. So a world that is merely slow ends by itself, for example one in which
/// each page costs a scan of all memory. Only a world with a call that does not end goes on until the watchdog stops
/// it. The value was chosen without trying others.
const LATE_PART: u64 = 4;

/// The part of a [`World`] that its main task needs.
struct Plan {
    mean_step: machine::Nanos,
    cpus: usize,
    nodes: usize,
    seed: u64,
    tasks: Vec<draw::TaskPlan>,
    shared: u64,
    has_forks: bool,
    log_every: Option<machine::Nanos>,
    faults: Vec<(machine::Nanos, DeviceId, sim::disk::Fault)>,
    compacts_every: Option<machine::Nanos>,
}

impl Plan {
    fn of(world: &World) -> Self {
        let World { seed, cpus, tasks, shared, has_forks, faults, compacts_every, .. } = world;
        Self {
            mean_step: world.mean_step(),
            cpus: *cpus,
            nodes: world.layout().nodes.len(),
            seed: *seed,
            tasks: tasks.clone(),
            shared: *shared,
            has_forks: *has_forks,
            log_every: world.log_every(),
            faults: faults.clone(),
            compacts_every: *compacts_every,
        }
    }
}

/// Runs the main task of a world: makes the shared files and regions, starts the tasks, waits for them, and checks
/// everything. Returns the counters at the end.
fn run_main(shared: &Rc<Shared>, plan: &Plan, kernel_tasks: &[TaskId]) -> Result<engine::stat::Vmstat, String> {
    let (sim, engine) = (&shared.sim, &shared.engine);
    let mut rng = Rng::new(plan.seed, u64::MAX - 8);
    let mut task = Task::user();
    shared.groups.grow(engine, &mut Rng::new(plan.seed, u64::MAX - 33));
    make_common(shared, plan, &mut task, &mut rng)?;
    let mut events: Vec<(machine::Nanos, Event)> = Vec::new();
    let mut workers = Vec::new();
    for (number, of_task) in plan.tasks.iter().enumerate() {
        let sharers_before = plan.tasks[..number].iter().filter(|task| task.role == Role::Sharer).count();
        let rngs = [Rng::new(rng.next_u64(), 0), Rng::new(plan.seed, u64::MAX - 100 - number as u64)];
        let name = format!("{:?}", of_task.role).to_lowercase();
        let process = shared.processes.as_ref().map(|_| processes::create(engine, &name, plan.seed, number as u64));
        let children = plan.has_forks.then(|| Children::new(plan.seed, number as u64));
        let worker = Worker::new(shared, of_task.clone(), sharers_before as u32, rngs, process.clone(), children);
        let id = sim.spawn(&name, move || worker.run());
        shared.processes.iter().zip(&process).for_each(|(tasks, process)| tasks.add(process, id));
        events.extend(of_task.killed_at.map(|time| (time, Event::Kill(id))));
        workers.push(id);
    }
    events.extend(plan.faults.iter().map(|(time, device, fault)| (*time, Event::Fault(*device, fault.clone()))));
    start_events(sim, events);
    start_watchdog(sim, plan, &shared.is_late);
    let log = plan.log_every.map(|interval| log::start(shared, interval));
    let compactor =
        plan.compacts_every.map(|interval| start_compactor(shared, interval, Rng::new(plan.seed, u64::MAX - 37)));
    for worker in workers {
        sim.join(worker);
    }
    for helper in compactor.into_iter().chain(log) {
        sim.kill(helper);
        sim.join(helper);
    }
    if plan.seed == CORRUPTING_SEED {
        let store = shared.common.borrow()[0].clone();
        store.corrupt(engine, &mut task, 0).map_err(|error| error.to_string())?;
        return verify_everything(shared, &mut task)
            .map_err(|message| {
                format!("{message} (on purpose: this seed spoils a page, to show how a failure replays)")
            })
            .and(Err("a page was spoilt on purpose, and nobody saw it".to_owned()));
    }
    verify_everything(shared, &mut task)?;
    for id in kernel_tasks {
        sim.kill(*id);
        sim.join(*id);
    }
    store::wait_for_devices(engine)?;
    engine.check().map_err(|broken| format!("after the run: {broken}"))?;
    let vmstat = engine.vmstat();
    let live = shared.live.take();
    live.values().for_each(|store| store.drop_all(engine));
    store::wait_for_devices(engine)?;
    engine.check().map_err(|broken| format!("after everything was dropped: {broken}"))?;
    check_nothing_is_left(engine)?;
    Ok(vmstat)
}

/// Makes the files and regions that several tasks use. The first of them is always a file.
fn make_common(shared: &Rc<Shared>, plan: &Plan, task: &mut Task, rng: &mut Rng) -> Result<(), String> {
    let engine = &shared.engine;
    for n in 0..plan.shared {
        let pages = 1 + rng.below(u64::from(plan.tasks[0].size_pages)) as u32;
        let what = match if n == 0 { 0 } else { rng.below(4) } {
            0 => engine.access().create(task, shared.file_device).map(What::File),
            1 => store::map_new_file(engine, task, shared.file_device, pages, Sharing::Shared),
            _ => Ok(What::Region(engine.anonymous().create_region(None, pages, rng.below(2) == 0))),
        };
        let what = what.map_err(|error| error.to_string())?;
        let store = shared.add(what);
        if let What::File(_) = store.what {
            // Writing the last page gives the file its length; the pages before it are a hole.
            store.write(shared, task, pages - 1, Part::Whole).map_err(|error| error.to_string())?;
            store.write(shared, task, 0, Part::Whole).map_err(|error| error.to_string())?;
        }
        shared.common.borrow_mut().push(store);
    }
    Ok(())
}

/// An event that a test injects into a simulation at a set time: a task is killed, or a disk has a fault.
enum Event {
    Kill(TaskId),
    Fault(DeviceId, sim::disk::Fault),
}

fn start_events(sim: &Sim, mut events: Vec<(machine::Nanos, Event)>) {
    events.sort_by_key(|(time, _)| *time);
    let world = sim.clone();
    sim.spawn("fate", move || {
        for (time, event) in events {
            world.pause(time.since(world.now()));
            if world.is_killed() {
                return;
            }
            match event {
                Event::Kill(id) => world.kill(id),
                Event::Fault(device, fault) => world.inject(device, fault),
            }
        }
    });
}

/// Starts a task that runs compaction repeatedly while the other tasks work.
fn start_compactor(shared: &Rc<Shared>, interval: machine::Nanos, mut rng: Rng) -> TaskId {
    let shared = shared.clone();
    shared.sim.clone().spawn("compactor", move || {
        while !shared.sim.is_killed() {
            let began = shared.sim.now();
            shared.engine.compact().compact_memory();
            // Compaction runs at most half of the time. In a small zone, reclaim waits for the pages that compaction
            // has isolated, and looks again after 100 ms. The random part keeps it from always looking while compaction
            // runs.
            let ran = shared.sim.now().since(began);
            shared.sim.pause(interval.max(ran) + machine::Nanos(rng.below(ran.0 + 1)));
        }
    })
}

/// Names of tasks that work at intervals.
const AT_INTERVALS: [&str; 3] = ["compactor", "khugepaged", "log"];

/// Starts the watchdog task. Without it, tasks could work for ever in virtual time. If the world uses too much CPU
/// time, the watchdog sets `is_late`, so that tasks end. If they still do not end, the watchdog stops the world with a
/// failure.
fn start_watchdog(sim: &Sim, plan: &Plan, is_late: &Rc<Cell<bool>>) {
    // A task that was killed spins while it waits for a device, which may stall for some seconds.
    let spinning = plan.tasks.iter().filter(|task| task.killed_at.is_some()).count() as u64;
    let work = machine::Nanos(plan.mean_step.0 * STEPS_MAX) + machine::Nanos::from_secs(10 * spinning);
    // An allocation that fails may nap for half a minute in all. Where kswapd does not give up (Linux 4.8 to 4.11), each
    // node's kswapd scans in vain meanwhile.
    let limit = work + machine::Nanos::from_secs(60 * plan.nodes as u64);
    let interval = machine::Nanos((work.0 / 64 / plan.cpus as u64).max(1_000_000));
    let (world, is_late) = (sim.clone(), is_late.clone());
    sim.spawn("watchdog", move || {
        while !world.is_killed() {
            world.pause(interval);
            let time_of = |line: &String| line.rsplit(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
            let mut profile = world.profile();
            // What works at intervals, whether tasks make progress or not, is no sign of tasks that work for ever.
            let is_of_tasks = |line: &str| !AT_INTERVALS.iter().any(|task| line.starts_with(task));
            profile.retain(|line| !line.contains(Func::User.name()) && is_of_tasks(line));
            let used = machine::Nanos(profile.iter().map(time_of).sum());
            is_late.set(used.0 > work.0 / LATE_PART);
            if used > limit {
                profile.sort_by_key(|line| std::cmp::Reverse(time_of(line)));
                profile.truncate(12);
                panic!(
                    "the tasks do not come to an end; {used} of CPU time went to\n    {}\n  tasks that have not ended:{}",
                    profile.join("\n    "),
                    world.list_tasks()
                );
            }
        }
    });
}

/// Reads back and checks the pages of every remaining store (a file or region), except stores of killed processes. If
/// memory was exhausted in the run, drops each region after its check, so that there is memory to read the files.
fn verify_everything(shared: &Shared, task: &mut Task) -> Result<(), String> {
    let live: Vec<Rc<Store>> = shared.live.borrow().values().cloned().collect();
    let (memory, files): (Vec<_>, Vec<_>) = live.into_iter().partition(|store| store.is_memory());
    for store in memory {
        verify(shared, task, &store)?;
        if shared.out_of_memory.get() > 0 {
            shared.live.borrow_mut().remove(&store.number);
            store.drop_all(&shared.engine);
        }
    }
    files.iter().try_for_each(|store| verify(shared, task, store))
}

fn verify(shared: &Shared, task: &mut Task, store: &Store) -> Result<(), String> {
    if store.is_of_killed(&shared.engine) {
        return Ok(());
    }
    let mut state = ReadState::default();
    for start in (0..store.pages()).step_by(64).take_while(|_| !shared.is_late.get()) {
        let pages = start..(start + 64).min(store.pages());
        match store.verify(&shared.engine, task, &mut state, pages) {
            Ok(()) | Err(engine::Error::OutOfMemory { .. } | engine::Error::TooManyTables { .. }) => {}
            Err(engine::Error::Read { .. } | engine::Error::SwapRead { .. }) if shared.has_faults => {}
            Err(error) => return Err(format!("nothing failed, but the last check reported: {error}")),
        }
    }
    Ok(())
}

/// Checks that all memory is accounted for after all files and regions were dropped: each page that is not free belongs
/// to slab, or waits in the swap cache for reclaim.
fn check_nothing_is_left(engine: &Engine<Sim>) -> Result<(), String> {
    engine.memory().drain_all_per_cpu();
    let gauge = |gauge| engine.memory().gauge(gauge);
    let managed: u64 = engine.memory().zones.iter().map(|zone| zone.managed()).sum();
    let slab = gauge(Gauge::NrSlabReclaimable) + gauge(Gauge::NrSlabUnreclaimable);
    let cached = u64::from(engine.swap().cache.pages());
    let kept: u64 = engine.slab().object_caches.iter().map(|cache| cache.slabs().idle_pages()).sum();
    let kept = kept + engine.slab().index_nodes.slabs().map_or(0, SlabCache::idle_pages);
    let left = [
        ("pages are neither free nor slab nor in the swap cache", managed - gauge(Gauge::NrFreePages) - slab - cached),
        ("file pages", gauge(Gauge::NrFilePages) - cached),
        ("mapped anonymous pages", gauge(Gauge::NrAnonPages)),
        ("page-table pages", gauge(Gauge::NrPageTablePages)),
        ("dirty pages", gauge(Gauge::NrDirty)),
        ("pages under writeback", gauge(Gauge::NrWriteback)),
        ("swap slots", u64::from(engine.swap().total_slots() - engine.swap().free_slots()) - cached),
        (
            "pages of unshrinkable slab more, or fewer, than those kept for packets to come",
            gauge(Gauge::NrSlabUnreclaimable).abs_diff(engine.slab().socket_buffers.idle_pages()),
        ),
        (
            "pages of shrinkable slab more, or fewer, than those kept for objects to come",
            gauge(Gauge::NrSlabReclaimable).abs_diff(kept),
        ),
    ];
    match left.into_iter().find(|(_, n)| *n > 0) {
        Some((what, n)) => Err(format!("everything was dropped, but {n} {what} are left")),
        None => Ok(()),
    }
}
