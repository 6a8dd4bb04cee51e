//! The number of pages of a list that a scan examines, for every policy.

use super::choices::{HopelessScan, SmallTargets};
use super::{CLUSTER, Demand, ListKind, Lru, Lruvec, Reach};
use crate::memory::ZoneFlag;
use crate::memory::group::Protection;
use machine::Machine;
use machine::atomic::Ordering::Relaxed;

impl<M: Machine> Lru<M> {
    /// Returns the number of pages that a scan at the priority of `demand` examines on a list. The list has `pages`
    /// pages.
    pub(super) fn share(&self, reach: Reach<'_, M>, pages: u64, demand: &Demand) -> u64 {
        let share = self.unprotected(reach, pages, demand) >> demand.priority;
        if share > 0 {
            return share;
        }
        let force = self.is_forced(reach, demand);
        // The share of a last page rounds to 0 even at priority 1. Where reclaim does not go down to priority 0, such a
        // page would never be examined, and its zone would be neither balanced nor hopeless.
        if force || demand.priority <= 1 || self.is_of_removed_group(reach) { pages.min(CLUSTER) } else { 0 }
    }

    /// Returns whether a scan examines a cluster (32 pages) of each list even if the number of pages to scan on the
    /// list is rounded down to 0. This is so with `HopelessScan::ACluster`, if kswapd scans a zone that is marked
    /// hopeless.
    pub(super) fn is_forced(&self, reach: Reach<'_, M>, demand: &Demand) -> bool {
        match self.choices.hopeless_scan {
            HopelessScan::ACluster => demand.is_kswapd && reach.zone.is(ZoneFlag::ALL_UNRECLAIMABLE),
            HopelessScan::LikeOthers => false,
        }
    }

    /// Returns whether the group whose lists are scanned was removed. The lists of a removed group get no new pages. A
    /// scan does not round its target for such a list down to 0 pages, because the last pages of the list would then
    /// never be reclaimed.
    pub(super) fn is_of_removed_group(&self, reach: Reach<'_, M>) -> bool {
        self.groups.as_ref().is_some_and(|groups| !groups.is_live(reach.lruvec.group))
    }

    /// Returns the number of pages that a scan may examine on a list of `pages` pages. The rest is protected by
    /// `memory.min` or `memory.low` of the list's group. Not called for the multi-generational LRU, in which protection
    /// does not shorten lists (mechanisms/groups, 5).
    fn unprotected(&self, reach: Reach<'_, M>, pages: u64, demand: &Demand) -> u64 {
        let Some(groups) = &self.groups else { return pages };
        let Protection { min, low } = groups.protection(reach.lruvec.group);
        let protected = if demand.breaks_low { min } else { min.max(low) };
        if protected == 0 || reach.lruvec.group == demand.group {
            return pages;
        }
        let usage = groups.usage(reach.lruvec.group).max(protected);
        let kept = (u128::from(pages) * u128::from(protected) / (u128::from(usage) + 1)) as u64;
        (pages - kept).max(CLUSTER)
    }

    /// Returns the number of pages of a list that a scan examines. `share` is the number of pages that the scan is to
    /// take from this list. A small share may be saved up for later scans, as `lru.small_targets` says; then this scan
    /// examines none.
    pub(super) fn target(&self, lruvec: &Lruvec<M>, kind: ListKind, share: u64) -> u64 {
        match self.choices.small_targets {
            SmallTargets::AsTheyAre => share,
            SmallTargets::Saved => self.save_up(lruvec, kind, share),
            SmallTargets::SavedAndOne => self.save_up(lruvec, kind, share + 1),
        }
    }

    /// Adds `pages`, the scan target of a list, to the targets that were saved for the list. If the sum is at least a
    /// cluster (32 pages), clears it and returns it as the target of this scan. Otherwise returns 0.
    #[doc(alias = "nr_scan_try_batch")]
    fn save_up(&self, lruvec: &Lruvec<M>, kind: ListKind, pages: u64) -> u64 {
        let saved = &lruvec.saved_targets[kind as usize];
        let sum = saved.fetch_add(pages, Relaxed) + pages;
        if sum < CLUSTER {
            return 0;
        }
        saved.store(0, Relaxed);
        sum
    }

    /// Returns the number of pages that are on the lists of the lruvec of `reach` and lie in zones that the request can
    /// use.
    pub(crate) fn listed_pages(&self, reach: Reach<'_, M>) -> u64 {
        ListKind::ALL.into_iter().map(|kind| self.list_pages(reach, kind)).sum()
    }

    /// Returns the number of pages that are on the lists of all groups and lie in the zones of `reach`.
    pub(crate) fn listed_pages_of_all(&self, reach: Reach<'_, M>) -> u64 {
        ListKind::ALL.into_iter().map(|kind| self.list_pages_of_all(reach, kind)).sum()
    }

    /// Returns the number of pages in the zones of `reach` that scans can take for reclaim: the pages on inactive file
    /// lists and, while swap slots are free, the pages on inactive anonymous lists.
    pub(crate) fn victim_pages(&self, reach: Reach<'_, M>) -> u64 {
        let file = self.list_pages_of_all(reach, ListKind::InactiveFile);
        let may_swap_out = self.swap_floor().has_swap_room(reach.lruvec.group);
        file + if may_swap_out { self.list_pages_of_all(reach, ListKind::InactiveAnon) } else { 0 }
    }
}
