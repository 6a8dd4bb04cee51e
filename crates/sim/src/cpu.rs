//! A CPU and its two lanes: one for a task, and one for an interrupt handler that runs in front of the task.

use crate::fiber::Fiber;
use crate::record::profile::NodeId;
use crate::task_id::TaskId;
use machine::LockClass;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::null;

/// Number of a lane, which is a place on a CPU for a task or an interrupt handler. Each CPU has two lanes. The number
/// of its task's lane is twice the CPU's number; the handler's lane has the next number.
pub(crate) type LaneId = u32;
/// The lane number that stands for no lane: neither a task nor a handler of any CPU.
pub(crate) const NO_LANE: LaneId = LaneId::MAX;

pub(crate) fn task_lane(cpu: usize) -> LaneId {
    2 * cpu as LaneId
}

pub(crate) fn handler_lane(cpu: usize) -> LaneId {
    2 * cpu as LaneId + 1
}

pub(crate) fn cpu_of(lane: LaneId) -> usize {
    (lane >> 1) as usize
}

#[inline]
pub(crate) fn is_handler(lane: LaneId) -> bool {
    lane & 1 == 1
}

/// One of a CPU's two lanes: one runs tasks, the other interrupt handlers. A lane has the state of the task or handler
/// that runs in it: its fiber, its call path, the locks and per-CPU slots that it holds. A task that is off its CPU
/// holds no lock and no per-CPU slot, so this state belongs to the lane and not to the task.
pub(crate) struct Lane {
    /// The fiber (coroutine) of the task or handler; null if the lane is empty. The world's list of fibers keeps it
    /// alive.
    pub(crate) fiber: Cell<*const Fiber>,
    /// Call path of the task or handler, as a node of the profile.
    pub(crate) node: Cell<NodeId>,
    /// Time up to which CPU time has been charged to the call path `node`, ps.
    pub(crate) mark: Cell<u64>,
    /// CPU time, ps, that has been charged since the task came on the CPU.
    pub(crate) used: Cell<u64>,
    /// Number of held locks of each class: one byte for each class, in the order of the classes' ranks.
    pub(crate) held: Cell<u64>,
    /// Number of per-CPU slots ([`crate::CpuSlots`]) that the task or handler holds.
    pub(crate) slots: Cell<u32>,
    /// Number of reasons why interrupts are off; 0 if they are on.
    pub(crate) masked: Cell<u32>,
    /// Time at which interrupts were turned off, ps. The next field, `masked_by`, is the cause. Both fields stay as
    /// they are if further reasons for interrupts to be off are added.
    pub(crate) masked_at: Cell<u64>,
    pub(crate) masked_by: Cell<u8>,
    /// Begin and end of the most recent period in which the task or handler had interrupts off, ps. The field
    /// `longest_off` has the length of the longest such period, ps.
    pub(crate) off: [Cell<u64>; 2],
    pub(crate) longest_off: Cell<u64>,
    /// A period with interrupts off that is shorter than this time, ps, is only counted. A longer one may be recorded
    /// in the trace or kept in the world's `off_windows`.
    pub(crate) note_off_from: Cell<u64>,
    /// Time, ps, at which the task resumes after an interrupt handler on its CPU. This is the time that the task had
    /// reached before the handler began. If the task got a lock meanwhile, it is the time at which the task got the
    /// lock.
    pub(crate) resume_at: Cell<u64>,
    /// `true` while the task or handler spins for a lock.
    pub(crate) is_spinning: Cell<bool>,
    /// `true` if the task got a lock while an interrupt handler ran on the CPU in place of the task.
    pub(crate) is_granted: Cell<bool>,
    /// The next task or handler that spins for the same lock.
    pub(crate) next_waiter: Cell<LaneId>,
    /// Class of the lock that the task or handler spins for; used in reports.
    pub(crate) spins_for: Cell<u8>,
}

impl Lane {
    fn new() -> Self {
        Self {
            fiber: Cell::new(null()),
            node: Cell::new(0),
            mark: Cell::new(0),
            used: Cell::new(0),
            held: Cell::new(0),
            slots: Cell::new(0),
            masked: Cell::new(0),
            masked_at: Cell::new(0),
            masked_by: Cell::new(0),
            off: Default::default(),
            longest_off: Cell::new(0),
            note_off_from: Cell::new(u64::MAX),
            resume_at: Cell::new(0),
            is_spinning: Cell::new(false),
            is_granted: Cell::new(false),
            next_waiter: Cell::new(NO_LANE),
            spins_for: Cell::new(0),
        }
    }

    /// Returns whether the task may be taken off the CPU.
    pub(crate) fn is_preemptible(&self) -> bool {
        self.held.get() == 0 && self.masked.get() == 0 && self.slots.get() == 0 && !self.is_spinning.get()
    }

    /// Returns a text for messages that names the locks and per-CPU slots that the task or handler holds; empty if it
    /// holds none.
    pub(crate) fn held_words(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        for class in LockClass::ALL {
            if self.held.get() >> (8 * class.rank()) & 0xff != 0 {
                words.push(format!("lock `{}`", class.name()));
            }
        }
        if self.slots.get() > 0 {
            words.push("a per-CPU slot".into());
        }
        words.join(" and ")
    }
}

/// A task that waits for a CPU. Waiting tasks are ordered by virtual runtime, or by rank if the schedule gives ranks.
/// Those with equal values are ordered by arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Queued {
    pub(crate) order: u64,
    pub(crate) arrival: u64,
    pub(crate) task: TaskId,
}

/// A virtual CPU.
pub(crate) struct Cpu {
    /// The CPU's time while its fiber is suspended. While the CPU runs, its time is in the world's `clock`, and this
    /// field is out of date.
    pub(crate) clock: Cell<u64>,
    /// The task that is on the CPU.
    pub(crate) task: Cell<Option<TaskId>>,
    /// Time at which the task came on the CPU.
    pub(crate) on_since: Cell<u64>,
    /// The task that left the CPU last. If this task is also the next on the CPU, no context switch is charged.
    pub(crate) last_task: Cell<Option<TaskId>>,
    /// `true` while an interrupt handler runs on the CPU. The task on the CPU is interrupted meanwhile.
    pub(crate) in_handler: Cell<bool>,
    pub(crate) handler_began: Cell<u64>,
    /// Length, ps, from which a period with interrupts off on this CPU is recorded for [`crate::Sim::off_windows`].
    pub(crate) keep_off_from: Cell<u64>,
    /// Tasks that wait for this CPU. The next task to run is the last in the list.
    pub(crate) queue: RefCell<Vec<Queued>>,
    /// The largest virtual runtime that a task had when it came on this CPU. The virtual runtime of a task that wakes
    /// up on this CPU, or moves to it, is set relative to this value.
    pub(crate) runtime_floor: Cell<u64>,
    pub(crate) slice_end: Cell<u64>,
    /// Time of the earliest pending event that ends a time slice on this CPU; `u64::MAX` if there is none.
    pub(crate) slice_event: Cell<u64>,
    /// `true` if the task has to leave the CPU as soon as it may be preempted.
    pub(crate) wants_switch: Cell<bool>,
    /// `true` if an interrupt waits until interrupts are on, or a switch waits until preemption is on.
    pub(crate) attention: Cell<bool>,
    /// Devices whose interrupts wait to be handled.
    pub(crate) pending: RefCell<VecDeque<u8>>,
    pub(crate) idle_since: Cell<u64>,
    pub(crate) idle_total: Cell<u64>,
    pub(crate) interrupt_total: Cell<u64>,
    /// Number of pages whose I/O the running handler has ended so far.
    pub(crate) handled_pages: Cell<u64>,
    pub(crate) handlers: Cell<u64>,
    pub(crate) pages_total: Cell<u64>,
    pub(crate) pages_max: Cell<u64>,
    pub(crate) switches: Cell<u64>,
}

impl Cpu {
    pub(crate) fn new() -> Self {
        Self {
            clock: Cell::new(0),
            task: Cell::new(None),
            on_since: Cell::new(0),
            last_task: Cell::new(None),
            in_handler: Cell::new(false),
            handler_began: Cell::new(0),
            keep_off_from: Cell::new(u64::MAX),
            queue: RefCell::default(),
            runtime_floor: Cell::new(0),
            slice_end: Cell::new(0),
            slice_event: Cell::new(u64::MAX),
            wants_switch: Cell::new(false),
            attention: Cell::new(false),
            pending: RefCell::default(),
            idle_since: Cell::new(0),
            idle_total: Cell::new(0),
            interrupt_total: Cell::new(0),
            handled_pages: Cell::new(0),
            handlers: Cell::new(0),
            pages_total: Cell::new(0),
            pages_max: Cell::new(0),
            switches: Cell::new(0),
        }
    }

    pub(crate) fn lanes(cpus: usize) -> Box<[Lane]> {
        (0..2 * cpus).map(|_| Lane::new()).collect()
    }

    /// Returns which of the two lanes of CPU `cpu` runs: the lane of the interrupt handler if a handler runs, otherwise
    /// the lane of the task.
    pub(crate) fn front(&self, cpu: usize) -> LaneId {
        task_lane(cpu) + LaneId::from(self.in_handler.get())
    }
}
