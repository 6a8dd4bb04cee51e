//! Lists for naive policies: vectors that are searched from the start.

use std::sync::Arc;

/// Weights of objects, by id.
#[derive(Clone)]
pub struct Weights(pub Arc<[u32]>);

impl Weights {
    pub fn of(&self, id: u32) -> u64 {
        u64::from(self.0[id as usize])
    }

    pub fn sum<'a>(&self, ids: impl IntoIterator<Item = &'a u32>) -> u64 {
        ids.into_iter().map(|id| self.of(*id)).sum()
    }

    /// Returns the mean weight of all objects of the trace.
    pub fn mean(&self) -> f64 {
        self.0.iter().map(|weight| f64::from(*weight)).sum::<f64>() / self.0.len() as f64
    }
}

/// Objects, newest first.
#[derive(Clone, Default)]
pub struct Ids(pub Vec<u32>);

impl Ids {
    pub fn has(&self, id: u32) -> bool {
        self.0.contains(&id)
    }

    pub fn push(&mut self, id: u32) {
        assert!(!self.has(id), "{id} is on the list twice");
        self.0.insert(0, id);
    }

    /// Removes an object. Returns whether it was on the list.
    pub fn take(&mut self, id: u32) -> bool {
        let at = self.0.iter().position(|listed| *listed == id);
        at.map(|at| self.0.remove(at)).is_some()
    }

    pub fn take_oldest(&mut self) -> Option<u32> {
        self.0.pop()
    }

    pub fn oldest(&self) -> Option<u32> {
        self.0.last().copied()
    }

    /// Makes an object the newest of the list, if it is on the list. Returns whether it is.
    pub fn touch(&mut self, id: u32) -> bool {
        let was_listed = self.take(id);
        if was_listed {
            self.push(id);
        }
        was_listed
    }
}
