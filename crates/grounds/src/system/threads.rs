//! Tasks as threads of this process, for the grounds `host` and `linux`.

use computer::fork::{Forked, ForkedEnd, SharedWords};
use computer::sys;
use kit::{interrupt, panics};
use machine::Nanos;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use workloads::system::contents::Kept;
use workloads::system::{Given, SystemError};

/// Interval at which sleeping tasks check whether the user has interrupted the run.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A request that tells a task to end, and wakes the task if it sleeps.
#[derive(Debug, Default)]
pub struct Stop {
    is_set: AtomicBool,
    /// For a task that is a process of its own, the word that is 1 after the task was told to end.
    of_process: Option<SharedWords>,
    asleep: Mutex<()>,
    told: Condvar,
}

impl Stop {
    /// Makes the request for a task that will be a child process of this one.
    ///
    /// # Errors
    /// When the process's address space has no room.
    pub fn of_process() -> io::Result<Self> {
        Ok(Self { of_process: Some(SharedWords::new(1)?), ..Self::default() })
    }

    /// Tells the task to end.
    pub fn set(&self) {
        let _guard = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_set.store(true, Ordering::SeqCst);
        if let Some(word) = &self.of_process {
            word[0].store(1, Ordering::SeqCst);
        }
        self.told.notify_all();
    }

    /// Returns whether the task was told to end, either alone or together with all other tasks.
    #[must_use]
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
            || self.of_process.as_ref().is_some_and(|word| word[0].load(Ordering::Relaxed) == 1)
            || interrupt::is_set()
    }

    /// Sleeps for the duration `time`, or until the task is told to end, if that comes first.
    pub fn sleep(&self, time: Nanos) {
        let end = Instant::now() + Duration::from_nanos(time.0);
        let mut guard = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_set() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            guard = self.told.wait_timeout(guard, left.min(LOOK_EVERY)).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A thread that runs a task, or waits for the process that runs it.
#[derive(Debug)]
pub struct Thread {
    name: String,
    /// The flag by which the thread is told to stop.
    pub stop: Arc<Stop>,
    handle: Mutex<Option<JoinHandle<Result<(), String>>>>,
}

impl Thread {
    /// Starts a thread.
    ///
    /// # Panics
    /// When the operating system refuses to start another thread.
    #[must_use]
    pub fn start(name: &str, body: impl FnOnce(Arc<Stop>) + Send + 'static) -> Self {
        Self::start_boxed(name, Arc::default(), Box::new(body))
    }

    /// Starts a thread that waits for a child process, which `stop` tells to end. `ended` gets the bytes that the child
    /// returned; none if the child was killed or panicked. The kernel's out-of-memory killer may kill a child, so only
    /// another end of the child makes the thread panic.
    ///
    /// # Panics
    /// When the operating system refuses to start another thread.
    #[must_use]
    pub fn wait_for(
        name: &str,
        child: Forked,
        stop: Arc<Stop>,
        ended: impl FnOnce(Option<Vec<u8>>) + Send + 'static,
    ) -> Self {
        let wait = move |stop: Arc<Stop>| {
            let pass_on = || {
                if interrupt::is_set() {
                    stop.set()
                }
            };
            let failure = match child.wait(LOOK_EVERY, pass_on) {
                ForkedEnd::Returned(bytes) => return ended(Some(bytes)),
                ForkedEnd::Signal(libc::SIGKILL) => return ended(None),
                ForkedEnd::Signal(signal) => format!("signal {signal} ended the process"),
                ForkedEnd::Panicked(message) => message,
            };
            ended(None);
            panic!("{failure}");
        };
        Self::start_boxed(name, stop, Box::new(wait))
    }

    /// Starts a thread. This function is not generic, so that it is compiled once and not for each body.
    fn start_boxed(name: &str, stop: Arc<Stop>, body: Box<dyn FnOnce(Arc<Stop>) + Send>) -> Self {
        let own = stop.clone();
        let caught = move || {
            sys::sleep_exactly();
            catch_unwind(AssertUnwindSafe(|| body(own))).map_err(|payload| panics::message(&*payload))
        };
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(caught);
        let handle = handle.unwrap_or_else(|error| panic!("cannot start thread `{name}`: {error}"));
        Self { name: name.to_owned(), stop, handle: Mutex::new(Some(handle)) }
    }

    /// Waits for the end of the thread.
    ///
    /// # Panics
    /// When the thread panicked.
    pub fn join(&self) {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Ok(Err(message))) = handle.map(JoinHandle::join) {
            panic!("task `{}`: {message}", self.name);
        }
    }
}

/// The state that `host` and `linux` have in common: clock, folder, and parameters of the run.
#[derive(Clone, Debug)]
pub struct Common {
    started: Instant,
    /// The seed, scale and progress of the run.
    pub given: Given,
    /// The folder in which the ground keeps the workload's files.
    pub folder: PathBuf,
    /// Size of the memory that the ground offers to its workload, pages.
    pub memory_pages: u64,
    /// The part of each page's contents that is kept, so that workloads can verify it: nothing, a stamp, the first
    /// bytes, or all bytes.
    pub kept: Kept,
}

impl Common {
    /// Creates the common state of a ground, and starts its clock. The ground keeps the workload's files in `folder`.
    #[must_use]
    pub fn new(given: Given, folder: PathBuf, memory_pages: u64, kept: Kept) -> Self {
        Self { started: Instant::now(), given, folder, memory_pages, kept }
    }

    /// Returns the time since the start of the ground's clock.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Nanos {
        Nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// Returns the path of the workload's file `name`. The ground's own files have the names `reserved`, which a
    /// workload must not use.
    ///
    /// # Errors
    /// When `name` begins with a dot, is reserved, or leaves the folder.
    pub fn path(&self, name: &str, reserved: &[&str]) -> Result<PathBuf, SystemError> {
        if name.contains('/') || name.starts_with('.') || reserved.contains(&name) {
            return Err(SystemError(format!("`{name}` is no name of a file")));
        }
        Ok(self.folder.join(name))
    }
}

/// Generates the methods of [`System`](workloads::system::System) for time and tasks. The type must have two fields:
/// `shared`, an [`Arc`] of a value whose field `common` is a [`Common`]; and `stop`, the [`Stop`] of the task. It must
/// also have a method `enter_group_of`, which moves this process to the control group for a new task, or fails.
macro_rules! tasks_are_threads {
    () => {
        type Task = $crate::system::threads::Thread;

        fn given(&self) -> &workloads::system::Given {
            &self.shared.common.given
        }

        #[inline]
        fn now(&self) -> machine::Nanos {
            self.shared.common.now()
        }

        fn sleep(&self, time: machine::Nanos) {
            self.stop.sleep(time);
        }

        fn compute(&self, time: machine::Nanos) {
            computer::sys::compute(time);
        }

        fn spawn(&self, name: &str, body: impl FnOnce(&Self) + Send + 'static) -> Self::Task {
            let shared = self.shared.clone();
            let entered = self.enter_group_of(name);
            Self::Task::start(name, move |stop| {
                entered.unwrap_or_else(|error| panic!("{error}"));
                body(&Self { shared, stop });
            })
        }

        fn join(&self, task: &Self::Task) {
            task.join();
        }

        fn kill(&self, task: &Self::Task) {
            task.stop.set();
        }

        #[inline]
        fn is_killed(&self) -> bool {
            self.stop.is_set()
        }

        fn memory_pages(&self) -> u64 {
            self.shared.common.memory_pages
        }

        fn kept(&self) -> workloads::system::contents::Kept {
            self.shared.common.kept
        }

        fn cpu_times(&self) -> figures::usage::CpuTimes {
            computer::sys::cpu_times()
        }
    };
}
pub(super) use tasks_are_threads;
