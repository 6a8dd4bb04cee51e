//! Tests of miss ratio curves from samples: they are compared with the exact curves.

use cache::{Kind, Plan, Requests, RequestsBuilder, Sample, Sampling, Size, WarmUp};

/// Returns keys in three layers: a popular set, a set that shifts, and keys that come once.
fn keys(requests: u64) -> Vec<u64> {
    let mut state = 11_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..requests)
        .map(|n| match (draw() * 10.0) as u32 {
            0..5 => (40_000_f64.powf(draw()) as u64) | 1 << 40,
            5..8 => n / 20 + (20_000.0 * draw()) as u64,
            _ => n | 1 << 41,
        })
        .collect()
}

const SIZES: [f64; 6] = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5];

fn plan(warm_up: WarmUp) -> Plan {
    let policies = vec![Kind::Lru, Kind::Fifo, Kind::S3Fifo, Kind::Arc, Kind::Sieve, Kind::Classic, Kind::Multigen];
    Plan { policies, sizes: SIZES.map(Size::share).to_vec(), warm_up, ..Plan::default() }
}

#[test]
fn a_sample_of_everything_is_exact() {
    let requests = Requests::from_keys(keys(50_000));
    for warm_up in [WarmUp::None, WarmUp::Share(0.25)] {
        let exact = cache::replay(&requests, &plan(warm_up)).unwrap();
        let sample = Sample::of(&requests, Sampling::Rate(1.0)).unwrap();
        let estimates = cache::estimate(&sample, &plan(warm_up)).unwrap();
        assert_eq!((estimates.objects, estimates.warm_up), (exact.objects, exact.warm_up));
        for (row, estimate) in exact.rows.iter().zip(&estimates.rows) {
            assert!((row.miss_ratio() - estimate.miss_ratio).abs() < 1e-9, "{row:?} {estimate:?}");
            assert!(estimate.error < 1e-9);
        }
    }
}

#[test]
fn curves_from_a_tenth_of_the_objects_are_near_and_their_errors_honest() {
    let requests = Requests::from_keys(keys(400_000));
    let exact = cache::replay(&requests, &plan(WarmUp::None)).unwrap();
    for sampling in [Sampling::Rate(0.1), Sampling::Objects(8000)] {
        let sample = Sample::of(&requests, sampling).unwrap();
        let estimates = cache::estimate(&sample, &plan(WarmUp::None)).unwrap();
        let errors = exact.rows.iter().zip(&estimates.rows).map(|(row, estimate)| {
            let off = (row.miss_ratio() - estimate.miss_ratio).abs();
            assert!(off < 5.0 * estimate.error + 0.005, "{off:.4} of {estimate:?}");
            off
        });
        let mean = errors.sum::<f64>() / exact.rows.len() as f64;
        assert!(mean < 0.01, "{sampling:?}: {mean}");
    }
}

#[test]
fn byte_miss_ratios_are_estimated_too() {
    let keys = keys(200_000);
    let sizes: Vec<u32> = keys.iter().map(|key| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as u32 + 1).collect();
    let mut builder = RequestsBuilder::default();
    builder.add_sized(&keys, &sizes).unwrap();
    let requests = builder.finish();
    let policies = vec![Kind::Lru, Kind::Clock, Kind::S3Fifo];
    let plan = Plan { policies, sizes: SIZES.map(Size::share).to_vec(), by_bytes: true, ..Plan::default() };
    let exact = cache::replay(&requests, &plan).unwrap();
    let estimates = cache::estimate(&Sample::of(&requests, Sampling::Rate(0.1)).unwrap(), &plan).unwrap();
    for (row, estimate) in exact.rows.iter().zip(&estimates.rows) {
        let (bytes, error) = estimate.byte_miss_ratio.unwrap();
        assert!((row.byte_miss_ratio().unwrap() - bytes).abs() < 5.0 * error + 0.01, "{row:?} {estimate:?}");
    }
}
