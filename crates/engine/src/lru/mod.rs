//! LRU: the order in which pages are reclaimed.
//!
//! *Holds* the lists of each zone and the per-CPU batches in front of their lock, and drops the last reference of a
//! page (off its list, then free). *Flow*: pages enter through [`Lru::add`], or through [`Lru::add_read`] where not
//! all pages that are read reach a list. They move by [`Lru::mark_accessed`] and [`Lru::rotate`], and leave by
//! [`Lru::isolate`] or [`Lru::put`]. *Called by* `access`, `reclaim`, `interrupt`. *Locks*: the slot of a batch
//! (interrupts off); `lru`, one zone at a time; `zone` when a page is freed, never inside `lru`. Judging pages that
//! waited ([`admission`]) also takes the locks that remove a page from its file, so a caller that adds pages it has
//! read, or drains before a scan, holds no lock but a page's. *Description*: mechanisms/reclaim, 8, 9, 12.1.
//!
//! Next: [`crate::reclaim`], which isolates pages and decides their fate.

pub mod admission;
pub mod batch;
pub mod choices;
pub mod drop_pages;
pub mod lruvec;

pub use choices::Choices;
use choices::{Admission, Lists, Putback};
pub use lruvec::{Family, ListKind, Lruvec};

use crate::memory::{Flags, Warmth, Zone};
use crate::stat::{Gauge, ZoneEvent};
use crate::writeback::Writeback;
use arrayvec::ArrayVec;
use batch::Batches;
use machine::atomic::Ordering::AcqRel;
use machine::{FrameNumber, Func, Lock, LockClass, Machine, Order, Step};
use std::ops::Deref;

/// Pages isolated at once (`SWAP_CLUSTER_MAX`): one hold of the LRU lock.
pub const CLUSTER: u64 = 32;

/// Pages taken off a list for reclaim.
pub type Isolated = ArrayVec<FrameNumber, { CLUSTER as usize }>;

/// What a putback adds to how scanning went lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// Added to [`Lruvec::recent_scanned`].
    pub scanned: u64,
    /// Added to [`Lruvec::recent_rotated`].
    pub rotated: u64,
    /// Does every page that comes back active add one to [`Lruvec::recent_rotated`]?
    pub counts_active: bool,
}

/// The floor of lists.
pub struct Lru<M: Machine> {
    writeback: Writeback<M>,
    /// The section `[lru]` of the kernel file.
    pub choices: Choices,
    lruvecs: Vec<M::Lock<Lruvec>>,
    batches: M::PerCpu<Batches>,
    /// Pages that were read and wait for a list, or to be free again ([`admission`]); none with `Admission::Always`.
    waiting: Option<M::PerCpu<admission::Waiting>>,
}

impl<M: Machine> Deref for Lru<M> {
    type Target = Writeback<M>;
    #[inline]
    fn deref(&self) -> &Writeback<M> {
        &self.writeback
    }
}

impl<M: Machine> Lru<M> {
    /// Empty lists.
    pub fn new(writeback: Writeback<M>, choices: Choices) -> Self {
        let lruvecs =
            writeback.zones.iter().map(|_| writeback.machine.lock(LockClass::Lru, Lruvec::default())).collect();
        let batches = writeback.machine.per_cpu(|_| Batches::default());
        let has_waiting = choices.admission == Admission::ByRefault;
        let waiting = has_waiting.then(|| writeback.machine.per_cpu(|_| admission::Waiting::new()));
        Self { writeback, choices, lruvecs, batches, waiting }
    }

    /// The choices of this floor, for floors above that have their own.
    pub(crate) const fn lru_choices(&self) -> &Choices {
        &self.choices
    }

    /// The lists of a zone.
    pub fn lruvec(&self, zone: &Zone<M>) -> &M::Lock<Lruvec> {
        &self.lruvecs[usize::from(zone.id.0)]
    }

    /// The list that a page's flags name.
    #[inline]
    pub fn kind_of(&self, flags: Flags) -> ListKind {
        match self.choices.lists {
            Lists::Four => ListKind::of(flags),
            Lists::Two => ListKind::of(flags.without(Flags::SWAPBACKED)),
        }
    }

    /// Pages on one list of a zone.
    #[inline]
    pub fn list_pages(&self, zone: &Zone<M>, kind: ListKind) -> u64 {
        zone.gauges.get(kind.gauge())
    }

    /// Takes up to `pages` pages off the tail of a list. Returns them, each with one more reference
    /// and no longer on any list, and how many were looked at.
    #[doc(alias = "isolate_lru_pages")]
    pub fn isolate(&self, zone: &Zone<M>, kind: ListKind, pages: u64) -> (Isolated, u64) {
        let _span = self.machine.span(Func::IsolateLruPages);
        let mut taken = Isolated::new();
        let mut scanned = 0;
        let mut lruvec = self.lruvec(zone).lock();
        let frames = &self.frames;
        while scanned < pages.min(CLUSTER) {
            let Some(frame) = lruvec.list(kind).last() else { break };
            scanned += 1;
            debug_assert!(frames[frame].is(Flags::LRU), "{frame} on a list without the flag: {:?}", frames[frame]);
            lruvec.list_mut(kind).remove(frames, frame);
            if frames[frame].get_unless_zero() {
                frames[frame].clear(Flags::LRU);
                taken.push(frame);
            } else {
                // Its last reference is falling: whoever drops it takes it off.
                lruvec.list_mut(kind).push_front(frames, frame);
            }
        }
        self.machine.spend(Step::IsolatePage, scanned as u32);
        let n = taken.len() as i64;
        zone.gauges.add(kind.gauge(), -n);
        zone.gauges.add(kind.family().isolated(), n);
        self.note_isolated(zone, &mut lruvec, kind, taken.len() as u64, scanned);
        (taken, scanned)
    }

    fn note_isolated(&self, zone: &Zone<M>, lruvec: &mut Lruvec, kind: ListKind, taken: u64, scanned: u64) {
        zone.pages_scanned.fetch_add(scanned, machine::atomic::Ordering::Relaxed);
        if kind.is_active() {
            lruvec.recent_scanned[kind.family() as usize] += taken;
            self.stat.count_zone(ZoneEvent::Pgrefill, zone.kind as usize, scanned);
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
    ) -> (Vec<FrameNumber>, u64) {
        let _span = self.machine.span(Func::IsolateLruPages);
        let mut taken = Vec::new();
        let mut scanned = 0;
        let mut lruvec = self.lruvec(zone).lock();
        while scanned < pages.min(CLUSTER) {
            let Some(frame) = lruvec.list(kind).last() else { break };
            scanned += 1;
            if !self.isolate_one(zone, &mut lruvec, frame) {
                let list = lruvec.list_mut(kind);
                list.remove(&self.frames, frame);
                list.push_front(&self.frames, frame);
                continue;
            }
            taken.push(frame);
            let offset = frame.0 - zone.start.0;
            let block = offset & !(order.pages() as u32 - 1);
            let neighbours = (block..block + order.pages() as u32).filter(|at| *at != offset);
            for neighbour in neighbours.map(|at| FrameNumber(zone.start.0 + at)) {
                let is_wanted = |flags: Flags| flags.has(Flags::LRU) && (any_list || self.kind_of(flags) == kind);
                let is_taken = zone.holds(neighbour)
                    && is_wanted(self.frames[neighbour].flags())
                    && self.isolate_one(zone, &mut lruvec, neighbour);
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
        self.machine.spend(Step::IsolatePage, scanned as u32);
        self.note_isolated(zone, &mut lruvec, kind, taken.len() as u64, scanned);
        (taken, scanned)
    }

    /// Takes a listed page off its list, unless its last reference is falling.
    fn isolate_one(&self, zone: &Zone<M>, lruvec: &mut Lruvec, frame: FrameNumber) -> bool {
        let descriptor = &self.frames[frame];
        if !descriptor.get_unless_zero() {
            return false;
        }
        let kind = self.kind_of(descriptor.flags());
        lruvec.list_mut(kind).remove(&self.frames, frame);
        descriptor.clear(Flags::LRU);
        zone.gauges.add(kind.gauge(), -1);
        zone.gauges.add(kind.family().isolated(), 1);
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

    /// The same under one hold of the lock; `gone` gets those that everybody else let go.
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
            zone.gauges.add(kind.gauge(), 1);
            if recent.counts_active && kind.is_active() {
                lruvec.recent_rotated[family as usize] += 1;
            }
            if descriptor.put() {
                // Everybody else let go meanwhile.
                lruvec.list_mut(kind).remove(&self.frames, frame);
                zone.gauges.add(kind.gauge(), -1);
                descriptor.clear(Flags::LRU);
                gone.push(frame);
            }
        }
        self.machine.spend(Step::LruMove, pages.len() as u32);
    }

    /// Ends the isolation of pages that were put back or freed.
    pub fn end_isolation(&self, zone: &Zone<M>, family: Family, pages: u64) {
        zone.gauges.add(family.isolated(), -(pages as i64));
    }

    /// Drops one reference of a page; with the last one, the page leaves its list and is free.
    pub fn put(&self, frame: FrameNumber) {
        if self.frames[frame].put() {
            self.free_unreferenced(frame);
        }
    }

    /// Drops one reference of each of many pages, taking the LRU lock once for each run in a zone.
    #[doc(alias = "release_pages")]
    pub fn put_pages(&self, pages: &[FrameNumber]) {
        let _span = self.machine.span(Func::ReleasePages);
        let mut unreferenced = pages.iter().copied().filter(|frame| self.frames[*frame].put()).peekable();
        let mut free: Vec<FrameNumber> = Vec::new();
        while let Some(first) = unreferenced.next() {
            let zone = self.zone_of(first);
            free.push(first);
            while let Some(frame) = unreferenced.next_if(|frame| zone.holds(*frame)) {
                free.push(frame);
            }
            self.unlink(zone, &free);
            for frame in free.drain(..) {
                self.free(frame, Order::ZERO, Warmth::Cold);
            }
        }
    }

    /// Frees pages whose last reference a lookup dropped, if there are any.
    #[inline]
    pub fn release_orphans(&self) {
        if self.has_orphans.load(machine::atomic::Ordering::Relaxed) {
            self.put_orphans();
        }
    }

    #[cold]
    fn put_orphans(&self) {
        if !self.has_orphans.swap(false, AcqRel) {
            return;
        }
        let orphans = std::mem::take(&mut *self.orphans.lock());
        if !orphans.is_empty() {
            self.put_pages(&orphans);
        }
    }

    /// A reader let go of a page that it held by a hazard pointer while somebody waited for that, for this page or another.
    #[cold]
    pub(crate) fn end_hazard(&self, frame: FrameNumber) {
        self.wake_hazard_waiters(frame);
        self.put_pages(&self.let_go(Some(frame)));
    }

    /// Takes a page without references off its list and frees it.
    pub(crate) fn free_unreferenced(&self, frame: FrameNumber) {
        let zone = self.zone_of(frame);
        self.unlink(zone, &[frame]);
        self.free(frame, Order::ZERO, Warmth::Hot);
    }

    fn unlink(&self, zone: &Zone<M>, pages: &[FrameNumber]) {
        if !pages.iter().any(|frame| self.frames[*frame].is(Flags::LRU)) {
            return;
        }
        let mut lruvec = self.lruvec(zone).lock();
        let mut moved = 0;
        for &frame in pages {
            let descriptor = &self.frames[frame];
            if descriptor.is(Flags::LRU) {
                let kind = self.kind_of(descriptor.flags());
                lruvec.list_mut(kind).remove(&self.frames, frame);
                descriptor.clear(Flags::LRU);
                zone.gauges.add(kind.gauge(), -1);
                moved += 1;
            }
        }
        self.machine.spend(Step::LruMove, moved);
    }

    /// All pages on all lists of a zone, for the whole-machine check.
    pub fn for_each_listed(&self, zone: &Zone<M>, mut visit: impl FnMut(ListKind, FrameNumber)) {
        let lruvec = self.lruvec(zone).lock();
        for kind in ListKind::ALL {
            for frame in lruvec.list(kind).iter(&self.frames) {
                visit(kind, frame);
            }
        }
    }

    /// Is the inactive list of a family too short for pages to prove themselves there?
    ///
    /// File: when more pages are active than inactive. Anonymous: when the inactive list is less than
    /// 1 / (1 + isqrt(10 × GiB)) of the family, in whole GiB of the zone; never without swap.
    pub fn is_inactive_low(&self, zone: &Zone<M>, family: Family) -> bool {
        let inactive = self.list_pages(zone, family.inactive());
        let active = self.list_pages(zone, family.active());
        match family {
            Family::File => active > inactive,
            Family::Anon => {
                let gib = zone.managed() >> 18;
                let ratio = (10 * gib).isqrt().max(1);
                self.swap.total_slots() > 0 && inactive * ratio < active
            }
        }
    }

    /// The gauge of pages isolated from a family, for reports.
    #[must_use]
    pub fn isolated_pages(&self, zone: &Zone<M>, family: Family) -> u64 {
        zone.gauges.get(match family {
            Family::Anon => Gauge::NrIsolatedAnon,
            Family::File => Gauge::NrIsolatedFile,
        })
    }
}
