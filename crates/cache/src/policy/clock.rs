//! Clock, or second chance: evicts the oldest object, unless it was used since the clock's hand last passed it.
//!
//! F. J. Corbató, "A paging experiment with the Multics system", MIT Project MAC, 1968. Each object has one bit that
//! says whether it was used; the bit of a new object is clear. State: one byte for each distinct object, and 4 bytes in
//! a queue for each cached one.

use crate::{Cache, Weigh};
use machine::prefetch;
use std::collections::VecDeque;

/// The object is cached.
const INSIDE: u8 = 1;
/// The object was used after it came, or after the hand last passed it.
const USED: u8 = 2;

/// A cache with the policy CLOCK: a queue of objects, with the hand at the end where the oldest objects are.
#[derive(Debug)]
pub struct Clock<W> {
    weigh: W,
    capacity: u64,
    held: u64,
    /// For each object, by its number: the flags [`INSIDE`] and [`USED`].
    state: Vec<u8>,
    /// Cached objects. The object that the hand comes to next is first.
    queue: VecDeque<u32>,
}

impl<W: Weigh> Clock<W> {
    /// Creates an empty cache for objects with numbers below `objects`.
    #[must_use]
    pub fn new(capacity: u64, objects: u32, weigh: W) -> Self {
        Self { weigh, capacity, held: 0, state: vec![0; objects as usize], queue: VecDeque::new() }
    }

    fn evict(&mut self) {
        loop {
            let next = self.queue.pop_front().expect("objects that weigh something are queued");
            let state = &mut self.state[next as usize];
            if *state & USED == 0 {
                *state = 0;
                self.held -= self.weigh.of(next);
                return;
            }
            *state = INSIDE;
            self.queue.push_back(next);
        }
    }
}

impl<W: Weigh> Cache for Clock<W> {
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
        self.queue.push_back(id);
        self.state[id as usize] = INSIDE;
        self.held += weight;
        false
    }

    #[inline]
    fn look_far(&self, id: u32) {
        prefetch(self.state.as_ptr().wrapping_add(id as usize));
    }

    fn bytes(&self) -> u64 {
        (self.state.capacity() + self.queue.capacity() * size_of::<u32>()) as u64
    }
}
