//! A disk, with the tasks that wait for places in its queue.

use crate::disk::{Disk, DiskConfig, Finished};
use crate::stamps::BlockStamps;
use crate::wait_queue::Sleeper;
use machine::Request;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

pub(crate) struct Device {
    pub(crate) disk: RefCell<Disk>,
    /// The CPU that takes the disk's interrupts.
    pub(crate) cpu: usize,
    /// Time of the disk's next event, ps; `u64::MAX` if there is none.
    pub(crate) armed: Cell<u64>,
    pub(crate) finished: RefCell<Vec<Finished>>,
    /// `true` while the disk's interrupt waits to be handled.
    pub(crate) is_raised: Cell<bool>,
    /// Tasks that wait for a place in the disk's queue, in order of arrival: one list for each [`machine::Operation`].
    pub(crate) waiters: [RefCell<VecDeque<Sleeper>>; 2],
    pub(crate) was_congested: [Cell<bool>; 2],
    pub(crate) stamps: RefCell<BlockStamps>,
}

impl Device {
    pub(crate) fn new(config: &DiskConfig, cpu: usize) -> Self {
        Self {
            disk: RefCell::new(Disk::new(config)),
            cpu,
            armed: Cell::new(u64::MAX),
            finished: RefCell::default(),
            is_raised: Cell::new(false),
            waiters: Default::default(),
            was_congested: Default::default(),
            stamps: RefCell::default(),
        }
    }

    pub(crate) fn is_due(&self, time: u64) -> bool {
        self.armed.get() == time
    }

    /// Returns whether the device takes the request at once. A request that merges into a queued request needs no place
    /// in the queue. Any other request needs a free place, and waits behind the tasks that already wait for a place.
    pub(crate) fn takes_at_once(&self, request: &Request) -> bool {
        let disk = self.disk.borrow();
        let nobody_waits = self.waiters[request.operation as usize].borrow().is_empty();
        disk.can_take(request) && (nobody_waits || !disk.has_room(request.operation))
    }
}
