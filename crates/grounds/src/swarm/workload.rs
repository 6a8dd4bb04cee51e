//! Runs a workload, such as `randread`, in a random world (a machine and kernel drawn from a seed).
//!
//! A workload verifies the contents that it reads, and removes its files. All memory, swap and blocks must then be
//! accounted for, as in any other world.

use super::draw::World;
use super::drawn::Drawn;
use super::{Plan, check_nothing_is_left, start_watchdog, store};
use crate::system::sim::{SimSystem, SystemConfig};
use catalogue::hardware::ProgramWork;
use engine::stat::Vmstat;
use figures::scale::Scale;
use kit::progress::Progress;
use sim::Sim;
use std::cell::RefCell;
use std::rc::Rc;
use workloads::system::{Given, System, SystemError};
use workloads::workload::{Measurements, Resources};

/// Runs a workload on the machine of a world, without the world's faults, because a workload ends at its first error.
/// Returns the run's fingerprint (a hash by which two runs are compared), and the counters at the end of the run.
pub(super) fn run(world: &World, drawn: &Drawn) -> Result<(u64, Vmstat), String> {
    let sim = Sim::new(world.sim_config());
    let (layout, devices, swap) = (world.layout(), world.devices(), world.swap());
    let memory_pages = layout.pages();
    drawn.check(&Resources { memory_pages, used_pages: 0, swap_pages: world.swap_slots.into() })?;
    let config = SystemConfig { layout, devices, swap, stamps: true, program_work: ProgramWork::default() };
    let given = Given { seed: world.seed, scale: Scale::FULL, progress: Progress::default() };
    let system = SimSystem::new(&sim, &world.kernel.choices, &config, given).map_err(|error| error.to_string())?;
    let engine = system.shared_engine();
    let result = Rc::new(RefCell::new(Err(String::new())));
    let (found, drawn, plan, machine) = (result.clone(), drawn.clone(), Plan::of(world), sim.clone());
    sim.run("main", move || {
        start_watchdog(&machine, &plan, &Rc::default());
        *found.borrow_mut() = run_main(&system, &drawn);
    })
    .map_err(|failure| failure.to_string())?;
    engine.check().map_err(|broken| format!("after the run: {broken}"))?;
    let (found, vmstat) = result.replace(Err(String::new()))?;
    found.rows.iter().for_each(|row| sim.mix(row.value.to_bits()));
    vmstat.values().for_each(|value| sim.mix(*value));
    Ok((sim.fingerprint(), vmstat))
}

fn run_main(system: &SimSystem, drawn: &Drawn) -> Result<(Measurements, Vmstat), String> {
    let result = drawn.run(system);
    let vmstat = system.vmstat();
    let found = match result {
        // A kernel that keeps a third of memory in reserve may refuse memory that another kernel grants. The workload's
        // files and regions then still exist, so the last checks are left out.
        Err(SystemError(refused)) if refused.starts_with("out of memory: ") => {
            return Ok((Measurements::default(), vmstat));
        }
        result => result.map_err(|error| error.to_string())?,
    };
    system.end_kernel_tasks();
    store::wait_for_devices(system.engine())?;
    system.engine().check().map_err(|broken| format!("after the run: {broken}"))?;
    check_nothing_is_left(system.engine())?;
    Ok((found, vmstat))
}
