//! A naive implementation of the multi-generational LRU of Linux 6.1, 6.14 and 7.2. All pages are file pages that are
//! read by system calls.

use crate::Naive;
use crate::lists::Ids;
use cache::policy::multigen::Version;
use std::collections::HashMap;

/// The marks by which the multi-gen LRU records a page's uses: whether it was used, how often it was used after that
/// (at most three times), and the workingset flag.
#[derive(Clone, Copy, Default, PartialEq)]
struct Marks {
    referenced: bool,
    counted: u32,
    workingset: bool,
    saturated: bool,
}

/// The counts of one tier. In each pair, the first number counts pages evicted or protected, and the second one pages
/// refaulted. `now` is for the present oldest generation, and `average` is a moving average over the generations that
/// were the oldest before it.
#[derive(Clone, Copy, Default)]
struct Counts {
    now: [u64; 2],
    average: [u64; 2],
}

impl Counts {
    fn rate(self) -> [u64; 2] {
        [0, 1].map(|n: usize| self.now[n] + self.average[n])
    }
}

const TOTAL: usize = 0;
const REFAULTED: usize = 1;

pub struct Multigen {
    version: Version,
    capacity: usize,
    /// Pages by generation; the oldest comes first.
    generations: Vec<Ids>,
    oldest: u64,
    marks: HashMap<u32, Marks>,
    /// For each page that left memory: the number of the oldest generation at that time, and the page's marks.
    shadows: HashMap<u32, (u64, Marks)>,
    tiers: [Counts; 4],
    tier_limit: usize,
    /// Number of pages that the present round may still evict.
    left_in_round: usize,
    /// Number of pages that the present round may still examine.
    left_to_look_at: usize,
}

impl Multigen {
    pub fn new(version: Version, capacity: u64) -> Self {
        Self {
            version,
            capacity: capacity as usize,
            generations: vec![Ids::default(); 4],
            oldest: 0,
            marks: HashMap::new(),
            shadows: HashMap::new(),
            tiers: Default::default(),
            tier_limit: 0,
            left_in_round: 0,
            left_to_look_at: 0,
        }
    }

    fn is_6_1(&self) -> bool {
        self.version == Version::Linux6_1
    }

    /// Returns the marks of a page after one more use. In Linux 6.1 the second use marks the page as part of the
    /// workingset; in later versions the fifth use does.
    fn used(&self, mut marks: Marks) -> Marks {
        if !marks.referenced {
            marks.referenced = true;
        } else if self.is_6_1() {
            if !marks.workingset {
                marks.workingset = true;
            } else {
                marks.counted = (marks.counted + 1).min(3);
                marks.saturated |= marks.counted == 3;
            }
        } else if marks.counted < 3 && (marks.counted < 2 || !marks.workingset) {
            marks.counted += 1;
        } else {
            (marks.counted, marks.workingset, marks.saturated) = (3, true, true);
        }
        marks
    }

    fn tier(&self, marks: Marks) -> usize {
        match (self.is_6_1(), marks.workingset, marks.counted) {
            (true, false, _) | (false, false, 0) => 0,
            (true, true, 0) | (false, false, 1) => 1,
            (true, true, 1 | 2) | (false, false, _) => 2,
            (_, true, _) => 3,
        }
    }

    /// Returns the marks that a page keeps when eviction spares it and moves it from the oldest generation to the next:
    /// none in Linux 6.1, and only the workingset mark later.
    fn cleared(&self, marks: Marks) -> Marks {
        Marks { workingset: marks.workingset && !self.is_6_1(), ..Marks::default() }
    }

    fn pages(&self) -> usize {
        self.generations.iter().map(|pages| pages.0.len()).sum()
    }

    fn fold(&mut self) {
        for tier in &mut self.tiers {
            tier.average = [0, 1].map(|n: usize| (tier.average[n] + tier.now[n]) / 2);
            tier.now = [0; 2];
        }
    }

    fn begin_generation(&mut self) {
        assert!(self.generations.len() < 4, "these versions begin none while there are four");
        self.generations.push(Ids::default());
    }

    fn wants_generation(&self) -> bool {
        let count = self.generations.len();
        if !self.is_6_1() {
            return count <= 3;
        }
        let (young, old) = (self.generations[count - 1].0.len(), count.checked_sub(3));
        let old = old.map_or(0, |old| self.generations[old].0.len());
        count <= 2 || count == 3 && (young * 2 > self.pages() || old * 4 < self.pages())
    }

    fn find_tier_limit(&self) -> usize {
        let [total, refaulted] = self.tiers[0].rate();
        let margin = if self.is_6_1() { 200 } else { 150 };
        let goes = |tier: &&Counts| {
            let its = tier.rate();
            its[REFAULTED] < 64 || its[REFAULTED] * (total + 64) * 100 <= (refaulted + 1) * its[TOTAL] * margin
        };
        self.tiers[1..].iter().take_while(goes).count()
    }

    fn evict(&mut self) {
        loop {
            if self.left_in_round == 0 || self.left_to_look_at == 0 {
                if self.wants_generation() {
                    self.begin_generation();
                }
                self.tier_limit = self.find_tier_limit();
                (self.left_in_round, self.left_to_look_at) = (64, self.pages().min(4096));
            }
            if self.generations.len() > 2 && self.generations[0].0.is_empty() {
                self.fold();
                while self.generations.len() > 2 && self.generations[0].0.is_empty() {
                    self.generations.remove(0);
                    self.oldest += 1;
                }
            }
            if self.generations.len() == 2 {
                self.begin_generation();
                continue;
            }
            let id = self.generations[0].take_oldest().unwrap();
            self.left_to_look_at -= 1;
            let marks = self.marks[&id];
            let tier = self.tier(marks);
            let is_full = marks.workingset && marks.counted == 3;
            let is_lifted = !self.is_6_1() && marks.saturated;
            let is_protected = !is_lifted && (tier > self.tier_limit || self.is_6_1() && is_full);
            if is_lifted || is_protected {
                self.tiers[tier].now[TOTAL] += u64::from(is_protected);
                let cleared = self.cleared(marks);
                self.marks.insert(id, cleared);
                self.generations[1].push(id);
                continue;
            }
            self.left_in_round -= 1;
            return self.leave(id, marks);
        }
    }

    fn leave(&mut self, id: u32, marks: Marks) {
        self.marks.remove(&id);
        // In 6.1 an isolated page loses the mark of the first use; if it had none, it loses all others.
        let left = match self.is_6_1() {
            true if marks.referenced => Marks { referenced: false, saturated: false, ..marks },
            true => Marks::default(),
            false => marks,
        };
        self.shadows.insert(id, (self.oldest, left));
        self.tiers[self.tier(left)].now[TOTAL] += 1;
    }

    /// Counts the refault of a page that left memory with the marks `left`, at a time when the oldest generation was
    /// `left_at`. Returns the marks that the page gets as it comes back to memory.
    fn returned(&mut self, left_at: u64, left: Marks) -> Marks {
        let youngest = self.oldest + self.generations.len() as u64 - 1;
        let is_recent = if self.is_6_1() { left_at == self.oldest } else { youngest.abs_diff(left_at) < 4 };
        if !is_recent {
            return Marks::default();
        }
        let tier = self.tier(left);
        self.tiers[tier].now[REFAULTED] += 1;
        match self.is_6_1() {
            true if left.workingset && left.counted >= 2 => Marks { workingset: true, counted: 3, ..Marks::default() },
            true => Marks::default(),
            false if left.workingset => Marks { workingset: true, ..Marks::default() },
            false if left.counted > 0 => Marks { referenced: true, counted: left.counted, ..Marks::default() },
            false => Marks::default(),
        }
    }

    fn generation_of_new(&self, marks: Marks) -> usize {
        let youngest = self.generations.len() - 1;
        let distance = match self.version {
            Version::Linux6_1 => return if youngest > 2 { 1 } else { 0 },
            Version::Linux6_14 if marks.workingset => 2,
            Version::Linux6_14 => 3,
            Version::Linux7_2 => 3 - u64::from(marks.workingset) - u64::from(marks.referenced),
        };
        youngest.saturating_sub(distance as usize)
    }
}

impl Naive for Multigen {
    fn request(&mut self, id: u32) -> bool {
        if let Some(marks) = self.marks.get(&id).copied() {
            if !marks.saturated {
                let used = self.used(marks);
                self.marks.insert(id, used);
            }
            return true;
        }
        if self.pages() == self.capacity {
            self.evict();
        }
        let marks = self.shadows.remove(&id).map(|(at, left)| self.returned(at, left)).unwrap_or_default();
        let marks = self.used(marks);
        let at = self.generation_of_new(marks);
        self.generations[at].push(id);
        self.marks.insert(id, marks);
        false
    }
}
