//! Doubly linked lists of pages, whose links lie in a table.
//!
//! A page is on at most one list at a time, to which its one pair of links belongs. The table is the engine's frame
//! table, or a smaller table in [`crate::lru::policy::replay`], which runs without an engine.

use machine::FrameNumber;

/// Largest number of frames: 2^30 (4 TiB), because a slot of an index has 30 bits for a frame's number. A link with this
/// value or a larger one is not a frame, but the head of a list, or [`NO_FRAME`].
pub const FRAMES_MAX: u32 = 1 << 30;

/// The value of a link that points to no page, at the end of a list or in an empty slot.
pub const NO_FRAME: u32 = u32::MAX;

/// A table that holds a pair of links for each page.
pub trait Links {
    /// Returns the page behind `page` (nearer to the tail); [`NO_FRAME`] if there is none.
    fn next(&self, page: FrameNumber) -> u32;
    /// Returns the page before `page` (nearer to the head); [`NO_FRAME`] if there is none.
    fn previous(&self, page: FrameNumber) -> u32;
    /// Makes `to` the page behind `page` (nearer to the tail).
    fn set_next(&self, page: FrameNumber, to: u32);
    /// Makes `to` the page before `page` (nearer to the head).
    fn set_previous(&self, page: FrameNumber, to: u32);
    /// Prefetches the cache line with a page's list links, because the caller will read them soon.
    fn look_at(&self, page: FrameNumber);
}

/// A doubly linked list of pages. The links of the pages are in a table that the caller passes to each method
/// ([`Links`]). A list is changed only under the lock that contains the list.
#[derive(Debug)]
pub struct List {
    first: u32,
    last: u32,
    len: u64,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NO_FRAME, last: NO_FRAME, len: 0 }
    }
}

impl List {
    /// Returns the number of entries of the list. A compound page is one entry.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the page at the head of the list; `None` if the list is empty.
    #[must_use]
    pub const fn first(&self) -> Option<FrameNumber> {
        some(self.first)
    }

    /// Returns the page at the tail of the list; `None` if the list is empty.
    #[must_use]
    pub const fn last(&self) -> Option<FrameNumber> {
        some(self.last)
    }

    /// Puts a page at the head of the list.
    #[inline]
    pub fn push_front(&mut self, pages: &impl Links, frame: FrameNumber) {
        pages.set_previous(frame, NO_FRAME);
        pages.set_next(frame, self.first);
        match some(self.first) {
            Some(first) => pages.set_previous(first, frame.0),
            None => self.last = frame.0,
        }
        self.first = frame.0;
        self.len += 1;
    }

    /// Puts a page at the tail of the list.
    #[inline]
    pub fn push_back(&mut self, pages: &impl Links, frame: FrameNumber) {
        pages.set_next(frame, NO_FRAME);
        pages.set_previous(frame, self.last);
        match some(self.last) {
            Some(last) => pages.set_next(last, frame.0),
            None => self.first = frame.0,
        }
        self.last = frame.0;
        self.len += 1;
    }

    /// Puts `frame` directly behind `before`, a page of this list, on the side of the tail.
    #[inline]
    pub fn insert_behind(&mut self, pages: &impl Links, before: FrameNumber, frame: FrameNumber) {
        let Some(next) = some(pages.next(before)) else { return self.push_back(pages, frame) };
        pages.set_previous(frame, before.0);
        pages.set_next(frame, next.0);
        pages.set_next(before, frame.0);
        pages.set_previous(next, frame.0);
        self.len += 1;
    }

    /// Removes a page from any place of this list.
    #[inline]
    pub fn remove(&mut self, pages: &impl Links, frame: FrameNumber) {
        let next = pages.next(frame);
        let previous = pages.previous(frame);
        match some(previous) {
            Some(previous) => pages.set_next(previous, next),
            None => {
                debug_assert!(self.first == frame.0, "{frame} is not on this list");
                self.first = next;
            }
        }
        match some(next) {
            Some(next) => pages.set_previous(next, previous),
            None => {
                debug_assert!(self.last == frame.0, "{frame} is not on this list");
                self.last = previous;
            }
        }
        assert!(self.len > 0, "{frame} taken off an empty list");
        self.len -= 1;
    }

    /// Prefetches the descriptor of the page behind `frame` (nearer to the tail), and returns this page. The result is
    /// only a hint, for which the list's lock is not needed: if `frame` has left its list meanwhile, the result may be
    /// any page, or `None`.
    #[inline]
    pub fn look_behind(pages: &impl Links, frame: FrameNumber) -> Option<FrameNumber> {
        let behind = some(pages.next(frame))?;
        pages.look_at(behind);
        Some(behind)
    }

    /// Prefetches the descriptor of the page before `frame` (nearer to the head), and returns this page. The result is
    /// only a hint, as the result of [`Self::look_behind`] is.
    #[inline]
    pub fn look_before(pages: &impl Links, frame: FrameNumber) -> Option<FrameNumber> {
        let before = some(pages.previous(frame))?;
        pages.look_at(before);
        Some(before)
    }

    /// Returns the pages from head to tail.
    pub fn iter<'a>(&self, pages: &'a impl Links) -> impl Iterator<Item = FrameNumber> + 'a {
        std::iter::successors(some(self.first), |frame| some(pages.next(*frame)))
    }
}

/// Returns the frame to which the link `page` points; `None` if no frame has this number. A list ends with
/// [`NO_FRAME`]; other kinds of lists, which use the same links, mark their ends by other numbers that no frame has.
const fn some(page: u32) -> Option<FrameNumber> {
    if page >= FRAMES_MAX { None } else { Some(FrameNumber(page)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::FrameTable;

    #[test]
    fn list_keeps_order_and_length() {
        let frames = FrameTable::new(8).unwrap();
        let mut list = List::default();
        for n in 0..4 {
            list.push_front(&frames, FrameNumber(n));
        }
        list.push_back(&frames, FrameNumber(7));
        list.remove(&frames, FrameNumber(2));
        list.remove(&frames, FrameNumber(3));
        let order: Vec<u32> = list.iter(&frames).map(|f| f.0).collect();
        assert_eq!(order, [1, 0, 7]);
        list.insert_behind(&frames, FrameNumber(1), FrameNumber(4));
        list.insert_behind(&frames, FrameNumber(7), FrameNumber(5));
        let order: Vec<u32> = list.iter(&frames).map(|f| f.0).collect();
        assert_eq!((order.as_slice(), list.last()), ([1, 4, 0, 7, 5].as_slice(), Some(FrameNumber(5))));
        list.remove(&frames, FrameNumber(4));
        list.remove(&frames, FrameNumber(5));
        assert_eq!((list.len(), list.first(), list.last()), (3, Some(FrameNumber(1)), Some(FrameNumber(7))));
    }
}
