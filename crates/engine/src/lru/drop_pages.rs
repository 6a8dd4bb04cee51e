//! Drops pages without a scan: invalidation drops clean pages, truncation drops all pages.

use super::Lru;
use crate::anonymous::Owners;
use crate::memory::{Flags, Owner};
use crate::page_cache::File;
use machine::{FrameNumber, Func, Machine, Step};
use std::ops::Range;

/// Number of pages whose references are dropped together.
const BATCH: usize = 32;

impl<M: Machine> Lru<M> {
    /// Drops the clean pages of a file that are not in use, and forgets the shadows of the file's pages that left
    /// memory before. Returns the number of dropped pages (`invalidate_mapping_pages`).
    ///
    /// Without the shadows, a read after `drop_caches` is no refault, as measured on Linux (mechanisms/modern, 6).
    pub fn invalidate_file(&self, file: &File<M>) -> u64 {
        self.invalidate_pages(file, 0..u32::MAX)
    }

    /// Drops pages as [`Lru::invalidate_file`] does, but only the pages in `range`.
    pub fn invalidate_pages(&self, file: &File<M>, range: Range<u32>) -> u64 {
        self.drain_before_use();
        self.list_waiting(file.id);
        let mut dropped = 0;
        let mut next = range.start;
        let mut may_be_held = Vec::new();
        while let Some((page, _)) = file.index.first_present(next..range.end) {
            next = page + 1;
            // Do not use the frame that was just seen: it may hold another page by now, whose owner relies on the page
            // lock.
            let Some(frame) = self.page_cache().find_page(&file.index, page) else { continue };
            next = self.page_cache().end_of_folio(frame, page);
            let descriptor = &self.frames[frame];
            if !self.lies_within(frame, page, &range) {
                self.put(frame);
                continue;
            }
            if !descriptor.try_lock() {
                self.put(frame);
                continue;
            }
            let is_ours = descriptor.owner() == Owner::File(file.id) && !descriptor.is(Flags::WRITEBACK);
            let pages = self.frames.pages(frame);
            if is_ours && self.swap_floor().remove_mapping(frame, Some(file), None, None) {
                descriptor.clear(Flags::LOCKED);
                self.free_unreferenced(frame);
                dropped += pages;
            } else {
                self.page_cache().unlock_page(frame);
                match is_ours && self.page_cache().may_be_held(frame) {
                    true => may_be_held.push(frame),
                    false => self.put(frame),
                }
            }
            if may_be_held.len() >= BATCH {
                dropped += self.drop_unless_held(&mut may_be_held);
            }
            self.machine.cond_resched();
        }
        file.index.forget_shadows(range);
        dropped + self.drop_unless_held(&mut may_be_held)
    }

    /// Returns whether all pages of a folio lie in `range`. `head` is the folio's first frame, and `page` is the number
    /// of any of its pages in the file.
    fn lies_within(&self, head: FrameNumber, page: u32, range: &Range<u32>) -> bool {
        let end = self.page_cache().end_of_folio(head, page);
        end <= range.end && end - self.frames.pages(head) as u32 >= range.start
    }

    /// Drops those of `pages` that no reader holds by a hazard pointer. The other pages stay in memory, and only the
    /// caller's reference to them is dropped. Empties `pages`. Returns the number of dropped pages.
    fn drop_unless_held(&self, pages: &mut Vec<FrameNumber>) -> u64 {
        let mut dropped = 0;
        self.page_cache().remove_mappings(
            pages,
            &mut Owners::default(),
            |_| None,
            |frame, is_removed| match is_removed {
                true => {
                    self.free_unreferenced(frame);
                    dropped += 1;
                }
                false => self.put(frame),
            },
        );
        pages.clear();
        dropped
    }

    /// Drops the pages of a file from page `from` on, dirty or not. Waits for pages under writeback. This function may
    /// sleep.
    pub fn truncate_pages(&self, file: &File<M>, from: u32) {
        let _ = self.drop_pages(file, from..u32::MAX);
    }

    /// Drops the pages of a range as [`Lru::truncate_pages`] does. Returns the pages of the range that stay in memory
    /// because their folio has pages outside of the range. If the range ends with the largest page number, no page
    /// stays: a folio that begins before the range loses its pages within the range.
    pub(crate) fn drop_pages(&self, file: &File<M>, pages: Range<u32>) -> Vec<u32> {
        let _span = self.machine.span(Func::Truncate);
        self.drain_before_use();
        self.list_waiting(file.id);
        let mut gone: Vec<FrameNumber> = Vec::with_capacity(2 * BATCH);
        let mut kept = Vec::new();
        let (from, mut next) = (pages.start, pages.start);
        while let Some((page, _)) = file.index.first_present(next..pages.end) {
            next = page + 1;
            let Some(frame) = self.page_cache().find_page(&file.index, page) else { continue };
            next = self.page_cache().end_of_folio(frame, page);
            self.page_cache().lock_page(frame);
            self.page_cache().wait_on_writeback(frame);
            let is_ours = self.frames[frame].owner() == Owner::File(file.id);
            if is_ours && pages.end != u32::MAX && !self.lies_within(frame, page, &pages) {
                kept.extend(page..next.min(pages.end));
            } else if is_ours && self.frames[frame].index() < from {
                // The new end lies in the middle of the folio, which stays.
                self.cut_folio(file, frame, from);
            } else if is_ours {
                // Another task may have mapped the page by a touch, while the page was still in the file.
                if self.frames[frame].mappings() > 0 {
                    self.anonymous().unmap_file_page(file, frame);
                }
                self.cancel_dirty(file, frame);
                self.forget_log_numbers(file, page..next);
                self.page_cache().delete_from_page_cache(file, frame);
            }
            self.page_cache().unlock_page(frame);
            gone.push(frame);
            if gone.len() >= BATCH {
                self.machine.spend(Step::FreePage, gone.len() as u32);
                self.page_cache().keep_held(&mut gone);
                self.put_pages(&gone);
                gone.clear();
                self.machine.cond_resched();
            }
        }
        self.page_cache().keep_held(&mut gone);
        self.put_pages(&gone);
        kept
    }
}
