//! Choice of the generation for a page that is put on a list. *Description*: mechanisms/multigen, 2.3.

use super::choices::{Placement, Rejected};
use super::generations::{Seqs, is_of};
use crate::lru::Family;
use crate::memory::Flags;

/// The way in which a page comes to a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming {
    /// The page is new on the lists, or was taken off them by a caller that now puts it back.
    New,
    /// The page was rotated when its writeback ended. It is the next page to be evicted.
    Rotated,
    /// The page was isolated for reclaim, and stays in memory.
    Rejected,
}

/// A place on the lists of generations: a generation, and the head or the tail of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPlace {
    /// Number of the generation.
    pub seq: u64,
    /// `true` for the tail of the list, from which pages are taken.
    pub at_tail: bool,
}

/// Returns the place on the lists of generations that a page with the flags `flags` gets. `coming` says how the page
/// comes to a list. `rule` and `rejected` are choices of the kernel, and `seqs` has the numbers of the generations.
pub fn place(rule: Placement, rejected: Rejected, flags: Flags, coming: Coming, seqs: &Seqs) -> ListPlace {
    let family = is_of(flags);
    let (youngest, oldest) = (seqs.max, seqs.min[family as usize]);
    if coming == Coming::Rotated {
        return ListPlace { seq: oldest, at_tail: true };
    }
    let is_active = flags.has(Flags::ACTIVE);
    let is_workingset = flags.has(Flags::WORKINGSET);
    let is_to_be_written = flags.has(Flags::RECLAIM) && flags.0 & (Flags::DIRTY.0 | Flags::WRITEBACK.0) != 0;
    let is_second = family == Family::Anon && !flags.has(Flags::SWAPCACHE) || is_to_be_written;
    let stays_old = match rejected {
        Rejected::SecondOldest => coming == Coming::Rejected && !is_active,
        Rejected::Active | Rejected::LikeActive => false,
    };
    let seq = match rule {
        _ if stays_old => oldest + 1,
        Placement::OldestOrYoungest if is_active => youngest,
        Placement::OldestOrYoungest if is_second => oldest + 1,
        Placement::OldestOrYoungest => oldest,
        Placement::SecondOldest if is_active => youngest,
        Placement::SecondOldest if is_second => youngest - 1,
        Placement::SecondOldest if oldest + 2 < youngest => oldest + 1,
        Placement::SecondOldest => oldest,
        Placement::ByUse | Placement::ByUseAndReference => {
            let distance = if is_active && is_workingset {
                0
            } else if is_active || is_second {
                1
            } else if is_workingset {
                2
            } else {
                3
            };
            let is_nearer = match rule {
                Placement::ByUseAndReference => distance > 1 && flags.has(Flags::REFERENCED),
                Placement::ByUse | Placement::OldestOrYoungest | Placement::SecondOldest => false,
            };
            youngest.saturating_sub(distance - u64::from(is_nearer))
        }
    };
    ListPlace { seq: seq.clamp(oldest, youngest), at_tail: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQS: Seqs = Seqs { max: 13, min: [10, 10] };
    const ANON: Flags = Flags::SWAPBACKED;
    const WRITTEN: Flags = Flags::RECLAIM.with(Flags::WRITEBACK);

    fn seq(rule: Placement, flags: Flags) -> u64 {
        place(rule, Rejected::LikeActive, flags, Coming::New, &SEQS).seq
    }

    #[test]
    fn each_rule_has_its_table() {
        use Placement::{ByUse, ByUseAndReference, OldestOrYoungest, SecondOldest};
        let (active, workingset) = (Flags::ACTIVE, Flags::WORKINGSET);
        for (rule, expected) in [
            (OldestOrYoungest, [13, 13, 11, 11, 10, 10, 10]),
            (SecondOldest, [13, 13, 12, 12, 11, 11, 11]),
            (ByUse, [13, 12, 12, 12, 11, 10, 10]),
            (ByUseAndReference, [13, 12, 12, 12, 11, 11, 10]),
        ] {
            let words = [
                active.with(workingset),
                active,
                ANON,
                WRITTEN,
                workingset,
                Flags::REFERENCED,
                ANON.with(Flags::SWAPCACHE),
            ];
            assert_eq!(words.map(|flags| seq(rule, flags)), expected, "{rule:?}");
        }
    }

    #[test]
    fn with_three_generations_files_join_the_oldest() {
        let seqs = Seqs { max: 12, min: [10, 10] };
        let file = |rule| place(rule, Rejected::LikeActive, Flags::UPTODATE, Coming::New, &seqs).seq;
        assert_eq!([Placement::SecondOldest, Placement::ByUse].map(file), [10, 10]);
    }

    #[test]
    fn rotated_pages_are_next_and_rejected_ones_are_not() {
        for rule in [Placement::OldestOrYoungest, Placement::SecondOldest, Placement::ByUse] {
            let rotated = place(rule, Rejected::SecondOldest, Flags::ACTIVE, Coming::Rotated, &SEQS);
            assert_eq!(rotated, ListPlace { seq: 10, at_tail: true });
            let rejected = |flags| place(rule, Rejected::SecondOldest, flags, Coming::Rejected, &SEQS).seq;
            assert_eq!(rejected(Flags::UPTODATE), 11);
            assert!(rejected(Flags::ACTIVE) >= 12);
        }
    }
}
