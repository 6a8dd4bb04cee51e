//! Tasks: threads.
//!
//! Any thread may call the machine; it needs no registration. Threads that the machine starts ([`super::Host::spawn`]:
//! kswapd, flushers) can be killed too: a killed task returns from its waits at once, and ends when its loop asks.

use super::sys;
use parking_lot::Mutex;
use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// A task that a machine started, numbered from 0 in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// The value that a task's panic carried.
pub type Panic = Box<dyn Any + Send>;

thread_local! {
    /// The kill flag of the thread's task; none for a thread that no machine started.
    static KILL: OnceCell<Arc<AtomicBool>> = const { OnceCell::new() };
    /// Calls of [`relax`].
    static RELAXED: Cell<u32> = const { Cell::new(0) };
}

/// Returns whether the calling thread's task has been told to end.
#[inline]
pub(super) fn is_killed() -> bool {
    // Gone already where another thread-local value is dropped at the thread's end: that is no task of a machine.
    KILL.try_with(|kill| kill.get().is_some_and(|kill| kill.load(Ordering::SeqCst))).unwrap_or(false)
}

/// Calls of [`relax`] for each call that lets other threads run.
///
/// The system preempts threads, where Linux's own code has to offer the CPU, so most calls do nothing. The exception
/// are loops that wait for another thread without sleeping: they get a few tries, then let it run.
const RELAX_INTERVAL: u32 = 16;

/// Lets other threads run at some calls, and at every call of a killed task, which does not sleep any more.
pub(super) fn relax() {
    let calls = RELAXED.get().wrapping_add(1);
    RELAXED.set(calls);
    if calls.is_multiple_of(RELAX_INTERVAL) || is_killed() {
        thread::yield_now();
    }
}

/// Ends the process when its owner panics. Other threads wait for the work of a thread of the engine, for pages that it
/// writes and requests that it has in flight, and would never continue. The panic's message has been printed by then.
pub(crate) struct AbortOnPanic {
    /// `true` if it was made during another panic.
    is_late: bool,
}

impl AbortOnPanic {
    pub(crate) fn new() -> Self {
        Self { is_late: thread::panicking() }
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() && !self.is_late {
            std::process::abort();
        }
    }
}

/// Starts a thread, and returns when it runs.
///
/// The standard library takes a little memory for a new thread on that thread, and ends the process if it gets none. A
/// process that limits its memory after the start of the library must not meet that.
///
/// # Errors
/// When the system grants no thread.
pub(super) fn start_thread(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let (runs, is_running) = mpsc::sync_channel(1);
    let handle = thread::Builder::new().name(name).spawn(move || {
        let _ = runs.send(());
        run();
    })?;
    is_running.recv().expect("a thread sends before it does anything else");
    Ok(handle)
}

struct Task {
    kill: Arc<AtomicBool>,
    /// The thread's handle, until it is joined.
    handle: Option<JoinHandle<()>>,
    thread: thread::Thread,
}

/// The tasks that a machine started.
#[derive(Default)]
pub(super) struct Tasks(Mutex<Vec<Task>>);

impl Tasks {
    pub(super) fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<TaskId> {
        let kill = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&kill);
        let mut tasks = self.0.lock();
        let handle = start_thread(name.to_owned(), move || {
            KILL.with(|kill| kill.set(flag).expect("a new thread has no task yet"));
            // Others wait for what the engine's tasks do. Where the system does not grant it, they wait longer.
            let _ = sys::runs_early();
            run();
        })?;
        let id = TaskId(u32::try_from(tasks.len()).expect("threads are fewer than 2^32"));
        let thread = handle.thread().clone();
        tasks.push(Task { kill, handle: Some(handle), thread });
        Ok(id)
    }

    pub(super) fn kill(&self, id: TaskId) {
        let tasks = self.0.lock();
        let task = &tasks[id.0 as usize];
        task.kill.store(true, Ordering::SeqCst);
        // It looks at the flag each time before it parks, wherever it sleeps.
        task.thread.unpark();
    }

    pub(super) fn join(&self, id: TaskId) -> Result<(), Panic> {
        let handle = self.0.lock()[id.0 as usize].handle.take();
        handle.map_or(Ok(()), JoinHandle::join)
    }

    pub(super) fn count(&self) -> u32 {
        self.0.lock().len() as u32
    }
}
