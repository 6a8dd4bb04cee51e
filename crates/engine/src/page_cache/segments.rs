//! A growing array that is read without a lock.
//!
//! It consists of segments: the *head*, whose length is chosen when the array is created, and segments behind it, each
//! as long as everything before it. A segment is made once, when one of its elements is first needed, and exists as
//! long as the array. So elements never move, and a look-up takes two loads. In the head, a look-up takes hardly any
//! other instructions. Elements are zero at first. The system provides the memory of each part of a segment when that
//! part is first used, so a large file costs only its used parts.

#![allow(unsafe_code)]

use crate::memory::zeroes::{Element, zeroes};
use machine::atomic::{AtomicU64, Ordering};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::slice;
use std::sync::atomic::AtomicPtr;

/// Number of elements of the shortest head (first segment) of an array.
const HEAD_MIN: usize = 8;
/// Number of elements of the longest head (first segment) of an array: one for each page of a file of 4 GiB. The whole
/// head takes address space as soon as its first element is used.
const HEAD_MAX: usize = 1 << 20;
/// Number of segments of an array, including the head. With the shortest head, the segments hold 2^32 elements.
const SEGMENTS: usize = 30;

/// A growing array that is read without a lock; the module's documentation describes its segments.
pub struct Segments<T> {
    /// A pointer to the first element of each segment. A pointer is null until its segment is made, and never changes
    /// after that. Segment 0 is the head; segment `k` has `head << (k - 1)` elements.
    // Pointers, not boxes in `OnceLock`s. Every hit looks an element up here. With boxes, half of the instructions of a
    // hit would handle states and lengths that are known.
    segments: [AtomicPtr<T>; SEGMENTS],
    /// Number of elements of the head (the array's first segment), a power of two.
    head: usize,
    owned: PhantomData<Box<[T]>>,
}

impl<T> Default for Segments<T> {
    fn default() -> Self {
        Self::with_head(0)
    }
}

impl<T> Segments<T> {
    /// Creates an array that is expected to have `elements` elements. The array takes no memory until an element is
    /// needed.
    pub fn with_head(elements: usize) -> Self {
        Self {
            segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            head: elements.clamp(HEAD_MIN, HEAD_MAX).next_power_of_two(),
            owned: PhantomData,
        }
    }

    /// Returns the number of the segment that holds an element. The element must not lie in the head (segment 0). The
    /// number is computed from the highest bit of the element's index.
    #[inline]
    const fn segment_of(&self, index: usize) -> usize {
        (index.ilog2() - self.head.trailing_zeros()) as usize + 1
    }

    /// Returns the range of the indexes of a segment's elements.
    const fn range_of(&self, segment: usize) -> Range<usize> {
        match segment {
            0 => 0..self.head,
            _ => self.head << (segment - 1)..self.head << segment,
        }
    }

    /// Returns the first index after the segment that `index` lies in.
    const fn end_of_segment(&self, index: usize) -> usize {
        let segment = if index < self.head { 0 } else { self.segment_of(index) };
        self.range_of(segment).end
    }
}

impl<T> Drop for Segments<T> {
    fn drop(&mut self) {
        for segment in 0..SEGMENTS {
            let first = *self.segments[segment].get_mut();
            if !first.is_null() {
                let elements = self.range_of(segment).len();
                // SAFETY: `make` got the pointer from a box of `elements` elements, and nobody refers to them any more.
                drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, elements)) });
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

impl<T: Element> Segments<T> {
    /// Returns the element at an index; `None` if its segment was not made yet.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.get_in_head(index).or_else(|| self.get_behind(index))
    }

    /// Returns the element at an index; `None` if the element does not lie in the head (the first segment), or the head
    /// has not been made yet.
    #[inline(always)]
    pub fn get_in_head(&self, index: usize) -> Option<&T> {
        if index >= self.head {
            return None;
        }
        // Sequentially consistent, because users of the array rely on one order of this load and of their own steps.
        let first = self.segments[0].load(Ordering::SeqCst);
        // SAFETY: the head was made, and has more than `index` elements. It lives as long as `self`.
        (!first.is_null()).then(|| unsafe { &*first.add(index) })
    }

    /// Returns the element at an index; `None` if the element lies in the head (the first segment), or its segment was
    /// not made yet.
    #[inline(always)]
    pub fn get_behind(&self, index: usize) -> Option<&T> {
        if index < self.head {
            return None;
        }
        let segment = self.segment_of(index);
        let first = self.segments.get(segment)?.load(Ordering::SeqCst);
        // SAFETY: the segment was made, and the index is one of its range. It lives as long as `self`.
        (!first.is_null()).then(|| unsafe { &*first.add(index - self.range_of(segment).start) })
    }

    /// Returns the elements with indexes in `range` whose segments were made: one slice for each segment, and the index of
    /// its first element.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = (usize, &[T])> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            while at < range.end {
                let (start, end) = (at, self.end_of_segment(at).min(range.end));
                at = end;
                let segment = if start < self.head { 0 } else { self.segment_of(start) };
                let first = self.segments.get(segment)?.load(Ordering::SeqCst);
                if !first.is_null() {
                    let skipped = start - self.range_of(segment).start;
                    // SAFETY: the segment was made, all indexes from `start` to `end` lie in it, and it lives as long as
                    // `self`. Its elements are only shared.
                    return Some((start, unsafe { slice::from_raw_parts(first.add(skipped), end - start) }));
                }
            }
            None
        })
    }

    /// Returns the element at an index. If the element's segment does not exist yet, makes the segment, filled with
    /// zeroes. Returns `None` if there is no memory for the segment.
    #[inline]
    pub fn try_get_or_make(&self, index: usize) -> Option<&T> {
        if self.get(index).is_none() {
            self.make(if index < self.head { 0 } else { self.segment_of(index) })?;
        }
        self.get(index)
    }

    #[cold]
    fn make(&self, segment: usize) -> Option<()> {
        let elements = self.range_of(segment).len();
        let first = Box::into_raw(zeroes::<T>(elements)?).cast::<T>();
        let place = &self.segments[segment];
        if place.compare_exchange(ptr::null_mut(), first, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            // SAFETY: another task was faster. This pointer comes from a box of `elements` elements, and no other task
            // has it.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, elements)) });
        }
        Some(())
    }

    /// Returns the element at an index. If the element's segment does not exist yet, makes the segment, filled with
    /// zeroes. Called by code that cannot handle a lack of memory.
    ///
    /// # Panics
    /// Panics if the system does not grant the memory.
    #[inline]
    pub fn get_or_make(&self, index: usize) -> &T {
        self.try_get_or_make(index).expect("there is memory for a part of an index")
    }
}

/// Number of elements of a *part* of an array, for which [`UsedParts`] records whether it was ever used. A part of an
/// index's slots fills a page of memory.
const PART: usize = 1024;

/// The parts of a growing array that were ever used. A walk over the array can skip all other parts, which have no
/// memory yet.
#[derive(Debug, Default)]
pub struct UsedParts(Segments<AtomicU64>);

impl UsedParts {
    /// Records that an element is about to be used. Returns `None` if there is no memory for the record.
    #[inline]
    pub fn note(&self, index: usize) -> Option<()> {
        let (word, bit) = Self::place(index);
        let word = self.0.try_get_or_make(word)?;
        // The loads and stores of this word and of the elements are in one total order, so that a task that adds an
        // element and a task that walks do not miss each other.
        if word.load(Ordering::SeqCst) & bit == 0 {
            word.fetch_or(bit, Ordering::SeqCst);
        }
        Some(())
    }

    /// Returns the indexes of `range` that lie in used parts of the array, as one range for each part.
    pub fn within(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let part = self.next(at / PART, range.end.div_ceil(PART)).filter(|_| at < range.end)?;
            let found = at.max(part * PART)..range.end.min((part + 1) * PART);
            at = found.end;
            Some(found)
        })
    }

    /// Returns the lowest number of a used part from `part` on; `None` if no part below `end` is used.
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
                None => word = self.0.end_of_segment(word),
            }
            mask = u64::MAX;
        }
        None
    }

    const fn place(index: usize) -> (usize, u64) {
        (index / PART / 64, 1 << (index / PART % 64))
    }
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
    fn one_of_several_threads_makes_a_segment() {
        for head in [64, 4096] {
            let array = Segments::<AtomicU64>::with_head(head);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for index in (0..20_000).step_by(61) {
                            array.get_or_make(index).fetch_add(1, Ordering::Relaxed);
                            assert!(array.get(index).is_some());
                        }
                    });
                }
            });
            assert!((0..20_000).step_by(61).all(|index| array.get(index).unwrap().load(Ordering::Relaxed) == 4));
        }
    }

    #[test]
    fn every_index_has_its_own_place() {
        for head in [0, 8, 64, 65, 4096] {
            let array = Segments::<AtomicU64>::with_head(head);
            assert!(array.head >= head);
            for index in [0, 63, 4095, 4096, 5000, 70_000, 131_071, 131_072] {
                array.get_or_make(index).store(index as u64 + 1, Ordering::Relaxed);
            }
            let found = |index: &usize| array.get(*index).is_some_and(|element| element.load(Ordering::Relaxed) > 0);
            let all: Vec<usize> = (0..300_000).filter(found).collect();
            assert_eq!(all, [0, 63, 4095, 4096, 5000, 70_000, 131_071, 131_072]);
            for index in all {
                assert_eq!(array.get(index).unwrap().load(Ordering::Relaxed), index as u64 + 1);
                assert!(array.range_of(array.segment_of(index.max(array.head))).contains(&index.max(array.head)));
            }
            let ends: Vec<usize> = (0..SEGMENTS).map(|segment| array.range_of(segment).end).collect();
            assert!((1..SEGMENTS).all(|segment| array.range_of(segment).start == ends[segment - 1]));
        }
        let shortest = Segments::<AtomicU64>::default();
        assert_eq!(
            (shortest.segment_of(u32::MAX as usize), shortest.range_of(SEGMENTS - 1).end),
            (SEGMENTS - 1, 1 << 32)
        );
        assert_eq!(Segments::<AtomicU64>::with_head(usize::MAX).head, HEAD_MAX);
        assert!([1 << 32, 1 << 40, usize::MAX].iter().all(|index| shortest.get(*index).is_none()));
    }

    #[test]
    fn pieces_are_the_elements_of_segments_that_were_made() {
        let array = Segments::<AtomicU64>::with_head(8);
        for index in [3, 70, 5000] {
            array.get_or_make(index).store(index as u64, Ordering::Relaxed);
        }
        let pieces = |range: Range<usize>| {
            array.pieces(range).map(|(first, elements)| first..first + elements.len()).collect::<Vec<_>>()
        };
        // The segments of 8 to 64, 128 to 4096 and from 8192 on were not made.
        assert_eq!(pieces(0..usize::MAX), [0..8, 64..128, 4096..8192]);
        assert_eq!((pieces(2..5).len(), pieces(2..5)[0].clone()), (1, 2..5));
        assert_eq!(pieces(7..66), [7..8, 64..66]);
        assert_eq!((pieces(8..64), pieces(5..5)), (vec![], vec![]));
        let found = array.pieces(0..10_000).flat_map(|(first, elements)| (first..).zip(elements));
        let found = found.filter(|(_, element)| element.load(Ordering::Relaxed) > 0).map(|(index, _)| index);
        assert_eq!(found.collect::<Vec<_>>(), [3, 70, 5000]);
    }
}
