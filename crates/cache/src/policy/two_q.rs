//! 2Q: new objects pass a FIFO queue; only those that return after they left it join an LRU list.
//!
//! T. Johnson, D. Shasha, "2Q: a low overhead high performance buffer management replacement algorithm", VLDB 1994, in
//! the full version. The queue of new objects is a quarter of the cache, and there are half as many ghosts as objects
//! fit into the cache; libCacheSim 0.3.5 has these values. State: 4 bytes for each distinct object, and 12 for each
//! cached one and each ghost.

use crate::list::{List, NONE, Nodes};
use crate::{Cache, Weigh};
use machine::prefetch;

/// Indices of the three lists (A1in, A1out and Am in the paper): `NEW` is the FIFO queue of new objects, `GHOST` the
/// queue of objects that `NEW` has evicted, and `MAIN` the LRU list of objects that returned.
const NEW: usize = 0;
const GHOST: usize = 1;
const MAIN: usize = 2;

const LIST_SHIFT: u32 = 30;
const NODE: u32 = (1 << LIST_SHIFT) - 1;

/// A cache with the policy 2Q: the queues of new objects and of ghosts, and the LRU list of objects that returned.
#[derive(Debug)]
pub struct TwoQ<W> {
    weigh: W,
    capacity: u64,
    /// Largest weight that each list may have.
    most: [u64; 3],
    /// For each object, its list and its node; [`NONE`] if the object is on no list.
    index: Vec<u32>,
    nodes: Nodes,
    lists: [List; 3],
    held: [u64; 3],
}

impl<W: Weigh> TwoQ<W> {
    /// Creates an empty cache for objects with numbers below `objects`.
    #[must_use]
    pub fn new(capacity: u64, objects: u32, weigh: W) -> Self {
        let new = capacity / 4;
        Self {
            weigh,
            capacity,
            most: [new, capacity / 2, capacity - new],
            index: vec![NONE; objects as usize],
            nodes: Nodes::default(),
            lists: [List::default(); 3],
            held: [0; 3],
        }
    }

    fn push(&mut self, list: usize, node: u32) {
        let id = self.nodes.value(node);
        self.lists[list].push(&mut self.nodes, node);
        self.held[list] += self.weigh.of(id);
        self.index[id as usize] = (list as u32) << LIST_SHIFT | node;
    }

    fn take(&mut self, list: usize, node: u32) {
        self.lists[list].remove(&mut self.nodes, node);
        self.held[list] -= self.weigh.of(self.nodes.value(node));
    }

    fn forget_oldest(&mut self, list: usize) {
        let node = self.lists[list].tail();
        self.take(list, node);
        self.index[self.nodes.value(node) as usize] = NONE;
        self.nodes.give_back(node);
    }

    fn evict(&mut self) {
        if self.held[MAIN] > 0 && self.held[NEW] <= self.most[NEW] {
            return self.forget_oldest(MAIN);
        }
        let node = self.lists[NEW].tail();
        self.take(NEW, node);
        let weight = self.weigh.of(self.nodes.value(node));
        if weight > self.most[GHOST] {
            self.index[self.nodes.value(node) as usize] = NONE;
            return self.nodes.give_back(node);
        }
        while self.held[GHOST] + weight > self.most[GHOST] {
            self.forget_oldest(GHOST);
        }
        self.push(GHOST, node);
    }

    fn miss(&mut self, id: u32, word: u32) {
        let weight = self.weigh.of(id);
        let ghost = (word != NONE).then_some(word & NODE);
        if let Some(node) = ghost {
            self.take(GHOST, node);
        }
        // An object that fits no queue is not cached. A page always fits.
        if weight > self.most[NEW].max(1) {
            if let Some(node) = ghost {
                self.index[id as usize] = NONE;
                self.nodes.give_back(node);
            }
            return;
        }
        while self.held[NEW] + self.held[MAIN] + weight > self.capacity {
            self.evict();
        }
        let Some(node) = ghost else {
            let node = self.nodes.take(id);
            return self.push(NEW, node);
        };
        while self.held[MAIN] + weight > self.most[MAIN] {
            self.forget_oldest(MAIN);
        }
        self.push(MAIN, node);
    }
}

impl<W: Weigh> Cache for TwoQ<W> {
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        let word = self.index[id as usize];
        match (word >> LIST_SHIFT) as usize {
            MAIN => {
                self.lists[MAIN].touch(&mut self.nodes, word & NODE);
                true
            }
            NEW => true,
            _ => {
                self.miss(id, word);
                false
            }
        }
    }

    #[inline]
    fn look_far(&self, id: u32) {
        prefetch(self.index.as_ptr().wrapping_add(id as usize));
    }

    #[inline]
    fn look_near(&self, id: u32) {
        self.nodes.look_at(self.index[id as usize] & NODE);
    }

    fn bytes(&self) -> u64 {
        (self.index.capacity() * size_of::<u32>()) as u64 + self.nodes.bytes()
    }
}
