//! Search for more used pages around a page that reclaim finds used (mechanisms/multigen, 5.3).

use super::Multigen;
use super::choices::LookAround;
use super::walk::{Pending, Search, is_walked, table_of};
use crate::anonymous::region::ENTRIES;
use crate::anonymous::{Owners, Region};
use crate::lru::{Lru, Lruvec};
use crate::memory::Owner;
use machine::{FrameNumber, Lock, Machine};
use std::ops::Range;

/// Number of page-table entries that are examined around a used one (`LookAround::Window`).
const WINDOW: u32 = 64;

/// Returns the page-table entries to examine when the entry of `page` was found used. They lie in the same page table
/// as this entry, and in the same region, which has `pages` pages. The range is empty if `rule` allows no such
/// examination.
fn window(rule: LookAround, page: u32, pages: u32) -> Range<u32> {
    let start = page / ENTRIES * ENTRIES;
    let end = (start + ENTRIES).min(pages);
    match rule {
        LookAround::Never => page..page,
        LookAround::WholeTable => start..end,
        LookAround::Window | LookAround::WindowGathered | LookAround::WindowOfListed => {
            // At one edge of the range, the window reaches further to the other side.
            let first = page.saturating_sub(WINDOW / 2).clamp(start, end.saturating_sub(WINDOW).max(start));
            first..(first + WINDOW).min(end)
        }
    }
}

impl<M: Machine> Lru<M> {
    /// Looks around an isolated page that was found used: examines the page-table entries around each entry that maps
    /// the page, and promotes the pages whose entries were used.
    ///
    /// Kswapd promotes pages at once, in batches of its own. Another task that looks around in a window activates them,
    /// through the batch of its CPU (`folio_activate`).
    pub(super) fn look_around(&self, multigen: &Multigen, frame: FrameNumber, is_kswapd: bool, owners: &mut Owners<M>) {
        if let LookAround::Never = multigen.choices.look_around {
            return;
        }
        let (lruvec, index) = (self.lruvec_of_page(frame), self.frames[frame].index());
        match self.frames[frame].owner() {
            Owner::Region(_) => {
                if let Some(region) = owners.region_of(self, frame) {
                    self.anonymous().for_each_anonymous_mapping(region, index, frame, |region| {
                        self.look_around_in(multigen, lruvec, region, index, is_kswapd);
                    });
                }
            }
            Owner::File(_) => {
                if let Some(file) = owners.file_of(self, frame) {
                    self.anonymous().for_each_mapping(file, frame, |region, page, _| {
                        self.look_around_in(multigen, lruvec, region, page, is_kswapd);
                    });
                }
            }
            Owner::None => {}
        }
    }

    fn look_around_in(&self, multigen: &Multigen, lruvec: &Lruvec<M>, region: &Region<M>, page: u32, is_kswapd: bool) {
        let rule = multigen.choices.look_around;
        let (evictable, around) = ([true; 2], window(rule, page, region.pages));
        if around.len() < 2 || !is_walked(region, evictable) {
            return;
        }
        let search = match rule {
            LookAround::WholeTable => Search::WholeTable,
            LookAround::WindowOfListed => Search::WindowOfListed,
            LookAround::WindowGathered => Search::WindowGathered,
            LookAround::Window | LookAround::Never => Search::Window,
        };
        let activates = match rule {
            LookAround::Window | LookAround::WindowGathered | LookAround::WindowOfListed => !is_kswapd,
            LookAround::WholeTable | LookAround::Never => false,
        };
        let mut pending = if activates { Pending::for_activation() } else { Pending::default() };
        let Some(guard) = region.page_table(page).try_lock() else { return };
        let seen = self.promote_used(multigen, lruvec, region, around, search, &mut pending);
        drop(guard);
        if seen.is_dense() {
            let of = lruvec.generational();
            of.filters.insert(of.generations.seqs().max, table_of(region, page));
        }
        if let Some(pages) = pending.to_activate.take() {
            self.activate_found(multigen, lruvec, search, &pages, &mut pending);
        }
        self.count_pending(lruvec, &mut pending);
    }

    /// Brings pages that a look-around of the kind `search` has found used to the youngest generation, and drops their
    /// references. They are activated one by one. But with [`Search::WindowGathered`], as many pages as a batch of the
    /// CPU holds, or more, are promoted at once.
    pub(super) fn activate_found(
        &self,
        multigen: &Multigen,
        lruvec: &Lruvec<M>,
        search: Search,
        pages: &[FrameNumber],
        pending: &mut Pending,
    ) {
        let at_once = search == Search::WindowGathered && pages.len() >= self.batch_pages();
        for &frame in pages {
            match at_once {
                true => self.promote(multigen, lruvec, frame, search, pending),
                false => self.activate(frame),
            }
            self.put(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lies_in_its_table_and_is_as_large_as_it_can_be() {
        let around = |page, pages| window(LookAround::Window, page, pages);
        assert_eq!(around(600, 2048), 568..632);
        assert_eq!((around(512, 2048), around(1023, 2048), around(3, 2048)), (512..576, 960..1024, 0..64));
        assert_eq!((around(5, 20), around(515, 520), around(600, 610)), (0..20, 512..520, 546..610));
        assert_eq!(window(LookAround::WholeTable, 600, 1000), 512..1000);
        for page in 0..1500 {
            assert!(around(page, 1500).contains(&page));
        }
    }
}
