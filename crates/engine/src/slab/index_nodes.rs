//! The nodes of files' indexes as kernel objects (`radix_tree_node`). Each node maps 64 pages, and many nodes lie in
//! one slab. With `slab.order = "slub"`, a slab is a block of several pages, so filling the page cache requests such
//! blocks, too. The upper nodes of an index, one for each 64 of these nodes, take no memory in this model.
//!
//! *Flow*: before a task adds a page it makes sure that there is room for the node ([`SlabCache::has_free`]), because
//! making room may need an allocation. The node is taken when its first page is added, and freed when its last page
//! leaves.

use super::cache::{EmptySlab, SlabCache, SlabKind, SlabNumber};
use super::choices::SlabOrder;
use crate::memory::GroupId;
use machine::Machine;
use machine::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of pages for which a node of a file's index has slots (`RADIX_TREE_MAP_SIZE`).
pub const NODE_PAGES: u32 = 64;

/// Size of a node of an index, in bytes. A node has 64 pointers, three sets of tags, and links to other nodes (Linux
/// 2.6.37 on x86-64).
pub(crate) const NODE_BYTES: u64 = 560;

/// The place of an index node: the number of its slab. A special value says that the node has no place, because no slab
/// had a free object when the node was needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePlace {
    slab: u32,
    /// The memory control group to which the index node is charged.
    pub(crate) group: GroupId,
}

impl NodePlace {
    const NOWHERE: u32 = u32::MAX;

    /// Returns the place as a number for [`NodePlace::of_number`].
    pub(crate) const fn number(self) -> u64 {
        (self.group.0 as u64) << 32 | self.slab as u64
    }

    /// Returns the place for a number that [`NodePlace::number`] returned.
    pub(crate) const fn of_number(number: u64) -> Self {
        Self { slab: number as u32, group: GroupId((number >> 32) as u16) }
    }
}

/// The slabs in which the nodes of files' indexes lie.
pub struct IndexNodes<M: Machine> {
    /// The slab cache from which the nodes of indexes are allocated; `None` if nodes take no memory.
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

    /// Returns the slab cache from which index nodes are allocated; `None` if index nodes take no memory.
    #[must_use]
    pub const fn slabs(&self) -> Option<&SlabCache<M>> {
        self.slabs.as_ref()
    }

    /// Takes an index node (`radix_tree_node`) for a group, and returns its place. If other tasks have taken the last
    /// free objects of the slabs, the node takes no memory: the caller holds a lock, so it cannot allocate a slab.
    pub(crate) fn take(&self, group: GroupId) -> NodePlace {
        self.nodes.fetch_add(1, Relaxed);
        let slab = self.slabs.as_ref().and_then(SlabCache::take);
        NodePlace { slab: slab.map_or(NodePlace::NOWHERE, |SlabNumber(number)| number), group }
    }

    /// Frees an index node. If the node's slab then has no object and leaves the slab cache, returns the slab's block,
    /// which the caller has to free.
    pub(crate) fn give(&self, place: NodePlace) -> Option<EmptySlab> {
        self.nodes.fetch_sub(1, Relaxed);
        if place.slab == NodePlace::NOWHERE {
            return None;
        }
        self.slabs.as_ref()?.give(SlabNumber(place.slab))
    }

    /// Returns the number of nodes of all indexes.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.nodes.load(Relaxed)
    }
}
