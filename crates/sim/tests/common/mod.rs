//! Helpers of several tests of the simulator.

#![allow(dead_code, reason = "each test uses a part")]

use machine::Machine;
use sim::disk::DiskConfig;
use sim::{Config, Failure, Sim, TaskId};

/// The hard disk of the disks' own documentation.
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

/// Starts a task on each machine that `config` describes, waits for all in a main task.
pub fn run_tasks(sim: &Sim, tasks: &[TaskId]) -> Result<(), Failure> {
    let (main, tasks) = (sim.clone(), tasks.to_vec());
    sim.run("main", move || {
        for task in tasks {
            main.join(task);
        }
    })
}

/// A machine where nothing but `spend`s and computing takes time.
pub fn free_kernel(cpus: usize) -> Config {
    Config { cost: sim::CostModel::uniform(0).with(machine::Step::ScanPage, 1000), ..Config::uniform(cpus, 0) }
}

/// Nanoseconds now.
pub fn now(sim: &Sim) -> u64 {
    sim.now().0
}
