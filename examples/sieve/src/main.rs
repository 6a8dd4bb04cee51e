//! The command `highwater` with one more policy, and a comparison of policies without an engine.
//!
//! * `cargo run --release -p sieve -- compare randread --scale 1/16 --kernels highwater,highwater+lru.policy=own`
//! * `cargo run --release -p sieve -- replay [REQUESTS]` prints hit ratios, and requests a second, for requests of
//!   Zipf-distributed keys.

mod policy;

use engine::lru::policy::classic::ClassicModel;
use engine::lru::policy::replay::Slab;
use engine::lru::policy::simple::{Clock, Lru};
use engine::lru::policy::{Policy, Replay, set_own};
use lab::choose::{Chooser, Distribution};
use policy::Sieve;
use std::process::ExitCode;
use std::time::Instant;

/// Number of different keys that are requested. Each key stands for a page.
const KEYS: u32 = 1_000_000;
const CAPACITY: u32 = 100_000;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some("replay") {
        set_own(|| Box::new(Sieve::default())).expect("nobody has brought one before");
        return lab::cli::main();
    }
    match words.next().map_or(Ok(20_000_000), |word| word.parse()) {
        Ok(requests) => replay_all(requests),
        Err(error) => {
            eprintln!("error: the number of requests: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn replay_all(requests: usize) {
    let chooser = Chooser::new(Distribution::Zipf, 1.0, KEYS.into());
    let mut rng = sim::Rng::new(1, 0);
    let keys: Vec<u32> = (0..requests).map(|_| chooser.next(&mut rng) as u32).collect();
    println!("{requests} requests of {KEYS} keys, Zipf 1.0, {CAPACITY} cached");
    replay("lru", Lru::default(), &keys);
    replay("clock", Clock::default(), &keys);
    replay("classic", ClassicModel::default(), &keys);
    replay("sieve", Sieve::default(), &keys);
}

/// Replays the requests for `keys` with a policy. Prints the policy's hit ratio on standard output, and its speed in
/// requests a second on standard error.
fn replay(name: &str, policy: impl Policy<Slab>, keys: &[u32]) {
    let mut replay = Replay::new(policy, CAPACITY, KEYS);
    let began = Instant::now();
    let hits = replay.run(keys);
    let rate = keys.len() as f64 / began.elapsed().as_secs_f64() / 1e6;
    println!("{name:8} {:6.2} % hits", hits as f64 * 100.0 / keys.len().max(1) as f64);
    eprintln!("{name:8} {rate:6.1} million requests a second");
}
