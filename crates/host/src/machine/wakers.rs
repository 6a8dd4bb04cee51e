//! The thread that calls the wakers of futures.
//!
//! A waker runs code of the application's executor, and may even drop a future, a [`File`](crate::File) or the whole
//! memory. The thread that ends a request or releases a page may be in the middle of the engine, or be the thread of the
//! ring, for which that drop would wait. So it only hands the wakers over, and a thread of their own calls them. The
//! thread starts when the first future waits, and sleeps while there is nothing to call.
//!
//! *Locks*: `due`, for a few instructions.

use super::sys;
use super::task::start_thread;
use super::wait::TakenWakers;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::{self, JoinHandle};

/// The wakers that are to be called, and the thread that calls them.
#[derive(Default)]
pub(super) struct Wakers {
    shared: Arc<Shared>,
    has_thread: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    due: Mutex<Due>,
    changed: Condvar,
}

#[derive(Default)]
struct Due {
    wakers: Vec<Waker>,
    is_over: bool,
}

impl Wakers {
    /// Starts the thread, unless it runs already.
    ///
    /// # Errors
    /// When the system grants no thread.
    #[inline]
    pub(super) fn start(&self) -> io::Result<()> {
        if self.has_thread.load(Ordering::Acquire) { Ok(()) } else { self.start_first() }
    }

    #[cold]
    fn start_first(&self) -> io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let shared = self.shared.clone();
            let run = move || {
                // Futures wait for this thread. If the system refuses short time slices, they only wait longer.
                let _ = sys::runs_early();
                shared.serve();
            };
            *thread = Some(start_thread("highwater-wake".to_owned(), run)?);
            self.has_thread.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Hands wakers over to the thread.
    pub(super) fn call(&self, wakers: TakenWakers) {
        if wakers.is_empty() {
            return;
        }
        let mut due = self.shared.due.lock();
        let was_empty = due.wakers.is_empty();
        due.wakers.extend(wakers);
        drop(due);
        // The thread takes all wakers at a time, so it sleeps only while there are none.
        if was_empty {
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn serve(&self) {
        let mut taken = Vec::new();
        loop {
            {
                let mut due = self.due.lock();
                while due.wakers.is_empty() {
                    if due.is_over {
                        return;
                    }
                    self.changed.wait(&mut due);
                }
                std::mem::swap(&mut due.wakers, &mut taken);
            }
            taken.drain(..).for_each(call);
        }
    }
}

/// Calls a waker. If the waker panics, the panic's message was printed, and the other wakers are called all the same.
pub(crate) fn call(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

impl Drop for Wakers {
    fn drop(&mut self) {
        self.shared.due.lock().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.get_mut().take() {
            // A waker may have dropped the last handle of the machine. The thread cannot join itself; it ends soon.
            if thread.thread().id() != thread::current().id() {
                // The thread cannot have panicked: panics of wakers are caught.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    struct Counting(AtomicU32);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            assert_ne!(self.0.fetch_add(1, Ordering::SeqCst), 1, "the second call panics");
        }
    }

    #[test]
    fn every_waker_is_called_even_after_one_that_panics() {
        let wakers = Wakers::default();
        wakers.start().unwrap();
        wakers.start().unwrap();
        let count = Arc::new(Counting(AtomicU32::new(0)));
        for _ in 0..50 {
            wakers.call([(); 3].into_iter().map(|()| Waker::from(count.clone())).collect());
        }
        // The thread calls the wakers that are left before it ends.
        drop(wakers);
        assert_eq!((count.0.load(Ordering::SeqCst), Arc::strong_count(&count)), (150, 1));
    }
}
