//! The optimum (MIN, Belady): evicts the object whose next use is farthest in the future. The policy knows all later
//! requests.
//!
//! L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", 1966. If all objects have one
//! size, no policy that admits every object has fewer misses. With different sizes, other policies may have fewer.
//! State: one bit for each request. A cached object is represented by the bit at the position of its next request. So a
//! request is a hit if the bit at its position is set. The object to evict is that of the last bit that is set, which
//! is found through five levels of summaries.

use crate::requests::{NEVER, Requests};
use crate::{Cache, Weigh};
use std::sync::Arc;

/// A set of positions, which are numbers from 0. The largest position in the set is found in a few steps.
#[derive(Debug)]
struct Positions {
    /// The lowest level has a bit for each position. In each higher level, bit *n* is set if word *n* of the level
    /// below is not 0.
    levels: Vec<Vec<u64>>,
}

impl Positions {
    fn new(len: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = len.div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
            words = words.div_ceil(64);
        }
    }

    #[inline]
    fn insert(&mut self, position: u32) {
        let mut at = position as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let was_empty = *word == 0;
            *word |= 1 << (at % 64);
            if !was_empty {
                return;
            }
            at /= 64;
        }
    }

    /// Removes a position from the set. Returns whether the set contained the position before.
    #[inline]
    fn remove(&mut self, position: u32) -> bool {
        let mut at = position as usize;
        if self.levels[0][at / 64] & 1 << (at % 64) == 0 {
            return false;
        }
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
        true
    }

    /// Returns the largest position in the set; `None` if the set is empty.
    fn last(&self) -> Option<u32> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let word = level[at];
            if word == 0 {
                return None;
            }
            at = at * 64 + 63 - word.leading_zeros() as usize;
        }
        Some(at as u32)
    }
}

/// A cache that knows all later requests, and evicts the object whose next use is farthest. It must get exactly the
/// requests with which it was created, in order.
#[derive(Debug)]
pub struct Optimal<W> {
    weigh: W,
    capacity: u64,
    held: u64,
    /// The object of each request, by the position of the request.
    ids: Arc<Vec<u32>>,
    next: Arc<[u32]>,
    /// Position, in the trace, of the next request to handle.
    now: u32,
    /// For each cached object, the position of its next request.
    uses: Positions,
    /// Cached objects that are not used again. They are evicted before all others; the one that was added last is
    /// evicted first.
    never: Vec<u32>,
}

impl<W: Weigh> Optimal<W> {
    /// Creates an empty cache for the requests `requests`, which must then be made in this order.
    #[must_use]
    pub fn new(capacity: u64, requests: &Requests, weigh: W) -> Self {
        let (ids, next, uses) = (requests.shared_ids(), requests.next_uses(), Positions::new(requests.len()));
        Self { weigh, capacity, held: 0, ids, next, now: 0, uses, never: Vec::new() }
    }

    fn evict(&mut self) {
        let evicted = self.never.pop().unwrap_or_else(|| {
            let last = self.uses.last().expect("a cached object has a next use, or none");
            self.uses.remove(last);
            self.ids[last as usize]
        });
        self.held -= self.weigh.of(evicted);
    }
}

impl<W: Weigh> Cache for Optimal<W> {
    /// # Panics
    /// When it is called more often than there are requests in the sequence with which the cache was created.
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        let now = self.now;
        self.now += 1;
        let next = self.next[now as usize];
        let is_hit = self.uses.remove(now);
        if !is_hit {
            let weight = self.weigh.of(id);
            if weight > self.capacity {
                return false;
            }
            while self.held + weight > self.capacity {
                self.evict();
            }
            self.held += weight;
        }
        match next {
            NEVER => self.never.push(id),
            next => self.uses.insert(next),
        }
        is_hit
    }

    fn bytes(&self) -> u64 {
        let words: usize = self.uses.levels.iter().map(Vec::len).sum();
        (words * size_of::<u64>() + self.never.capacity() * size_of::<u32>()) as u64
    }
}
