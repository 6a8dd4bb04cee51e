//! Ageing: pages from the tail of an active list to the head of the inactive one
//! (`shrink_active_list`; spec reclaim, 11.2).

use super::Reclaim;
use super::shrink_pages::Owners;
use crate::lru::{CLUSTER, Family, ListKind, Recent};
use crate::memory::{Flags, Zone};
use crate::stat::Event;
use machine::{Func, Machine};

impl<M: Machine> Reclaim<M> {
    /// Looks at up to `pages` of an active list; all go to the inactive list, but those that were
    /// referenced count as rotated.
    #[doc(alias = "shrink_active_list")]
    pub(super) fn shrink_active(&self, zone: &Zone<M>, kind: ListKind, pages: u64) {
        let _span = self.machine.span(Func::ShrinkActiveList);
        self.drain_local();
        let (taken, _) = self.isolate(zone, kind, pages);
        if taken.is_empty() {
            return;
        }
        let mut owners = Owners::default();
        let mut rotated = 0;
        {
            let _span = self.machine.span(Func::PageReferenced);
            for &frame in &taken {
                let region = owners.region_of(self, frame);
                rotated += u64::from(self.page_referenced(frame, region) > 0);
                self.frames[frame].clear(Flags::ACTIVE);
            }
        }
        self.stat.count(Event::Pgdeactivate, taken.len() as u64);
        let recent = Recent { rotated, ..Recent::default() };
        self.putback(zone, kind.family(), &taken, recent);
        self.end_isolation(zone, kind.family(), taken.len() as u64);
    }

    /// Ages one cluster of anonymous pages if too few are inactive, so that there are candidates when
    /// they are wanted.
    pub(super) fn age_active_anon(&self, zone: &Zone<M>) {
        if self.is_inactive_low(zone, Family::Anon) {
            self.shrink_active(zone, ListKind::ActiveAnon, CLUSTER);
        }
    }
}
