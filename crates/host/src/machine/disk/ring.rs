//! io_uring: a ring with a thread of its own for what nobody waits for in place, and rings that threads borrow for what
//! they wait for.
//!
//! *Background*: submitters put transfers into an inbox and ring a bell (an eventfd that the ring reads) if the thread
//! sleeps. The thread alone submits and reaps, so the ring needs no lock, the requests belong to no thread of the
//! application that could end before them, and completions interrupt nobody.
//!
//! *Waited for*: a caller that waits for all of a batch borrows a ring, submits the batch with one system call, and handles the
//! completions as they come, without a switch to another thread.
//!
//! *Locks*: the inbox and the list of idle rings, both held for a few instructions and alone.

#![allow(unsafe_code)]

use super::backend::{Backend, Runs, Transfer};
use crate::machine::arena::Run;
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
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

/// Submissions that the background ring takes with one system call.
const BACKGROUND_ENTRIES: u32 = 256;
/// Transfers that it has in flight, over all devices; the others wait in front of it. A completion's entry is 16 bytes.
const BACKGROUND_IN_FLIGHT: usize = 4096 - 1;
/// Transfers that a borrowed ring has in flight.
const BORROWED_ENTRIES: u32 = 64;
/// Borrowed rings that are kept for the next borrower.
const IDLE_RINGS_MAX: usize = 16;
/// The completion of the read of the bell.
const BELL: u64 = u64::MAX;
/// Bytes of a system call at most. Linux: `MAX_RW_COUNT`.
const RUN_BYTES_MAX: usize = 0x7fff_f000;

/// Rings of one machine.
pub(super) struct Rings {
    background: Arc<Background>,
    thread: Mutex<Option<JoinHandle<()>>>,
    idle: Mutex<Vec<Slots>>,
}

impl Rings {
    /// # Errors
    /// The system's error number when rings are not permitted, 0 when an operation is missing.
    pub(super) fn new() -> Result<Arc<Self>, Errno> {
        let as_errno = |error: io::Error| error.raw_os_error().unwrap_or(0);
        let bell = sys::event_counter().map_err(as_errno)?;
        let background = Arc::new(Background {
            inbox: Mutex::default(),
            is_asleep: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            bell,
        });
        // The first borrowed ring is made here, to see that more can be made.
        let idle = borrowed_slots().map_err(as_errno)?;
        let (made, is_made) = mpsc::sync_channel(1);
        let serving = Arc::clone(&background);
        let thread = thread::Builder::new().name("highwater-io".to_owned()).spawn(move || match background_ring() {
            Ok(ring) => {
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
        let thread = self.thread.get_mut().take().expect("joined here only");
        // The last transfer of a machine that is gone ends on the thread itself, which then ends by itself.
        if thread.thread().id() != thread::current().id() {
            // It cannot panic: that would have ended the process.
            let _ = thread.join();
        }
    }
}

impl Backend for Rings {
    fn run_all(&self, transfers: Vec<Transfer>) {
        let borrowed = self.idle.lock().pop().map_or_else(borrowed_slots, Ok);
        match borrowed {
            Ok(mut slots) => {
                slots.run_all(transfers.into());
                let mut idle = self.idle.lock();
                if idle.len() < IDLE_RINGS_MAX {
                    idle.push(slots);
                }
            }
            // Out of descriptors, or of memory for rings: the background ring is there.
            Err(_) => transfers.into_iter().for_each(|transfer| self.start(transfer)),
        }
    }

    fn start(&self, transfer: Transfer) {
        self.background.inbox.lock().push(transfer);
        if self.background.is_asleep.swap(false, Ordering::SeqCst) {
            self.background.ring_bell();
        }
    }
}

/// What submitters and the thread of the background ring share.
struct Background {
    inbox: Mutex<Vec<Transfer>>,
    /// Is the thread in, or on its way into, the system?
    is_asleep: AtomicBool,
    is_over: AtomicBool,
    bell: File,
}

impl Background {
    fn ring_bell(&self) {
        let rung = (&self.bell).write(&1u64.to_ne_bytes());
        assert!(rung.is_ok(), "an eventfd counts to 2^64: {rung:?}");
    }

    /// The life of the thread.
    fn serve(&self, mut slots: Slots) {
        let _abort = AbortOnPanic::new();
        let mut bell_count = Box::new(0u64);
        let mut is_bell_read = false;
        let mut waiting = VecDeque::new();
        loop {
            waiting.extend(std::mem::take(&mut *self.inbox.lock()));
            // Each transfer owns a share of the rings, so that none is left when these are over. The bell is rung then,
            // and its read must have ended: it writes into this stack's box.
            if self.is_over.load(Ordering::SeqCst) && !is_bell_read {
                debug_assert!(waiting.is_empty() && slots.in_flight == 0, "the rings ended before their transfers");
                break;
            }
            if !is_bell_read {
                let count: *mut u64 = &raw mut *bell_count;
                let read = opcode::Read::new(Fd(self.bell.as_raw_fd()), count.cast(), 8).build().user_data(BELL);
                // SAFETY: the count lives until the loop ends, which happens only when the read has completed.
                unsafe { slots.push(&read) };
                is_bell_read = true;
            }
            while slots.has_room()
                && let Some(transfer) = waiting.pop_front()
            {
                slots.start(transfer);
            }
            self.is_asleep.store(true, Ordering::SeqCst);
            let has_mail = !self.inbox.lock().is_empty();
            slots.enter(usize::from(!has_mail));
            self.is_asleep.store(false, Ordering::SeqCst);
            slots.reap(|user_data| {
                debug_assert_eq!(user_data, BELL);
                is_bell_read = false;
            });
        }
    }
}

/// A ring and what is in flight on it.
struct Slots {
    ring: IoUring,
    /// By the number that a completion carries. Never grows beyond its first capacity: the system looks at the runs.
    slots: Vec<Option<InFlight>>,
    free: Vec<usize>,
    in_flight: usize,
    /// Completions that wait to be handled; here to keep its memory.
    reaped: Vec<(u64, i32)>,
}

struct InFlight {
    transfer: Transfer,
    runs: Runs<'static>,
}

impl Slots {
    /// A ring with room for `in_flight_max` transfers.
    fn new(ring: IoUring, in_flight_max: usize) -> Self {
        Self { ring, slots: Vec::with_capacity(in_flight_max), free: Vec::new(), in_flight: 0, reaped: Vec::new() }
    }

    fn has_room(&self) -> bool {
        self.in_flight < self.slots.capacity()
    }

    /// Carries transfers out; returns when all are finished.
    fn run_all(&mut self, mut waiting: VecDeque<Transfer>) {
        // A completion that panics would leave others in flight that nobody waits for any more.
        let _abort = AbortOnPanic::new();
        while !waiting.is_empty() || self.in_flight > 0 {
            while self.has_room()
                && let Some(transfer) = waiting.pop_front()
            {
                self.start(transfer);
            }
            self.enter(1);
            self.reap(|user_data| unreachable!("completion {user_data} of a request that was not made"));
        }
    }

    /// Puts a transfer, or what is left of it, into a free slot and the submission queue.
    fn start(&mut self, mut transfer: Transfer) {
        transfer.prepare();
        // SAFETY: the transfer goes into the slot with the runs, and owns a share of the arena.
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
        unsafe { self.push(&entry) };
    }

    /// # Safety
    /// What the entry points to must live until its completion was reaped.
    unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: by this function's own condition.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.enter(0);
        }
    }

    /// Submits what was pushed, and waits for `want` completions.
    fn enter(&mut self, want: usize) {
        match self.ring.submit_and_wait(want) {
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                // Again after a look at what has come.
                Some(libc::EINTR | libc::EBUSY) => {}
                Some(libc::EAGAIN) => thread::yield_now(),
                _ => panic!("the ring does not take requests any more: {error}"),
            },
        }
    }

    /// Finishes, or continues, what has completed. `other` gets completions that belong to no transfer.
    fn reap(&mut self, mut other: impl FnMut(u64)) {
        let mut reaped = std::mem::take(&mut self.reaped);
        reaped.extend(self.ring.completion().map(|entry: cqueue::Entry| (entry.user_data(), entry.result())));
        for (user_data, result) in reaped.drain(..) {
            let Some(slot) = usize::try_from(user_data).ok().filter(|&slot| slot < self.slots.len()) else {
                other(user_data);
                continue;
            };
            let InFlight { mut transfer, .. } = self.slots[slot].take().expect("each request completes once");
            self.free.push(slot);
            self.in_flight -= 1;
            match transfer.advance(usize::try_from(result).map_err(|_| -result)) {
                Some(result) => transfer.finish(result),
                None => self.start(transfer),
            }
        }
        self.reaped = reaped;
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
    if let [run] = runs.as_slice() {
        let (buffer, bytes) = (run.pointer(), run.bytes().min(RUN_BYTES_MAX) as u32);
        return match operation {
            Operation::Read => opcode::Read::new(fd, buffer, bytes).offset(offset).build(),
            Operation::Write => opcode::Write::new(fd, buffer, bytes).offset(offset).build(),
        };
    }
    let (vector, count) = (Run::as_io_vectors(runs), runs.len().min(sys::RUNS_MAX) as u32);
    match operation {
        Operation::Read => opcode::Readv::new(fd, vector, count).offset(offset).build(),
        Operation::Write => opcode::Writev::new(fd, vector, count).offset(offset).build(),
    }
}

/// A ring that one thread uses, which handles completions only when it asks for them; on older kernels one without
/// these promises.
fn background_ring() -> io::Result<IoUring> {
    let promised = IoUring::builder()
        .setup_cqsize(BACKGROUND_IN_FLIGHT as u32 + 1)
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(BACKGROUND_ENTRIES);
    let plain = || IoUring::builder().setup_cqsize(BACKGROUND_IN_FLIGHT as u32 + 1).build(BACKGROUND_ENTRIES);
    let ring = promised.or_else(|_| plain())?;
    check_operations(&ring)?;
    Ok(ring)
}

/// A ring that threads use one after the other.
fn borrowed_slots() -> io::Result<Slots> {
    let promised = IoUring::builder().setup_coop_taskrun().build(BORROWED_ENTRIES);
    let ring = promised.or_else(|_| IoUring::new(BORROWED_ENTRIES))?;
    check_operations(&ring)?;
    Ok(Slots::new(ring, BORROWED_ENTRIES as usize))
}

/// # Errors
/// When the kernel's rings lack an operation that is needed here (before Linux 5.6).
fn check_operations(ring: &IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Readv::CODE, opcode::Writev::CODE];
    let is_complete = needed.into_iter().all(|code| probe.is_supported(code));
    if is_complete { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}
