//! Threads that read and write, used if io_uring is not available or has no advantage (for a file in the kernel's page
//! cache).

use super::backend::{Backend, Transfer};
use crate::machine::task::{AbortOnPanic, start_thread};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

#[derive(Default)]
struct Inbox {
    waiting: VecDeque<Transfer>,
    is_over: bool,
}

#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    changed: Condvar,
}

/// A pool of threads that carry out transfers.
pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// # Errors
    /// When the system grants no thread for the pool.
    pub(super) fn new(threads: usize) -> std::io::Result<Arc<Self>> {
        let mut pool = Self { shared: Arc::default(), threads: Vec::new() };
        for number in 0..threads.max(1) {
            pool.spawn(number)?;
        }
        Ok(Arc::new(pool))
    }
}

impl Pool {
    /// Makes a pool with as many threads as the system grants, at most `threads`. The system may grant none; another
    /// thread must then call [`Pool::serve`].
    pub(super) fn of_at_most(threads: usize) -> Arc<Self> {
        let mut pool = Self { shared: Arc::default(), threads: Vec::new() };
        // Stops at the first error, because the system grants no more threads then.
        let _ = (0..threads).try_for_each(|number| pool.spawn(number));
        Arc::new(pool)
    }

    fn spawn(&mut self, number: usize) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        self.threads.push(start_thread(format!("highwater-io{number}"), move || shared.serve())?);
        Ok(())
    }

    /// Makes the calling thread one of the pool's threads until the pool ends.
    pub(super) fn serve(&self) {
        self.shared.serve();
    }

    /// Ends the threads once no transfer waits any more.
    pub(super) fn end(&self) {
        self.shared.inbox.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    /// Carries out transfers on a thread of the pool until the pool ends.
    fn serve(&self) {
        let _abort = AbortOnPanic::new();
        loop {
            let transfer = {
                let mut inbox = self.inbox.lock();
                loop {
                    match inbox.waiting.pop_front() {
                        Some(transfer) => break transfer,
                        None if inbox.is_over => return,
                        None => self.changed.wait(&mut inbox),
                    }
                }
            };
            transfer.perform();
        }
    }
}

impl Backend for Pool {
    fn run_all(&self, mut transfers: Vec<Transfer>) {
        // Only transfers that bypass the kernel's page cache go to other threads: the page cache answers at once, but a
        // disk can serve several requests at a time.
        let last = transfers.pop();
        for transfer in transfers {
            if transfer.device().is_direct() { self.start(transfer) } else { transfer.perform() }
        }
        if let Some(transfer) = last {
            transfer.perform();
        }
    }

    fn start(&self, transfer: Transfer) {
        self.shared.inbox.lock().waiting.push_back(transfer);
        self.shared.changed.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.end();
        for thread in self.threads.drain(..) {
            // If the last transfer of a dropped machine finishes on one of these threads, that thread cannot join
            // itself.
            if thread.thread().id() != thread::current().id() {
                // The thread cannot have panicked: a panic would have ended the process.
                let _ = thread.join();
            }
        }
    }
}
