//! The boundary between the page-reclaim engine and the machine under it.
//!
//! The engine never calls the operating system: the trait [`Machine`] is all that it needs. The crate `sim` implements
//! `Machine` in virtual time; the library implements it with threads, memory and disks. The engine reports its work
//! through the supertrait [`Observe`], whose methods return nothing on which the engine's behaviour depends. This crate
//! contains no behaviour, only the types that both sides share:
//!
//! * [`units`]: frame numbers, orders, nanoseconds, devices;
//! * [`lock`]: [`LockClass`] (how a lock nests, whether interrupts are off under it), [`Lock`], [`PerCpu`];
//! * [`step`]: [`Step`], one word for each kind of work that costs CPU time;
//! * [`func`]: [`Func`], the kernel function names under which a profile shows that time;
//! * [`disk`]: [`Request`], sent to a block device and returned by it;
//! * [`observe`]: [`Observe`], which receives spans and notes;
//! * [`note`]: [`Note`], a report of a task on a wait for memory;
//! * [`pressure`]: [`pressure::Pressure`], the figures of stalls for memory (PSI), and triggers on them;
//! * [`hazard`]: [`Hazards`], the hazard pointers of a machine's tasks;
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

/// A ticket of a wait queue: the state of the queue at the time when a task took the ticket.
///
/// A task that wants to wait takes a ticket, checks its condition, and only then sleeps with the ticket. If
/// [`Machine::wake`] is called between the taking of the ticket and the sleep, the sleep returns at once. So no wake-up
/// is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// The machine under the engine: time, CPUs, locks, wait queues, devices and the bytes of frames.
///
/// # Contract
///
/// A *task* is a thread of control that calls the engine. *Interrupt context* is the time within a call of
/// [`Completions::complete`], which the machine makes when a request has finished. A *slot* is the value of one CPU in
/// a [`Machine::PerCpu`]. The comment of each method says in which contexts the engine may call the method:
///
/// * "May be called in any context" means: by a task, also while the task holds locks and slots; in interrupt context;
///   and before any task runs.
/// * "May sleep" means: only by a task that holds no lock and no per-CPU slot.
///
/// *The machine promises* that any number of tasks may call methods at the same time, and that a method that may be
/// called in any context waits for no other task. The machine panics where a method says so. It may also panic to
/// report a bug of the engine: a call in a context that is not allowed, or with a device or a frame that the machine
/// does not have.
///
/// *The engine promises* that each of its waiting loops ends once [`Machine::is_killed`] returns `true`, that it takes
/// locks in the order of their ranks, and that no task reads or changes the bytes of a frame while a read fills it.
pub trait Machine: Observe + Sized + 'static {
    /// A mutual exclusion lock around a `T`. On a machine of real threads, the lock is `Sync` if `T` is `Send`, so that
    /// the engine is `Sync`, too. On a simulated machine, the lock need not be `Sync`.
    type Lock<T: 'static>: Lock<T>;
    /// A per-CPU value: a slot with a `T` for each CPU. On a machine of real threads, the threads share about as many
    /// slots as there are CPUs.
    type PerCpu<T: 'static>: PerCpu<T>;
    /// A queue in which tasks wait.
    type WaitQueue: 'static;
    /// The hazard pointers of the machine's tasks; [`NoHazards`] on a machine whose tasks have none.
    type Hazards: Hazards;

    // ---- time ----

    /// Returns the time since the machine started, which never goes backwards for any task.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn now(&self) -> Nanos;

    /// Sleeps for `time`. Only a kill of the calling task ends the sleep earlier.
    ///
    /// May sleep, so only a task that holds no lock and no per-CPU slot may call it.
    fn pause(&self, time: Nanos);

    // ---- CPUs ----

    /// Returns the number of CPUs, which is also the number of slots of every [`Machine::PerCpu`]. The number is at
    /// least 1 and constant.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn cpus(&self) -> usize;

    /// Returns the memory node of the CPU on which the calling task runs, counted from 0. Requests for memory try this
    /// node first. The answer is only a hint, because the task may move to another CPU at any time. The default
    /// implementation returns 0.
    ///
    /// May be called in any context, also in interrupts and under locks.
    #[inline]
    fn node(&self) -> usize {
        0
    }

    /// Returns the number of copies (rows) in which the engine keeps its counters, so that threads that run at the same
    /// time change different cache lines. The number is at least 1 and constant. The default implementation returns 1,
    /// which suits machines on which only one thread runs.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn counter_rows(&self) -> usize {
        1
    }

    /// Returns the number of counters in which the engine keeps versions of pages. The number is constant. The default
    /// implementation returns 0, for machines on which no task asks for a page's version.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn page_versions(&self) -> usize {
        0
    }

    /// Makes a per-CPU value. `make` is called for each slot, with the slot's number, from 0 in ascending order.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn per_cpu<T: 'static>(&self, make: impl FnMut(usize) -> T) -> Self::PerCpu<T>;

    // ---- locks ----

    /// Makes a lock of a class around a value. The engine takes the lock by the rules of [`LockClass`].
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn lock<T: 'static>(&self, class: LockClass, value: T) -> Self::Lock<T>;

    // ---- waiting ----

    /// Makes an empty wait queue.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn wait_queue(&self) -> Self::WaitQueue;

    /// Takes a ticket of `queue` and returns it. A sleep on the queue with this ticket ends at once if the queue was
    /// woken after the ticket was taken (see [`Ticket`]).
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn ticket(&self, queue: &Self::WaitQueue) -> Ticket;

    /// Sleeps until `queue` is woken, until the absolute time `deadline`, or until the calling task is killed. Returns
    /// at once if `queue` was woken after `ticket` was taken, or if the task was killed before the call.
    ///
    /// Returns the time left until the deadline: 0 after the deadline, and `Nanos(u64::MAX)` without a deadline.
    /// Whatever the result, the engine then checks again the condition for which it waits.
    ///
    /// May sleep, so only a task that holds no lock and no per-CPU slot may call it.
    fn sleep(&self, queue: &Self::WaitQueue, ticket: Ticket, deadline: Option<Nanos>) -> Nanos;

    /// Wakes every task that sleeps at `queue`. A task that took its ticket before this call, and calls
    /// [`Machine::sleep`] after it, does not sleep.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn wake(&self, queue: &Self::WaitQueue);

    /// Wakes every task that sleeps at `queue`, as [`Machine::wake`] does, because the state of the page in `frame` has
    /// changed. Pages share queues: a machine in which not only tasks wait, but also futures, can leave those alone that
    /// wait for another page. The default implementation calls [`Machine::wake`].
    ///
    /// May be called in any context, also in interrupts and under locks.
    #[inline]
    fn wake_for(&self, queue: &Self::WaitQueue, _frame: FrameNumber) {
        self.wake(queue);
    }

    /// Wakes at least the task that has slept longest at `queue` and was not woken yet. The engine calls it when only
    /// one task can use a resource that has become free. A task that took its ticket before this call, and calls
    /// [`Machine::sleep`] after it, does not sleep. The default implementation wakes all tasks.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn wake_first(&self, queue: &Self::WaitQueue) {
        self.wake(queue);
    }

    /// Returns whether the calling task has been told to end. Once the answer is `true`, it stays `true`. If the caller
    /// is no task, as in interrupt context, the answer is `false`. A killed task returns from every wait at once. Each
    /// loop of the engine that waits calls this method after every wait, so that a machine can be stopped.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn is_killed(&self) -> bool;

    /// Tells all tasks of a process to end: [`Machine::is_killed`] is `true` for these tasks from now on, and their
    /// sleeps end. The engine passes the number of a process that the engine's user has created. The engine does not
    /// know which tasks belong to the process. The default implementation does nothing, which suits machines without
    /// processes.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn kill_process(&self, _process: u32) {}

    // ---- work ----

    /// Charges the caller, a task or an interrupt, with the CPU time of `n` steps of the kind `step`. On a simulated
    /// machine, other tasks and completions of requests may run during this time. On a machine of real threads, this
    /// method does nothing, because work takes real time.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn spend(&self, step: Step, n: u32);

    /// Charges a step like [`Machine::spend`], for work on the bytes or the descriptor of `frame`. On a simulated
    /// machine, the step may cost more if the frame is on another memory node than the caller's CPU, or if another CPU
    /// touched the frame last. The default implementation calls [`Machine::spend`].
    ///
    /// May be called in any context, also in interrupts and under locks.
    #[inline]
    fn spend_on(&self, step: Step, _frame: FrameNumber, n: u32) {
        self.spend(step, n);
    }

    /// Lets another task run. The engine calls this method in a loop that checks again and again whether another task
    /// has done something. The call takes no simulated time. So the loop or the other task must spend time by itself
    /// ([`Machine::spend`]); otherwise simulated time would stand still.
    ///
    /// May sleep, so only a task that holds no lock and no per-CPU slot may call it.
    fn relax(&self);

    /// Offers the CPU to other tasks during long work. A machine that preempts tasks need not do anything here.
    ///
    /// May sleep, so only a task that holds no lock and no per-CPU slot may call it.
    fn cond_resched(&self);

    /// Returns whether another task should get the caller's CPU now, so that [`Machine::cond_resched`] would yield the
    /// CPU. The default implementation returns `false`, which suits machines that preempt tasks.
    ///
    /// May be called in any context, also in interrupts and under locks.
    #[doc(alias = "need_resched")]
    fn is_resched_due(&self) -> bool {
        false
    }

    // ---- devices ----

    /// Hands a request to its device. If the device's queue is full, waits for a place in the queue; a kill of the task
    /// does not end this wait. May sleep, so only a task that holds no lock and no per-CPU slot may call it.
    ///
    /// The machine returns the request once, through [`Completions::complete`], maybe before `submit` returns. A write
    /// stores the bytes that its frames have at some time before the request is returned. A machine may hold back the
    /// request until the task sleeps.
    fn submit(&self, request: Request);

    /// Runs `work`, and returns its result. The machine may hold back the requests that the task submits meanwhile, so
    /// that requests for consecutive blocks become one (`blk_start_plug`). Requests that were held back go to their
    /// devices whenever the task sleeps, and before this method returns. The default implementation holds back no
    /// request.
    ///
    /// May sleep, so only a task that holds no lock and no per-CPU slot may call it.
    #[doc(alias = "blk_start_plug")]
    fn plugged<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Returns whether the device's queue for `operation` is fuller than its congestion threshold.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn is_congested(&self, device: DeviceId, operation: Operation) -> bool;

    /// Returns whether, on any device, the queue for `operation` is fuller than its congestion threshold.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn is_any_congested(&self, operation: Operation) -> bool;

    /// Returns the wait queue that is woken whenever a device's request queue stops being congested.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn uncongested(&self) -> &Self::WaitQueue;

    // ---- the bytes of frames ----

    /// Announces that the caller will read `bytes` bytes of a frame from byte `offset` on. A machine on real memory may
    /// prefetch these bytes into the CPU's cache. The frame need not exist. The default implementation does nothing.
    ///
    /// May be called in any context, also in interrupts and under locks.
    #[inline]
    fn prefetch_frame(&self, _frame: FrameNumber, _offset: usize, _bytes: usize) {}

    /// Fills a frame with zeroes.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn zero_frame(&self, frame: FrameNumber);

    /// Copies all bytes of the frame `from` to the frame `to`.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn copy_frame(&self, from: FrameNumber, to: FrameNumber);

    /// Copies bytes into a frame, from byte `offset` on.
    ///
    /// A simulated machine may keep only the first eight bytes of each page (the page's *stamp*).
    ///
    /// May be called in any context, also in interrupts and under locks.
    ///
    /// # Panics
    /// Panics when `offset + bytes.len()` is over [`PAGE_BYTES`].
    fn write_frame(&self, frame: FrameNumber, offset: usize, bytes: &[u8]);

    /// Copies bytes out of a frame, from byte `offset` on. A simulated machine may keep only the first eight bytes of
    /// each page; all other bytes then read as zero.
    ///
    /// May be called in any context, also in interrupts and under locks.
    ///
    /// # Panics
    /// Panics when `offset + bytes.len()` is over [`PAGE_BYTES`].
    fn read_frame(&self, frame: FrameNumber, offset: usize, bytes: &mut [u8]);

    // ---- readers ----

    /// Returns the hazard pointers of the machine's tasks.
    ///
    /// May be called in any context, also in interrupts and under locks.
    fn hazards(&self) -> &Self::Hazards;
}
