//! One batch: pages of the oldest generation, sorted and isolated under one hold of the lock
//! (mechanisms/multigen, 6.2).

use super::choices::{DirtyAtTail, Ineligible, IsolatedMarks, Rejected, Saturated, ScanCount, TypeRule};
use super::controller::Choice;
use super::generations::{GENERATIONS, is_of, slot_in, slot_of, with_slot};
use super::lists::{ListId, Lists};
use super::placement::{Coming, place};
use super::{Multigen, uses};
use crate::anonymous::Owners;
use crate::lru::policy::{Batch, Demand, Entries};
use crate::lru::{Family, Lru, Reach};
use crate::memory::{Flags, Zone};
use crate::stat::ZoneEvent;
use machine::{FrameNumber, Func, Lock, Machine, Step};

/// Largest number of pages that are scanned under one hold of the lock (`MAX_LRU_BATCH`).
pub(super) const LOOKED_AT_MAX: u64 = 4096;

/// For each [`Family`] (anonymous and file pages), `true` if its pages may be evicted.
pub(super) type Evictable = [bool; Family::ALL.len()];

/// A batch that is being gathered: pages that were taken off a list, and counts of all pages that were examined.
#[derive(Debug)]
struct Gathered {
    /// The pages that were taken, each with one more reference.
    entries: Entries,
    /// Family of the pages that were taken.
    family: Family,
    /// Number of pages that were taken. A huge page counts with all its pages.
    taken: u64,
    /// Number of pages that were scanned.
    scanned: u64,
    /// Number of scanned pages that must be written before they can be freed.
    to_write: u64,
    /// Pages that are still open to readers with hazard pointers although their marks of use were cleared. Such readers
    /// may use a page without setting a mark, so the pages are closed to them after the lock of the LRU lists is
    /// released. Until then `opened` holds a reference to each page.
    opened: Vec<FrameNumber>,
    /// Number of examined pages that went to another generation instead of being taken.
    moved: u64,
}

impl Gathered {
    fn of(family: Family) -> Self {
        Self { entries: Entries::default(), family, taken: 0, scanned: 0, to_write: 0, opened: Vec::new(), moved: 0 }
    }
}

/// The kind of a page at the tail of the oldest list, which decides where the page goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sorted {
    /// The page belongs to another generation than its list, because a walk of page tables has found it used.
    Elsewhere,
    /// The page stays because of its tier or its uses, and counts as protected.
    Protected,
    /// The page stays because of its uses, and does not count as protected.
    Lifted,
    /// The page is in a zone that the request cannot use.
    Ineligible,
    /// The page must be written before it can be freed.
    ToWrite,
    /// The page is locked.
    Locked,
    /// The page may be evicted.
    Old,
}

impl<M: Machine> Lru<M> {
    /// Isolates pages of the oldest generation of a family, anonymous or file pages, and returns them as a batch. If
    /// the scan of this family is in vain, as `type_rule` defines it, continues with the other family. Examines at most
    /// `budget` pages in all.
    pub(super) fn evict_batch(
        &self,
        multigen: &Multigen,
        reach: Reach<'_, M>,
        demand: &Demand,
        evictable: Evictable,
        budget: u64,
    ) -> Batch {
        let batch = {
            let _span = self.machine.span(Func::IsolateLruPages);
            let mut lists = reach.lruvec.generational().lists.lock();
            let batch = self.isolate_oldest(multigen, &mut lists, reach, demand, evictable, budget);
            self.machine.spend_on(Step::IsolatePage, reach.zone.start, batch.scanned as u32);
            self.advance_oldest(multigen, &lists, reach.lruvec, evictable);
            batch
        };
        reach.zone.note_scanned(batch.scanned);
        self.count_in(reach.lruvec, reach.zone, ZoneEvent::Pgrefill, batch.moved);
        self.count_isolated(reach.lruvec, batch.family, batch.taken);
        let mut owners = Owners::default();
        for &frame in &batch.opened {
            self.page_cache().close_page(frame, &mut owners);
            self.put(frame);
        }
        let counted = match multigen.choices.scan_count {
            ScanCount::Isolated => batch.taken,
            ScanCount::Examined => batch.scanned,
        };
        let Gathered { entries, family, taken, scanned, to_write, .. } = batch;
        Batch { counted, to_write, tells_flushers: true, ..Batch::new(family, entries, taken, scanned) }
    }

    fn isolate_oldest(
        &self,
        multigen: &Multigen,
        lists: &mut Lists,
        reach: Reach<'_, M>,
        demand: &Demand,
        evictable: Evictable,
        budget: u64,
    ) -> Gathered {
        let of = reach.lruvec.generational();
        let choices = &multigen.choices;
        let alone = |family| Choice { family, tier_limit: of.controller.tier_limit(choices, family) };
        let first = match evictable {
            [true, true] => of.controller.choose(choices, self.swappiness(demand), &of.generations.seqs()),
            [true, false] => alone(Family::Anon),
            [false, _] => alone(Family::File),
        };
        let mut batch = Gathered::of(first.family);
        self.isolate_of_type(multigen, lists, reach, demand, first, budget, &mut batch);
        let other = Family::ALL[1 - first.family as usize];
        let is_in_vain = is_in_vain(choices.type_rule, batch.entries.is_empty(), batch.scanned, budget);
        if is_in_vain && evictable[other as usize] {
            batch.family = other;
            let left = budget - batch.scanned;
            self.isolate_of_type(multigen, lists, reach, demand, alone(other), left, &mut batch);
        }
        batch
    }

    #[expect(clippy::too_many_arguments, reason = "what a scan of one type needs to know")]
    fn isolate_of_type(
        &self,
        multigen: &Multigen,
        lists: &mut Lists,
        reach: Reach<'_, M>,
        demand: &Demand,
        choice: Choice,
        budget: u64,
        batch: &mut Gathered,
    ) {
        let of = reach.lruvec.generational();
        let seqs = of.generations.seqs();
        if !seqs.is_evictable(choice.family) {
            return;
        }
        let slot = slot_of(seqs.min[choice.family as usize]);
        let next = next_slot(slot);
        let most = u64::from(multigen.choices.isolate_batch);
        let mut left = budget.min(LOOKED_AT_MAX);
        let ineligible = match multigen.choices.ineligible {
            Ineligible::Left => &[],
            Ineligible::Moved => self.zones_above(reach),
        };
        for zone in reach.zones.iter().rev().chain(ineligible.iter().rev()) {
            let list = ListId::new(slot, choice.family, zone.kind);
            let (mut skipped, mut pages_skipped) = (Vec::new(), 0);
            let mut moved_to_next = 0;
            // A folio counts with all its pages, so that a batch has at most one huge page.
            while left > 0 && batch.taken < most && pages_skipped < most {
                let Some(frame) = lists.last(list) else { break };
                let weight = self.frames.pages(frame);
                batch.scanned += weight;
                left = left.saturating_sub(weight);
                if let Some(to_next) = self.sort(multigen, lists, reach, zone, frame, slot, choice.tier_limit, batch) {
                    batch.moved += weight;
                    moved_to_next += to_next;
                } else if self.may_isolate(frame, demand) && self.frames[frame].get_unless_zero() {
                    self.unlink_listed(reach.lruvec, lists, frame);
                    self.take_first_mark(multigen, frame, batch);
                    batch.taken += weight;
                    batch.entries.push(frame);
                } else {
                    lists.remove(&self.frames, frame);
                    skipped.push(frame);
                    pages_skipped += weight;
                }
            }
            self.count_moved(reach.lruvec, zone, choice.family, (slot, next), moved_to_next);
            zone.stat.count(ZoneEvent::Pgskip, pages_skipped);
            skipped.into_iter().rev().for_each(|frame| lists.push_front(&self.frames, list, frame));
        }
    }

    /// Returns whether the caller may do the I/O that the page needs before it can leave memory.
    fn may_isolate(&self, frame: FrameNumber, demand: &Demand) -> bool {
        let flags = self.frames[frame].flags();
        let needs_io = flags.has(Flags::DIRTY) || flags.has(Flags::SWAPBACKED) && !flags.has(Flags::SWAPCACHE);
        demand.may_do_all || !needs_io
    }

    /// Clears the mark of the first use (`PG_referenced`) of a page that is taken off its list, or, if this mark is not
    /// set, the marks of all other uses. A mark that the page has later then shows a later use. Does nothing with
    /// [`IsolatedMarks::Kept`].
    fn take_first_mark(&self, multigen: &Multigen, frame: FrameNumber, batch: &mut Gathered) {
        match multigen.choices.isolated_marks {
            IsolatedMarks::Kept => return,
            IsolatedMarks::FirstTaken => {}
        }
        let taken = |flags: Flags| (uses::isolated(flags) != flags).then(|| uses::isolated(flags));
        let is_open = matches!(self.frames[frame].update(taken), Ok(before) if before.has(Flags::HAZARD));
        if is_open && self.frames[frame].get_unless_zero() {
            batch.opened.push(frame);
        }
    }

    /// Moves `frame`, the page at the tail of the list of `slot`, to another list if it belongs there. Returns the
    /// number of pages that this call moved from their generation to the next; the caller adds it to the counts of
    /// sizes. Returns `None` if the page is not moved and may be evicted.
    #[expect(clippy::too_many_arguments, reason = "what a scan of one type needs to know")]
    fn sort(
        &self,
        multigen: &Multigen,
        lists: &mut Lists,
        reach: Reach<'_, M>,
        zone: &Zone<M>,
        frame: FrameNumber,
        slot: usize,
        tier_limit: usize,
        batch: &mut Gathered,
    ) -> Option<u64> {
        let choices = &multigen.choices;
        let flags = self.frames[frame].flags();
        let family = is_of(flags);
        let tier = uses::tier(choices.use_marks, choices.tiers, flags);
        let is_eligible = zone.kind <= reach.zone.kind;
        let sorted = sorted(flags, slot, tier > tier_limit, is_eligible, choices.saturated, choices.dirty_at_tail);
        match sorted {
            Sorted::Old => return None,
            Sorted::Elsewhere => {
                lists.remove(&self.frames, frame);
                lists.push_front(&self.frames, ListId::new(slot_in(flags), family, zone.kind), frame);
                return Some(0);
            }
            Sorted::Protected => {
                let pages = self.frames.pages(frame);
                self.note_protected(reach.lruvec, family, tier, pages);
                self.count_protected(multigen, reach.lruvec, zone, family, pages);
            }
            Sorted::ToWrite => batch.to_write += self.frames.pages(frame),
            Sorted::Lifted | Sorted::Ineligible | Sorted::Locked => {}
        }
        let moved = self.move_to_next(multigen, lists, zone, frame, slot, sorted);
        if flags.has(Flags::HAZARD) && self.frames[frame].get_unless_zero() {
            batch.opened.push(frame);
        }
        Some(moved)
    }

    /// Moves a page to the list of the generation after the one in `slot`, and clears its count of uses. A page of a zone
    /// that the request cannot use goes to the tail of this list, and any other page to its head. But if a walk has just
    /// found the page used, the page goes to the head of the list of the generation that the walk has chosen. Returns the
    /// number of pages whose generation this call changed.
    fn move_to_next(
        &self,
        multigen: &Multigen,
        lists: &mut Lists,
        zone: &Zone<M>,
        frame: FrameNumber,
        slot: usize,
        sorted: Sorted,
    ) -> u64 {
        let (from, to) = (slot, next_slot(slot));
        let mark = if sorted == Sorted::ToWrite { Flags::RECLAIM } else { Flags::default() };
        let marks = multigen.choices.use_marks;
        let moved =
            |flags: Flags| (slot_in(flags) == from).then(|| with_slot(uses::cleared(marks, flags), to).with(mark));
        let result = self.frames[frame].update(moved);
        let (Ok(before) | Err(before)) = result;
        let (slot, moved) = match result {
            Ok(_) => (to, self.frames.pages(frame)),
            Err(_) => (slot_in(before), 0),
        };
        lists.remove(&self.frames, frame);
        let list = ListId::new(slot, is_of(before), zone.kind);
        match sorted == Sorted::Ineligible && result.is_ok() {
            true => lists.push_back(&self.frames, list, frame),
            false => lists.push_front(&self.frames, list, frame),
        }
        moved
    }

    /// Looks again at `pages`, which reclaim did not free. Takes the pages that may have become reclaimable meanwhile
    /// out of `pages`, and returns them for a second try. Prepares the other pages to go back to their lists.
    pub(in crate::lru) fn take_out_of_rejected(
        &self,
        multigen: &Multigen,
        pages: &mut Entries,
        may_retry: bool,
    ) -> Entries {
        let mut retried = Entries::default();
        match multigen.choices.rejected {
            Rejected::SecondOldest => return retried,
            Rejected::Active | Rejected::LikeActive => {}
        }
        let mut owners = Owners::default();
        pages.retain(|frame| {
            let descriptor = &self.frames[frame];
            let flags = descriptor.flags();
            let is_to_be_written = flags.0 & (Flags::DIRTY.0 | Flags::WRITEBACK.0) != 0;
            if flags.has(Flags::RECLAIM) && is_to_be_written {
                return true;
            }
            let in_use = Flags::ACTIVE.with(Flags::REFERENCED).with(Flags::LOCKED);
            let is_retried = may_retry && !is_to_be_written && flags.0 & in_use.0 == 0 && descriptor.mappings() == 0;
            if is_retried {
                retried.push(frame);
                return false;
            }
            self.activate_rejected(multigen, frame, &mut owners);
            true
        });
        retried
    }

    /// Sets the flag `ACTIVE` of an isolated page, so that the page does not go back to the oldest generation. With
    /// [`Rejected::LikeActive`], only sets it if the page would otherwise go there.
    fn activate_rejected(&self, multigen: &Multigen, frame: FrameNumber, owners: &mut Owners<M>) {
        let descriptor = &self.frames[frame];
        let flags = descriptor.flags();
        let choices = &multigen.choices;
        let becomes_active = match choices.rejected {
            Rejected::Active => true,
            Rejected::LikeActive | Rejected::SecondOldest => {
                let seqs = self.lruvec_of_page(frame).generational().generations.seqs();
                let place = place(choices.placement, choices.rejected, flags, Coming::Rejected, &seqs);
                place.seq == seqs.min[is_of(flags) as usize]
            }
        };
        if becomes_active {
            let _ = descriptor.update(|flags| Some(uses::cleared(choices.use_marks, flags).with(Flags::ACTIVE)));
            self.page_cache().close_page(frame, owners);
        }
    }
}

/// Returns whether a scan of up to `budget` pages found nothing to do, so that another scan of the same pages would not
/// either. `scanned` pages were examined, and `is_empty` is `true` if none of them was isolated.
pub(super) fn is_in_vain(rule: TypeRule, is_empty: bool, scanned: u64, budget: u64) -> bool {
    match rule {
        TypeRule::AllTiersStrictly => scanned == 0,
        TypeRule::OlderThenTierZero | TypeRule::OlderAnonThenTierZero | TypeRule::AllTiers => {
            is_empty && scanned < budget.min(LOOKED_AT_MAX)
        }
    }
}

/// Returns the slot of the next younger generation than the one in `slot`.
pub(super) const fn next_slot(slot: usize) -> usize {
    (slot + 1) % GENERATIONS
}

/// Returns the kind of a page at the tail of a list. The kind decides where eviction puts the page. `flags` are the
/// page's flags, and `slot` is the slot of the list's generation. `is_eligible` is `true` if the request for which pages
/// are evicted can use the page's zone.
pub(super) const fn sorted(
    flags: Flags,
    slot: usize,
    is_above_limit: bool,
    is_eligible: bool,
    saturated: Saturated,
    dirty: DirtyAtTail,
) -> Sorted {
    if slot_in(flags) != slot {
        return Sorted::Elsewhere;
    }
    match saturated {
        Saturated::Lifted if uses::is_saturated(flags) => return Sorted::Lifted,
        Saturated::Protected if uses::is_full(flags) => return Sorted::Protected,
        Saturated::LikeOthers | Saturated::Protected | Saturated::Lifted => {}
    }
    if is_above_limit {
        return Sorted::Protected;
    }
    if !is_eligible {
        return Sorted::Ineligible;
    }
    let is_to_be_written = flags.has(Flags::WRITEBACK) || flags.has(Flags::DIRTY) && !flags.has(Flags::SWAPBACKED);
    match dirty {
        DirtyAtTail::MovedWithLocked | DirtyAtTail::Moved if is_to_be_written => Sorted::ToWrite,
        DirtyAtTail::MovedWithLocked if flags.has(Flags::LOCKED) => Sorted::Locked,
        DirtyAtTail::MovedWithLocked | DirtyAtTail::Moved | DirtyAtTail::Isolated => Sorted::Old,
    }
}

#[cfg(test)]
mod tests {
    use super::super::choices::UseMarks;
    use super::*;

    #[test]
    fn a_page_at_the_tail_is_sorted_by_the_first_rule_that_fits() {
        let full = uses::used;
        let marks = UseMarks::WorkingsetSecond;
        let saturated_page = (0..5).fold(with_slot(Flags::LRU, 1), |flags, _| full(marks, flags));
        let at = |flags, above, saturated, dirty| sorted(flags, 1, above, true, saturated, dirty);
        let (others, lifted, moved) = (Saturated::LikeOthers, Saturated::Lifted, DirtyAtTail::Moved);
        let page = with_slot(Flags::LRU, 1);
        assert_eq!(at(with_slot(page, 2), true, others, moved), Sorted::Elsewhere);
        assert_eq!(at(saturated_page, false, lifted, moved), Sorted::Lifted);
        assert_eq!(at(saturated_page, false, Saturated::Protected, moved), Sorted::Protected);
        assert_eq!(at(saturated_page, false, others, moved), Sorted::Old);
        assert_eq!(at(page, true, lifted, moved), Sorted::Protected);
        let in_other_zone = |flags, above| sorted(flags, 1, above, false, others, moved);
        assert_eq!(in_other_zone(page.with(Flags::DIRTY), false), Sorted::Ineligible);
        assert_eq!(in_other_zone(page, true), Sorted::Protected);
        assert_eq!(in_other_zone(with_slot(page, 2), true), Sorted::Elsewhere);
        for dirty in [page.with(Flags::DIRTY), page.with(Flags::WRITEBACK)] {
            assert_eq!(at(dirty, false, lifted, moved), Sorted::ToWrite);
            assert_eq!(at(dirty, false, lifted, DirtyAtTail::Isolated), Sorted::Old);
        }
        assert_eq!(at(page.with(Flags::DIRTY).with(Flags::SWAPBACKED), false, lifted, moved), Sorted::Old);
        let locked = page.with(Flags::LOCKED);
        assert_eq!(at(locked, false, lifted, DirtyAtTail::MovedWithLocked), Sorted::Locked);
        assert_eq!(at(locked, false, lifted, moved), Sorted::Old);
    }
}
