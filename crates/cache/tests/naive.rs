//! Tests each policy against a naive version of the policy: both must have hits for the same requests.
//!
//! The naive versions, in `naive/`, search vectors and add up weights at every request. They are written from the same
//! papers as the policies, and share no code with them. There is one exception: the naive version of Highwater's lists
//! uses the engine's record of pages that left memory.

#[path = "naive/linux.rs"]
mod linux;
#[path = "naive/lirs.rs"]
mod lirs;
#[path = "naive/lists.rs"]
mod lists;
#[path = "naive/multigen.rs"]
mod multigen;
#[path = "naive/queues.rs"]
mod queues;
#[path = "naive/simple.rs"]
mod simple;
#[path = "naive/sketched.rs"]
mod sketched;

use cache::policy::multigen::Version;
use cache::policy::{clock2q_plus, s3_fifo, s3_fifo_old, s4_fifo};
use cache::{Cache, Kind, Requests, RequestsBuilder};
use lists::{Ids, Weights};
use proptest::prelude::*;
use std::collections::HashSet;

/// A cache written as simply as possible, with which the tests compare the caches of this crate.
pub trait Naive {
    /// Requests an object. Returns whether the object was cached.
    fn request(&mut self, id: u32) -> bool;
}

fn naive(kind: Kind, capacity: u64, requests: &Requests, weights: Weights) -> Box<dyn Naive> {
    let none = HashSet::new;
    let three = |rule, weights| Box::new(queues::ThreeQueues::new(rule, weights, capacity));
    let pages = capacity as usize;
    match kind {
        Kind::Lru => Box::new(simple::Lru(weights, capacity, Ids::default())),
        Kind::Fifo => Box::new(simple::Fifo(weights, capacity, Ids::default())),
        Kind::Clock => Box::new(simple::Clock(weights, capacity, Ids::default(), none())),
        Kind::Sieve => Box::new(simple::Sieve(weights, capacity, Ids::default(), none(), None)),
        Kind::Lfu => Box::new(simple::Lfu(weights, capacity, Vec::new(), 0)),
        Kind::Optimal => Box::new(simple::Optimal(weights, capacity, Ids::default(), requests.ids().to_vec())),
        Kind::TwoQ => {
            let [new, ghosts, main] = [Ids::default(), Ids::default(), Ids::default()];
            Box::new(queues::TwoQ { weights, capacity, new, ghosts, main })
        }
        Kind::Arc => Box::new(queues::Arc(weights, capacity, queues::ArcLists::default())),
        Kind::S3Fifo => three(s3_fifo::RULE, weights),
        Kind::S3FifoOld => three(s3_fifo_old::RULE, weights),
        Kind::S4Fifo => three(s4_fifo::RULE, weights),
        Kind::Clock2QPlus => three(clock2q_plus::RULE, weights),
        Kind::Lirs => Box::new(lirs::Lirs::new(weights, capacity)),
        Kind::WTinyLfu => Box::new(sketched::WTinyLfu::new(weights, capacity, requests.hashes())),
        Kind::Lhd => Box::new(sketched::Lhd::new(weights, capacity)),
        Kind::Classic => Box::new(linux::Classic { capacity: pages, ..linux::Classic::default() }),
        Kind::Highwater => Box::new(linux::Highwater { capacity: pages, ..linux::Highwater::default() }),
        Kind::Multigen => Box::new(multigen::Multigen::new(Version::Linux7_2, capacity)),
        Kind::Multigen6_14 => Box::new(multigen::Multigen::new(Version::Linux6_14, capacity)),
        Kind::Multigen6_1 => Box::new(multigen::Multigen::new(Version::Linux6_1, capacity)),
    }
}

/// Makes the requests `ids` to both caches. Returns the position of the first request that is a hit in only one of
/// them; `None` if there is no such request.
fn first_difference(cache: &mut dyn Cache, naive: &mut dyn Naive, ids: &[u32]) -> Option<usize> {
    ids.iter().position(|id| cache.request(*id) != naive.request(*id))
}

fn of_pages(kind: Kind, keys: &[u16], capacity: u64) -> Result<(), TestCaseError> {
    let requests = Requests::from_keys(keys.iter().map(|key| u64::from(*key)));
    let weights = Weights(vec![1; requests.distinct() as usize].into());
    let mut naive = naive(kind, capacity, &requests, weights);
    let mut cache = kind.cache(capacity, &requests);
    let difference = first_difference(cache.as_mut(), naive.as_mut(), requests.ids());
    prop_assert_eq!(difference, None, "{} of {} pages", kind.name(), capacity);
    // The loop with prefetches does the same.
    let hits: u64 = {
        let mut cache = kind.cache(capacity, &requests);
        requests.ids().iter().map(|id| u64::from(cache.request(*id))).sum()
    };
    prop_assert_eq!(kind.cache(capacity, &requests).run(requests.ids()), hits, "{}", kind.name());
    Ok(())
}

fn of_bytes(kind: Kind, sized: &[(u16, u32)], capacity: u64) -> Result<(), TestCaseError> {
    let (keys, sizes): (Vec<u64>, Vec<u32>) = sized.iter().map(|(key, size)| (u64::from(*key), *size)).unzip();
    let mut builder = RequestsBuilder::default();
    builder.add_sized(&keys, &sizes).unwrap();
    let requests = builder.finish();
    let mut naive = naive(kind, capacity, &requests, Weights(requests.object_sizes().clone()));
    let mut cache = kind.cache_of_bytes(capacity, &requests);
    let difference = first_difference(cache.as_mut(), naive.as_mut(), requests.ids());
    prop_assert_eq!(difference, None, "{} of {} bytes", kind.name(), capacity);
    Ok(())
}

/// Keys of which few are requested often, mixed with runs of keys in order.
fn keys(len: usize) -> impl Strategy<Value = Vec<u16>> {
    let piece = prop_oneof![
        3 => (0_u16..60, 0_u16..60).prop_map(|(a, b)| vec![a.min(b)]),
        1 => (0_u16..200, 1_u16..40).prop_map(|(from, len)| (from..from + len).collect()),
    ];
    prop::collection::vec(piece, 1..len).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages(keys in keys(200), capacity in 1_u64..80) {
        Kind::ALL.into_iter().try_for_each(|kind| of_pages(kind, &keys, capacity))?;
    }

    #[test]
    fn many_pages(keys in keys(600), capacity in 100_u64..300) {
        Kind::ALL.into_iter().try_for_each(|kind| of_pages(kind, &keys, capacity))?;
    }

    #[test]
    fn objects_of_many_sizes(keys in keys(150), sizes in prop::collection::vec(1_u32..20, 6000), capacity in 1_u64..1200) {
        let sized: Vec<(u16, u32)> = keys.into_iter().zip(sizes).collect();
        Kind::ALL.into_iter().filter(|kind| kind.knows_bytes()).try_for_each(|kind| of_bytes(kind, &sized, capacity))?;
    }
}

/// Returns requests of which many are for a few keys, in a set that shifts slowly.
fn long(requests: u32) -> Vec<u16> {
    let mut state = 5_u64;
    let mut draw = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    (0..requests).map(|n| (draw(400).min(draw(400)).min(draw(400)) + u64::from(n / 200)) as u16).collect()
}

/// Compares each policy with its naive version on long traces. Only long traces reach the aging of LHD, the halving of
/// W-TinyLFU's counters, and many generations of the multi-generational LRU.
#[test]
fn long_traces() {
    for (kind, capacity) in Kind::ALL.into_iter().flat_map(|kind| [(kind, 64), (kind, 150)]) {
        let requests = if kind == Kind::Optimal { 3000 } else { 30_000 };
        of_pages(kind, &long(requests), capacity).unwrap();
    }
}
