//! Pages that come back after classic reclaim took them (`lru.refault`).
//!
//! Each lruvec has a clock of *nonresident age*, which counts pages that were evicted, activated, or put back as
//! active. A page that leaves stores the clock's time in a shadow. When the page comes back, the time that has passed
//! is its *refault distance*: the inactive list would have had to be that many pages longer to keep the page. The page
//! joins the active list, to compete with the pages there, if its distance is at most the number of active pages plus
//! the number of pages of the other family that could have gone in its place. *Called by* insertions, activations and
//! `reclaim`; *locks*: none but `lru` for the cost of a page that was active before. *Description*:
//! mechanisms/multigen, 8.5. Nodes of an index that only hold shadows take no memory here, and stay. Linux frees such
//! nodes once there is more than one of them for every eight pages of memory.

use crate::lru::choices::CgroupCounters;
use crate::lru::workingset::Left;
use crate::lru::{CLUSTER, Family, ListKind, Lru, Lruvec};
use crate::memory::{Flags, GroupId};
use crate::page_cache::Shadow;
use crate::stat::ZoneEvent;
use machine::atomic::{AtomicU64, Ordering::Relaxed};
use machine::{FrameNumber, Lock, Machine, Nanos};

/// Interval at which the counters of cgroups are added up (mechanisms/modern, 6). It was not measured directly; with
/// this value the counters fit Linux 6.18 (docs/studies/running-kernel.md).
const SUMMED_EVERY: Nanos = Nanos::from_secs(2);

/// The contents of a page's shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Number of the lruvec that the page was on.
    pub(super) lruvec: u32,
    /// The nonresident age of the lruvec, in pages, at the moment when the page left memory. A shadow stores this age
    /// rounded down to a bucket, and without the high bits that do not fit into a shadow.
    pub(super) age: u64,
    /// `true` if the page had been active before it left memory.
    pub(super) is_of_workingset: bool,
}

/// The layout of a [`Token`] in the bits of a [`Shadow`]: one bit for whether the page had been active, then the number
/// of the page's lruvec, then the nonresident age at which the page left, in buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lru) struct Packing {
    lruvec_bits: u32,
    age_bits: u32,
    /// Binary logarithm of the number of pages in a bucket of the nonresident age. With smaller buckets, `age_bits`
    /// bits could not count as many pages as memory has.
    bucket_order: u32,
}

impl Packing {
    pub(super) const fn new(lruvecs: u32, frames: u32) -> Self {
        let lruvec_bits = u32::BITS - lruvecs.saturating_sub(1).leading_zeros();
        let age_bits = Shadow::BITS - 1 - lruvec_bits;
        let bucket_order = (u32::BITS - frames.leading_zeros()).saturating_sub(age_bits);
        Self { lruvec_bits, age_bits, bucket_order }
    }

    const fn age_mask(self) -> u64 {
        (1 << self.age_bits) - 1
    }

    pub(super) fn pack(self, token: Token) -> Shadow {
        let age = ((token.age >> self.bucket_order) & self.age_mask()) as u32;
        let workingset = u32::from(token.is_of_workingset) << (Shadow::BITS - 1);
        Shadow::of_bits(workingset | token.lruvec << self.age_bits | age)
    }

    pub(super) const fn unpack(self, shadow: Shadow) -> Token {
        let bits = shadow.bits();
        Token {
            lruvec: (bits >> self.age_bits) & ((1 << self.lruvec_bits) - 1),
            age: (bits as u64 & self.age_mask()) << self.bucket_order,
            is_of_workingset: bits >> (Shadow::BITS - 1) != 0,
        }
    }

    /// Returns a refault distance: the number of pages by which the nonresident age has grown from the age in a token
    /// to the age `now`. The result is modulo the number of distances that a shadow can tell apart.
    pub(super) const fn distance(self, token: Token, now: u64) -> u64 {
        now.wrapping_sub(token.age) & (self.age_mask() << self.bucket_order | ((1 << self.bucket_order) - 1))
    }
}

/// The record of pages that left an lruvec. It is aligned so that it shares no cache line with other data, because all
/// CPUs change it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Nonresident {
    /// The nonresident age (`nonresident_age`): the number of pages that were evicted, activated, or put back as
    /// active.
    age: AtomicU64,
    /// For each family, the number of refaulted pages that had become active since boot, as it was when a reclaim last
    /// ended (`lruvec->refaults`).
    activations: [AtomicU64; Family::ALL.len()],
    /// Copies of the lruvec's counters, as they were when last added up ([`CgroupCounters::EveryTwoSeconds`]).
    sums: Sums,
}

/// Copies of an lruvec's counters, made when the counters of cgroups were last added up
/// ([`CgroupCounters::EveryTwoSeconds`]).
#[derive(Debug, Default)]
struct Sums {
    /// Number of refaulted pages of each family that became active.
    activations: [AtomicU64; Family::ALL.len()],
    /// Number of pages on each list.
    list_pages: [AtomicU64; ListKind::ALL.len()],
    /// Time at which these copies of the lruvec's counters were made, ns.
    at: AtomicU64,
}

impl<M: Machine> Lru<M> {
    /// Returns whether the kernel has `lru.refault` = [`Refault::ByWorkingset`], so that evicted pages leave shadows.
    pub(in crate::lru) fn has_refaults(&self) -> bool {
        self.packing().is_some()
    }

    /// Adds `pages` to the nonresident age (`nonresident_age`) of an lruvec and of the lruvecs of its group's
    /// ancestors. These pages were evicted, activated, or put back as active.
    #[doc(alias = "workingset_age_nonresident")]
    pub(super) fn age_nonresident(&self, lruvec: &Lruvec<M>, pages: u64) {
        if pages > 0 && self.has_refaults() {
            self.for_each_above(lruvec, |lruvec| {
                lruvec.classic().nonresident.age.fetch_add(pages, Relaxed);
            });
        }
    }

    /// Advances the lruvec's nonresident age (`nonresident_age`) by the number of active pages among `pages`, which are
    /// about to go back to their lists.
    pub(super) fn age_by_putback(&self, lruvec: &Lruvec<M>, pages: &[FrameNumber]) {
        if self.has_refaults() {
            let active = pages.iter().filter(|frame| self.frames[**frame].is(Flags::ACTIVE));
            self.age_nonresident(lruvec, active.map(|frame| self.frames.pages(*frame)).sum());
        }
    }

    /// Marks a page that has just become inactive as part of the workingset.
    pub(super) fn note_deactivated(&self, frame: FrameNumber) {
        if self.has_refaults() {
            self.frames[frame].set(Flags::WORKINGSET);
        }
    }

    /// Returns the shadow of an isolated page that a reclaim of the group `target` is about to evict. Returns `None` if
    /// the kernel detects no refaults of such a page.
    pub(in crate::lru) fn shadow_of_classic(&self, frame: FrameNumber, target: GroupId) -> Option<Shadow> {
        match self.packing() {
            Some(packing) => Some(self.shadow_of_evicted(packing, frame, target)),
            None if self.frames[frame].is_anon() => None,
            None => self.waiting.as_ref().map(|_| self.workingset.shadow(Left::Evicted)),
        }
    }

    /// Returns the shadow of a page that a reclaim of the group `target` is about to evict. The shadow records the
    /// nonresident age of that group, because the reclaim chose among the pages of the group's whole subtree.
    #[doc(alias = "workingset_eviction")]
    fn shadow_of_evicted(&self, packing: Packing, frame: FrameNumber, target: GroupId) -> Shadow {
        let lruvec = self.lruvec_in(self.memory().zone_of(frame), target);
        packing.pack(Token {
            lruvec: lruvec.id.0.into(),
            age: lruvec.classic().nonresident.age.load(Relaxed),
            is_of_workingset: self.frames[frame].is(Flags::WORKINGSET),
        })
    }

    /// Raises the nonresident age (`nonresident_age`) of the group `target` by an evicted page; a reclaim of this group
    /// evicts the page. The page's shadow was stored before, so the age in the shadow does not include the page itself.
    pub(in crate::lru) fn age_by_eviction(&self, frame: FrameNumber, target: GroupId) {
        if self.has_refaults() {
            self.age_nonresident(self.lruvec_in(self.memory().zone_of(frame), target), self.frames.pages(frame));
        }
    }

    /// Counts the return of a page that left `shadow` when it was evicted. Returns whether the page joins the active
    /// list.
    #[doc(alias = "workingset_refault")]
    pub(in crate::lru) fn is_refault_activated(&self, frame: FrameNumber, shadow: Shadow) -> bool {
        let Some(packing) = self.packing() else { return false };
        let descriptor = &self.frames[frame];
        let family = if descriptor.is_anon() { Family::Anon } else { Family::File };
        let zone = self.memory().zone_of(frame);
        let lruvec = self.lruvec_of_page(frame);
        let token = packing.unpack(shadow);
        // The page left the lruvec that its token names, and may have come back to another lruvec.
        let left = self.lruvecs.get(token.lruvec as usize).unwrap_or(lruvec);
        let distance = packing.distance(token, left.classic().nonresident.age.load(Relaxed));
        let [refault, activate, restore] = match family {
            Family::Anon => {
                [ZoneEvent::WorkingsetRefaultAnon, ZoneEvent::WorkingsetActivateAnon, ZoneEvent::WorkingsetRestoreAnon]
            }
            Family::File => {
                [ZoneEvent::WorkingsetRefaultFile, ZoneEvent::WorkingsetActivateFile, ZoneEvent::WorkingsetRestoreFile]
            }
        };
        let pages = self.frames.pages(frame);
        self.count_in(lruvec, zone, refault, pages);
        if distance > self.workingset_pages(left, family) {
            return false;
        }
        self.age_nonresident(lruvec, pages);
        self.count_in(lruvec, zone, activate, pages);
        if token.is_of_workingset {
            descriptor.set(Flags::WORKINGSET);
            self.count_in(lruvec, zone, restore, pages);
            self.note_io_cost(lruvec, family, pages, 0);
        }
        true
    }

    /// Returns the size of the workingset with which a returning page of a family competes: the active pages of its
    /// family, and all pages of the other family. Anonymous pages count only while swap slots are free.
    fn workingset_pages(&self, lruvec: &Lruvec<M>, family: Family) -> u64 {
        let pages = |kind| self.summed_list_pages(lruvec, kind).unwrap_or_else(|| self.listed_below(lruvec, kind));
        let may_swap_out = self.swap_floor().has_swap_room(lruvec.group);
        let mut sum = pages(ListKind::ActiveFile);
        if family == Family::Anon {
            sum += pages(ListKind::InactiveFile);
        }
        if may_swap_out {
            sum += pages(ListKind::ActiveAnon);
            if family == Family::File {
                sum += pages(ListKind::InactiveAnon);
            }
        }
        sum
    }

    /// Returns whether pages of a family refaulted and were activated since a reclaim last ended.
    pub(super) fn has_refaulted(&self, lruvec: &Lruvec<M>, family: Family) -> bool {
        if !self.has_refaults() {
            return false;
        }
        let before = lruvec.classic().nonresident.activations[family as usize].load(Relaxed);
        self.activated_refaults(lruvec, family) != before
    }

    /// Records, at the end of a reclaim, how many refaulted pages of the lruvec have become active so far.
    /// [`Lru::has_refaulted`] compares later numbers with the recorded one.
    #[doc(alias = "snapshot_refaults")]
    pub(in crate::lru) fn note_refaults_seen(&self, lruvec: &Lruvec<M>) {
        if !self.has_refaults() {
            return;
        }
        for family in Family::ALL {
            let activations = self.activated_refaults(lruvec, family);
            lruvec.classic().nonresident.activations[family as usize].store(activations, Relaxed);
        }
    }

    /// Returns how many refaulted pages of an lruvec have become active. With [`CgroupCounters::EveryTwoSeconds`],
    /// returns the number as it was when the counters were last added up.
    fn activated_refaults(&self, lruvec: &Lruvec<M>, family: Family) -> u64 {
        match self.sums(lruvec) {
            Some(sums) => sums.activations[family as usize].load(Relaxed),
            None => self.sum_activated_refaults(lruvec, family),
        }
    }

    /// Returns the number of pages on a list of an lruvec at the time when counters were last added up. The number
    /// covers all zones of the lruvec, because the counters of a cgroup are not divided by zone. Returns `None` if
    /// reclaim uses exact counters.
    pub(super) fn summed_list_pages(&self, lruvec: &Lruvec<M>, kind: ListKind) -> Option<u64> {
        self.packing()?;
        let sums = self.sums(lruvec)?;
        Some(sums.list_pages[kind as usize].load(Relaxed))
    }

    /// Returns the copies of an lruvec's counters, and renews them first if they are two seconds old. Returns `None` if
    /// reclaim uses exact counters.
    fn sums<'l>(&self, lruvec: &'l Lruvec<M>) -> Option<&'l Sums> {
        match self.choices.cgroup_counters {
            CgroupCounters::AtOnce => return None,
            CgroupCounters::EveryTwoSeconds => {}
        }
        let sums = &lruvec.classic().nonresident.sums;
        let (now, last) = (self.machine.now(), sums.at.load(Relaxed));
        let is_due = now.since(Nanos(last)) >= SUMMED_EVERY;
        if is_due && sums.at.compare_exchange(last, now.0, Relaxed, Relaxed).is_ok() {
            for family in Family::ALL {
                sums.activations[family as usize].store(self.sum_activated_refaults(lruvec, family), Relaxed);
            }
            for kind in ListKind::ALL {
                sums.list_pages[kind as usize].store(self.listed_below(lruvec, kind), Relaxed);
            }
        }
        Some(sums)
    }

    /// Returns exactly how many refaulted pages of an lruvec, and of the lruvecs of its group's descendants, have
    /// become active.
    fn sum_activated_refaults(&self, lruvec: &Lruvec<M>, family: Family) -> u64 {
        let event = match family {
            Family::Anon => ZoneEvent::WorkingsetActivateAnon,
            Family::File => ZoneEvent::WorkingsetActivateFile,
        };
        self.events_of(lruvec, event)
    }

    /// Adds to the cost of evicting pages of a family, on an lruvec and on the lruvecs of its group's ancestors. `io`
    /// is the number of reads or writes that evictions caused; `in_vain` is the number of pages that were scanned
    /// without success. `lru.family_balance` says how much a read, a write, and a page scanned without success cost.
    #[doc(alias = "lru_note_cost")]
    pub(in crate::lru) fn note_io_cost(&self, lruvec: &Lruvec<M>, family: Family, io: u64, in_vain: u64) {
        let balance = self.choices.family_balance;
        if !balance.counts_io() {
            return;
        }
        let cost = match balance.counts_rotation() {
            true => CLUSTER * io + in_vain,
            false => io,
        };
        self.for_each_above(lruvec, |lruvec| {
            let listed = ListKind::ALL.into_iter().map(|kind| self.listed_below(lruvec, kind)).sum();
            lruvec.classic().lists.lock().note_cost(family, cost, listed);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_has_room_for_the_lruvecs_and_the_ages_of_any_memory() {
        for (lruvecs, frames) in
            [(1, 1 << 10), (1, 1 << 30), (2, 1 << 20), (3, 1 << 30), (192, 1 << 30), (64, 1 << 24), (1 << 16, 1 << 30)]
        {
            let packing = Packing::new(lruvecs, frames);
            assert!(packing.age_mask() << packing.bucket_order >= u64::from(frames) / 2, "{packing:?}");
            for lruvec in [0, lruvecs - 1] {
                for age in [0, 1, 12_345, u64::from(frames), 1 << 40, u64::MAX - 9] {
                    for is_of_workingset in [false, true] {
                        let token = packing.unpack(packing.pack(Token { lruvec, age, is_of_workingset }));
                        assert_eq!((token.lruvec, token.is_of_workingset), (lruvec, is_of_workingset));
                        let bucket = 1 << packing.bucket_order;
                        for since in [0, 1, 999, u64::from(frames) / 2] {
                            let distance = packing.distance(token, age.wrapping_add(since));
                            assert!(
                                (since..since + bucket).contains(&distance),
                                "{packing:?} {age} {since}: {distance}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn memory_of_a_terabyte_needs_no_buckets_on_one_node() {
        assert_eq!(Packing::new(1, 1 << 28), Packing { lruvec_bits: 0, age_bits: 29, bucket_order: 0 });
        assert_eq!(Packing::new(8, 1 << 28), Packing { lruvec_bits: 3, age_bits: 26, bucket_order: 3 });
    }
}
