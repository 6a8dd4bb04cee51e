//! Given pages leave their lists, and others take their places: what moving pages needs of lists (mechanisms/reclaim, 23.5).

use super::policy::classic::BlockVictims;
use super::policy::in_engine::OwnPolicy;
use super::policy::multigen::lists::Lists;
use super::policy::multigen::placement::Coming;
use super::{Family, Insert, Lru, Lruvec, Recent};
use crate::memory::{Flags, Zone};
use machine::{FrameNumber, Lock, Machine};

/// The lists of a zone's pages, locked.
pub(crate) enum LockedLists<'a, M: Machine> {
    /// Classic ones.
    Classic(<M::Lock<Lruvec> as Lock<Lruvec>>::Guard<'a>),
    /// Of a policy of its own.
    Own(<M::Lock<OwnPolicy> as Lock<OwnPolicy>>::Guard<'a>),
    /// Of generations.
    Generations(<M::Lock<Lists> as Lock<Lists>>::Guard<'a>),
}

impl<M: Machine> Lru<M> {
    /// Locks the lists of a zone's pages.
    pub(crate) fn lock_lists(&self, zone: &Zone<M>) -> LockedLists<'_, M> {
        if let Some(multigen) = &self.multigen {
            return LockedLists::Generations(multigen.lists_of(zone).lock());
        }
        match &self.own {
            Some(own) => LockedLists::Own(self.own_of(own, zone).lock()),
            None => LockedLists::Classic(self.lruvec(zone).lock()),
        }
    }

    /// Does somebody wait for the lock of a zone's lists?
    pub(crate) fn are_lists_contended(&self, zone: &Zone<M>) -> bool {
        if let Some(multigen) = &self.multigen {
            return multigen.lists_of(zone).is_contended();
        }
        match &self.own {
            Some(own) => self.own_of(own, zone).is_contended(),
            None => self.lruvec(zone).is_contended(),
        }
    }

    /// Takes a given page off its list, with one more reference; false when it is on none, or its last reference is falling.
    #[doc(alias = "isolate_lru_page")]
    pub(crate) fn isolate_given(
        &self,
        zone: &Zone<M>,
        lists: &mut LockedLists<'_, M>,
        frame: FrameNumber,
        taken: &mut BlockVictims,
    ) -> bool {
        let descriptor = &self.frames[frame];
        if !descriptor.is(Flags::LRU) {
            return false;
        }
        let is_taken = match lists {
            LockedLists::Generations(lists) => {
                let multigen = self.multigen.as_ref().expect("their lists are locked");
                self.isolate_given_generation(multigen, zone, lists, frame, taken.by_family_mut())
            }
            LockedLists::Classic(lruvec) => self.isolate_one(zone, lruvec, frame, taken.by_family_mut()),
            LockedLists::Own(policy) => {
                let is_taken = descriptor.get_unless_zero();
                if is_taken {
                    policy.remove(&self.frames, frame);
                    descriptor.clear(Flags::LRU);
                    self.count_own_isolated(zone, frame, taken.by_family_mut());
                }
                is_taken
            }
        };
        if is_taken {
            taken.pages.push(frame);
        }
        is_taken
    }

    /// Ends the isolation of pages that [`Lru::isolate_given`] took: those that stay in their frames go back to their lists, and
    /// the references of isolation are dropped.
    #[doc(alias = "putback_lru_pages")]
    pub(crate) fn put_back_given(&self, zone: &Zone<M>, taken: &BlockVictims, stay: &[FrameNumber]) {
        // Told apart before any is put back: then they are others' again, to be freed and changed.
        let stay = Family::ALL.map(|family| self.of_family(stay, family).collect::<Vec<_>>());
        for family in Family::ALL {
            let pages = &stay[family as usize];
            match (&self.own, &self.multigen) {
                (None, Some(multigen)) => self.put_back_generations(multigen, zone, pages, Coming::New),
                (None, None) => self.putback(zone, family, pages, Recent::default()),
                (Some(own), _) => pages.iter().for_each(|frame| {
                    // The policy has forgotten it: it comes anew.
                    self.insert_own(own, *frame, Insert::Fault);
                    self.put(*frame);
                }),
            }
            let taken = taken.by_family()[family as usize];
            if taken > 0 {
                self.end_isolation(zone, family, taken);
            }
        }
    }

    /// The page that was in another frame comes to a list; the caller's reference is dropped.
    pub(crate) fn add_moved(&self, frame: FrameNumber, is_active: bool) {
        self.add(frame, Insert::Fault, is_active);
        self.put(frame);
    }
}
