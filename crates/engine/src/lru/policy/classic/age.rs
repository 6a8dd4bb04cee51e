//! Ageing: moves pages from the tail of an active list to the head of the inactive one (`shrink_active_list`;
//! mechanisms/reclaim, 11.2).

use super::Recent;
use crate::anonymous::{MappedUse, Owners};
use crate::lru::choices::{InactiveRatio, MappedPages};
use crate::lru::policy::{Blocks, Demand};
use crate::lru::{CLUSTER, Family, ListKind, Lru, Lruvec, Reach};
use crate::memory::Flags;
use crate::stat::{Event, Gauge};
use machine::{FrameNumber, Func, Machine, Order};

/// The rule by which mapped pages of an active list stay active or become inactive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MappedRule {
    /// The page stays active, used or not.
    Stay,
    /// The page becomes inactive, unless it was used, or is an anonymous page and there is no swap.
    UnlessUsed,
    /// The page is treated like pages that are not mapped.
    LikeOthers,
}

/// Returns whether too few file pages are inactive: fewer than are active.
pub(super) const fn is_file_inactive_low(inactive: u64, active: u64) -> bool {
    active > inactive
}

impl<M: Machine> Lru<M> {
    /// Takes up to `pages` pages off the tail of an active list. Puts each of them on the inactive list, or back on the
    /// active list. With `MappedPages::ByDistress`, mapped pages may stay active. With `MappedPages::LikeOthers`, used
    /// pages of a program's text stay active, or all used file pages if the kernel also has `Activation::AtScan`; and
    /// each used page counts once as rotated. With `LumpyReclaim::ByOrder`, a page is taken together with the other
    /// pages of its aligned block that are on the list.
    #[doc(alias = "shrink_active_list")]
    pub(super) fn shrink_active(&self, reach: Reach<'_, M>, kind: ListKind, pages: u64, demand: &Demand) {
        let _span = self.machine.span(Func::ShrinkActiveList);
        let rule = self.mapped_rule(reach, demand);
        self.drain_before_scan();
        if demand.aged_order > Order::ZERO {
            let blocks = Blocks { order: demand.aged_order, any_list: false, ends_at_gap: false };
            let (taken, _) = self.isolate_blocks(reach, kind, pages, blocks);
            self.age(reach, kind, &taken.pages, taken.count(), rule);
        } else {
            let taken = self.isolate(reach, kind, pages);
            self.age(reach, kind, &taken.entries, taken.pages, rule);
        }
    }

    /// Puts isolated active pages back. A page goes on the inactive list, unless `rule` and its recent use keep it
    /// active. `pages` is the number of pages, counting all pages of a folio.
    fn age(&self, reach: Reach<'_, M>, kind: ListKind, taken: &[FrameNumber], pages: u64, rule: MappedRule) {
        if taken.is_empty() {
            return;
        }
        let mut owners = Owners::default();
        let (mut rotated, mut deactivated) = (0, 0);
        {
            let _span = self.machine.span(Func::PageReferenced);
            for &frame in taken {
                if self.may_become_inactive(frame, rule, &mut owners, &mut rotated) {
                    self.frames[frame].clear(Flags::ACTIVE);
                    self.note_deactivated(frame);
                    deactivated += self.frames.pages(frame);
                }
            }
        }
        self.stat.count(Event::Pgdeactivate, deactivated);
        let recent = Recent { rotated, ..Recent::default() };
        self.age_by_putback(reach.lruvec, taken);
        self.putback(reach.lruvec, kind.family(), taken, recent);
        self.end_isolation(reach.lruvec, kind.family(), pages);
        if rotated > 0 && self.choices.family_balance.counts_rotation() {
            self.note_io_cost(reach.lruvec, kind.family(), 0, rotated);
        }
    }

    /// Returns the rule by which mapped active pages are treated at the demand's priority.
    fn mapped_rule(&self, reach: Reach<'_, M>, demand: &Demand) -> MappedRule {
        match self.choices.mapped_pages {
            MappedPages::LikeOthers => return MappedRule::LikeOthers,
            MappedPages::ByDistress => {}
        }
        let is_near_end = reach.zone.pages_scanned() >= 3 * self.listed_pages(reach);
        let mapped = self.memory().gauge(Gauge::NrMapped) + self.memory().gauge(Gauge::NrAnonPages);
        let mapped_percent = 100 * mapped / self.zones.iter().map(|zone| zone.managed()).sum::<u64>().max(1);
        let distress = 100 >> reach.lruvec.previous_priority().min(demand.priority);
        if demand.may_swap && (is_near_end || mapped_percent / 2 + distress + self.choices.swappiness >= 100) {
            MappedRule::UnlessUsed
        } else {
            MappedRule::Stay
        }
    }

    /// Returns whether an isolated active page becomes inactive. With [`MappedRule::LikeOthers`], adds 1 to `rotated`
    /// if the page was used.
    fn may_become_inactive(
        &self,
        frame: FrameNumber,
        rule: MappedRule,
        owners: &mut Owners<M>,
        rotated: &mut u64,
    ) -> bool {
        let descriptor = &self.frames[frame];
        if rule != MappedRule::LikeOthers && descriptor.mappings() == 0 {
            return true;
        }
        let has_nowhere_to_go = || descriptor.is_anon() && self.swap.total_slots() == 0;
        if rule == MappedRule::Stay || rule == MappedRule::UnlessUsed && has_nowhere_to_go() {
            return false;
        }
        let used = self.anonymous().page_referenced(frame, owners);
        if rule == MappedRule::UnlessUsed {
            // Both marks are read and cleared, so that one use keeps a page for one round.
            let was_referenced = descriptor.test_clear(Flags::REFERENCED);
            self.page_cache().close_page(frame, owners);
            return used.touched == 0 && !was_referenced;
        }
        let stays = self.stays_active(frame, used, owners);
        *rotated += u64::from(used.touched > 0 || stays);
        !stays
    }

    /// Returns whether an active page stays active, because the page was used since reclaim last checked it. The result
    /// is `false` for each anonymous page. Without `Activation::AtScan`, only used pages of a program's text stay
    /// active.
    fn stays_active(&self, frame: FrameNumber, used: MappedUse, owners: &mut Owners<M>) -> bool {
        let descriptor = &self.frames[frame];
        if descriptor.is_anon() {
            return false;
        }
        if !self.choices.activation.is_at_scan() {
            return used.is_executable;
        }
        let was_used = descriptor.test_clear(Flags::REFERENCED);
        let was_used_again = descriptor.test_clear(Flags::USED_AGAIN);
        self.page_cache().close_page(frame, owners);
        was_used_again || was_used || used.touched > 0
    }

    /// Scans up to 32 active anonymous pages (a cluster), and makes them inactive unless they must stay active. Does
    /// nothing if enough anonymous pages are inactive. Later scans then find anonymous pages to reclaim.
    pub(in crate::lru) fn age_active_anon(&self, reach: Reach<'_, M>, demand: &Demand) {
        if self.is_inactive_low(reach, Family::Anon, demand) {
            self.shrink_active(reach, ListKind::ActiveAnon, CLUSTER, demand);
        }
    }

    /// Returns whether the inactive list of a family is so short that pages leave it before they can be used again.
    ///
    /// The rule is `lru.inactive_ratio`. Without swap, the anonymous list is never too short. With
    /// `CgroupCounters::EveryTwoSeconds`, the numbers of pages may be up to two seconds old. If earlier reclaims of the
    /// request freed nothing, exact numbers are used, so that memory does not count as exhausted because of old
    /// numbers. Only reclaim at a cgroup's limit uses the old numbers even then, because Linux was seen to fail at a
    /// limit because of old numbers.
    pub fn is_inactive_low(&self, reach: Reach<'_, M>, family: Family, demand: &Demand) -> bool {
        let exact = |kind| self.list_pages(reach, kind);
        self.is_low(reach, reach.lruvec, family, demand, exact)
    }

    /// Returns whether the inactive lists of a family are too short, summed over the group that is reclaimed and the
    /// group's descendants.
    pub(super) fn is_inactive_low_in_target(&self, reach: Reach<'_, M>, family: Family, demand: &Demand) -> bool {
        let exact = |kind| self.list_pages_of_target(reach, demand, kind);
        self.is_low(reach, self.beside(reach.lruvec, demand.group), family, demand, exact)
    }

    fn is_low(
        &self,
        reach: Reach<'_, M>,
        summed: &Lruvec<M>,
        family: Family,
        demand: &Demand,
        exact: impl Fn(ListKind) -> u64,
    ) -> bool {
        let counts_anew = demand.doubts_marks && !demand.is_cgroup;
        let sum = |kind| if counts_anew { None } else { self.summed_list_pages(summed, kind) };
        let pages = |kind| sum(kind).unwrap_or_else(|| exact(kind));
        let (inactive, active) = (pages(family.inactive()), pages(family.active()));
        if family == Family::Anon && self.swap.total_slots() == 0 {
            return false;
        }
        match (self.choices.inactive_ratio, family) {
            (InactiveRatio::OfZone, Family::File) => is_file_inactive_low(inactive, active),
            (InactiveRatio::OfZone, Family::Anon) => {
                let managed = reach.zones.iter().map(|zone| zone.managed()).sum::<u64>();
                is_below_ratio(inactive, active, managed)
            }
            (InactiveRatio::OfFamily, Family::File | Family::Anon) => {
                is_below_ratio(inactive, active, inactive + active)
            }
        }
    }
}

/// Returns whether `active` is more than isqrt(10 × G) times `inactive`, where G is the size of `pages` pages in GiB,
/// rounded down. Under 1 GiB the factor is 1.
pub(super) const fn is_below_ratio(inactive: u64, active: u64, pages: u64) -> bool {
    let ratio = (10 * (pages >> 18)).isqrt();
    inactive * if ratio == 0 { 1 } else { ratio } < active
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_larger_family_a_smaller_part_is_inactive() {
        let gib = |pages: u64| pages << 18;
        assert!(!is_below_ratio(100, 100, 200) && is_below_ratio(99, 100, 199));
        // Allowed ratio of active to inactive pages: 3 with 1 GiB, 10 with 10 GiB, 31 with 100 GiB.
        for (size, ratio) in [(1, 3), (10, 10), (100, 31)] {
            let inactive = gib(size) / (ratio + 1);
            assert!(!is_below_ratio(inactive, inactive * ratio, gib(size)), "{size} GiB");
            assert!(is_below_ratio(inactive - 1, inactive * ratio, gib(size)), "{size} GiB");
        }
    }
}
