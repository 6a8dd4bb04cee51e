//! Requests a second of each policy on one thread, as CPU time, and bytes a cached page.
//!
//! Run `cargo run --release --package highwater-cache --example speed [POLICY...]`. The load is Zipf 1.0: 20 million
//! requests with 64-bit keys for a million pages, and a cache of 100,000. With `--keys FILE` the keys of the load are
//! written to a file as 64-bit little-endian numbers, for other simulators.

use cache::{Cache, Kind, Requests, RequestsBuilder};
use rustix::time::{ClockId, clock_gettime};

const KEYS: u32 = 1_000_000;
const REQUESTS: usize = 20_000_000;
const CAPACITY: u64 = 100_000;

/// Returns the CPU time of this thread, seconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns 64-bit keys whose ranks follow Zipf's law with exponent 1. A key is the mix of its rank, so that keys are
/// spread over all 64 bits.
fn zipf() -> Vec<u64> {
    let mut sum = 0.0;
    let below: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        })
        .collect();
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(state)
    };
    (0..REQUESTS)
        .map(|_| {
            let point = (random() >> 11) as f64 / (1_u64 << 53) as f64 * sum;
            mix(below.partition_point(|below| *below < point) as u64 + 1)
        })
        .collect()
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let keys = zipf();
    if words.first().is_some_and(|word| word == "--keys") {
        let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        return Ok(std::fs::write(words.get(1).ok_or("--keys FILE")?, bytes)?);
    }
    if words.is_empty() {
        words = Kind::ALL.map(|kind| kind.name().to_owned()).to_vec();
    }
    let mut builder = RequestsBuilder::default();
    let began = cpu();
    builder.add(&keys)?;
    let mapping = cpu() - began;
    let requests = builder.finish();
    drop(keys);
    println!("keys numbered, once for all caches: {:.1} million a CPU second", REQUESTS as f64 / mapping / 1e6);
    // What is shared is computed before time is taken.
    (requests.hashes(), requests.next_uses());
    println!("policy        miss ratio  million requests a CPU second  with numbering  bytes a cached page");
    for word in words {
        let kind = Kind::named(&word).ok_or_else(|| format!("{word}: not a policy"))?;
        measure(kind, &requests, mapping);
    }
    Ok(())
}

fn measure(kind: Kind, requests: &Requests, mapping: f64) {
    let mut cache: Box<dyn Cache> = kind.cache(CAPACITY, requests);
    let began = cpu();
    let hits = cache.run(requests.ids());
    let took = cpu() - began;
    let misses = 1.0 - hits as f64 / REQUESTS as f64;
    let rates = [took, took + mapping].map(|seconds| REQUESTS as f64 / seconds / 1e6);
    let bytes = cache.bytes() as f64 / CAPACITY as f64;
    println!("{:12} {misses:11.4} {:30.1} {:15.1} {bytes:20.1}", kind.name(), rates[0], rates[1]);
}
