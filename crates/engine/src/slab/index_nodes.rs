//! The nodes of files' indexes as kernel objects (`radix_tree_node`): each maps 64 pages, and many lie in a slab. With
//! `slab.order = "slub"` a slab is a block of several pages, so filling the page cache requests such blocks, too. Upper
//! nodes, one for each 64 of these nodes, take no memory here.
//!
//! *Flow*: before a task adds a page it makes sure that there is room for the node ([`SlabCache::has_free`]), because
//! making room may need an allocation. The node is taken when its first page comes, and freed when its last page
//! leaves.

use super::cache::{EmptySlab, SlabCache, SlabKind, SlabNumber};
use super::choices::SlabOrder;
use crate::memory::GroupId;
use machine::Machine;
use machine::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of pages that a node maps (`RADIX_TREE_MAP_SIZE`).
pub const NODE_PAGES: u32 = 64;

/// Bytes of a node: 64 pointers, three sets of tags, and the links to other nodes (x86-64, 2.6.37).
pub(crate) const NODE_BYTES: u64 = 560;

/// The place of a node: the number of its slab, or nowhere if no slab had room when it was needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePlace {
    slab: u32,
    /// The group to which the node is charged.
    pub(crate) group: GroupId,
}

impl NodePlace {
    const NOWHERE: u32 = u32::MAX;

    /// Returns the place as a number for [`NodePlace::of_number`].
    pub(crate) const fn number(self) -> u64 {
        (self.group.0 as u64) << 32 | self.slab as u64
    }

    /// Returns the place that had this number.
    pub(crate) const fn of_number(number: u64) -> Self {
        Self { slab: number as u32, group: GroupId((number >> 32) as u16) }
    }
}

/// The slabs of nodes.
pub struct IndexNodes<M: Machine> {
    /// `None` if nodes take no memory.
    slabs: Option<SlabCache<M>>,
    nodes: AtomicU64,
}

impl<M: Machine> IndexNodes<M> {
    pub(super) fn new(machine: &M, order: SlabOrder) -> Self {
        let slabs = match order {
            SlabOrder::Slub => Some(SlabCache::new(machine, SlabKind::Reclaimable, NODE_BYTES, order)),
            SlabOrder::SinglePages => None,
        };
        Self { slabs, nodes: AtomicU64::new(0) }
    }

    /// Returns the cache in which nodes lie; `None` if nodes take no memory.
    #[must_use]
    pub const fn slabs(&self) -> Option<&SlabCache<M>> {
        self.slabs.as_ref()
    }

    /// Takes a node for a group and returns its place. If other tasks were faster and no slab has room, the node lies
    /// nowhere, because the caller holds a lock and cannot allocate.
    pub(crate) fn take(&self, group: GroupId) -> NodePlace {
        self.nodes.fetch_add(1, Relaxed);
        let slab = self.slabs.as_ref().and_then(SlabCache::take);
        NodePlace { slab: slab.map_or(NodePlace::NOWHERE, |SlabNumber(number)| number), group }
    }

    /// Frees a node. Returns the block of the node's slab if the caller has to free this block.
    pub(crate) fn give(&self, place: NodePlace) -> Option<EmptySlab> {
        self.nodes.fetch_sub(1, Relaxed);
        if place.slab == NodePlace::NOWHERE {
            return None;
        }
        self.slabs.as_ref()?.give(SlabNumber(place.slab))
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.nodes.load(Relaxed)
    }
}
