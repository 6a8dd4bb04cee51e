//! LIRS, naively: a stack and a queue.

use crate::Naive;
use crate::lists::{Ids, Weights};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Lir,
    Hir,
    Gone,
}

pub struct Lirs {
    weights: Weights,
    capacity: u64,
    lir_most: u64,
    hir_most: u64,
    /// The stack of LIRS: each object with its kind. The first entry is the top of the stack.
    stack: Vec<(u32, Kind)>,
    queue: Ids,
}

impl Lirs {
    pub fn new(weights: Weights, capacity: u64) -> Self {
        let hir_most = ((0.01 * capacity as f64) as u64).max(1);
        let lir_most = capacity.saturating_sub(hir_most);
        Self { weights, capacity, lir_most, hir_most, stack: Vec::new(), queue: Ids::default() }
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.stack.iter().position(|(listed, _)| *listed == id)
    }

    fn lir_held(&self) -> u64 {
        self.weights.sum(self.stack.iter().filter(|(_, kind)| *kind == Kind::Lir).map(|(id, _)| id))
    }

    fn evict_hir(&mut self) {
        let id = self.queue.take_oldest().unwrap();
        if let Some(at) = self.place(id) {
            self.stack[at].1 = Kind::Gone;
        }
    }

    fn make_hir_room(&mut self, weight: u64) {
        while self.weights.sum(&self.queue.0) + weight > self.hir_most {
            self.evict_hir();
        }
    }

    fn prune(&mut self) {
        while self.stack.len() > 1 && self.stack.last().is_some_and(|(_, kind)| *kind != Kind::Lir) {
            self.stack.pop();
        }
    }

    /// Demotes LIR objects until there is room among them for another object of weight `weight`, or until none is left.
    fn demote_for(&mut self, weight: u64) {
        while self.lir_held() + weight > self.lir_most && self.lir_held() > 0 {
            self.prune();
            let (id, _) = self.stack.pop().unwrap();
            let its = self.weights.of(id);
            if its <= self.hir_most {
                self.make_hir_room(its);
                self.queue.push(id);
            }
            // The object on top is on its way to become LIR and stops pruning.
            while self.stack.len() > 1 && self.stack.last().is_some_and(|(_, kind)| *kind != Kind::Lir) {
                self.stack.pop();
            }
        }
    }

    /// Moves an object of the stack to its top and makes it LIR.
    fn promote(&mut self, id: u32) {
        let at = self.place(id).unwrap();
        self.stack.remove(at);
        let weight = self.weights.of(id);
        // While others are demoted, the object is on top, and is no LIR object yet.
        self.stack.insert(0, (id, Kind::Gone));
        self.demote_for(weight);
        self.stack[0].1 = Kind::Lir;
    }

    fn insert(&mut self, id: u32) {
        let weight = self.weights.of(id);
        if weight > self.lir_most.max(1) || weight > self.hir_most {
            return;
        }
        if self.lir_held() + weight <= self.lir_most {
            while self.lir_held() + self.weights.sum(&self.queue.0) + weight > self.capacity {
                self.evict_hir();
            }
            return self.stack.insert(0, (id, Kind::Lir));
        }
        self.make_hir_room(weight);
        self.stack.insert(0, (id, Kind::Hir));
        self.queue.push(id);
    }

    fn limit_stack(&mut self) {
        while self.weights.sum(self.stack.iter().map(|(id, _)| id)) > 2 * self.capacity {
            let Some(lowest) = self.stack.iter().rposition(|(_, kind)| *kind == Kind::Gone) else { return };
            self.stack.remove(lowest);
        }
    }

    fn request_any(&mut self, id: u32) -> bool {
        match self.place(id).map(|at| (at, self.stack[at].1)) {
            Some((at, Kind::Hir)) => {
                let object = self.stack.remove(at);
                self.stack.insert(0, object);
                if self.lir_most > 0 {
                    self.queue.take(id);
                    self.promote(id);
                }
                true
            }
            Some((at, Kind::Gone)) => {
                if self.lir_most == 0 {
                    self.stack.remove(at);
                    self.insert(id);
                } else {
                    self.promote(id);
                }
                false
            }
            Some((_, Kind::Lir)) => unreachable!("handled before"),
            None if self.queue.touch(id) => {
                if self.hir_most > 1 {
                    self.demote_for(self.weights.of(id));
                }
                if self.queue.has(id) {
                    self.stack.insert(0, (id, Kind::Hir));
                }
                true
            }
            None => {
                self.insert(id);
                false
            }
        }
    }
}

impl Naive for Lirs {
    fn request(&mut self, id: u32) -> bool {
        if let Some(at) = self.place(id).filter(|at| self.stack[*at].1 == Kind::Lir) {
            self.stack.remove(at);
            self.stack.insert(0, (id, Kind::Lir));
            self.prune();
            return true;
        }
        let is_hit = self.request_any(id);
        self.limit_stack();
        is_hit
    }
}
