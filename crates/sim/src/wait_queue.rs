//! Queues of waiting tasks.

use crate::task_id::TaskId;
use machine::Ticket;
use std::cell::{Cell, RefCell};

/// A sleeping task, with the number of its sleep. The sleeps of a task are numbered from 1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sleeper {
    pub(crate) task: TaskId,
    pub(crate) sleep: u64,
}

/// A queue of waiting tasks. It counts how often it was woken. A ticket is the value of this count at the time when the
/// ticket was taken.
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
