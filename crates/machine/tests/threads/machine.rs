//! A small machine of real threads, standard locks and one device in memory, for tests.
#![allow(dead_code, clippy::disallowed_types, clippy::disallowed_methods)]

use machine::{DeviceId, FrameNumber, Func, IoError, LockClass, Machine, Nanos, NoHazards, Operation, PAGE_BYTES};
use machine::{Observe, Request, Step, Ticket};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

pub const SHARDS: usize = 4;
/// Number of places in the device's queue of reads, and in that of writes. A queue is congested from [`CONGESTED`]
/// taken places on, until fewer than [`UNCONGESTED`] are taken.
const QUEUE: usize = 16;
const CONGESTED: usize = 14;
const UNCONGESTED: usize = 12;
/// Interval at which a sleeping task checks whether it was killed.
const LOOK: Duration = Duration::from_millis(1);

thread_local! {
    /// The task that this thread runs: the number of its per-CPU slot, and its kill flag.
    static TASK: RefCell<(usize, Arc<AtomicBool>)> = RefCell::default();
}

/// A machine of real threads, standard locks and one device in memory. Clones are the same machine.
#[derive(Clone)]
pub struct ThreadMachine(Arc<Shared>);

/// A function that receives finished requests with their results.
pub type Receive = Box<dyn Fn(&ThreadMachine, Request, Result<(), IoError>) + Send + Sync>;

pub struct Shared {
    began: Instant,
    frames: Vec<Mutex<[u8; PAGE_BYTES]>>,
    kill_flags: Vec<Arc<AtomicBool>>,
    device: Mutex<Device>,
    /// Signalled when the device has a request to carry out, when a place in its queue is free, and when the machine
    /// ends.
    device_changed: Condvar,
    uncongested: Queue,
    receive: OnceLock<Receive>,
}

#[derive(Default)]
struct Device {
    waiting: VecDeque<(Request, Vec<[u8; PAGE_BYTES]>)>,
    allocated: [usize; 2],
    is_congested: [bool; 2],
    blocks: BTreeMap<u64, [u8; PAGE_BYTES]>,
    /// `(n, end)`: one in `n` writes to blocks before `end` fails.
    bad: Option<(u64, u64)>,
    /// Number of writes to the blocks of `bad`; `failed` of them failed.
    tried: u64,
    failed: u64,
    /// Number of pages that changed in memory while they were written.
    unstable: u64,
    is_over: bool,
}

impl Device {
    /// Returns the result with which a request is to complete: an error if [`ThreadMachine::fail_writes`] makes this
    /// write fail, otherwise `Ok`.
    fn result(&mut self, request: &Request) -> Result<(), IoError> {
        let Some((n, end)) = self.bad else { return Ok(()) };
        if request.operation == Operation::Read || request.block >= end {
            return Ok(());
        }
        self.tried += 1;
        if !self.tried.is_multiple_of(n) {
            return Ok(());
        }
        self.failed += 1;
        Err(IoError::Device)
    }
}

#[derive(Default)]
pub struct Queue {
    wakes: Mutex<u64>,
    woken: Condvar,
}

pub struct StdLock<T>(Mutex<T>);

impl<T: 'static> machine::Lock<T> for StdLock<T> {
    type Guard<'a> = MutexGuard<'a, T>;

    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

pub struct Shards<T>(Vec<Mutex<T>>);

impl<T: 'static> machine::PerCpu<T> for Shards<T> {
    type Guard<'a> = MutexGuard<'a, T>;

    fn local(&self) -> MutexGuard<'_, T> {
        self.0[TASK.with_borrow(|task| task.0)].lock().unwrap()
    }

    fn for_each_cpu(&self, mut visit: impl FnMut(&mut T)) {
        for shard in &self.0 {
            visit(&mut shard.lock().unwrap());
        }
    }
}

impl Observe for ThreadMachine {
    type Span<'a> = ();

    fn span(&self, _: Func) {}
}

impl Machine for ThreadMachine {
    type Lock<T: 'static> = StdLock<T>;
    type PerCpu<T: 'static> = Shards<T>;
    type WaitQueue = Queue;
    type Hazards = NoHazards;

    fn now(&self) -> Nanos {
        Nanos(self.0.began.elapsed().as_nanos() as u64)
    }

    fn cpus(&self) -> usize {
        SHARDS
    }

    fn lock<T: 'static>(&self, _: LockClass, value: T) -> StdLock<T> {
        StdLock(Mutex::new(value))
    }

    fn per_cpu<T: 'static>(&self, make: impl FnMut(usize) -> T) -> Shards<T> {
        Shards((0..SHARDS).map(make).map(Mutex::new).collect())
    }

    fn wait_queue(&self) -> Queue {
        Queue::default()
    }

    fn ticket(&self, queue: &Queue) -> Ticket {
        Ticket(*queue.wakes.lock().unwrap())
    }

    fn sleep(&self, queue: &Queue, ticket: Ticket, deadline: Option<Nanos>) -> Nanos {
        let mut wakes = queue.wakes.lock().unwrap();
        loop {
            let left = deadline.map_or(Nanos(u64::MAX), |deadline| deadline.since(self.now()));
            if *wakes != ticket.0 || left == Nanos(0) || self.is_killed() {
                return left;
            }
            let look = LOOK.min(Duration::from_nanos(left.0));
            wakes = queue.woken.wait_timeout(wakes, look).unwrap().0;
        }
    }

    fn wake(&self, queue: &Queue) {
        *queue.wakes.lock().unwrap() += 1;
        queue.woken.notify_all();
    }

    fn pause(&self, time: Nanos) {
        let queue = Queue::default();
        self.sleep(&queue, Ticket(0), Some(self.now() + time));
    }

    fn is_killed(&self) -> bool {
        TASK.with_borrow(|task| task.1.load(Ordering::SeqCst))
    }

    fn spend(&self, _: Step, _: u32) {}

    fn relax(&self) {
        thread::yield_now();
    }

    fn cond_resched(&self) {}

    fn submit(&self, request: Request) {
        let contents = request.frames.iter().map(|frame| *self.0.frames[frame.index()].lock().unwrap()).collect();
        let way = request.operation as usize;
        let mut device = self.0.device.lock().unwrap();
        while device.allocated[way] == QUEUE {
            device = self.0.device_changed.wait(device).unwrap();
        }
        device.allocated[way] += 1;
        device.is_congested[way] |= device.allocated[way] >= CONGESTED;
        device.waiting.push_back((request, contents));
        self.0.device_changed.notify_all();
    }

    fn is_congested(&self, _: DeviceId, operation: Operation) -> bool {
        self.0.device.lock().unwrap().is_congested[operation as usize]
    }

    fn is_any_congested(&self, operation: Operation) -> bool {
        self.is_congested(DeviceId(0), operation)
    }

    fn uncongested(&self) -> &Queue {
        &self.0.uncongested
    }

    fn hazards(&self) -> &NoHazards {
        &NoHazards
    }

    fn zero_frame(&self, frame: FrameNumber) {
        self.0.frames[frame.index()].lock().unwrap().fill(0);
    }

    fn copy_frame(&self, from: FrameNumber, to: FrameNumber) {
        let bytes = *self.0.frames[from.index()].lock().unwrap();
        *self.0.frames[to.index()].lock().unwrap() = bytes;
    }

    fn write_frame(&self, frame: FrameNumber, offset: usize, bytes: &[u8]) {
        self.0.frames[frame.index()].lock().unwrap()[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    fn read_frame(&self, frame: FrameNumber, offset: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0.frames[frame.index()].lock().unwrap()[offset..][..bytes.len()]);
    }
}

impl ThreadMachine {
    /// Creates a machine of `frames` frames for `tasks` tasks.
    pub fn new(tasks: usize, frames: u32) -> Self {
        Self(Arc::new(Shared {
            began: Instant::now(),
            frames: (0..frames).map(|_| Mutex::new([0; PAGE_BYTES])).collect(),
            kill_flags: (0..tasks).map(|_| Arc::default()).collect(),
            device: Mutex::default(),
            device_changed: Condvar::new(),
            uncongested: Queue::default(),
            receive: OnceLock::new(),
        }))
    }

    /// Serves the requests of the device, one after another, until the machine is shut down. The thread of the device
    /// calls this.
    pub fn serve(&self) {
        loop {
            let mut device = self.0.device.lock().unwrap();
            let (request, contents) = loop {
                match device.waiting.pop_front() {
                    Some(next) => break next,
                    None if device.is_over => return,
                    None => device = self.0.device_changed.wait(device).unwrap(),
                }
            };
            drop(device);
            thread::sleep(Duration::from_micros(100));
            let mut device = self.0.device.lock().unwrap();
            let result = device.result(&request);
            for ((block, &frame), bytes) in (request.block..).zip(&request.frames).zip(contents) {
                if result.is_err() {
                    break;
                }
                if request.operation == Operation::Write {
                    device.unstable += u64::from(*self.0.frames[frame.index()].lock().unwrap() != bytes);
                    device.blocks.insert(block, bytes);
                } else {
                    let bytes = device.blocks.get(&block).copied().unwrap_or([0; PAGE_BYTES]);
                    *self.0.frames[frame.index()].lock().unwrap() = bytes;
                }
            }
            let way = request.operation as usize;
            device.allocated[way] -= 1;
            let has_ended = device.is_congested[way] && device.allocated[way] < UNCONGESTED;
            device.is_congested[way] &= !has_ended;
            self.0.device_changed.notify_all();
            drop(device);
            (self.0.receive.get().expect("set before the tasks start"))(self, request, result);
            if has_ended {
                self.wake(&self.0.uncongested);
            }
        }
    }

    /// Lets one in `n` writes to blocks before `end` fail from now on.
    pub fn fail_writes(&self, n: u64, end: u64) {
        self.0.device.lock().unwrap().bad = Some((n, end));
    }

    /// Returns the number of writes that have failed.
    pub fn failed_writes(&self) -> u64 {
        self.0.device.lock().unwrap().failed
    }

    /// Returns the number of pages that changed in memory while they were written.
    pub fn unstable_writes(&self) -> u64 {
        self.0.device.lock().unwrap().unstable
    }

    /// Ends the device's thread.
    pub fn end(&self) {
        self.0.device.lock().unwrap().is_over = true;
        self.0.device_changed.notify_all();
    }

    /// Sets the function that receives finished requests. Called once, before any request is submitted.
    pub fn receive_with(&self, receive: Receive) {
        assert!(self.0.receive.set(receive).is_ok(), "requests have a receiver already");
    }

    /// Makes the calling thread task number `number`.
    pub fn enter_task(&self, number: usize) {
        TASK.set((number % SHARDS, Arc::clone(&self.0.kill_flags[number])));
    }

    /// Tells a task to end.
    pub fn kill(&self, number: usize) {
        self.0.kill_flags[number].store(true, Ordering::SeqCst);
    }
}
