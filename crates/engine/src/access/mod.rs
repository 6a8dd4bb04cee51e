//! Access: the operations of a task on memory and files.
//!
//! *Flow*: [`read`] and [`readahead`] read a file, [`at_once`] does so for callers that must not sleep, [mod@write]
//! writes it, [`length`] truncates it, [`dirty_throttle`] slows its writers down. [`fault`] handles page faults in a
//! region, [`map_file`] faults in mapped files.
//! [`khugepaged`] makes huge pages of small ones. [mod@send] holds data that leaves by the network. *Called by* the
//! tasks that the simulator or the library runs. *Locks*: page locks, one at a time; `page_table` inside.
//! *Description*: mechanisms/reclaim, 9, 15, 20, 21.2; mechanisms/parallelio-trial, 5 (swap-in).
//!
//! Next: nothing; this is the last module, where each access to a page begins and ends.

pub mod at_once;
pub mod choices;
pub mod direct_io;
pub mod dirty_throttle;
pub mod dirty_write;
pub mod error;
pub mod fault;
mod fork;
mod kernel_tasks;
pub mod khugepaged;
pub mod length;
pub mod map_file;
pub mod pin;
mod process;
pub mod read;
pub mod readahead;
pub mod send;
pub mod swap_in;
pub mod unmap;
mod vmstat;
pub mod write;

pub use at_once::{AtOnce, Tries};
pub use choices::Choices;
pub use error::Error;
pub use kernel_tasks::KernelTask;
pub use length::HeldEnd;
pub use pin::PinnedForWrite;
pub use readahead::{ReadPattern, ReadState};
pub use send::Unacknowledged;

use crate::allocate::{Allocate, OutOfMemory};
use crate::memory::{Block, Gfp, OWNERS_MAX};
use crate::page_cache::File;
use crate::slab::index_nodes::NODE_BYTES;
use crate::slab::object_cache::{Added, NoPlace, ObjectKind};
use crate::stat::Gauge;
use crate::task::Task;
use machine::atomic::Ordering;
use machine::{DeviceId, Machine, Order, PAGE_BYTES};
use std::ops::Deref;
use std::sync::Arc;

/// The top layer (*floor*) of the engine: reads, writes, touches and faults of tasks.
pub struct Access<M: Machine> {
    allocate: Allocate<M>,
    /// The section `[access]` of the kernel file.
    pub choices: Choices,
    khugepaged: khugepaged::Done,
}

impl<M: Machine> Deref for Access<M> {
    type Target = Allocate<M>;
    #[inline]
    fn deref(&self) -> &Allocate<M> {
        &self.allocate
    }
}

impl<M: Machine> Access<M> {
    /// Creates this layer (*floor*) of the engine. Khugepaged's counts begin at 0.
    pub fn new(allocate: Allocate<M>, choices: Choices) -> Self {
        Self { allocate, choices, khugepaged: khugepaged::Done::default() }
    }

    fn out_of_memory(&self, cause: OutOfMemory) -> Error {
        Error::OutOfMemory {
            cause,
            free_pages: self.memory().gauge(Gauge::NrFreePages),
            free_slots: self.swap.free_slots(),
            total_slots: self.swap.total_slots(),
            unwritten_pages: self.memory().gauge(Gauge::NrDirty) + self.memory().gauge(Gauge::NrWriteback),
            may_swap: self.lru().is_swappy(),
        }
    }

    /// Creates an empty file on a device, with its inode and directory entry. The file is not open yet. This function
    /// may sleep.
    ///
    /// # Errors
    /// When memory for the inode or the directory entry is exhausted.
    pub fn create(&self, task: &mut Task, device: DeviceId) -> Result<Arc<File<M>>, Error> {
        let file = self.page_cache().create_file(device);
        let added = [ObjectKind::Inode, ObjectKind::Dentry]
            .into_iter()
            .try_for_each(|kind| self.add_object(task, kind, Some(file.id)));
        match added {
            Ok(()) => Ok(file),
            Err(error) => {
                self.unlink(&file);
                Err(error)
            }
        }
    }

    /// Opens a file. While the file has been opened more often than closed, shrinkers keep its inode, and so its pages.
    /// This function may sleep.
    ///
    /// # Errors
    /// When the inode or directory entry was dropped, and memory for a new one is exhausted.
    pub fn open(&self, task: &mut Task, file: &File<M>) -> Result<(), Error> {
        file.handles.fetch_add(1, Ordering::AcqRel);
        for kind in [ObjectKind::Inode, ObjectKind::Dentry] {
            while !self.object_caches.get(kind).hold(file.id) {
                if let Err(error) = self.add_object(task, kind, Some(file.id)) {
                    self.close(file);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Looks a file up, as a walk of a file system does. For such a file, the engine keeps only the inode and the
    /// directory entry. They are in use only during this call, and may be dropped afterwards. Looked-up files are
    /// numbered separately from all other files. Returns whether the inode had to be created; if so, a machine that
    /// simulates the device has to simulate a read of the inode. This function may sleep.
    ///
    /// # Errors
    /// When memory for the inode or the directory entry is exhausted.
    ///
    /// # Panics
    /// When the number is [`OWNERS_MAX`] or more.
    pub fn look_up(&self, task: &mut Task, number: u32) -> Result<bool, Error> {
        assert!(number < OWNERS_MAX, "files that are not opened have numbers below {OWNERS_MAX}, not {number}");
        let id = u32::MAX - number;
        let mut was_dropped = false;
        for kind in [ObjectKind::Inode, ObjectKind::Dentry] {
            while !self.object_caches.get(kind).hold(id) {
                was_dropped |= kind == ObjectKind::Inode;
                if let Err(error) = self.add_object(task, kind, Some(id)) {
                    self.object_caches.get(ObjectKind::Inode).let_go(id);
                    return Err(error);
                }
            }
        }
        self.object_caches.get(ObjectKind::Dentry).let_go(id);
        Ok(was_dropped)
    }

    /// Allocates a block for a user outside of the engine. The user returns it by
    /// [`Memory::take_back`](crate::memory::Memory::take_back). This function may sleep if `gfp` allows it.
    ///
    /// # Errors
    /// Returns the errors of [`Allocate::allocate`].
    pub fn take_block(&self, task: &mut Task, gfp: Gfp, order: Order) -> Result<Block, OutOfMemory> {
        self.allocate(task, gfp, order).map(|head| self.memory().lend(head, order))
    }

    /// Closes a file that [`Access::open`] opened.
    pub fn close(&self, file: &File<M>) {
        if file.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.object_caches.get(ObjectKind::Dentry).let_go(file.id);
        }
    }

    /// Adds an object to an object cache, and first allocates a slab if no slab of the cache has a free place. This
    /// function may sleep.
    ///
    /// # Errors
    /// When memory is exhausted.
    pub fn add_object(&self, task: &mut Task, kind: ObjectKind, file: Option<u32>) -> Result<(), Error> {
        let cache = self.object_caches.get(kind);
        let (memory, bytes) = (cache.slabs().kind().memory(), kind.bytes());
        let group = self.charge_object(task, memory, bytes).map_err(|cause| self.out_of_memory(cause))?;
        loop {
            match cache.try_add(file, group) {
                Ok(Added::New) => return Ok(()),
                Ok(Added::Known(slab)) => {
                    self.memory().free_object(group, memory, bytes);
                    if let Some(slab) = slab {
                        self.free_slab(slab);
                    }
                    return Ok(());
                }
                Err(NoPlace) => {
                    if let Err(cause) = self.add_slab(task, cache.slabs()) {
                        self.memory().free_object(group, memory, bytes);
                        return Err(self.out_of_memory(cause));
                    }
                }
            }
        }
    }

    /// Makes sure that the index of a file has a node and a slot for a page that is about to be added. This function
    /// may sleep.
    ///
    /// # Errors
    /// When memory is exhausted, or the system has no memory for the index at this distance from the file's start.
    pub(super) fn prepare_node(&self, task: &mut Task, file: &File<M>, page: u32) -> Result<(), Error> {
        let no_index = || Error::NoIndex { file: file.id, offset: u64::from(page) * PAGE_BYTES as u64 };
        if !file.index.prepare(page) {
            return Err(no_index());
        }
        let Some(slabs) = self.index_nodes.slabs() else { return Ok(()) };
        if !file.index.prepare_node(page) {
            return Err(no_index());
        }
        let is_wanted = file.index.lacks_node(page);
        if is_wanted {
            self.charge_for_object(task, NODE_BYTES).map_err(|cause| self.out_of_memory(cause))?;
        }
        if is_wanted && !slabs.has_free() {
            self.add_slab(task, slabs).map_err(|cause| self.out_of_memory(cause))?;
        }
        Ok(())
    }

    /// Removes a file: drops all its pages without writing the dirty ones, and frees its blocks. The file must not be
    /// in use. This function may sleep.
    pub fn unlink(&self, file: &File<M>) {
        self.lru().truncate_pages(file, 0);
        for cache in self.object_caches.iter() {
            let Some((group, slab)) = cache.remove_file(file.id) else { continue };
            self.memory().free_object(group, cache.slabs().kind().memory(), cache.kind().bytes());
            if let Some(slab) = slab {
                self.free_slab(slab);
            }
        }
        self.writeback().give_file_blocks(file, 0..file.end_page());
        self.page_cache().forget_file(file);
    }

    /// Drops the clean pages of all files (`drop_caches`) and returns their number. Does not drop kernel objects;
    /// [`Reclaim::drop_slabs`](crate::reclaim::Reclaim::drop_slabs) does.
    pub fn drop_caches(&self) -> u64 {
        self.lru().drain_all();
        self.page_cache().files().iter().map(|file| self.lru().invalidate_file(file)).sum()
    }
}
