//! Touches of a region's pages, and the page faults that they cause.

use super::choices::{HugeDefrag, HugePages};
use super::{Access, Error};
use crate::allocate::OutOfMemory;
use crate::anonymous::region::{ENTRIES, NoTable};
use crate::anonymous::{Entry, Region};
use crate::lru::Insert;
use crate::memory::{Flags, Gfp, Owner, PAGEBLOCK_ORDER};
use crate::stat::{Event, Gauge};
use crate::task::Task;
use machine::{DeviceId, FrameNumber, Func, Lock, Machine, Order, PAGE_BYTES, Step};

const _: () = assert!(ENTRIES as u64 == PAGEBLOCK_ORDER.pages(), "one page-table page maps one huge page");

/// The permission to throttle the task in a fault that dirties a page of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Throttle {
    Yes,
    /// The fault does not throttle the task, because an earlier fault of the same operation has.
    No,
}

/// The treatment of a huge page whose bytes are accessed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HugePage {
    /// It is split first, and one page of it is latched.
    Split,
    /// It stays whole, and the lock of its page-table page is held.
    Whole,
}

impl<M: Machine> Access<M> {
    /// Touches consecutive pages of a region, as a program does by reading or writing them. This function may sleep.
    ///
    /// # Errors
    /// When memory is exhausted, swap cannot be read, or the task was killed.
    ///
    /// # Panics
    /// When a page lies outside the region.
    #[inline]
    pub fn touch(
        &self,
        task: &mut Task,
        region: &Region<M>,
        pages: std::ops::Range<u32>,
        write: bool,
    ) -> Result<(), Error> {
        let mut from = pages.start;
        while let Some(page) = region.touch(from..pages.end, write) {
            self.fault(task, region, page, write, Throttle::Yes)?;
            from = page + 1;
        }
        Ok(())
    }

    /// Writes bytes into a region, from byte `offset` on. Each huge page on the way is split, so that its pages can be
    /// written at the same time without a lock. This function may sleep.
    ///
    /// # Errors
    /// Returns the errors of [`Access::touch`].
    pub fn write_region(&self, task: &mut Task, region: &Region<M>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.copy_in(task, region, offset, bytes, HugePage::Split)
    }

    /// Reads bytes of a region, from byte `offset` on. Bytes that were never written read as zero, and reading them
    /// allocates no page table. Each huge page on the way is split. This function may sleep.
    ///
    /// # Errors
    /// Returns the errors of [`Access::touch`].
    pub fn read_region(&self, task: &mut Task, region: &Region<M>, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.copy_out(task, region, offset, bytes, HugePage::Split)
    }

    /// Stores bytes in a region as the instructions of a program do: like [`Access::write_region`], but huge pages stay
    /// whole. While bytes are copied to a huge page, the lock of its page-table page is held.
    ///
    /// # Errors
    /// Returns the errors of [`Access::touch`].
    pub fn store(&self, task: &mut Task, region: &Region<M>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.copy_in(task, region, offset, bytes, HugePage::Whole)
    }

    /// Loads bytes of a region as the instructions of a program do: like [`Access::read_region`], but huge pages stay
    /// whole, as in [`Access::store`].
    ///
    /// # Errors
    /// Returns the errors of [`Access::touch`].
    pub fn load(&self, task: &mut Task, region: &Region<M>, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.copy_out(task, region, offset, bytes, HugePage::Whole)
    }

    fn copy_in(
        &self,
        task: &mut Task,
        region: &Region<M>,
        offset: u64,
        bytes: &[u8],
        huge: HugePage,
    ) -> Result<(), Error> {
        self.for_each_piece(task, region, (offset, bytes.len()), true, huge, |frame, at, range| {
            self.machine.write_frame(frame, at, &bytes[range]);
        })
    }

    fn copy_out(
        &self,
        task: &mut Task,
        region: &Region<M>,
        offset: u64,
        bytes: &mut [u8],
        huge: HugePage,
    ) -> Result<(), Error> {
        bytes.fill(0);
        let length = bytes.len();
        self.for_each_piece(task, region, (offset, length), false, huge, |frame, at, range| {
            self.machine.read_frame(frame, at, &mut bytes[range]);
        })
    }

    fn for_each_piece(
        &self,
        task: &mut Task,
        region: &Region<M>,
        (offset, length): (u64, usize),
        write: bool,
        huge: HugePage,
        mut visit: impl FnMut(FrameNumber, usize, std::ops::Range<usize>),
    ) -> Result<(), Error> {
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let page = (at / PAGE_BYTES as u64) as u32;
            let in_page = (at % PAGE_BYTES as u64) as usize;
            let n = (PAGE_BYTES - in_page).min(length - done);
            let mut piece = |frame| visit(frame, in_page, done..done + n);
            let is_done = huge == HugePage::Whole && self.visit_in_huge_page(task, region, page, write, &mut piece)?;
            if !is_done && let Some(frame) = self.pin_region(task, region, page, write)? {
                piece(frame);
                self.unpin_region(frame, write);
            }
            done += n;
        }
        Ok(())
    }

    /// Touches a page and calls `visit` with its frame, if the page is a part of a huge page or becomes one by this
    /// touch. Otherwise returns `false`, and has not called `visit`, but the page may have been faulted in.
    ///
    /// The page has neither latch nor reference meanwhile. It stays where it is because each task that unmaps, splits or
    /// moves a huge page takes the lock of the page-table page.
    fn visit_in_huge_page(
        &self,
        task: &mut Task,
        region: &Region<M>,
        page: u32,
        write: bool,
        visit: impl FnOnce(FrameNumber),
    ) -> Result<bool, Error> {
        if !region.is_huge_allowed || !write && region.is_untouched(page) {
            return Ok(false);
        }
        self.touch(task, region, page..page + 1, write)?;
        if !region.entry(page).is_huge() {
            return Ok(false);
        }
        let _guard = region.page_table(page).lock();
        let entry = region.entry(page);
        let part = entry.frame().filter(|_| entry.is_huge() && entry.allows(write));
        part.map(visit);
        Ok(part.is_some())
    }

    /// Pins the page that is mapped at `page`: takes a reference to the page and takes its latch. Returns the page's
    /// frame. Returns `None` if no page is mapped there with the rights that the access needs, or the mapping changed
    /// meanwhile.
    ///
    /// A huge page is split first, because each of its pages has its own latch. A smaller folio is latched as a whole.
    ///
    /// Reclaim may still unmap the page, but writes it to swap only if nothing else refers to it. A page that this
    /// function latches for writing is marked dirty already.
    ///
    /// # Errors
    /// When the page is to be read and has as many readers as its descriptor can count.
    pub(super) fn try_pin(&self, region: &Region<M>, page: u32, write: bool) -> Result<Option<FrameNumber>, Error> {
        if region.entry(page).is_huge() {
            self.lru().split_huge_page(region, page);
        }
        let Some(part) = region.entry(page).frame() else { return Ok(None) };
        let frame = self.frames.head(part);
        if !self.frames[frame].get_unless_zero() {
            return Ok(None);
        }
        let is_mapped = || {
            let entry = region.entry(page);
            let is_there = entry.frame() == Some(part) && self.frames.head(part) == frame;
            is_there && entry.allows(write) && !entry.is_huge()
        };
        if is_mapped() {
            if !write && self.frames[frame].has_all_readers() {
                self.lru().put(frame);
                return Err(Error::TooManyReaders { page });
            }
            self.page_cache().latch(frame, write);
            if is_mapped() {
                return Ok(Some(part));
            }
            self.page_cache().unlatch(frame, write);
        }
        self.lru().put(frame);
        Ok(None)
    }

    /// Handles a fault on a page that is not mapped, or that is mapped read-only and is to be written. Returns whether
    /// the fault dirtied a page of a file.
    #[cold]
    pub(super) fn fault(
        &self,
        task: &mut Task,
        region: &Region<M>,
        page: u32,
        write: bool,
        throttle: Throttle,
    ) -> Result<bool, Error> {
        let _span = self.machine.span(Func::Fault);
        self.machine.spend(Step::FaultEntry, 1);
        self.stat.count(Event::Pgfault, 1);
        let major_before = task.major_faults;
        let mut spare = None;
        let result = self.handle_fault(task, region, page, write, &mut spare);
        spare.into_iter().for_each(|frame| self.lru().put(frame));
        self.note_dirtied(task, matches!(result, Ok(Some(_))).into());
        if let Ok(Some(device)) = result
            && throttle == Throttle::Yes
        {
            self.balance_dirty_pages_ratelimited(task, device);
        }
        if task.major_faults == major_before {
            task.minor_faults += 1;
        } else {
            self.stat.count(Event::Pgmajfault, 1);
        }
        if throttle == Throttle::Yes {
            self.settle(task);
        }
        result.map(|dirtied| dirtied.is_some())
    }

    /// Maps the page on which a fault happened. Returns the file's device if the fault dirtied a page of a file,
    /// otherwise `None`.
    ///
    /// A page that was allocated for a copy and could not be used stays in `spare`, for the next try. The allocation may
    /// itself have reclaimed the page that is to be copied, so with a new allocation in each try the fault might not end.
    fn handle_fault(
        &self,
        task: &mut Task,
        region: &Region<M>,
        page: u32,
        write: bool,
        spare: &mut Option<FrameNumber>,
    ) -> Result<Option<DeviceId>, Error> {
        let mut dirtied = None;
        while region.touch(page..page + 1, write).is_some() {
            if self.machine.is_killed() {
                return Err(Error::Killed);
            }
            if !region.has_table(page) {
                self.make_table(task, region, page)?;
                if write && region.file.is_none() && self.try_huge_page(task, region, page) {
                    continue;
                }
            }
            let entry = region.entry(page);
            if let Some(slot) = entry.slot() {
                self.swap_page(task, region, page, slot, write)?;
            } else if entry.is_file() {
                dirtied = self.write_mapped_page(task, region, page, entry, spare)?.or(dirtied);
            } else if let Some(frame) = entry.frame() {
                self.make_writable(task, region, page, frame, spare)?;
            } else if let Some(mapped) = &region.file {
                dirtied = self.fault_file_page(task, region, mapped, page, write, spare)?.or(dirtied);
            } else if write {
                self.anonymous_page(task, region, page, entry)?;
            } else {
                let _guard = region.page_table(page).lock();
                self.machine.spend(Step::PteSet, 1);
                if region.entry(page) == Entry::NONE {
                    region.replace(page, Entry::zero_page());
                }
            }
        }
        Ok(dirtied)
    }

    pub(super) fn make_table(&self, task: &mut Task, region: &Region<M>, page: u32) -> Result<(), Error> {
        let fixed = self.memory().fixed_pages();
        if fixed >= self.memory().fixed_pages_max(self.memory().managed_pages()) {
            let tables = self.memory().gauge(Gauge::NrPageTablePages);
            return Err(Error::TooManyTables { tables, blocks: fixed.saturating_sub(tables) });
        }
        let frame = self
            .allocate_kernel(task, Gfp::PAGE_TABLE, Gauge::NrPageTablePages)
            .map_err(|cause| self.out_of_memory(cause))?;
        match region.make_table(page, frame) {
            Ok(()) => Ok(()),
            Err(NoTable::Exists(frame)) => {
                self.memory().free_kernel(frame, Gauge::NrPageTablePages);
                Ok(())
            }
            Err(NoTable::NoMemory(frame)) => {
                self.memory().free_kernel(frame, Gauge::NrPageTablePages);
                Err(self.out_of_memory(OutOfMemory::of_memory(Order::ZERO)))
            }
        }
    }

    /// Handles the first write to a page: maps a frame of zeroes.
    fn anonymous_page(&self, task: &mut Task, region: &Region<M>, page: u32, seen: Entry) -> Result<(), Error> {
        let _span = self.machine.span(Func::AnonymousPage);
        if self.choices.anonymous_folio_order > 0 && self.try_folio(task, region, page) {
            return Ok(());
        }
        let frame = self.allocate(task, Gfp::USER_MOVABLE, Order::ZERO).map_err(|cause| self.out_of_memory(cause))?;
        self.machine.zero_frame(frame);
        self.machine.spend_on(Step::ZeroPage, frame, 1);
        let is_mapped = {
            let _guard = region.page_table(page).lock();
            self.machine.spend(Step::PteSet, 1);
            let is_ours = region.entry(page) == seen || region.entry(page).is_zero_page() && seen.is_zero_page();
            if is_ours {
                self.map_new(region, page, frame);
            }
            is_ours
        };
        if is_mapped {
            self.lru().add(frame, Insert::Fault, self.choices.new_anonymous.is_active());
        } else {
            self.lru().put(frame);
        }
        Ok(())
    }

    /// Maps a fresh folio of several pages around a page. Tries the largest order first, and takes the first order
    /// whose aligned range was never touched and for which a block is free. Returns `false` if no folio was mapped.
    #[doc(alias = "alloc_anon_folio")]
    fn try_folio(&self, task: &mut Task, region: &Region<M>, page: u32) -> bool {
        for order in (1..=self.choices.anonymous_folio_order as u8).rev().map(Order) {
            let start = page / (1 << order.0) * (1 << order.0);
            let pages = start..start + (1 << order.0);
            let is_unused = || pages.clone().all(|page| region.entry(page) == Entry::NONE);
            if pages.end > region.pages || !is_unused() {
                continue;
            }
            let Ok(head) = self.allocate(task, Gfp::FOLIO_AHEAD, order) else { continue };
            self.machine.spend_on(Step::ZeroPage, head, pages.len() as u32);
            (0..pages.len() as u32).for_each(|n| self.machine.zero_frame(FrameNumber(head.0 + n)));
            let is_mapped = {
                let _guard = region.page_table(page).lock();
                self.machine.spend(Step::PteSet, pages.len() as u32);
                let is_mapped = is_unused();
                if is_mapped {
                    self.map_new_folio(region, start, head, order);
                }
                is_mapped
            };
            if is_mapped {
                self.lru().add(head, Insert::Fault, self.choices.new_anonymous.is_active());
                return true;
            }
            self.memory().free_block(head, order);
        }
        false
    }

    /// Makes a folio of a newly allocated block, and maps each of its pages by a page-table entry of its own. The
    /// folio's one reference is passed to its mappings. The caller holds the lock of these entries.
    fn map_new_folio(&self, region: &Region<M>, start: u32, head: FrameNumber, order: Order) {
        let folio = self.frames.make_folio(head, order);
        self.frames[head].set(Flags::SWAPBACKED.with(Flags::UPTODATE));
        self.frames[head].set_owner(Owner::Region(region.id), start);
        for (page, frame) in (start..).zip(folio.frames()) {
            let takes_reference = self.anonymous().mapped(frame);
            debug_assert!(takes_reference == (page == start), "the first mapping has the reference of all");
            region.replace(page, Entry::mapped(frame, true));
        }
    }

    /// Maps a page that was just allocated, and passes its only reference to the mapping. The caller holds the lock of
    /// the page-table entry; or, while a fork fills the region, that of the entry that is copied.
    pub(super) fn map_new(&self, region: &Region<M>, page: u32, frame: FrameNumber) {
        let descriptor = &self.frames[frame];
        descriptor.set(Flags::SWAPBACKED.with(Flags::UPTODATE));
        descriptor.set_owner(Owner::Region(region.id), page);
        self.anonymous().give_to_mapping(frame);
        region.replace(page, Entry::mapped(frame, true));
    }

    /// Maps a huge page over the aligned range around a page, if the range was never touched. Returns `false` if none
    /// was mapped.
    fn try_huge_page(&self, task: &mut Task, region: &Region<M>, page: u32) -> bool {
        let start = page / ENTRIES * ENTRIES;
        match self.choices.huge_pages {
            HugePages::Always if region.is_huge_allowed && start + ENTRIES <= region.pages => {}
            HugePages::Always | HugePages::Never => return false,
        }
        let wait = match self.choices.huge_defrag {
            HugeDefrag::Always => true,
            HugeDefrag::Never => false,
        };
        let Ok(head) = self.allocate(task, Gfp { wait, ..Gfp::HUGE_PAGE }, PAGEBLOCK_ORDER) else {
            self.stat.count(Event::ThpFaultFallback, 1);
            return false;
        };
        self.machine.spend_on(Step::ZeroPage, head, ENTRIES);
        (0..ENTRIES).for_each(|n| self.machine.zero_frame(FrameNumber(head.0 + n)));
        let is_mapped = {
            let _guard = region.page_table(page).lock();
            self.machine.spend(Step::PteSet, 1);
            let is_mapped = region.try_map_huge(page, head);
            if is_mapped {
                self.map_new_huge(region, start, head);
            }
            is_mapped
        };
        if is_mapped {
            self.stat.count(Event::ThpFaultAlloc, 1);
            self.lru().add(head, Insert::Fault, self.choices.new_anonymous.is_active());
        } else {
            // Other tasks have touched pages of the range meanwhile, so it gets no huge page.
            self.stat.count(Event::ThpFaultFallback, 1);
            self.memory().free_block(head, PAGEBLOCK_ORDER);
        }
        is_mapped
    }

    /// Turns a newly allocated block, whose first frame is `head`, into the huge page for the pages of `region` from
    /// `start` on. The caller has already stored the entry that maps the block over the whole range, and holds the
    /// entries' lock. The block's one reference is passed to the mapping.
    pub(super) fn map_new_huge(&self, region: &Region<M>, start: u32, head: FrameNumber) {
        self.frames.make_folio(head, PAGEBLOCK_ORDER);
        self.frames[head].set(Flags::SWAPBACKED.with(Flags::UPTODATE));
        self.frames[head].set_owner(Owner::Region(region.id), start);
        self.anonymous().count_huge_mapping(head, 1);
    }

    /// Handles a write to an anonymous page that is mapped read-only (`do_wp_page`). If no other region can see the
    /// page, which then only still had a swap slot, the entry becomes writable. Otherwise the region gets a copy.
    fn make_writable(
        &self,
        task: &mut Task,
        region: &Region<M>,
        page: u32,
        part: FrameNumber,
        spare: &mut Option<FrameNumber>,
    ) -> Result<(), Error> {
        let _span = self.machine.span(Func::WritableCopy);
        let frame = self.frames.head(part);
        if !self.frames[frame].get_unless_zero() {
            return Ok(());
        }
        let is_still_mapped = || region.entry(page).frame() == Some(part) && self.frames.head(part) == frame;
        if !is_still_mapped() {
            // The frame may have another owner by now, and must not be locked.
            self.lru().put(frame);
            return Ok(());
        }
        self.page_cache().lock_page(frame);
        let mut is_shared = false;
        if is_still_mapped() {
            // If the page is under writeback, its slot is kept. The writeback was then useless, because the page is
            // about to change.
            self.swap_floor().try_to_free_swap(frame);
            let _guard = region.page_table(page).lock();
            self.machine.spend(Step::PteSet, 1);
            if is_still_mapped() {
                is_shared = self.is_shared(region, part);
                if !is_shared {
                    if region.fork_tree.get().is_some() && !self.frames[frame].is(Flags::COMPOUND) {
                        // No other region has the page any more (`folio_move_anon_rmap`).
                        self.frames[frame].set_owner(Owner::Region(region.id), page);
                    }
                    region.replace(page, region.entry(page).made_writable());
                }
            }
        }
        self.page_cache().unlock_page(frame);
        let copied = if is_shared { self.copy_shared(task, region, page, part, spare) } else { Ok(()) };
        self.lru().put(frame);
        copied
    }

    /// Maps a copy of a page that other regions map, too. The caller holds a reference to the page.
    fn copy_shared(
        &self,
        task: &mut Task,
        region: &Region<M>,
        page: u32,
        part: FrameNumber,
        spare: &mut Option<FrameNumber>,
    ) -> Result<(), Error> {
        let copy = self.take_copy(task, spare)?;
        let replaced = {
            let _guard = region.page_table(page).lock();
            self.machine.spend(Step::PteSet, 1);
            let entry = region.entry(page);
            // If all other regions have lost the page meanwhile, another task may have made the entry writable, and have
            // stored. So the page is copied under the lock.
            let is_unchanged = entry.frame() == Some(part) && !entry.allows(true);
            is_unchanged.then(|| {
                self.copy_page(part, copy);
                self.map_new(region, page, copy);
                self.anonymous().unmapped(part).then(|| self.frames.head(part))
            })
        };
        self.end_page_copy(copy, replaced, spare);
        Ok(())
    }

    /// Returns whether another region of the fork tree maps a page that `region` maps, or has the page's swap slot. The
    /// caller has locked the page's folio, and holds the lock of the page's entry.
    fn is_shared(&self, region: &Region<M>, part: FrameNumber) -> bool {
        if region.fork_tree.get().is_none() {
            return false;
        }
        let head = self.frames.head(part);
        let slot = self.frames[head].is(Flags::SWAPCACHE).then(|| self.frames[head].swap_slot() + (part.0 - head.0));
        self.frames.mappings_of_page(part) > 1
            || slot.is_some_and(|slot| self.swap_floor().with_slots(|slots| slots.uses(slot)) > 0)
    }
}
