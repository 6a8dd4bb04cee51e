//! A workload of the experiments in a random world, its parameters drawn, too.
//!
//! It verifies what it reads by itself, and removes what it made: so all memory, swap and blocks must be accounted for
//! afterwards as in any other world.

use super::draw::{World, log_between, pick};
use super::{Plan, check_nothing_is_left, start_watchdog, store};
use crate::choose::Distribution;
use crate::job::Progress;
use crate::scale::Scale;
use crate::system::sim::{SimSystem, SystemConfig};
use crate::system::{Given, System, SystemError};
use crate::workload::{Found, Resources, Workload};
use crate::workloads::anon::{self, Anon};
use crate::workloads::random::Access;
use crate::workloads::randread::{self, Randread};
use crate::workloads::randwrite::{self, Randwrite};
use crate::workloads::scan::{self, Scan};
use engine::stat::Vmstat;
use sim::disk::DiskConfig;
use sim::{Rng, Sim};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// A workload and its parameters.
#[derive(Clone, Debug)]
pub(super) enum Drawn {
    Randread(randread::Params),
    Randwrite(randwrite::Params),
    Anon(anon::Params),
    Scan(scan::Params),
}

impl Drawn {
    /// One in ten worlds runs a workload. Its chance is its own: the worlds themselves are what they would be without.
    pub fn draw(seed: u64, pages: u64, swap_slots: u32, disk: &DiskConfig) -> Option<Self> {
        let rng = &mut Rng::new(seed, u64::MAX - 9);
        if rng.below(10) > 0 || seed == super::CORRUPTING_SEED {
            return None;
        }
        let tasks = 1 + rng.below(8);
        let operations = Some(log_between(rng, 16, 4096) / tasks);
        let distribution = pick(rng, &[Distribution::Uniform, Distribution::Zipf]);
        let theta = pick(rng, &[0.5, 0.99, 1.0, 1.5]);
        let access = pick(rng, &[Access::Copy, Access::InPlace]);
        let file_percent = 10 + rng.below(200);
        Some(match rng.below(4) {
            0 => Self::Randread(randread::Params {
                file_percent,
                distribution,
                theta,
                tasks,
                access,
                operations,
                ..randread::Params::default()
            }),
            1 => {
                let sync_every = pick(rng, &[0, 1, 10, 100]);
                Self::Randwrite(randwrite::Params {
                    file_percent,
                    tasks,
                    sync_every,
                    operations,
                    ..randwrite::Params::default()
                })
            }
            // The hot set is read for as long as the pass takes: on a slow disk that would be for ever.
            2 if matches!(disk, DiskConfig::Flash(_)) => Self::Scan(scan::Params {
                hot_percent: 10 + rng.below(90),
                cold_mib: Some(1 + rng.below(4)),
                distribution,
                theta,
                tasks: 1 + rng.below(3),
                access,
                alone_s: 0,
                ..scan::Params::default()
            }),
            _ => {
                // What fits, with some room: who is refused memory ends the workload.
                let most = ((pages * 7 / 10 + u64::from(swap_slots) * 9 / 10) * 100 / pages).min(250);
                Self::Anon(anon::Params {
                    region_percent: 20 + rng.below(most - 20),
                    distribution,
                    theta,
                    store_percent: rng.below(101),
                    tasks,
                    operations,
                    ..anon::Params::default()
                })
            }
        })
    }

    fn check(&self, resources: &Resources) -> Result<(), String> {
        match self {
            Self::Randread(params) => Randread::check(params, resources),
            Self::Randwrite(params) => Randwrite::check(params, resources),
            Self::Anon(params) => Anon::check(params, resources),
            Self::Scan(params) => Scan::check(params, resources),
        }
    }

    fn run(&self, system: &SimSystem) -> Result<Found, SystemError> {
        match self {
            Self::Randread(params) => Randread::run(system, params),
            Self::Randwrite(params) => Randwrite::run(system, params),
            Self::Anon(params) => Anon::run(system, params),
            Self::Scan(params) => Scan::run(system, params),
        }
    }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Randread(params) => write!(f, "randread {params:?}"),
            Self::Randwrite(params) => write!(f, "randwrite {params:?}"),
            Self::Anon(params) => write!(f, "anon {params:?}"),
            Self::Scan(params) => write!(f, "scan {params:?}"),
        }
    }
}

/// Runs a workload in the machine of a world, undisturbed by failing disks: a workload ends at the first error.
pub(super) fn run(world: &World, drawn: &Drawn) -> Result<(u64, Vmstat), String> {
    let sim = Sim::new(world.sim_config());
    let (layout, devices, swap) = (world.layout(), world.devices(), world.swap());
    let memory_pages = layout.pages();
    drawn.check(&Resources { memory_pages, used_pages: 0, swap_pages: world.swap_slots.into() })?;
    let config = SystemConfig { layout, devices, swap, stamps: true };
    let given = Given { seed: world.seed, scale: Scale::FULL, progress: Progress::default() };
    let system = SimSystem::new(&sim, &world.kernel.choices, &config, given).map_err(|error| error.to_string())?;
    let engine = system.shared_engine();
    let result = Rc::new(RefCell::new(Err(String::new())));
    let (found, drawn, plan, machine) = (result.clone(), drawn.clone(), Plan::of(world), sim.clone());
    sim.run("main", move || {
        start_watchdog(&machine, &plan);
        *found.borrow_mut() = run_main(&system, &drawn);
    })
    .map_err(|failure| failure.to_string())?;
    engine.check().map_err(|broken| format!("after the run: {broken}"))?;
    let (found, vmstat) = result.replace(Err(String::new()))?;
    found.rows.iter().for_each(|row| sim.mix(row.value.to_bits()));
    vmstat.values().for_each(|value| sim.mix(*value));
    Ok((sim.fingerprint(), vmstat))
}

fn run_main(system: &SimSystem, drawn: &Drawn) -> Result<(Found, Vmstat), String> {
    let result = drawn.run(system);
    let vmstat = system.vmstat();
    let found = match result {
        // A kernel that keeps a third of memory in reserve may refuse what another grants; then what the workload made is
        // still there.
        Err(SystemError(refused)) if refused.starts_with("out of memory: ") => return Ok((Found::default(), vmstat)),
        result => result.map_err(|error| error.to_string())?,
    };
    system.end_kernel_tasks();
    store::wait_for_devices(system.engine())?;
    system.engine().check().map_err(|broken| format!("after the run: {broken}"))?;
    check_nothing_is_left(system.engine())?;
    Ok((found, vmstat))
}
