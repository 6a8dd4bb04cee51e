//! The nodes of files' indexes as the kernel objects that they are (`radix_tree_node`): each maps 64 pages, and many lie in
//! a slab. With `mapping.slab_order = "slub"` a slab is a block of several pages, so that whoever fills the page cache asks
//! for such blocks, too. Upper nodes, one for 64 of these, take no memory here.
//!
//! *Flow*: whoever is about to add a page makes sure that there is a place for its node (`IndexNodes::needs_slab`), because
//! that may have to allocate; the node is taken when the first of its pages comes, and given back when the last goes.
//! *Locks*: one of its own, inside that of a file's index. Description: balance notes, 6.

use super::choices::SlabOrder;
use super::object_cache::slub_order;
use machine::{FrameNumber, Lock, LockClass, Machine, Order, PAGE_BYTES};
use std::collections::BTreeSet;

/// Pages that a node maps (`RADIX_TREE_MAP_SIZE`).
pub const NODE_PAGES: u32 = 64;

/// Bytes of a node: 64 pointers, two sets of tags, and what links it (x86-64, 2.6.37).
const NODE_BYTES: u64 = 560;

/// Slabs with a place that are kept though they are empty (`MIN_PARTIAL`).
const MIN_PARTIAL: usize = 5;

/// Where a node lies: its slab's number, or nowhere if no place was left when it was needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePlace(u32);

impl NodePlace {
    const NOWHERE: Self = Self(u32::MAX);

    /// As a number, for [`NodePlace::of_number`].
    pub(super) const fn number(self) -> u32 {
        self.0
    }

    /// The place that had this number.
    pub(super) const fn of_number(number: u32) -> Self {
        Self(number)
    }
}

#[derive(Clone, Copy, Debug)]
struct Slab {
    head: FrameNumber,
    order: Order,
    /// Nodes in it.
    live: u32,
}

impl Slab {
    /// Nodes that it holds at most.
    const fn room(&self) -> u32 {
        (((PAGE_BYTES as u64) << self.order.0) / NODE_BYTES) as u32
    }
}

#[derive(Debug, Default)]
struct Slabs {
    slabs: Vec<Slab>,
    /// Numbers that no slab has.
    unused: Vec<u32>,
    /// Slabs with a place.
    partial: BTreeSet<u32>,
    /// Places in them.
    places: u64,
    nodes: u64,
}

/// The slabs of nodes.
pub struct IndexNodes<M: Machine> {
    order: Option<Order>,
    cpus: usize,
    slabs: M::Lock<Slabs>,
}

impl<M: Machine> IndexNodes<M> {
    pub(super) fn new(machine: &M, order: SlabOrder) -> Self {
        let order = match order {
            SlabOrder::SinglePages => None,
            SlabOrder::Slub => Some(slub_order(NODE_BYTES, machine.cpus())),
        };
        Self { order, cpus: machine.cpus(), slabs: machine.lock(LockClass::Other, Slabs::default()) }
    }

    /// The order of the blocks that it wants; none where nodes take no memory.
    #[must_use]
    pub const fn order(&self) -> Option<Order> {
        self.order
    }

    /// Are there fewer places than CPUs that may want one at the same time?
    pub(crate) fn needs_slab(&self) -> bool {
        self.slabs.lock().places <= self.cpus as u64
    }

    /// Adds a block for nodes.
    pub(crate) fn add_slab(&self, head: FrameNumber, order: Order) {
        let mut slabs = self.slabs.lock();
        let slab = Slab { head, order, live: 0 };
        slabs.places += u64::from(slab.room());
        let number = match slabs.unused.pop() {
            Some(number) => {
                slabs.slabs[number as usize] = slab;
                number
            }
            None => {
                slabs.slabs.push(slab);
                slabs.slabs.len() as u32 - 1
            }
        };
        slabs.partial.insert(number);
    }

    /// Takes a node. Where others were faster, it lies nowhere: the caller holds a lock and cannot allocate.
    pub(super) fn take(&self) -> NodePlace {
        let mut slabs = self.slabs.lock();
        slabs.nodes += 1;
        let Some(&number) = slabs.partial.first() else { return NodePlace::NOWHERE };
        slabs.places -= 1;
        let slab = &mut slabs.slabs[number as usize];
        slab.live += 1;
        if slab.live == slab.room() {
            slabs.partial.remove(&number);
        }
        NodePlace(number)
    }

    /// Gives a node back; its slab's block if that is to be freed.
    pub(super) fn give(&self, place: NodePlace) -> Option<(FrameNumber, Order)> {
        let mut slabs = self.slabs.lock();
        slabs.nodes -= 1;
        if place == NodePlace::NOWHERE {
            return None;
        }
        let number = place.0;
        let slab = &mut slabs.slabs[number as usize];
        slab.live -= 1;
        let Slab { head, order, live } = *slab;
        let room = slab.room();
        slabs.places += 1;
        slabs.partial.insert(number);
        if live > 0 || slabs.partial.len() <= MIN_PARTIAL {
            return None;
        }
        slabs.places -= u64::from(room);
        slabs.partial.remove(&number);
        slabs.unused.push(number);
        Some((head, order))
    }

    /// Nodes that there are.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.slabs.lock().nodes
    }

    /// Pages of slabs without a node, which are kept for nodes to come.
    #[must_use]
    pub fn idle_pages(&self) -> u64 {
        let slabs = self.slabs.lock();
        let idle = slabs.partial.iter().map(|number| slabs.slabs[*number as usize]).filter(|slab| slab.live == 0);
        idle.map(|slab| slab.order.pages()).sum()
    }
}
