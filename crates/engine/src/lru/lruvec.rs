//! Lruvecs: the units of reclaim.
//!
//! An [`Lruvec`] has the state that reclaim and the policy keep for pages that are reclaimed together: their lists with
//! the lock, the saved scan targets, and the last priority of reclaim. An lruvec belongs to a zone or to a node
//! ([`crate::memory::choices::LruvecOf`]). In each zone or node, each memory control group has an lruvec of its own.
//! Marks, free pages and gauges belong to the zone in both cases. A node's lruvec has pages of several zones, while a
//! request can use only the zones up to a certain one. A [`Reach`] is an lruvec with these zones. Reclaim works on a
//! reach.

use super::memcg_lru::Move;
use super::policy::ruling::State;
use super::{DEF_PRIORITY, Family, ListKind, Lru};
use crate::memory::{GroupError, GroupId, LruvecId, NodeId, Zone, ZoneKind};
use crate::stat::ZoneEvent;
use machine::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use machine::{FrameNumber, Machine};
use std::ops::Range;

/// The events that an lruvec counts for `memory.stat` of its group. Refaults that became active (`WorkingsetActivate…`)
/// also decide whether active pages are aged (made inactive).
pub const COUNTED: [ZoneEvent; 11] = [
    ZoneEvent::PgscanKswapd,
    ZoneEvent::PgscanDirect,
    ZoneEvent::PgstealKswapd,
    ZoneEvent::PgstealDirect,
    ZoneEvent::Pgrefill,
    ZoneEvent::WorkingsetRefaultAnon,
    ZoneEvent::WorkingsetRefaultFile,
    ZoneEvent::WorkingsetActivateAnon,
    ZoneEvent::WorkingsetActivateFile,
    ZoneEvent::WorkingsetRestoreAnon,
    ZoneEvent::WorkingsetRestoreFile,
];

/// The position at which the last walk over the groups of a subtree ended. All walks over the subtree share the
/// position (`mem_cgroup_reclaim_iter`).
///
/// The upper half of the stored number counts the walks that have reached the end of the subtree. The lower half is the
/// number of the group that was visited last, plus 1. It is 0 if the next group is the root of the subtree.
#[derive(Debug, Default)]
pub(crate) struct WalkPosition(AtomicU64);

impl WalkPosition {
    /// Forgets where the last walk over the groups ended.
    fn reset(&self) {
        self.0.store(0, Relaxed);
    }

    /// Takes the next group of a walk over a subtree, and advances this shared position to the group. The caller passes
    /// the same variable `round` in all calls of one walk; the variable is `None` before the first call. `next` returns
    /// the group after a given group, or the first group for `None`. Returns `None` once this walk or another has
    /// reached the end of the subtree.
    pub(crate) fn take_next(
        &self,
        round: &mut Option<u64>,
        next: impl Fn(Option<GroupId>) -> Option<GroupId>,
    ) -> Option<GroupId> {
        loop {
            let now = self.0.load(Relaxed);
            let (rounds, last) = (now >> 32, (now as u32).checked_sub(1).map(|id| GroupId(id as u16)));
            if round.is_some_and(|round| round != rounds) {
                return None;
            }
            let taken = next(last);
            let new = taken.map_or((rounds + 1) << 32, |id| (rounds << 32) | (u64::from(id.0) + 1));
            if self.0.compare_exchange(now, new, Relaxed, Relaxed).is_err() {
                continue;
            }
            match taken {
                Some(id) => {
                    *round = Some(rounds);
                    return Some(id);
                }
                // The last walk ended at the end. A walk that begins there begins at the root of the subtree.
                None if round.is_none() && last.is_some() => {}
                None => return None,
            }
        }
    }
}

/// The state of pages that are reclaimed together: the pages of one memory control group in one zone or node.
pub struct Lruvec<M: Machine> {
    /// Number of the lruvec.
    pub id: LruvecId,
    /// ID of the lruvec that the root group has for the same zones.
    pub(super) of_root: LruvecId,
    /// The group whose pages are on the lruvec.
    pub group: GroupId,
    /// The node of the lruvec's pages.
    pub node: NodeId,
    /// The numbers of the zones whose pages are on the lruvec.
    zones: Range<usize>,
    /// The state that the policy keeps for the lruvec.
    pub(super) state: State<M>,
    /// For each list, the sum of its saved scan targets, in pages. A target is saved if it is smaller than a cluster
    /// (32 pages). The list is scanned once the sum reaches a cluster (`SmallTargets::Saved` and
    /// `SmallTargets::SavedAndOne`).
    pub(super) saved_targets: [AtomicU64; ListKind::ALL.len()],
    /// For each kind of zone, the number of pages on each list that lie in such zones. The numbers are changed under the
    /// lock of the lists, and read without it.
    listed: [[AtomicI64; ListKind::ALL.len()]; ZoneKind::ALL.len()],
    /// Number of isolated pages of each family. The gauges of the lruvec's highest zone also count these pages.
    isolated: [AtomicU64; Family::ALL.len()],
    /// The number of times that each event of [`COUNTED`] happened on this lruvec and on the lruvecs of its group's
    /// descendants. The numbers stay 0 if memory has no groups, because the counters of the zones then say the same.
    events: [AtomicU64; COUNTED.len()],
    /// For each priority, the position from which the next walk over the subtree of the lruvec's group continues. With
    /// `GroupWalk::SharedPosition`, walks at all priorities use the first of these positions.
    pub(crate) walks: [WalkPosition; DEF_PRIORITY as usize + 1],
    /// The priority at which the last reclaim ended, or a lower priority that a scan has reached since then.
    priority: AtomicU32,
}

impl<M: Machine> Lruvec<M> {
    /// Creates the lruvecs of `groups` groups in the given zones, each with a fresh state of the policy. The lruvecs of
    /// the root group come first.
    pub(super) fn all_of(zones: &[Zone<M>], groups: usize, state: impl Fn() -> State<M>) -> Vec<Self> {
        let runs: Vec<_> = zones.chunk_by(|zone, next| zone.lruvec == next.lruvec).collect();
        let of_run = |group: usize, run: &[Zone<M>]| {
            let first = usize::from(run[0].id.0);
            Self {
                id: LruvecId((group * runs.len()) as u16 + run[0].lruvec.0),
                of_root: run[0].lruvec,
                group: GroupId(group as u16),
                node: run[0].node,
                zones: first..first + run.len(),
                state: state(),
                saved_targets: Default::default(),
                listed: Default::default(),
                isolated: Default::default(),
                events: Default::default(),
                walks: Default::default(),
                priority: AtomicU32::new(DEF_PRIORITY),
            }
        };
        (0..groups)
            .flat_map(|group| runs.iter().map(move |run| (group, *run)))
            .map(|(group, run)| of_run(group, run))
            .collect()
    }

    /// Returns the priority at which the last reclaim ended, or a lower priority that a scan has reached since then
    /// (`prev_priority` of `/proc/zoneinfo`).
    pub fn previous_priority(&self) -> u32 {
        self.priority.load(Relaxed)
    }

    /// Returns how many pages of a list lie in the zones of one kind.
    #[inline]
    #[must_use]
    pub fn listed_in(&self, zone: ZoneKind, list: ListKind) -> u64 {
        // While a walk of page tables has not yet counted its changes, a count may be below 0.
        self.listed[zone as usize][list as usize].load(Relaxed).max(0).cast_unsigned()
    }

    /// Returns the number of pages on one of the lruvec's lists.
    #[must_use]
    pub fn listed(&self, list: ListKind) -> u64 {
        ZoneKind::ALL.into_iter().map(|zone| self.listed_in(zone, list)).sum()
    }

    /// Returns the number of the lruvec's isolated pages of a family.
    #[must_use]
    pub fn isolated_pages(&self, family: Family) -> u64 {
        self.isolated[family as usize].load(Relaxed)
    }

    /// Notes the priority at which a scan of the lruvec begins.
    pub(crate) fn note_priority(&self, priority: u32) {
        self.priority.fetch_min(priority, Relaxed);
    }

    /// Notes the priority at which a reclaim ended. With `MappedPages::ByDistress`, the next reclaim judges its
    /// distress by this priority until a scan reaches a lower one.
    pub(crate) fn end_at_priority(&self, priority: u32) {
        self.priority.store(priority, Relaxed);
    }
}

/// An lruvec, with those of its zones whose pages can serve a request.
pub struct Reach<'a, M: Machine> {
    /// The lruvec whose pages may be scanned.
    pub lruvec: &'a Lruvec<M>,
    /// The highest zone of `zones`. Scanned and freed pages are counted in this zone.
    pub zone: &'a Zone<M>,
    /// The zones of the lruvec from which the request can get pages, lowest first.
    pub zones: &'a [Zone<M>],
}

impl<M: Machine> Clone for Reach<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Reach<'_, M> {}

impl<M: Machine> Lru<M> {
    /// Returns the lruvec of the root group's pages in a zone. Without groups, these are all pages of the zone.
    #[inline]
    pub fn lruvec_of(&self, zone: &Zone<M>) -> &Lruvec<M> {
        &self.lruvecs[usize::from(zone.lruvec.0)]
    }

    /// Returns the lruvec of a group's pages in a zone.
    #[inline]
    pub fn lruvec_in(&self, zone: &Zone<M>, group: GroupId) -> &Lruvec<M> {
        &self.lruvecs[usize::from(group.0) * self.lruvecs_of_group + usize::from(zone.lruvec.0)]
    }

    /// Returns the lruvecs of a group; those of the lowest zones come first.
    pub fn lruvecs_of_group(&self, group: GroupId) -> &[Lruvec<M>] {
        let first = usize::from(group.0) * self.lruvecs_of_group;
        &self.lruvecs[first..first + self.lruvecs_of_group]
    }

    /// Returns the lruvecs of a zone's pages: one for each number that a memory control group can have.
    pub(super) fn lruvecs_of_zone<'a>(&'a self, zone: &'a Zone<M>) -> impl Iterator<Item = &'a Lruvec<M>> {
        self.lruvecs.iter().skip(usize::from(zone.lruvec.0)).step_by(self.lruvecs_of_group)
    }

    /// Returns the lruvec of a page.
    #[inline]
    pub(super) fn lruvec_of_page(&self, frame: FrameNumber) -> &Lruvec<M> {
        self.lruvec_in(self.memory().zone_of(frame), self.frames.group(frame))
    }

    /// Returns the lruvec that `group` has in the zones of `lruvec`.
    #[inline]
    pub(crate) fn beside<'a>(&'a self, lruvec: &'a Lruvec<M>, group: GroupId) -> &'a Lruvec<M> {
        if lruvec.group == group {
            return lruvec;
        }
        &self.lruvecs[usize::from(group.0) * self.lruvecs_of_group + usize::from(lruvec.of_root.0)]
    }

    /// Visits an lruvec, then the lruvecs of its group's ancestors in the same zones, up to that of the root group.
    #[inline]
    pub(super) fn for_each_above(&self, lruvec: &Lruvec<M>, mut visit: impl FnMut(&Lruvec<M>)) {
        visit(lruvec);
        let Some(groups) = &self.groups else { return };
        let mut above = groups.parent(lruvec.group);
        while let Some(group) = above {
            visit(self.beside(lruvec, group));
            above = groups.parent(group);
        }
    }

    /// Returns the number of pages on a list of an lruvec, plus the pages on the same list of the lruvecs that the
    /// group's descendants have in the same zones.
    pub(super) fn listed_below(&self, lruvec: &Lruvec<M>, list: ListKind) -> u64 {
        match &self.groups {
            None => lruvec.listed(list),
            Some(_) if lruvec.group.is_root() => {
                self.zones_of(lruvec).iter().map(|zone| zone.gauges.get(list.gauge())).sum()
            }
            Some(groups) => {
                groups.subtree(lruvec.group).iter().map(|group| self.beside(lruvec, *group).listed(list)).sum()
            }
        }
    }

    /// Returns whether `lruvec` is the one for a page's zone and memory control group. The page may be any page of a
    /// folio.
    #[inline]
    pub(super) fn is_of_lruvec(&self, lruvec: &Lruvec<M>, frame: FrameNumber) -> bool {
        self.memory().zone_of(frame).lruvec == lruvec.of_root
            && (self.groups.is_none() || self.frames.group(frame) == lruvec.group)
    }

    /// Creates a memory control group below `parent`, with no limits and no protection. The group may get the number of
    /// a removed group; the lruvecs of the new group begin without the counts of the removed one.
    ///
    /// # Errors
    /// Fails if `parent` does not exist, or if the largest number of groups exists already.
    pub fn create_group(&self, parent: GroupId) -> Result<GroupId, GroupError> {
        let id = self.groups.as_ref().ok_or(GroupError::NoRoom { room: 0 })?.create(parent)?;
        for lruvec in self.lruvecs_of_group(id) {
            lruvec.events.iter().chain(&lruvec.saved_targets).for_each(|count| count.store(0, Relaxed));
            lruvec.walks.iter().for_each(WalkPosition::reset);
            lruvec.priority.store(DEF_PRIORITY, Relaxed);
            self.end_reclaim(lruvec);
        }
        self.forget_rates(id);
        self.machine.note_new_group(id.0, parent.0);
        if let Some(lists) = &self.memcg_lru {
            lists.add(id);
        }
        Ok(id)
    }

    /// Removes a memory control group. The group's pages stay charged to the group until they are freed. All tasks must
    /// have left the group before.
    ///
    /// # Errors
    /// Fails if the group does not exist, has children, or is the root group.
    #[doc(alias = "mem_cgroup_css_offline")]
    pub fn remove_group(&self, id: GroupId) -> Result<(), GroupError> {
        self.groups.as_ref().ok_or(GroupError::Unknown(id))?.remove(id)?;
        if let Some(lists) = &self.memcg_lru {
            lists.apply(id, Move::Old);
        }
        Ok(())
    }

    /// Returns the reach of a request whose highest zone is `zone`: the lruvec of the zone's pages, with the lruvec's
    /// zones up to `zone`.
    #[inline]
    pub fn reach<'a>(&'a self, zone: &'a Zone<M>) -> Reach<'a, M> {
        Reach { lruvec: self.lruvec_of(zone), zone, zones: self.memory().zones_served(zone) }
    }

    /// Returns a copy of `reach` in which the lruvec is replaced by the one that `group` has in the same zone.
    #[inline]
    pub fn reach_in<'a>(&'a self, reach: Reach<'a, M>, group: GroupId) -> Reach<'a, M> {
        Reach { lruvec: self.lruvec_in(reach.zone, group), ..reach }
    }

    /// Returns the lruvec to which the page in `frame` belongs, with those zones of the lruvec that are not above
    /// `zone`, the page's zone.
    #[inline]
    pub(super) fn reach_of_page<'a>(&'a self, zone: &'a Zone<M>, frame: FrameNumber) -> Reach<'a, M> {
        self.reach_in(self.reach(zone), self.frames.group(frame))
    }

    /// Returns how often an event of [`COUNTED`] has happened on an lruvec and on the lruvecs of its group's
    /// descendants in the same zones. Returns 0 for an event that is not in [`COUNTED`].
    #[must_use]
    pub fn events_of(&self, lruvec: &Lruvec<M>, event: ZoneEvent) -> u64 {
        match COUNTED.iter().position(|counted| *counted == event) {
            // The zones count the events of all groups, but not the scans and frees of reclaim for one group.
            Some(n) if self.groups.is_some() && event.is_of_reclaim() => lruvec.events[n].load(Relaxed),
            Some(_) if lruvec.group.is_root() => self.zones_of(lruvec).iter().map(|zone| zone.stat.get(event)).sum(),
            Some(n) => lruvec.events[n].load(Relaxed),
            None => 0,
        }
    }

    /// Adds `count` to the counter of an event in the zone where the event happened. For an event of [`COUNTED`], also
    /// adds `count` to the counters of the lruvec and of the lruvecs of its group's ancestors.
    #[inline]
    pub(crate) fn count_in(&self, lruvec: &Lruvec<M>, zone: &Zone<M>, event: ZoneEvent, count: u64) {
        if count > 0 {
            zone.stat.count(event, count);
            self.count_in_groups(lruvec, event, count);
        }
    }

    /// Adds `count` to the counters of an event of [`COUNTED`] in the lruvec and in the lruvecs of its group's
    /// ancestors. The zone's counter stays as it is. Does nothing for other events and on machines without groups.
    #[inline]
    pub(crate) fn count_in_groups(&self, lruvec: &Lruvec<M>, event: ZoneEvent, count: u64) {
        if self.groups.is_some()
            && let Some(n) = COUNTED.iter().position(|counted| *counted == event)
        {
            self.for_each_above(lruvec, |lruvec| {
                lruvec.events[n].fetch_add(count, Relaxed);
            });
        }
    }

    /// Returns whether a page of the lruvec lies in a zone above those of `reach`. Such a page cannot serve the
    /// request.
    #[inline]
    pub(super) fn is_of_higher_zone(&self, reach: Reach<'_, M>, frame: FrameNumber) -> bool {
        self.memory().shares_lruvecs() && self.memory().zone_of(frame).kind > reach.zone.kind
    }

    /// Returns the zones whose pages are on an lruvec, lowest first.
    #[inline]
    pub(crate) fn zones_of(&self, lruvec: &Lruvec<M>) -> &[Zone<M>] {
        &self.zones[lruvec.zones.clone()]
    }

    /// Returns the zones of an lruvec that are above those that a request can use, lowest first.
    pub(super) fn zones_above(&self, reach: Reach<'_, M>) -> &[Zone<M>] {
        let zones = self.zones_of(reach.lruvec);
        &zones[zones.partition_point(|zone| zone.kind <= reach.zone.kind)..]
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

    /// Adds `pages` to the number of isolated pages of a family. All of these pages are added to the gauge of the
    /// lruvec's highest zone, whatever zones the pages lie in, so only the sum of the gauges over the lruvec's zones
    /// has a meaning.
    pub(super) fn count_isolated(&self, lruvec: &Lruvec<M>, family: Family, pages: u64) {
        lruvec.isolated[family as usize].fetch_add(pages, Relaxed);
        self.highest_zone(lruvec).gauges.add(family.isolated(), pages.cast_signed());
    }

    /// Subtracts `pages`, which are no longer isolated, from the number of isolated pages of a family.
    pub(super) fn uncount_isolated(&self, lruvec: &Lruvec<M>, family: Family, pages: u64) {
        lruvec.isolated[family as usize].fetch_sub(pages, Relaxed);
        self.highest_zone(lruvec).gauges.add(family.isolated(), -pages.cast_signed());
    }
}
