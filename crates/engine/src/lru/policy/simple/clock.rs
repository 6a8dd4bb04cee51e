//! Clock, or second chance: pages leave in the order in which they came, except that a page that was used meanwhile
//! goes back to the beginning.
//!
//! A use only sets bits in the page's own descriptor; it does not move the page. Corbató, "A paging experiment with the
//! Multics system", 1968.

use crate::lru::policy::{Insert, Pages, Policy, Seen, Verdict, Victims};
use crate::memory::List;
use machine::FrameNumber;

/// The pages under the clock policy, in one list in the order of insertion. The clock's hand is at the list's tail,
/// from which victims are taken.
#[derive(Debug, Default)]
pub struct Clock {
    list: List,
}

impl<P: Pages> Policy<P> for Clock {
    fn insert(&mut self, pages: &P, page: FrameNumber, _: Insert) {
        self.list.push_front(pages, page);
    }

    fn victims(&mut self, pages: &P, want: u64, out: &mut Victims) {
        while (out.len() as u64) < want && !out.is_full() {
            let Some(page) = self.list.last() else { return };
            self.list.remove(pages, page);
            List::look_before(pages, page);
            out.push(page);
        }
    }

    fn judge(&mut self, _: &P, _: FrameNumber, seen: Seen) -> Verdict {
        match seen.touched > 0 {
            true => Verdict::Activate,
            false => Verdict::Reclaim,
        }
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
