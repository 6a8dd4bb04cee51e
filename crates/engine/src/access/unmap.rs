//! The end of a region: all its pages and swap slots are free (`exit_mmap`).

use super::Access;
use crate::mapping::region::ENTRIES;
use crate::mapping::{Entry, Region};
use crate::memory::Flags;
use crate::stat::Gauge;
use machine::{FrameNumber, Func, Lock, Machine, Step};

impl<M: Machine> Access<M> {
    /// Drops a region that nobody touches any more. *May sleep.*
    pub fn drop_region(&self, region: &Region<M>) {
        let _span = self.machine.span(Func::ExitMmap);
        self.drain_local();
        for start in (0..region.pages).step_by(ENTRIES as usize) {
            if region.has_table(start) {
                self.drop_table(region, start..(start + ENTRIES).min(region.pages));
                self.machine.relax();
            }
        }
        for frame in region.table_frames() {
            self.free_kernel(frame, Gauge::NrPageTablePages);
        }
        self.forget_region(region);
        self.release_orphans();
    }

    fn drop_table(&self, region: &Region<M>, pages: std::ops::Range<u32>) {
        let mut frames: Vec<FrameNumber> = Vec::new();
        let mut slots: Vec<u32> = Vec::new();
        {
            let _guard = region.page_table(pages.start).lock();
            for page in pages {
                let entry = region.replace(page, Entry::NONE);
                if let Some(frame) = entry.frame() {
                    self.unmapped(frame);
                    frames.push(frame);
                } else if let Some(slot) = entry.slot() {
                    slots.push(slot);
                }
            }
            self.machine.spend(Step::FreePage, frames.len() as u32);
        }
        for slot in slots {
            self.release_slot(slot);
        }
        for &frame in &frames {
            if self.frames[frame].is(Flags::SWAPCACHE) && self.frames[frame].try_lock() {
                self.try_to_free_swap(frame);
                self.unlock_page(frame);
            }
        }
        self.put_pages(&frames);
    }

    /// A page-table entry does not need its slot any more; a cached page that nobody else needs goes too.
    fn release_slot(&self, slot: u32) {
        self.swap.with_slots(&self.machine, |slots| slots.release(slot));
        let Some(frame) = self.find_page(&self.swap.cache, slot) else { return };
        if self.frames[frame].try_lock() {
            if self.frames[frame].is(Flags::SWAPCACHE) && self.frames[frame].private() == slot {
                self.try_to_free_swap(frame);
            }
            self.unlock_page(frame);
        }
        self.put(frame);
    }
}
