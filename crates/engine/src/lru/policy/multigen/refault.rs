//! Shadows: the token that a page leaves, and its use when the page comes back (mechanisms/multigen, 8.6).

use super::choices::{Choices, RecentRefault};
use super::controller::Count;
use super::generations::{Seqs, is_of};
use super::{Multigen, uses};
use crate::Task;
use crate::lru::policy::Insert;
use crate::lru::{Family, Lru, Lruvec};
use crate::memory::Flags;
use crate::page_cache::{ReadPattern, Shadow};
use crate::stat::ZoneEvent;
use machine::{FrameNumber, Machine};

const COUNT_BITS: u32 = 2;
const LRUVEC_SHIFT: u32 = COUNT_BITS + 1;
const SEQ_SHIFT: u32 = LRUVEC_SHIFT + u8::BITS;
const SEQ_BITS: u32 = Shadow::BITS - SEQ_SHIFT;
/// Generations that a shadow tells apart.
const SEQS: u64 = 1 << SEQ_BITS;

/// The contents of a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    /// The oldest generation of the page's type when it left, as far as there is room for it.
    seq: u64,
    lruvec: u8,
    is_workingset: bool,
    /// The number in `USES`.
    counted: u32,
}

impl Left {
    const fn encode(self) -> Shadow {
        let uses = self.counted | (self.is_workingset as u32) << COUNT_BITS;
        Shadow::of_bits(uses | (self.lruvec as u32) << LRUVEC_SHIFT | ((self.seq % SEQS) as u32) << SEQ_SHIFT)
    }

    const fn decode(shadow: Shadow) -> Self {
        let bits = shadow.bits();
        Self {
            seq: (bits >> SEQ_SHIFT) as u64,
            lruvec: (bits >> LRUVEC_SHIFT) as u8,
            is_workingset: bits & 1 << COUNT_BITS != 0,
            counted: bits & ((1 << COUNT_BITS) - 1),
        }
    }

    /// Returns whether the page left so lately that its return has an effect.
    fn is_recent(self, choices: &Choices, seqs: &Seqs, family: Family) -> bool {
        match choices.recent_refault {
            RecentRefault::SameGeneration => seqs.min[family as usize] % SEQS == self.seq,
            RecentRefault::WithinGenerations => {
                let apart = (seqs.max % SEQS).abs_diff(self.seq);
                apart.min(SEQS - apart) < u64::from(choices.generations)
            }
        }
    }
}

/// Events of a type: refault, activation, restoration.
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

/// Returns whether a page comes in a fault, on itself or on one beside it.
const fn is_in_fault(how: Insert) -> bool {
    match how {
        Insert::Fault | Insert::SwapIn { .. } => true,
        Insert::Read { .. } | Insert::Ahead { .. } | Insert::Write => false,
    }
}

impl<M: Machine> Lru<M> {
    /// Returns the shadow of an isolated page that is about to go.
    pub(in crate::lru) fn shadow_of_generation(&self, frame: FrameNumber) -> Shadow {
        let (zone, flags) = (self.zone_of(frame), self.frames[frame].flags());
        let left = Left {
            seq: self.lruvec_of(zone).generational().generations.seqs().min[is_of(flags) as usize],
            lruvec: zone.lruvec.0,
            is_workingset: flags.has(Flags::WORKINGSET),
            counted: uses::counted(flags),
        };
        left.encode()
    }

    /// Pages are gone for good.
    pub(in crate::lru) fn note_generations_evicted(&self, multigen: &Multigen, pages: &[FrameNumber]) {
        let Choices { use_marks, tiers, .. } = multigen.choices;
        for &frame in pages {
            let flags = self.frames[frame].flags();
            let tier = uses::tier(use_marks, tiers, flags);
            self.lruvec_of_page(frame).generational().controller.count(Count::Evicted, is_of(flags), tier, 1);
        }
    }

    /// A fresh page of a file is about to be read. For a fault in a mapping that the task does not go through from one end to the
    /// other it will be as one in use (`lru_gen_in_fault`).
    pub(in crate::lru) fn note_reader_in_fault(&self, frame: FrameNumber, reader: &Task) {
        if reader.file_fault.is_some_and(|fault| fault.pattern == ReadPattern::Normal) {
            self.frames[frame].set(Flags::ACTIVE);
        }
    }

    /// A page comes to memory that is on no list yet: does it come in a fault, has it been here before, and with what?
    pub(in crate::lru) fn note_coming_to_generations(
        &self,
        multigen: &Multigen,
        frame: FrameNumber,
        how: Insert,
        is_active: bool,
    ) {
        if is_active || is_in_fault(how) {
            self.frames[frame].set(Flags::ACTIVE);
        }
        let Some(shadow) = how.shadow() else { return };
        let (zone, left) = (self.zone_of(frame), Left::decode(shadow));
        if left.lruvec != zone.lruvec.0 {
            return;
        }
        let family = is_of(self.frames[frame].flags());
        let [refault, activate, restore] = events(family);
        zone.stat.count(refault, 1);
        let of = self.lruvec_of(zone).generational();
        let choices = &multigen.choices;
        if !left.is_recent(choices, &of.generations.seqs(), family) {
            return;
        }
        let tier = uses::tier_of_count(choices.use_marks, left.is_workingset, left.counted);
        of.controller.count(Count::Refaulted, family, tier.min(choices.tiers as usize - 1), 1);
        zone.stat.count(activate, self.frames[frame].is(Flags::ACTIVE).into());
        zone.stat.count(restore, left.is_workingset.into());
        let known = |flags: Flags| {
            let marked = if left.is_workingset { flags.with(Flags::WORKINGSET) } else { flags };
            Some(uses::restored(marked, if left.is_workingset { 0 } else { left.counted }))
        };
        let _ = self.frames[frame].update(known);
    }

    /// Counts pages that stay by their tier.
    pub(super) fn note_protected(&self, lruvec: &Lruvec<M>, family: Family, tier: usize, pages: u64) {
        lruvec.generational().controller.count(Count::Protected, family, tier, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_keeps_what_it_was_given() {
        for seq in [0, 1, 77, SEQS - 1] {
            for (lruvec, is_workingset, counted) in [(0, false, 0), (255, true, 3), (7, true, 1)] {
                let left = Left { seq, lruvec, is_workingset, counted };
                assert_eq!(Left::decode(left.encode()), left);
            }
        }
    }

    #[test]
    fn recent_is_the_same_generation_or_one_of_the_last() {
        let choices = |recent_refault| Choices { recent_refault, ..Choices::default() };
        for base in [4, SEQS + 1] {
            let seqs = Seqs { max: base + 3, min: [base, base + 1] };
            let left = |seq: u64| Left { seq: seq % SEQS, lruvec: 0, is_workingset: false, counted: 0 };
            let same = choices(RecentRefault::SameGeneration);
            assert!(
                left(base).is_recent(&same, &seqs, Family::Anon) && !left(base).is_recent(&same, &seqs, Family::File)
            );
            let within = choices(RecentRefault::WithinGenerations);
            assert!(left(base).is_recent(&within, &seqs, Family::File));
            assert!(!left(base - 1).is_recent(&within, &seqs, Family::File), "four generations ago");
        }
    }
}
