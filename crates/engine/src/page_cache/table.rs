//! A table that gives a number to each owner of pages, which is a file or a region. The descriptor of a frame names the
//! owner of the frame's page by this number.

use crate::memory::OWNERS_MAX;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table of numbered entries. A number is used again only after all other numbers, so that an old number finds its
/// own entry or none.
pub(crate) struct Table<T> {
    pub(crate) entries: BTreeMap<u32, Arc<T>>,
    next: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), next: 0 }
    }
}

impl<T> Table<T> {
    /// Adds a new entry with the next free number, and returns it. `make` makes the entry from its number.
    ///
    /// # Panics
    /// Panics if no number is free.
    pub(crate) fn insert(&mut self, make: impl FnOnce(u32) -> T) -> Arc<T> {
        assert!(self.entries.len() < OWNERS_MAX as usize, "all {OWNERS_MAX} numbers of owners are in use");
        while self.entries.contains_key(&self.next) {
            self.next = (self.next + 1) % OWNERS_MAX;
        }
        let id = self.next;
        self.next = (id + 1) % OWNERS_MAX;
        let entry = Arc::new(make(id));
        self.entries.insert(id, entry.clone());
        entry
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_owners_are_used_again_when_all_others_were() {
        let mut table = Table { next: OWNERS_MAX - 2, ..Table::default() };
        let mut ids = Vec::new();
        for _ in 0..4 {
            table.insert(|id| ids.push(id));
        }
        assert_eq!(ids, [OWNERS_MAX - 2, OWNERS_MAX - 1, 0, 1]);
        table.entries.remove(&0);
        table.next = OWNERS_MAX - 2;
        table.insert(|id| ids.push(id));
        assert_eq!(ids[4], 0, "the others are in use");
    }
}
