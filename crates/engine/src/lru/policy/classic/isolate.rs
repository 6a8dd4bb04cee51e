//! Taking pages off lists, and putting back those that stay (`isolate_lru_pages`, `putback_inactive_pages`).
//! Description: mechanisms/reclaim, 11.2 and 12.1.

use super::{Family, ListKind, Lruvec, Pool};
use crate::lru::choices::{IsolatedLimit, Putback};
use crate::lru::policy::{CLUSTER, Demand, Pages, Taken};
use crate::lru::{Isolated, Lru};
use crate::memory::{Flags, Warmth, Zone, ZoneKind};
use crate::stat::{Event, ZoneEvent};
use machine::{FrameNumber, Func, Lock, Machine, Order, Step};

/// Pages taken off lists with the blocks that they lie in.
#[derive(Debug, Default)]
pub struct BlockVictims {
    /// The pages.
    pub pages: Vec<FrameNumber>,
    /// How many pages there are of each family, a huge page with all of its own.
    by_family: [u64; Family::ALL.len()],
}

impl BlockVictims {
    /// How many pages there are of each family.
    pub(in crate::lru) const fn by_family(&self) -> &[u64; Family::ALL.len()] {
        &self.by_family
    }

    /// The same, to be counted up.
    pub(in crate::lru) const fn by_family_mut(&mut self) -> &mut [u64; Family::ALL.len()] {
        &mut self.by_family
    }

    /// Pages in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.by_family.iter().sum()
    }
}

/// The part of a putback in how scanning went lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// Added to [`Lruvec::recent_scanned`].
    pub scanned: u64,
    /// Added to [`Lruvec::recent_rotated`].
    pub rotated: u64,
    /// Does every page that comes back active add one to [`Lruvec::recent_rotated`]?
    pub counts_active: bool,
}

impl Recent {
    /// Of so many pages that were isolated to be reclaimed.
    const fn of_victims(scanned: u64) -> Self {
        Self { scanned, rotated: 0, counts_active: true }
    }
}

impl<M: Machine> Lru<M> {
    /// Takes up to `pages` pages of a pool for reclaim.
    pub(crate) fn isolate_victims(&self, zone: &Zone<M>, pool: Pool, pages: u64) -> Taken {
        if let Some(own) = &self.own {
            return self.isolate_own(own, zone, pages);
        }
        self.isolate(zone, pool.0.inactive(), pages)
    }

    /// Puts back those of a pool's isolated pages that stay, of `taken` pages.
    pub(crate) fn put_back_victims(&self, zone: &Zone<M>, pool: Pool, survivors: &[FrameNumber], taken: u64) {
        match &self.own {
            Some(own) => self.put_back_own(own, zone, survivors),
            None => {
                self.age_by_putback(zone, survivors);
                self.putback(zone, pool.0, survivors, Recent::of_victims(taken));
            }
        }
        self.end_isolation(zone, pool.0, taken);
    }

    /// Isolates victims as [`Lru::isolate_victims`], with the pages of their blocks: see [`Lru::isolate_blocks`]. None of them is active
    /// any more.
    pub(crate) fn isolate_block_victims(
        &self,
        zone: &Zone<M>,
        pool: Pool,
        pages: u64,
        order: Order,
        any_list: bool,
        ends_at_gap: bool,
    ) -> (BlockVictims, u64) {
        if let Some(own) = &self.own {
            // A policy of its own knows no blocks.
            let taken = self.isolate_own(own, zone, pages);
            let by_family = Family::ALL.map(|family| if family == pool.0 { taken.pages } else { 0 });
            return (BlockVictims { pages: taken.entries.to_vec(), by_family }, taken.scanned);
        }
        self.isolate_blocks(zone, pool.0.inactive(), pages, order, any_list, ends_at_gap)
    }

    /// Isolated pages are active no longer; counts those that were.
    pub(crate) fn deactivate_isolated(&self, pages: &[FrameNumber]) {
        let active = pages.iter().filter(|frame| self.frames[**frame].test_clear(Flags::ACTIVE)).count();
        self.stat.count(Event::Pgdeactivate, active as u64);
    }

    /// Puts back those of `victims` that stay.
    pub(crate) fn put_back_block_victims(&self, zone: &Zone<M>, victims: &BlockVictims, survivors: &[FrameNumber]) {
        // Told apart before any is put back: then they are others' again, to be freed and changed.
        let survivors = Family::ALL.map(|family| self.of_family(survivors, family).collect::<Vec<_>>());
        for family in Family::ALL {
            let taken = victims.by_family[family as usize];
            if taken > 0 {
                self.put_back_victims(zone, Pool(family), &survivors[family as usize], taken);
            }
        }
    }

    pub(in crate::lru) fn of_family<'a>(
        &'a self,
        pages: &'a [FrameNumber],
        family: Family,
    ) -> impl Iterator<Item = FrameNumber> + 'a {
        pages.iter().copied().filter(move |frame| self.kind_of(self.frames[*frame].flags()).family() == family)
    }

    /// Would so many pages in the hands of reclaimers make a list look empty to others?
    #[doc(alias = "too_many_isolated")]
    pub(crate) fn are_too_many_isolated(&self, zone: &Zone<M>, pool: Pool, demand: &Demand) -> bool {
        let inactive = || self.list_pages(zone, pool.0.inactive());
        let limit = match self.choices.isolated_limit {
            IsolatedLimit::None => return false,
            // Callers that may not enter the file system get more room, or they would wait for those that wait for them.
            IsolatedLimit::Eighth if demand.may_do_all => inactive() / 8,
            IsolatedLimit::Eighth | IsolatedLimit::Whole => inactive(),
        };
        self.isolated_pages(zone, pool.0) > limit
    }

    /// Returns whether too many pages of either family are isolated, where a scan does not say beforehand of which it takes pages.
    pub(crate) fn are_too_many_isolated_of_any(&self, zone: &Zone<M>, demand: &Demand) -> bool {
        Family::ALL.into_iter().any(|family| self.are_too_many_isolated(zone, Pool(family), demand))
    }

    /// Pages of a family that are off their lists in the hands of reclaimers.
    #[must_use]
    pub fn isolated_pages(&self, zone: &Zone<M>, family: Family) -> u64 {
        self.zones_of_lruvec(zone).iter().map(|zone| zone.gauges.get(family.isolated())).sum()
    }

    /// Takes up to `pages` entries off the tail of a list: pages, each with one more reference and no longer on any list. A huge
    /// page is one entry, and counts once as looked at.
    #[doc(alias = "isolate_lru_pages")]
    pub fn isolate(&self, zone: &Zone<M>, kind: ListKind, pages: u64) -> Taken {
        let _span = self.machine.span(Func::IsolateLruPages);
        let mut taken = Isolated::new();
        let (mut scanned, mut by_zone) = (0, [0; ZoneKind::ALL.len()]);
        let mut lruvec = self.lruvec(zone).lock();
        let mut skips = self.skips(&lruvec, kind);
        let frames = &self.frames;
        while scanned < pages.min(CLUSTER) {
            let Some(frame) = lruvec.list(kind).last() else { break };
            if self.is_of_higher_zone(zone, frame) {
                if self.skip(&mut lruvec, kind, frame, &mut skips) { continue } else { break }
            }
            scanned += 1;
            debug_assert!(frames[frame].is(Flags::LRU), "{frame} on a list without the flag: {:?}", frames[frame]);
            lruvec.list_mut(kind).remove(frames, frame);
            if frames[frame].get_unless_zero() {
                frames[frame].clear(Flags::LRU);
                by_zone[self.list_zone(zone, frame).kind as usize] += frames.weight(frame);
                taken.push(frame);
            } else {
                // Its last reference is falling: whoever drops it takes it off.
                lruvec.list_mut(kind).push_front(frames, frame);
            }
        }
        self.machine.spend_on(Step::IsolatePage, zone.start, scanned as u32);
        let weight = self.uncount(zone, kind, by_zone);
        zone.gauges.add(kind.family().isolated(), weight as i64);
        self.note_isolated(zone, &mut lruvec, kind, weight, scanned);
        Taken { entries: taken, pages: weight, scanned }
    }

    /// So many pages of each kind of zone have left a list; returns all.
    pub(in crate::lru) fn uncount(&self, zone: &Zone<M>, kind: ListKind, pages: [u64; ZoneKind::ALL.len()]) -> u64 {
        for zone in self.zones_of_lruvec(zone) {
            zone.gauges.add(kind.gauge(), -(pages[zone.kind as usize] as i64));
        }
        pages.iter().sum()
    }

    /// The zone of a page that is on the lists of `zone`'s lruvec.
    #[inline]
    pub(in crate::lru) fn list_zone<'a>(&'a self, zone: &'a Zone<M>, frame: FrameNumber) -> &'a Zone<M> {
        if self.shares_lruvecs() { self.zone_of(frame) } else { zone }
    }

    /// Is a page of `zone`'s lruvec of a zone that cannot serve what `zone` can?
    #[inline]
    fn is_of_higher_zone(&self, zone: &Zone<M>, frame: FrameNumber) -> bool {
        self.shares_lruvecs() && self.zone_of(frame).kind > zone.kind
    }

    /// How many pages a scan of a list may skip: each once.
    fn skips(&self, lruvec: &Lruvec, kind: ListKind) -> u64 {
        if self.shares_lruvecs() { lruvec.list(kind).len() } else { 0 }
    }

    /// Puts a page that a scan cannot use to the head of its list; false when all were skipped.
    fn skip(&self, lruvec: &mut Lruvec, kind: ListKind, frame: FrameNumber, skips: &mut u64) -> bool {
        let Some(left) = skips.checked_sub(1) else { return false };
        *skips = left;
        self.machine.spend_on(Step::IsolatePage, frame, 1);
        self.zone_of(frame).stat.count(ZoneEvent::Pgskip, 1);
        let list = lruvec.list_mut(kind);
        list.remove(&self.frames, frame);
        list.push_front(&self.frames, frame);
        true
    }

    fn note_isolated(&self, zone: &Zone<M>, lruvec: &mut Lruvec, kind: ListKind, taken: u64, scanned: u64) {
        zone.note_scanned(scanned);
        if kind.is_active() {
            lruvec.recent_scanned[kind.family() as usize] += taken;
            zone.stat.count(ZoneEvent::Pgrefill, scanned);
        }
    }

    /// The same with the pages that lie in the same aligned block of 2^`order` pages: those of the same list or, with
    /// `any_list`, of any. With `ends_at_gap`, a page of a block that cannot be had ends the search in it. All count as
    /// looked at.
    pub fn isolate_blocks(
        &self,
        zone: &Zone<M>,
        kind: ListKind,
        pages: u64,
        order: Order,
        any_list: bool,
        ends_at_gap: bool,
    ) -> (BlockVictims, u64) {
        let _span = self.machine.span(Func::IsolateLruPages);
        let mut taken = Vec::new();
        let mut by_family = [0; Family::ALL.len()];
        let mut scanned = 0;
        let mut lruvec = self.lruvec(zone).lock();
        let mut skips = self.skips(&lruvec, kind);
        while scanned < pages.min(CLUSTER) {
            let Some(frame) = lruvec.list(kind).last() else { break };
            if self.is_of_higher_zone(zone, frame) {
                if self.skip(&mut lruvec, kind, frame, &mut skips) { continue } else { break }
            }
            scanned += 1;
            if !self.isolate_one(zone, &mut lruvec, frame, &mut by_family) {
                let list = lruvec.list_mut(kind);
                list.remove(&self.frames, frame);
                list.push_front(&self.frames, frame);
                continue;
            }
            taken.push(frame);
            let its_zone = self.list_zone(zone, frame);
            let offset = frame.0 - its_zone.start.0;
            let block = offset & !(order.pages() as u32 - 1);
            let neighbours = (block..block + order.pages() as u32).filter(|at| *at != offset);
            for neighbour in neighbours.map(|at| FrameNumber(its_zone.start.0 + at)) {
                let is_wanted = |flags: Flags| flags.has(Flags::LRU) && (any_list || self.kind_of(flags) == kind);
                let is_taken = its_zone.holds(neighbour)
                    && is_wanted(self.frames[neighbour].flags())
                    && self.isolate_one(zone, &mut lruvec, neighbour, &mut by_family);
                if !is_taken {
                    if ends_at_gap {
                        break;
                    }
                    continue;
                }
                taken.push(neighbour);
                scanned += 1;
            }
        }
        self.machine.spend_on(Step::IsolatePage, zone.start, scanned as u32);
        self.note_isolated(zone, &mut lruvec, kind, by_family.iter().sum(), scanned);
        (BlockVictims { pages: taken, by_family }, scanned)
    }

    /// Takes a listed page off its list, unless its last reference is falling.
    pub(in crate::lru) fn isolate_one(
        &self,
        zone: &Zone<M>,
        lruvec: &mut Lruvec,
        frame: FrameNumber,
        by_family: &mut [u64; Family::ALL.len()],
    ) -> bool {
        let descriptor = &self.frames[frame];
        if !descriptor.get_unless_zero() {
            return false;
        }
        let kind = self.kind_of(descriptor.flags());
        lruvec.list_mut(kind).remove(&self.frames, frame);
        descriptor.clear(Flags::LRU);
        let weight = self.frames.weight(frame);
        self.list_zone(zone, frame).gauges.add(kind.gauge(), -(weight as i64));
        zone.gauges.add(kind.family().isolated(), weight as i64);
        by_family[kind.family() as usize] += weight;
        true
    }

    /// Returns isolated pages of one zone and family to the heads of the lists that their flags name,
    /// and drops the references of isolation.
    pub fn putback(&self, zone: &Zone<M>, family: Family, pages: &[FrameNumber], recent: Recent) {
        let _span = self.machine.span(Func::PutbackInactivePages);
        let cluster = match self.choices.putback {
            Putback::AtOnce => pages.len(),
            Putback::InBatches => self.batch_pages(),
        };
        let mut gone = Vec::new();
        let mut recent = recent;
        let mut rest = pages;
        loop {
            let (pages, others) = rest.split_at(cluster.min(rest.len()));
            self.putback_cluster(zone, family, pages, recent, &mut gone);
            for frame in gone.drain(..) {
                self.free(frame, Order::ZERO, Warmth::Cold);
            }
            // The scan counts once.
            recent = Recent { counts_active: recent.counts_active, ..Recent::default() };
            rest = others;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Puts a cluster back under one hold of the lock; `gone` gets those that everybody else let go.
    fn putback_cluster(
        &self,
        zone: &Zone<M>,
        family: Family,
        pages: &[FrameNumber],
        recent: Recent,
        gone: &mut Vec<FrameNumber>,
    ) {
        let mut lruvec = self.lruvec(zone).lock();
        lruvec.recent_scanned[family as usize] += recent.scanned;
        lruvec.recent_rotated[family as usize] += recent.rotated;
        for &frame in pages {
            let descriptor = &self.frames[frame];
            let kind = self.kind_of(descriptor.flags());
            descriptor.set(Flags::LRU);
            lruvec.list_mut(kind).push_front(&self.frames, frame);
            let weight = self.frames.weight(frame);
            let gauges = &self.list_zone(zone, frame).gauges;
            gauges.add(kind.gauge(), weight as i64);
            if recent.counts_active && kind.is_active() {
                lruvec.recent_rotated[family as usize] += weight;
            }
            if descriptor.put() {
                // Everybody else let go meanwhile.
                lruvec.list_mut(kind).remove(&self.frames, frame);
                gauges.add(kind.gauge(), -(weight as i64));
                descriptor.clear(Flags::LRU);
                gone.push(frame);
            }
        }
        self.machine.spend(Step::LruMove, pages.len() as u32);
    }
}
