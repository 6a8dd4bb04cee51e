//! Folios: pages that are owned, counted, listed, written and freed together.
//!
//! A folio is an aligned block of frames with one owner: a single page, or a compound page of order 1 to 9. Its first
//! frame, the *head*, has the state: flags, references, latch, owner, place on a list, and the word `private`. The
//! other frames, its *tails*, have no such state, so that no look-up can take a reference to a tail. Tails have the
//! flag [`Flags::COMPOUND`], and their word `private` encodes the folio's head and order. The order of a folio is read
//! from its first tail, so the head's `private` is free for a swap slot.
//!
//! Page-table entries map single pages of a folio. The head counts all of these entries, which share one reference to
//! the head. Each tail counts the entries that map its own page. The first tail also counts the entries that map the
//! head's page, in a word that tails do not use otherwise. *Description*: mechanisms/modern, 6.

use super::frame::{Flags, FrameTable};
use super::free_area::MAX_ORDERS;
use machine::atomic::{AtomicU32, Ordering};
use machine::{FrameNumber, IoError, Order};

/// Order of the largest folio, whose size is 2 MiB.
pub const FOLIO_ORDER_MAX: Order = super::PAGEBLOCK_ORDER;

/// A bit in the word that counts those pages of a folio whose I/O is under way. The bit is set once the I/O of one of
/// the pages has failed.
const FAILED: u32 = 1 << 31;

/// A folio, identified by its first frame and its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    /// The first frame of the folio, which has the folio's state.
    pub head: FrameNumber,
    /// The binary logarithm of the folio's number of pages.
    pub order: Order,
}

impl Folio {
    /// Returns the folio that consists of a single page.
    #[must_use]
    #[inline]
    pub const fn of_page(frame: FrameNumber) -> Self {
        Self { head: frame, order: Order::ZERO }
    }

    /// Returns the number of pages of the folio.
    #[must_use]
    #[inline]
    pub const fn pages(self) -> u32 {
        1 << self.order.0
    }

    /// Returns whether the folio has more than one page.
    #[must_use]
    #[inline]
    pub const fn is_large(self) -> bool {
        self.order.0 > 0
    }

    /// Returns the frame of page `n` of the folio.
    #[must_use]
    #[inline]
    pub const fn page(self, n: u32) -> FrameNumber {
        FrameNumber(self.head.0 + n)
    }

    /// Returns the frames of the folio, beginning with the head.
    pub fn frames(self) -> impl DoubleEndedIterator<Item = FrameNumber> {
        (self.head.0..self.head.0 + self.pages()).map(FrameNumber)
    }

    /// Returns the number of frames from `frame`, which is a part of the folio, to the folio's end, including `frame`.
    #[must_use]
    #[inline]
    pub const fn frames_from(self, frame: FrameNumber) -> u32 {
        self.head.0 + self.pages() - frame.0
    }

    /// Returns whether the frame is a part of the folio.
    #[must_use]
    #[inline]
    pub const fn holds(self, frame: FrameNumber) -> bool {
        frame.0.wrapping_sub(self.head.0) < self.pages()
    }
}

/// Returns a word that encodes a large folio's head and order. The frame number of the head is a multiple of the
/// folio's number of pages, so the low bits of the frame number are 0. One of these bits is set to encode the order.
const fn encode(folio: Folio) -> u32 {
    folio.head.0 | 1 << (folio.order.0 - 1)
}

/// Returns the folio that a word encodes; `None` for 0, the value of the word after the folio was split.
const fn decode(word: u32) -> Option<Folio> {
    if word == 0 {
        return None;
    }
    Some(Folio { head: FrameNumber(word & (word - 1)), order: Order(word.trailing_zeros() as u8 + 1) })
}

impl FrameTable {
    /// Returns the folio of which a frame is a part. The result stays valid while the caller holds a reference to the
    /// folio and the folio cannot be split.
    #[must_use]
    #[inline]
    #[doc(alias = "page_folio")]
    pub fn folio(&self, frame: FrameNumber) -> Folio {
        if self[frame].is(Flags::COMPOUND) { self.large_folio(frame) } else { Folio::of_page(frame) }
    }

    #[cold]
    fn large_folio(&self, frame: FrameNumber) -> Folio {
        // A tail has the folio's word. An odd frame is a tail itself. An even frame may be the head, so the word of the
        // next frame is read. If the caller has no reference, the folio may be split meanwhile; the word may then be a
        // swap slot.
        let is_of = |folio: &Folio| usize::from(folio.order.0) < MAX_ORDERS && folio.holds(frame);
        decode(self[FrameNumber(frame.0 | 1)].folio_word()).filter(is_of).unwrap_or(Folio::of_page(frame))
    }

    /// Returns the head of the folio of which a frame is a part.
    #[must_use]
    #[inline]
    #[doc(alias = "compound_head")]
    pub fn head(&self, frame: FrameNumber) -> FrameNumber {
        self.folio(frame).head
    }

    /// Returns the number of pages of the folio whose head is given.
    #[must_use]
    #[inline]
    #[doc(alias = "folio_nr_pages")]
    pub fn pages(&self, head: FrameNumber) -> u64 {
        self.folio(head).order.pages()
    }

    /// Makes one folio of a block whose pages are not in use yet. The references of the head become the references of
    /// the folio.
    ///
    /// # Panics
    /// Panics when the order is 0, or the block is not aligned to its own size.
    #[doc(alias = "prep_compound_page")]
    pub fn make_folio(&self, head: FrameNumber, order: Order) -> Folio {
        assert!(
            order > Order::ZERO && u64::from(head.0) % order.pages() == 0,
            "{head} is no head of an order of {}",
            order.0
        );
        let folio = Folio { head, order };
        // The tails are set first, so that a task that sees the head sees all of the folio.
        for frame in folio.frames().rev() {
            if frame != head {
                self[frame].set_folio_word(encode(folio));
            }
            self[frame].set(Flags::COMPOUND);
        }
        folio
    }

    /// Splits a folio into single pages, of which only the first has references. Returns the former folio.
    ///
    /// # Panics
    /// Panics when `head` is not the head of a large folio.
    pub fn unmake_folio(&self, head: FrameNumber) -> Folio {
        let folio = self.folio(head);
        assert!(folio.is_large() && folio.head == head, "{head} is no head of a large folio: {folio:?}");
        for frame in folio.frames().rev() {
            self[frame].clear(Flags::COMPOUND);
            if frame != head {
                self[frame].set_folio_word(0);
            }
        }
        folio
    }

    // ---- mappings of single pages ----

    /// Counts a new mapping of one page, which may be a part of a large folio. The result says whether it is the page's
    /// first mapping, and whether it is the folio's first. The caller holds a reference to the folio.
    #[inline]
    pub fn map_page(&self, frame: FrameNumber) -> MappingChange {
        let folio = self.folio(frame);
        let is_of_folio = self[folio.head].map();
        let is_of_page = match folio.is_large() {
            false => is_of_folio,
            true => self.page_mappings(folio, frame).fetch_add(1, Ordering::AcqRel) == 0,
        };
        MappingChange { is_of_page, is_of_folio, is_large: folio.is_large() }
    }

    /// Counts the removal of a mapping of one page. The result says whether this was the last mapping of the page, and
    /// of the folio.
    #[inline]
    pub fn unmap_page(&self, frame: FrameNumber) -> MappingChange {
        let folio = self.folio(frame);
        let is_of_page = folio.is_large() && {
            let before = self.page_mappings(folio, frame).fetch_sub(1, Ordering::AcqRel);
            assert!(before > 0, "an unmapped page unmapped: {frame} of {folio:?}");
            before == 1
        };
        let is_of_folio = self[folio.head].unmap();
        let is_of_page = if folio.is_large() { is_of_page } else { is_of_folio };
        MappingChange { is_of_page, is_of_folio, is_large: folio.is_large() }
    }

    /// Returns the number of page-table entries that map one page, which may be a part of a large folio.
    #[must_use]
    pub fn mappings_of_page(&self, frame: FrameNumber) -> u32 {
        let folio = self.folio(frame);
        if folio.is_large() { self.page_mappings(folio, frame).load(Ordering::Acquire) } else { self[frame].mappings() }
    }

    /// Completes the mapping counts of the pages of a folio that was split. Each of these pages is mapped once, so each
    /// gets the count 1.
    pub(crate) fn split_mappings(&self, head: FrameNumber, pages: u32) {
        let first_tail = FrameNumber(head.0 + 1);
        let of_head = self[first_tail].folio_head_mappings().swap(0, Ordering::AcqRel);
        debug_assert!(of_head == 1 && self[head].mappings() == pages, "{head} has {of_head} mappings");
        self[head].mappings_word().store(of_head, Ordering::Release);
    }

    fn page_mappings(&self, folio: Folio, frame: FrameNumber) -> &AtomicU32 {
        if frame == folio.head { self[folio.page(1)].folio_head_mappings() } else { self[frame].mappings_word() }
    }

    // ---- I/O of several pages ----

    /// Records that `pages` pages of a large folio are about to be read or written.
    pub fn begin_io(&self, folio: Folio, pages: u32) {
        self[folio.page(1)].folio_io().store(pages, Ordering::Release);
    }

    /// Records that the I/O of one page of a folio has ended. If this was the last page of the folio under I/O, returns
    /// the result for the whole folio, which is an error if the I/O of any of its pages failed. Otherwise returns
    /// `None`.
    pub fn end_io(&self, folio: Folio, result: Result<(), IoError>) -> Option<Result<(), IoError>> {
        if !folio.is_large() {
            return Some(result);
        }
        let first_tail = &self[folio.page(1)];
        if let Err(error) = result {
            first_tail.folio_error().store(error.code(), Ordering::Relaxed);
            first_tail.folio_io().fetch_or(FAILED, Ordering::AcqRel);
        }
        let left = first_tail.folio_io().fetch_sub(1, Ordering::AcqRel) - 1;
        if left & !FAILED > 0 {
            return None;
        }
        first_tail.folio_io().store(0, Ordering::Release);
        let error = || IoError::from_code(first_tail.folio_error().load(Ordering::Relaxed));
        Some(if left == 0 { Ok(()) } else { Err(error()) })
    }
}

/// The effect of adding or removing a mapping of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingChange {
    /// `true` if the page got its first mapping, or lost its last one.
    pub is_of_page: bool,
    /// `true` if the folio got the first mapping of any of its pages, or lost the last one.
    pub is_of_folio: bool,
    /// `true` if the page is a part of a large folio.
    is_large: bool,
}

impl MappingChange {
    /// Returns whether this change of a mapping also changes the number of references to the folio: an added mapping
    /// takes a reference, and a removed one drops it. Each mapping of a single page has a reference of its own. All
    /// mappings of a large folio share one reference, so that the limit on references does not limit the number of
    /// mappings.
    #[must_use]
    pub const fn moves_reference(self) -> bool {
        !self.is_large || self.is_of_folio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_folio_knows_its_head_and_order() {
        let frames = FrameTable::new(2048).unwrap();
        for (head, order) in
            (1..=10u8).flat_map(|order| (0..2048u32).step_by(1 << order).map(move |head| (head, order)))
        {
            let (head, order) = (FrameNumber(head), Order(order));
            frames[head].set_references(1);
            let folio = frames.make_folio(head, order);
            for frame in folio.frames() {
                assert_eq!(frames.folio(frame), folio);
                assert!(folio.holds(frame) && folio.page(frame.0 - head.0) == frame);
                assert_eq!(frames[frame].get_unless_zero(), frame == head, "only a head gives references");
            }
            assert_eq!(frames.pages(head), order.pages());
            assert_eq!(frames.unmake_folio(head), folio);
            assert!((0..2048).map(FrameNumber).all(|frame| frames.folio(frame) == Folio::of_page(frame)));
            frames[head].set_references(0);
        }
    }

    /// Tests that a wrong word in a descriptor leads to no wrong folio. A task without a reference reads that a frame
    /// is a part of a folio. Then the folio is split, and the task reads a swap slot where the folio's word was. The
    /// frame must count as a single page, whatever the slot is.
    #[test]
    fn a_word_that_names_no_folio_of_the_frame_is_not_obeyed() {
        let frames = FrameTable::new(64).unwrap();
        let frame = FrameNumber(9);
        frames[frame].set(Flags::COMPOUND);
        for slot in [0, 1, 1 << 31, u32::MAX, 5_000_000, 40 | 1 << 2] {
            frames[frame].set_swap_slot(slot);
            assert_eq!(frames.folio(frame), Folio::of_page(frame), "{slot:#x}");
        }
    }

    #[test]
    fn a_folio_ends_with_its_last_page() {
        let folio = Folio { head: FrameNumber(8), order: Order(2) };
        assert_eq!(folio.frames().collect::<Vec<_>>(), [8, 9, 10, 11].map(FrameNumber));
        assert_eq!([7, 8, 11, 12].map(|frame| folio.holds(FrameNumber(frame))), [false, true, true, false]);
        assert!(folio.is_large() && !Folio::of_page(FrameNumber(8)).is_large());
    }
}
