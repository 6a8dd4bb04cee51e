//! Miss ratios of a trace, estimated from a sample of its objects, with their errors.
//!
//! For LRU: SHARDS (Waldspurger et al., FAST 2015), all sizes in one pass of the sample. For any policy: miniature
//! simulation (C. Waldspurger, T. Saemundson, I. Ahmad, N. Park, "Cache modeling and optimization using miniature
//! simulations", ATC 2017): a cache that is smaller by the sampling rate replays the sample.
//!
//! *Estimate*: each object is in the sample with probability R, and an object of the sample has `m` misses. The misses
//! of the trace are the sum of `m / R` over the sample (Horvitz-Thompson estimator), and the miss ratio is that sum
//! divided by the known number of requests. This is SHARDS-adj. It treats a shortage of requests in the sample as a
//! shortage of hits: such a sample lacks some of the few popular objects, whose requests are hits. As an alternative, a
//! factor for the missing requests was fitted to the sample (regression estimator). On a block trace the result was off
//! by ten standard errors, since the popular objects were not in the sample.
//!
//! *Error*: the standard error that follows from the spread of misses within the sample. It leaves out that a small
//! cache behaves more irregularly than a large one. So caches of fewer than a hundred sampled objects are marked
//! ([`Estimate::is_rough`]).

use crate::replay::{Impossible, Plan, check, on_threads};
use crate::stack::Distances;
use crate::{Kind, Sample, WarmUp};

/// A cache of fewer sampled objects than this is too small to represent a large cache. The number was chosen because
/// the paper on miniature simulation has caches of some hundreds to thousands of objects.
const ROUGH_BELOW: f64 = 100.0;

/// The estimated miss ratio of a cache with one policy and one size, from a replay of a sample of the trace's objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The policy of the estimated cache.
    pub policy: Kind,
    /// The capacity of the cache that the estimate is for, in objects or bytes.
    pub capacity: u64,
    /// The capacity of the cache that replayed the sample.
    pub small_capacity: u64,
    /// Estimated share of requests that are misses.
    pub miss_ratio: f64,
    /// Standard error of the miss ratio.
    pub error: f64,
    /// Estimated share of requested bytes that are missed, and its standard error; `None` if requests have no sizes.
    pub byte_miss_ratio: Option<(f64, f64)>,
    /// True if the cache that replayed the sample has so few objects that the error may be larger than stated.
    pub is_rough: bool,
}

/// Estimated miss ratios of all policies and sizes, with the sizes of the sample and of the trace from which they come.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimates {
    /// A row for each policy and size: all sizes of the first policy come first.
    pub rows: Vec<Estimate>,
    /// The share of objects that are in the sample.
    pub rate: f64,
    /// Numbers of requests and objects of the sample.
    pub sampled: (u64, u64),
    /// Number of requests of the trace.
    pub requests: u64,
    /// Number of requests at the start of the trace that only fill the caches: their hits and misses are not counted.
    pub warm_up: u64,
    /// Estimated number of distinct objects of the trace.
    pub objects: u64,
    /// Estimated total size of the distinct objects, bytes. If requests have no sizes, this is the estimated number of
    /// objects instead.
    pub object_bytes: u64,
}

/// Returns the estimated share of a trace's requests that are misses, and the standard error of this share. `misses`
/// has the number of misses of each sampled object, `total` is the number of requests of the whole trace, and `rate` is
/// the share of objects that were sampled.
fn ratio(misses: &[f64], total: f64, rate: f64) -> (f64, f64) {
    let expected = total * rate;
    if expected <= 0.0 {
        return (0.0, 1.0);
    }
    let (sum, squares) = misses.iter().fold((0.0, 0.0), |(sum, squares), m| (sum + m, squares + m * m));
    ((sum / expected).clamp(0.0, 1.0), ((1.0 - rate) * squares).sqrt() / expected)
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
    if share >= 1.0 {
        return Err(Impossible::NoneCounted);
    }
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

/// Returns the estimate for the policy `kind`. `sizes` has the capacity for the whole trace, and the capacity for the
/// sample. `share` is the share of requests, at the beginning, that only warm up the cache. `is_miss` has an entry for
/// each later request of the sample, which is `true` if the request was a miss.
fn row(sample: &Sample, kind: Kind, sizes: [u64; 2], share: f64, is_miss: &[bool], is_rough: bool) -> Estimate {
    let requests = &sample.requests;
    let from = requests.len() - is_miss.len();
    let misses = |weight: &dyn Fn(usize) -> f64| {
        let mut misses = vec![0.0; requests.distinct() as usize];
        for (n, _) in is_miss.iter().enumerate().filter(|(_, is_miss)| **is_miss) {
            misses[requests.ids()[from + n] as usize] += weight(from + n);
        }
        misses
    };
    let counted = 1.0 - share;
    let (miss_ratio, error) = ratio(&misses(&|_| 1.0), sample.of_requests as f64 * counted, sample.rate);
    let byte_miss_ratio = (!requests.sizes().is_empty()).then(|| {
        let missed = misses(&|n| f64::from(requests.sizes()[n]));
        ratio(&missed, sample.of_bytes as f64 * counted, sample.rate)
    });
    let [capacity, small_capacity] = sizes;
    Estimate { policy: kind, capacity, small_capacity, miss_ratio, error, byte_miss_ratio, is_rough }
}

/// Returns the index of the first request of the sample that is counted. The requests before it, which are a share
/// `share` of the sample, only warm up the caches.
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
