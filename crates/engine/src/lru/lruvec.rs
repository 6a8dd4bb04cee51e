//! Lruvecs: the units of reclaim.
//!
//! An [`Lruvec`] has the state that reclaim and the policy keep for pages that are reclaimed together: their lists with
//! the lock, targets that are saved up, the last priority of reclaim. It belongs to a zone or to a node
//! ([`crate::memory::choices::LruvecOf`]). Marks, free pages and gauges belong to the zone in both cases. A node's
//! lruvec has pages of several zones, and a request can use the zones up to a certain one: a [`Reach`] is an lruvec
//! with these zones. Reclaim works on a reach.

use super::policy::ruling::State;
use super::{DEF_PRIORITY, Family, ListKind, Lru};
use crate::memory::{LruvecId, NodeId, Zone, ZoneKind};
use machine::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use machine::{FrameNumber, Machine};
use std::ops::Range;

/// Pages that are reclaimed together.
pub struct Lruvec<M: Machine> {
    /// Number of the lruvec.
    pub id: LruvecId,
    /// The node of the lruvec's pages.
    pub node: NodeId,
    /// The numbers of the zones whose pages are on the lruvec.
    zones: Range<usize>,
    /// The state that the policy keeps for the lruvec.
    pub(super) state: State<M>,
    /// Saved targets of each list, pages: the sum of targets that were smaller than a cluster (`SmallTargets::Saved`).
    pub(super) saved_targets: [AtomicU64; ListKind::ALL.len()],
    /// Pages on each list, by kind of zone. Changed under the lock of the lists, and read without it.
    listed: [[AtomicI64; ListKind::ALL.len()]; ZoneKind::ALL.len()],
    /// Number of pages of each family that are off the lists in the hands of reclaimers. The gauges of a zone count
    /// such pages, too, for all lruvecs that the zone's pages are on.
    isolated: [AtomicU64; Family::ALL.len()],
    /// The lowest priority of the reclaim under way; if none is under way, the last priority of the previous reclaim.
    priority: AtomicU32,
}

impl<M: Machine> Lruvec<M> {
    /// Returns the lruvecs of the given zones, each with a fresh state of the policy.
    pub(super) fn all_of(zones: &[Zone<M>], state: impl Fn() -> State<M>) -> Vec<Self> {
        let of_run = |run: &[Zone<M>]| {
            let first = usize::from(run[0].id.0);
            Self {
                id: run[0].lruvec,
                node: run[0].node,
                zones: first..first + run.len(),
                state: state(),
                saved_targets: Default::default(),
                listed: Default::default(),
                isolated: Default::default(),
                priority: AtomicU32::new(DEF_PRIORITY),
            }
        };
        zones.chunk_by(|zone, next| zone.lruvec == next.lruvec).map(of_run).collect()
    }

    /// Returns the priority at which the last reclaim ended, or a lower one that a scan under way has reached
    /// (`prev_priority` of `/proc/zoneinfo`).
    pub fn previous_priority(&self) -> u32 {
        self.priority.load(Relaxed)
    }

    /// Returns the number of pages on a list that lie in zones of a kind.
    #[inline]
    #[must_use]
    pub fn listed_in(&self, zone: ZoneKind, list: ListKind) -> u64 {
        // The counts of a walk of page tables may be pending, so that one is below 0 for a moment.
        self.listed[zone as usize][list as usize].load(Relaxed).max(0).cast_unsigned()
    }

    /// Returns the number of pages on a list.
    #[must_use]
    pub fn listed(&self, list: ListKind) -> u64 {
        ZoneKind::ALL.into_iter().map(|zone| self.listed_in(zone, list)).sum()
    }

    /// Returns the number of pages of a family that are off the lists in the hands of reclaimers.
    #[must_use]
    pub fn isolated_pages(&self, family: Family) -> u64 {
        self.isolated[family as usize].load(Relaxed)
    }

    /// Notes the priority of a scan that begins.
    pub(crate) fn note_priority(&self, priority: u32) {
        self.priority.fetch_min(priority, Relaxed);
    }

    /// Notes the priority at which a reclaim ended, from which the next one starts its estimate.
    pub(crate) fn end_at_priority(&self, priority: u32) {
        self.priority.store(priority, Relaxed);
    }
}

/// An lruvec as a request sees it, with the zones of the lruvec whose pages can serve the request.
pub struct Reach<'a, M: Machine> {
    /// The lruvec.
    pub lruvec: &'a Lruvec<M>,
    /// The highest of the zones. Scanned and freed pages are counted in this zone.
    pub zone: &'a Zone<M>,
    /// The zones, lowest first.
    pub zones: &'a [Zone<M>],
}

impl<M: Machine> Clone for Reach<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Reach<'_, M> {}

impl<M: Machine> Lru<M> {
    /// Returns the lruvec of a zone's pages.
    #[inline]
    pub fn lruvec_of(&self, zone: &Zone<M>) -> &Lruvec<M> {
        &self.lruvecs[usize::from(zone.lruvec.0)]
    }

    /// Returns the lruvec of a page.
    #[inline]
    pub(super) fn lruvec_of_page(&self, frame: FrameNumber) -> &Lruvec<M> {
        self.lruvec_of(self.zone_of(frame))
    }

    /// Returns the lruvec of a zone's pages, with the zones that serve a request that `zone` can serve.
    #[inline]
    pub fn reach<'a>(&'a self, zone: &'a Zone<M>) -> Reach<'a, M> {
        Reach { lruvec: self.lruvec_of(zone), zone, zones: self.zones_served(zone) }
    }

    /// Returns whether a page on the lruvec lies in a zone that cannot serve the request of this reach.
    #[inline]
    pub(super) fn is_of_higher_zone(&self, reach: Reach<'_, M>, frame: FrameNumber) -> bool {
        self.shares_lruvecs() && self.zone_of(frame).kind > reach.zone.kind
    }

    /// Returns the zones whose pages are on an lruvec, lowest first.
    #[inline]
    pub(crate) fn zones_of(&self, lruvec: &Lruvec<M>) -> &[Zone<M>] {
        &self.zones[lruvec.zones.clone()]
    }

    /// Returns the highest zone of an lruvec.
    #[inline]
    pub(super) fn highest_zone(&self, lruvec: &Lruvec<M>) -> &Zone<M> {
        &self.zones[lruvec.zones.end - 1]
    }

    /// Adds `pages`, which may be negative, to a list's pages in a zone: to the count of the lruvec and to the gauge of the
    /// zone, which counts the pages of all lruvecs that it has pages on. Called under the lock of the lists.
    #[inline]
    #[doc(alias = "update_lru_size")]
    pub(super) fn count_listed(&self, lruvec: &Lruvec<M>, zone: &Zone<M>, list: ListKind, pages: i64) {
        let listed = &lruvec.listed[zone.kind as usize][list as usize];
        listed.store(listed.load(Relaxed) + pages, Relaxed);
        zone.gauges.add(list.gauge(), pages);
    }

    /// Counts pages of a family that were taken off an lruvec's lists. The gauge of the highest zone counts all of
    /// them, so only the sum of the gauges over the lruvec's zones has a meaning.
    pub(super) fn count_isolated(&self, lruvec: &Lruvec<M>, family: Family, pages: u64) {
        lruvec.isolated[family as usize].fetch_add(pages, Relaxed);
        self.highest_zone(lruvec).gauges.add(family.isolated(), pages.cast_signed());
    }

    /// Counts pages of a family that are no longer in the hands of a reclaimer.
    pub(super) fn uncount_isolated(&self, lruvec: &Lruvec<M>, family: Family, pages: u64) {
        lruvec.isolated[family as usize].fetch_sub(pages, Relaxed);
        self.highest_zone(lruvec).gauges.add(family.isolated(), -pages.cast_signed());
    }
}
