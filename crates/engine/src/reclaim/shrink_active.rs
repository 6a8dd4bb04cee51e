//! Ageing: pages from the tail of an active list to the head of the inactive one
//! (`shrink_active_list`; spec reclaim, 11.2).

use super::Reclaim;
use crate::lru::choices::Activation;
use crate::lru::{CLUSTER, Family, ListKind, Recent};
use crate::mapping::{MappedUse, Owners};
use crate::memory::{Flags, Zone};
use crate::stat::Event;
use machine::{FrameNumber, Func, Machine};

impl<M: Machine> Reclaim<M> {
    /// Looks at up to `pages` of an active list; all go to the inactive list (with `Activation::AtScan`, file
    /// pages that were not used since, and program text that was), but those that were referenced count as rotated.
    #[doc(alias = "shrink_active_list")]
    pub(super) fn shrink_active(&self, zone: &Zone<M>, kind: ListKind, pages: u64) {
        let _span = self.machine.span(Func::ShrinkActiveList);
        self.drain_local();
        let (taken, _) = self.isolate(zone, kind, pages);
        if taken.is_empty() {
            return;
        }
        let mut owners = Owners::default();
        let (mut rotated, mut deactivated) = (0, 0);
        {
            let _span = self.machine.span(Func::PageReferenced);
            for &frame in &taken {
                let used = self.page_referenced(frame, &mut owners);
                rotated += u64::from(used.touched > 0);
                if !self.stays_active(frame, used) {
                    self.frames[frame].clear(Flags::ACTIVE);
                    deactivated += 1;
                }
            }
        }
        self.stat.count(Event::Pgdeactivate, deactivated);
        let recent = Recent { rotated, counts_active: true, ..Recent::default() };
        self.putback(zone, kind.family(), &taken, recent);
        self.end_isolation(zone, kind.family(), taken.len() as u64);
    }

    /// Was an active file page used since this was last asked, and does that keep it active? A program's text does
    /// in any case.
    fn stays_active(&self, frame: FrameNumber, used: MappedUse) -> bool {
        let descriptor = &self.frames[frame];
        if descriptor.is_anon() {
            return false;
        }
        if self.lru_choices().activation != Activation::AtScan {
            return used.is_executable;
        }
        let was_used = descriptor.test_clear(Flags::REFERENCED);
        descriptor.test_clear(Flags::USED_AGAIN) || was_used || used.touched > 0
    }

    /// Ages one cluster of anonymous pages if too few are inactive, so that there are candidates when
    /// they are wanted.
    pub(super) fn age_active_anon(&self, zone: &Zone<M>) {
        if self.is_inactive_low(zone, Family::Anon) {
            self.shrink_active(zone, ListKind::ActiveAnon, CLUSTER);
        }
    }
}
