//! Tasks of the machine: kernel tasks and workloads.

use crate::fiber::{Fiber, Job};
use crate::plug::Plug;
use crate::record::pressure::GroupPressure;
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
    /// The task waits to be woken; a kill ends the wait.
    Sleeping,
    /// The task waits for a place in a device's queue; a kill does not end the wait.
    Uninterruptible,
    /// The task has returned.
    Finished,
}

pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) name: Rc<str>,
    pub(crate) state: Cell<State>,
    /// The body of the task, until the task starts.
    pub(crate) job: Cell<Option<Job>>,
    /// The fiber (coroutine) that runs the task; null before the task starts.
    pub(crate) fiber: Cell<*const Fiber>,
    /// Call path of the task while it is off its CPU, as a node of the profile.
    pub(crate) node: Cell<NodeId>,
    pub(crate) root: NodeId,
    /// The memory node on whose CPUs the task must run; `None` if it may run on any CPU.
    pub(crate) bound_to: Option<usize>,
    /// The CPU that the task runs on or waits for. If the task sleeps, the CPU that it was on last.
    pub(crate) cpu: Cell<usize>,
    pub(crate) runtime: Cell<u64>,
    /// The task's place in the order of all tasks, if the schedule is by rank. The task with the least rank runs first.
    pub(crate) rank: Cell<u64>,
    /// The rest of a step's time, ps, if the task was taken off its CPU in the middle of the step; otherwise 0.
    pub(crate) owed: Cell<u64>,
    pub(crate) cpu_time: Cell<u64>,
    pub(crate) started_at: u64,
    pub(crate) slept_at: Cell<u64>,
    /// Time at which the task came into its CPU's queue.
    pub(crate) queued_at: Cell<u64>,
    /// Number of times that the task has gone to sleep. A waker or timer names the sleep that it ends by this number,
    /// so that it cannot end a later sleep.
    pub(crate) sleeps: Cell<u64>,
    /// The reason of the task's present wait, and the time at which the wait began; `None` if the task gave no reason
    /// or does not wait.
    pub(crate) waits: Cell<Option<(WaitReason, u64)>>,
    pub(crate) is_killed: Cell<bool>,
    /// `true` while the task sleeps for block I/O.
    pub(crate) waits_for_io: Cell<bool>,
    /// The memory control group in whose pressure the task counts; the machine for a task that is in no group.
    pub(crate) group: RefCell<Rc<GroupPressure>>,
    /// Nesting depth of the task's memory stalls: the number of stalls that have begun and not ended. 0 if the task is
    /// not stalled.
    pub(crate) stalls: Cell<u32>,
    /// `true` if the task does not count for pressure (PSI), because it is the kernel's own.
    pub(crate) is_aside: Cell<bool>,
    /// The disk requests that the task holds back to merge them.
    pub(crate) plug: RefCell<Plug>,
    pub(crate) rng: RefCell<Rng>,
    pub(crate) ended: WaitQueue,
}
