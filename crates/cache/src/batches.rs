//! A cache whose policy chooses victims in batches: [`replay_in_batches`].
//!
//! A policy of this kind keeps no contents. The cache tells it many requests in one call, and asks for several victims
//! in one call. So a policy can be written in a language in which a call for each request would be too slow, and it
//! works as reclaim does: it sees uses late, and frees several pages at a time.

use crate::Requests;
use crate::replay::{Counts, Impossible};

/// A policy that learns of requests, and chooses victims, in batches.
pub trait Batches {
    /// The reason why the policy cannot go on.
    type Error;

    /// Tells the policy the requests since the last call, in order: for each the object, and whether it was a hit. An
    /// object that was missed is now in the cache. The policy does not learn of the last requests of a replay, after which
    /// no victim is needed.
    ///
    /// # Errors
    /// When the policy cannot go on. The replay then ends with this error.
    fn requested(&mut self, objects: &[u32], hits: &[bool]) -> Result<(), Self::Error>;

    /// Returns the objects that leave the cache: at least one, at most `count`. All are in the cache, and none occurs
    /// twice. The cache is full, and the policy knows all requests so far.
    ///
    /// # Errors
    /// When the policy cannot go on. The replay then ends with this error.
    fn evict(&mut self, count: u32) -> Result<Vec<u32>, Self::Error>;
}

/// The size of a cache whose policy works in batches, and the number of victims for which it asks at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Number of objects that the cache holds, at least 1.
    pub capacity: u32,
    /// Number of victims for which a full cache asks at once, at least 1. A larger number is lowered to the capacity. With
    /// 1, the cache is always full, but the policy is called at each miss.
    pub victims: u32,
    /// Number of requests at the beginning that fill the cache and are not counted.
    pub warm_up: usize,
}

/// The reason why a replay in batches ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped<E> {
    /// The replay cannot begin.
    Impossible(Impossible),
    /// The policy returned an error.
    Policy(E),
    /// The policy returned no victim, or more than it was asked for: the number it returned, and the number asked for.
    Number(usize, u32),
    /// The policy evicted an object that is not in the cache, or that it evicted before in the same call.
    NotCached(u32),
}

impl<E: std::fmt::Display> std::fmt::Display for Stopped<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Impossible(why) => why.fmt(f),
            Self::Policy(error) => error.fmt(f),
            Self::Number(found, count) => {
                write!(f, "the policy evicts {found} objects: expected at least 1, and at most {count}")
            }
            Self::NotCached(object) => write!(f, "the policy evicts object {object}, which is not in the cache"),
        }
    }
}

impl<E: std::fmt::Debug + std::fmt::Display> std::error::Error for Stopped<E> {}

/// Number of requests after which the policy is told of them, even if no victim is needed.
const TOLD_MAX: usize = 1 << 16;

/// Replays requests on a cache whose victims `policy` chooses. Each object counts as one.
///
/// ```
/// use cache::batches::{Asking, Batches, replay_in_batches};
/// use cache::Requests;
/// use std::collections::VecDeque;
///
/// /// First in, first out.
/// #[derive(Default)]
/// struct Fifo(VecDeque<u32>);
///
/// impl Batches for Fifo {
///     type Error = std::convert::Infallible;
///
///     fn requested(&mut self, objects: &[u32], hits: &[bool]) -> Result<(), Self::Error> {
///         self.0.extend(objects.iter().zip(hits).filter(|(_, hit)| !**hit).map(|(object, _)| *object));
///         Ok(())
///     }
///
///     fn evict(&mut self, count: u32) -> Result<Vec<u32>, Self::Error> {
///         Ok(self.0.drain(..count as usize).collect())
///     }
/// }
///
/// let requests = Requests::from_keys([10, 20, 30, 10, 30]);
/// let asking = Asking { capacity: 2, victims: 1, warm_up: 0 };
/// let counts = replay_in_batches(&requests, asking, &mut Fifo::default()).unwrap();
/// // 30 evicts 10, and 10 then evicts 20.
/// assert_eq!(counts.misses, 4);
/// ```
///
/// # Errors
/// When there is no request, none is counted, the policy returns an error, or its victims are wrong.
pub fn replay_in_batches<P: Batches>(
    requests: &Requests,
    asking: Asking,
    policy: &mut P,
) -> Result<Counts, Stopped<P::Error>> {
    if requests.is_empty() {
        return Err(Stopped::Impossible(Impossible::NoRequests));
    }
    if asking.warm_up >= requests.len() {
        return Err(Stopped::Impossible(Impossible::NoneCounted));
    }
    let capacity = asking.capacity.max(1);
    let victims = asking.victims.clamp(1, capacity);
    let sizes = requests.sizes();
    let mut counts = Counts::default();
    let mut is_cached = vec![false; requests.distinct() as usize];
    let mut cached = 0;
    // The requests from `told` on are not known to the policy yet.
    let mut told = 0;
    let mut hits: Vec<bool> = Vec::with_capacity(TOLD_MAX);
    for (at, id) in requests.ids().iter().enumerate() {
        let hit = is_cached[*id as usize];
        if hits.len() == TOLD_MAX || (!hit && cached == capacity) {
            policy.requested(&requests.ids()[told..at], &hits).map_err(Stopped::Policy)?;
            told = at;
            hits.clear();
        }
        if !hit {
            if cached == capacity {
                let leaving = policy.evict(victims).map_err(Stopped::Policy)?;
                cached -= evict(&mut is_cached, &leaving, victims)?;
            }
            is_cached[*id as usize] = true;
            cached += 1;
        }
        hits.push(hit);
        if at >= asking.warm_up {
            let bytes = sizes.get(at).map_or(0, |bytes| u64::from(*bytes));
            counts.bytes += bytes;
            counts.misses += u64::from(!hit);
            counts.missed_bytes += if hit { 0 } else { bytes };
        }
    }
    Ok(counts)
}

/// Removes the objects `leaving` from the cache, and returns their number. `count` is the number that was asked for.
fn evict<E>(is_cached: &mut [bool], leaving: &[u32], count: u32) -> Result<u32, Stopped<E>> {
    if leaving.is_empty() || leaving.len() > count as usize {
        return Err(Stopped::Number(leaving.len(), count));
    }
    for object in leaving {
        match is_cached.get_mut(*object as usize) {
            Some(is_cached) if *is_cached => *is_cached = false,
            _ => return Err(Stopped::NotCached(*object)),
        }
    }
    Ok(leaving.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Plan, Size, replay};

    /// LRU: the objects by the time of their last use.
    #[derive(Default)]
    struct Lru {
        last: Vec<u64>,
        now: u64,
        told: usize,
    }

    impl Batches for Lru {
        type Error = String;

        fn requested(&mut self, objects: &[u32], hits: &[bool]) -> Result<(), String> {
            assert_eq!(objects.len(), hits.len());
            self.told += objects.len();
            for object in objects {
                self.now += 1;
                self.last.resize(self.last.len().max(*object as usize + 1), 0);
                self.last[*object as usize] = self.now;
            }
            Ok(())
        }

        fn evict(&mut self, count: u32) -> Result<Vec<u32>, String> {
            let mut cached: Vec<u32> = (0..self.last.len() as u32).filter(|it| self.last[*it as usize] > 0).collect();
            cached.sort_by_key(|it| self.last[*it as usize]);
            cached.truncate(count as usize);
            cached.iter().for_each(|it| self.last[*it as usize] = 0);
            Ok(cached)
        }
    }

    fn requests() -> Requests {
        // Numbers of a small linear congruence: some come back soon, some late.
        let mut state: u64 = 1;
        Requests::from_keys((0..5000).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (low, high) = ((state >> 33) % 300, (state >> 50) % 300);
            low.min(high)
        }))
    }

    #[test]
    fn with_one_victim_at_a_time_a_policy_misses_as_if_it_were_called_at_each_request() {
        let requests = requests();
        let plan = Plan { policies: vec![Kind::Lru], sizes: vec![Size::Absolute(50)], ..Plan::default() };
        let known = replay(&requests, &plan).unwrap().rows[0].misses;
        let asking = Asking { capacity: 50, victims: 1, warm_up: 0 };
        assert_eq!(replay_in_batches(&requests, asking, &mut Lru::default()).unwrap().misses, known);
        let asking = Asking { victims: 10, ..asking };
        let misses = replay_in_batches(&requests, asking, &mut Lru::default()).unwrap().misses;
        assert!(misses > known && misses < known * 12 / 10, "{misses} and {known}");
    }

    #[test]
    fn a_warm_up_is_not_counted() {
        let requests = requests();
        let of = |warm_up| {
            let asking = Asking { capacity: 400, victims: 1, warm_up };
            replay_in_batches(&requests, asking, &mut Lru::default()).map(|counts| counts.misses)
        };
        assert_eq!(of(0), Ok(u64::from(requests.distinct())));
        assert_eq!(of(4999), Ok(0));
        assert_eq!(of(5000), Err(Stopped::Impossible(Impossible::NoneCounted)));
    }

    #[test]
    fn a_policy_learns_of_requests_also_while_nothing_is_evicted() {
        let requests = Requests::from_keys((0..200_000).map(|n| n % 100));
        let mut policy = Lru::default();
        let asking = Asking { capacity: 100, victims: 1, warm_up: 0 };
        replay_in_batches(&requests, asking, &mut policy).unwrap();
        assert_eq!(policy.told, 3 * TOLD_MAX);
    }

    #[test]
    fn wrong_victims_end_the_replay() {
        struct Wrong(Vec<u32>);
        impl Batches for Wrong {
            type Error = &'static str;
            fn requested(&mut self, _: &[u32], _: &[bool]) -> Result<(), Self::Error> {
                Ok(())
            }
            fn evict(&mut self, _: u32) -> Result<Vec<u32>, Self::Error> {
                if self.0 == [77] { Err("no idea") } else { Ok(self.0.clone()) }
            }
        }
        let requests = Requests::from_keys(0..10);
        let of = |victims: &[u32]| {
            let asking = Asking { capacity: 4, victims: 2, warm_up: 0 };
            replay_in_batches(&requests, asking, &mut Wrong(victims.to_vec())).unwrap_err()
        };
        assert_eq!(of(&[]), Stopped::Number(0, 2));
        assert_eq!(of(&[0, 1, 2]), Stopped::Number(3, 2));
        assert_eq!(of(&[0, 0]), Stopped::NotCached(0));
        assert_eq!(of(&[4]), Stopped::NotCached(4));
        assert_eq!(of(&[99]), Stopped::NotCached(99));
        assert_eq!(of(&[77]), Stopped::Policy("no idea"));
        assert_eq!(of(&[4]).to_string(), "the policy evicts object 4, which is not in the cache");
    }
}
