//! Slab: kernel objects of one size, many to a block of pages.
//!
//! *Holds* the caches of objects that reclaim can shrink ([`object_cache`]), the nodes of files' indexes
//! ([`index_nodes`]), and the buffers of packets. All of them keep their slabs in one way ([`cache`]). *Flow*: a task
//! that needs an object takes one. If no slab has a place for an object, a higher layer of the engine allocates a block
//! and adds it as a slab. A task that frees the last object of a slab gets the slab's block, and frees the block. The
//! module is called by [`crate::page_cache`], whose indexes have nodes, and by `reclaim` and `access`. *Locks*: each
//! cache has one lock, and no other lock is taken inside it. *Description*: mechanisms/reclaim, 19;
//! mechanisms/balance-trial, 6.
//!
//! Next: [`crate::page_cache`], the pages of files.

pub mod cache;
pub mod choices;
pub mod index_nodes;
pub mod object_cache;

pub use cache::{EmptySlab, SlabCache, SlabKind, SlabNumber};
pub use choices::Choices;

use crate::memory::Memory;
use index_nodes::IndexNodes;
use machine::Machine;
use object_cache::ObjectCaches;
use std::ops::Deref;

/// Size of the buffer of an Ethernet packet (`kmalloc-2048`), in bytes: the packet's 1500 bytes and a header. The size
/// is assumed; for long headers a larger buffer would be needed.
const SOCKET_BUFFER_BYTES: u64 = 2048;

/// The layer (*floor*) of the engine that holds kernel objects.
pub struct Slab<M: Machine> {
    memory: Memory<M>,
    /// The section `[slab]` of the kernel file.
    pub choices: Choices,
    /// The caches of the kernel objects that reclaim can free: dentries and inodes.
    pub object_caches: ObjectCaches<M>,
    /// The memory in which packets lie until they are acknowledged.
    pub socket_buffers: SlabCache<M>,
    /// The memory of the nodes of the indexes that find a file's pages (in Linux, the nodes of the radix tree or
    /// XArray).
    pub index_nodes: IndexNodes<M>,
}

impl<M: Machine> Deref for Slab<M> {
    type Target = Memory<M>;
    #[inline]
    fn deref(&self) -> &Memory<M> {
        &self.memory
    }
}

impl<M: Machine> Slab<M> {
    /// Creates this layer of the engine, without objects.
    pub fn new(memory: Memory<M>, choices: Choices) -> Self {
        let machine = &memory.machine;
        let order = choices.order;
        Self {
            choices,
            object_caches: ObjectCaches::new(machine, order),
            socket_buffers: SlabCache::new(machine, SlabKind::Unreclaimable, SOCKET_BUFFER_BYTES, order),
            index_nodes: IndexNodes::new(machine, order),
            memory,
        }
    }
}
