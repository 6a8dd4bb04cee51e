//! The boundary between the page-reclaim engine and the machine under it.
//!
//! The engine never calls the operating system: the trait [`Machine`] is all that it needs. The crate `sim` implements
//! `Machine` in virtual time; the library implements it with threads, memory and disks. The engine reports its work to
//! the supertrait [`Observe`], and needs no answer. This crate contains no behaviour, only the types that both sides
//! share:
//!
//! * [`units`]: frame numbers, orders, nanoseconds, devices;
//! * [`lock`]: [`LockClass`] (how a lock nests, whether interrupts are off under it), [`Lock`], [`PerCpu`];
//! * [`step`]: [`Step`], one word for each kind of work that costs CPU time;
//! * [`func`]: [`Func`], the kernel function names under which a profile shows that time;
//! * [`disk`]: [`Request`], sent to a block device and returned by it;
//! * [`observe`]: [`Observe`], which receives spans and notes;
//! * [`note`]: [`Note`], reports of tasks on their waits for memory;
//! * [`pressure`]: [`pressure::Pressure`], the figures of stalls for memory (PSI), and triggers on them;
//! * [`hazard`]: [`Hazards`], the hazard pointers of the machines that have some;
//! * [`conformance`]: the suite that every `Machine` passes.

pub mod atomic;
pub mod conformance;
pub mod disk;
pub mod func;
pub mod hazard;
pub mod lock;
pub mod note;
pub mod observe;
mod prefetch;
pub mod pressure;
pub mod step;
pub mod units;

pub use disk::{Completions, IoError, Operation, Request};
pub use func::Func;
pub use hazard::{HazardPointer, Hazards, NoHazards, READS_PER_COUNT};
pub use lock::{Lock, LockClass, PerCpu};
pub use note::{Note, Stalled, WaitReason, Waiting};
pub use observe::Observe;
pub use prefetch::prefetch;
pub use step::Step;
pub use units::{BLOCK_BYTES, DeviceId, FrameNumber, NANOS_PER_SECOND, Nanos, Order, PAGE_BYTES};

/// A ticket of a wait queue: the state of the queue at the time when a waiter took the ticket.
///
/// A waiter takes a ticket, checks its condition, and only then sleeps with the ticket. A [`Machine::wake`] between
/// ticket and sleep makes the sleep return at once, so no wake-up is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// The machine under the engine: time, CPUs, locks, wait queues, devices and the bytes of frames.
///
/// # Contract
///
/// A *task* is a thread of control that calls the engine. A *completion* is a call of [`Completions::complete`] by the
/// machine, when a request has finished. The mark of a method says in which contexts the engine may call the method:
///
/// | mark | by a task | with locks and slots held | in a completion | before tasks run |
/// | --- | --- | --- | --- | --- |
/// | *Anywhere* | yes | yes | yes | yes |
/// | *May sleep* | yes | no | no | no |
///
/// *The machine promises* that any number of tasks may call methods at the same time, and that a method marked
/// *Anywhere* waits for no other task. The machine panics where a method says so. It may also panic to report a bug of
/// the engine: a call in a context that is not allowed, or with a device or a frame that the machine does not have.
///
/// *The engine promises* that each of its waiting loops ends once [`Machine::is_killed`] returns `true`, that it takes
/// locks in the order of their ranks, and that no task reads or changes the bytes of a frame while a read fills it.
pub trait Machine: Observe + Sized + 'static {
    /// A mutual exclusion lock around a `T`. On real threads it is `Sync` if `T` is `Send`, so that the engine is
    /// `Sync`, too. On a simulated machine it need not be `Sync`.
    type Lock<T: 'static>: Lock<T>;
    /// A per-CPU value: a slot with a `T` for each CPU. Real threads use about as many slots as there are CPUs.
    type PerCpu<T: 'static>: PerCpu<T>;
    /// A queue in which tasks wait.
    type WaitQueue: 'static;
    /// The hazard pointers of the machine's tasks; [`NoHazards`] if they have none.
    type Hazards: Hazards;

    // ---- time ----

    /// Returns the time since the machine started, which never goes backwards for any task. *Anywhere.*
    fn now(&self) -> Nanos;

    /// Sleeps for `time`. Only a kill of the calling task ends the sleep earlier. *May sleep.*
    fn pause(&self, time: Nanos);

    // ---- CPUs ----

    /// Returns the number of CPUs, which is also the number of slots of every [`Machine::PerCpu`]. *Anywhere.* The
    /// number is at least 1 and constant.
    fn cpus(&self) -> usize;

    /// Returns the memory node of the CPU on which the calling task runs, counted from 0. Requests for memory try this
    /// node first. *Anywhere.* The task may move to another CPU at once. Default: 0.
    #[inline]
    fn node(&self) -> usize {
        0
    }

    /// Returns the number of copies (rows) in which the engine keeps its counters, so that threads that run at the same
    /// time change different cache lines. *Anywhere.* The number is at least 1 and constant. Default: 1, for machines
    /// on which only one thread ever runs.
    fn counter_rows(&self) -> usize {
        1
    }

    /// Makes a per-CPU value. `make` is called for each slot, with the slot's number, from 0 in ascending order.
    /// *Anywhere.*
    fn per_cpu<T: 'static>(&self, make: impl FnMut(usize) -> T) -> Self::PerCpu<T>;

    // ---- locks ----

    /// Makes a lock of a class around a value. *Anywhere.* The engine takes locks by the rules of [`LockClass`].
    fn lock<T: 'static>(&self, class: LockClass, value: T) -> Self::Lock<T>;

    // ---- waiting ----

    /// Makes an empty wait queue. *Anywhere.*
    fn wait_queue(&self) -> Self::WaitQueue;

    /// Takes a ticket of `queue` and returns it; see [`Ticket`]. *Anywhere.*
    fn ticket(&self, queue: &Self::WaitQueue) -> Ticket;

    /// Sleeps until `queue` is woken, until the absolute time `deadline`, or until the calling task is killed. *May
    /// sleep.* Returns at once if `queue` was woken since `ticket` was taken, or if the task was killed before.
    ///
    /// Returns the time left until the deadline: 0 after the deadline, and `Nanos(u64::MAX)` without a deadline. The
    /// engine checks the condition for which it waits again in any case.
    fn sleep(&self, queue: &Self::WaitQueue, ticket: Ticket, deadline: Option<Nanos>) -> Nanos;

    /// Wakes every task that sleeps at `queue`. A task that took its ticket before this call, and sleeps later, does
    /// not sleep either. *Anywhere.*
    fn wake(&self, queue: &Self::WaitQueue);

    /// Wakes at least the task that has slept longest at `queue` and was not woken yet; used when only one task can use
    /// what has become free. *Anywhere.* As after [`Machine::wake`], a task that took its ticket before this call does
    /// not sleep later. Default: wakes all tasks.
    fn wake_first(&self, queue: &Self::WaitQueue) {
        self.wake(queue);
    }

    /// Returns whether the calling task has been told to end. Once `true`, the answer stays `true`; outside of tasks it
    /// is `false`. *Anywhere.* A killed task returns from every wait at once. Loops that wait call this method after
    /// every wait, so that a machine can be stopped.
    fn is_killed(&self) -> bool;

    /// Tells all tasks of a process to end: [`Machine::is_killed`] is `true` for them from now on, and their sleeps end.
    /// *Anywhere.* The engine names processes that its user has created; which tasks belong to one is known to the user
    /// alone. Default: does nothing, for machines without processes.
    fn kill_process(&self, _process: u32) {}

    // ---- work ----

    /// Charges the calling task, or the completion, with the CPU time that a simulated machine takes for `n` times the
    /// work `step`. *Anywhere.* Other tasks and completions may run meanwhile. Does nothing on real threads, where work
    /// takes real time.
    fn spend(&self, step: Step, n: u32);

    /// Charges a step like [`Machine::spend`], for work on the bytes or the descriptor of `frame`. The step costs more
    /// if the frame is on another memory node than the caller's CPU. *Anywhere.* Default: [`Machine::spend`].
    #[inline]
    fn spend_on(&self, step: Step, _frame: FrameNumber, n: u32) {
        self.spend(step, n);
    }

    /// Lets another task run. Called in a loop that checks whether another task has done something, when it has not
    /// yet. *May sleep.* This takes no simulated time, so the loop must spend some before each check, or the other task
    /// before it is done; otherwise time would stand still.
    fn relax(&self);

    /// Offers the CPU to other tasks during long work. *May sleep.* Does nothing on machines that preempt tasks anyway.
    fn cond_resched(&self);

    /// Returns whether another task should run on the caller's CPU now, so that [`Machine::cond_resched`] would yield
    /// the CPU. *Anywhere.* Default: `false`, for machines that preempt tasks.
    #[doc(alias = "need_resched")]
    fn is_resched_due(&self) -> bool {
        false
    }

    // ---- devices ----

    /// Hands a request to its device. If the device's queue is full, waits for a place in it. *May sleep*, and a kill
    /// does not end this wait.
    ///
    /// The request is returned once, through [`Completions::complete`], maybe before `submit` returns. A write stores
    /// the bytes that its frames have at some time before the request is returned. A machine may hold requests back
    /// until the task sleeps.
    fn submit(&self, request: Request);

    /// Runs `work`. The machine may hold back the requests that the task submits meanwhile, so that requests for
    /// consecutive blocks become one (`blk_start_plug`). Held-back requests are handed to their devices before this
    /// returns, and whenever the task sleeps. *May sleep.* Default: no request is held back.
    #[doc(alias = "blk_start_plug")]
    fn plugged<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Returns whether the device's queue for `operation` is fuller than its congestion threshold. *Anywhere.*
    fn is_congested(&self, device: DeviceId, operation: Operation) -> bool;

    /// Returns whether the queue of any device for `operation` is congested. *Anywhere.*
    fn is_any_congested(&self, operation: Operation) -> bool;

    /// Returns the wait queue that is woken whenever a device's request queue stops being congested. *Anywhere.*
    fn uncongested(&self) -> &Self::WaitQueue;

    // ---- the bytes of frames ----

    /// Announces that the caller will read `bytes` bytes of a frame from byte `offset` on. A machine on real memory may
    /// prefetch them into the CPU's cache. The frame need not exist. *Anywhere.* Does nothing by default.
    #[inline]
    fn prefetch_frame(&self, _frame: FrameNumber, _offset: usize, _bytes: usize) {}

    /// Fills a frame with zeroes. *Anywhere.*
    fn zero_frame(&self, frame: FrameNumber);

    /// Copies the whole of one frame to another. *Anywhere.*
    fn copy_frame(&self, from: FrameNumber, to: FrameNumber);

    /// Copies bytes into a frame, from byte `offset` on. *Anywhere.*
    ///
    /// A simulated machine holds at most the first eight bytes of each page (its *stamp*).
    ///
    /// # Panics
    /// When `offset + bytes.len()` is over [`PAGE_BYTES`].
    fn write_frame(&self, frame: FrameNumber, offset: usize, bytes: &[u8]);

    /// Copies bytes out of a frame, from byte `offset` on. *Anywhere.* A simulated machine holds at most the first
    /// eight bytes of a page; all others read as zero.
    ///
    /// # Panics
    /// When `offset + bytes.len()` is over [`PAGE_BYTES`].
    fn read_frame(&self, frame: FrameNumber, offset: usize, bytes: &mut [u8]);

    // ---- readers ----

    /// Returns the hazard pointers of the machine's tasks. *Anywhere.*
    fn hazards(&self) -> &Self::Hazards;
}
