//! The swap area, for pages without a file.
//!
//! *Holds* the swap area with its slots and the cache of pages that have a slot ([`area`]); the number of slots that a
//! fault reads together (`window`); and the memory used by compressed swap (`compressed`). *Flow*: reclaim gives a page
//! a slot ([`Swap::add_to_swap`]) and removes the page from the swap cache once the page is written
//! ([`Swap::remove_mapping`]). A fault reads the page back (`access::swap_in`). The module is called by `anonymous`,
//! `writeback`, `reclaim`, `access`. *Locks*: the page lock; under it `swap` and `i_pages`, one of the two at a time.
//! *Description*: mechanisms/reclaim, 20.
//!
//! Next: [`crate::anonymous`], whose entries name slots.

pub mod area;
pub mod choices;
mod compressed;
pub(crate) mod window;

pub use area::{Slots, SwapArea};
pub use choices::Choices;

use crate::memory::{Flags, GroupId, Groups, Owner, SlotMove};
use crate::page_cache::{File, Held, PageCache, Shadow};
use crate::stat::Gauge;
use compressed::Compressed;
use machine::{DeviceId, FrameNumber, Func, Lock, Machine, Order, Step};
use std::ops::{Deref, Range};

/// The place and the size of swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapLayout {
    /// The block device on which swap lies.
    pub device: DeviceId,
    /// Number of the device's block that belongs to slot 0.
    pub first_block: u64,
    /// Number of slots, each for one page; 0 for no swap.
    pub slots: u32,
    /// `true` if the device answers at once, as memory does (`BLK_FEAT_SYNCHRONOUS`).
    pub is_synchronous: bool,
    /// Memory that a page in swap takes, in percent of a page. The value is 0 for a device with its own memory, and
    /// less than 100 for swap that is compressed in memory (zram).
    pub memory_percent: u32,
}

impl SwapLayout {
    /// The layout of a machine without swap.
    pub const NONE: Self =
        Self { device: DeviceId(0), first_block: 0, slots: 0, is_synchronous: false, memory_percent: 0 };
}

/// The layer (*floor*) of the engine that holds swap slots and the swap cache.
pub struct Swap<M: Machine> {
    page_cache: PageCache<M>,
    /// The section `[swap]` of the kernel file.
    pub choices: Choices,
    /// The swap area.
    pub swap: SwapArea<M>,
    /// `true` if swap is synchronous and is handled differently from other swap (`swap.synchronous = "apart"`).
    is_synchronous: bool,
    compressed: Compressed<M>,
}

impl<M: Machine> Deref for Swap<M> {
    type Target = PageCache<M>;
    #[inline]
    fn deref(&self) -> &PageCache<M> {
        &self.page_cache
    }
}

impl<M: Machine> Swap<M> {
    /// Returns `self`, so that code of the layers above can name this layer.
    #[inline(always)]
    pub(crate) fn swap_floor(&self) -> &Self {
        self
    }

    /// Creates this layer of the engine, with an empty swap area.
    pub fn new(page_cache: PageCache<M>, choices: Choices, layout: SwapLayout) -> Self {
        let swap = SwapArea::new(
            &page_cache.machine,
            layout.device,
            layout.first_block,
            layout.slots,
            page_cache.groups.as_ref().map(Groups::version),
        );
        let is_synchronous = layout.is_synchronous && choices.synchronous.is_apart();
        let compressed = Compressed::new(&page_cache.machine, layout.memory_percent);
        Self { choices, swap, is_synchronous, compressed, page_cache }
    }

    /// Returns whether swap is synchronous and is handled differently from other swap (`swap.synchronous = "apart"`).
    #[inline]
    pub(crate) fn swap_is_synchronous(&self) -> bool {
        self.is_synchronous
    }

    /// Removes a page from its file, or from the swap cache, if the page is clean and only the index and the caller
    /// have references to it. Returns whether the page was removed. A removed page has no reference, and the caller has
    /// to free it.
    ///
    /// Before the call, the caller has isolated the page (which gives it one reference), locked it and unmapped it. For
    /// a page of a file see [`PageCache::remove_file_page`].
    pub fn remove_mapping(
        &self,
        frame: FrameNumber,
        file: Option<&File<M>>,
        held: Option<&Held>,
        shadow: Option<Shadow>,
    ) -> bool {
        match file {
            Some(file) => self.remove_file_page(frame, file, held, shadow),
            None => self.remove_swap_page(frame, shadow),
        }
    }

    fn remove_swap_page(&self, frame: FrameNumber, shadow: Option<Shadow>) -> bool {
        let _span = self.machine.span(Func::RemoveMapping);
        let (descriptor, folio, slots) = (&self.frames[frame], self.frames.folio(frame), self.slots_of(frame));
        {
            let _guard = self.lock_index(&self.swap.i_pages);
            self.machine.spend(Step::IndexRemove, 1);
            if !descriptor.freeze_clean(2) {
                return false;
            }
            self.swap.cache.remove_folio(slots.start, folio, shadow);
            if shadow.is_some() {
                self.machine.spend(Step::ShadowStore, 1);
            }
            descriptor.clear(Flags::SWAPCACHE);
        }
        self.clear_cached_slots(slots);
        self.memory().add_gauge(frame, Gauge::NrFilePages, -i64::from(folio.pages()));
        descriptor.set_owner(Owner::None, 0);
        true
    }

    /// Ends the swap cache's use of the slots of a folio.
    fn clear_cached_slots(&self, of_folio: Range<u32>) {
        self.with_slots(|slots| of_folio.for_each(|slot| _ = slots.clear_cached(slot)));
    }

    /// Returns the slots of a locked folio of the swap cache.
    fn slots_of(&self, head: FrameNumber) -> Range<u32> {
        let first = self.frames[head].swap_slot();
        first..first + self.frames.folio(head).pages()
    }

    /// Returns whether a folio that a lookup of `slot` found in the swap cache is still there, at slots that include
    /// `slot`. The caller has locked the folio.
    pub(crate) fn has_swap_slot(&self, head: FrameNumber, slot: u32) -> bool {
        self.frames[head].is(Flags::SWAPCACHE) && self.slots_of(head).contains(&slot)
    }

    /// Assigns a swap slot to an anonymous page, or an aligned block of slots to a large anonymous folio. The caller
    /// has locked the page or folio. Returns `false` if no such slots are free, if `memory.swap.max` of the page's
    /// group refuses them, or if there is no memory for the index of the swap cache or for compressed contents.
    pub fn add_to_swap(&self, frame: FrameNumber) -> bool {
        let _span = self.machine.span(Func::AddToSwap);
        let folio = self.frames.folio(frame);
        let group = self.live_group(self.frames.group(frame));
        if !self.charge_swap(group, folio.pages()) {
            return false;
        }
        let slot = if folio.is_large() { self.take_swap_block(folio.order) } else { self.take_swap_slot() };
        let Some(slot) = slot else {
            self.uncharge_swap(group, folio.pages());
            return false;
        };
        let slots = slot..slot + folio.pages();
        if !group.is_root() {
            self.with_slots(|all| slots.clone().for_each(|slot| all.set_owner(slot, group)));
        }
        if !slots.clone().all(|slot| self.swap.cache.prepare(slot)) {
            self.clear_cached_slots(slots);
            return false;
        }
        self.insert_into_swap_cache(frame, slot).expect("a slot just taken has no page in the cache");
        self.frames[frame].set(Flags::DIRTY);
        true
    }

    /// Charges swap slots to a group, as [`crate::memory::Groups::charge_swap`] does, and returns whether the charge
    /// succeeded. The root group is not charged.
    fn charge_swap(&self, group: GroupId, slots: u32) -> bool {
        let groups = self.groups.as_ref().filter(|_| !group.is_root());
        groups.is_none_or(|groups| groups.charge_swap(group, slots.into()))
    }

    pub(super) fn uncharge_swap(&self, group: GroupId, slots: u32) {
        if let Some(groups) = self.groups.as_ref().filter(|_| !group.is_root()) {
            groups.uncharge_swap(group, slots.into());
        }
    }

    /// Tells the groups which of their pages left memory for swap or came back.
    fn move_slots(&self, moved: Vec<(GroupId, SlotMove)>) {
        let Some(groups) = &self.groups else { return };
        moved.into_iter().for_each(|(owner, to)| groups.move_slot(owner, to));
    }

    /// Returns a group if it still exists, and otherwise its nearest ancestor that exists (`mem_cgroup_id_get_online`).
    fn live_group(&self, group: GroupId) -> GroupId {
        let Some(groups) = &self.groups else { return group };
        std::iter::successors(Some(group), |id| groups.parent(*id))
            .find(|id| groups.is_live(*id))
            .unwrap_or(GroupId::ROOT)
    }

    /// Returns whether slots are to be freed as soon as their page is in memory. They are freed if more than half of
    /// swap is in use, or if the page's group or an ancestor uses more than half of its `memory.swap.max`
    /// (`mem_cgroup_swap_full`).
    pub(crate) fn is_swap_full_for(&self, frame: FrameNumber) -> bool {
        let is_full_for = |group| self.groups.as_ref().is_some_and(|groups| groups.is_swap_half_full(group));
        self.swap.is_nearly_full() || is_full_for(self.frames.group(frame))
    }

    /// Returns whether anonymous pages of a group can go to swap. They can if a slot is free and the group's
    /// `memory.swap.max` allows one more slot.
    #[inline]
    pub(crate) fn has_swap_room(&self, group: GroupId) -> bool {
        self.swap.free_slots() > 0 && self.groups.as_ref().is_none_or(|groups| groups.swap_room(group) > 0)
    }

    /// Takes a free aligned block of slots and returns its first slot. Returns `None` if no block is free, or if swap
    /// is compressed and gets no memory for the contents of more slots.
    fn take_swap_block(&self, order: Order) -> Option<u32> {
        let found = self.with_slots(|slots| slots.take_block(order))?;
        self.machine.spend(Step::SwapSlot, found.looked_at);
        let has_memory = self.take_memory_for_slots();
        if !has_memory {
            self.clear_cached_slots(found.slot..found.slot + (1 << order.0));
        }
        has_memory.then_some(found.slot)
    }

    /// Takes a free slot and returns it. Returns `None` if no slot is free, or if swap is compressed and gets no memory
    /// for the contents of one more slot. When swap is more than half full, the method may free a slot that only the
    /// swap cache uses (mechanisms/reclaim, 20.1).
    fn take_swap_slot(&self) -> Option<u32> {
        let mut or_cached = self.swap.is_nearly_full();
        loop {
            let found = self.with_slots(|slots| slots.take(or_cached))?;
            self.machine.spend(Step::SwapSlot, found.looked_at);
            if found.is_free {
                if self.take_memory_for_slots() {
                    return Some(found.slot);
                }
                self.with_slots(|slots| slots.clear_cached(found.slot));
                return None;
            }
            // If the slot was not freed, because its page is locked or wanted again, the search goes on for free slots
            // only.
            or_cached = self.reclaim_swap_slot(found.slot);
        }
    }

    /// Frees a slot that only the swap cache uses, by dropping its page from the cache. Returns `false` if the page has
    /// left the cache, is locked or under writeback, or is in use again.
    #[doc(alias = "__try_to_reclaim_swap")]
    fn reclaim_swap_slot(&self, slot: u32) -> bool {
        let Some(frame) = self.find_page(&self.swap.cache, slot) else { return false };
        let descriptor = &self.frames[frame];
        let is_freed = descriptor.try_lock() && {
            let is_freed = self.has_swap_slot(frame, slot) && self.try_to_free_swap(frame);
            self.unlock_page(frame);
            is_freed
        };
        self.put_page_in_use(frame);
        is_freed
    }

    /// Adds a locked page to the swap cache at `slot`, with a reference for the cache. Returns the shadow that the
    /// cache had at `slot`. If the slot was free until now, this shadow is of another page, the last one that the slot
    /// held, and says nothing about the page that is added.
    ///
    /// # Errors
    /// Fails with the head of a folio that is already in the swap cache at one of the slots.
    pub(crate) fn insert_into_swap_cache(&self, frame: FrameNumber, slot: u32) -> Result<Option<Shadow>, FrameNumber> {
        let shadow = {
            let _guard = self.lock_index(&self.swap.i_pages);
            self.machine.spend(Step::IndexInsert, 1);
            self.frames[frame].get();
            self.frames[frame].set_swap_slot(slot);
            self.frames[frame].set(Flags::SWAPCACHE);
            match self.swap.cache.insert_folio(slot, self.frames.folio(frame)) {
                Ok(shadow) => shadow,
                Err(there) => {
                    self.frames[frame].clear(Flags::SWAPCACHE);
                    self.frames[frame].put();
                    return Err(there);
                }
            }
        };
        self.memory().add_gauge(frame, Gauge::NrFilePages, self.frames.pages(frame) as i64);
        Ok(shadow)
    }

    /// Takes a locked page out of the swap cache and drops the cache's reference. The page becomes dirty, because no
    /// other copy of its contents exists.
    pub(crate) fn delete_from_swap_cache(&self, frame: FrameNumber) {
        let (descriptor, folio, slots) = (&self.frames[frame], self.frames.folio(frame), self.slots_of(frame));
        {
            let _guard = self.lock_index(&self.swap.i_pages);
            self.machine.spend(Step::IndexRemove, 1);
            self.swap.cache.remove_folio(slots.start, folio, None);
            descriptor.clear(Flags::SWAPCACHE);
        }
        self.clear_cached_slots(slots);
        self.memory().add_gauge(frame, Gauge::NrFilePages, -i64::from(folio.pages()));
        descriptor.set(Flags::DIRTY);
        let last = descriptor.put();
        assert!(!last, "the caller holds a reference of {frame}");
    }

    /// Frees the slot of a locked page of the swap cache if no page table needs the slot and the page is not being
    /// written (`try_to_free_swap`). Returns whether the slot was freed.
    pub(crate) fn try_to_free_swap(&self, frame: FrameNumber) -> bool {
        let descriptor = &self.frames[frame];
        if !descriptor.is(Flags::SWAPCACHE) || descriptor.is(Flags::WRITEBACK) {
            return false;
        }
        let is_needed = {
            let slots = self.swap.slots.lock();
            self.slots_of(frame).any(|slot| slots.uses(slot) > 0)
        };
        if is_needed {
            return false;
        }
        self.delete_from_swap_cache(frame);
        true
    }
}
