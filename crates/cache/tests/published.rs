//! Miss ratios of libCacheSim 0.3.5 on a public block trace, to four digits.
//!
//! Runs if the environment variable `HIGHWATER_TRACES` names the folder that has `cloudPhysicsIO.csv` and
//! `cloudPhysicsIO.oracleGeneral.bin` (the sample data of libCacheSim). Skips with a notice otherwise, because the trace
//! is not part of the repository.

use cache::{Kind, Plan, Requests, RequestsBuilder, Size};
use std::path::{Path, PathBuf};

/// Published miss ratios of each policy, in four cases. In the first two, the trace's requests are not split, and the
/// cache holds 1,000 or 10,000 objects. In the last two, they are split into pages, and the cache holds 4,096 or 32,768
/// pages.
const PUBLISHED: [(Kind, [f64; 4]); 14] = [
    (Kind::Fifo, [0.8388, 0.6956, 0.8962, 0.8673]),
    (Kind::Lru, [0.8327, 0.6976, 0.8955, 0.8687]),
    (Kind::Clock, [0.8319, 0.7443, 0.8954, 0.8632]),
    (Kind::Sieve, [0.8253, 0.7118, 0.8988, 0.7995]),
    (Kind::Arc, [0.8257, 0.6974, 0.8922, 0.8003]),
    (Kind::Lirs, [0.8282, 0.6533, 0.8987, 0.7868]),
    (Kind::TwoQ, [0.8265, 0.6923, 0.8903, 0.8212]),
    (Kind::Lfu, [0.8392, 0.7118, 0.9277, 0.7994]),
    (Kind::S3Fifo, [0.8255, 0.6636, 0.8867, 0.7996]),
    (Kind::S3FifoOld, [0.8256, 0.6693, 0.8878, 0.7782]),
    (Kind::WTinyLfu, [0.8335, 0.6787, 0.9012, 0.8212]),
    (Kind::Clock2QPlus, [0.8232, 0.6584, 0.8850, 0.7972]),
    (Kind::Lhd, [0.8325, 0.7230, 0.8952, 0.8557]),
    (Kind::Optimal, [0.7642, 0.5431, 0.8523, 0.6453]),
];

/// Largest difference between a simulated and a published miss ratio of LHD that counts as agreement. It is above 0
/// because LHD draws random numbers, and libCacheSim seeds their generator by the clock.
const LHD_TOLERANCE: f64 = 0.001;

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("HIGHWATER_TRACES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: HIGHWATER_TRACES does not name the folder of cloudPhysicsIO.csv");
    }
    folder
}

/// Returns the trace's requests, not split: each is for one object, whatever its size.
fn objects(folder: &Path) -> Requests {
    let bytes = std::fs::read(folder.join("cloudPhysicsIO.oracleGeneral.bin")).unwrap();
    let keys = bytes.chunks_exact(24).map(|record| u64::from_le_bytes(record[4..12].try_into().unwrap()));
    Requests::from_keys(keys)
}

/// Returns the trace's requests, split: a request becomes one request for each 4-KiB page that it touches.
fn pages(folder: &Path) -> Requests {
    let text = std::fs::read_to_string(folder.join("cloudPhysicsIO.csv")).unwrap();
    let mut builder = RequestsBuilder::default();
    for line in text.lines().skip(1) {
        let mut fields = line.split(',').skip(3).map(|field| field.trim().parse::<u64>().unwrap());
        let (size, block) = (fields.next().unwrap(), fields.next().unwrap());
        let first = block * 512;
        let keys: Vec<u64> = (first / 4096..=(first + size - 1) / 4096).collect();
        builder.add(&keys).unwrap();
    }
    builder.finish()
}

#[test]
fn miss_ratios_are_those_of_libcachesim() {
    let Some(folder) = folder() else { return };
    let policies: Vec<Kind> = PUBLISHED.iter().map(|(kind, _)| *kind).collect();
    let ratios = |requests: &Requests, sizes: [u64; 2]| {
        let plan = Plan { policies: policies.clone(), sizes: sizes.map(Size::Absolute).to_vec(), ..Plan::default() };
        cache::replay(requests, &plan).unwrap().rows.iter().map(cache::Row::miss_ratio).collect::<Vec<_>>()
    };
    let (objects, pages) = (objects(&folder), pages(&folder));
    assert_eq!((objects.len(), objects.distinct()), (113_872, 48_974));
    assert_eq!((pages.len(), pages.distinct()), (1_141_869, 269_210));
    let (objects, pages) = (ratios(&objects, [1000, 10_000]), ratios(&pages, [4096, 32_768]));
    let mut wrong = Vec::new();
    for (n, (kind, published)) in PUBLISHED.iter().enumerate() {
        let ours = [objects[2 * n], objects[2 * n + 1], pages[2 * n], pages[2 * n + 1]];
        let tolerance = if *kind == Kind::Lhd { LHD_TOLERANCE } else { 0.0 };
        let is_near =
            |(ours, theirs): (&f64, &f64)| ((ours * 1e4).round() - theirs * 1e4).abs() < 0.5 + tolerance * 1e4;
        let verdict = if ours.iter().zip(published).all(is_near) { "as published" } else { "DIFFERS" };
        println!("{:12} {:.4?} {verdict} {published:.4?}", kind.name(), ours);
        if verdict == "DIFFERS" {
            wrong.push(kind.name());
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
