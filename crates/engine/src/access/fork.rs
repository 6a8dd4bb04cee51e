//! Copies a region for a new process, as `fork` does (`copy_page_range`; mechanisms/fork).
//!
//! Small pages are not copied: both regions map them, read-only. The first write to such a page, in either region, makes
//! a copy ([`super::fault`]), unless the other region has lost the page meanwhile. *Locks*: `page_table` of the parent,
//! under which the child's entries are filled, too; then `swap`.

use super::{Access, Error};
use crate::anonymous::{ProcessId, Region};
use crate::lru::Insert;
use crate::task::Task;
use machine::{Func, Lock, Machine, Step};
use std::ops::Range;
use std::sync::Arc;

impl<M: Machine> Access<M> {
    /// Makes a region for process `owner` with the contents that the anonymous region `region` has now. Later writes to
    /// one of them do not change the other. This function may sleep. No task may have a page of `region` pinned for
    /// writing meanwhile.
    ///
    /// Linux shares a huge page as a whole until it is written. Here it is split first. A large folio of another order,
    /// whose pages have entries of their own, is copied at once.
    ///
    /// # Errors
    /// When memory for page tables or copies is exhausted, or the task was killed.
    ///
    /// # Panics
    /// When `region` maps a file.
    pub fn fork_region(
        &self,
        task: &mut Task,
        region: &Arc<Region<M>>,
        owner: Option<ProcessId>,
    ) -> Result<Arc<Region<M>>, Error> {
        assert!(region.file.is_none(), "region {} maps a file", region.id);
        let _span = self.machine.span(Func::Fork);
        let child = self.anonymous().create_forked_region(region, owner);
        for part in region.parts_with_table(0) {
            if let Err(error) = self.fork_table(task, region, &child, part) {
                self.drop_region(&child);
                return Err(error);
            }
            self.machine.cond_resched();
        }
        child.end_filling();
        Ok(child)
    }

    /// Fills the entries of one page-table page of `child`.
    fn fork_table(&self, task: &mut Task, from: &Region<M>, child: &Region<M>, pages: Range<u32>) -> Result<(), Error> {
        self.make_table(task, child, pages.start)?;
        let mut left: Vec<u32> = pages.collect();
        while let Some(first) = left.first() {
            if self.machine.is_killed() {
                return Err(Error::Killed);
            }
            self.lru().split_huge_page(from, *first);
            let mut changed = Vec::new();
            for page in self.share_entries(from, child, &left) {
                if !self.copy_part(task, from, child, page)? {
                    changed.push(page);
                }
            }
            left = changed;
        }
        Ok(())
    }

    /// Copies the entries for `pages`, which lie in one page-table page of `from`, to `child`, and makes them read-only.
    /// Returns the pages that are parts of large folios, which cannot be shared.
    fn share_entries(&self, from: &Region<M>, child: &Region<M>, pages: &[u32]) -> Vec<u32> {
        // Whoever looks for all mappings of a page visits `from` before `child`. So he either replaces the entry in `from`
        // before it is copied, or finds both, or began before `child` was there. Then he finds that the page's count of
        // mappings is larger than what he has found.
        let _guard = from.page_table(pages[0]).lock();
        if from.huge_page(pages[0]).is_some() {
            return pages.to_vec();
        }
        let mut large = Vec::new();
        let mut copied = 0;
        for &page in pages {
            let entry = from.entry(page);
            if let Some(slot) = entry.slot() {
                self.swap_floor().with_slots(|slots| slots.duplicate(slot));
                child.replace(page, entry);
            } else if let Some(frame) = entry.frame() {
                if self.frames.folio(frame).is_large() {
                    large.push(page);
                    continue;
                }
                self.frames[frame].get();
                self.anonymous().give_to_mapping(frame);
                child.replace(page, from.make_read_only(page).made_old());
            } else {
                child.replace(page, entry);
            }
            copied += u32::from(!entry.is_none());
        }
        self.machine.spend(Step::PteSet, copied);
        large
    }

    /// Maps a copy of a part of a large folio in `child`. Returns `false` if the page is no longer such a part.
    fn copy_part(&self, task: &mut Task, from: &Region<M>, child: &Region<M>, page: u32) -> Result<bool, Error> {
        let copy = self.allocate_copy(task)?;
        let is_mapped = {
            let _guard = from.page_table(page).lock();
            let entry = from.entry(page);
            let frame = entry.frame().filter(|frame| !entry.is_huge() && self.frames.folio(*frame).is_large());
            if let Some(frame) = frame {
                self.copy_page(frame, copy);
                self.map_new(child, page, copy);
            }
            frame.is_some()
        };
        match is_mapped {
            true => self.lru().add(copy, Insert::Fault, self.choices.new_anonymous.is_active()),
            false => self.lru().put(copy),
        }
        Ok(is_mapped)
    }
}
