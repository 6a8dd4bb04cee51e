//! The boundary between the page-reclaim engine and what is under it.
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
//! * [`conformance`]: the suite that every `Machine` passes.

pub mod atomic;
pub mod conformance;
pub mod disk;
pub mod func;
pub mod lock;
mod prefetch;
pub mod step;
pub mod units;

pub use disk::{Completions, IoError, Operation, Request};
pub use func::Func;
pub use lock::{Lock, LockClass, PerCpu};
pub use prefetch::prefetch;
pub use step::Step;
pub use units::{BLOCK_BYTES, DeviceId, FrameNumber, NANOS_PER_SECOND, Nanos, Order, PAGE_BYTES};

/// Of so many reads of a task that counts its reads, one is counted by chance ([`Machine::counts_read`]).
pub const READS_PER_COUNT: u32 = 16;

/// A moment of a wait queue, taken before its condition is looked at.
///
/// A waiter takes a ticket, looks at what it waits for, and only then sleeps with the ticket: a
/// [`Machine::wake`] between the two makes the sleep return at once, so no wake-up is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// What the engine needs from the ground under it.
///
/// All methods may be called by any task; those marked *may sleep* must not be called while a
/// [`Lock`] or a [`PerCpu`] slot is held, nor from a completion.
pub trait Machine: Sized + 'static {
    /// A mutual exclusion lock around a `T`. On real threads it is `Sync` when `T` is `Send`, so that an
    /// engine is `Sync` by itself when its machine is; a simulated machine's need not be.
    type Lock<T: 'static>: Lock<T>;
    /// One `T` for each CPU (on real threads: for each shard).
    type PerCpu<T: 'static>: PerCpu<T>;
    /// A place to wait at.
    type WaitQueue: 'static;
    /// Ends the span begun by [`Machine::span`] when it is dropped.
    type Span<'a>
    where
        Self: 'a;
    /// A hazard pointer: a place where a task says which frame it is about to use, for as long as it does.
    ///
    /// Whoever reads a page that way changes nothing that others look at, so that it waits for no memory but the page's
    /// own; whoever wants the page for itself has to ask all ([`Machine::barrier`]). Maged Michael, "Hazard Pointers:
    /// Safe Memory Reclamation for Lock-Free Objects", 2004.
    type Hazard<'a>: Copy
    where
        Self: 'a;

    /// Time since the machine started.
    fn now(&self) -> Nanos;

    /// CPUs (slots of every [`Machine::PerCpu`]); at least 1, constant.
    fn cpus(&self) -> usize;

    /// The memory node of the CPU that the calling task is on, from 0: where it looks for memory first.
    #[inline]
    fn node(&self) -> usize {
        0
    }

    /// Rows that counters are kept in, so that threads that run side by side count in different ones. 1 where only one thread
    /// ever runs.
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

    /// Wakes the task that has slept longest at `queue`, of those that no such call has woken yet, and maybe others: for what
    /// only one can use. As [`Machine::wake`], it ends sleeps that begin later with an older ticket. It wakes all by default.
    fn wake_first(&self, queue: &Self::WaitQueue) {
        self.wake(queue);
    }

    /// *May sleep.* Sleeps for `time`; only a kill of the calling task ends it earlier.
    fn pause(&self, time: Nanos);

    /// Has the calling task been told to end? Loops that wait ask it after every wait, so that a
    /// machine can be stopped: a killed task returns from every wait at once.
    fn is_killed(&self) -> bool;

    /// The calling task does `n` times the work `step` now. Free on real machines.
    fn spend(&self, step: Step, n: u32);

    /// The same, for work on the bytes or descriptors of `frame` and others of its node: dearer where that is not the node of
    /// the caller's CPU.
    #[inline]
    fn spend_on(&self, step: Step, _frame: FrameNumber, n: u32) {
        self.spend(step, n);
    }

    /// The calling task computes for `time` outside the engine: a program's own work.
    fn compute(&self, time: Nanos);

    /// *May sleep.* Somebody else has to run before the caller can go on: it looks again soon.
    fn relax(&self);

    /// *May sleep.* A point at which the engine is willing to give up the CPU, within work that goes on. Nothing where tasks
    /// are interrupted anyway.
    fn cond_resched(&self);

    /// Says that the calling task is in `func` until the span is dropped.
    fn span(&self, func: Func) -> Self::Span<'_>;

    /// *May sleep.* Hands a request to its device, waiting for a place in the device's queue. It
    /// comes back through [`Completions::complete`].
    fn submit(&self, request: Request);

    /// Is the device's queue for `operation` fuller than its congestion threshold?
    fn is_congested(&self, device: DeviceId, operation: Operation) -> bool;

    /// Is any device's?
    fn is_any_congested(&self, operation: Operation) -> bool;

    /// The queue that is woken whenever some device's queue stops being congested.
    fn uncongested(&self) -> &Self::WaitQueue;

    /// `bytes` of a frame from byte `offset` on will be read soon: a real machine may begin to bring them nearer. There need
    /// not be such a frame. Nothing by default.
    #[inline]
    fn prefetch_frame(&self, _frame: FrameNumber, _offset: usize, _bytes: usize) {}

    /// Have tasks hazard pointers? None by default; then nothing is ever published.
    #[inline]
    fn has_hazards(&self) -> bool {
        false
    }

    /// Is this read of the calling task one of those that are counted for all? One in [`READS_PER_COUNT`], by chance, so that
    /// counting costs little; each where nobody minds.
    #[inline]
    fn counts_read(&self) -> bool {
        true
    }

    /// Says that the calling task is about to use a frame; until [`Machine::withdraw`]. `None` when the task's hazard
    /// pointers are all in use.
    ///
    /// At the time of each [`Machine::barrier`], either the frame is published for [`Machine::published`] to find, or the
    /// calling task sees, after this, all that the caller of `barrier` did before it.
    #[inline]
    fn publish(&self, _frame: FrameNumber) -> Option<Self::Hazard<'_>> {
        None
    }

    /// As [`Machine::publish`], if that takes next to nothing. `None` says nothing: `publish` may have one.
    #[inline(always)]
    fn publish_at_once(&self, frame: FrameNumber) -> Option<Self::Hazard<'_>> {
        self.publish(frame)
    }

    /// Takes that back. Any task may do so for the one that published it. Who finds that it is gone sees all that the caller
    /// did before; and at the time of each [`Machine::barrier`], either it is gone for [`Machine::published`], or the
    /// calling task sees, after this, all that the caller of `barrier` did before it.
    #[inline]
    fn withdraw(&self, _hazard: Self::Hazard<'_>) {
        unreachable!("this machine publishes nothing");
    }

    /// Makes what tasks have published, and taken back, known. Expensive: every CPU takes notice.
    fn barrier(&self) {}

    /// The frames that are published, in ascending order: all that were before the last [`Machine::barrier`] and are still,
    /// and some that were since.
    fn published(&self) -> Vec<FrameNumber> {
        Vec::new()
    }

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
