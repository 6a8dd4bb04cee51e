//! SIEVE: a hand goes from the oldest object to the newest, clears the marks of used objects, and evicts the first
//! object without a mark. Objects that are not evicted keep their place in the order of insertion.
//!
//! Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, "SIEVE is simpler than LRU: an efficient turn-key eviction
//! algorithm for web caches", NSDI 2024. State: one byte for each distinct object, and at most 8 bytes for each cached
//! object. Objects lie in an array in the order of insertion. Objects that the hand passes and keeps are moved together
//! at the front of the array, so that all free places lie in one gap at the hand.

use crate::{Cache, Weigh};
use machine::prefetch;

/// The object is cached.
const INSIDE: u8 = 1;
/// The object was used after it came, or after the hand last passed it.
const USED: u8 = 2;

/// A cache with the policy SIEVE. It keeps the cached objects in the order of insertion. The hand is in a gap between
/// the objects that it has passed and the other ones.
#[derive(Debug)]
pub struct Sieve<W> {
    weigh: W,
    capacity: u64,
    held: u64,
    /// For each object, by its number: the flags [`INSIDE`] and [`USED`].
    state: Vec<u8>,
    /// First the objects that the hand has passed, oldest first; then a gap; then, from index `hand` on, the objects
    /// that the hand has not passed yet.
    order: Vec<u32>,
    passed: usize,
    hand: usize,
}

impl<W: Weigh> Sieve<W> {
    /// Creates an empty cache for objects with numbers below `objects`.
    #[must_use]
    pub fn new(capacity: u64, objects: u32, weigh: W) -> Self {
        Self { weigh, capacity, held: 0, state: vec![0; objects as usize], order: Vec::new(), passed: 0, hand: 0 }
    }

    /// Evicts one object.
    fn evict(&mut self) {
        loop {
            let object = self.order[self.hand];
            self.hand += 1;
            let state = &mut self.state[object as usize];
            let stays = *state & USED != 0;
            if stays {
                *state = INSIDE;
                self.order[self.passed] = object;
                self.passed += 1;
            } else {
                *state = 0;
                self.held -= self.weigh.of(object);
            }
            if self.hand == self.order.len() {
                self.order.truncate(self.passed);
                (self.passed, self.hand) = (0, 0);
            }
            if !stays {
                return;
            }
        }
    }

    fn push(&mut self, id: u32) {
        // The gap is closed when it is as long as the rest, so the array holds at most two words for each object, and
        // closing moves at most one object for each that was evicted.
        let gap = self.hand - self.passed;
        if gap >= 16 && gap * 2 >= self.order.len() {
            self.order.drain(self.passed..self.hand);
            self.hand = self.passed;
        }
        self.order.push(id);
    }
}

impl<W: Weigh> Cache for Sieve<W> {
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        let state = &mut self.state[id as usize];
        if *state != 0 {
            *state = INSIDE | USED;
            return true;
        }
        let weight = self.weigh.of(id);
        if weight > self.capacity {
            return false;
        }
        while self.held + weight > self.capacity {
            self.evict();
        }
        self.push(id);
        self.state[id as usize] = INSIDE;
        self.held += weight;
        false
    }

    #[inline]
    fn look_far(&self, id: u32) {
        prefetch(self.state.as_ptr().wrapping_add(id as usize));
    }

    fn bytes(&self) -> u64 {
        (self.state.capacity() + self.order.capacity() * size_of::<u32>()) as u64
    }
}
