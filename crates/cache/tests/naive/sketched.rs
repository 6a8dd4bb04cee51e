//! Naive implementations of the policies W-TinyLFU and LHD, with which the real ones are compared.

use crate::Naive;
use crate::lists::{Ids, Weights};
use std::sync::Arc;

pub struct WTinyLfu {
    weights: Weights,
    capacity: u64,
    main_most: u64,
    /// The lists of W-TinyLFU: the window, then the two segments of the main part, first the one for objects with one
    /// use (probation), then the one for objects used again (protected).
    lists: [Ids; 3],
    most: [u64; 3],
    hashes: Arc<[[u32; 2]]>,
    counters: Vec<u64>,
    counted: u64,
    halve_at: u64,
}

impl WTinyLfu {
    pub fn new(weights: Weights, capacity: u64, hashes: Arc<[[u32; 2]]>) -> Self {
        let window = (capacity as f64 * 0.01) as u64;
        let main = capacity - window;
        let objects = ((main as f64 / weights.mean()).ceil() as u64).max(1);
        // 14.4 counters an object, for an error of one in a thousand with ten hashes.
        let counters = ((1000_f64.ln() / 2_f64.ln().powi(2) * objects as f64).ceil() as usize).max(10);
        Self {
            weights,
            capacity,
            main_most: main,
            lists: Default::default(),
            most: [window.max(1), (0.2 * main as f64) as u64, (0.8 * main as f64) as u64],
            hashes,
            counters: vec![0; if counters == 10 { 20 } else { counters }],
            counted: 0,
            halve_at: 32 * objects,
        }
    }

    fn places(&self, id: u32) -> [usize; 10] {
        let [first, step] = self.hashes[id as usize];
        std::array::from_fn(|n| first.wrapping_add(step.wrapping_mul(n as u32)) as usize % self.counters.len())
    }

    fn add(&mut self, id: u32) {
        self.places(id).into_iter().for_each(|place| self.counters[place] += 1);
    }

    fn estimate(&self, id: u32) -> u64 {
        self.places(id).into_iter().map(|place| self.counters[place]).min().unwrap()
    }

    fn held(&self, list: usize) -> u64 {
        self.weights.sum(&self.lists[list].0)
    }

    fn victim_list(&self) -> usize {
        if self.lists[1].0.is_empty() { 2 } else { 1 }
    }

    fn admit(&mut self, id: u32) {
        let fits = |list: usize| self.held(list) + self.weights.of(id) <= self.most[list];
        let list = if !fits(1) && fits(2) { 2 } else { 1 };
        self.lists[list].push(id);
    }

    fn evict(&mut self) {
        loop {
            let Some(id) = self.lists[0].take_oldest() else {
                self.lists[self.victim_list()].take_oldest();
                return;
            };
            let is_full = |this: &Self| this.held(1) + this.held(2) + this.weights.of(id) > this.main_most;
            let was_full = is_full(self);
            let rival = self.lists[self.victim_list()].oldest();
            if !was_full {
                self.admit(id);
            } else if self.estimate(id) > self.estimate(rival.unwrap()) {
                while is_full(self) {
                    self.lists[self.victim_list()].take_oldest();
                }
                self.admit(id);
            }
            self.add(id);
            if was_full {
                return;
            }
        }
    }
}

impl Naive for WTinyLfu {
    fn request(&mut self, id: u32) -> bool {
        if self.lists[0].touch(id) {
            return true;
        }
        if self.lists[1].has(id) || self.lists[2].has(id) {
            self.lists[1].take(id);
            self.lists[2].take(id);
            self.lists[2].push(id);
            while self.held(2) > self.most[2] {
                let cooled = self.lists[2].take_oldest().unwrap();
                self.lists[1].push(cooled);
                while self.held(1) > self.most[1].max(1) {
                    self.lists[1].take_oldest();
                }
            }
            self.add(id);
            self.counted += 1;
            if self.counted == self.halve_at {
                self.counted = 0;
                self.counters.iter_mut().for_each(|counter| *counter /= 2);
            }
            return true;
        }
        let weight = self.weights.of(id);
        if weight <= self.most[0] && weight <= self.most[1].max(1) {
            while (0..3).map(|list| self.held(list)).sum::<u64>() + weight > self.capacity {
                self.evict();
            }
            self.lists[0].push(id);
            self.add(id);
        }
        false
    }
}

/// LHD (least hit density) as it is during the first 2^20 requests. Until then it has computed no hit densities, and
/// uses a fixed function of an object's class and age. Ages are in units of 1,024 requests.
pub struct Lhd {
    weights: Weights,
    capacity: u64,
    /// For each cached object: its number, the time of its last use, its ages at its last two hits, and whether LHD
    /// explores it. An explored object stays until its next hit, so that LHD sees hits at high ages.
    tags: Vec<(u32, u32, u32, u32, bool)>,
    now: u32,
    remembered: Vec<u32>,
    victim_density: f32,
    explorers_left: i64,
    random: u64,
}

impl Lhd {
    pub fn new(weights: Weights, capacity: u64) -> Self {
        let explorers_left = (capacity as f64 * 0.01) as i64;
        let (tags, remembered) = (Vec::new(), Vec::new());
        Self { weights, capacity, tags, now: 0, remembered, victim_density: 0.0, explorers_left, random: 1 }
    }

    fn below(&mut self, end: u32) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.random;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^= value >> 31;
        (((value >> 32) * u64::from(end)) >> 32) as u32
    }

    fn density(&self, at: usize) -> f32 {
        let (id, used_at, age, earlier, explores) = self.tags[at];
        // The class is the number of times that the sum of the ages can be doubled before it exceeds the largest age.
        let class = match age + earlier {
            0 => 15,
            sum => (0..15).find(|class| sum << class >= 20_000).unwrap_or(15),
        };
        let now = (self.now - used_at) >> 10;
        let density = (17 + class) as f32 / (now + 1) as f32 / self.weights.of(id) as f32;
        density + if explores { 1.0 } else { 0.0 }
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.tags.iter().position(|(listed, ..)| *listed == id)
    }

    fn evict(&mut self) {
        let mut worst: Option<(f32, usize)> = None;
        let random: Vec<usize> = (0..8).map(|_| self.below(self.tags.len() as u32) as usize).collect();
        let eight_last: Vec<usize> = {
            // Places are used in turn, so the order of comparison is that of the places.
            let count = self.remembered.len();
            let mut places = [None; 8];
            (count.saturating_sub(8)..count).for_each(|n| places[n % 8] = Some(self.remembered[n]));
            places.into_iter().flatten().filter_map(|id| self.position(id)).collect()
        };
        for at in random.into_iter().chain(eight_last) {
            let density = self.density(at);
            if worst.is_none_or(|(worst, _)| density < worst) {
                worst = Some((density, at));
            }
        }
        let (density, at) = worst.unwrap();
        self.victim_density = 0.9 * self.victim_density + (1.0 - 0.9_f32) * density;
        let (id, .., explores) = self.tags.swap_remove(at);
        if explores {
            self.explorers_left += self.weights.of(id) as i64;
        }
    }

    fn note_use(&mut self, at: usize, is_new: bool) {
        let wants_to_explore = self.below(32) == 0;
        let explores = wants_to_explore && self.explorers_left > 0;
        let id = self.tags[at].0;
        if explores {
            self.explorers_left -= self.weights.of(id) as i64;
        }
        (self.tags[at].1, self.tags[at].4) = (self.now, explores);
        if is_new && !wants_to_explore && self.density(at) < self.victim_density {
            self.remembered.push(id);
        }
        self.now += 1;
    }
}

impl Naive for Lhd {
    fn request(&mut self, id: u32) -> bool {
        if let Some(at) = self.position(id) {
            let (_, used_at, age, _, explores) = self.tags[at];
            if explores {
                self.explorers_left += self.weights.of(id) as i64;
            }
            self.tags[at] = (id, used_at, (self.now - used_at) >> 10, age, explores);
            self.note_use(at, false);
            return true;
        }
        let weight = self.weights.of(id);
        if weight <= self.capacity {
            while self.weights.sum(self.tags.iter().map(|(id, ..)| id)) + weight > self.capacity {
                self.evict();
            }
            self.tags.push((id, 0, 0, 20_000, false));
            self.note_use(self.tags.len() - 1, true);
        }
        false
    }
}
