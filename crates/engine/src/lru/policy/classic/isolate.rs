//! Isolation of pages, and return of the pages that stay (`isolate_lru_pages`, `putback_inactive_pages`). Description:
//! mechanisms/reclaim, 11.2 and 12.1.

use super::Lists;
use crate::lru::choices::Putback;
use crate::lru::policy::{Blocks, CLUSTER, Pages, Taken};
use crate::lru::{BlockVictims, Family, Isolated, ListKind, Lru, Lruvec, Reach};
use crate::memory::{Flags, Warmth, ZoneKind};
use crate::stat::ZoneEvent;
use machine::{FrameNumber, Func, Lock, Machine, Step};

/// The amounts by which a putback of pages changes the counts of recently scanned and rotated pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// Number of pages by which [`Lists::recent_scanned`] grows.
    pub scanned: u64,
    /// Number of pages by which [`Lists::recent_rotated`] grows.
    pub rotated: u64,
    /// `true` if every page that goes back to an active list also counts as rotated ([`Lists::recent_rotated`]). A
    /// folio counts with all its pages.
    pub counts_active: bool,
}

impl Recent {
    /// Returns the changes of the scanned and rotated counts for a putback of the pages that reclaim isolated but did
    /// not free. `scanned` is the number of pages that were isolated, including freed ones.
    const fn of_victims(scanned: u64) -> Self {
        Self { scanned, rotated: 0, counts_active: true }
    }
}

impl<M: Machine> Lru<M> {
    /// Puts back `survivors`, the pages of one family that reclaim did not free. `taken` is the number of pages that
    /// were isolated, including freed ones.
    pub(in crate::lru) fn put_back_classic(
        &self,
        lruvec: &Lruvec<M>,
        family: Family,
        survivors: &[FrameNumber],
        taken: u64,
    ) {
        self.age_by_putback(lruvec, survivors);
        self.putback(lruvec, family, survivors, Recent::of_victims(taken));
    }

    /// Takes folios off the tail of a list until it has counted `pages`, or 32 if `pages` is larger. `lru.scan_unit`
    /// says how much a large folio counts. Each folio gets one more reference and is then on no list.
    #[doc(alias = "isolate_lru_pages")]
    pub fn isolate(&self, reach: Reach<'_, M>, kind: ListKind, pages: u64) -> Taken {
        let _span = self.machine.span(Func::IsolateLruPages);
        let mut taken = Isolated::new();
        let (mut looked_at, mut scanned, mut by_zone) = (0, 0, [0; ZoneKind::ALL.len()]);
        let mut lists = reach.lruvec.classic().lists.lock();
        let most_skips = self.skips(&lists, kind);
        let mut skips = most_skips;
        let frames = &self.frames;
        while scanned < pages.min(CLUSTER) {
            let Some(frame) = lists.list(kind).last() else { break };
            if self.is_of_higher_zone(reach, frame) {
                if self.skip(&mut lists, kind, frame, &mut skips) { continue } else { break }
            }
            looked_at += 1;
            scanned += self.choices.scan_unit.count(frames.weight(frame));
            debug_assert!(frames[frame].is(Flags::LRU), "{frame} on a list without the flag: {:?}", frames[frame]);
            lists.list_mut(kind).remove(frames, frame);
            if frames[frame].get_unless_zero() {
                frames[frame].clear(Flags::LRU);
                by_zone[self.list_zone(reach.zone, frame).kind as usize] += frames.weight(frame);
                taken.push(frame);
            } else {
                // The last reference is being dropped; the task that drops it takes the page off the list.
                lists.list_mut(kind).push_front(frames, frame);
            }
        }
        self.machine.spend_on(Step::IsolatePage, reach.zone.start, looked_at);
        let weight = self.uncount(reach.lruvec, kind, by_zone);
        self.count_isolated(reach.lruvec, kind.family(), weight);
        let skipped = most_skips - skips;
        self.note_isolated(reach, &mut lists, kind, weight, (scanned, skipped));
        Taken { entries: taken, pages: weight, scanned, skipped }
    }

    /// Returns how many pages of a list a scan may skip because they lie in zones that cannot serve its request. This
    /// is the length of the list if zones share an lruvec, and otherwise 0, because the list then has no such pages.
    fn skips(&self, lists: &Lists, kind: ListKind) -> u64 {
        if self.memory().shares_lruvecs() { lists.list(kind).len() } else { 0 }
    }

    /// Skips a page that a scan cannot use: moves the page to the head of its list. Returns `false`, and leaves the
    /// page in its place, if no more pages may be skipped.
    fn skip(&self, lists: &mut Lists, kind: ListKind, frame: FrameNumber, skips: &mut u64) -> bool {
        let Some(left) = skips.checked_sub(1) else { return false };
        *skips = left;
        self.machine.spend_on(Step::IsolatePage, frame, 1);
        self.memory().zone_of(frame).stat.count(ZoneEvent::Pgskip, 1);
        let list = lists.list_mut(kind);
        list.remove(&self.frames, frame);
        list.push_front(&self.frames, frame);
        true
    }

    fn note_isolated(
        &self,
        reach: Reach<'_, M>,
        lists: &mut Lists,
        kind: ListKind,
        taken: u64,
        (scanned, skipped): (u64, u64),
    ) {
        reach.zone.note_scanned(scanned);
        if kind.is_active() {
            lists.recent_scanned[kind.family() as usize] += taken;
            reach.zone.stat.count(ZoneEvent::Pgrefill, scanned + skipped);
        }
    }

    /// Isolates pages at the tail of a list and, for lumpy reclaim, their neighbours: of each page's aligned block of
    /// order `blocks.order`, the pages that the other fields of `blocks` allow to be taken. Returns the isolated pages,
    /// and the number of pages that count as scanned.
    pub fn isolate_blocks(
        &self,
        reach: Reach<'_, M>,
        kind: ListKind,
        pages: u64,
        blocks: Blocks,
    ) -> (BlockVictims, u64) {
        let Blocks { order, any_list, ends_at_gap } = blocks;
        let _span = self.machine.span(Func::IsolateLruPages);
        let mut taken = Vec::new();
        let mut by_family = [0; Family::ALL.len()];
        let mut scanned = 0;
        let mut lists = reach.lruvec.classic().lists.lock();
        let mut skips = self.skips(&lists, kind);
        while scanned < pages.min(CLUSTER) {
            let Some(frame) = lists.list(kind).last() else { break };
            if self.is_of_higher_zone(reach, frame) {
                if self.skip(&mut lists, kind, frame, &mut skips) { continue } else { break }
            }
            scanned += 1;
            if !self.isolate_one(reach.lruvec, &mut lists, frame, &mut by_family) {
                let list = lists.list_mut(kind);
                list.remove(&self.frames, frame);
                list.push_front(&self.frames, frame);
                continue;
            }
            taken.push(frame);
            let its_zone = self.list_zone(reach.zone, frame);
            let offset = frame.0 - its_zone.start.0;
            let block = offset & !(order.pages() as u32 - 1);
            let neighbours = (block..block + order.pages() as u32).filter(|at| *at != offset);
            for neighbour in neighbours.map(|at| FrameNumber(its_zone.start.0 + at)) {
                let is_wanted = |flags: Flags| flags.has(Flags::LRU) && (any_list || self.kind_of(flags) == kind);
                let is_taken = its_zone.holds(neighbour)
                    && self.is_of_lruvec(reach.lruvec, neighbour)
                    && is_wanted(self.frames[neighbour].flags())
                    && self.isolate_one(reach.lruvec, &mut lists, neighbour, &mut by_family);
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
        self.machine.spend_on(Step::IsolatePage, reach.zone.start, scanned as u32);
        self.note_isolated(reach, &mut lists, kind, by_family.iter().sum(), (scanned, 0));
        (BlockVictims::new(taken, by_family), scanned)
    }

    /// Takes a listed page off its list, and takes one more reference to the page. Returns `false` and leaves the page
    /// alone if its last reference is being dropped.
    pub(in crate::lru) fn isolate_one(
        &self,
        lruvec: &Lruvec<M>,
        lists: &mut Lists,
        frame: FrameNumber,
        by_family: &mut [u64; Family::ALL.len()],
    ) -> bool {
        let descriptor = &self.frames[frame];
        if !descriptor.get_unless_zero() {
            return false;
        }
        let kind = self.kind_of(descriptor.flags());
        lists.list_mut(kind).remove(&self.frames, frame);
        descriptor.clear(Flags::LRU);
        let weight = self.frames.weight(frame);
        self.count_listed(lruvec, self.list_zone(self.highest_zone(lruvec), frame), kind, -(weight as i64));
        self.count_isolated(lruvec, kind.family(), weight);
        by_family[kind.family() as usize] += weight;
        true
    }

    /// Puts isolated pages, all of one lruvec and one family, back on the lists: each page goes to the head of the list
    /// that its flags name. Drops the references that isolation took. Adds `recent` to the counts of recently scanned
    /// and rotated pages.
    pub fn putback(&self, lruvec: &Lruvec<M>, family: Family, pages: &[FrameNumber], recent: Recent) {
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
            self.putback_cluster(lruvec, family, pages, recent, &mut gone);
            for frame in gone.drain(..) {
                self.memory().free_folio(frame, Warmth::Cold);
            }
            // The scan's amounts are added only once, with the first cluster.
            recent = Recent { counts_active: recent.counts_active, ..Recent::default() };
            rest = others;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Puts a cluster of isolated pages back under one hold of the lock. Pages that all other users have released are
    /// added to `gone` instead, for the caller to free.
    fn putback_cluster(
        &self,
        lruvec: &Lruvec<M>,
        family: Family,
        pages: &[FrameNumber],
        recent: Recent,
        gone: &mut Vec<FrameNumber>,
    ) {
        let zone = self.highest_zone(lruvec);
        let mut lists = lruvec.classic().lists.lock();
        lists.recent_scanned[family as usize] += recent.scanned;
        lists.recent_rotated[family as usize] += recent.rotated;
        for &frame in pages {
            let descriptor = &self.frames[frame];
            let kind = self.kind_of(descriptor.flags());
            descriptor.set(Flags::LRU);
            lists.list_mut(kind).push_front(&self.frames, frame);
            let weight = self.frames.weight(frame);
            let its_zone = self.list_zone(zone, frame);
            self.count_listed(lruvec, its_zone, kind, weight as i64);
            if recent.counts_active && kind.is_active() {
                lists.recent_rotated[family as usize] += weight;
            }
            if descriptor.put() {
                // All other users released the page meanwhile.
                lists.list_mut(kind).remove(&self.frames, frame);
                self.count_listed(lruvec, its_zone, kind, -(weight as i64));
                descriptor.clear(Flags::LRU);
                gone.push(frame);
            }
        }
        self.machine.spend(Step::LruMove, pages.len() as u32);
    }
}
