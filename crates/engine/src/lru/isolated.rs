//! Isolated pages: how many there are, and how reclaimers wait if too many pages are isolated.

use super::choices::IsolatedLimit;
use super::{Batch, Demand, Family, ListKind, Lru, Lruvec, Reach};
use crate::memory::{Flags, Zone, ZoneKind};
use crate::stat::Event;
use machine::{FrameNumber, Machine};

/// Pages that were isolated by aligned blocks: pages at the tail of a list, each with the other pages of the aligned
/// block in which it lies.
#[derive(Debug)]
pub struct BlockVictims {
    /// The isolated pages; a huge page is one entry, its head.
    pub pages: Vec<FrameNumber>,
    /// Number of the isolated pages of each family (anonymous pages, file pages). A huge page counts with all its
    /// pages.
    by_family: [u64; Family::ALL.len()],
}

impl BlockVictims {
    /// Creates the set of the isolated pages `pages`. `by_family` is the number of isolated pages of each family.
    pub(in crate::lru) const fn new(pages: Vec<FrameNumber>, by_family: [u64; Family::ALL.len()]) -> Self {
        Self { pages, by_family }
    }

    /// Returns the number of isolated pages of each family (anonymous pages, file pages).
    pub(in crate::lru) const fn by_family(&self) -> &[u64; Family::ALL.len()] {
        &self.by_family
    }

    /// Returns the number of isolated pages of both families (anonymous and file pages) together.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.by_family.iter().sum()
    }
}

impl<M: Machine> Lru<M> {
    /// Makes isolated pages inactive, and counts those that were active (`pgdeactivate`).
    pub(crate) fn deactivate_isolated(&self, pages: &[FrameNumber]) {
        let active = pages.iter().filter(|frame| self.frames[**frame].test_clear(Flags::ACTIVE));
        self.stat.count(Event::Pgdeactivate, active.map(|frame| self.frames.pages(*frame)).sum());
    }

    /// Returns those pages of `pages` that belong to a family.
    pub(in crate::lru) fn of_family<'a>(
        &'a self,
        pages: &'a [FrameNumber],
        family: Family,
    ) -> impl Iterator<Item = FrameNumber> + 'a {
        pages.iter().copied().filter(move |frame| self.kind_of(self.frames[*frame].flags()).family() == family)
    }

    /// Returns whether more pages of a family are isolated than `lru.isolated_limit` allows.
    #[doc(alias = "too_many_isolated")]
    fn are_too_many_isolated(&self, reach: Reach<'_, M>, family: Family, demand: &Demand) -> bool {
        let inactive = || self.list_pages_of_all(reach, family.inactive());
        let limit = match self.choices.isolated_limit {
            IsolatedLimit::None => return false,
            // A task that may not enter the file system gets a higher limit. Otherwise it would wait for tasks that
            // wait for it.
            IsolatedLimit::Eighth if demand.may_do_all => inactive() / 8,
            IsolatedLimit::Eighth | IsolatedLimit::Whole => inactive(),
        };
        self.isolated_pages_beside(reach.lruvec, family) > limit
    }

    /// Waits while too many pages of any family of `families` are isolated. Returns whether the task was killed
    /// meanwhile. Kswapd does not wait. This function may sleep.
    pub(super) fn waits_for_isolated(&self, reach: Reach<'_, M>, families: &[Family], demand: &Demand) -> bool {
        let are_too_many = || families.iter().any(|family| self.are_too_many_isolated(reach, *family, demand));
        while !demand.is_kswapd && are_too_many() {
            self.wait_for_putback(are_too_many);
            if self.machine.is_killed() {
                return true;
            }
        }
        false
    }

    /// Lets a task prepare to take a cluster (up to 32 pages) of a family off a list: waits while too many pages are
    /// isolated, and flushes batches. Returns `None` if the task can take the cluster. If the task was killed
    /// meanwhile, returns an empty batch, which the caller uses instead of a cluster. This function may sleep.
    pub(super) fn prepare_cluster(&self, reach: Reach<'_, M>, family: Family, demand: &Demand) -> Option<Batch> {
        if self.waits_for_isolated(reach, &[family], demand) {
            return Some(Batch::of_dying(family));
        }
        self.drain_before_scan();
        None
    }

    /// Subtracts pages that were taken off a list from the list's page counts, which are kept by kind of zone. `pages`
    /// has the number of these pages in each kind of zone. Returns the sum of these numbers.
    pub(in crate::lru) fn uncount(&self, lruvec: &Lruvec<M>, kind: ListKind, pages: [u64; ZoneKind::ALL.len()]) -> u64 {
        for zone in self.zones_of(lruvec) {
            self.count_listed(lruvec, zone, kind, -(pages[zone.kind as usize] as i64));
        }
        pages.iter().sum()
    }

    /// Returns the zone of a page that is on the lruvec of `zone`; an lruvec can have pages of several zones.
    #[inline]
    pub(in crate::lru) fn list_zone<'a>(&'a self, zone: &'a Zone<M>, frame: FrameNumber) -> &'a Zone<M> {
        if self.memory().shares_lruvecs() { self.memory().zone_of(frame) } else { zone }
    }
}
