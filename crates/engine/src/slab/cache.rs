//! Slabs of kernel objects, as SLUB keeps them: blocks of pages that hold objects of one size.
//!
//! *Flow*: each CPU takes objects from a slab of its own. When this slab is used up, the CPU takes the objects that
//! were freed into it meanwhile; if there are none, it takes the slab that has been partly free for longest, with all
//! its free objects. A block is added as a new slab only if no slab is partly free. A full slab is on no list; the
//! first object that is freed in it puts it on the list of partly free slabs. An empty slab is freed, unless few slabs
//! are partly free. *Locks*: each cache has one lock, inside which no other lock is taken. The lock may be taken inside
//! the slot of a CPU, or inside the lock of a file's index. *Description*: mechanisms/balance-trial, 6; "The SLUB
//! allocator" (LWN, April 2007).

use super::Slab as Floor;
use super::choices::SlabOrder;
use crate::memory::{Gfp, KernelMemory};
use crate::stat::Gauge;
use machine::{FrameNumber, Lock, LockClass, Machine, Order, PAGE_BYTES, PerCpu};
use std::collections::BTreeMap;

/// Largest order of a slab (`slub_max_order`).
const SLAB_ORDER_MAX: u8 = 3;

/// Largest length of the list of partly free slabs at which an empty slab stays on the list, for new objects
/// (`MIN_PARTIAL`; "how many empty slabs shall remain on a node's partial list", the kernel's documentation of
/// `/sys/kernel/slab`). All kernels are assumed to have this value.
const MIN_PARTIAL: usize = 5;

/// Returns the order of SLUB's slabs for objects of `object_bytes` bytes (mechanisms/balance-trial, 6). It is the
/// smallest order that holds `4 × (fls(CPUs) + 1)` objects and wastes at most a sixteenth of the slab. If there is no
/// such order, an eighth and then a quarter of the slab may be wasted. If there is still none, the same limits are
/// tried for fewer objects.
#[must_use]
pub fn slub_order(object_bytes: u64, cpus: usize) -> Order {
    let fls = u64::from(usize::BITS - cpus.leading_zeros());
    let slab_bytes = |order: u8| (PAGE_BYTES as u64) << order;
    let most = (4 * (fls + 1)).min(slab_bytes(SLAB_ORDER_MAX) / object_bytes);
    for objects in (2..=most).rev() {
        for part in [16, 8, 4] {
            let is_good = |order: &u8| {
                let bytes = slab_bytes(*order);
                bytes / object_bytes >= objects && bytes % object_bytes <= bytes / part
            };
            if let Some(order) = (0..=SLAB_ORDER_MAX).find(is_good) {
                return Order(order);
            }
        }
    }
    Order((0..SLAB_ORDER_MAX).find(|order| slab_bytes(*order) >= object_bytes).unwrap_or(SLAB_ORDER_MAX))
}

/// The kind of a slab: whether reclaim can free its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabKind {
    /// Reclaim can free the objects (`SLAB_RECLAIM_ACCOUNT`).
    Reclaimable,
    /// Reclaim cannot free the objects.
    Unreclaimable,
}

impl SlabKind {
    /// Returns the gauge that counts the pages of slabs of this kind.
    #[must_use]
    pub const fn gauge(self) -> Gauge {
        match self {
            Self::Reclaimable => Gauge::NrSlabReclaimable,
            Self::Unreclaimable => Gauge::NrSlabUnreclaimable,
        }
    }

    /// Returns the kind of kernel memory that this kind of slab is. A group counts its kernel memory by these kinds.
    #[must_use]
    pub const fn memory(self) -> KernelMemory {
        match self {
            Self::Reclaimable => KernelMemory::SlabReclaimable,
            Self::Unreclaimable => KernelMemory::SlabUnreclaimable,
        }
    }

    /// Returns the allocation flags with which a slab of this kind requests its block of pages.
    #[must_use]
    pub const fn gfp(self) -> Gfp {
        match self {
            Self::Reclaimable => Gfp::RECLAIMABLE,
            Self::Unreclaimable => Gfp::KERNEL,
        }
    }
}

/// The block of a slab whose last object was freed. The holder of this value frees the block by
/// [`crate::slab::Slab::free_slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct EmptySlab {
    head: FrameNumber,
    order: Order,
    kind: SlabKind,
}

/// The number of a slab among the slabs of its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabNumber(pub u32);

/// The place of a slab, which decides which tasks may take objects from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlabState {
    /// The slab is on no list, because it had no free object when its CPU gave it up. No task takes objects from it.
    Full,
    /// The slab belongs to a CPU, whose tasks take objects from it.
    Cpu,
    /// The slab is on the list of partly free slabs, under this key. Any task may take over the slab for its CPU.
    Partial(u64),
    /// The slab has no place, because its block was freed.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Slab {
    head: FrameNumber,
    order: Order,
    /// Number of objects that fit into the slab.
    room: u32,
    /// Number of free objects. When a slab becomes the current one of a CPU, the CPU takes over the objects that are
    /// free at this time, and [`Current::left`] counts them instead.
    free: u32,
    place: SlabState,
}

/// The slab from which the tasks of a CPU take objects.
#[derive(Clone, Copy, Debug)]
struct Current {
    number: u32,
    /// Number of free objects that only tasks of this CPU may take.
    left: u32,
}

#[derive(Debug, Default)]
struct Slabs {
    slabs: Vec<Slab>,
    /// Slab numbers that are free for new slabs.
    unused: Vec<u32>,
    /// The list of slabs that have free objects and belong to no CPU. The key is a number that grows with each slab
    /// that is put on the list.
    partial: BTreeMap<u64, u32>,
    /// The key that the next slab gets when it is put on the list `partial`.
    next: u64,
}

impl Slabs {
    fn number(&mut self, slab: Slab) -> u32 {
        if let Some(number) = self.unused.pop() {
            self.slabs[number as usize] = slab;
            return number;
        }
        self.slabs.push(slab);
        self.slabs.len() as u32 - 1
    }

    /// Puts a slab at the end of the list of partly free slabs.
    fn list(&mut self, number: u32) {
        self.slabs[number as usize].place = SlabState::Partial(self.next);
        self.partial.insert(self.next, number);
        self.next += 1;
    }

    /// Takes all free objects of a slab for a CPU and returns them; returns `None` if the slab has no free object.
    fn take_over(&mut self, number: u32) -> Option<Current> {
        let slab = &mut self.slabs[number as usize];
        let left = std::mem::take(&mut slab.free);
        slab.place = SlabState::Cpu;
        (left > 0).then_some(Current { number, left })
    }

    /// Takes all free objects of one slab for a CPU that has used up the free objects of its slab, `used_up`. Takes
    /// them from this slab again if other tasks have freed objects of it meanwhile, otherwise from a partly free slab.
    /// Returns `None` if no slab has free objects.
    fn refill(&mut self, used_up: Option<Current>) -> Option<Current> {
        if let Some(Current { number, .. }) = used_up {
            if let Some(current) = self.take_over(number) {
                return Some(current);
            }
            self.slabs[number as usize].place = SlabState::Full;
        }
        let (_, number) = self.partial.pop_first()?;
        self.take_over(number)
    }
}

/// The slabs of one kind of object.
pub struct SlabCache<M: Machine> {
    kind: SlabKind,
    object_bytes: u64,
    order: Order,
    slabs: M::Lock<Slabs>,
    current: M::PerCpu<Option<Current>>,
}

impl<M: Machine> SlabCache<M> {
    pub(super) fn new(machine: &M, kind: SlabKind, object_bytes: u64, order: SlabOrder) -> Self {
        Self {
            kind,
            object_bytes,
            order: match order {
                SlabOrder::SinglePages => Order::ZERO,
                SlabOrder::Slub => slub_order(object_bytes, machine.cpus()),
            },
            slabs: machine.lock(LockClass::Other, Slabs::default()),
            current: machine.per_cpu(|_| None),
        }
    }

    /// Returns whether reclaim can free the objects of this cache.
    #[must_use]
    pub const fn kind(&self) -> SlabKind {
        self.kind
    }

    /// Returns the order of the blocks that the cache asks for; it accepts smaller blocks, too.
    #[must_use]
    pub const fn order(&self) -> Order {
        self.order
    }

    /// Returns whether the caller's CPU can take an object without a new slab from the page allocator.
    pub fn has_free(&self) -> bool {
        let current = self.current.local();
        if current.is_some_and(|current| current.left > 0) {
            return true;
        }
        let slabs = self.slabs.lock();
        current.is_some_and(|current| slabs.slabs[current.number as usize].free > 0) || !slabs.partial.is_empty()
    }

    /// Adds a block as a new slab, from which any task may take objects.
    pub fn add(&self, head: FrameNumber, order: Order) {
        let room = (order.pages() * PAGE_BYTES as u64 / self.object_bytes) as u32;
        let mut slabs = self.slabs.lock();
        let number = slabs.number(Slab { head, order, room, free: room, place: SlabState::Full });
        slabs.list(number);
    }

    /// Takes an object, and returns the number of its slab; returns `None` if there is no free object.
    pub fn take(&self) -> Option<SlabNumber> {
        let mut current = self.current.local();
        if current.is_none_or(|current| current.left == 0) {
            *current = self.slabs.lock().refill(*current);
        }
        let Current { number, left } = current.as_mut()?;
        *left -= 1;
        Some(SlabNumber(*number))
    }

    /// Frees an object. If the slab then has no object and leaves the cache, returns the slab's block, which the caller
    /// has to free.
    pub fn give(&self, number: SlabNumber) -> Option<EmptySlab> {
        let SlabNumber(number) = number;
        if let Some(current) = self.current.local().as_mut()
            && current.number == number
        {
            current.left += 1;
            return None;
        }
        let mut slabs = self.slabs.lock();
        let slab = &mut slabs.slabs[number as usize];
        debug_assert!(
            slab.free < slab.room && slab.place != SlabState::Gone,
            "an object is given back twice: {slab:?}"
        );
        slab.free += 1;
        if slab.place == SlabState::Full {
            slabs.list(number);
        }
        let Slab { head, order, room, free, place } = slabs.slabs[number as usize];
        let SlabState::Partial(at) = place else { return None };
        if free < room || slabs.partial.len() <= MIN_PARTIAL {
            return None;
        }
        slabs.partial.remove(&at);
        slabs.slabs[number as usize].place = SlabState::Gone;
        slabs.unused.push(number);
        Some(EmptySlab { head, order, kind: self.kind })
    }

    /// Returns the number of pages of slabs that have no object in use and are kept for new objects. The number is
    /// exact only while no task takes or frees objects.
    #[must_use]
    pub fn idle_pages(&self) -> u64 {
        let mut left = BTreeMap::new();
        self.current.for_each_cpu(|current| left.extend(current.map(|current| (current.number, current.left))));
        let slabs = self.slabs.lock();
        let is_idle = |(number, slab): &(usize, &Slab)| {
            let left = left.get(&(*number as u32)).copied().unwrap_or(0);
            slab.place != SlabState::Gone && slab.free + left == slab.room
        };
        slabs.slabs.iter().enumerate().filter(is_idle).map(|(_, slab)| slab.order.pages()).sum()
    }
}

impl<M: Machine> Floor<M> {
    /// Frees the block of a slab and returns its number of pages.
    pub fn free_slab(&self, slab: EmptySlab) -> u64 {
        self.free_kernel_block(slab.head, slab.order, slab.kind.gauge());
        slab.order.pages()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_grow_with_the_number_of_cpus() {
        let inode = |cpus| slub_order(1016, cpus);
        assert_eq!([1, 2, 4, 8, 64].map(inode), [1, 2, 2, 3, 3].map(Order));
        assert_eq!(slub_order(192, 8), Order::ZERO, "21 to a page are enough");
        assert_eq!([1, 2, 4].map(|cpus| slub_order(2048, cpus)), [2, 3, 3].map(Order), "8 and 16 objects of 2 KiB");
        assert_eq!(slub_order(8192, 8), Order(3), "at most order 3, however few it holds");
    }

    #[test]
    fn much_waste_is_taken_only_where_no_order_has_less() {
        // 800 bytes: 5 objects in a page would leave 96 bytes, but 8 objects are wanted, and two pages hold 10.
        assert_eq!(slub_order(800, 1), Order(1));
        // 700 bytes: 11 objects in two pages leave 492 bytes, a little under a sixteenth of 8192.
        assert_eq!(slub_order(700, 1), Order(1));
    }
}
