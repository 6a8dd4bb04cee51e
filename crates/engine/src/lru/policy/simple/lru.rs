//! LRU in the strict sense: the page that was not used for the longest time is evicted.
//!
//! Each use moves the page, under the lock. This policy is the reference by which others are measured. It would cost a
//! kernel too much.

use crate::lru::policy::{Insert, Pages, Policy, Seen, Verdict, Victims};
use crate::memory::List;
use machine::FrameNumber;

/// The pages under the strict LRU policy, in one list in the order of their last use.
#[derive(Debug, Default)]
pub struct Lru {
    list: List,
}

impl<P: Pages> Policy<P> for Lru {
    fn insert(&mut self, pages: &P, page: FrameNumber, _: Insert) {
        self.list.push_front(pages, page);
    }

    fn moves_on_use(&self) -> bool {
        true
    }

    fn used(&mut self, pages: &P, page: FrameNumber) {
        if self.list.first() != Some(page) {
            self.list.remove(pages, page);
            self.list.push_front(pages, page);
        }
    }

    fn victims(&mut self, pages: &P, want: u64, out: &mut Victims) {
        while (out.len() as u64) < want && !out.is_full() {
            let Some(page) = self.list.last() else { return };
            self.list.remove(pages, page);
            out.push(page);
        }
    }

    /// Decides whether a page that was chosen as a victim is kept: it is kept if it was used through page tables. A use
    /// through the page's file needs no check, because it has already moved the page to the head of the list.
    fn judge(&mut self, _: &P, _: FrameNumber, seen: Seen) -> Verdict {
        if seen.touched > 0 { Verdict::Activate } else { Verdict::Reclaim }
    }

    fn put_back(&mut self, pages: &P, page: FrameNumber, _: Verdict) {
        self.list.push_front(pages, page);
    }

    fn remove(&mut self, pages: &P, page: FrameNumber) {
        self.list.remove(pages, page);
    }

    fn for_each(&self, pages: &P, visit: &mut dyn FnMut(FrameNumber)) {
        self.list.iter(pages).for_each(visit);
    }
}
