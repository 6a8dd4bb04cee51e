//! List operations for page migration: takes pages that the caller names off their lists, and puts the moved pages on
//! lists (mechanisms/reclaim, 23.5).

use super::policy::ruling::LockedLists;
use super::{BlockVictims, Family, Insert, Lru};
use crate::memory::{Flags, Zone};
use machine::{FrameNumber, Machine};

impl<M: Machine> Lru<M> {
    /// Takes the page in `frame` off its list, takes a reference to it, and adds it to `taken`. Returns `false` if the
    /// page is on no list, or if its last reference is being dropped.
    #[doc(alias = "isolate_lru_page")]
    pub(crate) fn isolate_given(
        &self,
        zone: &Zone<M>,
        lists: &mut LockedLists<'_, M>,
        frame: FrameNumber,
        taken: &mut BlockVictims,
    ) -> bool {
        let is_taken = self.frames[frame].is(Flags::LRU)
            && self.take_given(self.lruvec_of(zone), lists, frame, taken.by_family_mut());
        if is_taken {
            taken.pages.push(frame);
        }
        is_taken
    }

    /// Ends the isolation of pages that [`Lru::isolate_given`] isolated. The pages of `stay`, which stay in their
    /// frames, go back to their lists, and lose the references that isolation took.
    #[doc(alias = "putback_lru_pages")]
    pub(crate) fn put_back_given(&self, zone: &Zone<M>, taken: &BlockVictims, stay: &[FrameNumber]) {
        let lruvec = self.lruvec_of(zone);
        // Divides the pages by family before any page is put back: once a page is back, other tasks may free it and
        // change its flags.
        let stay = Family::ALL.map(|family| self.of_family(stay, family).collect::<Vec<_>>());
        for family in Family::ALL {
            self.put_back_unjudged(lruvec, family, &stay[family as usize]);
            let taken = taken.by_family()[family as usize];
            if taken > 0 {
                self.end_isolation(lruvec, family, taken);
            }
        }
    }

    /// Puts a page that was moved to this frame on a list, and drops the caller's reference.
    pub(crate) fn add_moved(&self, frame: FrameNumber, is_active: bool) {
        self.add(frame, Insert::Moved, is_active);
        self.put(frame);
    }
}
