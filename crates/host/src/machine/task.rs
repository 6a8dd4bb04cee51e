//! Tasks. A task of this machine is a thread.
//!
//! Any thread may call the machine; it needs no registration. Threads that the machine starts ([`super::Host::spawn`]:
//! kswapd, flushers) can also be killed: a killed task returns from its waits at once, and ends when its loop checks
//! whether it was killed.

use super::sys;
use parking_lot::Mutex;
use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// The number of a task that a machine started; tasks are numbered from 0 in the order of their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// The value with which a task panicked.
pub type Panic = Box<dyn Any + Send>;

thread_local! {
    /// The flag that tells the thread's task to end. The cell is empty in a thread that no machine started.
    static KILL: OnceCell<Arc<AtomicBool>> = const { OnceCell::new() };
    /// Number of calls of [`relax`] by this thread.
    static RELAXED: Cell<u32> = const { Cell::new(0) };
}

/// Returns whether the calling thread is a task that was told to end.
#[inline]
pub(super) fn is_killed() -> bool {
    // At the thread's end, the flag may be dropped before another thread-local value whose drop calls this function.
    // The thread then counts as not killed.
    KILL.try_with(|kill| kill.get().is_some_and(|kill| kill.load(Ordering::SeqCst))).unwrap_or(false)
}

/// Returns whether the calling thread is a task that a machine started.
#[inline]
pub(super) fn is_task() -> bool {
    KILL.try_with(|kill| kill.get().is_some()).unwrap_or(false)
}

/// Number of calls of [`relax`] by a thread, of which the last lets other threads run.
///
/// In the Linux kernel, a loop has to offer its CPU to other tasks. Threads of a process are preempted by the system
/// anyway, so most calls of `relax` do nothing. The exception is a loop that waits for another thread without sleeping:
/// after a few tries, it must let that thread run.
const RELAX_INTERVAL: u32 = 16;

/// Lets other threads run at every [`RELAX_INTERVAL`]th call of a thread; the other calls do nothing. In a killed task
/// every call lets other threads run, because the task's waits return at once, so that its loops would keep the CPU
/// busy.
pub(super) fn relax() {
    let calls = RELAXED.get().wrapping_add(1);
    RELAXED.set(calls);
    if calls.is_multiple_of(RELAX_INTERVAL) || is_killed() {
        thread::yield_now();
    }
}

/// A guard that aborts the process if the thread that holds the guard panics. By then the panic's message has been
/// printed. Without the guard, other threads might wait for ever: for pages that the thread was writing, or for disk
/// requests that it had in flight.
pub(crate) struct AbortOnPanic {
    /// `true` if the guard was made while the thread was already panicking. The guard then does not end the process.
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

/// Starts a thread, waits until it runs, and returns its handle.
///
/// At the start of a thread, the standard library allocates a little memory, and ends the process if it gets none.
/// Because of the wait, the memory is allocated before the caller goes on. The caller may then limit the memory of the
/// process.
///
/// # Errors
/// When the system grants no thread.
pub(crate) fn start_thread(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
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
    /// The handle of the thread; `None` once the thread was joined.
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
            // Other threads wait for the engine's tasks, so tasks get short time slices. If the system refuses them,
            // other threads only wait longer.
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
        // A task checks the flag each time before it parks, so this wakes it wherever it sleeps.
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
