//! The policy SIEVE: a hand moves from the oldest page to the newest, clears marks, and evicts the first page without a
//! mark. Pages that stay keep their place. (Zhang et al., "SIEVE is simpler than LRU", NSDI 2024.)

use engine::lru::policy::{Insert, Pages, Policy, Seen, Verdict, Victims};
use engine::memory::{Flags, List, NO_FRAME};
use machine::FrameNumber;

/// The pages in the order in which they came, and the hand: the page at which the search for the next victim goes on.
#[derive(Debug, Default)]
pub struct Sieve {
    list: List,
    hand: Option<FrameNumber>,
}

impl Sieve {
    /// Returns the next page for the hand: the page that came right after `page`. Returns `None` after the newest page;
    /// the hand then begins again at the oldest.
    fn before<P: Pages>(pages: &P, page: FrameNumber) -> Option<FrameNumber> {
        let before = pages.previous(page);
        (before != NO_FRAME).then_some(FrameNumber(before))
    }

    fn take<P: Pages>(&mut self, pages: &P, page: FrameNumber) {
        if self.hand == Some(page) {
            self.hand = Self::before(pages, page);
        }
        self.list.remove(pages, page);
    }
}

impl<P: Pages> Policy<P> for Sieve {
    fn insert(&mut self, pages: &P, page: FrameNumber, _: Insert) {
        self.list.push_front(pages, page);
    }

    fn victims(&mut self, pages: &P, want: u64, out: &mut Victims) {
        while (out.len() as u64) < want && !out.is_full() {
            let Some(page) = self.hand.or(self.list.last()) else { return };
            self.hand = Some(page);
            if pages.test_clear(page, Flags::USED_AGAIN) {
                self.hand = Self::before(pages, page);
            } else {
                self.take(pages, page);
                out.push(page);
            }
        }
    }

    /// Keeps a victim that was touched. `touched` counts the uses through page tables since the last verdict. Of the
    /// uses through the file, it counts only those after [`Self::victims`] took the page: for earlier ones, the hand
    /// has passed over the page.
    fn judge(&mut self, _: &P, _: FrameNumber, seen: Seen) -> Verdict {
        if seen.touched > 0 { Verdict::Activate } else { Verdict::Reclaim }
    }

    fn put_back(&mut self, pages: &P, page: FrameNumber, _: Verdict) {
        self.list.push_front(pages, page);
    }

    fn remove(&mut self, pages: &P, page: FrameNumber) {
        self.take(pages, page);
    }

    fn for_each(&self, pages: &P, visit: &mut dyn FnMut(FrameNumber)) {
        self.list.iter(pages).for_each(visit);
    }
}
