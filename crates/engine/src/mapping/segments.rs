//! A growing array that is read without a lock.
//!
//! Segment `k` holds `64 << k` elements and is made, once, when one of them is first wanted; it lives
//! as long as the array. So an element never moves, and a lookup is two loads. Elements are zero at first: the
//! memory of a segment comes with the first use of each of its parts, so that a large file costs what is used of it.

use crate::memory::zeroes::Element;
use machine::atomic::{AtomicU64, Ordering};
use std::ops::Range;
use std::sync::OnceLock;

const FIRST: usize = 64;
const SEGMENTS: usize = 27;

/// The array; see the module's head.
#[derive(Debug)]
pub struct Segments<T> {
    segments: [OnceLock<Box<[T]>>; SEGMENTS],
}

impl<T> Default for Segments<T> {
    fn default() -> Self {
        Self { segments: std::array::from_fn(|_| OnceLock::new()) }
    }
}

const fn locate(index: usize) -> (usize, usize) {
    let segment = (index / FIRST + 1).ilog2() as usize;
    (segment, index - FIRST * ((1 << segment) - 1))
}

impl<T: Element> Segments<T> {
    /// The element, if its segment was made.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        let (segment, offset) = locate(index);
        Some(&self.segments[segment].get()?[offset])
    }

    /// The element; its segment is made, of zeroes, when it was not yet. `None` when there is no memory for that.
    #[inline]
    pub fn try_get_or_make(&self, index: usize) -> Option<&T> {
        let (segment, offset) = locate(index);
        let made = &self.segments[segment];
        if made.get().is_none() {
            // Somebody else may be faster.
            let _ = made.set(T::zeroes(FIRST << segment)?);
        }
        Some(&made.get()?[offset])
    }

    /// The same, where there must be memory.
    ///
    /// # Panics
    /// When the system does not grant it.
    #[inline]
    pub fn get_or_make(&self, index: usize) -> &T {
        self.try_get_or_make(index).expect("there is memory for a part of an index")
    }
}

/// Elements of a part, of which [`UsedParts`] says whether it was ever used: one page of slots of an index.
const PART: usize = 1024;

/// Which parts of a growing array were ever used, so that whoever walks it need not look at the others, whose memory has
/// not even come yet.
#[derive(Debug, Default)]
pub struct UsedParts(Segments<AtomicU64>);

impl UsedParts {
    /// Notes that an element is about to be used; `None` when there is no memory for that.
    #[inline]
    pub fn note(&self, index: usize) -> Option<()> {
        let (word, bit) = Self::place(index);
        let word = self.0.try_get_or_make(word)?;
        // In one order with the elements: whoever puts one in place and whoever walks must not miss each other.
        if word.load(Ordering::SeqCst) & bit == 0 {
            word.fetch_or(bit, Ordering::SeqCst);
        }
        Some(())
    }

    /// The elements of `range` that lie in used parts, part by part.
    pub fn within(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let part = self.next(at / PART, range.end.div_ceil(PART)).filter(|_| at < range.end)?;
            let found = at.max(part * PART)..range.end.min((part + 1) * PART);
            at = found.end;
            Some(found)
        })
    }

    /// The first used part from `part` on, before `end`.
    fn next(&self, part: usize, end: usize) -> Option<usize> {
        let mut mask = u64::MAX << (part % 64);
        let mut word = part / 64;
        while word * 64 < end {
            match self.0.get(word) {
                Some(bits) => {
                    let bits = bits.load(Ordering::SeqCst) & mask;
                    if bits != 0 {
                        return Some(word * 64 + bits.trailing_zeros() as usize).filter(|part| *part < end);
                    }
                    word += 1;
                }
                None => word = end_of_segment(word),
            }
            mask = u64::MAX;
        }
        None
    }

    const fn place(index: usize) -> (usize, u64) {
        (index / PART / 64, 1 << (index / PART % 64))
    }
}

/// The index after the last one of the segment that `index` lies in.
const fn end_of_segment(index: usize) -> usize {
    FIRST * ((1 << (locate(index).0 + 1)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_used_parts_are_walked() {
        let used = UsedParts::default();
        let all = |range: Range<usize>| used.within(range).collect::<Vec<_>>();
        assert_eq!(all(0..1 << 32), []);
        [5, 3000, 1 << 31].iter().for_each(|index| used.note(*index).unwrap());
        assert_eq!(all(0..1 << 32), [0..1024, 2048..3072, 1 << 31..(1 << 31) + 1024]);
        assert_eq!(all(7..2100), [7..1024, 2048..2100]);
        assert_eq!((all(1024..2048), all(2048..2048)), (vec![], vec![]));
        #[expect(clippy::reversed_empty_ranges)]
        {
            assert_eq!(all(5..3), []);
        }
    }

    #[test]
    fn every_index_has_its_own_place() {
        let mut last = (0, usize::MAX);
        for index in 0..100_000 {
            let (segment, offset) = locate(index);
            assert!(offset < FIRST << segment);
            assert!((segment, offset) != last && (segment > last.0 || offset == last.1.wrapping_add(1)));
            last = (segment, offset);
        }
        assert!(locate(u32::MAX as usize).0 < SEGMENTS);
    }
}
