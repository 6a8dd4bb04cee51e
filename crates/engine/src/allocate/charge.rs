//! Charges of pages to the memory control group of the task that requests the pages (mechanisms/groups, 1 to 4).
//!
//! If a charge would exceed the limit of the group or of an ancestor, the task first reclaims in the subtree of the
//! group that has this limit (`try_charge`). A charge that exceeds only `memory.high` of a group succeeds. The task
//! then records the number of pages, and is throttled for them before it leaves the engine ([`super::throttle_high`]).

use super::limit::RETRIES_MAX;
use super::out_of_memory::{Exhausted, Hope};
use super::slow::fruitless_wait;
use super::{Allocate, OutOfMemory};
use crate::memory::group::kernel::STACK_BYTES;
use crate::memory::{Full, Gfp, GroupEvent, GroupId, Groups, KernelMemory, Limit, MigrateType};
use crate::reclaim::control::COSTLY_ORDER;
use crate::reclaim::direct::Progress;
use crate::reclaim::group::GroupReclaim;
use crate::stat::Event;
use crate::task::Task;
use machine::note::Work;
use machine::{FrameNumber, Machine, Order, Stalled, WaitReason, Waiting};

impl<M: Machine> Allocate<M> {
    /// Charges 2^`order` pages to the group of the task, if the pages are for files, programs, or page tables. Returns
    /// the group that was charged, or the root group if no group was charged. The calling task may sleep, if `gfp`
    /// allows it.
    ///
    /// # Errors
    /// Fails when the pages would exceed the limit of the group or of an ancestor, and reclaim did not free enough
    /// pages.
    #[inline]
    #[doc(alias = "mem_cgroup_charge")]
    pub(super) fn charge(&self, task: &mut Task, gfp: Gfp, order: Order) -> Result<GroupId, OutOfMemory> {
        match &self.groups {
            Some(groups) if !task.group.is_root() && (gfp.migrate == MigrateType::Movable || gfp.account) => {
                self.charge_group(groups, task, gfp, order)
            }
            Some(_) | None => Ok(GroupId::ROOT),
        }
    }

    /// Ends a charge: records the group in the descriptor of the page `found`, or takes back the charge if `found` is
    /// `None`.
    #[inline]
    pub(super) fn commit_charge(&self, group: GroupId, order: Order, found: Option<FrameNumber>) {
        let Some(groups) = self.groups.as_ref().filter(|_| !group.is_root()) else { return };
        match found {
            Some(head) => self.frames.set_group(head, order, group),
            None => groups.uncharge(group, order.pages()),
        }
    }

    /// Charges a kernel object of `bytes` bytes, which the task is about to allocate, to the task's group. Returns the
    /// group to which the object belongs until [`Memory::free_object`](crate::memory::Memory::free_object) frees it.
    /// *May sleep.*
    ///
    /// # Errors
    /// When the pages would exceed the limit of the group or of an ancestor, and reclaim did not free enough pages.
    pub fn charge_object(&self, task: &mut Task, kind: KernelMemory, bytes: u64) -> Result<GroupId, OutOfMemory> {
        let Some(groups) = self.groups.as_ref().filter(|_| !task.group.is_root()) else { return Ok(GroupId::ROOT) };
        let group = task.group;
        let charged = self.charge_pages_for(groups, task, bytes)?;
        groups.take_object(group, kind, bytes, charged);
        Ok(group)
    }

    /// Charges the pages for a kernel object of `bytes` bytes to the task's group in advance. The object itself is
    /// taken later, under a lock. *May sleep.*
    ///
    /// # Errors
    /// As [`Allocate::charge_object`].
    pub(crate) fn charge_for_object(&self, task: &mut Task, bytes: u64) -> Result<(), OutOfMemory> {
        let Some(groups) = self.groups.as_ref().filter(|_| !task.group.is_root()) else { return Ok(()) };
        let charged = self.charge_pages_for(groups, task, bytes)?;
        groups.take_object(task.group, KernelMemory::SlabReclaimable, 0, charged);
        Ok(())
    }

    /// Charges the stack of a new task to the group of the calling task, and returns this group. When the new task has
    /// ended, the caller passes the group and [`STACK_BYTES`] to
    /// [`Memory::free_object`](crate::memory::Memory::free_object). If a limit refuses the stack, the stack is charged
    /// over the limit; Linux would not start the task. Stacks take no frames: their frames belong to the memory that
    /// the kernel uses before a run. *May sleep.*
    pub fn charge_stack(&self, task: &mut Task) -> GroupId {
        let kind = KernelMemory::KernelStack;
        self.charge_object(task, kind, STACK_BYTES).unwrap_or_else(|_| {
            self.groups.iter().for_each(|groups| groups.take_object(task.group, kind, STACK_BYTES, 0));
            task.group
        })
    }

    /// Charges the task's group, page by page, for an object of `bytes` bytes. Bytes that the group has already paid
    /// for and does not use yet are used first. Returns the number of charged pages.
    ///
    /// # Errors
    /// When the group's limit refuses a page. No page is charged then.
    fn charge_pages_for(&self, groups: &Groups<M>, task: &mut Task, bytes: u64) -> Result<u64, OutOfMemory> {
        let group = task.group;
        let pages = groups.pages_lacking(group, bytes);
        for charged in 0..pages {
            if let Err(refused) = self.charge_group(groups, task, Gfp::KERNEL, Order::ZERO) {
                groups.uncharge(group, charged);
                return Err(refused);
            }
        }
        Ok(pages)
    }

    fn charge_group(
        &self,
        groups: &Groups<M>,
        task: &mut Task,
        gfp: Gfp,
        order: Order,
    ) -> Result<GroupId, OutOfMemory> {
        let group = task.group;
        let charged = match groups.charge(group, order.pages()) {
            Ok(charged) => charged,
            // A task that itself makes room, or that is dying, may exceed the limit.
            Err(_) if task.may_use_reserve || self.machine.is_killed() => {
                groups.add_forced(group, order.pages());
                return Ok(group);
            }
            Err(full) => {
                let (began, mut work) = (self.machine.now(), Work::default());
                let made = self.make_room_in(groups, full, task, gfp, order, &mut work);
                self.note_slow_request(began, gfp, order, made.is_ok(), &work);
                made?
            }
        };
        if charged > 0 && groups.is_over_high(group) {
            task.over_high_pages += charged;
        }
        Ok(group)
    }

    /// Reclaims in the group `full`, whose limit refused the charge of the pages, until the pages can be charged. If the
    /// limit is that of memory and swap together, swaps no page out, since that would not lower their sum. Returns the
    /// number of pages by which the charge raised the groups' counters.
    fn make_room_in(
        &self,
        groups: &Groups<M>,
        mut full: Full,
        task: &mut Task,
        gfp: Gfp,
        order: Order,
        work: &mut Work,
    ) -> Result<u64, OutOfMemory> {
        let pages = order.pages();
        let failed = |Full { group, limit }, event| {
            self.stat.count(event, 1);
            Err(OutOfMemory { order, full: Some((group, limit, groups.limit(group, limit))) })
        };
        let (mut retries, mut has_drained, mut fruitless_rounds) = (RETRIES_MAX, false, 0);
        loop {
            let is_of_memory = full.limit != Limit::Memsw;
            if is_of_memory {
                groups.count(full.group, GroupEvent::Max);
            } else {
                groups.count_memsw_failure(full.group);
            }
            if !gfp.wait {
                return failed(full, Event::AllocFailed);
            }
            let wanted = GroupReclaim { group: full.group, pages, gfp, may_swap: is_of_memory, swappiness: None };
            let stalled = Stalled::begin(&self.machine);
            let freed = self.try_to_free_group_pages(task, wanted, work);
            drop(stalled);
            if !has_drained && groups.margin(full.group) < pages {
                groups.drain_stocks();
                has_drained = true;
                // The attempt with the drained pages counts as none.
                retries += 1;
            }
            match groups.charge(task.group, pages) {
                Ok(charged) => return Ok(charged),
                Err(at) => full = at,
            }
            if self.machine.is_killed() {
                groups.add_forced(task.group, pages);
                return Ok(pages);
            }
            if gfp.no_retry {
                return failed(full, Event::AllocFailed);
            }
            if freed > 0 && order <= COSTLY_ORDER {
                continue;
            }
            if retries == 0 {
                let group = full.group;
                groups.count(group, GroupEvent::Oom);
                if self.kill_for(task, Exhausted::Group(group), gfp, order, || groups.margin(group) >= pages)
                    == Hope::Memory
                {
                    retries = RETRIES_MAX;
                    continue;
                }
                let event = if order == Order::ZERO { Event::OutOfMemory } else { Event::AllocFailed };
                return failed(full, event);
            }
            retries -= 1;
            if freed == 0 {
                fruitless_rounds += 1;
                self.wait_for_others(fruitless_rounds);
            }
        }
    }

    /// Prepares a task for its next reclaim from a control group, after `rounds` reclaims of the group that freed
    /// nothing. If a process exists that may be killed, only does what the choice `allocate.fruitless_reclaim` says.
    /// Otherwise (always in the library), puts the pages of the per-CPU batches on the LRU lists, and sleeps for a
    /// short time: other tasks may hold pages that can be freed a moment later, for example pages that are being read.
    fn wait_for_others(&self, rounds: u32) {
        if self.anonymous().has_mortal_processes() {
            self.list_for_next(Progress::Nothing);
            return;
        }
        self.lru().drain_all();
        let _waiting = Waiting::begin(&self.machine, WaitReason::FruitlessReclaim);
        self.machine.pause(fruitless_wait(rounds));
    }
}
