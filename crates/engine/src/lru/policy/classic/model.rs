//! A model of the classic policy for use without an engine: one family of lists, no batches, one rule for ageing.
//!
//! The model uses the engine's code for lists, for the test for few inactive pages, and for the judgement. It has scans
//! of its own: the engine's scans have priorities and targets, while the model hands out pages one by one on demand.

use super::Lists;
use super::age::is_file_inactive_low;
use super::judge::check_references;
use crate::lru::ListKind;
use crate::lru::policy::{CLUSTER, Insert, Pages, Policy, Seen, Verdict, Victims};
use crate::memory::Flags;
use machine::FrameNumber;

/// A model of the classic policy: an active and an inactive list of file pages. A page that was used twice becomes
/// active when the scan reaches it.
#[derive(Debug, Default)]
pub struct ClassicModel {
    lists: Lists,
}

impl ClassicModel {
    fn kind_of<P: Pages>(pages: &P, page: FrameNumber) -> ListKind {
        if pages.is(page, Flags::ACTIVE) { ListKind::ActiveFile } else { ListKind::InactiveFile }
    }

    /// Moves up to a cluster (32) of active pages to the inactive list, as long as the inactive list is too short.
    fn age<P: Pages>(&mut self, pages: &P) {
        for _ in 0..CLUSTER {
            let [inactive, active] =
                [ListKind::InactiveFile, ListKind::ActiveFile].map(|kind| self.lists.list(kind).len());
            let Some(page) = self.lists.list(ListKind::ActiveFile).last() else { return };
            if !is_file_inactive_low(inactive, active) {
                return;
            }
            self.lists.list_mut(ListKind::ActiveFile).remove(pages, page);
            pages.clear(page, Flags::ACTIVE);
            self.lists.list_mut(ListKind::InactiveFile).push_front(pages, page);
        }
    }
}

impl<P: Pages> Policy<P> for ClassicModel {
    fn insert(&mut self, pages: &P, page: FrameNumber, _: Insert) {
        self.lists.list_mut(Self::kind_of(pages, page)).push_front(pages, page);
    }

    fn victims(&mut self, pages: &P, want: u64, out: &mut Victims) {
        self.age(pages);
        while (out.len() as u64) < want && !out.is_full() {
            let next = [ListKind::InactiveFile, ListKind::ActiveFile].into_iter().find_map(|kind| {
                let page = self.lists.list(kind).last()?;
                Some((kind, page))
            });
            let Some((kind, page)) = next else { return };
            self.lists.list_mut(kind).remove(pages, page);
            pages.clear(page, Flags::ACTIVE);
            out.push(page);
        }
    }

    fn judge(&mut self, _: &P, _: FrameNumber, seen: Seen) -> Verdict {
        check_references(seen.touched, seen.is_referenced, seen.is_anon, !seen.is_anon)
    }

    fn put_back(&mut self, pages: &P, page: FrameNumber, verdict: Verdict) {
        if verdict == Verdict::Activate {
            pages.set(page, Flags::ACTIVE);
        }
        self.lists.list_mut(Self::kind_of(pages, page)).push_front(pages, page);
    }

    fn remove(&mut self, pages: &P, page: FrameNumber) {
        self.lists.list_mut(Self::kind_of(pages, page)).remove(pages, page);
    }

    fn for_each(&self, pages: &P, visit: &mut dyn FnMut(FrameNumber)) {
        for kind in [ListKind::InactiveFile, ListKind::ActiveFile] {
            self.lists.list(kind).iter(pages).for_each(&mut *visit);
        }
    }
}
