//! Measures how fast the laboratory simulates the experiment `parallelio` with two of its kernels: simulated seconds,
//! and page events, per second of real time.
//!
//! `cargo bench -p highwater-lab` runs the experiment at full size. `cargo test` runs it at 1/64 and prints nothing.

use lab::job::Job;
use lab::progress::Progress;
use lab::scale::Scale;
use lab::{find, grounds};
use std::sync::Arc;
use std::time::Instant;

const KERNELS: [&str; 2] = ["3.10-rc4-vanilla", "mm1-mmotm-20130606"];

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let scale: Scale = if is_bench { "1" } else { "1/64" }.parse().expect("a fraction");
    let experiment = find::experiment("parallelio").expect("the experiment is embedded");
    let machine = Arc::new(find::machine(&experiment.machine).expect("its machine is embedded"));
    let workload = grounds::find(&experiment.workload).expect("its workload exists");
    for kernel in KERNELS {
        let job = Job::simulated(
            experiment.name.clone(),
            find::kernel(kernel).expect("its kernels are embedded"),
            machine.clone(),
            experiment.params.clone(),
            scale,
        );
        let started = Instant::now();
        let outcome = workload.run(&job, &Progress::default()).expect("the run ends");
        let wall_s = started.elapsed().as_secs_f64();
        if is_bench {
            println!(
                "parallelio {kernel}: {:.1} simulated s/s, {:.2} M page events/s, work {:016x}",
                outcome.virtual_time_ns as f64 / 1e9 / wall_s,
                outcome.page_events as f64 / 1e6 / wall_s,
                outcome.fingerprint
            );
        }
    }
}
