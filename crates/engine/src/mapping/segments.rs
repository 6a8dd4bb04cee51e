//! A growing array that is read without a lock.
//!
//! Segment `k` holds `64 << k` elements and is made, once, when one of them is first wanted; it lives
//! as long as the array. So an element never moves, and a lookup is two loads. Elements are zero at first: the
//! memory of a segment comes with the first use of each of its parts, so that a large file costs what is used of it.

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

/// What is zero at first, in any number.
pub trait Element: Sized {
    /// `n` of them.
    fn zeroes(n: usize) -> Box<[Self]>;
}

#[cfg(not(loom))]
impl<T: bytemuck::Zeroable> Element for T {
    fn zeroes(n: usize) -> Box<[Self]> {
        bytemuck::zeroed_slice_box(n)
    }
}

#[cfg(loom)]
impl<T: Default> Element for T {
    fn zeroes(n: usize) -> Box<[Self]> {
        (0..n).map(|_| T::default()).collect()
    }
}

impl<T: Element> Segments<T> {
    /// The element, if its segment was made.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        let (segment, offset) = locate(index);
        Some(&self.segments[segment].get()?[offset])
    }

    /// The element; its segment is made, of zeroes, when it was not yet.
    #[inline]
    pub fn get_or_make(&self, index: usize) -> &T {
        let (segment, offset) = locate(index);
        &self.segments[segment].get_or_init(|| T::zeroes(FIRST << segment))[offset]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
