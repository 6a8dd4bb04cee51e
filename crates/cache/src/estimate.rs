//! Miss ratios of a trace, estimated from a sample of its objects, with their errors.
//!
//! For LRU: SHARDS (Waldspurger et al., FAST 2015), all sizes in one pass of the sample. For any policy: miniature
//! simulation (C. Waldspurger, T. Saemundson, I. Ahmad, N. Park, "Cache modeling and optimization using miniature
//! simulations", ATC 2017): a cache that is smaller by the sampling rate replays the sample.
//!
//! *Estimate*: an object is sampled with chance R and has `n` requests and `m` misses. The misses of the trace are the sum
//! of `m / R`, corrected by how far the sum of `n / R` is from the number of requests, which is known (regression
//! estimator: W. Cochran, "Sampling techniques", 3rd edition 1977, chapter 7). SHARDS-adj is this estimator with the
//! coefficient 0; here the coefficient is the one with the least variance. *Error*: the standard error that follows from
//! the spread of objects within the sample. It does not contain that a small cache behaves more irregularly than a large
//! one, which is why caches of fewer than a hundred sampled objects are marked ([`Estimate::is_rough`]).

use crate::replay::{Impossible, Plan, check, on_threads};
use crate::stack::Distances;
use crate::{Kind, Sample, WarmUp};

/// Smallest number of objects with which a cache that replays a sample can stand for a large cache. The value is a
/// choice: the paper on miniature simulation has caches of hundreds to thousands of objects.
const ROUGH_BELOW: f64 = 100.0;

/// The estimated miss ratio of one policy at one cache size.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The policy.
    pub policy: Kind,
    /// The capacity of the cache that the estimate is for, in objects or bytes.
    pub capacity: u64,
    /// Capacity of the small cache that replayed the sample in its place.
    pub small_capacity: u64,
    /// Estimated share of requests that are misses.
    pub miss_ratio: f64,
    /// Standard error of the estimated share.
    pub error: f64,
    /// Estimated share of requested bytes that are missed, and its standard error; `None` if requests have no sizes.
    pub byte_miss_ratio: Option<(f64, f64)>,
    /// Whether the cache that replayed the sample has so few objects that the error may be larger than stated.
    pub is_rough: bool,
}

/// Estimates for each policy and size, and figures of the sample and of the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimates {
    /// The estimates, a row for each policy and size. The rows for all sizes of the first policy come first.
    pub rows: Vec<Estimate>,
    /// The share of all objects that are in the sample.
    pub rate: f64,
    /// Two numbers: the requests and the objects of the sample.
    pub sampled: (u64, u64),
    /// Number of requests of the trace.
    pub requests: u64,
    /// Number of requests of the trace that are not counted.
    pub warm_up: u64,
    /// Estimated number of distinct objects of the trace.
    pub objects: u64,
    /// Estimated number of bytes of all distinct objects; the number of objects if requests have no sizes.
    pub object_bytes: u64,
}

/// Numbers of requests and of misses of each sampled object.
struct Tally {
    requests: Vec<f64>,
    misses: Vec<f64>,
}

impl Tally {
    /// Estimates the share of requests that are misses in a trace with `total` requests, and the standard error of this
    /// share.
    fn estimate(&self, total: f64, rate: f64) -> (f64, f64) {
        let pairs = || self.misses.iter().zip(&self.requests);
        let sums = pairs().fold([0.0; 4], |sums, (m, n)| [sums[0] + m, sums[1] + n, sums[2] + m * n, sums[3] + n * n]);
        let [misses, requests, products, squares] = sums;
        let expected = total * rate;
        if expected <= 0.0 || requests <= 0.0 {
            return (0.0, 1.0);
        }
        let coefficient = (products / squares).clamp(0.0, 1.0);
        let ratio = (misses + coefficient * (expected - requests)) / expected;
        let spread: f64 = pairs().map(|(m, n)| (m - coefficient * n).powi(2)).sum();
        (ratio.clamp(0.0, 1.0), ((1.0 - rate) * spread).sqrt() / expected)
    }
}

/// Estimates the miss ratios of the plan's policies and sizes.
///
/// # Errors
/// As [`replay`](fn@crate::replay).
pub fn estimate(sample: &Sample, plan: &Plan) -> Result<Estimates, Impossible> {
    check(&sample.requests, plan)?;
    let all = if plan.by_bytes { sample.distinct_bytes() } else { sample.distinct() };
    let capacities: Vec<u64> = plan.sizes.iter().map(|size| size.of(all)).collect();
    let share = match plan.warm_up {
        WarmUp::None => 0.0,
        WarmUp::Share(share) => share.clamp(0.0, 1.0),
        WarmUp::Requests(requests) => (requests as f64 / sample.of_requests as f64).min(1.0),
    };
    // All sizes of LRU are one job; with bytes, LRU is replayed like others.
    let jobs: Vec<(Kind, Vec<u64>)> = plan
        .policies
        .iter()
        .flat_map(|kind| match kind {
            Kind::Lru if !plan.by_bytes => vec![(*kind, capacities.clone())],
            _ => capacities.iter().map(|capacity| (*kind, vec![*capacity])).collect(),
        })
        .collect();
    let rows = on_threads(jobs.len(), plan.threads, |number| {
        let (kind, capacities) = &jobs[number];
        match kind {
            Kind::Lru if !plan.by_bytes => lru(sample, capacities, share),
            _ => vec![miniature(sample, *kind, capacities[0], plan.by_bytes, share)],
        }
    });
    Ok(Estimates {
        rows: rows.into_iter().flatten().collect(),
        rate: sample.rate,
        sampled: (sample.requests.len() as u64, sample.requests.distinct().into()),
        requests: sample.of_requests,
        warm_up: (sample.of_requests as f64 * share) as u64,
        objects: sample.distinct(),
        object_bytes: sample.distinct_bytes(),
    })
}

/// Makes the row of a cache with the policy `kind`. `is_miss` says for each counted request of the sample whether it
/// was a miss.
fn row(sample: &Sample, kind: Kind, sizes: [u64; 2], share: f64, is_miss: &[bool], is_rough: bool) -> Estimate {
    let requests = &sample.requests;
    let from = requests.len() - is_miss.len();
    let tally = |weight: &dyn Fn(usize) -> f64| {
        let objects = requests.distinct() as usize;
        let mut tally = Tally { requests: vec![0.0; objects], misses: vec![0.0; objects] };
        for (n, is_miss) in is_miss.iter().enumerate() {
            let (id, weight) = (requests.ids()[from + n] as usize, weight(from + n));
            tally.requests[id] += weight;
            tally.misses[id] += if *is_miss { weight } else { 0.0 };
        }
        tally
    };
    let counted = 1.0 - share;
    let (miss_ratio, error) = tally(&|_| 1.0).estimate(sample.of_requests as f64 * counted, sample.rate);
    let byte_miss_ratio = (!requests.sizes().is_empty())
        .then(|| tally(&|n| f64::from(requests.sizes()[n])).estimate(sample.of_bytes as f64 * counted, sample.rate));
    let [capacity, small_capacity] = sizes;
    Estimate { policy: kind, capacity, small_capacity, miss_ratio, error, byte_miss_ratio, is_rough }
}

/// Returns the index of the first request of the sample that is counted.
fn first_counted(sample: &Sample, share: f64) -> usize {
    ((sample.requests.len() as f64 * share) as usize).min(sample.requests.len())
}

fn small(sample: &Sample, capacity: u64) -> u64 {
    ((capacity as f64 * sample.rate).round() as u64).max(1)
}

fn lru(sample: &Sample, capacities: &[u64], share: f64) -> Vec<Estimate> {
    let requests = &sample.requests;
    let mut distances = Distances::new(requests.distinct());
    let distances: Vec<u32> = requests.ids().iter().map(|id| distances.request(*id).unwrap_or(u32::MAX)).collect();
    let from = first_counted(sample, share);
    let estimate = |capacity: &u64| {
        let pages = *capacity as f64 * sample.rate;
        let is_miss: Vec<bool> =
            distances[from..].iter().map(|distance| f64::from(*distance) > pages.max(1.0)).collect();
        row(sample, Kind::Lru, [*capacity, small(sample, *capacity)], share, &is_miss, pages < ROUGH_BELOW)
    };
    capacities.iter().map(estimate).collect()
}

fn miniature(sample: &Sample, kind: Kind, capacity: u64, by_bytes: bool, share: f64) -> Estimate {
    let requests = &sample.requests;
    let pages = small(sample, capacity);
    let mut cache = match by_bytes {
        true => kind.cache_of_bytes(pages, requests),
        false => kind.cache(pages, requests),
    };
    let from = first_counted(sample, share);
    cache.run(&requests.ids()[..from]);
    let is_miss: Vec<bool> = requests.ids()[from..].iter().map(|id| !cache.request(*id)).collect();
    let mean = if by_bytes { requests.distinct_bytes() as f64 / f64::from(requests.distinct()) } else { 1.0 };
    row(sample, kind, [capacity, pages], share, &is_miss, (pages as f64) < ROUGH_BELOW * mean)
}
