//! LRU: the object that was not used for the longest time leaves.
//!
//! R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger, "Evaluation techniques for storage hierarchies", IBM Systems
//! Journal 9(2), 1970. State: 4 bytes for each distinct object, and 12 for each cached one.

use crate::list::{List, NONE, Nodes};
use crate::{Cache, Weigh};
use machine::prefetch;

/// A cache with the policy LRU: a list of objects in the order of their last uses.
#[derive(Debug)]
pub struct Lru<W> {
    weigh: W,
    capacity: u64,
    held: u64,
    /// For each object, the index of its node in `nodes`; [`NONE`] if the object is not in the cache.
    index: Vec<u32>,
    nodes: Nodes,
    list: List,
}

impl<W: Weigh> Lru<W> {
    /// Creates an empty cache for objects with numbers below `objects`.
    #[must_use]
    pub fn new(capacity: u64, objects: u32, weigh: W) -> Self {
        let index = vec![NONE; objects as usize];
        Self { weigh, capacity, held: 0, index, nodes: Nodes::default(), list: List::default() }
    }
}

impl<W: Weigh> Cache for Lru<W> {
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        let node = self.index[id as usize];
        if node != NONE {
            self.list.touch(&mut self.nodes, node);
            return true;
        }
        let weight = self.weigh.of(id);
        if weight > self.capacity {
            return false;
        }
        while self.held + weight > self.capacity {
            let oldest = self.list.tail();
            let evicted = self.nodes.value(oldest);
            self.list.remove(&mut self.nodes, oldest);
            self.nodes.give_back(oldest);
            self.index[evicted as usize] = NONE;
            self.held -= self.weigh.of(evicted);
        }
        let node = self.nodes.take(id);
        self.list.push(&mut self.nodes, node);
        self.index[id as usize] = node;
        self.held += weight;
        false
    }

    #[inline]
    fn look_far(&self, id: u32) {
        prefetch(self.index.as_ptr().wrapping_add(id as usize));
    }

    #[inline]
    fn look_near(&self, id: u32) {
        self.nodes.look_at(self.index[id as usize]);
    }

    fn bytes(&self) -> u64 {
        (self.index.capacity() * size_of::<u32>()) as u64 + self.nodes.bytes()
    }
}
