//! FIFO: the object that was inserted first leaves first; uses change nothing.
//!
//! L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966.
//! State: one byte for each distinct object, and 4 bytes in a queue for each cached one.

use crate::{Cache, Weigh};
use machine::prefetch;
use std::collections::VecDeque;

/// A cache with the policy FIFO: a queue of objects in the order in which they were inserted.
#[derive(Debug)]
pub struct Fifo<W> {
    weigh: W,
    capacity: u64,
    held: u64,
    /// For each object, `true` if it is cached.
    inside: Vec<bool>,
    /// Cached objects, oldest first.
    queue: VecDeque<u32>,
}

impl<W: Weigh> Fifo<W> {
    /// Creates an empty cache for objects with numbers below `objects`.
    #[must_use]
    pub fn new(capacity: u64, objects: u32, weigh: W) -> Self {
        Self { weigh, capacity, held: 0, inside: vec![false; objects as usize], queue: VecDeque::new() }
    }
}

impl<W: Weigh> Cache for Fifo<W> {
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        if self.inside[id as usize] {
            return true;
        }
        let weight = self.weigh.of(id);
        if weight > self.capacity {
            return false;
        }
        while self.held + weight > self.capacity {
            let oldest = self.queue.pop_front().expect("objects that weigh something are queued");
            self.inside[oldest as usize] = false;
            self.held -= self.weigh.of(oldest);
        }
        self.queue.push_back(id);
        self.inside[id as usize] = true;
        self.held += weight;
        false
    }

    #[inline]
    fn look_far(&self, id: u32) {
        prefetch(self.inside.as_ptr().wrapping_add(id as usize));
    }

    fn bytes(&self) -> u64 {
        (self.inside.capacity() + self.queue.capacity() * size_of::<u32>()) as u64
    }
}
