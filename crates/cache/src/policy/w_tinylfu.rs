//! W-TinyLFU: a small LRU window in front of a segmented LRU. An object that leaves the window replaces the victim of
//! the segmented LRU only if its approximate count of uses is higher.
//!
//! G. Einziger, R. Friedman, B. Manes, "TinyLFU: a highly efficient cache admission policy", ACM Transactions on
//! Storage 13(4), 2017, in the version of libCacheSim 0.3.5. The window is one percent of the cache. The main part has
//! two segments: a fifth for objects used once, and four fifths for objects used again. Each object has ten counters in
//! a table, which has 14.4 counters for each object of the main part. A use raises all ten counters, and the least of
//! them is the estimate. All counters are halved after 32 requests in the main part for each of its objects. Uses in
//! the window are not counted.
//!
//! State: 12 bytes for each cached object, 10.5 to 21 in a hash table, and 29 in counters of 16 bits (libCacheSim has 32
//! bits: a counter of more than 65535 stays there). All caches share two hashes of 4 bytes for each distinct object.

use crate::list::{List, NONE, Nodes};
use crate::table::Table;
use crate::{Cache, Weigh};
use machine::prefetch;
use std::sync::Arc;

/// A counting Bloom filter, which estimates how often each object was requested.
#[derive(Debug)]
struct Sketch {
    counters: Vec<u16>,
    /// The factor with which the remainder of a hash by the number of counters is computed without a division (Lemire,
    /// Kaser, Kurz, "Faster remainder by direct computation", 2019).
    reciprocal: u64,
    hashes: u32,
}

impl Sketch {
    /// Creates a filter whose size is that of a Bloom filter with `objects` objects and one false positive in a
    /// thousand.
    fn new(objects: u64) -> Self {
        let bits = -0.001_f64.ln() / 0.480_453_013_918_201;
        let hashes = (std::f64::consts::LN_2 * bits).ceil() as u32;
        let wanted = (bits * objects as f64).ceil().min(f64::from(i32::MAX)) as u32;
        let len = if wanted < hashes { hashes * 2 } else { wanted };
        Self { counters: vec![0; len as usize], reciprocal: u64::MAX / u64::from(len) + 1, hashes }
    }

    /// Returns the number of a hash's counter: the remainder of the hash by the number of counters.
    #[inline]
    fn place(&self, hash: u32) -> usize {
        let low = self.reciprocal.wrapping_mul(u64::from(hash));
        ((u128::from(low) * self.counters.len() as u128) >> 64) as usize
    }

    #[inline]
    fn places(&self, [first, step]: [u32; 2]) -> impl Iterator<Item = usize> + '_ {
        (0..self.hashes).map(move |n| self.place(first.wrapping_add(n.wrapping_mul(step))))
    }

    #[inline]
    fn add(&mut self, [first, step]: [u32; 2]) {
        for n in 0..self.hashes {
            let place = self.place(first.wrapping_add(n.wrapping_mul(step)));
            self.counters[place] = self.counters[place].saturating_add(1);
        }
    }

    #[inline]
    fn estimate(&self, hash: [u32; 2]) -> u16 {
        self.places(hash).map(|place| self.counters[place]).min().unwrap_or_default()
    }

    fn halve(&mut self) {
        self.counters.iter_mut().for_each(|counter| *counter >>= 1);
    }
}

/// Number of the list that holds the objects of the window. `FIRST` and `AGAIN` are the numbers of the lists that hold
/// the two segments of the main part.
const WINDOW: u32 = 0;
const FIRST: u32 = 1;
const AGAIN: u32 = 2;

/// Number of low bits of a node's value, which hold the object. The bits above them hold the number of the object's
/// list.
const LIST_SHIFT: u32 = 30;
const OBJECT: u32 = (1 << LIST_SHIFT) - 1;

/// A cache with the policy W-TinyLFU: the window, the segments of the main part, and the counters of uses.
#[derive(Debug)]
pub struct WTinyLfu<W> {
    weigh: W,
    capacity: u64,
    main_most: u64,
    /// Largest weight that each list may have.
    most: [u64; 3],
    held: [u64; 3],
    table: Table,
    nodes: Nodes,
    lists: [List; 3],
    sketch: Sketch,
    hashes: Arc<[[u32; 2]]>,
    /// Number of hits on objects in the main part of the cache since the counters of uses were last halved. They are
    /// halved when this number reaches `halve_at`.
    counted: u64,
    halve_at: u64,
}

impl<W: Weigh> WTinyLfu<W> {
    /// Creates an empty cache. `hashes` has two hashes of each object ([`crate::Requests::hashes`]).
    #[must_use]
    pub fn new(capacity: u64, hashes: Arc<[[u32; 2]]>, weigh: W) -> Self {
        let window = (capacity as f64 * 0.01) as u64;
        let main = capacity - window;
        // A cache with room for more objects than there are evicts none, and needs no counters for more.
        let objects = ((main as f64 / weigh.mean()).ceil() as u64).min(hashes.len() as u64);
        let expected = (capacity as f64 / weigh.mean()).ceil().min(hashes.len() as f64) as usize;
        Self {
            capacity,
            main_most: main,
            most: [window.max(1), (0.2 * main as f64) as u64, (0.8 * main as f64) as u64],
            held: [0; 3],
            table: Table::new(expected),
            nodes: Nodes::default(),
            lists: [List::default(); 3],
            sketch: Sketch::new(objects.max(1)),
            hashes,
            counted: 0,
            halve_at: 32 * objects.max(1),
            weigh,
        }
    }

    fn object(&self, node: u32) -> u32 {
        self.nodes.value(node) & OBJECT
    }

    fn push(&mut self, list: u32, node: u32) {
        let id = self.object(node);
        self.nodes.set_value(node, list << LIST_SHIFT | id);
        self.lists[list as usize].push(&mut self.nodes, node);
        self.held[list as usize] += self.weigh.of(id);
    }

    fn take(&mut self, node: u32) {
        let value = self.nodes.value(node);
        let list = (value >> LIST_SHIFT) as usize;
        self.lists[list].remove(&mut self.nodes, node);
        self.held[list] -= self.weigh.of(value & OBJECT);
    }

    fn forget(&mut self, node: u32) {
        self.take(node);
        let (id, nodes) = (self.object(node), &self.nodes);
        self.table.remove(id, node, |node| nodes.value(node) & OBJECT);
        self.nodes.give_back(node);
    }

    fn main_held(&self) -> u64 {
        self.held[FIRST as usize] + self.held[AGAIN as usize]
    }

    /// Returns the object of the main part that would leave next.
    fn main_victim(&self) -> u32 {
        let list = if self.lists[FIRST as usize].is_empty() { AGAIN } else { FIRST };
        self.lists[list as usize].tail()
    }

    /// Moves an object from the window to the main part of the cache: to the lowest segment in which the object fits.
    fn admit(&mut self, node: u32) {
        let weight = self.weigh.of(self.object(node));
        self.take(node);
        let fits = |list: u32| self.held[list as usize] + weight <= self.most[list as usize];
        let list = if !fits(FIRST) && fits(AGAIN) { AGAIN } else { FIRST };
        self.push(list, node);
    }

    /// Moves objects from the window to the main part as long as the main part has room for them. Then evicts from the
    /// window or from the main part.
    fn evict(&mut self) {
        loop {
            let victim = self.lists[WINDOW as usize].tail();
            if victim == NONE {
                return self.forget(self.main_victim());
            }
            let id = self.object(victim);
            let is_full = self.main_held() + self.weigh.of(id) > self.main_most;
            if !is_full {
                self.admit(victim);
            } else {
                let other = self.main_victim();
                let [ours, theirs] = [id, self.object(other)].map(|id| self.hashes[id as usize]);
                if self.sketch.estimate(ours) > self.sketch.estimate(theirs) {
                    self.forget(other);
                    while self.main_held() + self.weigh.of(id) > self.main_most {
                        self.forget(self.main_victim());
                    }
                    self.admit(victim);
                } else {
                    self.forget(victim);
                }
            }
            self.sketch.add(self.hashes[id as usize]);
            if is_full {
                return;
            }
        }
    }

    /// Handles a hit on an object in the main part of the cache.
    fn use_main(&mut self, id: u32, node: u32, list: u32) {
        if list == AGAIN {
            self.lists[AGAIN as usize].touch(&mut self.nodes, node);
        } else {
            self.take(node);
            self.push(AGAIN, node);
            while self.held[AGAIN as usize] > self.most[AGAIN as usize] {
                let cooled = self.lists[AGAIN as usize].tail();
                self.take(cooled);
                self.push(FIRST, cooled);
                while self.held[FIRST as usize] > self.most[FIRST as usize].max(1) {
                    self.forget(self.lists[FIRST as usize].tail());
                }
            }
        }
        self.sketch.add(self.hashes[id as usize]);
        self.counted += 1;
        if self.counted >= self.halve_at {
            self.counted = 0;
            self.sketch.halve();
        }
    }
}

impl<W: Weigh> Cache for WTinyLfu<W> {
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        let nodes = &self.nodes;
        let node = self.table.find(id, |node| nodes.value(node) & OBJECT);
        if node != NONE {
            match self.nodes.value(node) >> LIST_SHIFT {
                WINDOW => self.lists[WINDOW as usize].touch(&mut self.nodes, node),
                list => self.use_main(id, node, list),
            }
            return true;
        }
        let weight = self.weigh.of(id);
        if weight > self.most[WINDOW as usize] || weight > self.most[FIRST as usize].max(1) {
            return false;
        }
        while self.held.iter().sum::<u64>() + weight > self.capacity {
            self.evict();
        }
        let node = self.nodes.take(id);
        self.push(WINDOW, node);
        let nodes = &self.nodes;
        self.table.insert(id, node, |node| nodes.value(node) & OBJECT);
        self.sketch.add(self.hashes[id as usize]);
        false
    }

    #[inline]
    fn look_far(&self, id: u32) {
        self.table.look_at(id);
        prefetch(self.hashes.as_ptr().wrapping_add(id as usize));
    }

    #[inline]
    fn look_near(&self, id: u32) {
        self.nodes.look_at(self.table.guess(id));
        if let Some(hash) = self.hashes.get(id as usize) {
            let counters = self.sketch.counters.as_ptr();
            self.sketch.places(*hash).for_each(|place| prefetch(counters.wrapping_add(place)));
        }
    }

    fn bytes(&self) -> u64 {
        self.table.bytes() + self.nodes.bytes() + (self.sketch.counters.capacity() * size_of::<u16>()) as u64
    }
}
