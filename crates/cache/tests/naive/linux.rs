//! Naive implementations of two policies with active and inactive lists: Linux's and Highwater's.

use crate::Naive;
use crate::lists::Ids;
use engine::lru::{Left, Workingset};
use engine::page_cache::Shadow;
use std::collections::{HashMap, HashSet};

#[derive(Default)]
pub struct Classic {
    pub capacity: usize,
    pub active: Ids,
    pub inactive: Ids,
    pub referenced: HashSet<u32>,
    pub workingset: HashSet<u32>,
    /// For each page that left memory: the clock's value when the page left, and whether the page had been active.
    pub shadows: HashMap<u32, (u64, bool)>,
    pub clock: u64,
    pub has_refaulted: bool,
    pub evicted: usize,
}

impl Classic {
    fn age(&mut self, most: usize) {
        for _ in 0..most {
            let Some(id) = self.active.take_oldest() else { return };
            self.workingset.insert(id);
            self.inactive.push(id);
        }
    }

    fn evict(&mut self) {
        if self.evicted.is_multiple_of(32) {
            let (active, inactive) = (self.active.0.len(), self.inactive.0.len());
            if self.has_refaulted || inactive < active {
                self.age((32 * active).div_ceil(inactive.max(1)));
            }
            self.has_refaulted = false;
        }
        self.evicted += 1;
        if self.inactive.0.is_empty() {
            self.age(32);
        }
        let id = self.inactive.take_oldest().unwrap();
        self.referenced.remove(&id);
        self.shadows.insert(id, (self.clock, self.workingset.remove(&id)));
        self.clock += 1;
    }
}

impl Naive for Classic {
    fn request(&mut self, id: u32) -> bool {
        if self.active.has(id) || self.inactive.has(id) {
            let is_second = !self.referenced.insert(id);
            if is_second && self.inactive.take(id) {
                self.referenced.remove(&id);
                self.active.push(id);
                self.clock += 1;
            }
            return true;
        }
        if self.active.0.len() + self.inactive.0.len() == self.capacity {
            self.evict();
        }
        self.referenced.insert(id);
        match self.shadows.remove(&id) {
            Some((left, was_active)) if self.clock - left <= self.active.0.len() as u64 => {
                self.clock += 1;
                self.has_refaulted = true;
                self.active.push(id);
                if was_active {
                    self.workingset.insert(id);
                }
            }
            _ => self.inactive.push(id),
        }
        false
    }
}

#[derive(Default)]
pub struct Highwater {
    pub capacity: usize,
    pub waiting: Ids,
    pub active: Ids,
    pub inactive: Ids,
    /// Pages of `waiting` that refaulted soon after they left memory.
    pub returned: HashSet<u32>,
    /// Pages that were used since the scan last examined them. Of these, `used_again` has the pages that were used
    /// twice.
    pub used: HashSet<u32>,
    pub used_again: HashSet<u32>,
    pub shadows: HashMap<u32, Shadow>,
    /// The engine's own record of pages that left memory. This model does not reimplement the record, because tests of
    /// the engine cover it.
    pub workingset: Workingset,
    pub rounds_left: usize,
}

impl Highwater {
    fn waiting_max(&self) -> usize {
        (self.capacity / 64).clamp(1, 64)
    }

    fn leave(&mut self, id: u32, kind: Left) {
        self.used.remove(&id);
        self.used_again.remove(&id);
        self.shadows.insert(id, self.workingset.shadow(kind));
        let listed = self.active.0.len() + self.inactive.0.len();
        self.workingset.note_left(kind.only(1), listed.max(self.capacity / 8) as u32);
    }

    /// Decides whether a page at the end of `waiting` leaves the cache. Returns the kind of eviction to record if it
    /// does, and `None` if it goes to the inactive list instead.
    fn drops(&mut self, id: u32) -> Option<Left> {
        if self.returned.remove(&id) {
            return (!self.used_again.contains(&id)).then_some(Left::Returned);
        }
        let is_listed = self.workingset.is_missed_more(Left::UsedOnce)
            && !(self.workingset.count_judged(Left::UsedOnce, 1) + 1).is_multiple_of(32);
        (!is_listed && !self.used_again.contains(&id)).then_some(Left::UsedOnce)
    }

    fn age(&mut self) {
        for _ in 0..32 {
            let Some(id) = self.active.take_oldest() else { return };
            let (first, second) = (self.used.remove(&id), self.used_again.remove(&id));
            match first || second {
                true => self.active.push(id),
                false => self.inactive.push(id),
            }
        }
    }

    fn evict(&mut self) {
        while self.waiting.0.len() >= self.waiting_max() {
            let id = self.waiting.take_oldest().unwrap();
            if let Some(kind) = self.drops(id) {
                return self.leave(id, kind);
            }
            self.inactive.push(id);
        }
        loop {
            if self.rounds_left == 0 {
                self.rounds_left = 32;
                if self.active.0.len() > self.inactive.0.len() {
                    self.age();
                }
            }
            while self.inactive.0.is_empty() && !self.active.0.is_empty() {
                self.age();
            }
            let Some(id) = self.inactive.take_oldest() else {
                let id = self.waiting.take_oldest().unwrap();
                self.returned.remove(&id);
                if self.used_again.remove(&id) {
                    self.used.remove(&id);
                    self.active.push(id);
                    continue;
                }
                return self.leave(id, Left::Evicted);
            };
            self.rounds_left -= 1;
            match (self.used.remove(&id), self.used_again.remove(&id)) {
                (true, true) => self.active.push(id),
                (false, true) => unreachable!("a second use follows a first"),
                (_, false) => return self.leave(id, Left::Evicted),
            }
            assert!(self.waiting.0.len() < self.waiting_max(), "no page has come to wait meanwhile");
        }
    }
}

impl Naive for Highwater {
    fn request(&mut self, id: u32) -> bool {
        if self.waiting.has(id) || self.active.has(id) || self.inactive.has(id) {
            if !self.used.insert(id) {
                self.used_again.insert(id);
            }
            return true;
        }
        if self.waiting.0.len() + self.active.0.len() + self.inactive.0.len() == self.capacity {
            self.evict();
        }
        self.used.insert(id);
        let is_missed = self.shadows.remove(&id).is_some_and(|shadow| self.workingset.note_refault(shadow));
        if is_missed {
            let number = self.workingset.count_judged(Left::Returned, 1);
            let is_listed = match self.workingset.is_missed_more(Left::Returned) {
                true => !number.is_multiple_of(32),
                false => number.is_multiple_of(8),
            };
            if is_listed {
                self.inactive.push(id);
                return false;
            }
        }
        if self.waiting.0.len() >= self.waiting_max() {
            let oldest = self.waiting.take_oldest().unwrap();
            self.returned.remove(&oldest);
            self.inactive.push(oldest);
        }
        if is_missed {
            self.returned.insert(id);
        }
        self.waiting.push(id);
        false
    }
}
