//! Queues of waiting tasks.

use crate::task_id::TaskId;
use machine::Ticket;
use std::cell::{Cell, RefCell};

/// A sleeping task, with the number of its sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sleeper {
    pub(crate) task: TaskId,
    pub(crate) sleep: u64,
}

/// A queue of waiting tasks. It counts its wakes; a ticket is the count at one time.
#[derive(Default)]
pub struct WaitQueue {
    pub(crate) wakes: Cell<u64>,
    pub(crate) sleepers: RefCell<Vec<Sleeper>>,
}

impl WaitQueue {
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.wakes.get())
    }
}
