//! The trace of a run: activities with begin and end (slices), recorded on request.
//!
//! A slice is recorded when it ends, so no slice is ever left open. The part of a slice outside of the requested window
//! is cut off. Recording takes no virtual time and draws no random number, so a run is the same with and without it. If
//! nothing is recorded, the only cost is a test of a flag, in paths that are rare compared with `World::spend`.

use crate::task_id::TaskId;
use machine::{DeviceId, Func, Nanos, Note, Operation, Request, WaitReason};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

/// The request for a trace: which part of the run and which activities to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceConfig {
    /// Start of the traced period. A slice (an activity with its duration) that ends before this time is left out. Of a
    /// slice that begins before this time and ends later, only the part from this time on is recorded.
    pub from: Nanos,
    /// End of the traced period. A slice that begins after this time is left out. Of a slice that begins before this
    /// time and ends later, only the part up to this time is recorded.
    pub to: Nanos,
    /// Largest number of slices that the trace has. Slices beyond this number are counted but not recorded.
    pub max_slices: usize,
    /// Periods with interrupts off on a CPU, and waits of a task for a CPU, are left out if they are shorter than this
    /// time. Interrupt handlers are always recorded.
    pub shortest_off: Nanos,
    /// If this is the number of a CPU, only some activities are recorded: those that delay the interrupts of this CPU
    /// (its periods with interrupts off, its handlers and its lock waits), and all disk requests and packets. `None`
    /// records everything.
    pub waits_of: Option<usize>,
}

/// The trace of a run, as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Slices in the order in which they ended.
    pub slices: Vec<Slice>,
    /// Notes in which tasks describe their waits for memory, in the order in which the waits ended. At most
    /// `max_slices` notes are kept.
    pub notes: Vec<Noted>,
    /// Names of tasks, by the number of the task.
    pub tasks: Vec<String>,
    /// Number of CPUs of the machine.
    pub cpus: usize,
    /// Number of slices of the traced period that were left out because there were more than `max_slices`.
    pub left_out: u64,
    /// End of the first slice that was not recorded because there were more than `max_slices`; `None` if all were
    /// recorded.
    pub full_at: Option<Nanos>,
}

/// A note that a task made about a wait, with the time of the note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Time of the note.
    pub at: Nanos,
    /// Task that made the note.
    pub task: TaskId,
    /// The note.
    pub note: Note,
}

/// An activity with its begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Time at which the slice begins.
    pub from: Nanos,
    /// Time at which the slice ends.
    pub to: Nanos,
    /// Activity of the slice.
    pub what: Activity,
}

/// The kinds of activity that slices of a trace record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A task was on a CPU. Handlers that interrupted the task are included.
    Runs {
        /// The CPU on which the task was.
        cpu: usize,
        /// The task that was on the CPU.
        task: TaskId,
    },
    /// A task could run, and waited for a CPU.
    Queued {
        /// The task that waited.
        task: TaskId,
    },
    /// A CPU took no interrupts.
    InterruptsOff {
        /// The CPU that took no interrupts.
        cpu: usize,
        /// The cause that turned interrupts off first: the class of a lock, `per_cpu`, or `interrupt` for a handler.
        cause: &'static str,
    },
    /// A handler dealt with one interrupt. A handler keeps running while more interrupts wait.
    Interrupt {
        /// The CPU on which the handler ran.
        cpu: usize,
        /// The disk that raised the interrupt; `None` if the network card did.
        disk: Option<DeviceId>,
        /// Number of pages whose I/O the handler ended for this interrupt.
        pages: u64,
    },
    /// A CPU spun for a lock.
    LockWait {
        /// The CPU that spun for the lock.
        cpu: usize,
        /// The name of the lock's class; `per_cpu` for a per-CPU slot.
        class: &'static str,
    },
    /// A CPU held a lock, and at the release another CPU was spinning for the lock.
    LockHold {
        /// The CPU that held the lock.
        cpu: usize,
        /// The name of the lock's class; `per_cpu` for a per-CPU slot.
        class: &'static str,
    },
    /// A task was in a function, on a CPU or asleep. Only the main functions of reclaim, compaction and the OOM killer,
    /// and the functions that wait in reclaim, are recorded.
    Function {
        /// The task that ran in the function.
        task: TaskId,
        /// The function that the task was executing.
        func: Func,
    },
    /// A task slept, for a reason that the task gave.
    Wait {
        /// The task that slept.
        task: TaskId,
        /// The reason for the sleep, as the task stated it.
        reason: WaitReason,
    },
    /// A request was under way, from its submission until a handler ended it. Merged requests are one slice, which
    /// begins when the first of them was submitted.
    Request {
        /// The disk that served the request.
        disk: DeviceId,
        /// Direction of the request.
        operation: Operation,
        /// First block of the request.
        block: u64,
        /// Number of pages of the request.
        pages: u64,
        /// Time at which the disk finished the request and interrupted its CPU. This may be after the end of the traced
        /// period.
        done: Nanos,
        /// `true` if the request failed.
        has_failed: bool,
    },
    /// A packet was under way, from its arrival in the card to its answer.
    Packet {
        /// Number of the packet, from 0.
        number: usize,
    },
}

impl Activity {
    /// Returns whether the activity is one of those that are recorded for CPU `of` ([`TraceConfig::waits_of`]): a disk
    /// request, a packet, or an activity that delays the interrupts of this CPU.
    pub(crate) const fn is_wait_of(&self, of: usize) -> bool {
        match *self {
            Self::InterruptsOff { cpu, .. } | Self::Interrupt { cpu, .. } | Self::LockWait { cpu, .. } => cpu == of,
            Self::Request { .. } | Self::Packet { .. } => true,
            Self::Runs { .. }
            | Self::Queued { .. }
            | Self::LockHold { .. }
            | Self::Function { .. }
            | Self::Wait { .. } => false,
        }
    }
}

/// Returns whether the trace records calls of a function. Only functions that do much work in each call, and so are
/// called rarely, are recorded.
pub(crate) const fn is_recorded(func: Func) -> bool {
    matches!(
        func,
        Func::BalancePgdat
            | Func::DirectReclaim
            | Func::DirectCompact
            | Func::ThrottleDirectReclaim
            | Func::CongestionWait
            | Func::WaitIffCongested
            | Func::ThrottleVmWriteout
            | Func::ReclaimThrottle
            | Func::OutOfMemory
    )
}

/// The disk, direction and blocks of a request, by which the end of a request is matched with its submission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    pub(crate) disk: DeviceId,
    pub(crate) operation: Operation,
    pub(crate) block: u64,
    pub(crate) pages: u64,
}

impl Way {
    pub(crate) fn of(request: &Request) -> Self {
        let Request { device: disk, operation, block, .. } = *request;
        Self { disk, operation, block, pages: request.frames.len() as u64 }
    }
}

/// The two times of a request that is under way: when it was submitted, and when the disk finished it (`None` before
/// that).
pub(crate) struct Pending {
    pub(crate) submitted: u64,
    pub(crate) done: Option<u64>,
}

/// A disk command that is being ended, with the sums over those of its requests that have ended so far. The requests of
/// a command were merged, and the disk serves them together.
pub(crate) struct Command {
    pub(crate) submitted: u64,
    pub(crate) block: u64,
    pub(crate) pages: u64,
    pub(crate) done: u64,
    pub(crate) has_failed: bool,
}

/// The recorder of slices, idle until it is started.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) is_on: Cell<bool>,
    pub(crate) shortest_off: Cell<u64>,
    pub(crate) waits_of: Cell<Option<usize>>,
    pub(crate) state: RefCell<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) window: [u64; 2],
    pub(crate) max_slices: usize,
    pub(crate) slices: Vec<Slice>,
    pub(crate) notes: Vec<Noted>,
    pub(crate) left_out: u64,
    pub(crate) full_at: Option<u64>,
    /// Requests in flight, by disk, direction and blocks. Requests for the same blocks are in order of submission.
    pub(crate) requests: BTreeMap<Way, VecDeque<Pending>>,
    /// For each disk whose handler is ending a command, the requests of this command that have ended already.
    pub(crate) commands: BTreeMap<DeviceId, Command>,
}

impl Recorder {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }
}
