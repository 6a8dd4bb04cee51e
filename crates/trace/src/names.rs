//! [`Names`]: the table of names of files or of tasks.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher as _;

/// A growing table of names, numbered from 0. A name is a sequence of bytes, because paths need not be UTF-8. A name
/// may occur twice: two files may have had the same path one after the other.
#[derive(Clone, Debug, Default)]
pub struct Names {
    bytes: Vec<u8>,
    /// For each name, the index of the byte after its last byte in `bytes`.
    ends: Vec<usize>,
    /// Numbers of the names that [`intern`](Self::intern) has added.
    interned: HashTable<u32>,
}

/// Hashes names. The seed may be fixed, because the hashes only serve to find names.
const HASHER: FixedState = FixedState::with_seed(0);

impl Names {
    /// Makes an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a name, even if the table already has the same name, and returns its number.
    ///
    /// # Panics
    /// When the table has 2^32 names.
    pub fn push(&mut self, name: &[u8]) -> u32 {
        let number = u32::try_from(self.ends.len()).expect("a table has less than 2^32 names");
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
        number
    }

    /// Returns the number of a name. Appends the name first, unless an earlier call of this method has appended it.
    pub fn intern(&mut self, name: &[u8]) -> u32 {
        let hash = HASHER.hash_one(name);
        let found = self.interned.find(hash, |number| self.get(*number) == Some(name));
        if let Some(number) = found {
            return *number;
        }
        let number = self.push(name);
        let (bytes, ends) = (&self.bytes, &self.ends);
        self.interned.insert_unique(hash, number, |number| HASHER.hash_one(name_at(bytes, ends, *number as usize)));
        number
    }

    /// Returns the name with the number `number`; `None` if there is no such name.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&[u8]> {
        ((number as usize) < self.ends.len()).then(|| name_at(&self.bytes, &self.ends, number as usize))
    }

    /// Returns a copy of the table in which `change` has changed each name, for example to a hash. The numbers of the
    /// names stay the same. [`intern`](Self::intern) does not find the changed names.
    #[must_use]
    pub fn map(&self, mut change: impl FnMut(&[u8]) -> Vec<u8>) -> Self {
        let mut changed = Self::new();
        for name in self.iter() {
            changed.push(&change(name));
        }
        changed
    }

    /// Returns the number of names.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the length of all names together, bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns `true` if there is no name.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the names in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|number| name_at(&self.bytes, &self.ends, number))
    }
}

fn name_at<'a>(bytes: &'a [u8], ends: &[usize], number: usize) -> &'a [u8] {
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interned_names_have_one_number_and_pushed_names_have_their_own() {
        let mut names = Names::new();
        assert_eq!(names.intern(b"a"), 0);
        assert_eq!(names.push(b"a"), 1);
        assert_eq!(names.intern(b""), 2);
        assert_eq!(names.intern(b"a"), 0);
        for number in 3..2000_u32 {
            assert_eq!(names.intern(number.to_string().as_bytes()), number);
        }
        assert_eq!(names.intern(b"1999"), 1999);
        assert_eq!(names.get(1999), Some(&b"1999"[..]));
        assert_eq!(names.get(2000), None);
        assert_eq!(names.map(|name| name.repeat(2)).get(17), Some(&b"1717"[..]));
    }
}
