//! Removes mappings: all those of a region that ends (`exit_mmap`), and those of the pages that a file loses when it is
//! truncated. Releases the mapped pages and frees swap slots.

use super::Access;
use crate::anonymous::region::ENTRIES;
use crate::anonymous::{Entry, Region};
use crate::memory::Flags;
use crate::page_cache::{File, ReadPattern};
use crate::stat::Gauge;
use machine::atomic::Ordering::Release;
use machine::{FrameNumber, Func, Lock, Machine, Step, prefetch};

/// Distance of a prefetch, in page-table entries. Entries are emptied one by one. Meanwhile, the descriptor of the page
/// that the entry this far ahead maps is prefetched into the processor's cache.
const LOOK_AHEAD: u32 = 8;

impl<M: Machine> Access<M> {
    /// Drops a region that is not in use any more. This function may sleep.
    pub fn drop_region(&self, region: &Region<M>) {
        let _span = self.machine.span(Func::ExitMmap);
        self.lru().drain_before_use();
        region.is_closing.store(true, Release);
        self.empty_region(region);
        for frame in region.table_frames() {
            self.memory().free_kernel(frame, Gauge::NrPageTablePages);
        }
        self.anonymous().forget_region(region);
        if let Some(mapped) = &region.file {
            self.close(&mapped.file);
        }
    }

    /// Empties all entries of a region that is closing, because it is dropped or its process was killed.
    pub(super) fn empty_region(&self, region: &Region<M>) {
        for part in region.parts_with_table(0) {
            self.zap_whole(region, part);
            self.machine.cond_resched();
        }
    }

    /// Releases the pages and swap slots of a range of an anonymous region, whose pages then read as zeroes
    /// (`MADV_DONTNEED`). This function may sleep.
    pub fn discard(&self, region: &Region<M>, pages: std::ops::Range<u32>) {
        self.lru().drain_before_use();
        for part in region.parts_with_table(pages.start) {
            if part.start >= pages.end {
                break;
            }
            let part = part.start..part.end.min(pages.end);
            while !self.zap_pages(region, part.clone()) {
                self.lru().split_huge_page(region, part.start);
            }
            self.machine.cond_resched();
        }
    }

    /// Empties entries as [`Access::zap_pages`] does, for a range that has no part of a huge page.
    fn zap_whole(&self, region: &Region<M>, pages: std::ops::Range<u32>) {
        let is_done = self.zap_pages(region, pages.clone());
        assert!(is_done, "a part of a huge page unmapped: {pages:?} of region {}", region.id);
    }

    /// Unmaps the pages of a file from page `from` on, in every region that maps them, and also private copies of these
    /// pages (`unmap_mapping_range`).
    pub(super) fn unmap_file_range(&self, file: &File<M>, from: u32) {
        for region in self.anonymous().mappers(file) {
            let first_page = region.file.as_ref().map_or(0, |mapped| mapped.first_page);
            for part in region.parts_with_table(from.saturating_sub(first_page)) {
                self.zap_whole(&region, part);
                self.machine.cond_resched();
            }
        }
    }

    /// Empties the page-table entries of `pages`, which lie in one page-table page, and releases the pages and swap
    /// slots that the entries referred to. Returns `false`, and does nothing, if the range is a part of a huge page.
    fn zap_pages(&self, region: &Region<M>, pages: std::ops::Range<u32>) -> bool {
        let is_sequential = region.file.as_ref().is_some_and(|mapped| mapped.mode.pattern == ReadPattern::Sequential);
        let mut frames: Vec<FrameNumber> = Vec::new();
        let mut used: Vec<FrameNumber> = Vec::new();
        let mut slots: Vec<u32> = Vec::new();
        {
            let _guard = region.page_table(pages.start).lock();
            if let Some(head) = region.huge_page(pages.start) {
                if pages.len() < ENTRIES as usize {
                    return false;
                }
                region.unmap_huge(pages.start);
                self.anonymous().count_huge_mapping(head, -1);
                frames.push(head);
            }
            // If there was a huge page, all entries are empty now.
            let small = if frames.is_empty() { pages.clone() } else { pages.end..pages.end };
            for page in small {
                // The descriptors of a region's pages are not adjacent in memory, so most of this work is waiting for
                // them.
                let later = page + LOOK_AHEAD;
                if later < pages.end
                    && let Some(frame) = region.entry(later).frame()
                {
                    prefetch(&raw const self.frames[frame]);
                }
                let entry = region.replace(page, Entry::NONE);
                if let Some(frame) = entry.frame() {
                    let head = self.frames.head(frame);
                    if entry.is_file() {
                        self.anonymous().note_unmapped_entry(head, entry);
                        // The entry's accessed bit is passed on to the page.
                        if entry.is_accessed() && !is_sequential && used.last() != Some(&head) {
                            used.push(head);
                        }
                    }
                    if self.anonymous().unmapped(frame) {
                        frames.push(head);
                    }
                } else if let Some(slot) = entry.slot() {
                    slots.push(slot);
                }
            }
            self.machine.spend(Step::FreePage, frames.len() as u32);
        }
        used.into_iter().for_each(|frame| self.lru().mark_accessed(frame));
        for slot in slots {
            self.release_slot(slot);
        }
        for &frame in &frames {
            if self.frames[frame].is(Flags::SWAPCACHE) && self.frames[frame].try_lock() {
                self.swap_floor().try_to_free_swap(frame);
                self.page_cache().unlock_page(frame);
            }
        }
        self.lru().put_pages(&frames);
        true
    }

    /// Releases the swap slot that a page-table entry had. If a page with this slot is in the swap cache, also frees
    /// the slot and takes the page out of the swap cache, unless the slot is still needed by a page table, or the page
    /// is locked or being written.
    fn release_slot(&self, slot: u32) {
        self.swap_floor().with_slots(|slots| slots.release(slot));
        let Some(frame) = self.page_cache().find_page(&self.swap.cache, slot) else { return };
        if self.frames[frame].try_lock() {
            if self.swap_floor().has_swap_slot(frame, slot) {
                self.swap_floor().try_to_free_swap(frame);
            }
            self.page_cache().unlock_page(frame);
        }
        self.lru().put(frame);
    }
}
