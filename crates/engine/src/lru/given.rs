//! List operations for page migration: takes pages that the caller names off their lists, and puts the moved pages on
//! lists (mechanisms/reclaim, 23.5).

use super::policy::ruling::LockedLists;
use super::{Family, Insert, Lru, Lruvec};
use crate::memory::{Flags, Folio, LruvecId};
use machine::{FrameNumber, Machine};

/// Pages that were taken off LRU lists so that they can be moved to other frames. They may come from several lruvecs.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// The pages; a large folio is one entry, its head.
    pub(crate) pages: Vec<FrameNumber>,
    /// For each lruvec from which pages were taken, the number of its taken pages in each family. Counts all pages of a
    /// folio.
    by_lruvec: Vec<(LruvecId, [u64; Family::ALL.len()])>,
}

impl Given {
    /// Returns the number of pages that were taken from all lruvecs, counting all pages of a folio.
    pub(crate) fn count(&self) -> u64 {
        self.by_lruvec.iter().flat_map(|(_, pages)| pages).sum()
    }

    /// Returns the counters, one for each family, of the pages that were taken from an lruvec. The caller adds to them.
    fn of_lruvec(&mut self, id: LruvecId) -> &mut [u64; Family::ALL.len()] {
        let known = self.by_lruvec.iter().position(|(known, _)| *known == id);
        let at = known.unwrap_or_else(|| {
            self.by_lruvec.push((id, Default::default()));
            self.by_lruvec.len() - 1
        });
        &mut self.by_lruvec[at].1
    }
}

/// The locked lists of one lruvec. The task that holds the lock takes pages off the lists.
pub(crate) struct HeldLists<'a, M: Machine> {
    lruvec: &'a Lruvec<M>,
    lists: LockedLists<'a, M>,
}

impl<M: Machine> HeldLists<'_, M> {
    /// Returns the lruvec whose lists are locked.
    pub(crate) fn lruvec(&self) -> &Lruvec<M> {
        self.lruvec
    }
}

impl<M: Machine> Lru<M> {
    /// Locks the lists of an lruvec.
    pub(crate) fn hold_lists<'a>(&self, lruvec: &'a Lruvec<M>) -> HeldLists<'a, M> {
        HeldLists { lruvec, lists: self.lock_lists(lruvec) }
    }

    /// Isolates a folio that the caller has seen on a list: takes the folio off the list, and takes a reference to it.
    /// `held` has the locked lists of some lruvec. If the folio is on another lruvec, unlocks these lists and locks
    /// those of the other lruvec. Returns `false` if the folio is on no list any more, if its frame holds another
    /// folio, or if its last reference is being dropped.
    #[doc(alias = "isolate_lru_page")]
    pub(crate) fn isolate_given<'a>(
        &'a self,
        held: &mut Option<HeldLists<'a, M>>,
        folio: Folio,
        taken: &mut Given,
    ) -> bool {
        let lruvec = self.lruvec_of_page(folio.head);
        if held.as_ref().is_some_and(|held| held.lruvec.id != lruvec.id) {
            *held = None;
        }
        let lists = held.get_or_insert_with(|| self.hold_lists(lruvec));
        // Before the lock was taken, others may have made another folio of the frame, for another group. Only a page
        // that has a reference stays in its group. If it is on a list then, this is a list that is locked here.
        let has_groups = self.groups.is_some();
        if has_groups && !self.frames[folio.head].get_unless_zero() {
            return false;
        }
        let is_same = self.frames.folio(folio.head) == folio && self.frames.group(folio.head) == lruvec.group;
        let is_taken = is_same
            && self.frames[folio.head].is(Flags::LRU)
            && self.take_given(lruvec, &mut lists.lists, folio.head, taken.of_lruvec(lruvec.id));
        if is_taken {
            taken.pages.push(folio.head);
        }
        if has_groups && self.frames[folio.head].put() {
            // All others released the page meanwhile. It leaves its list under the same lock.
            *held = None;
            self.free_unreferenced(folio.head);
        }
        is_taken
    }

    /// Ends the isolation of `taken`, the pages that [`Lru::isolate_given`] isolated. The pages of `stay`, which were
    /// not moved to other frames, go back to their lists and lose the references that isolation took.
    #[doc(alias = "putback_lru_pages")]
    pub(crate) fn put_back_given(&self, taken: &Given, stay: &[FrameNumber]) {
        // Divides the pages by lruvec and family before any page is put back: once a page is back, other tasks may free
        // it and change its flags.
        let stay_of = |id: LruvecId| {
            let of_lruvec =
                stay.iter().copied().filter(|frame| self.lruvec_of_page(*frame).id == id).collect::<Vec<_>>();
            Family::ALL.map(|family| self.of_family(&of_lruvec, family).collect::<Vec<_>>())
        };
        let parts: Vec<_> = taken.by_lruvec.iter().map(|(id, pages)| (*id, pages, stay_of(*id))).collect();
        for (id, pages, stay) in parts {
            let lruvec = &self.lruvecs[usize::from(id.0)];
            for family in Family::ALL {
                self.put_back_unjudged(lruvec, family, &stay[family as usize]);
                let taken = pages[family as usize];
                if taken > 0 {
                    self.end_isolation(lruvec, family, taken);
                }
            }
        }
    }

    /// Puts a page that was migrated to `frame` on the LRU list of the given kind (active or inactive), and drops the
    /// caller's reference to the page.
    pub(crate) fn add_moved(&self, frame: FrameNumber, is_active: bool) {
        self.add(frame, Insert::Moved, is_active);
        self.put(frame);
    }
}
