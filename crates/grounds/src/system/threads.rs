//! Tasks as threads of this process, for the grounds of real time.

use kit::{interrupt, panics};
use machine::Nanos;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which sleeping tasks check for an interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The request that a task ends, and the place where it sleeps.
#[derive(Debug, Default)]
pub struct Stop {
    is_set: AtomicBool,
    asleep: Mutex<()>,
    told: Condvar,
}

impl Stop {
    /// Tells the task to end.
    pub fn set(&self) {
        let _guard = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_set.store(true, Ordering::SeqCst);
        self.told.notify_all();
    }

    /// Returns whether this task, or every task, was told to end.
    #[must_use]
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed) || interrupt::is_set()
    }

    /// Sleeps until `time` is over or the task is told to end.
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

/// A thread that runs a task.
#[derive(Debug)]
pub struct Thread {
    name: String,
    /// The stop request of this thread.
    pub stop: Arc<Stop>,
    handle: Mutex<Option<JoinHandle<Result<(), String>>>>,
}

impl Thread {
    /// Starts a thread.
    ///
    /// # Panics
    /// When the system has no thread to give.
    #[must_use]
    pub fn start(name: &str, body: impl FnOnce(Arc<Stop>) + Send + 'static) -> Self {
        let stop = Arc::new(Stop::default());
        let own = stop.clone();
        let caught = move || catch_unwind(AssertUnwindSafe(|| body(own))).map_err(|payload| panics::message(&*payload));
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
