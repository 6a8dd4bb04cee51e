//! LRU, FIFO, Clock, SIEVE, LFU and the optimum, naively.

use crate::Naive;
use crate::lists::{Ids, Weights};
use std::collections::HashSet;

pub struct Lru(pub Weights, pub u64, pub Ids);

impl Naive for Lru {
    fn request(&mut self, id: u32) -> bool {
        let Self(weights, capacity, list) = self;
        if list.touch(id) {
            return true;
        }
        if weights.of(id) <= *capacity {
            while weights.sum(&list.0) + weights.of(id) > *capacity {
                list.take_oldest();
            }
            list.push(id);
        }
        false
    }
}

pub struct Fifo(pub Weights, pub u64, pub Ids);

impl Naive for Fifo {
    fn request(&mut self, id: u32) -> bool {
        let Self(weights, capacity, list) = self;
        if list.has(id) {
            return true;
        }
        if weights.of(id) <= *capacity {
            while weights.sum(&list.0) + weights.of(id) > *capacity {
                list.take_oldest();
            }
            list.push(id);
        }
        false
    }
}

pub struct Clock(pub Weights, pub u64, pub Ids, pub HashSet<u32>);

impl Naive for Clock {
    fn request(&mut self, id: u32) -> bool {
        let Self(weights, capacity, list, used) = self;
        if list.has(id) {
            used.insert(id);
            return true;
        }
        if weights.of(id) <= *capacity {
            while weights.sum(&list.0) + weights.of(id) > *capacity {
                let oldest = list.take_oldest().unwrap();
                if used.remove(&oldest) {
                    list.push(oldest);
                }
            }
            list.push(id);
        }
        false
    }
}

/// SIEVE. Has the weights of objects, the capacity, the cached objects, those that were used since the hand passed, and
/// the hand: the object that is examined next, where `None` stands for the oldest.
pub struct Sieve(pub Weights, pub u64, pub Ids, pub HashSet<u32>, pub Option<u32>);

impl Naive for Sieve {
    fn request(&mut self, id: u32) -> bool {
        let Self(weights, capacity, list, used, hand) = self;
        if list.has(id) {
            used.insert(id);
            return true;
        }
        if weights.of(id) <= *capacity {
            while weights.sum(&list.0) + weights.of(id) > *capacity {
                let looked_at = hand.or(list.oldest()).unwrap();
                let at = list.0.iter().position(|listed| *listed == looked_at).unwrap();
                *hand = at.checked_sub(1).map(|newer| list.0[newer]);
                if !used.remove(&looked_at) {
                    list.take(looked_at);
                }
            }
            list.push(id);
        }
        false
    }
}

/// LFU. Has the weights of objects, the capacity, the cached objects, and the number of requests so far. Each cached
/// object has its number of uses, and the number of the request that raised it to this value.
pub struct Lfu(pub Weights, pub u64, pub Vec<(u32, u64, u64)>, pub u64);

impl Naive for Lfu {
    fn request(&mut self, id: u32) -> bool {
        let Self(weights, capacity, list, now) = self;
        *now += 1;
        if let Some((_, uses, reached)) = list.iter_mut().find(|(listed, ..)| *listed == id) {
            (*uses, *reached) = (*uses + 1, *now);
            return true;
        }
        if weights.of(id) <= *capacity {
            while weights.sum(list.iter().map(|(id, ..)| id)) + weights.of(id) > *capacity {
                let first = (0..list.len()).min_by_key(|at| (list[*at].1, list[*at].2)).unwrap();
                list.remove(first);
            }
            list.push((id, 1, *now));
        }
        false
    }
}

/// The optimal policy (Belady). Has the weights of objects, the capacity, the cached objects in the order of their last
/// requests, and the requests to come.
pub struct Optimal(pub Weights, pub u64, pub Ids, pub Vec<u32>);

impl Naive for Optimal {
    fn request(&mut self, id: u32) -> bool {
        let Self(weights, capacity, list, coming) = self;
        assert_eq!(coming.remove(0), id);
        if list.touch(id) {
            return true;
        }
        if weights.of(id) <= *capacity {
            while weights.sum(&list.0) + weights.of(id) > *capacity {
                let next = |id: &u32| coming.iter().position(|coming| coming == id).unwrap_or(usize::MAX);
                // Of several that do not come, the one that was requested last.
                let farthest = (0..list.0.len()).rev().max_by_key(|at| next(&list.0[*at])).unwrap();
                list.0.remove(farthest);
            }
            list.push(id);
        }
        false
    }
}
