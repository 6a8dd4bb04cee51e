//! Three FIFO queues, with the choices in which the policies of this family differ: S3-FIFO in two versions, S4-FIFO and
//! Clock2Q+.
//!
//! A new object enters the small queue. At the old end of this queue, objects that were used often enough move to the
//! main queue, and the others leave and become ghosts. An object that returns as a ghost enters the main queue. Objects
//! at the old end of the main queue go round again as long as they were used, and leave without a ghost.
//!
//! State: 2 bytes for each distinct object, and 4 bytes in a queue for each cached object and each ghost. A ghost that
//! returns is not searched in its queue. Its entry becomes *stale*, and is dropped when it comes to the old end; the
//! object's word counts the stale entries, which are always older than a valid one.

use crate::{Cache, Weigh};
use machine::prefetch;
use std::collections::VecDeque;

/// The choices in which policies with three queues differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Largest weight of the small queue, as a share of the capacity.
    pub small: f64,
    /// Largest weight of the ghosts (objects that left the cache and are remembered), as a share of the cache's
    /// capacity.
    pub ghosts: f64,
    /// Number of uses after which an object moves from the small queue to the main queue: 1 to 3.
    pub promote: u16,
    /// Uses of an object in the main queue beyond this number give it no further round: 1 to 3. An object at the
    /// queue's old end goes round once for each counted use.
    pub rounds: u16,
    /// The youngest part of the small queue. Uses of an object count only after it has left this part.
    pub skip: Skip,
    /// Number of times that a ghost is only marked when it is requested, 0 or 1. The next request moves the object to
    /// the main queue.
    pub ghost_marks: u16,
    /// True if new objects enter the main queue while the small queue is full and nothing has been evicted yet.
    pub fills_main: bool,
}

/// The youngest part of the small queue, in which uses do not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Skip {
    /// The size of this part: the given share (0 to 1) of the small queue's capacity, rounded up to a whole number of
    /// objects.
    Up(f64),
    /// The size of this part: the given share (0 to 1) of the small queue's capacity, rounded down to a whole number of
    /// objects.
    Down(f64),
}

// The word of an object.
const PLACE: u16 = 0b11;
const SMALL: u16 = 1;
const MAIN: u16 = 2;
/// The object is a ghost. If [`Rule::ghost_marks`] is 1, a ghost may be cached at the same time.
const GHOST: u16 = 1 << 2;
/// The object is a ghost, and a request has marked it as such. After its next miss, it enters the main queue.
const MARKED: u16 = 1 << 3;
/// Uses of this object, which is in the small queue, are counted, because enough objects came after it.
const COUNTS: u16 = 1 << 4;
const USES_SHIFT: u32 = 5;
const USES: u16 = 0b11 << USES_SHIFT;
const STALE_SHIFT: u32 = 7;
/// Largest number of stale entries that an object can have in the queue of ghosts.
const STALE_MOST: u16 = u16::MAX >> STALE_SHIFT;

/// A cache with a small queue, a main queue and a queue of ghosts.
#[derive(Debug)]
pub struct ThreeQueues<W> {
    weigh: W,
    rule: Rule,
    capacity: u64,
    small_most: u64,
    main_most: u64,
    ghosts_most: u64,
    /// Number of objects that must follow an object into the small queue before its uses count.
    skipped: u32,
    state: Vec<u16>,
    /// The objects of the small queue, oldest first. The fields `main` and `ghosts` hold the objects of the main queue
    /// and of the queue of ghosts.
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: VecDeque<u32>,
    /// Number of stale entries in `ghosts`. An entry is stale if its object came back from the ghosts into the cache.
    stale: usize,
    /// Total weight of the objects in the small queue. The fields `main_held` and `ghosts_held` are the weights of the
    /// main queue and of the ghosts.
    small_held: u64,
    main_held: u64,
    ghosts_held: u64,
    has_evicted: bool,
}

impl<W: Weigh> ThreeQueues<W> {
    /// Creates an empty cache for objects with numbers below `objects`.
    #[must_use]
    pub fn new(rule: Rule, capacity: u64, objects: u32, weigh: W) -> Self {
        // An empty small queue would admit nothing.
        let small_most = ((capacity as f64 * rule.small) as u64).clamp(1, capacity);
        let small_objects = small_most as f64 / weigh.mean();
        let skipped = match rule.skip {
            Skip::Up(share) => (small_objects * share).ceil(),
            Skip::Down(share) => (small_objects * share).floor(),
        };
        Self {
            weigh,
            rule,
            capacity,
            small_most,
            main_most: capacity - small_most,
            ghosts_most: (capacity as f64 * rule.ghosts) as u64,
            skipped: skipped as u32,
            state: vec![0; objects as usize],
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            stale: 0,
            small_held: 0,
            main_held: 0,
            ghosts_held: 0,
            has_evicted: false,
        }
    }

    fn push_small(&mut self, id: u32) {
        self.small.push_back(id);
        self.small_held += self.weigh.of(id);
        let word = &mut self.state[id as usize];
        *word = *word & !(PLACE | USES | COUNTS) | SMALL | if self.skipped == 0 { COUNTS } else { 0 };
        // The object before `skipped` others is old enough now.
        if let Some(at) = self.small.len().checked_sub(1 + self.skipped as usize) {
            self.state[self.small[at] as usize] |= COUNTS;
        }
    }

    fn push_main(&mut self, id: u32, uses: u16) {
        self.main.push_back(id);
        self.main_held += self.weigh.of(id);
        let word = &mut self.state[id as usize];
        *word = *word & !(PLACE | USES | COUNTS) | MAIN | uses << USES_SHIFT;
    }

    fn push_ghost(&mut self, id: u32) {
        let weight = self.weigh.of(id);
        if self.state[id as usize] & GHOST != 0 || weight > self.ghosts_most {
            return;
        }
        while self.ghosts_held + weight > self.ghosts_most {
            self.forget_oldest_ghost();
        }
        if self.ghosts.len() == self.ghosts.capacity() && self.stale * 4 >= self.ghosts.len() {
            self.drop_stale();
        }
        self.ghosts.push_back(id);
        self.ghosts_held += weight;
        self.state[id as usize] |= GHOST;
    }

    fn forget_oldest_ghost(&mut self) {
        loop {
            let id = self.ghosts.pop_front().expect("ghosts that weigh something are queued");
            let word = &mut self.state[id as usize];
            if *word >> STALE_SHIFT == 0 {
                *word &= !(GHOST | MARKED);
                self.ghosts_held -= self.weigh.of(id);
                return;
            }
            *word -= 1 << STALE_SHIFT;
            self.stale -= 1;
        }
    }

    /// Drops all stale entries (those of objects that have returned) from the queue of ghosts.
    fn drop_stale(&mut self) {
        let state = &mut self.state;
        self.ghosts.retain(|id| {
            let word = &mut state[*id as usize];
            let is_stale = *word >> STALE_SHIFT != 0;
            *word -= u16::from(is_stale) << STALE_SHIFT;
            !is_stale
        });
        self.stale = 0;
    }

    /// Removes an object from the ghosts. The object's entry in the queue of ghosts stays, and is then stale.
    fn remove_ghost(&mut self, id: u32) {
        if self.state[id as usize] >> STALE_SHIFT == STALE_MOST {
            self.drop_stale();
        }
        let word = &mut self.state[id as usize];
        *word = (*word & !(GHOST | MARKED)) + (1 << STALE_SHIFT);
        self.stale += 1;
        self.ghosts_held -= self.weigh.of(id);
    }

    /// Evicts an object from the small queue: the oldest one with fewer than `promote` counted uses, which becomes a
    /// ghost. All objects that are older than this one move to the main queue.
    fn evict_small(&mut self) {
        while let Some(id) = self.small.pop_front() {
            self.small_held -= self.weigh.of(id);
            let word = &mut self.state[id as usize];
            if (*word & USES) >> USES_SHIFT >= self.rule.promote {
                self.push_main(id, 0);
                continue;
            }
            *word &= !(PLACE | USES | COUNTS);
            return self.push_ghost(id);
        }
    }

    fn evict_main(&mut self) {
        while let Some(id) = self.main.pop_front() {
            self.main_held -= self.weigh.of(id);
            let word = &mut self.state[id as usize];
            let uses = (*word & USES) >> USES_SHIFT;
            if uses == 0 {
                *word &= !PLACE;
                return;
            }
            self.push_main(id, uses.min(self.rule.rounds) - 1);
        }
    }

    #[cold]
    #[inline(never)]
    fn miss(&mut self, id: u32) {
        let weight = self.weigh.of(id);
        let word = self.state[id as usize];
        let is_marked = word & MARKED != 0 || self.rule.ghost_marks == 0;
        let returns = word & GHOST != 0 && is_marked;
        if returns {
            self.remove_ghost(id);
        } else if word & GHOST != 0 {
            self.state[id as usize] |= MARKED;
        }
        if weight > self.small_most {
            return;
        }
        while self.small_held + self.main_held + weight > self.capacity {
            self.has_evicted = true;
            match self.main_held > self.main_most || self.small.is_empty() {
                true => self.evict_main(),
                false => self.evict_small(),
            }
        }
        let fills_main = self.rule.fills_main && !self.has_evicted && self.small_held >= self.small_most;
        match returns || fills_main {
            true => self.push_main(id, 0),
            false => self.push_small(id),
        }
    }
}

impl<W: Weigh> Cache for ThreeQueues<W> {
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        let word = &mut self.state[id as usize];
        if *word & PLACE == 0 {
            self.miss(id);
            return false;
        }
        let counts = *word & (MAIN | COUNTS) != 0;
        if counts && *word & USES != USES {
            *word += 1 << USES_SHIFT;
        }
        true
    }

    #[inline]
    fn look_far(&self, id: u32) {
        prefetch(self.state.as_ptr().wrapping_add(id as usize));
    }

    fn bytes(&self) -> u64 {
        let queues = [&self.small, &self.main, &self.ghosts].map(|queue| queue.capacity() * size_of::<u32>());
        (self.state.capacity() * size_of::<u16>() + queues.iter().sum::<usize>()) as u64
    }
}
