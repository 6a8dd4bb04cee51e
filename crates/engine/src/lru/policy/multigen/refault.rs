//! Shadows: the token that a page leaves behind, and its use when the page comes back (mechanisms/multigen, 8.6).

use super::choices::{Choices, Faulted, RecentRefault, RefaultMarks};
use super::controller::Count;
use super::generations::{GENERATIONS, Seqs, is_of};
use super::{Multigen, uses};
use crate::Task;
use crate::lru::policy::Insert;
use crate::lru::{Family, Lru, Lruvec};
use crate::memory::{Flags, Zone};
use crate::page_cache::{ReadPattern, Shadow};
use crate::stat::ZoneEvent;
use machine::{FrameNumber, Machine};

const COUNT_BITS: u32 = 2;
const LRUVEC_SHIFT: u32 = COUNT_BITS + 1;

/// The contents of a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// The number of the oldest generation of the page's family when the page was evicted. A shadow stores only the low
    /// bits of this number.
    pub(super) seq: u64,
    pub(super) lruvec: u32,
    pub(super) is_workingset: bool,
    /// The value of the page's `USES` bits, which count uses, when the page was evicted.
    pub(super) counted: u32,
}

impl Left {
    /// Returns the tier that the page had when it was evicted: a number below `choices.tiers`.
    pub(super) const fn tier(self, choices: &Choices) -> usize {
        let tier = uses::tier_of_count(choices.use_marks, self.is_workingset, self.counted);
        if tier < choices.tiers as usize { tier } else { choices.tiers as usize - 1 }
    }

    /// Returns two flags for a recent refault of a page: whether it counts as an activation (`workingset_activate`),
    /// and whether it counts as a restoration (`workingset_restore`). `is_in_fault` is true if a page fault brought the
    /// page back.
    const fn is_activated_or_restored(self, choices: &Choices, is_in_fault: bool) -> (bool, bool) {
        let has_four_uses = self.is_workingset && self.counted + 1 >= uses::FULL;
        let tier = uses::tier_of_count(choices.use_marks, self.is_workingset, self.counted);
        match choices.refault_marks {
            RefaultMarks::TierAboveFirst => (false, tier > 0),
            RefaultMarks::FaultOrFourUses => (false, is_in_fault || has_four_uses),
            RefaultMarks::EveryRecent => (true, is_in_fault || has_four_uses),
            RefaultMarks::Workingset => (is_in_fault, self.is_workingset),
            RefaultMarks::RestoredAlone => (is_in_fault && self.is_workingset, self.is_workingset),
        }
    }

    /// Returns the flags that a refaulted page gets. `flags` are the page's flags before; `is_in_fault` is true if a
    /// page fault brought the page back.
    pub(super) const fn returned(self, choices: &Choices, is_in_fault: bool, flags: Flags) -> Flags {
        let (_, is_restored) = self.is_activated_or_restored(choices, is_in_fault);
        match choices.refault_marks {
            RefaultMarks::FaultOrFourUses | RefaultMarks::EveryRecent if is_restored => uses::full(flags),
            RefaultMarks::FaultOrFourUses | RefaultMarks::EveryRecent => flags,
            _ if self.is_workingset && is_in_fault => flags.with(Flags::WORKINGSET.with(Flags::ACTIVE)),
            _ if self.is_workingset => flags.with(Flags::WORKINGSET),
            RefaultMarks::TierAboveFirst | RefaultMarks::Workingset | RefaultMarks::RestoredAlone => {
                uses::restored(flags, self.counted)
            }
        }
    }
}

/// The layout of a shadow's bits. Some bits hold the page's uses, some the number of the lruvec, and all others the
/// number of the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    lruvec_bits: u32,
}

impl Packing {
    /// Returns the layout that shadows have if there are `lruvecs` lruvecs.
    pub(super) const fn new(lruvecs: usize) -> Self {
        Self { lruvec_bits: u32::BITS - (lruvecs as u32).saturating_sub(1).leading_zeros() }
    }

    /// Returns how many different generation numbers a shadow can hold. A shadow has a generation's number modulo this.
    const fn seqs(self) -> u64 {
        1 << (Shadow::BITS - LRUVEC_SHIFT - self.lruvec_bits)
    }

    pub(super) const fn encode(self, left: Left) -> Shadow {
        let uses = left.counted | (left.is_workingset as u32) << COUNT_BITS;
        let seq = (left.seq % self.seqs()) as u32;
        Shadow::of_bits(uses | (left.lruvec | seq << self.lruvec_bits) << LRUVEC_SHIFT)
    }

    pub(super) const fn decode(self, shadow: Shadow) -> Left {
        let bits = shadow.bits();
        let place = bits >> LRUVEC_SHIFT;
        Left {
            seq: (place >> self.lruvec_bits) as u64,
            lruvec: place & ((1 << self.lruvec_bits) - 1),
            is_workingset: bits & 1 << COUNT_BITS != 0,
            counted: bits & ((1 << COUNT_BITS) - 1),
        }
    }

    /// Returns whether the refault of a page counts as recent, by the rule `multigen.recent_refault`. `left` says when
    /// the page left memory.
    pub(super) fn is_recent(self, left: Left, choices: &Choices, seqs: &Seqs, family: Family) -> bool {
        let apart = self.seqs();
        match choices.recent_refault {
            RecentRefault::SameGeneration => seqs.min[family as usize] % apart == left.seq,
            RecentRefault::WithinGenerations => {
                let distance = (seqs.max % apart).abs_diff(left.seq);
                distance.min(apart - distance) < GENERATIONS as u64
            }
        }
    }
}

/// Returns a family's counters of refaulted, activated and restored pages.
const fn events(family: Family) -> [ZoneEvent; 3] {
    match family {
        Family::Anon => {
            [ZoneEvent::WorkingsetRefaultAnon, ZoneEvent::WorkingsetActivateAnon, ZoneEvent::WorkingsetRestoreAnon]
        }
        Family::File => {
            [ZoneEvent::WorkingsetRefaultFile, ZoneEvent::WorkingsetActivateFile, ZoneEvent::WorkingsetRestoreFile]
        }
    }
}

/// Returns whether a page comes into memory because of a fault, on the page itself or on a page near it.
const fn is_in_fault(how: Insert) -> bool {
    match how {
        Insert::Fault | Insert::SwapIn { .. } => true,
        Insert::Read { .. } | Insert::Ahead { .. } | Insert::Write | Insert::Moved => false,
    }
}

/// Returns the flag that a page gets before it joins the lists, if a page fault brought the page into memory: the
/// active flag or the referenced flag, as the choice `faulted` says.
const fn mark_of_faulted(faulted: Faulted) -> Flags {
    match faulted {
        Faulted::Active => Flags::ACTIVE,
        Faulted::UsedOnce => Flags::REFERENCED,
    }
}

impl<M: Machine> Lru<M> {
    /// Returns the shadow of an isolated page that is about to be evicted.
    pub(in crate::lru) fn shadow_of_generation(&self, multigen: &Multigen, frame: FrameNumber) -> Shadow {
        let (lruvec, flags) = (self.lruvec_of_page(frame), self.frames[frame].flags());
        let left = Left {
            seq: lruvec.generational().generations.seqs().min[is_of(flags) as usize],
            lruvec: lruvec.id.0.into(),
            is_workingset: flags.has(Flags::WORKINGSET),
            counted: uses::counted(flags),
        };
        multigen.packing.encode(left)
    }

    /// Counts evicted pages for the controller, which compares refault rates.
    pub(in crate::lru) fn note_generations_evicted(&self, multigen: &Multigen, pages: &[FrameNumber]) {
        let Choices { use_marks, tiers, .. } = multigen.choices;
        for &frame in pages {
            let flags = self.frames[frame].flags();
            let tier = uses::tier(use_marks, tiers, flags);
            let controller = &self.lruvec_of_page(frame).generational().controller;
            controller.count(Count::Evicted, is_of(flags), tier, self.frames.pages(frame));
        }
    }

    /// Marks a newly allocated page of a file before a page fault reads it in. The mark decides which generation the
    /// page joins (`multigen.faulted`). Does nothing if the task reads the mapping sequentially (`lru_gen_in_fault`).
    pub(in crate::lru) fn note_reader_in_fault(&self, multigen: &Multigen, frame: FrameNumber, reader: &Task) {
        if reader.file_fault.is_some_and(|fault| fault.pattern == ReadPattern::Normal) {
            self.frames[frame].set(mark_of_faulted(multigen.choices.faulted));
        }
    }

    /// Prepares a page to join the lists. Sets the flag of faulted pages ([`mark_of_faulted`]) if a page fault brings
    /// the page into memory. Counts a refault if the page left a shadow.
    pub(in crate::lru) fn note_coming_to_generations(
        &self,
        multigen: &Multigen,
        frame: FrameNumber,
        how: Insert,
        is_active: bool,
    ) {
        let faulted = mark_of_faulted(multigen.choices.faulted);
        if is_active {
            self.frames[frame].set(Flags::ACTIVE);
        }
        if is_in_fault(how) {
            self.frames[frame].set(faulted);
        }
        let Some(shadow) = how.shadow() else { return };
        let (zone, left) = (self.memory().zone_of(frame), multigen.packing.decode(shadow));
        let lruvec = self.lruvec_of_page(frame);
        if left.lruvec != u32::from(lruvec.id.0) {
            return;
        }
        let (family, pages) = (is_of(self.frames[frame].flags()), self.frames.pages(frame));
        let [refault, activate, restore] = events(family);
        let of = lruvec.generational();
        let choices = &multigen.choices;
        let is_recent = multigen.packing.is_recent(left, choices, &of.generations.seqs(), family);
        if is_recent || !matches!(choices.refault_marks, RefaultMarks::FaultOrFourUses) {
            self.count_in(lruvec, zone, refault, pages);
        }
        if !is_recent {
            return;
        }
        of.controller.count(Count::Refaulted, family, left.tier(choices), pages);
        let is_in_fault = self.frames[frame].is(faulted);
        let (is_activated, is_restored) = left.is_activated_or_restored(choices, is_in_fault);
        self.count_in(lruvec, zone, activate, if is_activated { pages } else { 0 });
        self.count_in(lruvec, zone, restore, if is_restored { pages } else { 0 });
        let _ = self.frames[frame].update(|flags| Some(left.returned(choices, is_in_fault, flags)));
    }

    /// Tells the controller, which compares refault rates, that pages stay in memory because of their tier.
    pub(super) fn note_protected(&self, lruvec: &Lruvec<M>, family: Family, tier: usize, pages: u64) {
        lruvec.generational().controller.count(Count::Protected, family, tier, pages);
    }

    /// Adds pages that stay in memory because of their tier to the counter of activations, if `multigen.refault_marks`
    /// says so.
    pub(super) fn count_protected(
        &self,
        multigen: &Multigen,
        lruvec: &Lruvec<M>,
        zone: &Zone<M>,
        family: Family,
        pages: u64,
    ) {
        match multigen.choices.refault_marks {
            RefaultMarks::TierAboveFirst | RefaultMarks::FaultOrFourUses => {
                self.count_in(lruvec, zone, events(family)[1], pages);
            }
            RefaultMarks::EveryRecent | RefaultMarks::Workingset | RefaultMarks::RestoredAlone => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_keeps_what_it_was_given_and_has_room_for_many_lruvecs() {
        for lruvecs in [1, 2, 3, 256, 1 << 16] {
            let packing = Packing::new(lruvecs);
            for seq in [0, 1, 77, packing.seqs() - 1] {
                for (lruvec, is_workingset, counted) in [(0, false, 0), (lruvecs - 1, true, 3), (lruvecs / 2, true, 1)]
                {
                    let left = Left { seq, lruvec: lruvec as u32, is_workingset, counted };
                    assert_eq!(packing.decode(packing.encode(left)), left, "{lruvecs}");
                }
            }
        }
        assert_eq!(Packing::new(1 << 16).seqs(), 1 << 11);
    }

    #[test]
    fn recent_is_the_same_generation_or_one_of_the_last() {
        let choices = |recent_refault| Choices { recent_refault, ..Choices::default() };
        let packing = Packing::new(4);
        for base in [4, packing.seqs() + 1] {
            let seqs = Seqs { max: base + 3, min: [base, base + 1] };
            let is_recent = |seq: u64, rule, family| {
                let left = Left { seq: seq % packing.seqs(), lruvec: 0, is_workingset: false, counted: 0 };
                packing.is_recent(left, &choices(rule), &seqs, family)
            };
            let same = RecentRefault::SameGeneration;
            assert!(is_recent(base, same, Family::Anon) && !is_recent(base, same, Family::File));
            let within = RecentRefault::WithinGenerations;
            assert!(is_recent(base, within, Family::File));
            assert!(!is_recent(base - 1, within, Family::File), "four generations ago");
        }
    }
}
