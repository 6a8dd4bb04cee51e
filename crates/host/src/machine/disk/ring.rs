//! Disk requests by io_uring. One background ring with its own thread serves requests whose submitter continues at
//! once. Borrowed rings serve requests for which the borrowing thread waits.
//!
//! *Background ring*: a submitter puts transfers (requests under way) into an inbox. If the ring's thread sleeps, the
//! submitter wakes it by an eventfd, the *bell*, which the ring reads. Only the ring's thread submits to the ring and
//! reaps completions. Therefore the ring needs no lock, completions interrupt no thread, and a request does not depend
//! on a thread of the application, which may end first.
//!
//! *Borrowed rings*: a caller that waits for a whole batch of transfers borrows a ring, submits the batch with one
//! system call, and handles the completions as they come, without a switch to another thread.
//!
//! *Refusal*: a seccomp filter that is installed later, for one thread or for all, may forbid the rings. A thread whose
//! ring is forbidden waits for the requests that the system has already taken. Its other requests go to the background
//! ring, or, if the background ring itself is forbidden, to threads that read and write.
//!
//! *Locks*: the inbox has a lock, and so has the list of idle rings. Each lock is held for a few instructions, and
//! never together with another.

#![allow(unsafe_code)]

use super::backend::{Backend, Runs, Transfer};
use super::pool::Pool;
use crate::machine::arena::IoRun;
use crate::machine::notice::{Notice, Notices};
use crate::machine::sys::{self, Errno};
use crate::machine::task::AbortOnPanic;
use io_uring::types::Fd;
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use machine::Operation;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Largest number of submissions that the background ring takes with one system call.
const BACKGROUND_ENTRIES: u32 = 256;
/// Largest number of transfers that the background ring has in flight, over all devices. Transfers beyond this number
/// wait in front of the ring. The ring has 4096 completion entries of 16 bytes each. One of them is for the read of the
/// bell, the eventfd that wakes the ring's thread; the others are for transfers.
const BACKGROUND_IN_FLIGHT: usize = 4096 - 1;
/// Largest number of transfers that a borrowed ring has in flight.
const BORROWED_ENTRIES: u32 = 64;
/// Largest number of idle rings that are kept for the next borrower.
const IDLE_RINGS_MAX: usize = 16;
/// User data by which the completion of a read of the bell is recognised. The bell is the eventfd that wakes the
/// background ring's thread.
const BELL: u64 = u64::MAX;
/// Interval at which a thread checks for completions if the kernel refuses its calls of `io_uring_enter`, so that it
/// cannot wait for completions by this call.
const REFUSED_PAUSE: Duration = Duration::from_micros(50);
/// Largest number of bytes that one system call moves. Linux: `MAX_RW_COUNT`.
const RUN_BYTES_MAX: usize = 0x7fff_f000;

/// The io_uring rings of one machine: one background ring with its thread, and idle rings that threads may borrow.
pub(super) struct Rings {
    background: Arc<Background>,
    thread: Mutex<Option<JoinHandle<()>>>,
    idle: Mutex<Vec<Slots>>,
}

impl Rings {
    /// Makes the background ring, its thread and a first ring to borrow. If the system forbids the background ring
    /// later, `io_threads` threads of a [`Pool`] do the work, and `notices` gets a notice.
    ///
    /// # Errors
    /// The system's error number when rings are not permitted; 0 when the kernel's rings lack an operation that this
    /// module needs.
    pub(super) fn new(io_threads: usize, notices: Arc<Notices>) -> Result<Arc<Self>, Errno> {
        let as_errno = |error: io::Error| error.raw_os_error().unwrap_or(0);
        let bell = sys::event_counter().map_err(as_errno)?;
        let background = Arc::new(Background {
            inbox: Mutex::default(),
            is_asleep: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            bell,
            pool: OnceLock::new(),
            io_threads,
            notices,
        });
        // The first ring to borrow is made here, to find out whether the system permits rings.
        let idle = borrowed_slots().map_err(as_errno)?;
        let (made, is_made) = mpsc::sync_channel(1);
        let serving = Arc::clone(&background);
        let thread = thread::Builder::new().name("highwater-io".to_owned()).spawn(move || match background_ring() {
            Ok(ring) => {
                // Requests wait for this thread. If the system refuses short time slices, they only wait longer.
                let _ = sys::runs_early();
                let _ = made.send(Ok(()));
                serving.serve(Slots::new(ring, BACKGROUND_IN_FLIGHT));
            }
            Err(error) => {
                let _ = made.send(Err(error));
            }
        });
        let thread = thread.map_err(as_errno)?;
        is_made.recv().expect("the thread reports before it ends").map_err(as_errno)?;
        let (thread, idle) = (Mutex::new(Some(thread)), Mutex::new(vec![idle]));
        Ok(Arc::new(Self { background, thread, idle }))
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.background.is_over.store(true, Ordering::SeqCst);
        self.background.ring_bell();
        if let Some(pool) = self.background.pool.get() {
            pool.end();
        }
        let thread = self.thread.get_mut().take().expect("joined here only");
        // A machine may be dropped by the end of its last transfer, on the background ring's thread. That thread cannot
        // join itself; it ends soon.
        if thread.thread().id() != thread::current().id() {
            // The thread cannot have panicked: a panic would have ended the process.
            let _ = thread.join();
        }
    }
}

impl Backend for Rings {
    fn run_all(&self, transfers: Vec<Transfer>) {
        if let Some(pool) = self.background.pool.get() {
            return pool.run_all(transfers);
        }
        let borrowed = self.idle.lock().pop().map_or_else(borrowed_slots, Ok);
        let left = match borrowed {
            Ok(mut slots) => match slots.run_all(transfers.into()) {
                Ok(()) => {
                    let mut idle = self.idle.lock();
                    if idle.len() < IDLE_RINGS_MAX {
                        idle.push(slots);
                    }
                    return;
                }
                Err(left) => left,
            },
            // The system has no descriptors, or no memory, for another ring. The background ring takes the transfers.
            Err(_) => transfers,
        };
        left.into_iter().for_each(|transfer| self.start(transfer));
    }

    fn start(&self, transfer: Transfer) {
        let mut inbox = self.background.inbox.lock();
        if let Some(pool) = self.background.pool.get() {
            drop(inbox);
            return pool.start(transfer);
        }
        inbox.push(transfer);
        drop(inbox);
        if self.background.is_asleep.swap(false, Ordering::SeqCst) {
            self.background.ring_bell();
        }
    }
}

/// The state that submitters and the thread of the background ring share.
struct Background {
    inbox: Mutex<Vec<Transfer>>,
    /// True while the thread waits in a system call, or is about to. A submitter must then wake the thread
    /// (`ring_bell`).
    is_asleep: AtomicBool,
    is_over: AtomicBool,
    bell: File,
    /// The pool of threads that replaces the ring once the system has forbidden it. A submitter reads this field under
    /// the inbox's lock.
    pool: OnceLock<Arc<Pool>>,
    io_threads: usize,
    notices: Arc<Notices>,
}

impl Background {
    fn ring_bell(&self) {
        let rung = (&self.bell).write(&1u64.to_ne_bytes());
        assert!(rung.is_ok(), "an eventfd counts to 2^64: {rung:?}");
    }

    /// Carries out transfers from the inbox on the background ring's thread until [`Rings`] is dropped. If the kernel
    /// does not serve the ring (io_uring is not permitted), a pool of threads carries out the transfers instead.
    fn serve(&self, mut slots: Slots) {
        let _abort = AbortOnPanic::new();
        let mut bell_count = Box::new(0u64);
        let mut waiting = VecDeque::new();
        if let Err(errno) = self.serve_ring(&mut slots, &mut bell_count, &mut waiting) {
            self.fall_back(errno, slots, waiting);
        }
    }

    /// Takes transfers from the inbox and carries them out by the ring (io_uring), until [`Rings`] is dropped.
    ///
    /// # Errors
    /// The system's error number when the system does not serve the ring any more.
    fn serve_ring(
        &self,
        slots: &mut Slots,
        bell_count: &mut u64,
        waiting: &mut VecDeque<Transfer>,
    ) -> Result<(), Errno> {
        loop {
            waiting.extend(std::mem::take(&mut *self.inbox.lock()));
            let is_bell_read = slots.others > 0;
            // Dropping the rings sets `is_over` and rings the bell. No transfer is then left, because each transfer
            // keeps the rings alive. The read of the bell must have ended before this function returns, because the
            // read writes into the caller's `bell_count`.
            if self.is_over.load(Ordering::SeqCst) && !is_bell_read {
                debug_assert!(waiting.is_empty() && slots.in_flight == 0, "the rings ended before their transfers");
                return Ok(());
            }
            if !is_bell_read {
                let count: *mut u64 = &raw mut *bell_count;
                let read = opcode::Read::new(Fd(self.bell.as_raw_fd()), count.cast(), 8).build().user_data(BELL);
                slots.others += 1;
                // SAFETY: the caller's count lives until the read has completed. This loop does not end before the
                // read, and if the ring is forbidden, `Slots::abandon` waits for the read.
                unsafe { slots.push(&read) }?;
            }
            while slots.has_room()
                && let Some(transfer) = waiting.pop_front()
            {
                slots.start(transfer)?;
            }
            self.is_asleep.store(true, Ordering::SeqCst);
            let has_mail = !self.inbox.lock().is_empty();
            let entered = slots.enter(usize::from(!has_mail));
            self.is_asleep.store(false, Ordering::SeqCst);
            entered?;
            slots.reap()?;
        }
    }

    /// Replaces the background ring, which the system forbids, by a pool of threads. The calling thread becomes one of
    /// them. The pool carries out the unfinished transfers and all later ones.
    #[cold]
    fn fall_back(&self, errno: Errno, mut slots: Slots, waiting: VecDeque<Transfer>) {
        // Rings the bell, so that the ring's read of it ends, if one is under way.
        self.ring_bell();
        let mut left = slots.abandon();
        drop(slots);
        left.extend(waiting);
        let pool = self.pool.get_or_init(|| Pool::of_at_most(self.io_threads - 1));
        // The inbox holds transfers that were submitted before the pool was made.
        left.extend(std::mem::take(&mut *self.inbox.lock()));
        self.notices.add(Notice::NoIoUring { os_error: errno });
        left.into_iter().for_each(|transfer| pool.start(transfer));
        if self.is_over.load(Ordering::SeqCst) {
            pool.end();
        }
        pool.serve();
    }
}

/// An io_uring ring, and the transfers that it has in flight, each in a numbered slot.
struct Slots {
    ring: IoUring,
    /// Transfers in flight. A completion carries the index of its transfer in this vector. The vector never grows
    /// beyond its first capacity, so its elements do not move in memory. They must not move, because the kernel reads
    /// the `iovec`s in them ([`InFlight`]).
    slots: Vec<Option<InFlight>>,
    free: Vec<usize>,
    in_flight: usize,
    /// Number of requests in flight that are no transfers: reads of the bell, the eventfd that wakes the ring's thread.
    others: usize,
    /// User data of the requests that the system has not taken yet, in order: those in the submission queue, and
    /// possibly one that is about to be pushed.
    unsubmitted: VecDeque<u64>,
    /// Number of entries that the submission queue held when this field was last updated.
    queued: usize,
    /// Completions that wait to be handled. The vector is a field so that its memory is reused.
    reaped: Vec<(u64, i32)>,
}

struct InFlight {
    transfer: Transfer,
    runs: Runs<'static>,
}

impl Slots {
    /// Creates a ring that can have up to `in_flight_max` transfers in flight.
    fn new(ring: IoUring, in_flight_max: usize) -> Self {
        let slots = Vec::with_capacity(in_flight_max);
        let (free, unsubmitted, reaped) = Default::default();
        Self { ring, slots, free, in_flight: 0, others: 0, unsubmitted, queued: 0, reaped }
    }

    fn has_room(&self) -> bool {
        self.in_flight < self.slots.capacity()
    }

    /// Carries out all of `transfers`, and returns when they are finished.
    ///
    /// # Errors
    /// When the system does not serve the ring any more. The error has the transfers that are not finished.
    fn run_all(&mut self, transfers: VecDeque<Transfer>) -> Result<(), Vec<Transfer>> {
        // A panic here ends the process: otherwise requests would stay in flight with no thread waiting for them.
        let _abort = AbortOnPanic::new();
        let mut waiting = transfers;
        self.run_waiting(&mut waiting).map_err(|_| {
            let mut left = self.abandon();
            left.extend(waiting);
            left
        })
    }

    fn run_waiting(&mut self, waiting: &mut VecDeque<Transfer>) -> Result<(), Errno> {
        while !waiting.is_empty() || self.in_flight > 0 {
            while self.has_room()
                && let Some(transfer) = waiting.pop_front()
            {
                self.start(transfer)?;
            }
            self.enter(1)?;
            self.reap()?;
        }
        Ok(())
    }

    /// Gives up this ring, because the system does not serve it any more. Waits for the requests that the system has
    /// already taken, and returns the transfers that are not finished.
    #[cold]
    fn abandon(&mut self) -> Vec<Transfer> {
        let mut left = Vec::new();
        for user_data in std::mem::take(&mut self.unsubmitted) {
            match self.take(user_data) {
                Some(InFlight { transfer, .. }) => left.push(transfer),
                None => self.others -= 1,
            }
        }
        while self.in_flight > 0 || self.others > 0 {
            // Completions arrive during any system call of this thread, so also during this sleep. (With
            // `DEFER_TASKRUN` they would arrive only when the thread enters the ring.)
            thread::sleep(REFUSED_PAUSE);
            left.extend(self.reap_finished());
        }
        left
    }

    /// Removes the transfer with the number `user_data` from its slot and returns it. Returns `None` if the number
    /// belongs to no transfer.
    fn take(&mut self, user_data: u64) -> Option<InFlight> {
        let slot = usize::try_from(user_data).ok().filter(|&slot| slot < self.slots.len())?;
        self.free.push(slot);
        self.in_flight -= 1;
        Some(self.slots[slot].take().expect("each request completes once"))
    }

    /// Puts a transfer, or its unfinished rest, into a free slot and the submission queue.
    ///
    /// # Errors
    /// The system's error number, when the system does not serve the ring any more. The transfer keeps its slot.
    fn start(&mut self, mut transfer: Transfer) -> Result<(), Errno> {
        if let Err(errno) = transfer.prepare() {
            transfer.fail(errno);
            return Ok(());
        }
        // SAFETY: the transfer goes into the slot together with the runs, keeps the arena alive, and owns the
        // encrypted bytes.
        let runs = transfer.runs().into_iter().map(|run| unsafe { run.detached() }).collect();
        let slot = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < self.slots.capacity(), "{} transfers in flight", self.in_flight);
            self.slots.push(None);
            self.slots.len() - 1
        });
        let in_flight = self.slots[slot].insert(InFlight { transfer, runs });
        let entry = entry(in_flight).user_data(slot as u64);
        self.in_flight += 1;
        // SAFETY: descriptor, runs and frames live in the slot until the completion is reaped.
        unsafe { self.push(&entry) }
    }

    /// Puts an entry into the submission queue. If the queue is full, first submits what is in it.
    ///
    /// # Errors
    /// The system's error number when the system does not serve the ring any more.
    ///
    /// # Safety
    /// The memory that the entry points to must live until the entry's completion was reaped, or until the entry is
    /// known not to be submitted.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> Result<(), Errno> {
        self.unsubmitted.push_back(entry.get_user_data());
        // SAFETY: the caller of this function has promised that the memory to which the entry points lives long enough.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.enter(0)?;
        }
        self.queued += 1;
        Ok(())
    }

    /// Submits the pushed entries, and waits for `want` completions.
    ///
    /// # Errors
    /// The system's error number, when the system does not serve the ring any more.
    fn enter(&mut self, want: usize) -> Result<(), Errno> {
        let entered = self.ring.submit_and_wait(want);
        let queued = self.ring.submission().len();
        self.unsubmitted.drain(..self.queued - queued);
        self.queued = queued;
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The caller tries again after it has reaped completions.
                Some(libc::EINTR | libc::EBUSY) => Ok(()),
                Some(libc::EAGAIN) => {
                    thread::yield_now();
                    Ok(())
                }
                errno => Err(errno.unwrap_or(libc::EIO)),
            },
        }
    }

    /// Handles all completions that have come: ends the transfers that are done, and continues the others.
    ///
    /// # Errors
    /// The system's error number when the system does not serve the ring any more.
    fn reap(&mut self) -> Result<(), Errno> {
        let mut result = Ok(());
        for transfer in self.reap_finished() {
            result = result.and(self.start(transfer));
        }
        result
    }

    /// Handles all completions that have come, and ends the transfers that are done. Returns the few transfers of which
    /// the system has moved only a part of the bytes, so that the caller continues them.
    fn reap_finished(&mut self) -> Vec<Transfer> {
        let mut reaped = std::mem::take(&mut self.reaped);
        let mut unfinished = Vec::new();
        reaped.extend(self.ring.completion().map(|entry: cqueue::Entry| (entry.user_data(), entry.result())));
        for (user_data, result) in reaped.drain(..) {
            let Some(InFlight { mut transfer, .. }) = self.take(user_data) else {
                debug_assert_eq!(user_data, BELL);
                self.others -= 1;
                continue;
            };
            match transfer.advance(usize::try_from(result).map_err(|_| -result)) {
                Some(result) => transfer.finish(result),
                None => unfinished.push(transfer),
            }
        }
        self.reaped = reaped;
        unfinished
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        assert!(self.in_flight == 0 || thread::panicking(), "{} requests in flight on a dropped ring", self.in_flight);
    }
}

fn entry(InFlight { transfer, runs }: &InFlight) -> squeue::Entry {
    let (fd, offset) = (Fd(transfer.file().as_raw_fd()), transfer.offset());
    let operation = transfer.request().operation;
    let write_flags = if transfer.syncs_itself() { libc::RWF_DSYNC } else { 0 };
    if let [run] = runs.as_slice() {
        let (buffer, bytes) = (run.pointer(), run.bytes().min(RUN_BYTES_MAX) as u32);
        return match operation {
            Operation::Read => opcode::Read::new(fd, buffer, bytes).offset(offset).build(),
            Operation::Write => opcode::Write::new(fd, buffer, bytes).offset(offset).rw_flags(write_flags).build(),
        };
    }
    let (vector, count) = (IoRun::as_io_vectors(runs), runs.len().min(sys::RUNS_MAX) as u32);
    match operation {
        Operation::Read => opcode::Readv::new(fd, vector, count).offset(offset).build(),
        Operation::Write => opcode::Writev::new(fd, vector, count).offset(offset).rw_flags(write_flags).build(),
    }
}

/// Makes the ring of the background thread. The ring is for one submitting thread, and its completions do not interrupt
/// the thread. On a kernel that does not support these two features, makes an ordinary ring. The ring does not use
/// `DEFER_TASKRUN`, because completions must arrive even if a seccomp filter forbids the thread to enter the ring.
fn background_ring() -> io::Result<IoUring> {
    let promised = IoUring::builder()
        .setup_cqsize(BACKGROUND_IN_FLIGHT as u32 + 1)
        .setup_single_issuer()
        .setup_coop_taskrun()
        .build(BACKGROUND_ENTRIES);
    let plain = || IoUring::builder().setup_cqsize(BACKGROUND_IN_FLIGHT as u32 + 1).build(BACKGROUND_ENTRIES);
    let ring = promised.or_else(|_| plain())?;
    check_operations(&ring)?;
    Ok(ring)
}

/// Returns a ring that threads can borrow, one after the other.
fn borrowed_slots() -> io::Result<Slots> {
    let promised = IoUring::builder().setup_coop_taskrun().build(BORROWED_ENTRIES);
    let ring = promised.or_else(|_| IoUring::new(BORROWED_ENTRIES))?;
    check_operations(&ring)?;
    Ok(Slots::new(ring, BORROWED_ENTRIES as usize))
}

/// Returns an error if the kernel's rings lack an operation that this module needs, as they do before Linux 5.6.
fn check_operations(ring: &IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Readv::CODE, opcode::Writev::CODE];
    let is_complete = needed.into_iter().all(|code| probe.is_supported(code));
    if is_complete { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}
