//! Faults on pages in swap (`do_swap_page`; mechanisms/reclaim, 20.4 with the correction in
//! mechanisms/parallelio-trial, 5).
//!
//! A fault on a page in the swap cache is a minor fault, even while the page is being written. A read maps the page
//! read-only and keeps the slot. A write frees the slot, unless the page is under writeback. If swap is synchronous
//! (`SWP_SYNCHRONOUS_IO`), a read also maps the page writable and frees the slot.

use super::{Access, Error};
use crate::allocate::OutOfMemory;
use crate::anonymous::{Entry, Region};
use crate::bio::Bio;
use crate::lru::Insert;
use crate::memory::{Flags, Gfp, GroupId, Owner, Returning};
use crate::stat::Event;
use crate::swap::area::Slots;
use crate::swap::choices::{SwapReadahead, SwapWindows};
use crate::task::Task;
use machine::{FrameNumber, Func, IoError, Lock, Machine, Operation, Order, Stalled, Step};

/// The swap slots that are read for a fault on one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    /// The wanted slot and its neighbours are read. The kernel's choices and the region's swap window decide how many.
    Window,
    /// No slots around the wanted one: only the wanted slot is read.
    Nothing,
}

impl<M: Machine> Access<M> {
    /// Maps the page whose contents are in a swap slot. Reads the page first, if it is not in memory.
    pub(super) fn swap_page(
        &self,
        task: &mut Task,
        region: &Region<M>,
        page: u32,
        slot: u32,
        write: bool,
    ) -> Result<(), Error> {
        let _span = self.machine.span(Func::SwapPage);
        if self.try_swap_page(task, region, page, slot, write, Around::Window)?.is_some() {
            // The read may have failed because of another slot that was read together with this one, or in another
            // task's fault. So this slot is now read alone.
            if let Some(source) = self.try_swap_page(task, region, page, slot, write, Around::Nothing)? {
                return Err(Error::SwapRead { slot, source });
            }
        }
        Ok(())
    }

    /// Tries once to map the page of a swap slot. Returns the I/O error if the page could not be read. Returns `None`
    /// if the page is mapped now, or if its page-table entry has changed.
    fn try_swap_page(
        &self,
        task: &mut Task,
        region: &Region<M>,
        page: u32,
        slot: u32,
        write: bool,
        around: Around,
    ) -> Result<Option<IoError>, Error> {
        let frame = match self.page_cache().find_page(&self.swap.cache, slot) {
            Some(frame) => frame,
            None => {
                let started = self.machine.now();
                // Without shadows it is not known whether the page was in the workingset. Then each swap-in is a stall,
                // as before Linux 5.9.
                let stalled = (!self.lru().leaves_shadows_of_anon()).then(|| Stalled::begin(&self.machine));
                let cluster = self.next_window(region, page, around);
                let found = self.swapin_readahead(task, region, page, slot, cluster)?;
                let Some(frame) = found else { return Ok(None) };
                task.major_faults += 1;
                self.page_cache().wait_on_read(frame);
                drop(stalled);
                task.major_fault_wait += self.machine.now().since(started);
                frame
            }
        };
        self.page_cache().lock_page(frame);
        let descriptor = &self.frames[frame];
        let is_ours = self.swap_floor().has_swap_slot(frame, slot);
        if !is_ours || !descriptor.is(Flags::UPTODATE) {
            let failed = descriptor.read_error().filter(|_| is_ours);
            if failed.is_some() {
                // The slot stays in use, and the next fault reads it anew.
                self.swap_floor().delete_from_swap_cache(frame);
            }
            self.page_cache().unlock_page(frame);
            self.lru().put(frame);
            return Ok(failed);
        }
        // The flag `READAHEAD` has two meanings: the page was read ahead, or reclaim is about to write the page.
        // Reclaim holds the page lock while it writes, and this task holds the lock now. So the flag means readahead
        // here, with one rare exception: reclaim may set the flag after the write has ended.
        if self.is_window_by_use() && !descriptor.is(Flags::WRITEBACK) && descriptor.test_clear(Flags::READAHEAD) {
            region.swap_window.note_used(slot);
        }
        let mut is_freed = false;
        let is_mapped = {
            let _guard = region.page_table(page).lock();
            self.machine.spend(Step::PteSet, 1);
            let is_wanted = region.entry(page).slot() == Some(slot);
            if is_wanted {
                // A large folio that is still in memory has a slot for each page. The wanted slot may be that of a
                // later page.
                let n = slot - descriptor.swap_slot();
                let part = FrameNumber(frame.0 + n);
                let is_alone = self.take_swapped(region, frame, page - n, slot);
                // A page whose slot is freed belongs to this region alone, so it may be mapped writable.
                is_freed = (write || self.swap_floor().swap_is_synchronous()) && is_alone;
                self.anonymous().give_to_mapping(part);
                region.replace(page, Entry::mapped(part, is_freed));
            }
            is_wanted
        };
        if is_mapped {
            // The reference that the lookup took now belongs to the mapping.
            self.swap_floor().with_slots(|slots| slots.release(slot));
            if self.choices.swapped_in.is_active() {
                self.lru().mark_accessed(frame);
            }
            if is_freed || self.swap_floor().is_swap_full_for(frame) {
                self.swap_floor().try_to_free_swap(frame);
            }
        }
        self.page_cache().unlock_page(frame);
        if !is_mapped {
            self.lru().put(frame);
        }
        Ok(None)
    }

    /// Makes `region` the owner of a locked folio of the swap cache, which it is about to map from its page `first` on.
    /// After a fork, the owner must be a region from which all regions were forked that have an entry for the folio.
    /// Returns whether `region` alone has the page with `slot`. The caller holds the lock of the page's entry.
    fn take_swapped(&self, region: &Region<M>, head: FrameNumber, first: u32, slot: u32) -> bool {
        let descriptor = &self.frames[head];
        let Some(tree) = region.fork_tree.get() else {
            descriptor.set_owner(Owner::Region(region.id), first);
            return true;
        };
        // A folio that is mapped has such an owner.
        let is_mapped = descriptor.mappings() > 0;
        let is_alone = !is_mapped && !self.frames.folio(head).is_large() && {
            // One use is that of this region's entry.
            self.swap_floor().with_slots(|slots| slots.uses(slot)) == 1
        };
        if !is_mapped {
            descriptor.set_owner(Owner::Region(if is_alone { region.id } else { tree.root }), first);
        }
        is_alone
    }

    /// Reads the wanted slot, and the slots around it that `swap_readahead` selects within the aligned block of
    /// 2^`cluster` slots. Returns the wanted page with a reference; `None` if the page-table entry with the slot
    /// changed meanwhile.
    fn swapin_readahead(
        &self,
        task: &mut Task,
        region: &Region<M>,
        page: u32,
        slot: u32,
        cluster: u32,
    ) -> Result<Option<FrameNumber>, Error> {
        let _span = self.machine.span(Func::SwapinReadahead);
        let cluster = 1 << cluster;
        let start = (slot / cluster * cluster).max(1);
        let end = (start / cluster * cluster + cluster).min(self.swap.total_slots() + 1);
        let (start, end) = match self.swap_floor().choices.readahead {
            SwapReadahead::AlignedBlock => (start, end),
            SwapReadahead::FromBlockStart => {
                let slots = self.swap.slots.lock();
                (start, (start..end).find(|near| slots.is_free(*near)).unwrap_or(end))
            }
            SwapReadahead::UsedRun => {
                let slots = self.swap.slots.lock();
                let is_free = |near: &u32| slots.is_free(*near);
                let first = (start..slot).rev().find(is_free).map_or(start, |free| free + 1);
                (first, (slot + 1..end).find(is_free).unwrap_or(end))
            }
        };
        let mut bio = Bio::new(self.swap.device, Operation::Read, true);
        let mut ahead = 0;
        let started = (start..end).try_for_each(|near| {
            let is_added = self.read_slot(task, &mut bio, near, near == slot)?;
            ahead += u32::from(is_added && near != slot);
            Ok(())
        });
        region.swap_window.note_read(&(start..end), ahead);
        // The pages that were added are locked until they are read, even if a later slot failed.
        bio.submit(self);
        started?;
        self.lru().drain_before_use();
        loop {
            if let Some(frame) = self.page_cache().find_page(&self.swap.cache, slot) {
                return Ok(Some(frame));
            }
            if region.entry(page).slot() != Some(slot) || self.machine.is_killed() {
                return Ok(None);
            }
            // The wanted slot is behind the slots that were read ahead, or was read and reclaimed again before this
            // task looked, or is about to be added by another task.
            self.read_slot(task, &mut bio, slot, true)?;
            bio.submit(self);
            self.machine.relax();
        }
    }

    /// Returns how many swap slots are read for a fault on a page, as the base-2 logarithm of their number.
    fn next_window(&self, region: &Region<M>, page: u32, around: Around) -> u32 {
        if around == Around::Nothing || self.swap_floor().swap_is_synchronous() || self.swap.is_almost_full() {
            return 0;
        }
        let log_max = u32::from(self.swap_floor().choices.page_cluster.min(10));
        if self.is_window_by_use() { region.swap_window.next(log_max, page) } else { log_max }
    }

    fn is_window_by_use(&self) -> bool {
        match self.swap_floor().choices.window {
            SwapWindows::ByUse => true,
            SwapWindows::Fixed => false,
        }
    }

    /// Allocates a page and charges it to `owner`, the group whose page was swapped out. If this group was removed,
    /// charges the page to the task's group (mechanisms/groups, 1). The group may be removed meanwhile, but its number is
    /// not used again before the page is charged.
    ///
    /// `returning` is the announcement that the page comes back to its group; `None` if the group was removed.
    fn allocate_for(
        &self,
        owner: GroupId,
        returning: Option<&Returning<'_, M>>,
        task: &mut Task,
        gfp: Gfp,
    ) -> Result<FrameNumber, OutOfMemory> {
        let own = if returning.is_some() { std::mem::replace(&mut task.group, owner) } else { task.group };
        let found = self.allocate(task, gfp, Order::ZERO);
        task.group = own;
        found
    }

    /// Starts to read a swap slot into a new page, if the slot is in use and not in the swap cache. Returns whether it
    /// started a read.
    fn read_slot(&self, task: &mut Task, bio: &mut Bio, slot: u32, is_wanted: bool) -> Result<bool, Error> {
        let is_readable = |slots: &Slots| slots.uses(slot) > 0 && !slots.is_cached(slot);
        let owner = {
            let slots = self.swap.slots.lock();
            if !is_readable(&slots) {
                return Ok(false);
            }
            slots.owner(slot)
        };
        let gfp = if is_wanted { Gfp::SWAP_IN } else { Gfp::READAHEAD };
        let groups = self.groups.as_ref().filter(|_| !owner.is_root());
        let returning = groups.and_then(|groups| groups.begin_return(owner));
        let frame = match self.allocate_for(owner, returning.as_ref(), task, gfp) {
            Ok(frame) => frame,
            Err(cause) if is_wanted => return Err(self.out_of_memory(cause)),
            Err(_) => return Ok(false),
        };
        let is_claimed = self.swap_floor().with_slots(|slots| {
            let is_readable = is_readable(slots);
            if is_readable {
                slots.set_cached(slot);
            }
            is_readable
        });
        drop(returning);
        if !is_claimed {
            self.lru().put(frame);
            return Ok(false);
        }
        let is_marked = !is_wanted && self.is_window_by_use();
        let mark = if is_marked { Flags::READAHEAD } else { Flags::default() };
        self.frames[frame].set(Flags::LOCKED.with(Flags::SWAPBACKED).with(mark));
        let inserted = self.swap_floor().insert_into_swap_cache(frame, slot);
        let shadow = inserted.expect("whoever sets the cache's use of a slot adds its page");
        self.lru().add(frame, Insert::SwapIn { shadow }, self.choices.swapped_in.is_active());
        self.stat.count(Event::Pswpin, 1);
        bio.add(self, self.swap.block(slot), frame);
        self.lru().put(frame);
        Ok(true)
    }
}
