//! Events over time: slices of virtual time, recorded on request for a reader from outside.
//!
//! A slice is recorded when it ends, so that none is ever left open. A slice that is still open at the end of the
//! window is recorded up to there. Recording takes no virtual time and draws no random number: a run is the same with
//! it and without. If nothing is recorded, it costs a test of a flag in paths that are rare compared with
//! `World::spend`.

use crate::task_id::TaskId;
use machine::{DeviceId, Func, Nanos, Note, Operation, Request, WaitReason};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

/// The part of a run that is to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceConfig {
    /// Start of the trace. Slices that end earlier are left out; those that began earlier begin here.
    pub from: Nanos,
    /// End of the trace. Slices that begin later are left out; those that end later end here.
    pub to: Nanos,
    /// Number of slices that are kept; later ones are only counted.
    pub max_slices: usize,
    /// Shortest time without interrupts that is recorded. Times of handlers are always recorded.
    pub shortest_off: Nanos,
    /// Records only this CPU and its delays of interrupts: times without interrupts, handlers, lock waits, requests and
    /// packets. `None` records everything.
    pub waits_of: Option<usize>,
}

/// The record of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Slices in the order in which they ended.
    pub slices: Vec<Slice>,
    /// Notes of tasks on their waits for memory, in the order of their ends; at most as many as slices.
    pub notes: Vec<Noted>,
    /// Names of tasks, by number.
    pub tasks: Vec<String>,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Slices in the window that were left out, for there were too many.
    pub left_out: u64,
    /// Time at which the first of the left-out slices ended.
    pub full_at: Option<Nanos>,
}

/// The note of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Time of the note.
    pub at: Nanos,
    /// Task of the note.
    pub task: TaskId,
    /// The note.
    pub note: Note,
}

/// Something that took a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Begin of the slice.
    pub from: Nanos,
    /// End of the slice.
    pub to: Nanos,
    /// Activity of the slice.
    pub what: Activity,
}

/// The activities that slices record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A task was on a CPU, handlers that ran in front of it included.
    Runs {
        /// The CPU.
        cpu: usize,
        /// The task.
        task: TaskId,
    },
    /// A task could run, and waited for a CPU.
    Queued {
        /// The task.
        task: TaskId,
    },
    /// A CPU took no interrupts.
    InterruptsOff {
        /// The CPU.
        cpu: usize,
        /// The class of the lock that turned them off first, `per_cpu`, or `interrupt` for a handler.
        cause: &'static str,
    },
    /// A handler dealt with one interrupt; a handler runs on while more of them wait.
    Interrupt {
        /// The CPU.
        cpu: usize,
        /// The disk that requested it; the network card if none did.
        disk: Option<DeviceId>,
        /// Pages whose I/O it ended.
        pages: u64,
    },
    /// A CPU spun for a lock.
    LockWait {
        /// The CPU.
        cpu: usize,
        /// The class of the lock, or `per_cpu`.
        class: &'static str,
    },
    /// A CPU held a lock that another CPU spun for at the end.
    LockHold {
        /// The CPU.
        cpu: usize,
        /// The class of the lock, or `per_cpu`.
        class: &'static str,
    },
    /// A task was in a function, on a CPU or asleep: reclaim, compaction, and waits of reclaim.
    Function {
        /// The task.
        task: TaskId,
        /// The function.
        func: Func,
    },
    /// A task slept, and said why.
    Wait {
        /// The task.
        task: TaskId,
        /// The reason.
        reason: WaitReason,
    },
    /// A request, from its submission to its end in a handler; requests that were merged are one, and began with the first.
    Request {
        /// The disk.
        disk: DeviceId,
        /// Direction of the request.
        operation: Operation,
        /// First block of the request.
        block: u64,
        /// Pages of the request.
        pages: u64,
        /// Time at which the disk was done with the request and asked for its CPU; it may lie outside of the window.
        done: Nanos,
        /// `true` if the request failed.
        has_failed: bool,
    },
    /// A packet, from its arrival in the card to the answer.
    Packet {
        /// Number of the packet, from 0.
        number: usize,
    },
}

impl Activity {
    /// Returns whether the slice shows a delay of a CPU's interrupts.
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

/// Returns whether a function is recorded. Recorded functions begin and end seldom compared with the work in them.
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

/// Destination of a request.
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

/// A request on its way: when it was submitted, and when the disk was done with it.
pub(crate) struct Pending {
    pub(crate) submitted: u64,
    pub(crate) done: Option<u64>,
}

/// Requests that were merged and served together.
pub(crate) struct Command {
    pub(crate) submitted: u64,
    pub(crate) block: u64,
    pub(crate) pages: u64,
    pub(crate) done: u64,
    pub(crate) has_failed: bool,
}

/// Recorder of slices, once started.
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
    /// Requests by the way that they go, the first one first.
    pub(crate) requests: BTreeMap<Way, VecDeque<Pending>>,
    /// The ended part of the command that each disk's handler is at.
    pub(crate) commands: BTreeMap<DeviceId, Command>,
}

impl Recorder {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }
}
