//! A pool of threads that carry out disk requests with ordinary reads and writes. It is used where io_uring is not
//! available, and for files that go through the kernel's page cache, where io_uring has no advantage.

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
    /// Makes a pool of `threads` threads; if `threads` is 0, of one.
    ///
    /// # Errors
    /// When the system does not grant all of the threads.
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

    /// Tells the threads to end as soon as no transfer waits.
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
        // A transfer that bypasses the kernel's page cache goes to another thread, because a disk can serve several
        // requests at a time. A transfer through the page cache is carried out here, because the cache answers at once.
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
            // A machine may be dropped by the end of its last transfer, on a thread of this pool. That thread cannot
            // join itself.
            if thread.thread().id() != thread::current().id() {
                // The thread cannot have panicked: a panic would have ended the process.
                let _ = thread.join();
            }
        }
    }
}
