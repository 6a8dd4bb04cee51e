//! Judgement of a page by its recent use (`page_check_references`; mechanisms/reclaim, 13.4).

use crate::anonymous::Owners;
use crate::lru::Lru;
use crate::lru::choices::{MappedTwice, ReferenceRule};
use crate::lru::policy::Verdict;
use crate::memory::Flags;
use machine::{FrameNumber, Machine};

/// Judges a page by the number of mappings that touched it, and by whether it was marked as referenced. Two touches
/// make the page active, and so does one touch of a marked page. With `once_is_enough`, any touch does; without, one
/// touch of an unmarked page keeps it. A page that was not touched is reclaimed. But a marked file page is reclaimed
/// only if it is clean, and left to the flusher if it is dirty. The flusher never writes anonymous pages, so these are
/// reclaimed even if they are marked and dirty.
#[must_use]
#[doc(alias = "page_check_references")]
pub fn check_references(mappings_touched: u32, was_referenced: bool, once_is_enough: bool, is_file: bool) -> Verdict {
    match (mappings_touched, was_referenced) {
        (2.., _) | (1, true) => Verdict::Activate,
        (1, false) if once_is_enough => Verdict::Activate,
        (1, false) => Verdict::Keep,
        (0, true) if is_file => Verdict::ReclaimClean,
        (0, _) => Verdict::Reclaim,
    }
}

/// Judges a page by the rule `ReferenceRule::AnyUse`, which does not count uses. An unused page is reclaimed. A used
/// page becomes active if `is_in_use` is `true`: the page or its file is mapped, or the page is in the swap cache. Any
/// other used page is reclaimed only if it is clean.
#[must_use]
pub fn check_any_use(was_used: bool, is_in_use: bool) -> Verdict {
    match (was_used, is_in_use) {
        (true, true) => Verdict::Activate,
        (true, false) => Verdict::ReclaimClean,
        (false, _) => Verdict::Reclaim,
    }
}

impl<M: Machine> Lru<M> {
    /// Judges an isolated page by its uses since the last judgement, and forgets these uses. With `is_wanted`, reclaim
    /// wants the whole aligned block of the page and takes the page in any case, so the page is not marked as
    /// referenced.
    pub(in crate::lru) fn judge_classic(&self, frame: FrameNumber, is_wanted: bool, owners: &mut Owners<M>) -> Verdict {
        let descriptor = &self.frames[frame];
        let flags = descriptor.flags();
        let is_file = !flags.has(Flags::SWAPBACKED);
        let once_is_enough = match self.choices.reference_rule {
            ReferenceRule::AnyUse | ReferenceRule::ByFamily => !is_file,
            ReferenceRule::SecondUse => false,
        };
        let used = self.anonymous().page_referenced(frame, owners);
        // Text of a program that was used counts as touched by several mappings.
        let mut touched = if used.is_executable { used.touched.max(2) } else { used.touched };
        // A repeated use through the file (`USED_AGAIN`) counts as a use through one mapping.
        touched += u32::from(descriptor.test_clear(Flags::USED_AGAIN));
        let was_referenced = descriptor.test_clear(Flags::REFERENCED);
        self.page_cache().close_page(frame, owners);
        touched = match self.choices.mapped_twice {
            MappedTwice::Keep if !once_is_enough => touched.min(1),
            MappedTwice::Keep | MappedTwice::Activate => touched,
        };
        let by_family = self.choices.reference_rule.is_by_family();
        // With `Activation::AtScan`, `REFERENCED` would keep an active page active for one more round. So only pages
        // that stay inactive get it.
        let gets_mark = !self.choices.activation.is_at_scan() || touched == 1 && !was_referenced;
        if by_family && touched > 0 && !once_is_enough && gets_mark && !is_wanted {
            descriptor.set(Flags::REFERENCED);
        }
        if by_family {
            check_references(touched, was_referenced, once_is_enough, is_file)
        } else {
            let is_mapped = descriptor.mappings() > 0 || flags.has(Flags::SWAPCACHE);
            let is_in_use = is_mapped || owners.file_of(self, frame).is_some_and(|file| file.is_mapped());
            check_any_use(touched > 0 || was_referenced, is_in_use)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges pages that differ in three properties: the number of mappings that touched the page, its referenced mark,
    /// and whether it is anonymous. Each verdict must be the one that mechanisms/reclaim, 13.4, row "≥36r" states.
    #[test]
    fn references_decide_by_mappings_flag_and_family() {
        use Verdict::{Activate, Keep, Reclaim, ReclaimClean};
        for (touched, flag, anon, expected) in [
            (0, false, true, Reclaim),
            (0, true, true, Reclaim),
            (1, false, true, Activate),
            (0, false, false, Reclaim),
            (0, true, false, ReclaimClean),
            (1, false, false, Keep),
            (1, true, false, Activate),
            (2, false, false, Activate),
        ] {
            assert_eq!(check_references(touched, flag, anon, !anon), expected, "{touched} {flag} {anon}");
        }
    }

    /// Judges anonymous pages by the rule under which one touch does not make a page active. A page that no mapping
    /// touched is reclaimed although it has the referenced mark; the verdict `ReclaimClean`, which leaves dirty pages
    /// to the flusher, is for file pages only. A touched page is kept, or becomes active if it has the mark.
    #[test]
    fn a_marked_page_of_a_program_is_swapped_out() {
        assert_eq!(check_references(0, true, false, false), Verdict::Reclaim);
        assert_eq!(check_references(1, false, false, false), Verdict::Keep);
        assert_eq!(check_references(1, true, false, false), Verdict::Activate);
    }
}
