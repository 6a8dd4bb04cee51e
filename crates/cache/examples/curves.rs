//! Compares exact miss-ratio curves with miss-ratio curves from a sample of the keys: the time that each kind takes,
//! and the errors of the sampled curves. The curves are those of eight policies at six sizes of the cache.
//!
//! Run `cargo run --release --package highwater-cache --example curves [RATE [FOLDER]]`. RATE is the sampled share of
//! the keys (default 0.01). Two loads are generated: one follows Zipf's law with the exponent 1.0; the other mixes a
//! popular set of keys, a set that shifts, and passes over many keys. With FOLDER, the third load is the block trace
//! `cloudPhysicsIO.csv` in this folder, split into pages.

mod loads;

use cache::{Kind, Plan, RequestsBuilder, SampleBuilder, Sampling, Size};
use std::time::Instant;

const KEYS: u32 = 1_000_000;
const REQUESTS: usize = 20_000_000;
const SIZES: [f64; 6] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
const POLICIES: [Kind; 8] =
    [Kind::Lru, Kind::Fifo, Kind::Arc, Kind::Lirs, Kind::S3Fifo, Kind::Sieve, Kind::WTinyLfu, Kind::Lhd];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let rate = words.next().map_or(Ok(0.01), |word| word.parse())?;
    println!("load        keys     requests   exact s  sampled s  times as fast  mean error  stated  largest error");
    curves("zipf", &loads::zipf(KEYS, REQUESTS), rate)?;
    curves("mixture", &loads::mixture(KEYS, REQUESTS), rate)?;
    if let Some(folder) = words.next() {
        curves("block trace", &pages(&folder)?, rate)?;
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        status
            .lines()
            .filter(|line| line.starts_with("VmHWM"))
            .for_each(|line| println!("most memory, keys included: {line}"));
    }
    Ok(())
}

fn pages(folder: &str) -> Result<Vec<u64>, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(format!("{folder}/cloudPhysicsIO.csv"))?;
    let mut keys = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [.., size, block] = fields[..] else { return Err("a line has five fields".into()) };
        let (size, first): (u64, u64) = (size.parse()?, block.parse::<u64>()? * 512);
        keys.extend(first / 4096..=(first + size - 1) / 4096);
    }
    Ok(keys)
}

fn curves(name: &str, keys: &[u64], rate: f64) -> Result<(), Box<dyn std::error::Error>> {
    let plan = Plan { policies: POLICIES.to_vec(), sizes: SIZES.map(Size::share).to_vec(), ..Plan::default() };
    let began = Instant::now();
    let mut builder = RequestsBuilder::default();
    builder.add(keys)?;
    let requests = builder.finish();
    let exact = cache::replay(&requests, &plan)?;
    let exact_took = began.elapsed().as_secs_f64();
    drop(requests);
    let began = Instant::now();
    let mut builder = SampleBuilder::new(Sampling::Rate(rate));
    keys.chunks(4096).try_for_each(|keys| builder.add(keys, &[]))?;
    let estimates = cache::estimate(&builder.finish()?, &plan)?;
    let took = began.elapsed().as_secs_f64();
    let errors: Vec<f64> = exact
        .rows
        .iter()
        .zip(&estimates.rows)
        .map(|(row, estimate)| (row.miss_ratio() - estimate.miss_ratio).abs())
        .collect();
    let rows = errors.len() as f64;
    let stated = estimates.rows.iter().map(|estimate| estimate.error).sum::<f64>() / rows;
    println!(
        "{name:11} {:7} {:11} {exact_took:9.2} {took:10.3} {:14.0} {:11.4} {stated:7.4} {:14.4}",
        exact.objects,
        exact.requests,
        exact_took / took,
        errors.iter().sum::<f64>() / rows,
        errors.iter().fold(0.0_f64, |most, error| most.max(*error))
    );
    Ok(())
}
