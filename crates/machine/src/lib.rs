//! The boundary between the page-reclaim engine and the machine under it.
//!
//! The engine never calls the operating system: the trait [`Machine`] is all that it needs. `sim` implements it in
//! virtual time, the library over threads, memory and disks. This crate contains no behaviour, only the words that
//! both sides share:
//!
//! * [`units`]: frame numbers, orders, nanoseconds, devices;
//! * [`lock`]: [`LockClass`] (how a lock nests, whether interrupts are off under it), [`Lock`], [`PerCpu`];
//! * [`step`]: [`Step`], one word for each kind of work that costs CPU time;
//! * [`func`]: [`Func`], the kernel function names under which a profile shows that time;
//! * [`disk`]: [`Request`], sent to a block device and returned by it;
//! * [`note`]: [`Note`], reports of tasks on their waits for memory;
//! * [`hazard`]: [`Hazards`], the hazard pointers of the machines that have some;
//! * [`conformance`]: the suite that every `Machine` passes.

pub mod atomic;
pub mod conformance;
pub mod disk;
pub mod func;
pub mod hazard;
pub mod lock;
pub mod note;
mod prefetch;
pub mod step;
pub mod units;

pub use disk::{Completions, IoError, Operation, Request};
pub use func::Func;
pub use hazard::{HazardPointer, Hazards, NoHazards, READS_PER_COUNT};
pub use lock::{Lock, LockClass, PerCpu};
pub use note::{Note, Stalled, WaitReason, Waiting};
pub use prefetch::prefetch;
pub use step::Step;
pub use units::{BLOCK_BYTES, DeviceId, FrameNumber, NANOS_PER_SECOND, Nanos, Order, PAGE_BYTES};

/// A moment of a wait queue, taken before its condition is checked.
///
/// A waiter takes a ticket, checks its condition, and only then sleeps with the ticket. A [`Machine::wake`] between the
/// two makes the sleep return at once, so no wake-up is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// The ground that the engine needs under it.
///
/// Any task may call any method. Methods marked *may sleep* must not be called while a [`Lock`] or a [`PerCpu`] slot is
/// held, nor from a completion.
pub trait Machine: Sized + 'static {
    /// A mutual exclusion lock around a `T`. On real threads it is `Sync` when `T` is `Send`, which makes the engine
    /// `Sync`. A simulated machine's lock need not be.
    type Lock<T: 'static>: Lock<T>;
    /// A `T` for each CPU (on real threads: for each shard).
    type PerCpu<T: 'static>: PerCpu<T>;
    /// A place to wait at.
    type WaitQueue: 'static;
    /// Ends the span begun by [`Machine::span`] when it is dropped.
    type Span<'a>
    where
        Self: 'a;
    /// The hazard pointers of its tasks; [`NoHazards`] where they have none.
    type Hazards: Hazards;

    /// Returns the time since the machine started.
    fn now(&self) -> Nanos;

    /// Returns the number of CPUs (slots of every [`Machine::PerCpu`]); at least 1, constant.
    fn cpus(&self) -> usize;

    /// Returns the memory node of the calling task's CPU, from 0. The task allocates there first.
    #[inline]
    fn node(&self) -> usize {
        0
    }

    /// Number of rows in which counters are kept, so that parallel threads count in different rows; 1 if only one
    /// thread ever runs.
    fn counter_rows(&self) -> usize {
        1
    }

    /// Makes a lock of a class around a value.
    fn lock<T: 'static>(&self, class: LockClass, value: T) -> Self::Lock<T>;

    /// Makes one value for each CPU; `make` gets the slot's number, from 0.
    fn per_cpu<T: 'static>(&self, make: impl FnMut(usize) -> T) -> Self::PerCpu<T>;

    /// Makes an empty wait queue.
    fn wait_queue(&self) -> Self::WaitQueue;

    /// Takes a ticket; see [`Ticket`].
    fn ticket(&self, queue: &Self::WaitQueue) -> Ticket;

    /// *May sleep.* Sleeps until a wake of `queue` later than `ticket`, the absolute time `deadline`,
    /// or a kill of the calling task. Returns the time left until the deadline: 0 when it passed,
    /// and `Nanos(u64::MAX)` when none was given.
    ///
    /// Returns at once when `queue` was woken since the ticket was taken, or when the task is killed.
    fn sleep(&self, queue: &Self::WaitQueue, ticket: Ticket, deadline: Option<Nanos>) -> Nanos;

    /// Wakes every task that sleeps at `queue`. May be called under a lock and from a completion.
    fn wake(&self, queue: &Self::WaitQueue);

    /// Wakes the task that has slept longest at `queue` and was not yet woken by such a call, and perhaps others. It is
    /// for a resource that only one task can use. Like [`Machine::wake`], it ends sleeps that begin later with an older
    /// ticket. By default it wakes all.
    fn wake_first(&self, queue: &Self::WaitQueue) {
        self.wake(queue);
    }

    /// *May sleep.* Sleeps for `time`; only a kill of the calling task ends it earlier.
    fn pause(&self, time: Nanos);

    /// Returns whether the calling task has been told to end. Loops that wait ask it after every wait, so that a
    /// machine can be stopped: a killed task returns from every wait at once.
    fn is_killed(&self) -> bool;

    /// Spends the CPU time of `n` times the work `step` on the calling task. Free on real machines.
    fn spend(&self, step: Step, n: u32);

    /// Spends CPU time on a step, for work on the bytes or descriptors of `frame` and its node: dearer where that is not the node of
    /// the caller's CPU.
    #[inline]
    fn spend_on(&self, step: Step, _frame: FrameNumber, n: u32) {
        self.spend(step, n);
    }

    /// *May sleep.* Lets another task run, without which the caller cannot continue; the caller looks again soon.
    fn relax(&self);

    /// *May sleep.* Offers the CPU to other tasks, within long work. Does nothing where tasks are preempted anyway.
    fn cond_resched(&self);

    /// Returns whether another task is to get the caller's CPU; [`Machine::cond_resched`] then yields it. Returns
    /// `false` where tasks are preempted anyway.
    #[doc(alias = "need_resched")]
    fn is_resched_due(&self) -> bool {
        false
    }

    /// Says that the calling task is in `func` until the span is dropped.
    fn span(&self, func: Func) -> Self::Span<'_>;

    /// Notes that the calling task cannot continue for lack of memory (`begins`), or can again. The task reclaims or
    /// compacts itself, waits for others to do so, or waits for a page that reclaim took. Stalls may be nested;
    /// [`Stalled`] ends them. For machines that keep pressure statistics (`/proc/pressure/memory`); by default it does
    /// nothing.
    #[inline]
    fn note_stall(&self, begins: bool) {
        let _ = begins;
    }

    /// Notes the reason for which the calling task sleeps, if it sleeps from now on; `None` ends that. Use [`Waiting`],
    /// which does both. For machines that keep records; by default it does nothing.
    #[inline]
    fn note_wait(&self, reason: Option<WaitReason>) {
        let _ = reason;
    }

    /// Records the cause of the calling task's wait. `note` is called only if the machine records notes; by default it
    /// does not.
    #[inline]
    fn note(&self, note: impl FnOnce() -> Note) {
        let _ = note;
    }

    /// *May sleep.* Passes a request to its device, and waits for a place in the device's queue.
    /// [`Completions::complete`] returns it.
    fn submit(&self, request: Request);

    /// Returns whether the device's queue for `operation` is fuller than its congestion threshold.
    fn is_congested(&self, device: DeviceId, operation: Operation) -> bool;

    /// Returns whether the queue of any device for `operation` is.
    fn is_any_congested(&self, operation: Operation) -> bool;

    /// Returns the queue that is woken whenever some device's queue stops being congested.
    fn uncongested(&self) -> &Self::WaitQueue;

    /// Announces a read of `bytes` of a frame from byte `offset` on. A real machine may prefetch them. The frame need
    /// not exist. Does nothing by default.
    #[inline]
    fn prefetch_frame(&self, _frame: FrameNumber, _offset: usize, _bytes: usize) {}

    /// Returns the hazard pointers of its tasks.
    fn hazards(&self) -> &Self::Hazards;

    /// Fills a frame with zeroes.
    fn zero_frame(&self, frame: FrameNumber);

    /// Copies the whole of one frame to another.
    fn copy_frame(&self, from: FrameNumber, to: FrameNumber);

    /// Copies bytes into a frame, from byte `offset` on.
    ///
    /// A simulated machine holds at most the first eight bytes of each page (its *stamp*).
    ///
    /// # Panics
    /// When `offset + bytes.len()` is over [`PAGE_BYTES`].
    fn write_frame(&self, frame: FrameNumber, offset: usize, bytes: &[u8]);

    /// Copies bytes out of a frame, from byte `offset` on; bytes that a simulated machine does not
    /// hold read as zero.
    ///
    /// # Panics
    /// When `offset + bytes.len()` is over [`PAGE_BYTES`].
    fn read_frame(&self, frame: FrameNumber, offset: usize, bytes: &mut [u8]);
}
