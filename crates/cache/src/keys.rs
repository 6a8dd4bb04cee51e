//! The map from 64-bit keys to dense numbers.
//!
//! The map is an open-addressing table of 16-byte entries. Keys are looked up in blocks: the entries for all keys of a
//! block are prefetched before the first of them is read, so that the memory accesses overlap.

use crate::list::NONE;
use machine::prefetch;

/// Number of keys whose entries are prefetched together. It is chosen so that the hashes of this many keys fit into the
/// first-level cache.
const BLOCK: usize = 64;

/// The odd number by which keys are multiplied to hash them: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// An entry of the table. The entry is free if its id is [`NONE`].
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    id: u32,
}

const FREE: Entry = Entry { key: 0, id: NONE };

/// A numbering of keys: each key has a number, from 0, in the order in which the keys first appear.
#[derive(Debug)]
pub struct Keys {
    entries: Vec<Entry>,
    /// Number of low bits of a hash that are shifted out. The remaining bits are a place in the table.
    shift: u32,
    /// The keys, in order of their numbers: `keys[n]` is the key with the number `n`.
    keys: Vec<u64>,
}

impl Default for Keys {
    fn default() -> Self {
        Self::with_order(12)
    }
}

/// The error for a trace with more than [`Keys::MAX`] distinct keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyKeys;

impl std::fmt::Display for TooManyKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the trace has more than {} different objects, which is the limit", Keys::MAX)
    }
}

impl std::error::Error for TooManyKeys {}

impl Keys {
    /// Largest number of distinct keys. It has 30 bits, because policies store two bits of their own in the same word
    /// as an object's number.
    pub const MAX: u32 = (1 << 30) - 2;

    fn with_order(order: u32) -> Self {
        Self { entries: vec![FREE; 1 << order], shift: u64::BITS - order, keys: Vec::new() }
    }

    /// Returns the number of distinct keys.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.keys.len() as u32
    }

    /// Returns `true` if no key has a number yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Appends the number of each of `keys` to `ids`. A key that is new gets the next number.
    ///
    /// # Errors
    /// When there are more than [`Keys::MAX`] distinct keys. The numbers of the keys before the first key too many are
    /// appended nevertheless.
    pub fn number(&mut self, keys: &[u64], ids: &mut Vec<u32>) -> Result<(), TooManyKeys> {
        ids.reserve(keys.len());
        for block in keys.chunks(BLOCK) {
            // A block cannot fill more of the table than this, so the table does not grow while places are in use.
            if (self.keys.len() + BLOCK) * 2 > self.entries.len() {
                self.grow();
            }
            let mut places = [0_usize; BLOCK];
            for (place, key) in places.iter_mut().zip(block) {
                *place = self.place(*key);
                prefetch(self.entries.as_ptr().wrapping_add(*place));
            }
            for (place, key) in places.iter().zip(block) {
                let id = self.find_or_add(*place, *key)?;
                ids.push(id);
            }
        }
        Ok(())
    }

    /// Returns the keys in the order of their numbers, and frees the table.
    #[must_use]
    pub fn into_keys(self) -> Vec<u64> {
        self.keys
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        // The high half is folded in first: without that, keys that differ in high bits alone would collide.
        ((key ^ key >> 32).wrapping_mul(MULTIPLIER) >> self.shift) as usize
    }

    #[inline]
    fn find_or_add(&mut self, mut place: usize, key: u64) -> Result<u32, TooManyKeys> {
        loop {
            let entry = self.entries[place];
            if entry.id == NONE {
                break;
            }
            if entry.key == key {
                return Ok(entry.id);
            }
            place = (place + 1) & (self.entries.len() - 1);
        }
        let id = self.keys.len() as u32;
        if id == Self::MAX {
            return Err(TooManyKeys);
        }
        self.entries[place] = Entry { key, id };
        self.keys.push(key);
        Ok(id)
    }

    fn grow(&mut self) {
        let order = self.entries.len().trailing_zeros() + 2;
        let mut larger = Self::with_order(order);
        let keys = std::mem::take(&mut self.keys);
        for (id, key) in keys.iter().enumerate() {
            let mut place = larger.place(*key);
            while larger.entries[place].id != NONE {
                place = (place + 1) & (larger.entries.len() - 1);
            }
            larger.entries[place] = Entry { key: *key, id: id as u32 };
        }
        larger.keys = keys;
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn keys_are_numbered_as_a_hash_map_numbers_them() {
        let mut state = 7_u64;
        let keys: Vec<u64> = (0..50_000)
            .map(|n| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Many repeats, and keys that differ in a few high or low bits alone.
                match n % 3 {
                    0 => state >> 50,
                    1 => (state >> 50) << 50,
                    _ => state,
                }
            })
            .collect();
        let mut naive: HashMap<u64, u32> = HashMap::new();
        let expected: Vec<u32> = keys
            .iter()
            .map(|key| {
                let next = naive.len() as u32;
                *naive.entry(*key).or_insert(next)
            })
            .collect();
        let (mut ours, mut ids) = (Keys::default(), Vec::new());
        for part in keys.chunks(1000) {
            ours.number(part, &mut ids).unwrap();
        }
        assert_eq!(ids, expected);
        let by_id = ours.into_keys();
        assert!(ids.iter().zip(&keys).all(|(id, key)| by_id[*id as usize] == *key));
    }
}
