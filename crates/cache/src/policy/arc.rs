//! ARC: one LRU list for objects used once, and one for objects used again. The sizes of the two lists follow the hits
//! on ghosts, which are objects that left one of the lists lately.
//!
//! N. Megiddo, D. S. Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003, figure 4. As in
//! libCacheSim 0.3.5, the target changes by a fraction of the lists' lengths (not rounded), and ghosts are not trimmed
//! while the cache is not full. State: 4 bytes for each distinct object, and 12 bytes for each cached object and each
//! ghost. There are at most as many ghosts as cached objects.

use crate::list::{List, NONE, Nodes};
use crate::{Cache, Weigh};
use machine::prefetch;

/// Index of the list of objects that were used once. [`T2`] is that of the list of objects that were used again. [`B1`]
/// and [`B2`] are those of the ghosts that left the lists `T1` and `T2`.
const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

/// Number of low bits of an index word, which hold the node. The bits above them hold the number of the object's list.
const LIST_SHIFT: u32 = 30;
const NODE: u32 = (1 << LIST_SHIFT) - 1;

/// A cache with the policy ARC: four lists, and a target weight for the first of them.
#[derive(Debug)]
pub struct Arc<W> {
    weigh: W,
    capacity: u64,
    /// For each object, a word with the number of the object's list and the object's node (see [`LIST_SHIFT`]);
    /// [`NONE`] if the object is on no list.
    index: Vec<u32>,
    nodes: Nodes,
    lists: [List; 4],
    /// The total weight of the objects on each list.
    held: [u64; 4],
    /// The weight that the list `T1` should have.
    target: f64,
}

impl<W: Weigh> Arc<W> {
    /// Creates an empty cache for objects with numbers below `objects`.
    #[must_use]
    pub fn new(capacity: u64, objects: u32, weigh: W) -> Self {
        let index = vec![NONE; objects as usize];
        let lists = [List::default(); 4];
        Self { weigh, capacity, index, nodes: Nodes::default(), lists, held: [0; 4], target: 0.0 }
    }

    /// Puts a node, which is on no list, at the head of list number `list`.
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

    /// Removes the oldest object of a list without making it a ghost.
    fn forget_oldest(&mut self, list: usize) {
        let node = self.lists[list].tail();
        self.take(list, node);
        self.index[self.nodes.value(node) as usize] = NONE;
        self.nodes.give_back(node);
    }

    /// Evicts an object and makes it a ghost: the oldest of `T1` if this list is heavier than its target, and the
    /// oldest of `T2` otherwise. If `T1` is exactly as heavy as its target, the object is from `T1` only if
    /// `returns_to_t2` is true: the requested object is a ghost of `T2`. If one of the lists is empty, the object is
    /// from the other.
    fn replace(&mut self, returns_to_t2: bool) {
        let t1 = self.held[T1] as f64;
        let is_long = t1 > self.target || returns_to_t2 && t1 == self.target;
        let from = if self.held[T1] > 0 && is_long || self.held[T2] == 0 { T1 } else { T2 };
        let node = self.lists[from].tail();
        self.take(from, node);
        self.push(from + B1, node);
    }

    /// Frees space for a new object, which is neither cached nor a ghost: drops a ghost if the lists are full, and
    /// evicts an object.
    fn replace_for_new(&mut self, weight: u64) {
        if self.held[T1] + self.held[B1] + weight > self.capacity {
            if self.held[B1] == 0 {
                return self.forget_oldest(T1);
            }
            self.forget_oldest(B1);
        } else if self.held.iter().sum::<u64>() >= 2 * self.capacity && self.held[B2] > 0 {
            self.forget_oldest(B2);
        }
        self.replace(false);
    }

    /// Handles a request for a ghost on the list `list`: raises the target size of `T1` if the list is `B1`, lowers it
    /// if the list is `B2`, and takes the ghost off the list.
    fn note_ghost(&mut self, list: usize, node: u32) {
        let [b1, b2] = [self.held[B1] as f64, self.held[B2] as f64];
        self.target = match list {
            B1 => (self.target + (b2 / b1).max(1.0)).min(self.capacity as f64),
            _ => (self.target - (b1 / b2).max(1.0)).max(0.0),
        };
        self.take(list, node);
    }

    #[inline]
    fn miss(&mut self, id: u32, word: u32) {
        let weight = self.weigh.of(id);
        let list = if word == NONE { None } else { Some((word >> LIST_SHIFT) as usize) };
        let node = match list {
            Some(list) => {
                self.note_ghost(list, word & NODE);
                word & NODE
            }
            None if weight > self.capacity => return,
            None => NONE,
        };
        while self.held[T1] + self.held[T2] + weight > self.capacity {
            match list {
                Some(list) => self.replace(list == B2),
                None => self.replace_for_new(weight),
            }
        }
        match list {
            Some(_) => self.push(T2, node),
            None => {
                let node = self.nodes.take(id);
                self.push(T1, node);
            }
        }
    }
}

impl<W: Weigh> Cache for Arc<W> {
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        let word = self.index[id as usize];
        match (word >> LIST_SHIFT) as usize {
            T1 => {
                self.take(T1, word & NODE);
                self.push(T2, word & NODE);
                true
            }
            T2 => {
                self.lists[T2].touch(&mut self.nodes, word & NODE);
                true
            }
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
