//! Simulates many caches (policies and sizes) on one sequence of requests, with several threads.

use crate::{Cache, Kind, Requests};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The size of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// A cache whose capacity is this share, from 0 to 1, of the number of distinct objects in the trace, or of the sum
    /// of their bytes.
    Share(f64),
    /// A cache of this number of objects or bytes.
    Absolute(u64),
}

impl Size {
    /// Returns the size of a cache that holds the share `of`, from 0 to 1, of the trace's distinct objects or of their
    /// bytes.
    #[must_use]
    pub const fn share(of: f64) -> Self {
        Self::Share(of)
    }

    /// Returns the capacity of a cache of this size, in objects or bytes, at least 1. A share is a share of `all`: the
    /// number of distinct objects in the trace, or their total bytes.
    #[must_use]
    pub fn of(self, all: u64) -> u64 {
        match self {
            Self::Share(share) => ((all as f64 * share) as u64).max(1),
            Self::Absolute(capacity) => capacity.max(1),
        }
    }
}

/// The requests at the beginning of a trace that only fill the caches, and are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum WarmUp {
    /// There is no warm-up: the figures count all requests.
    #[default]
    None,
    /// This many requests at the beginning are not counted.
    Requests(u64),
    /// This share of the requests, at the beginning, is not counted.
    Share(f64),
}

impl WarmUp {
    /// Returns the length of the warm-up: the number of requests at the beginning of a replay that its figures do not
    /// count. `all` is the number of all requests of the replay.
    #[must_use]
    pub fn of(self, all: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Requests(requests) => requests.min(all as u64) as usize,
            Self::Share(share) => ((all as f64 * share) as usize).min(all),
        }
    }
}

/// The policies and sizes of the caches to simulate, and how the requests are replayed on them.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The policies, in the order of the report.
    pub policies: Vec<Kind>,
    /// The sizes of the caches, in the order of the report.
    pub sizes: Vec<Size>,
    /// The requests at the beginning that fill the caches and are not counted.
    pub warm_up: WarmUp,
    /// True if sizes of caches are numbers of bytes. Otherwise they are numbers of objects, which then all weigh the
    /// same.
    pub by_bytes: bool,
    /// Number of threads. `None` means the number of CPUs. The results do not depend on the number of threads.
    pub threads: Option<NonZero<usize>>,
}

/// The result for one policy and one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The replacement policy of the cache.
    pub policy: Kind,
    /// The capacity of the cache, in objects or bytes.
    pub capacity: u64,
    /// Number of requests that were counted.
    pub requests: u64,
    /// Number of counted requests that were misses.
    pub misses: u64,
    /// Number of bytes that the counted requests asked for; 0 if requests have no sizes.
    pub bytes: u64,
    /// Number of bytes that the misses asked for.
    pub missed_bytes: u64,
    /// Memory that the simulated cache needs for its own state at the end, such as lists and counters, in bytes.
    pub state_bytes: u64,
}

impl Row {
    /// Returns the share of requests that were misses; 0 without requests.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        ratio(self.misses, self.requests)
    }

    /// Returns the share of requested bytes that were missed; `None` if requests have no sizes.
    #[must_use]
    pub fn byte_miss_ratio(&self) -> Option<f64> {
        (self.bytes > 0).then(|| ratio(self.missed_bytes, self.bytes))
    }
}

pub(crate) fn ratio(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// The results of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The results, a row for each policy and size. The rows for all sizes of the first policy come first.
    pub rows: Vec<Row>,
    /// Number of requests, counted or not.
    pub requests: u64,
    /// Number of requests at the beginning of the trace that only filled the caches, and were not counted.
    pub warm_up: u64,
    /// Number of distinct objects.
    pub objects: u64,
    /// Bytes of the distinct objects; `None` if requests have no sizes.
    pub object_bytes: Option<u64>,
}

/// The reason why a replay cannot be done as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// The sizes of caches are in bytes, but requests have no sizes.
    NoSizes,
    /// The sizes of caches are in bytes, but this policy counts pages.
    CountsPages(Kind),
    /// The trace has no request.
    NoRequests,
    /// All requests fill the caches, so that none is counted.
    NoneCounted,
}

impl std::fmt::Display for Impossible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSizes => {
                f.write_str("the requests of this trace have no sizes, so caches cannot be counted in bytes")
            }
            Self::CountsPages(kind) => write!(f, "the policy {} counts pages, and not bytes", kind.name()),
            Self::NoRequests => f.write_str("the trace has no requests"),
            Self::NoneCounted => f.write_str("all requests fill the caches, and none is left to be counted"),
        }
    }
}

impl std::error::Error for Impossible {}

/// Replays requests on a cache for each policy and size of the plan.
///
/// Each cache gets all requests on one thread, so at most as many caches are in memory as there are threads.
///
/// # Errors
/// When there is no request, none is counted, or sizes are in bytes and requests have none or a policy counts pages.
pub fn replay(requests: &Requests, plan: &Plan) -> Result<Report, Impossible> {
    check(requests, plan)?;
    let all = if plan.by_bytes { requests.distinct_bytes() } else { u64::from(requests.distinct()) };
    let capacities: Vec<u64> = plan.sizes.iter().map(|size| size.of(all)).collect();
    let jobs: Vec<(Kind, u64)> =
        plan.policies.iter().flat_map(|kind| capacities.iter().map(|capacity| (*kind, *capacity))).collect();
    let warm_up = plan.warm_up.of(requests.len());
    if warm_up == requests.len() {
        return Err(Impossible::NoneCounted);
    }
    let rows = on_threads(jobs.len(), plan.threads, |number| {
        let (policy, capacity) = jobs[number];
        let mut cache = match plan.by_bytes {
            true => policy.cache_of_bytes(capacity, requests),
            false => policy.cache(capacity, requests),
        };
        let counts = count(cache.as_mut(), requests, warm_up);
        Row {
            policy,
            capacity,
            requests: (requests.len() - warm_up) as u64,
            misses: counts.misses,
            bytes: counts.bytes,
            missed_bytes: counts.missed_bytes,
            state_bytes: cache.bytes(),
        }
    });
    Ok(Report {
        rows,
        requests: requests.len() as u64,
        warm_up: warm_up as u64,
        objects: requests.distinct().into(),
        object_bytes: (!requests.sizes().is_empty()).then(|| requests.distinct_bytes()),
    })
}

/// Returns an error if the plan cannot be carried out with these requests: if there are no requests, or if the plan
/// counts bytes but the requests have no sizes, or a policy of the plan does not know bytes.
pub(crate) fn check(requests: &Requests, plan: &Plan) -> Result<(), Impossible> {
    if requests.is_empty() {
        return Err(Impossible::NoRequests);
    }
    if plan.by_bytes && requests.sizes().is_empty() {
        return Err(Impossible::NoSizes);
    }
    if let Some(kind) = plan.policies.iter().find(|kind| plan.by_bytes && !kind.knows_bytes()) {
        return Err(Impossible::CountsPages(*kind));
    }
    Ok(())
}

/// The misses and bytes of one cache in a replay, over all requests that are counted: those after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of counted requests that were misses.
    pub misses: u64,
    /// Number of bytes that the counted requests asked for; 0 if requests have no sizes.
    pub bytes: u64,
    /// Number of bytes that the misses asked for.
    pub missed_bytes: u64,
}

/// Runs a cache through all requests. Counts the hits and misses, except those of the first `warm_up` requests.
pub fn count(cache: &mut dyn Cache, requests: &Requests, warm_up: usize) -> Counts {
    let (ids, sizes) = (requests.ids(), requests.sizes());
    cache.run(&ids[..warm_up]);
    let counted = &ids[warm_up..];
    if sizes.is_empty() {
        let hits = cache.run(counted);
        return Counts { misses: counted.len() as u64 - hits, ..Counts::default() };
    }
    let sizes = &sizes[warm_up..];
    let bytes: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
    let (hits, hit_bytes) = cache.run_sized(counted, sizes);
    Counts { misses: counted.len() as u64 - hits, bytes, missed_bytes: bytes - hit_bytes }
}

/// Calls `work` with each number below `jobs`, on several threads. Returns the results in the order of the numbers.
pub(crate) fn on_threads<T: Send>(
    jobs: usize,
    threads: Option<NonZero<usize>>,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let cpus = threads.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(jobs)));
    std::thread::scope(|scope| {
        for _ in 0..cpus.min(jobs) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= jobs {
                        return;
                    }
                    let result = work(number);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
