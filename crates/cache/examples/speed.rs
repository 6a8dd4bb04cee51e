//! Measures two figures of each policy: the requests that it handles per second of CPU time on one thread, and the
//! bytes of memory that it uses per cached page.
//!
//! Run `cargo run --release --package highwater-cache --example speed [POLICY...]`. The load is Zipf 1.0: 20 million
//! requests with 64-bit keys for a million pages. The cache holds 100,000 pages. With `--keys FILE` the keys of the
//! load are written to a file as 64-bit little-endian numbers, for other simulators.

mod loads;

use cache::{Cache, Kind, Requests, RequestsBuilder};
use loads::{cpu, zipf};

const KEYS: u32 = 1_000_000;
const REQUESTS: usize = 20_000_000;
const CAPACITY: u64 = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let keys = zipf(KEYS, REQUESTS);
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
    let _ = (requests.hashes(), requests.next_uses());
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
    println!("{:13} {misses:10.4} {:30.1} {:15.1} {bytes:20.1}", kind.name(), rates[0], rates[1]);
}
