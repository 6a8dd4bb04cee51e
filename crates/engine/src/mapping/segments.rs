//! A growing array that is read without a lock.
//!
//! Segment `k` holds `64 << k` elements and is made, once, when one of them is first wanted; it lives
//! as long as the array. So an element never moves, and a lookup is two loads. Elements are zero at first: the
//! memory of a segment comes with the first use of each of its parts, so that a large file costs what is used of it.

#![allow(unsafe_code)]

use crate::memory::zeroes::Element;
use machine::atomic::{AtomicU64, Ordering};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::AtomicPtr;

const FIRST: usize = 64;
const SEGMENTS: usize = 27;

/// The array; see the module's head.
pub struct Segments<T> {
    /// The first element of each segment, of which it has `64 << k`; null until it is made, and never changed again.
    // Pointers, and not boxes in `OnceLock`s: every hit goes through here, and half of its instructions would be for
    // states and lengths that are known.
    segments: [AtomicPtr<T>; SEGMENTS],
    owned: PhantomData<Box<[T]>>,
}

impl<T> Default for Segments<T> {
    fn default() -> Self {
        Self { segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())), owned: PhantomData }
    }
}

impl<T> Drop for Segments<T> {
    fn drop(&mut self) {
        for (segment, first) in self.segments.iter_mut().enumerate() {
            let first = *first.get_mut();
            if !first.is_null() {
                // SAFETY: a box of so many elements, which `make` took apart; nobody refers to them any more.
                drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, FIRST << segment)) });
            }
        }
    }
}

impl<T> fmt::Debug for Segments<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_made = |first: &&AtomicPtr<T>| !first.load(Ordering::Relaxed).is_null();
        f.debug_struct("Segments").field("made", &self.segments.iter().filter(is_made).count()).finish_non_exhaustive()
    }
}

/// Segment, and index in it: behind the highest bit of `index + 64`.
#[inline(always)]
const fn locate(index: usize) -> (usize, usize) {
    let shifted = index + FIRST;
    let highest = shifted.ilog2() as usize;
    (highest - FIRST.ilog2() as usize, shifted ^ (1 << highest))
}

impl<T: Element> Segments<T> {
    /// The element, if its segment was made.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&T> {
        let (segment, offset) = locate(index);
        let first = self.segments[segment].load(Ordering::Acquire);
        // SAFETY: the segment was made, it has `64 << segment` elements, and `offset` is less. It lives as long as `self`.
        (!first.is_null()).then(|| unsafe { &*first.add(offset) })
    }

    /// The element; its segment is made, of zeroes, when it was not yet. `None` when there is no memory for that.
    #[inline]
    pub fn try_get_or_make(&self, index: usize) -> Option<&T> {
        if self.get(index).is_none() {
            self.make(locate(index).0)?;
        }
        self.get(index)
    }

    #[cold]
    fn make(&self, segment: usize) -> Option<()> {
        let first = Box::into_raw(T::zeroes(FIRST << segment)?).cast::<T>();
        let place = &self.segments[segment];
        if place.compare_exchange(ptr::null_mut(), first, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: somebody else was faster; this one is as it was taken apart, and nobody else's.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, FIRST << segment)) });
        }
        Some(())
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
