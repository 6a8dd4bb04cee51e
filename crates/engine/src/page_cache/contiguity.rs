//! Guesses the frame of a page of a file. Guesses are possible because adjacent pages of a file often lie in adjacent
//! frames.
//!
//! A hit in the page cache waits for memory twice: for the page's slot in the index, and then for the page's bytes. The
//! pages of a file that was read in order mostly lie in adjacent frames, because the free lists return frames in order.
//! The difference of frame number and page number is then constant over long stretches, so the bytes can be prefetched
//! before the slot has been loaded. The technique is speculative translation (Barr, Cox, Rixner: SpecTLB, ISCA 2011). A
//! guess is only a hint: the slot decides.
//!
//! One word of 8 bytes holds the guess for each 2 MiB of a file. The words for a GiB of a file take 4 KiB, which stay
//! in the nearest caches of the CPU. If pages are read in random order, words are rarely written, mostly to lower the
//! trust in earlier guesses.

use super::segments::Segments;
use crate::memory::free_area::BLOCK_PAGES;
use machine::FrameNumber;
use machine::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of pages in a *stretch*: adjacent pages of a file for which one word stores one guess.
const STRETCH_PAGES: u32 = BLOCK_PAGES as u32;

/// Largest `trust` of a [`Guess`], in pages: half of a stretch. A recorded page raises the trust by one if it lies in
/// the guessed frame, and lowers it by one otherwise. So this number of pages in other frames ends any trust.
const TRUST_MAX: u32 = STRETCH_PAGES / 2;

/// A guess of where a stretch (512 adjacent pages of a file) lies in memory: the frame of the stretch's first page,
/// provided that the stretch's frames are in file order. The trust in the guess is the number of recently recorded
/// pages whose frames agreed with it, minus the number of those whose frames did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Guess {
    first: u32,
    trust: u32,
}

impl Guess {
    const fn unpack(word: u64) -> Self {
        Self { first: word as u32, trust: (word >> 32) as u32 }
    }

    const fn pack(self) -> u64 {
        self.first as u64 | (self.trust as u64) << 32
    }

    /// Returns the guess after one more page of the stretch was recorded. `first` is the frame of the stretch's first
    /// page that would fit the recorded page: the page's frame minus its index in the stretch. `follows` is true if the
    /// recorded page's frame comes directly after the frame of the page before it in the file.
    const fn with_page(self, first: u32, follows: bool) -> Self {
        match (self.first == first, self.trust) {
            (true, TRUST_MAX) => self,
            (true, trust) => Self { first, trust: trust + 1 },
            (false, 0) if follows => Self { first, trust: 1 },
            (false, 0) => self,
            (false, trust) => Self { first: self.first, trust: trust - 1 },
        }
    }
}

/// For one file, the guesses of where its pages lie in memory, one for each 512 adjacent pages. Tasks update the
/// guesses without a lock, so an update by one task may be lost. This does no harm, because a guess is only a hint.
#[derive(Debug, Default)]
pub(super) struct Contiguity(Segments<AtomicU64>);

impl Contiguity {
    /// Records that page `page` of the file came into the frame `frame`. `before` returns the frame of the page before
    /// it in the file, and is called only if its result matters.
    #[inline]
    pub fn note(&self, page: u32, frame: FrameNumber, before: impl FnOnce() -> Option<FrameNumber>) {
        let Some(word) = self.0.try_get_or_make((page / STRETCH_PAGES) as usize) else { return };
        let known = Guess::unpack(word.load(Relaxed));
        let first = frame.0.wrapping_sub(page % STRETCH_PAGES);
        let follows = known.trust == 0 && before().is_some_and(|before| before.0.wrapping_add(1) == frame.0);
        let now = known.with_page(first, follows);
        if now != known {
            word.store(now.pack(), Relaxed);
        }
    }

    /// Returns a guess of the frame in which a page of the file lies; `None` if nothing is known. The guess is right if
    /// the page is in memory, and its frame follows the frame of the page before it. It is a hint only: the result may
    /// be a number that no frame has.
    #[inline(always)]
    pub fn guess(&self, page: usize) -> Option<FrameNumber> {
        let stretch = STRETCH_PAGES as usize;
        let guess = Guess::unpack(self.0.get(page / stretch)?.load(Relaxed));
        (guess.trust > 0).then(|| FrameNumber(guess.first.wrapping_add((page % stretch) as u32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls [`Contiguity::note`] for each of `pages`, in this order. `frame_of` returns the frame in which a page of
    /// the file is.
    fn note(contiguity: &Contiguity, pages: impl Iterator<Item = u32>, frame_of: impl Fn(u32) -> u32) {
        for page in pages {
            let before = || page.checked_sub(1).map(|page| FrameNumber(frame_of(page)));
            contiguity.note(page, FrameNumber(frame_of(page)), before);
        }
    }

    #[test]
    fn pages_in_order_are_guessed() {
        let contiguity = Contiguity::default();
        assert_eq!(contiguity.guess(3), None);
        note(&contiguity, 0..2000, |page| page + 70);
        assert!((1..2000).all(|page| contiguity.guess(page) == Some(FrameNumber(page as u32 + 70))));
        assert_eq!(contiguity.guess(5 * STRETCH_PAGES as usize), None);
    }

    #[test]
    fn pages_in_no_order_are_not() {
        let contiguity = Contiguity::default();
        let anywhere = |page: u32| page.wrapping_mul(2_654_435_761) % 100_000;
        note(&contiguity, 0..4096, anywhere);
        let right = (0..4096).filter(|page| contiguity.guess(*page) == Some(FrameNumber(anywhere(*page as u32))));
        assert!(right.count() <= 8);
        assert!((0..4096).filter(|page| contiguity.guess(*page).is_some()).count() <= STRETCH_PAGES as usize);
    }

    #[test]
    fn a_guess_is_given_up_when_pages_lie_elsewhere() {
        let contiguity = Contiguity::default();
        note(&contiguity, 0..STRETCH_PAGES, |page| page);
        // Pages come in no order. The old guess stays until half of the stretch's pages have contradicted it.
        let anywhere = |page: u32| page * 2 + 1000;
        note(&contiguity, 0..TRUST_MAX - 1, anywhere);
        assert_eq!(contiguity.guess(500), Some(FrameNumber(500)));
        note(&contiguity, 0..TRUST_MAX, anywhere);
        assert_eq!(contiguity.guess(500), None);
        // Pages come in order, but in other frames than at first.
        note(&contiguity, 0..STRETCH_PAGES, |page| page + 7000);
        assert_eq!(contiguity.guess(500), Some(FrameNumber(7500)));
    }

    #[test]
    fn frames_below_their_pages_are_guessed() {
        let contiguity = Contiguity::default();
        // Page 100 is in frame 0, so the first page of the stretch would be in a frame before frame 0.
        note(&contiguity, 100..200, |page| page.wrapping_sub(100));
        assert_eq!(contiguity.guess(150), Some(FrameNumber(50)));
    }
}
