//! Per-CPU data: one value for each CPU.
//!
//! Each CPU's value is in a slot, which one task at a time can hold. Usually the holder is the task on the slot's CPU.
//! A task that visits all slots ([`machine::PerCpu::for_each_cpu`]) holds one after the other. While it holds a slot, a
//! task on the slot's own CPU that needs the slot waits. If a slot is already held, the visitor waits for the holder.
//! Interrupts are off on a CPU that holds a slot. Taking a slot and turning interrupts off cost nothing by themselves.

use crate::cause::SLOT;
use crate::cpu::{NO_LANE, cpu_of};
use crate::lock::RawLock;
use crate::schedule::Point;
use crate::world::World;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

struct Slot<T> {
    raw: RawLock,
    value: UnsafeCell<T>,
}

/// A value for each CPU of the simulated machine.
pub struct CpuSlots<T> {
    world: Rc<World>,
    slots: Box<[Slot<T>]>,
}

impl<T> CpuSlots<T> {
    pub(crate) fn new(world: Rc<World>, mut make: impl FnMut(usize) -> T) -> Self {
        let slot = |cpu| Slot { raw: RawLock::new(), value: UnsafeCell::new(make(cpu)) };
        let slots = (0..world.cpus.len()).map(slot).collect();
        Self { world, slots }
    }

    #[inline]
    fn hold(&self, choose: impl FnOnce() -> usize) -> SlotGuard<'_, T> {
        let world = &self.world;
        if let Some(lane) = world.running() {
            // From here on the task stays on its CPU.
            world.mask(lane, SLOT);
            lane.slots.set(lane.slots.get() + 1);
        }
        let cpu = choose();
        let slot = &self.slots[cpu];
        let is_held = world.lane.get() != NO_LANE && slot.raw.is_held_by(world.lane.get());
        assert!(!is_held, "the slot of CPU {cpu} is taken by a task that holds it already");
        world.acquire(&slot.raw, SLOT);
        SlotGuard { world, slot }
    }
}

impl<T: 'static> machine::PerCpu<T> for CpuSlots<T> {
    type Guard<'a> = SlotGuard<'a, T>;

    #[inline]
    fn local(&self) -> SlotGuard<'_, T> {
        self.world.schedule_point(Point::Step);
        self.hold(|| match self.world.lane.get() {
            NO_LANE => 0,
            lane => cpu_of(lane),
        })
    }

    fn for_each_cpu(&self, mut visit: impl FnMut(&mut T)) {
        for cpu in 0..self.slots.len() {
            self.world.schedule_point(Point::Step);
            visit(&mut self.hold(|| cpu));
        }
    }
}

/// Holds a slot of [`CpuSlots`] until it is dropped.
pub struct SlotGuard<'a, T: 'static> {
    world: &'a World,
    slot: &'a Slot<T>,
}

impl<T> Deref for SlotGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the slot is held by this guard, one holder at a time, and a world stays on one thread.
        unsafe { &*self.slot.value.get() }
    }
}

impl<T> DerefMut for SlotGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.slot.value.get() }
    }
}

impl<T> Drop for SlotGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.world.release(&self.slot.raw, SLOT)
            && let Some(lane) = self.world.running()
        {
            lane.slots.set(lane.slots.get() - 1);
            self.world.unmask(lane);
            self.world.look_up();
        }
    }
}
