//! 2Q, ARC and the policies with three queues, naively.

use crate::Naive;
use crate::lists::{Ids, Weights};
use cache::policy::three_queues::{Rule, Skip};
use std::collections::{HashMap, HashSet};

pub struct TwoQ {
    pub weights: Weights,
    pub capacity: u64,
    pub new: Ids,
    pub ghosts: Ids,
    pub main: Ids,
}

impl TwoQ {
    fn evict(&mut self) {
        let new_most = self.capacity / 4;
        if !self.main.0.is_empty() && self.weights.sum(&self.new.0) <= new_most {
            self.main.take_oldest();
            return;
        }
        let ghost = self.new.take_oldest().unwrap();
        let (weight, most) = (self.weights.of(ghost), self.capacity / 2);
        if weight <= most {
            while self.weights.sum(&self.ghosts.0) + weight > most {
                self.ghosts.take_oldest();
            }
            self.ghosts.push(ghost);
        }
    }
}

impl Naive for TwoQ {
    fn request(&mut self, id: u32) -> bool {
        if self.main.touch(id) || self.new.has(id) {
            return true;
        }
        let (weight, new_most) = (self.weights.of(id), self.capacity / 4);
        let returns = self.ghosts.take(id);
        if weight > new_most.max(1) {
            return false;
        }
        while self.weights.sum(&self.new.0) + self.weights.sum(&self.main.0) + weight > self.capacity {
            self.evict();
        }
        if !returns {
            self.new.push(id);
            return false;
        }
        while self.weights.sum(&self.main.0) + weight > self.capacity - new_most {
            self.main.take_oldest();
        }
        self.main.push(id);
        false
    }
}

#[derive(Default)]
pub struct ArcLists {
    t1: Ids,
    t2: Ids,
    b1: Ids,
    b2: Ids,
    target: f64,
}

pub struct Arc(pub Weights, pub u64, pub ArcLists);

impl Arc {
    fn replace(&mut self, comes_from_b2: bool) {
        let Self(weights, _, lists) = self;
        let t1 = weights.sum(&lists.t1.0) as f64;
        let is_long = !lists.t1.0.is_empty() && (t1 > lists.target || comes_from_b2 && t1 == lists.target);
        match is_long || lists.t2.0.is_empty() {
            true => lists.b1.push(lists.t1.take_oldest().unwrap()),
            false => lists.b2.push(lists.t2.take_oldest().unwrap()),
        }
    }

    fn is_full(&self, weight: u64) -> bool {
        self.0.sum(&self.2.t1.0) + self.0.sum(&self.2.t2.0) + weight > self.1
    }
}

impl Naive for Arc {
    fn request(&mut self, id: u32) -> bool {
        let (weight, capacity) = (self.0.of(id), self.1);
        if self.2.t1.take(id) {
            self.2.t2.push(id);
            return true;
        }
        if self.2.t2.touch(id) {
            return true;
        }
        let [b1, b2] = [&self.2.b1, &self.2.b2].map(|ghosts| self.0.sum(&ghosts.0) as f64);
        let (in_b1, in_b2) = (self.2.b1.take(id), self.2.b2.take(id));
        if in_b1 || in_b2 {
            self.2.target = match in_b1 {
                true => (self.2.target + (b2 / b1).max(1.0)).min(capacity as f64),
                false => (self.2.target - (b1 / b2).max(1.0)).max(0.0),
            };
            while self.is_full(weight) {
                self.replace(in_b2);
            }
            self.2.t2.push(id);
            return false;
        }
        if weight > capacity {
            return false;
        }
        while self.is_full(weight) {
            let lists = &mut self.2;
            let all: u64 = [&lists.t1, &lists.t2, &lists.b1, &lists.b2].iter().map(|list| self.0.sum(&list.0)).sum();
            if self.0.sum(&lists.t1.0) + self.0.sum(&lists.b1.0) + weight > capacity {
                if lists.b1.take_oldest().is_none() {
                    lists.t1.take_oldest();
                    continue;
                }
            } else if all >= 2 * capacity {
                lists.b2.take_oldest();
            }
            self.replace(false);
        }
        self.2.t1.push(id);
        false
    }
}

pub struct ThreeQueues {
    weights: Weights,
    rule: Rule,
    capacity: u64,
    small_most: u64,
    skipped: usize,
    small: Ids,
    main: Ids,
    ghosts: Ids,
    uses: HashMap<u32, u16>,
    marked: HashSet<u32>,
    has_evicted: bool,
}

impl ThreeQueues {
    pub fn new(rule: Rule, weights: Weights, capacity: u64) -> Self {
        let small_most = ((capacity as f64 * rule.small) as u64).clamp(1, capacity);
        let objects = small_most as f64 / weights.mean();
        let skipped = match rule.skip {
            Skip::Up(share) => (objects * share).ceil() as usize,
            Skip::Down(share) => (objects * share).floor() as usize,
        };
        let lists = [Ids::default(), Ids::default(), Ids::default()];
        let [small, main, ghosts] = lists;
        let (uses, marked) = (HashMap::new(), HashSet::new());
        Self { weights, rule, capacity, small_most, skipped, small, main, ghosts, uses, marked, has_evicted: false }
    }

    fn push_ghost(&mut self, id: u32) {
        let (weight, most) = (self.weights.of(id), (self.capacity as f64 * self.rule.ghosts) as u64);
        if self.ghosts.has(id) || weight > most {
            return;
        }
        while self.weights.sum(&self.ghosts.0) + weight > most {
            let gone = self.ghosts.take_oldest().unwrap();
            self.marked.remove(&gone);
        }
        self.ghosts.push(id);
    }

    fn evict_small(&mut self) {
        while let Some(id) = self.small.take_oldest() {
            if self.uses.remove(&id).unwrap_or(0) < self.rule.promote {
                return self.push_ghost(id);
            }
            self.main.push(id);
        }
    }

    fn evict_main(&mut self) {
        while let Some(id) = self.main.take_oldest() {
            match self.uses.remove(&id).unwrap_or(0) {
                0 => return,
                uses => {
                    self.uses.insert(id, uses.min(self.rule.rounds) - 1);
                    self.main.push(id);
                }
            }
        }
    }
}

impl Naive for ThreeQueues {
    fn request(&mut self, id: u32) -> bool {
        let position = self.small.0.iter().position(|listed| *listed == id);
        if position.is_some_and(|newer| newer >= self.skipped) || self.main.has(id) {
            let uses = self.uses.entry(id).or_default();
            *uses = (*uses + 1).min(3);
        }
        if position.is_some() || self.main.has(id) {
            return true;
        }
        let weight = self.weights.of(id);
        let is_ghost = self.ghosts.has(id);
        let returns = is_ghost && (self.rule.ghost_marks == 0 || self.marked.contains(&id));
        if returns {
            self.ghosts.take(id);
            self.marked.remove(&id);
        } else if is_ghost {
            self.marked.insert(id);
        }
        if weight > self.small_most {
            return false;
        }
        while self.weights.sum(&self.small.0) + self.weights.sum(&self.main.0) + weight > self.capacity {
            self.has_evicted = true;
            let main_most = self.capacity - self.small_most;
            match self.small.0.is_empty() || self.weights.sum(&self.main.0) > main_most {
                true => self.evict_main(),
                false => self.evict_small(),
            }
        }
        let small_is_full = self.weights.sum(&self.small.0) >= self.small_most;
        match returns || self.rule.fills_main && !self.has_evicted && small_is_full {
            true => self.main.push(id),
            false => self.small.push(id),
        }
        false
    }
}
