//! Walks of page tables: used pages become young before the next generation begins (mechanisms/multigen, 5.2).
//!
//! Each table has a bit that says whether it was touched since the last walk, and a walk skips untouched tables. A walk
//! also skips regions that were not touched. A walk promotes a page by changing its flags; the page stays on its list.
//! The sizes of the generations are changed later, for many pages under one hold of the lock.

use super::choices::{Promotion, Walk};
use super::evict::{Evictable, LOOKED_AT_MAX};
use super::generations::{GENERATIONS, ZONES, is_of, slot_in, slot_of, with_slot};
use super::{Multigen, uses};
use crate::anonymous::Region;
use crate::anonymous::region::ENTRIES;
use crate::lru::{Family, Lru, Lruvec};
use crate::memory::{Flags, ZoneKind};
use crate::page_cache::ReadPattern;
use machine::{FrameNumber, Func, Lock, Machine, Step};
use std::ops::Range;

/// Number of page-table entries in a cache line. The next walk examines a page table again if at least one in this many
/// of its entries had its accessed bit set.
const ENTRIES_PER_LINE: u32 = 8;

/// Changes of the sizes of generations, in pages, that a walk has made but not yet added to the counters of the lruvec.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pages: [[[i64; ZONES]; 2]; GENERATIONS],
    changes: u64,
    /// The pages that are to be activated, each with a reference; `None` if pages are promoted at once.
    pub(super) to_activate: Option<Vec<FrameNumber>>,
}

/// Counts of the page-table entries that were examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenEntries {
    /// Number of examined entries, whether or not they map a page.
    entries: u32,
    young: u32,
    /// Number of entries whose accessed bit was set and whose page is on the lruvec of another group.
    of_other_groups: u32,
}

impl SeenEntries {
    /// Returns whether the next walk is to examine the same page table again: if at least one in 8 of the examined
    /// entries had its accessed bit set.
    pub(super) const fn is_dense(self) -> bool {
        self.young > 0 && self.young * ENTRIES_PER_LINE >= self.entries
    }
}

/// A search for used pages in page tables, which decides what becomes of the marks of use that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// A walk before a generation begins. Clears all accessed bits that it finds, and the uses of all their pages.
    Walk,
    /// A look-around in a window (`multigen.look_around = "window"`). Clears all accessed bits that it finds, and the
    /// uses of the pages that it promotes.
    Window,
    /// As `Window`, but pages that are in the youngest generation already keep their uses (`window-gathered`).
    WindowGathered,
    /// A look-around that clears only the accessed bits of pages on an LRU list (`window-of-listed`).
    WindowOfListed,
    /// A look-around in a whole table, which clears no accessed bit (`whole-table`).
    WholeTable,
}

impl<M: Machine> Lru<M> {
    /// Walks the page tables of regions in the current round, until each region was taken by this task or another one.
    /// Examines only tables that were touched since the last walk. With `is_forced`, also examines touched tables that
    /// the filter would leave out.
    pub(super) fn walk_regions(&self, multigen: &Multigen, lruvec: &Lruvec<M>, evictable: Evictable, is_forced: bool) {
        let of = lruvec.generational();
        let is_filtered = match multigen.choices.walk {
            Walk::Never | Walk::TouchedTables => false,
            Walk::Filtered => true,
        };
        let _span = self.machine.span(Func::PageReferenced);
        let seq = of.generations.seqs().max;
        let mut pending = Pending::default();
        while let Some(region) = of.rounds.next() {
            if !is_walked(&region, evictable) || !region.take_touched(lruvec.id) {
                continue;
            }
            for part in region.parts_with_table(0) {
                let part_start = part.start;
                let table = table_of(&region, part.start);
                // The filter is about tables of small pages. A huge page has a single accessed bit, which is in the
                // table above.
                let is_huge = region.huge_page(part.start).is_some();
                let obeys_filter = is_filtered && !is_forced && !is_huge;
                // The table's bit is cleared before the walk, so that a later use sets it again.
                if obeys_filter && !of.filters.has(seq, table) || !region.take_table_touched(part.start) {
                    continue;
                }
                // Kernels with a filter skip a table whose lock another task holds. The older kernel, without a filter,
                // waits for the lock.
                let guard = match is_filtered {
                    true => region.page_table(part.start).try_lock(),
                    false => Some(region.page_table(part.start).lock()),
                };
                let Some(_guard) = guard else {
                    region.note_table_touched(part.start);
                    continue;
                };
                let seen = self.promote_used(multigen, lruvec, &region, part, Search::Walk, &mut pending);
                if seen.of_other_groups > 0 {
                    // The walks of those groups must find the table, too.
                    region.note_table_touched(part_start);
                }
                if seen.is_dense() && !is_huge {
                    of.filters.insert(seq + 1, table);
                }
                if pending.changes >= LOOKED_AT_MAX {
                    self.count_pending(lruvec, &mut pending);
                }
            }
            self.machine.cond_resched();
        }
        self.count_pending(lruvec, &mut pending);
    }

    /// Examines the page-table entries of `pages`, a range of the region. Promotes the pages of the lruvec whose
    /// entries have the accessed bit set; with [`Search::WindowOfListed`], only those that are on a list. All these
    /// entries are in one table, whose lock the caller holds. Returns the counts of the examined entries.
    pub(super) fn promote_used(
        &self,
        multigen: &Multigen,
        lruvec: &Lruvec<M>,
        region: &Region<M>,
        pages: Range<u32>,
        search: Search,
        pending: &mut Pending,
    ) -> SeenEntries {
        let mut seen = SeenEntries::default();
        let mut page = pages.start;
        while page < pages.end {
            let entry = region.entry(page);
            // One entry maps all of a huge page, and has one accessed bit.
            let step = if entry.is_huge() { ENTRIES } else { 1 };
            seen.entries += 1;
            if let Some(frame) = entry.frame() {
                let is_accessed = entry.is_accessed();
                let is_ours = is_accessed && self.is_of_lruvec(lruvec, frame);
                seen.of_other_groups += u32::from(is_accessed && !is_ours && self.groups.is_some());
                let is_young = is_ours
                    && match search {
                        Search::Walk | Search::Window | Search::WindowGathered => region.test_clear_accessed(page),
                        Search::WindowOfListed => {
                            self.frames[self.frames.head(frame)].is(Flags::LRU) && region.test_clear_accessed(page)
                        }
                        Search::WholeTable => true,
                    };
                if is_young {
                    seen.young += 1;
                    self.promote(multigen, lruvec, self.frames.head(frame), search, pending);
                }
            }
            page = (page / step + 1) * step;
        }
        self.machine.spend(Step::ReferenceWalk, 1 + seen.young / ENTRIES_PER_LINE);
        seen
    }

    /// Promotes a page that was found used through a page table: makes it part of the youngest generation, or only
    /// marks it as used, as `multigen.promotion` says. Notes the changes of the generations' sizes in `pending`. With
    /// [`Pending::to_activate`], the page stays in its generation, and is noted there with a reference. The caller has
    /// locked the table that maps the page or holds a reference to the page, and found it in a search of the kind
    /// `search`.
    pub(super) fn promote(
        &self,
        multigen: &Multigen,
        lruvec: &Lruvec<M>,
        frame: FrameNumber,
        search: Search,
        pending: &mut Pending,
    ) {
        let choices = &multigen.choices;
        let youngest = slot_of(lruvec.generational().generations.seqs().max);
        let descriptor = &self.frames[frame];
        let keeps_slot = pending.to_activate.is_some();
        let is_gathered = search == Search::WindowGathered;
        let promoted = |flags: Flags| {
            let is_first = match choices.promotion {
                Promotion::FirstSighting => false,
                Promotion::SecondSighting => is_first_sighting(flags),
            };
            // The page is only marked as used: this is the first sighting, or the page is on no list. The task that has
            // isolated the page finds the mark.
            if is_first || !flags.has(Flags::LRU) {
                return (!flags.has(Flags::REFERENCED)).then(|| flags.with(Flags::REFERENCED));
            }
            let marked = match choices.promotion {
                Promotion::FirstSighting if keeps_slot || is_gathered && slot_in(flags) == youngest => flags,
                Promotion::FirstSighting => uses::cleared(choices.use_marks, flags),
                Promotion::SecondSighting => uses::cleared(choices.use_marks, flags).with(Flags::WORKINGSET),
            };
            let young = if keeps_slot { marked } else { with_slot(marked, youngest) };
            (young != flags).then_some(young)
        };
        if let Some(to_activate) = &mut pending.to_activate {
            let (Ok(before) | Err(before)) = descriptor.update(promoted);
            let is_first = matches!(choices.promotion, Promotion::SecondSighting) && is_first_sighting(before);
            let is_old = before.has(Flags::LRU) && slot_in(before) != youngest;
            if !is_first && is_old && descriptor.get_unless_zero() {
                to_activate.push(frame);
            }
        } else if let Ok(before) = descriptor.update(promoted)
            && slot_in(before) != youngest
            && promoted(before).is_some_and(|now| now.has(Flags::LRU) && slot_in(now) == youngest)
        {
            let pages = self.frames.pages(frame);
            pending.moved(is_of(before), self.memory().zone_of(frame).kind, (slot_in(before), youngest), pages);
        }
    }

    /// Counts the changes that a walk has noted: adds them to the sizes of the lruvec's generations.
    pub(super) fn count_pending(&self, lruvec: &Lruvec<M>, pending: &mut Pending) {
        if pending.changes == 0 {
            return;
        }
        let of = lruvec.generational();
        let _lists = of.lists.lock();
        self.machine.spend(Step::LruMove, 1);
        for zone in self.zones_of(lruvec) {
            for (slot, by_family) in pending.pages.iter().enumerate() {
                for family in Family::ALL {
                    let pages = by_family[family as usize][zone.kind as usize];
                    if pages != 0 {
                        self.count_pages(lruvec, zone, family, slot, pages);
                    }
                }
            }
        }
        *pending = Pending { to_activate: pending.to_activate.take(), ..Pending::default() };
    }
}

/// Returns whether a page with the flags `flags`, which was just found used through a page table, was not found so
/// before (`Promotion::SecondSighting`).
pub(super) const fn is_first_sighting(flags: Flags) -> bool {
    !flags.has(Flags::REFERENCED) && !flags.has(Flags::WORKINGSET)
}

impl Pending {
    /// Returns what a search notes whose pages are to be activated.
    pub(super) fn for_activation() -> Self {
        Self { to_activate: Some(Vec::new()), ..Self::default() }
    }

    fn moved(&mut self, family: Family, zone: ZoneKind, (from, to): (usize, usize), pages: u64) {
        self.pages[from][family as usize][zone as usize] -= pages.cast_signed();
        self.pages[to][family as usize][zone as usize] += pages.cast_signed();
        self.changes += 1;
    }
}

/// Returns whether a walk examines a region. It does if the region is anonymous memory whose pages may be evicted, or a
/// mapping of a file without advice of sequential or random access.
pub(super) fn is_walked<M: Machine>(region: &Region<M>, evictable: Evictable) -> bool {
    match &region.file {
        None => evictable[Family::Anon as usize],
        Some(mapped) => mapped.mode.pattern == ReadPattern::Normal,
    }
}

/// Returns the number of the page table that maps `page` of a region. Each table has its own number.
pub(super) fn table_of<M: Machine>(region: &Region<M>, page: u32) -> u64 {
    u64::from(region.id) << 32 | u64::from(page / ENTRIES)
}
