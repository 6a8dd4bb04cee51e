//! Helpers for the tests of the simulator.

#![allow(dead_code, reason = "each test uses a part")]

use machine::Machine;
use sim::disk::DiskConfig;
use sim::{Config, Failure, Sim, TaskId};

/// Returns the hard disk of the example in the documentation of `disk`.
pub fn hard_disk() -> DiskConfig {
    let constant =
        |key: &str, value: u64| format!("{key} = {{ value = {value}, from = \"fitted\", source = \"tests\" }}\n");
    let mut text = "model = \"rotational\"\n".to_string();
    for (key, value) in [
        ("capacity_blocks", 122_096_646),
        ("rpm", 7200),
        ("bandwidth_bytes_per_s", 113_000_000),
        ("seek_track_to_track_ns", 1_000_000),
        ("seek_average_ns", 8_500_000),
        ("seek_full_ns", 18_000_000),
        ("command_ns", 150_000),
    ] {
        text += &constant(key, value);
    }
    toml::from_str(&text).unwrap()
}

/// Runs a machine with a main task that waits for `tasks`.
pub fn run_tasks(sim: &Sim, tasks: &[TaskId]) -> Result<(), Failure> {
    let (main, tasks) = (sim.clone(), tasks.to_vec());
    sim.run("main", move || {
        for task in tasks {
            main.join(task);
        }
    })
}

/// Returns a machine on which kernel work is free, except that [`machine::Step::ScanPage`] takes 1 us. Computing takes
/// its time.
pub fn free_kernel(cpus: usize) -> Config {
    Config { cost: sim::CostModel::uniform(0).with(machine::Step::ScanPage, 1000), ..Config::uniform(cpus, 0) }
}

/// Returns the present time in nanoseconds.
pub fn now(sim: &Sim) -> u64 {
    sim.now().0
}
