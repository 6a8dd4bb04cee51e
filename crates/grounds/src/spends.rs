//! Measures the speed of the simulator without an engine: how fast tasks on several CPUs take turns. The loop is in
//! this crate because the crates above it are not optimised in a default build.

use crate::job::Failure;
use machine::{Machine, Step};
use sim::{Config, Sim};
use std::time::Instant;

/// Measures how many calls of [`Machine::spend`], which let virtual time pass, the simulator handles in a second. Tasks
/// on `cpus` CPUs make `steps` calls in all. Each call spends a short virtual time of varying length, so that after
/// nearly every call another CPU is next.
///
/// # Errors
/// When the simulation fails.
pub fn rate(cpus: usize, steps: u32) -> Result<f64, Failure> {
    let sim = Sim::new(Config::uniform(cpus, 10));
    let started = Instant::now();
    let each = steps / cpus as u32;
    let spawn = |number: u32| {
        let worker = sim.clone();
        let work = move || (0..each).for_each(|step| worker.spend(Step::ScanPage, 1 + (step ^ number) % 3));
        sim.spawn("worker", work)
    };
    let tasks: Vec<_> = (0..cpus as u32).map(spawn).collect();
    let main = sim.clone();
    sim.run("main", move || {
        for task in tasks {
            main.join(task);
        }
    })
    .map_err(|failure| Failure(failure.to_string()))?;
    Ok(f64::from(each * cpus as u32) / started.elapsed().as_secs_f64())
}
