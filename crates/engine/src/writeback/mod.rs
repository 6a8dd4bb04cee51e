//! Writeback: writes dirty pages to their devices.
//!
//! *Holds* the state of each device ([`backing`]): its dirty pages, its speed, its free blocks. *Flow*: a page becomes
//! dirty (`dirty`). A sync, the [`flusher`] or reclaim writes the page; a sync and the flusher write a file in file
//! order (`write`). When the write is complete, the page is clean. [`dirty_limit`] says how many pages may be dirty;
//! `access` throttles writers by this limit and by the [`bandwidth`] of their device. The module is called by
//! `reclaim`, `access`, `interrupt`, and the task of each device's flusher. *Locks*: the page lock, then `writeback`;
//! last the locks of free blocks and of rates. *Description*: mechanisms/reclaim, 21; mechanisms/parallelio-trial, 5.
//!
//! Next: [`crate::lru`], the order in which pages are reclaimed.

pub mod backing;
pub mod bandwidth;
pub mod blocks;
mod bounce;
pub mod choices;
mod dirty;
pub mod dirty_limit;
pub mod flusher;
pub mod group_limit;
mod log_order;
mod stable_pages;
mod write;
mod write_failure;

pub use backing::{Backing, Backings, DeviceLayout};
pub use choices::Choices;
pub use write::WritePage;

use crate::anonymous::Anonymous;
use crate::memory::Groups;
use crate::page_cache::Log;
use machine::atomic::AtomicU64;
use machine::{LockClass, Machine};
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// The layer (*floor*) of the engine that writes dirty pages back.
pub struct Writeback<M: Machine> {
    anonymous: Anonymous<M>,
    /// The section `[writeback]` of the kernel file.
    pub choices: Choices,
    /// The devices, by number.
    pub backings: Backings<M>,
    /// The logs that programs have made for several files ([`Writeback::create_log`]).
    logs: M::Lock<Vec<Weak<Log<M>>>>,
    /// Number of pages that applications hold ([`Writeback::hold_page`]).
    held_pages: Arc<AtomicU64>,
}

impl<M: Machine> Deref for Writeback<M> {
    type Target = Anonymous<M>;
    #[inline]
    fn deref(&self) -> &Anonymous<M> {
        &self.anonymous
    }
}

impl<M: Machine> Writeback<M> {
    /// Returns `self`, so that code of the layers above can name this layer.
    #[inline(always)]
    pub(crate) fn writeback(&self) -> &Self {
        self
    }

    /// Creates this layer of the engine, with devices that have no dirty pages.
    pub fn new(anonymous: Anonymous<M>, choices: Choices, devices: &[DeviceLayout]) -> Self {
        let machine = &anonymous.machine;
        let groups = anonymous.groups.as_ref().map_or(0, Groups::room);
        let backings = Backings::new(machine, devices, groups);
        let logs = machine.lock(LockClass::Other, Vec::new());
        Self { choices, backings, logs, held_pages: Arc::default(), anonymous }
    }
}
