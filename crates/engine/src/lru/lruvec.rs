//! Lruvecs: the units of reclaim.
//!
//! An [`Lruvec`] has the state that reclaim and the policy keep for pages that are reclaimed together: their lists with
//! the lock, small scan targets that are saved for a later scan, and the last priority of reclaim. It belongs to a zone
//! or to a node ([`crate::memory::choices::LruvecOf`]). Watermarks, free pages and gauges belong to the zone in both
//! cases. A node's lruvec has pages of several zones, and a request can use the zones up to a certain one: a [`Reach`]
//! is an lruvec with these zones. Reclaim works on a reach.

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
    /// For each list, the number of pages that earlier scans should have examined. They are saved until they make a
    /// cluster (32 pages) (`SmallTargets::Saved` and `SmallTargets::SavedAndOne`).
    pub(super) saved_targets: [AtomicU64; ListKind::ALL.len()],
    /// Number of pages on each list, by kind of zone. Changed under the lock of the lists, and read without it.
    listed: [[AtomicI64; ListKind::ALL.len()]; ZoneKind::ALL.len()],
    /// Number of isolated pages of each family. The gauges of the lruvec's highest zone count the same pages.
    isolated: [AtomicU64; Family::ALL.len()],
    /// The priority at which the last reclaim ended, or a lower priority that a scan has reached since then.
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

    /// Returns the priority at which the last reclaim ended, or a lower priority that a scan has reached since then
    /// (`prev_priority` of `/proc/zoneinfo`).
    pub fn previous_priority(&self) -> u32 {
        self.priority.load(Relaxed)
    }

    /// Returns the number of pages on a list that lie in zones of a kind.
    #[inline]
    #[must_use]
    pub fn listed_in(&self, zone: ZoneKind, list: ListKind) -> u64 {
        // While a walk of page tables has not yet counted its changes, a count may be below 0.
        self.listed[zone as usize][list as usize].load(Relaxed).max(0).cast_unsigned()
    }

    /// Returns the number of pages on a list.
    #[must_use]
    pub fn listed(&self, list: ListKind) -> u64 {
        ZoneKind::ALL.into_iter().map(|zone| self.listed_in(zone, list)).sum()
    }

    /// Returns the number of isolated pages of a family.
    #[must_use]
    pub fn isolated_pages(&self, family: Family) -> u64 {
        self.isolated[family as usize].load(Relaxed)
    }

    /// Notes the priority of a scan that begins.
    pub(crate) fn note_priority(&self, priority: u32) {
        self.priority.fetch_min(priority, Relaxed);
    }

    /// Notes the priority at which a reclaim ended. The next reclaim starts its estimate from this priority.
    pub(crate) fn end_at_priority(&self, priority: u32) {
        self.priority.store(priority, Relaxed);
    }
}

/// An lruvec, with those of its zones whose pages can serve a request.
pub struct Reach<'a, M: Machine> {
    /// The lruvec.
    pub lruvec: &'a Lruvec<M>,
    /// The highest zone of `zones`. Scanned and freed pages are counted in this zone.
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

    /// Returns the reach of a request whose highest zone is `zone`: the lruvec of the zone's pages, with the lruvec's
    /// zones up to `zone`.
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

    /// Adds `pages`, which may be negative, to the number of pages that a list has in a zone. Changes the lruvec's
    /// count and the zone's gauge. Called under the lock of the lists.
    #[inline]
    #[doc(alias = "update_lru_size")]
    pub(super) fn count_listed(&self, lruvec: &Lruvec<M>, zone: &Zone<M>, list: ListKind, pages: i64) {
        let listed = &lruvec.listed[zone.kind as usize][list as usize];
        listed.store(listed.load(Relaxed) + pages, Relaxed);
        zone.gauges.add(list.gauge(), pages);
    }

    /// Counts isolated pages of a family. All of them are added to the gauge of the lruvec's highest zone, so only the
    /// sum of the gauges over the lruvec's zones has a meaning.
    pub(super) fn count_isolated(&self, lruvec: &Lruvec<M>, family: Family, pages: u64) {
        lruvec.isolated[family as usize].fetch_add(pages, Relaxed);
        self.highest_zone(lruvec).gauges.add(family.isolated(), pages.cast_signed());
    }

    /// Counts pages of a family that are no longer isolated.
    pub(super) fn uncount_isolated(&self, lruvec: &Lruvec<M>, family: Family, pages: u64) {
        lruvec.isolated[family as usize].fetch_sub(pages, Relaxed);
        self.highest_zone(lruvec).gauges.add(family.isolated(), -pages.cast_signed());
    }
}
