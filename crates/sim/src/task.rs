//! Tasks: kernel tasks and workloads alike.

use crate::fiber::{Fiber, Job};
use crate::plug::Plug;
use crate::record::profile::NodeId;
use crate::rng::Rng;
use crate::task_id::TaskId;
use crate::wait_queue::WaitQueue;
use machine::WaitReason;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The task is in a CPU's queue.
    Queued,
    /// The task is on a CPU, running or spinning.
    OnCpu,
    /// Waits to be woken; a kill ends it.
    Sleeping,
    /// Waits for a place in a device's queue; a kill does not end it.
    Uninterruptible,
    /// The task has returned.
    Finished,
}

pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) name: Rc<str>,
    pub(crate) state: Cell<State>,
    /// Body of the task, until it starts.
    pub(crate) job: Cell<Option<Job>>,
    /// Stack of the task, from its start on.
    pub(crate) fiber: Cell<*const Fiber>,
    /// Position in the profile while the task is off its CPU.
    pub(crate) node: Cell<NodeId>,
    pub(crate) root: NodeId,
    /// The memory node to whose CPUs it keeps, if it does.
    pub(crate) bound_to: Option<usize>,
    /// The CPU that it was last on.
    pub(crate) cpu: Cell<usize>,
    pub(crate) runtime: Cell<u64>,
    /// The task's place in the order of all tasks, the least first, where the schedule is by rank.
    pub(crate) rank: Cell<u64>,
    /// Time that it was in the middle of spending when it was put off.
    pub(crate) owed: Cell<u64>,
    pub(crate) cpu_time: Cell<u64>,
    pub(crate) started_at: u64,
    pub(crate) slept_at: Cell<u64>,
    /// Time at which the task came into its CPU's queue.
    pub(crate) queued_at: Cell<u64>,
    /// Counts its sleeps, so that a late waker or timer does not end a later one.
    pub(crate) sleeps: Cell<u64>,
    /// Reason of its sleep, if it gave one, and the time since when.
    pub(crate) waits: Cell<Option<(WaitReason, u64)>>,
    pub(crate) is_killed: Cell<bool>,
    /// Stalls for memory that it is in, within each other.
    pub(crate) stalls: Cell<u32>,
    /// `true` if the task does not count for pressure.
    pub(crate) is_aside: Cell<bool>,
    /// The requests that it holds back.
    pub(crate) plug: RefCell<Plug>,
    pub(crate) rng: RefCell<Rng>,
    pub(crate) ended: WaitQueue,
}
