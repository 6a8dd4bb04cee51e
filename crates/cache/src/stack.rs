//! LRU for caches of all sizes at once. The number of different objects that were requested since an object's last
//! request decides in which cache sizes the next request is a hit.
//!
//! R. L. Mattson et al., "Evaluation techniques for storage hierarchies", 1970; with a Fenwick tree over the positions
//! of last requests, where F. Olken, "Efficient methods for calculating the success function of fixed space replacement
//! policies", 1981, has a balanced tree.

use crate::list::NONE;

/// The state of a computation of reuse distances. The reuse distance of a request is the number of different objects
/// that were requested since the last request for the same object.
#[derive(Debug)]
pub struct Distances {
    /// A Fenwick tree over positions in the sequence of requests. It marks each position that has the last request for
    /// its object.
    sums: Vec<u32>,
    /// The object that was requested at each position.
    object: Vec<u32>,
    /// The position of each object's last request.
    last: Vec<u32>,
    marked: u32,
}

impl Distances {
    /// Creates the state in which no object was requested yet. Only objects with numbers below `objects` may be
    /// requested.
    #[must_use]
    pub fn new(objects: u32) -> Self {
        let positions = (objects as usize * 2).max(64);
        Self {
            sums: vec![0; positions + 1],
            object: Vec::with_capacity(positions),
            last: vec![NONE; objects as usize],
            marked: 0,
        }
    }

    /// Requests an object. Returns the number of different objects that were requested since its last request, itself
    /// included; `None` at its first request. A cache of LRU with this many objects or more has the object.
    pub fn request(&mut self, id: u32) -> Option<u32> {
        let before = self.last[id as usize];
        let distance = (before != NONE).then(|| self.marked - self.sum_below(before));
        if before == NONE {
            self.marked += 1;
        } else {
            self.change(before, u32::MAX);
            self.object[before as usize] = NONE;
        }
        if self.object.len() + 1 == self.sums.len() {
            self.compact();
        }
        let position = self.object.len() as u32;
        self.object.push(id);
        self.last[id as usize] = position;
        self.change(position, 1);
        distance
    }

    /// Adds `by`, modulo 2^32, to the mark of a position.
    fn change(&mut self, position: u32, by: u32) {
        let mut at = position as usize + 1;
        while at < self.sums.len() {
            self.sums[at] = self.sums[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Returns the number of marked positions below `position`.
    fn sum_below(&self, position: u32) -> u32 {
        let (mut at, mut sum) = (position as usize, 0_u32);
        while at > 0 {
            sum = sum.wrapping_add(self.sums[at]);
            at &= at - 1;
        }
        sum
    }

    /// Drops the positions that are not marked, and renumbers the marked positions from 0 on in unchanged order. At
    /// most half of all positions are marked.
    fn compact(&mut self) {
        self.object.retain(|id| *id != NONE);
        for (position, id) in self.object.iter().enumerate() {
            self.last[*id as usize] = position as u32;
        }
        self.sums.fill(0);
        for at in 1..self.sums.len() {
            self.sums[at] += u32::from(at <= self.object.len());
            let above = at + (at & at.wrapping_neg());
            if above < self.sums.len() {
                self.sums[above] += self.sums[at];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_a_list() {
        let mut state = 1_u64;
        let (mut distances, mut list) = (Distances::new(90), Vec::new());
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = ((state >> 33) % 90).min((state >> 45) % 90) as u32;
            let at = list.iter().position(|listed| *listed == id);
            if let Some(at) = at {
                list.remove(at);
            }
            list.insert(0, id);
            assert_eq!(distances.request(id), at.map(|at| at as u32 + 1));
        }
    }
}
