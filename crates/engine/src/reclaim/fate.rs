//! The fate of a page: the next step of reclaim, chosen by the state of the page. Pure functions.
//!
//! [`decide_fate`] is called again after each step that it names, with the new state, until it names an end.
//! [`super::shrink_pages`] carries out the steps and the end. Description: mechanisms/reclaim, 13, rows "≥36".

use super::ScanControl;
use super::choices::WritebackMet;
use crate::lru::Verdict;
use machine::note::Met;

/// The facts by which reclaim decides on a page: the page's state, and the steps that reclaim has already taken with
/// it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeenPage {
    /// `true` if the page belongs to a file, not to swap.
    pub is_file: bool,
    /// `true` if a write of the page has failed.
    pub write_failed: bool,
    /// `true` if the page is being written.
    pub under_writeback: bool,
    /// `true` if the page is marked to be reclaimed when its writeback ends.
    pub is_marked: bool,
    /// `true` if the page is under writeback, and its zone is marked as full of pages under writeback.
    pub zone_is_full: bool,
    /// `true` if a page table maps the page.
    pub is_mapped: bool,
    /// `true` if the page is in the swap cache, and so has a swap slot.
    pub in_swap_cache: bool,
    /// `true` if the page is a large folio, such as a huge page.
    pub is_compound: bool,
    /// `true` if the page is a large folio, and at least one of its pages can get a swap slot.
    pub has_swap_room: bool,
    /// `true` if the page is a large folio that is to go to swap as a whole.
    pub goes_whole: bool,
    /// `true` if the page is dirty.
    pub is_dirty: bool,
    /// `true` if the page is dirty, and the reclaimer may write dirty file pages, because the condition of the choice
    /// `reclaim.pageout_trigger` is met.
    pub may_write_file: bool,
    /// `true` if the page was counted as scanned.
    pub is_counted: bool,
    /// The policy's verdict, once the policy was asked.
    pub verdict: Option<Verdict>,
    /// `true` if reclaim has already tried to unmap the page. The page may still be mapped.
    pub was_unmapped: bool,
}

/// The rights of a scan: the operations that the scan may apply to pages, and the kind of reclaim that scans. The fate
/// of each scanned page depends on these rights.
#[derive(Clone, Copy, Debug)]
pub struct ScanRights {
    /// `true` if mapped pages may be taken.
    pub may_unmap: bool,
    /// `true` if anonymous pages may go to swap.
    pub may_swap: bool,
    /// `true` if dirty pages may be written.
    pub may_write: bool,
    /// `true` if the caller may do I/O.
    pub io: bool,
    /// `true` if the caller may enter the file system.
    pub fs: bool,
    /// `true` if the scan is kswapd's.
    pub is_kswapd: bool,
    /// `true` if the scan is for a memory cgroup that is at its limit.
    pub is_cgroup: bool,
    /// `true` if lumpy reclaim wants to free an aligned block as a whole, and so the scan waits for the writeback of a
    /// page in the block.
    pub waits_in_block: bool,
    /// The value of the choice `reclaim.writeback_met`.
    pub writeback_met: WritebackMet,
}

impl ScanRights {
    /// Returns the rights of the scans in a reclaim. `control` describes the reclaim, and `writeback_met` is the value
    /// of the choice `reclaim.writeback_met`.
    pub(super) const fn of(control: &ScanControl, writeback_met: WritebackMet) -> Self {
        Self {
            may_unmap: control.may_unmap,
            may_swap: control.may_swap,
            may_write: control.may_write,
            io: control.gfp.io,
            fs: control.gfp.fs,
            is_kswapd: control.is_kswapd,
            is_cgroup: control.is_cgroup,
            waits_in_block: control.waits_for_writeback && control.takes_blocks,
            writeback_met,
        }
    }
}

/// The fate of a page: the next step that reclaim takes with the page. Unless it is the last step, the fate is decided
/// again afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The next step is to count the page as scanned.
    Count,
    /// The next step is to wait until the page is written.
    WaitForWrite,
    /// The next step is to ask the policy for a verdict.
    Judge,
    /// The next step is to split the large folio into single pages.
    Split,
    /// The next step is to give the page a place in swap.
    AddToSwap,
    /// The next step is to unmap the page.
    Unmap,
    /// The next step is to write the page. It is the last step, unless the page is clean and locked afterwards.
    Pageout,
    /// The page is under writeback. The last step is the one that the [`Writeback`] states.
    Unwritten(Writeback),
    /// The last step is to mark the page, so that it is freed as soon as the flusher has written it.
    LeaveToFlusher,
    /// The last step is to put the page back on its list.
    Keep(Why),
    /// The last step is to put the page on the active list.
    Activate(Why),
    /// The last step is to take the page from its owner and free it.
    Remove,
}

/// The reason why a page stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// An earlier write of the page has failed, and nothing shows when a write will succeed.
    WriteFailed,
    /// A page table maps the page.
    Mapped,
    /// The page was used.
    Used,
    /// The page cannot go to swap.
    NotSwappable,
    /// The page is dirty.
    Dirty,
    /// The page has another reference, or has lost its owner. The holder of the last reference frees the page.
    Held,
}

impl Why {
    /// Adds `pages` to the count in `met` of pages that stay for this reason.
    pub(super) const fn count(self, pages: u64, met: &mut Met) {
        let count = match self {
            Self::WriteFailed => &mut met.write_failed,
            Self::Mapped => &mut met.mapped,
            Self::Used => &mut met.used,
            Self::NotSwappable => &mut met.not_swappable,
            Self::Dirty => &mut met.dirty,
            Self::Held => &mut met.held,
        };
        *count += pages;
    }
}

/// Decides the next step of reclaim for a locked page. After the last step, the page is freed, or stays in memory.
#[must_use]
pub fn decide_fate(page: &SeenPage, scan: &ScanRights) -> Fate {
    if page.write_failed && !page.under_writeback {
        // On the active list, scans do not meet the page again and again, and it is not in the counts by which
        // reclaimers wait for writes.
        return Fate::Activate(Why::WriteFailed);
    }
    if !page.is_counted {
        return if page.is_mapped && !scan.may_unmap { Fate::Keep(Why::Mapped) } else { Fate::Count };
    }
    let may_enter_fs = scan.fs || page.in_swap_cache && scan.io;
    if page.under_writeback {
        if scan.waits_in_block && may_enter_fs {
            return Fate::WaitForWrite;
        }
        let by = match scan.is_kswapd {
            true => MetBy::Kswapd,
            false if scan.is_cgroup && may_enter_fs => MetBy::TaskAtLimit,
            false => MetBy::Task,
        };
        return Fate::Unwritten(check_writeback(scan.writeback_met, by, page.is_marked, page.zone_is_full));
    }
    let verdict = match page.verdict {
        None => return Fate::Judge,
        Some(Verdict::Activate) => return Fate::Activate(Why::Used),
        Some(Verdict::Keep) => return Fate::Keep(Why::Used),
        Some(verdict @ (Verdict::Reclaim | Verdict::ReclaimClean)) => verdict,
    };
    if !page.is_file && !page.in_swap_cache {
        return match (scan.io && scan.may_swap, page.is_compound) {
            (false, _) => Fate::Keep(Why::NotSwappable),
            (true, true) if !page.has_swap_room => Fate::Activate(Why::NotSwappable),
            (true, true) if page.goes_whole => Fate::AddToSwap,
            (true, true) => Fate::Split,
            (true, false) => Fate::AddToSwap,
        };
    }
    if page.is_mapped {
        return if page.was_unmapped { Fate::Keep(Why::Mapped) } else { Fate::Unmap };
    }
    if !page.is_dirty {
        return Fate::Remove;
    }
    match check_dirty(DirtyPage { is_file: page.is_file, may_write_file: page.may_write_file, verdict, may_enter_fs }) {
        Dirty::MarkForReclaim => Fate::LeaveToFlusher,
        Dirty::Pageout if scan.may_write => Fate::Pageout,
        Dirty::Pageout | Dirty::Keep => Fate::Keep(Why::Dirty),
    }
}

/// The decision on a page under writeback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writeback {
    /// The page stays. It is marked, so that it is the next to be freed when its write ends.
    Mark,
    /// The page stays, and reclaim does not mark it.
    Keep,
    /// The page stays. Kswapd has met it under writeback before, in a zone full of pages under writeback. This shows
    /// that kswapd scans faster than the disk writes.
    MetAgain,
    /// Reclaim waits until the page is written, and examines it again.
    Wait,
}

/// The kind of reclaimer that comes upon a page under writeback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetBy {
    /// Kswapd meets the page.
    Kswapd,
    /// A task that reclaims meets the page.
    Task,
    /// A task whose memory cgroup is at its limit meets the page. The task may wait for the write of the page.
    TaskAtLimit,
}

/// Decides what reclaim does with a page under writeback.
#[must_use]
pub fn check_writeback(met: WritebackMet, by: MetBy, is_marked: bool, zone_is_full: bool) -> Writeback {
    match (met, by) {
        (WritebackMet::Keep, _) => Writeback::Keep,
        (WritebackMet::Mark | WritebackMet::CountImmediate, MetBy::TaskAtLimit) if is_marked => Writeback::Wait,
        (WritebackMet::CountImmediate, MetBy::Kswapd) if is_marked && zone_is_full => Writeback::MetAgain,
        (WritebackMet::Mark | WritebackMet::CountImmediate, _) => Writeback::Mark,
    }
}

/// The decision on a dirty page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dirty {
    /// The flusher writes the page, which is freed as soon as it is written.
    MarkForReclaim,
    /// The page stays, and reclaim does not write it.
    Keep,
    /// Reclaim writes the page now.
    Pageout,
}

/// The facts about a dirty page and its reclaimer.
#[derive(Clone, Copy, Debug)]
pub struct DirtyPage {
    /// `true` if the page belongs to a file, and not to swap.
    pub is_file: bool,
    /// `true` if the reclaimer may write file pages, because the condition of the choice `reclaim.pageout_trigger` is
    /// met.
    pub may_write_file: bool,
    /// The verdict on the page's recent use.
    pub verdict: Verdict,
    /// `true` if the caller may do what the write needs: enter the file system for a file, or do I/O for swap.
    pub may_enter_fs: bool,
}

/// Decides what reclaim does with a dirty page.
#[must_use]
pub fn check_dirty(page: DirtyPage) -> Dirty {
    if page.is_file && !page.may_write_file {
        Dirty::MarkForReclaim
    } else if page.verdict == Verdict::ReclaimClean || !page.may_enter_fs {
        Dirty::Keep
    } else {
        Dirty::Pageout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECT: ScanRights = ScanRights {
        may_unmap: true,
        may_swap: true,
        may_write: true,
        io: true,
        fs: true,
        is_kswapd: false,
        is_cgroup: false,
        waits_in_block: false,
        writeback_met: WritebackMet::Mark,
    };

    const NO_IO: ScanRights = ScanRights { io: false, fs: false, ..DIRECT };

    /// A file page for which reclaim has not yet taken any step.
    const FILE: SeenPage = SeenPage {
        is_file: true,
        write_failed: false,
        under_writeback: false,
        is_marked: false,
        zone_is_full: false,
        is_mapped: false,
        in_swap_cache: false,
        is_compound: false,
        has_swap_room: true,
        goes_whole: false,
        is_dirty: false,
        may_write_file: false,
        is_counted: false,
        verdict: None,
        was_unmapped: false,
    };

    /// A page of a file that was not used lately, so that reclaim may free it.
    const OLD: SeenPage = SeenPage { is_counted: true, verdict: Some(Verdict::Reclaim), ..FILE };
    const OLD_ANON: SeenPage = SeenPage { is_file: false, ..OLD };
    const WRITTEN: SeenPage = SeenPage { under_writeback: true, is_counted: true, ..FILE };
    const DIRTY: SeenPage = SeenPage { is_dirty: true, may_write_file: true, ..OLD };

    #[test]
    fn every_fate_follows_from_what_was_seen() {
        let table = [
            ("fresh", FILE, DIRECT, Fate::Count),
            ("fresh, mapped", SeenPage { is_mapped: true, ..FILE }, DIRECT, Fate::Count),
            (
                "mapped, and may not be unmapped",
                SeenPage { is_mapped: true, ..FILE },
                ScanRights { may_unmap: false, ..DIRECT },
                Fate::Keep(Why::Mapped),
            ),
            ("failed to be written", SeenPage { write_failed: true, ..FILE }, DIRECT, Fate::Activate(Why::WriteFailed)),
            ("failed, and is written again", SeenPage { write_failed: true, ..WRITTEN }, DIRECT, {
                Fate::Unwritten(Writeback::Mark)
            }),
            ("under writeback, in a block", WRITTEN, ScanRights { waits_in_block: true, ..DIRECT }, Fate::WaitForWrite),
            (
                "the same, whose caller must not wait",
                WRITTEN,
                ScanRights { waits_in_block: true, ..NO_IO },
                Fate::Unwritten(Writeback::Mark),
            ),
            (
                "in swap under writeback, without the file system",
                SeenPage { is_file: false, in_swap_cache: true, ..WRITTEN },
                ScanRights { waits_in_block: true, fs: false, ..DIRECT },
                Fate::WaitForWrite,
            ),
            (
                "met again at a limit",
                SeenPage { is_marked: true, ..WRITTEN },
                ScanRights { is_cgroup: true, ..DIRECT },
                Fate::Unwritten(Writeback::Wait),
            ),
            ("counted", SeenPage { verdict: None, ..OLD }, DIRECT, Fate::Judge),
            ("in use", SeenPage { verdict: Some(Verdict::Activate), ..OLD }, DIRECT, Fate::Activate(Why::Used)),
            ("used once", SeenPage { verdict: Some(Verdict::Keep), ..OLD }, DIRECT, Fate::Keep(Why::Used)),
            ("old, without swap", OLD_ANON, ScanRights { may_swap: false, ..DIRECT }, Fate::Keep(Why::NotSwappable)),
            ("old, without I/O", OLD_ANON, NO_IO, Fate::Keep(Why::NotSwappable)),
            ("old and huge", SeenPage { is_compound: true, ..OLD_ANON }, DIRECT, Fate::Split),
            (
                "old and a folio that goes whole",
                SeenPage { is_compound: true, goes_whole: true, ..OLD_ANON },
                DIRECT,
                { Fate::AddToSwap },
            ),
            (
                "old and huge, with swap full",
                SeenPage { is_compound: true, has_swap_room: false, ..OLD_ANON },
                DIRECT,
                Fate::Activate(Why::NotSwappable),
            ),
            ("old and anonymous", SeenPage { is_mapped: true, ..OLD_ANON }, DIRECT, Fate::AddToSwap),
            ("old and mapped", SeenPage { is_mapped: true, is_dirty: true, ..OLD }, DIRECT, Fate::Unmap),
            ("mapped again", SeenPage { is_mapped: true, was_unmapped: true, ..OLD }, DIRECT, Fate::Keep(Why::Mapped)),
            ("dirty", DIRTY, DIRECT, Fate::Pageout),
            ("dirty, without a trigger", SeenPage { may_write_file: false, ..DIRTY }, DIRECT, Fate::LeaveToFlusher),
            ("dirty and used", SeenPage { verdict: Some(Verdict::ReclaimClean), ..DIRTY }, DIRECT, {
                Fate::Keep(Why::Dirty)
            }),
            ("dirty, without I/O", DIRTY, NO_IO, Fate::Keep(Why::Dirty)),
            ("dirty, nothing is written", DIRTY, ScanRights { may_write: false, ..DIRECT }, Fate::Keep(Why::Dirty)),
            ("old and clean", OLD, NO_IO, Fate::Remove),
            ("old, clean and in swap", SeenPage { in_swap_cache: true, ..OLD_ANON }, NO_IO, Fate::Remove),
        ];
        for (name, page, scan, expected) in table {
            assert_eq!(decide_fate(&page, &scan), expected, "a page that is {name}");
        }
    }

    #[test]
    fn who_stays_is_counted_by_the_reason() {
        let mut met = Met::default();
        let all = [Why::WriteFailed, Why::Mapped, Why::Used, Why::NotSwappable, Why::Dirty, Why::Held];
        all.into_iter().chain([Why::Held]).for_each(|why| why.count(4, &mut met));
        let counts = [met.write_failed, met.mapped, met.used, met.not_swappable, met.dirty, met.held];
        assert_eq!(counts, [4, 4, 4, 4, 4, 8]);
    }

    #[test]
    fn kswapd_counts_a_page_met_twice_only_in_a_zone_full_of_writeback() {
        let again = |by, is_marked, full| {
            check_writeback(WritebackMet::CountImmediate, by, is_marked, full) == Writeback::MetAgain
        };
        assert!(again(MetBy::Kswapd, true, true));
        assert!(!again(MetBy::Task, true, true));
        assert!(!again(MetBy::Kswapd, false, true) && !again(MetBy::Kswapd, true, false));
        assert_eq!(check_writeback(WritebackMet::Mark, MetBy::Kswapd, true, true), Writeback::Mark);
    }

    #[test]
    fn only_a_task_at_its_limit_waits_and_only_for_a_page_that_it_meets_again() {
        for met in [WritebackMet::Mark, WritebackMet::CountImmediate] {
            assert_eq!(check_writeback(met, MetBy::TaskAtLimit, true, false), Writeback::Wait);
            assert_eq!(check_writeback(met, MetBy::TaskAtLimit, false, true), Writeback::Mark);
            assert_eq!(check_writeback(met, MetBy::Task, true, true), Writeback::Mark);
        }
        assert_eq!(check_writeback(WritebackMet::Keep, MetBy::TaskAtLimit, true, true), Writeback::Keep);
    }

    #[test]
    fn file_pages_are_left_to_the_flusher_until_kswapd_is_triggered() {
        let page = DirtyPage { is_file: true, may_write_file: false, verdict: Verdict::Reclaim, may_enter_fs: true };
        assert_eq!(check_dirty(page), Dirty::MarkForReclaim);
        assert_eq!(check_dirty(DirtyPage { may_write_file: true, ..page }), Dirty::Pageout);
        assert_eq!(check_dirty(DirtyPage { is_file: false, ..page }), Dirty::Pageout);
        assert_eq!(check_dirty(DirtyPage { is_file: false, may_enter_fs: false, ..page }), Dirty::Keep);
        let once = DirtyPage { may_write_file: true, verdict: Verdict::ReclaimClean, ..page };
        assert_eq!(check_dirty(once), Dirty::Keep);
    }
}
