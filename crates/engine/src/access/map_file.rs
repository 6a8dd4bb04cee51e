//! Mapped files: faults on them, and `msync`.
//!
//! *Flow*: [`Access::map_file`] makes a region. A touch of a missing page finds the page in the page cache (a minor
//! fault) or reads it with its neighbours (a major fault). A write to a shared mapping marks the page dirty before the
//! page-table entry becomes writable, and counts as a write for the dirty limits. A write to a private mapping makes an
//! anonymous copy. *Locks*: the page lock, then `page_table`. *Description*: mechanisms/reclaim, 9, 13; see
//! [`crate::anonymous::reverse_map`].

use super::readahead::Patience;
use super::{Access, Error};
use crate::anonymous::{Entry, FileMapping, MapMode, Region, Sharing};
use crate::lru::Insert;
use crate::memory::{Flags, Gfp, Owner};
use crate::page_cache::File;
use crate::task::{FileFault, Task};
use machine::{DeviceId, FrameNumber, Func, Lock, Machine, Order, PAGE_BYTES, Step};
use std::sync::Arc;

/// A folio that a fault has locked.
struct LockedPage {
    frame: FrameNumber,
    /// True if the page was not in memory, or if another task had it locked.
    has_waited: bool,
}

impl<M: Machine> Access<M> {
    /// Maps `pages` pages of a file, from its page `first_page` on. The file stays open until the region is dropped.
    /// This function may sleep.
    ///
    /// # Errors
    /// When the file's inode or directory entry was dropped, and memory for a new one is exhausted.
    pub fn map_file(
        &self,
        task: &mut Task,
        file: &Arc<File<M>>,
        first_page: u32,
        pages: u32,
        mode: MapMode,
    ) -> Result<Arc<Region<M>>, Error> {
        self.open(task, file)?;
        Ok(self.anonymous().create_file_region(task.process, file, first_page, pages, mode))
    }

    /// Writes the dirty pages of the file that a shared mapping maps, and waits until they are on the device (`msync`).
    /// Does nothing for other regions. This function may sleep.
    ///
    /// # Errors
    /// Returns the errors of [`Access::fsync`].
    pub fn sync_region(&self, task: &mut Task, region: &Region<M>) -> Result<(), Error> {
        match &region.file {
            Some(mapped) if mapped.mode.sharing == Sharing::Shared => self.fsync(task, &mapped.file),
            _ => Ok(()),
        }
    }

    /// Handles a fault on a page of a mapped file for which the page table has no entry. Returns the file's device if
    /// the fault dirtied a page; otherwise `None`.
    pub(super) fn fault_file_page(
        &self,
        task: &mut Task,
        region: &Region<M>,
        mapped: &FileMapping<M>,
        page: u32,
        write: bool,
        spare: &mut Option<FrameNumber>,
    ) -> Result<Option<DeviceId>, Error> {
        let _span = self.machine.span(Func::FileFault);
        let file = &mapped.file;
        if write && mapped.mode.sharing == Sharing::Private {
            let copy = self.take_copy(task, spare)?;
            let frame = match self.lock_mapped_page(task, mapped, page, false) {
                Ok(locked) => locked.frame,
                Err(error) => {
                    *spare = Some(copy);
                    return Err(error);
                }
            };
            self.copy_page(self.page_cache().frame_of(frame, mapped.first_page + page), copy);
            self.map_copy(region, page, Entry::NONE, copy, spare);
            self.page_cache().unlock_page(frame);
            self.lru().put(frame);
            return Ok(None);
        }
        if !write && self.map_around(region, mapped, page) {
            return Ok(None);
        }
        let mut locked = self.lock_mapped_page(task, mapped, page, true)?;
        if !write && locked.has_waited && self.choices.fault_around_pages > 1 {
            // Linux drops its locks before it waits for a page. Then it handles the fault from the beginning, so that the
            // pages that were read with this one are mapped with it.
            self.page_cache().unlock_page(locked.frame);
            self.lru().put(locked.frame);
            if self.map_around(region, mapped, page) {
                return Ok(None);
            }
            locked = self.lock_mapped_page(task, mapped, page, true)?;
        }
        let frame = locked.frame;
        let prepared = if write { self.dirty_mapped_page(file, frame) } else { Ok(()) };
        let part = self.page_cache().frame_of(frame, mapped.first_page + page);
        let is_mapped = prepared.is_ok() && self.map_if_empty(region, page, part, write);
        self.page_cache().unlock_page(frame);
        if !is_mapped {
            self.lru().put(frame);
        }
        prepared.map(|()| write.then_some(file.backing))
    }

    /// Maps a page of a locked folio of the region's file, unless the entry maps a page already. Returns whether the
    /// page was mapped. If so, the caller's reference to the folio now belongs to the mapping.
    fn map_if_empty(&self, region: &Region<M>, page: u32, frame: FrameNumber, write: bool) -> bool {
        let _guard = region.page_table(page).lock();
        self.machine.spend(Step::PteSet, 1);
        let is_empty = region.entry(page) == Entry::NONE;
        if is_empty {
            self.anonymous().give_to_mapping(frame);
            region.replace(page, Entry::mapped_file(frame, write));
        }
        is_empty
    }

    /// On a read fault, maps those of the surrounding pages that are in memory and valid, and whose page lock is free
    /// (`access.fault_around_pages`). Returns whether the faulting page is among the mapped pages; if so, the fault has
    /// been handled. The new page-table entries are marked as accessed, as on x86.
    #[doc(alias = "filemap_map_pages")]
    fn map_around(&self, region: &Region<M>, mapped: &FileMapping<M>, page: u32) -> bool {
        let around = self.choices.fault_around_pages;
        if around <= 1 {
            return false;
        }
        let first = page / around * around;
        // A page-table page has a power of two of entries, so the aligned block around an entry lies in the same table.
        let last = mapped.file.length_pages().saturating_sub(mapped.first_page).min(region.pages).min(first + around);
        let empty = (first..last).filter(|page| region.entry(*page) == Entry::NONE);
        let found: Vec<u32> = empty.filter(|page| self.map_cached(region, mapped, *page)).collect();
        if !found.is_empty() {
            self.with_map_state(mapped, |state| state.map_misses = state.map_misses.saturating_sub(found.len() as u32));
        }
        found.contains(&page)
    }

    /// Maps a page of a file, if that is possible without waiting. Returns whether the page was mapped.
    fn map_cached(&self, region: &Region<M>, mapped: &FileMapping<M>, page: u32) -> bool {
        let (file, index) = (&mapped.file, mapped.first_page + page);
        if file.index.get(index).is_none() {
            return false;
        }
        let Some(frame) = self.page_cache().find_page(&file.index, index) else { return false };
        let descriptor = &self.frames[frame];
        // A page with the readahead mark is left to a fault of its own, which continues the readahead.
        let is_mapped =
            !descriptor.is(Flags::READAHEAD) && descriptor.is(Flags::UPTODATE) && descriptor.try_lock() && {
                let is_ours = self.page_cache().is_page_of(frame, Owner::File(file.id), index)
                    && descriptor.is(Flags::UPTODATE)
                    && index < file.length_pages();
                let is_mapped =
                    is_ours && self.map_if_empty(region, page, self.page_cache().frame_of(frame, index), false);
                self.page_cache().unlock_page(frame);
                is_mapped
            };
        if !is_mapped {
            self.lru().put(frame);
        }
        is_mapped
    }

    /// Handles a write fault on page `page` of a region, whose page-table entry `seen` maps a page of the region's file
    /// for reads only. Returns the file's device if the write dirtied a page of the file; otherwise `None`.
    pub(super) fn write_mapped_page(
        &self,
        task: &mut Task,
        region: &Region<M>,
        page: u32,
        seen: Entry,
        spare: &mut Option<FrameNumber>,
    ) -> Result<Option<DeviceId>, Error> {
        let _span = self.machine.span(Func::WritableCopy);
        let mapped = region.file.as_ref().expect("only regions of files map their pages");
        let part = seen.frame().expect("the entry maps a page");
        let copy = match mapped.mode.sharing {
            Sharing::Shared => None,
            Sharing::Private => Some(self.take_copy(task, spare)?),
        };
        let frame = self.frames.head(part);
        let is_still_mapped = || region.entry(page).frame() == Some(part) && self.frames.head(part) == frame;
        let is_held = self.frames[frame].get_unless_zero();
        if !is_held || !is_still_mapped() {
            // The frame may have another owner by now, and must not be locked.
            *spare = copy.or(*spare);
            if is_held {
                self.lru().put(frame);
            }
            return Ok(None);
        }
        if let Some(copy) = copy {
            self.copy_page(part, copy);
            self.map_copy(region, page, seen, copy, spare);
            self.lru().put(frame);
            return Ok(None);
        }
        let file = &mapped.file;
        self.page_cache().lock_page(frame);
        let is_ours = is_still_mapped() && self.frames[frame].owner() == Owner::File(file.id);
        let dirtied = if is_ours { self.dirty_mapped_page(file, frame).map(|()| Some(file.backing)) } else { Ok(None) };
        if matches!(dirtied, Ok(Some(_))) {
            let _guard = region.page_table(page).lock();
            self.machine.spend(Step::PteSet, 1);
            if is_still_mapped() {
                region.replace(page, region.entry(page).made_writable());
            }
        }
        self.page_cache().unlock_page(frame);
        self.lru().put(frame);
        dirtied
    }

    /// Marks a locked page dirty before it is written through a mapping (`page_mkwrite`). This function may sleep.
    fn dirty_mapped_page(&self, file: &Arc<File<M>>, frame: FrameNumber) -> Result<(), Error> {
        let offset = u64::from(self.frames[frame].index()) * PAGE_BYTES as u64;
        self.prepare_write(file, frame, offset)?;
        self.machine.spend(Step::WriteBegin, 1);
        self.writeback().wait_until_stable(file, frame);
        self.writeback().set_page_dirty(file, frame);
        Ok(())
    }

    pub(super) fn allocate_copy(&self, task: &mut Task) -> Result<FrameNumber, Error> {
        self.allocate(task, Gfp::USER_MOVABLE, Order::ZERO).map_err(|cause| self.out_of_memory(cause))
    }

    /// Returns the page that an earlier try of a fault has allocated for its copy and left in `spare`, or else a new one.
    pub(super) fn take_copy(&self, task: &mut Task, spare: &mut Option<FrameNumber>) -> Result<FrameNumber, Error> {
        spare.take().map_or_else(|| self.allocate_copy(task), Ok)
    }

    pub(super) fn copy_page(&self, from: FrameNumber, to: FrameNumber) {
        self.machine.copy_frame(from, to);
        self.machine.spend_on(Step::CopyPage, to, 1);
    }

    /// Maps a private copy in place of the entry `seen`. If the entry has changed, leaves the copy in `spare`.
    fn map_copy(&self, region: &Region<M>, page: u32, seen: Entry, copy: FrameNumber, spare: &mut Option<FrameNumber>) {
        let replaced = {
            let _guard = region.page_table(page).lock();
            self.machine.spend(Step::PteSet, 1);
            let entry = region.entry(page);
            // The entry's accessed bit may have changed, which does not matter.
            let is_unchanged = entry.frame() == seen.frame() && (seen.frame().is_some() || entry == seen);
            is_unchanged.then(|| {
                self.map_new(region, page, copy);
                entry.frame().filter(|frame| self.anonymous().unmapped(*frame)).map(|frame| self.frames.head(frame))
            })
        };
        self.end_page_copy(copy, replaced, spare);
    }

    /// Puts a copy on its list, and drops the reference to the page that it has replaced in a page table, if there was
    /// one. If `replaced` is `None`, no entry maps the copy, which is left in `spare`.
    pub(super) fn end_page_copy(
        &self,
        copy: FrameNumber,
        replaced: Option<Option<FrameNumber>>,
        spare: &mut Option<FrameNumber>,
    ) {
        match replaced {
            Some(replaced) => {
                self.lru().add(copy, Insert::Fault, self.choices.new_anonymous.is_active());
                replaced.into_iter().for_each(|frame| self.lru().put(frame));
            }
            None => *spare = Some(copy),
        }
    }

    /// Finds the folio that holds the file page at page `page` of a mapping, and reads the folio if it is not valid.
    /// Returns the folio locked and with a reference. `maps_page` says what the caller will map: the file page itself
    /// (`true`) or a copy of it (`false`).
    fn lock_mapped_page(
        &self,
        task: &mut Task,
        mapped: &FileMapping<M>,
        page: u32,
        maps_page: bool,
    ) -> Result<LockedPage, Error> {
        task.file_fault = Some(FileFault { pattern: mapped.mode.pattern, maps_page });
        let locked = self.lock_mapped_page_in_fault(task, mapped, page);
        task.file_fault = None;
        locked
    }

    fn lock_mapped_page_in_fault(
        &self,
        task: &mut Task,
        mapped: &FileMapping<M>,
        page: u32,
    ) -> Result<LockedPage, Error> {
        let file = &mapped.file;
        let index = mapped.first_page + page;
        let offset = u64::from(index) * PAGE_BYTES as u64;
        let started = self.machine.now();
        let (mut has_read_ahead, mut has_read_alone) = (false, false);
        loop {
            if index >= file.length_pages() {
                return Err(Error::BeyondEnd { file: file.id, offset });
            }
            if self.machine.is_killed() {
                return Err(Error::Killed);
            }
            let Some(frame) = self.page_cache().find_page(&file.index, index) else {
                if has_read_ahead {
                    self.read_single(task, file, index)?;
                    has_read_alone = true;
                } else {
                    task.major_faults += 1;
                    self.with_map_state(mapped, |state| self.map_readahead(task, file, state, index));
                }
                has_read_ahead = true;
                continue;
            };
            let descriptor = &self.frames[frame];
            if !has_read_ahead && descriptor.is(Flags::READAHEAD) && !descriptor.is(Flags::WRITEBACK) {
                self.with_map_state(mapped, |state| {
                    state.map_misses = state.map_misses.saturating_sub(1);
                    if descriptor.test_clear(Flags::READAHEAD) {
                        self.async_readahead(task, file, state, index, Patience::Waits);
                    }
                });
            }
            let has_waited = has_read_ahead || descriptor.is(Flags::LOCKED);
            self.page_cache().lock_page(frame);
            if !self.page_cache().is_page_of(frame, Owner::File(file.id), index) {
                self.page_cache().unlock_page(frame);
                self.lru().put(frame);
                continue;
            }
            if descriptor.is(Flags::UPTODATE) {
                self.with_map_state(mapped, |state| state.note_read(index, 0));
                if has_read_ahead {
                    task.major_fault_wait += self.machine.now().since(started);
                }
                return Ok(LockedPage { frame, has_waited });
            }
            let failed = descriptor.read_error();
            self.page_cache().unlock_page(frame);
            self.drop_failed_page(file, frame);
            // A request for many pages may have failed because of any of them, so an error counts only if the page was
            // read alone.
            if let Some(source) = failed.filter(|_| has_read_alone) {
                return Err(Error::Read { file: file.id, offset, source });
            }
            has_read_ahead = true;
        }
    }

    /// Changes a mapping's read state: copies it, changes the copy by `change` and stores the copy. The state's lock is
    /// not held during the change, because readahead may have to reclaim memory. If two tasks fault at once, the state
    /// that is stored last stays.
    fn with_map_state(&self, mapped: &FileMapping<M>, change: impl FnOnce(&mut super::ReadState)) {
        let mut state = mapped.state.lock().clone();
        change(&mut state);
        *mapped.state.lock() = state;
    }
}
