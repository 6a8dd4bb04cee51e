//! Splits large folios of anonymous memory into single pages (`split_huge_page`, `split_folio`).
//!
//! A folio is one element of an LRU list, and the list's length counts all pages of the folio. A folio is split when
//! one of its pages needs separate treatment.
//!
//! * A *huge page* is mapped by one page-table entry. It is split when one of its pages is latched for a copy, or gets
//!   a swap slot. The split never fails. References of other tasks to the huge page become references to its first
//!   page. Each other page gets one reference, for the page-table entry that maps it from then on.
//! * In a smaller folio, each page is mapped by a page-table entry of its own. The folio is split before its pages go
//!   to swap, and only if no other task has a reference to the folio.
//!
//! *Locks*: `page_table`, then `lru`.

use super::Lru;
use crate::anonymous::Region;
use crate::memory::{Flags, Owner};
use crate::stat::{Event, Gauge};
use machine::{FrameNumber, Lock, Machine, Step};

/// Flags that the pages of a huge page inherit once it is split.
pub(super) const INHERITED: Flags = Flags::SWAPBACKED
    .with(Flags::UPTODATE)
    .with(Flags::ACTIVE)
    .with(Flags::REFERENCED)
    .with(Flags::USED_AGAIN)
    .with(Flags::WORKINGSET)
    .with(Flags::USES);

/// The place to which the pages behind a folio's head (its first page) go when the folio is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tails {
    /// They go on lists: to the place of the head, or, if the head is on no list, to the tail of their list.
    Listed,
    /// They are isolated like the head, and belong to the task that has isolated it.
    Isolated,
}

/// Number of references to a page that is mapped and on a list, or waits for a list.
pub(super) const MAPPED: u32 = 1;

/// Number of references to an isolated folio that is mapped page by page: one for all its mappings, one for the task
/// that isolated it.
const MAPPED_AND_ISOLATED: u32 = 2;

impl<M: Machine> Lru<M> {
    /// Splits the huge page that maps `page` of a region into single pages, each mapped by its own entry. Does nothing
    /// if no huge page maps `page`. If the huge page's first page is on no list, because it is isolated or in a batch,
    /// the other pages go to the tail of their list, so that reclaim, which took the first page, examines these pages
    /// next.
    pub fn split_huge_page(&self, region: &Region<M>, page: u32) {
        let _guard = region.page_table(page).lock();
        if let Some(head) = region.huge_page(page) {
            self.split_huge_under_lock(region, page, head, Tails::Listed);
        }
    }

    /// Splits the isolated huge page whose first frame is `head`, and which maps `page`. `tails` says what becomes of
    /// the pages behind the first. Returns `false` and changes nothing if this huge page no longer maps `page`, because
    /// another task has split or unmapped it.
    pub fn split_isolated_huge_page(&self, region: &Region<M>, page: u32, head: FrameNumber, tails: Tails) -> bool {
        let _guard = region.page_table(page).lock();
        let is_mapped = region.huge_page(page) == Some(head);
        if is_mapped {
            self.split_huge_under_lock(region, page, head, tails);
        }
        is_mapped
    }

    fn split_huge_under_lock(&self, region: &Region<M>, page: u32, head: FrameNumber, tails: Tails) {
        let pages = self.frames.pages(head) as u32;
        self.machine.spend(Step::PteSet, pages);
        let is_split = self.split(region, head, tails);
        debug_assert!(is_split, "a huge page can always be split");
        self.machine.spend(Step::LruMove, pages);
        self.stat.count(Event::ThpSplit, 1);
        region.split_huge(page);
    }

    /// Splits an isolated folio into single pages. Each page of the folio has a page-table entry of its own.
    /// `tails` says what becomes of the pages behind its head. Returns `false` and changes nothing if the folio has more
    /// references than one for each mapping and one for the caller, or if `region` no longer maps the whole folio.
    #[doc(alias = "split_folio")]
    pub fn split_mapped_folio(&self, region: &Region<M>, head: FrameNumber, tails: Tails) -> bool {
        let descriptor = &self.frames[head];
        let _guard = region.page_table(descriptor.index()).lock();
        let folio = self.frames.folio(head);
        // After a fork, some of the mappings may be in other regions.
        let is_mapped_here =
            || (descriptor.index()..).zip(folio.frames()).all(|(page, part)| region.entry(page).frame() == Some(part));
        let is_whole = folio.is_large()
            && descriptor.mappings() == folio.pages()
            && (region.fork_tree.get().is_none() || is_mapped_here());
        let is_split = is_whole && self.split(region, head, tails);
        if is_split {
            self.machine.spend(Step::LruMove, folio.pages());
        }
        is_split
    }

    fn split(&self, region: &Region<M>, head: FrameNumber, tails: Tails) -> bool {
        match tails {
            Tails::Listed => self.split_listed(region, head),
            // No list changes, and the pages of the folio count as isolated as before.
            Tails::Isolated => {
                debug_assert!(!self.frames[head].is(Flags::LRU), "{head} is not isolated");
                self.split_frames(region, head, INHERITED, MAPPED_AND_ISOLATED, |_| true)
            }
        }
    }

    /// Splits a folio into single pages. Each page except the head gets `references` references; then `list` is called
    /// for it, which puts the page on a list if it is to be on one. `list` returns `true` if the counters of lists need
    /// not change, because they counted the page as a part of the folio. The caller has locked the lists if pages go on
    /// lists.
    ///
    /// A huge page is always split. Another folio is not split if it has references beside those of its mappings and of
    /// the caller; the function then returns `false` and changes nothing.
    pub(super) fn split_frames(
        &self,
        region: &Region<M>,
        head: FrameNumber,
        inherited: Flags,
        references: u32,
        mut list: impl FnMut(FrameNumber) -> bool,
    ) -> bool {
        let (zone, descriptor) = (self.memory().zone_of(head), &self.frames[head]);
        let (pages, start) = (self.frames.pages(head) as u32, descriptor.index());
        let inherited = Flags(descriptor.flags().0 & inherited.0);
        let is_huge = region.huge_page(start).is_some();
        // A task that finds the folio frozen tries again in a loop that takes no simulated time. So no time is spent
        // until the folio is thawed.
        if !is_huge && !descriptor.freeze(MAPPED_AND_ISOLATED) {
            return false;
        }
        self.frames.unmake_folio(head);
        match is_huge {
            true => zone.gauges.add(Gauge::NrAnonTransparentHugepages, -1),
            false => self.frames.split_mappings(head, pages),
        }
        let mut added = 0;
        // From the last page to the first, because each page goes right behind the head: the list then has them in
        // order.
        for n in (1..pages).rev() {
            let tail = FrameNumber(head.0 + n);
            let part = &self.frames[tail];
            part.set_free(inherited);
            part.set_owner(Owner::Region(region.id), start + n);
            if is_huge {
                part.map();
            }
            part.set_references(references);
            added += i64::from(!list(tail));
        }
        if added > 0 {
            self.count_listed(self.lruvec_of_page(head), zone, self.kind_of(inherited), added);
        }
        if !is_huge {
            descriptor.set_references(MAPPED_AND_ISOLATED);
        }
        true
    }
}
