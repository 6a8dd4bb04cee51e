//! One simulated run: makes a machine and a system from a job, runs the workload, and returns the outcome.
//!
//! A simulated run also fills memory before the workload starts (`before`), samples the disk, and checks the engine's
//! invariants at the end.

mod before;

use crate::backend::Backend;
use crate::job::{Failure, Job, NamedJob, Outcome, Runnable};
use crate::kernel_log;
use crate::load::{Load, Needs};
use crate::system::sim::{DiskSamples, SimSystem, SystemConfig};
use catalogue::ground::{Ground, GroundOptions};
use catalogue::group::MAIN;
use catalogue::hardware::{Before, Cpu, Disk, Network};
use engine::Engine;
use engine::memory::{GroupId, Layout};
use engine::stat::Vmstat;
use engine::swap::SwapLayout;
use engine::writeback::DeviceLayout;
use figures::engine_view::EngineView;
use figures::figure::Row;
use figures::scale::Scale;
use figures::series::Recorder;
use figures::usage::DiskSample;
use figures::{generations, locks, memory_map, moments, nodes, series};
use kit::progress::Progress;
use machine::{DeviceId, Nanos};
use sim::{CostModel, LockFairness, NetworkConfig, Sim};
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use workloads::system::{Given, System, SystemError};
use workloads::workload::{Measurements, Resources};

/// Largest virtual duration of a run. A longer run is taken to be endless, and fails. The limit lies a little below the
/// end of the simulator's clock.
const TIME_LIMIT: Nanos = Nanos::from_secs(2 * workloads::extent::TIME_MAX_S - 60);

/// Interval at which statistics of the disk are sampled, as by iostat in MMTests.
const SAMPLE_EVERY: Nanos = Nanos::from_secs(10);

/// The parts of a machine file for one job, with the sizes of memory and disks multiplied by the job's scale.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The machine's nodes and zones, with sizes multiplied by the job's scale.
    pub layout: Layout,
    /// The contents of memory before the run, with the sizes at full scale.
    pub before: Before,
    cpu: Cpu,
    cost: CostModel,
    /// The disk for files, and the disk for swap if it is a different one.
    disks: Vec<Disk>,
    network: Option<Network>,
    scale: Scale,
}

impl Simulation {
    /// Makes the machine of a job at the job's scale. Memory, swap and the disk's bandwidth are scaled; latencies are
    /// not.
    ///
    /// # Errors
    /// When the machine has no disk, when a disk is too slow at this scale, or when the engine cannot work with so
    /// little memory.
    pub fn of_job(job: &Job) -> Result<Self, Failure> {
        let machine = &job.machine;
        let layout = job.layout();
        let Some(disk) = machine.disks.first() else {
            return Err(Failure(format!("machine `{}` has no [[disk]]", machine.name)));
        };
        let of_swap = machine.swap_disk().filter(|(number, _)| *number > 0).map(|(_, disk)| disk);
        let mut disks: Vec<Disk> = [disk].into_iter().chain(of_swap).cloned().collect();
        for disk in &mut disks {
            disk.device.scale_bandwidth(|bytes_per_s| job.scale.of(bytes_per_s).max(1));
            // The disk was checked at full scale when its file was read. With the scaled bandwidth it may be too slow.
            disk.device.check().map_err(|why| {
                Failure(format!("machine `{}` at scale {}: its disk is none: {why}", machine.name, job.scale))
            })?;
        }
        Ok(Self {
            layout,
            before: machine.before.clone(),
            cpu: machine.cpu.clone(),
            cost: machine.cost.clone(),
            disks,
            network: machine.network.clone(),
            scale: job.scale,
        })
    }

    /// Returns the number of swap slots in the machine file, multiplied by the scale of the run.
    #[must_use]
    pub fn swap_slots(&self) -> u32 {
        self.scale.of(self.swap_disk().swap_slots.value) as u32
    }

    fn swap_disk(&self) -> &Disk {
        self.disks.last().expect("it has a disk")
    }

    /// Returns the resources that this machine offers a workload.
    #[must_use]
    pub fn resources(&self) -> Resources {
        Resources {
            memory_pages: self.layout.usable_pages(),
            used_pages: self.before.pages(self.scale),
            swap_pages: self.swap_slots().into(),
        }
    }

    fn sim_config(&self, seed: u64, stamps: bool) -> sim::Config {
        let cache_lines = self.cpu.sim_cache_lines();
        let has_frame_lines = cache_lines.is_some_and(|lines| lines.by_frame > 0);
        sim::Config {
            cost: self.cost.clone().slowed(self.cpu.slowdown()),
            seed,
            frames: if stamps || has_frame_lines { self.layout.frames() as usize } else { 0 },
            stamps,
            disks: self.disks.iter().map(|disk| disk.device.clone()).collect(),
            interrupt_cpus: vec![self.cpu.interrupt_cpu.value; self.disks.len()],
            lock_fairness: self.cpu.lock_fairness.as_ref().map_or_else(LockFairness::default, |it| it.value),
            tlb: self.cpu.sim_tlb(),
            cache_lines,
            nodes: self.cpu.sim_nodes(&self.layout),
            network: self.network.as_ref().map(network_config),
            time_limit: Some(TIME_LIMIT),
            ..sim::Config::uniform(self.cpu.count.value, 0)
        }
    }

    fn system_config(&self, stamps: bool) -> SystemConfig {
        let file_blocks = |disk: &Disk| {
            let [first, end] = disk.file_blocks.value;
            DeviceLayout { file_blocks: first..end }
        };
        let swap = self.swap_disk();
        SystemConfig {
            layout: self.layout.clone(),
            devices: self.disks.iter().map(file_blocks).collect(),
            swap: SwapLayout {
                device: DeviceId(self.disks.len() as u32 - 1),
                first_block: swap.swap_first_block.value,
                slots: self.swap_slots(),
                is_synchronous: swap.synchronous.as_ref().is_some_and(|it| it.value),
                memory_percent: swap.memory_percent.as_ref().map_or(0, |it| it.value),
            },
            stamps,
            program_work: self.cpu.program_work(),
        }
    }
}

/// A period with interrupts off, on the CPU that takes the network card's interrupts, is recorded if it is at least
/// this long. Shorter periods delay a packet too little to matter.
const KEEP_OFF_FROM: Nanos = Nanos(100_000);

fn network_config(network: &Network) -> NetworkConfig {
    NetworkConfig {
        cpu: network.interrupt_cpu.value,
        wire: Nanos(network.wire_ns.value),
        packet: Nanos(network.packet_ns.value),
        turn: network.turn.value,
        keep_from: KEEP_OFF_FROM,
    }
}

/// The ground `sim`. A workload runs as the main task of the simulated machine, after memory was filled as `[before]`
/// of the machine file says.
#[derive(Debug)]
pub struct Simulated;

impl Backend for Simulated {
    const GROUND: Ground = Ground::Sim;

    type System = SimSystem;

    fn ready(_: &GroundOptions, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn resources(job: &Job) -> Result<Resources, Failure> {
        Ok(Simulation::of_job(job)?.resources())
    }

    fn check(job: &Job, needs: &dyn Needs) -> Result<(), Failure> {
        crate::groups::check(&job.machine.name, &job.machine.groups, &needs.groups()).map_err(Failure)?;
        let simulation = Simulation::of_job(job)?;
        let resources = simulation.resources();
        let [first, end] = simulation.disks[0].file_blocks.value;
        engine::memory::check_layout(&simulation.layout)
            .map_err(|error| error.to_string())
            .and_then(|()| needs.extent(&resources, job.scale).check(Some(end - first)))
            .and_then(|()| needs.check(&resources))
            .map_err(|why| Failure(format!("machine `{}` at scale {}: {why}", job.machine.name, job.scale)))
    }

    fn run(job: &Job, load: Load<SimSystem>, progress: &Progress) -> Result<Outcome, Failure> {
        run(job, load, progress)
    }

    fn carry_out(
        workload: &dyn Runnable,
        job: &Job,
        _: &NamedJob,
        _: &GroundOptions,
        progress: &Progress,
    ) -> Result<Outcome, Failure> {
        workload.run(job, progress)
    }
}

/// Runs a workload as the main task of a job's simulated machine.
fn run(job: &Job, load: Load<SimSystem>, progress: &Progress) -> Result<Outcome, Failure> {
    let Load { verifies, measures_kills, body } = load;
    let simulation = Simulation::of_job(job)?;
    let sim = Sim::new(simulation.sim_config(job.seed, verifies));
    let given = Given { seed: job.seed, scale: job.scale, progress: progress.clone() };
    let system = SimSystem::new(&sim, &job.kernel.choices, &simulation.system_config(verifies), given)
        .map_err(|error| Failure(format!("machine `{}` at scale {}: {error}", job.machine.name, job.scale)))?;
    watch(&sim, progress, system.disk_samples());
    let recorded = record(&sim, &system, job, progress);
    if let Some(config) = job.trace {
        sim.start_trace(config);
    }
    let found: Arc<Mutex<Result<Measurements, SystemError>>> = Arc::new(Mutex::new(Ok(Measurements::default())));
    let result = found.clone();
    let ended = Arc::new(Mutex::new(Nanos(0)));
    let end = ended.clone();
    let engine = system.shared_engine();
    let groups = job.machine.groups.clone();
    let logged = Arc::new(Mutex::new(Vec::new()));
    let log = logged.clone();
    let (counted, is_idle) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (events, idle) = (counted.clone(), is_idle.clone());
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = told.clone();
    let processes = Arc::new(Mutex::new(None));
    let started = processes.clone();
    sim.run("main", move || {
        let outcome = before::prepare(&simulation.before, &system, simulation.scale)
            .and_then(|()| system.create_groups(&groups, simulation.scale))
            .and_then(|()| {
                system.enter_group_of(MAIN);
                body(&system)
            })
            .map(|found| with_rows(found, system.group_rows()))
            .map(|found| with_profile(found, &system));
        let vmstat = system.vmstat();
        events.store(page_events(&vmstat), Ordering::Relaxed);
        idle.store(is_without_reclaim(&vmstat), Ordering::Relaxed);
        if let Ok(found) = &outcome {
            *notes.lock().expect("nothing panicked") = system.group_notes(&found.rows);
        }
        *end.lock().expect("nothing panicked") = system.now();
        *log.lock().expect("nothing panicked") = system.kernel_log();
        *started.lock().expect("nothing panicked") = Some(system.started());
        *result.lock().expect("nothing panicked") = outcome;
    })
    .map_err(|failure| Failure(failure.to_string()))?;
    engine.check().map_err(|broken| Failure(format!("an invariant of the engine is broken: {broken}")))?;
    // Kills and groups are read after the run, since that takes a lock and would change the run.
    let kills = engine.allocate().kills();
    // The machine's counters lack what groups reclaim at their limits.
    let of_groups = engine.lru().group_stat(GroupId::ROOT);
    let processes = processes.lock().expect("the main task has ended").filter(|_| !measures_kills);
    let killed = processes.map_or_else(Vec::new, |(main, started)| kernel_log::killed_whole(&kills, main, started));
    let is_bereft =
        killed.is_empty() && processes.is_some_and(|(main, started)| kernel_log::is_bereft(&kills, main, started));
    let found = found.lock().expect("the main task has ended").clone();
    let found = match found {
        Ok(found) => found,
        // A workload may fail because its tasks are gone.
        Err(_) if !killed.is_empty() => Measurements::default(),
        Err(error) => return Err(Failure(error.to_string())),
    };
    for row in &found.rows {
        sim.mix(row.value.to_bits());
    }
    let mut rows = found.rows;
    if job.locks {
        let others = locks::rows(&sim).into_iter().filter(|new| rows.iter().all(|row| row.name != new.name));
        let others: Vec<_> = others.collect();
        rows.extend(others);
    }
    rows.extend(nodes::rows(&EngineView::nodes(&*engine)));
    let virtual_time_ns = ended.lock().expect("the main task has ended").0;
    let profile = job.profile.then_some(found.profile);
    let page_events = counted.load(Ordering::Relaxed);
    Ok(Outcome {
        rows,
        fingerprint: sim.fingerprint(),
        virtual_time_ns,
        page_events,
        is_idle: is_idle.load(Ordering::Relaxed) && is_without_reclaim(&of_groups) && kills.is_empty(),
        profile,
        series: recorded.series.borrow_mut().take().map(Recorder::finish),
        memory: recorded.memory.borrow_mut().take().map(moments::Recorder::finish),
        generations: recorded.generations.borrow_mut().take().map(moments::Recorder::finish),
        trace: sim.take_trace(),
        notes: [
            kernel_log::killed(&kills).into_iter().collect(),
            told.lock().expect("the main task has ended").clone(),
        ]
        .concat(),
        report: found.report,
        kernel_log: logged.lock().expect("the main task has ended").split_off(0),
        killed,
        is_bereft,
        curves: found.curves,
        steps: found.steps,
        times: found.times,
    })
}

/// Appends `rows` to the rows that the workload has returned.
fn with_rows(mut found: Measurements, rows: Vec<Row>) -> Measurements {
    found.rows.extend(rows);
    found
}

/// Adds a profile of the whole run, unless the workload has divided the run into parts and made a profile of each part.
fn with_profile(found: Measurements, system: &SimSystem) -> Measurements {
    if !found.profile.is_empty() {
        return found;
    }
    let profile = system.profile().into_iter().map(|(path, time)| format!("run;{path} {}", time.0)).collect();
    Measurements { profile, ..found }
}

/// Returns the sum of the counters of page faults, and of pages that were allocated, freed, scanned, reclaimed or moved
/// between lists.
fn page_events(vmstat: &Vmstat) -> u64 {
    const EVENTS: [&str; 9] =
        ["pgalloc", "pgfree", "pgfault", "pgscan", "pgsteal", "pgrefill", "pgactivate", "pgdeactivate", "pgrotated"];
    vmstat.iter().filter(|(name, _)| EVENTS.iter().any(|event| name.starts_with(event))).map(|(_, n)| n).sum()
}

/// Returns whether reclaim scanned no page.
fn is_without_reclaim(vmstat: &Vmstat) -> bool {
    // This counter counts tasks that wait because the reserves are low; such tasks scan nothing.
    const NO_SCANS: &str = "pgscan_direct_throttle";
    let of_reclaim = |name: &str| (name.starts_with("pgscan") || name.starts_with("pgsteal")) && name != NO_SCANS;
    vmstat.iter().all(|(name, count)| *count == 0 || !of_reclaim(name))
}

/// The records made during a run: counters, memory, and generations of pages. Each is `None` if not requested.
#[derive(Clone, Default)]
struct Recorded {
    series: Rc<RefCell<Option<Recorder>>>,
    memory: Rc<RefCell<Option<moments::Recorder<memory_map::Moment>>>>,
    generations: Rc<RefCell<Option<moments::Recorder<generations::Moment>>>>,
}

/// Starts the requested recording of counters, of the state of memory, and of generations. Returns the records, which
/// are filled during the run. Recording takes no virtual time and does not change the run.
fn record(sim: &Sim, system: &SimSystem, job: &Job, progress: &Progress) -> Recorded {
    let recorded = Recorded::default();
    *recorded.series.borrow_mut() = job.series_every.map(Recorder::new);
    *recorded.memory.borrow_mut() = job.memory_every.map(moments::Recorder::new);
    *recorded.generations.borrow_mut() = job.generations_every.map(moments::Recorder::new);
    let of_series = recorded.series.borrow().as_ref().map(Recorder::every);
    let every = [of_series, job.memory_every, job.generations_every].into_iter().flatten().min();
    let Some(every) = every else { return recorded };
    let (engine, watched, progress) = (system.shared_engine(), sim.clone(), progress.clone());
    let Recorded { series, memory, generations } = recorded.clone();
    let generations_at = |engine: &Engine<Sim>, now: Nanos, mark: Option<&'static str>| generations::Moment {
        now_ns: now.0,
        mark: mark.map(Cow::from),
        text: engine.lru().lru_gen_full(),
    };
    if job.memory_every.or(job.generations_every).is_some() {
        let (engine, memory, generations) = (engine.clone(), memory.clone(), generations.clone());
        system.on_mark(move |now, mark| {
            if let Some(memory) = memory.borrow_mut().as_mut() {
                memory.mark(memory_map::Moment::of(now, Some(mark), &engine.memory().map()));
            }
            if let Some(generations) = generations.borrow_mut().as_mut() {
                generations.mark(generations_at(&engine, now, Some(mark)));
            }
        });
    }
    let reader = Rc::new(RefCell::new(sim.pressure_reader()));
    let (groups, names) = (system.shared_groups(), job.machine.groups.iter().map(|group| group.name.clone()));
    let names: Rc<[String]> = names.collect();
    let values = move || {
        let mut values = engine.vmstat();
        series::add_operations(&mut values, progress.operations());
        series::add_zones(&mut values, &*engine);
        series::add_nodes(&mut values, &*engine);
        series::add_disk(&mut values, &watched.disk_statistics(DeviceId(0)));
        series::add_pressure(&mut values, &watched, &mut reader.borrow_mut());
        series::add_swap(&mut values, engine.swap());
        series::add_room(&mut values, &*engine);
        groups.borrow().add_to(&mut values, &engine, &names);
        values
    };
    let (series_at_end, values_at_end) = (series.clone(), values.clone());
    sim.observe_end(move |now| {
        if let Some(series) = series_at_end.borrow_mut().as_mut() {
            series.end(now, &values_at_end());
        }
    });
    let engine = system.shared_engine();
    sim.observe(every, move |now| {
        if let Some(series) = series.borrow_mut().as_mut().filter(|series| series.is_due(now)) {
            series.push(now, &values());
        }
        if let Some(memory) = memory.borrow_mut().as_mut().filter(|memory| memory.is_due(now)) {
            memory.push(now, memory_map::Moment::of(now, None, &engine.memory().map()));
        }
        if let Some(generations) = generations.borrow_mut().as_mut().filter(|it| it.is_due(now)) {
            generations.push(now, generations_at(&engine, now, None));
        }
    });
    recorded
}

/// The payload of the panic that ends a cancelled run.
const CANCELLED: &str = "it was cancelled";

/// Starts a task that reports progress, and adds disk statistics to `samples` at intervals.
fn watch(sim: &Sim, progress: &Progress, samples: DiskSamples) {
    let (clock, progress) = (progress.clock(), progress.clone());
    let watched = sim.clone();
    let sampler = sim.spawn("iostat", move || {
        use machine::Machine;
        let mut earlier = watched.disk_statistics(DeviceId(0));
        let mut next = watched.now() + SAMPLE_EVERY;
        while !watched.is_killed() {
            watched.pause(Nanos::from_secs(1));
            clock.store(watched.now().0, std::sync::atomic::Ordering::Relaxed);
            if progress.is_cancelled() {
                // This ends the simulation as failed without the message of a panic.
                std::panic::resume_unwind(Box::new(CANCELLED));
            }
            if watched.now() >= next {
                next += SAMPLE_EVERY;
                let now = watched.disk_statistics(DeviceId(0));
                let interval = now.interval(&earlier, SAMPLE_EVERY);
                earlier = now;
                samples.lock().expect("nothing panicked").push(DiskSample {
                    avgqz: interval.avgqz,
                    await_ms: interval.await_ms,
                    r_await_ms: interval.r_await_ms,
                    w_await_ms: interval.w_await_ms,
                });
            }
        }
    });
    sim.set_aside(sampler);
}
