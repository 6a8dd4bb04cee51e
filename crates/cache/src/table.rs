//! A map from objects to nodes that grows with the cache and not with the number of distinct objects.
//!
//! Policies whose other state is large use it in place of an array with a word for each object of the trace.

use crate::list::NONE;
use machine::prefetch;

/// A hash table from objects to the numbers of their nodes. It does not store objects: the caller knows the object of
/// each node.
#[derive(Debug)]
pub struct Table {
    /// The places, each with a node's number, or [`NONE`] if it is free. Their number is a power of two, and at most
    /// half of them are in use.
    places: Vec<u32>,
    shift: u32,
    len: usize,
}

impl Table {
    /// Creates a table with room for `most` objects. The table grows when more are added.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let order = (most.max(8) * 2).next_power_of_two().trailing_zeros();
        Self { places: vec![NONE; 1 << order], shift: u32::BITS - order.min(u32::BITS), len: 0 }
    }

    /// Returns the bytes of memory that the table occupies.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.places.capacity() * size_of::<u32>()) as u64
    }

    #[inline]
    fn place(&self, id: u32) -> usize {
        (id.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    /// Prefetches the place of the table at which the search for an object begins.
    #[inline]
    pub fn look_at(&self, id: u32) {
        prefetch(self.places.as_ptr().wrapping_add(self.place(id)));
    }

    /// Returns the node at the place where the search for an object begins. It is likely to be the object's own node,
    /// and serves to prefetch it.
    #[inline]
    pub fn guess(&self, id: u32) -> u32 {
        self.places[self.place(id)]
    }

    /// Returns the node of an object, or [`NONE`]. `of` returns the object of a node.
    #[inline]
    pub fn find(&self, id: u32, of: impl Fn(u32) -> u32) -> u32 {
        let mut place = self.place(id);
        loop {
            let node = self.places[place];
            if node == NONE || of(node) == id {
                return node;
            }
            place = (place + 1) & (self.places.len() - 1);
        }
    }

    /// Adds the object `id`, which must not be in the table yet, with its node `node`. `of` returns the object of a
    /// node.
    #[inline]
    pub fn insert(&mut self, id: u32, node: u32, of: impl Fn(u32) -> u32) {
        if (self.len + 1) * 2 > self.places.len() {
            let old = std::mem::replace(self, Self::new(self.places.len()));
            old.places.into_iter().filter(|node| *node != NONE).for_each(|node| self.put(of(node), node));
        }
        self.put(id, node);
    }

    #[inline]
    fn put(&mut self, id: u32, node: u32) {
        let mut place = self.place(id);
        while self.places[place] != NONE {
            place = (place + 1) & (self.places.len() - 1);
        }
        self.places[place] = node;
        self.len += 1;
    }

    /// Replaces the node `from` of the object `id` by the node `to`. The table must contain the object with this node;
    /// otherwise the function does not return.
    #[inline]
    pub fn set(&mut self, id: u32, from: u32, to: u32) {
        let mut place = self.place(id);
        while self.places[place] != from {
            place = (place + 1) & (self.places.len() - 1);
        }
        self.places[place] = to;
    }

    /// Removes an object with its node. Later objects in the same run of occupied places move up, so that the table
    /// needs no marks for removed objects.
    #[inline]
    pub fn remove(&mut self, id: u32, node: u32, of: impl Fn(u32) -> u32) {
        let mask = self.places.len() - 1;
        let mut hole = self.place(id);
        while self.places[hole] != node {
            hole = (hole + 1) & mask;
        }
        self.len -= 1;
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let moved = self.places[next];
            if moved == NONE {
                break;
            }
            // An object may move into the hole if the hole is not before its first place.
            let first = self.place(of(moved));
            if (next.wrapping_sub(first) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.places[hole] = moved;
                hole = next;
            }
        }
        self.places[hole] = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_finds_what_a_plain_array_finds() {
        // Node n has the object n * 7 % 4096; nodes come and go.
        let of = |node: u32| node * 7 % 4096;
        let (mut table, mut inside) = (Table::new(16), vec![false; 4096]);
        let mut state = 1_u32;
        for _ in 0..100_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let node = state >> 20;
            let (id, is_inside) = (of(node), &mut inside[node as usize]);
            assert_eq!(table.find(id, of), if *is_inside { node } else { NONE });
            match *is_inside {
                true => table.remove(id, node, of),
                false => table.insert(id, node, of),
            }
            *is_inside = !*is_inside;
        }
    }
}
