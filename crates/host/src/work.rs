//! Threads that carry out, for futures, calls that may sleep.
//!
//! A [`Workers`] is a small pool of threads with one inbox. A thread starts when work waits and no thread is idle, up to
//! the pool's number; it then sleeps whenever the inbox is empty. [`Work`] is the future of one piece of work. If it is
//! dropped before the work has begun, the work is not carried out, and what it would have used is dropped at once.
//!
//! *Locks*: `inbox`, and the state of a piece of work; each is taken alone, for a few instructions.

use crate::error::Error;
use crate::machine::{call_waker, start_thread};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};

/// A pool of threads for work that may sleep.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    name: &'static str,
    threads_max: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    changed: Condvar,
}

#[derive(Default)]
struct Inbox {
    waiting: VecDeque<Arc<dyn Runs>>,
    idle: usize,
    is_over: bool,
}

/// A piece of work in an inbox.
trait Runs: Send + Sync {
    /// Carries the work out, unless its future was dropped.
    fn run(&self);
}

/// The function that a piece of work calls.
type Call<T> = Box<dyn FnOnce() -> T + Send>;

enum State<T> {
    Waiting(Call<T>, Waker),
    Running(Waker),
    Done(thread::Result<T>),
    /// The result was returned, or the future was dropped.
    Over,
}

struct Piece<T>(Mutex<State<T>>);

impl<T: Send> Runs for Piece<T> {
    fn run(&self) {
        let call = {
            let mut state = self.0.lock();
            match std::mem::replace(&mut *state, State::Over) {
                State::Waiting(call, waker) => {
                    *state = State::Running(waker);
                    call
                }
                other => {
                    *state = other;
                    return;
                }
            }
        };
        // A panic of the work is passed on to the future, as if the call had been made there.
        let result = catch_unwind(AssertUnwindSafe(call));
        let mut state = self.0.lock();
        if let State::Running(waker) = std::mem::replace(&mut *state, State::Over) {
            *state = State::Done(result);
            drop(state);
            call_waker(waker);
        }
        // Otherwise the future was dropped, and so is the result, now that the lock is released.
    }
}

/// The result of a piece of work, once it is carried out.
pub(crate) struct Work<T>(Arc<Piece<T>>);

impl<T> Future for Work<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Cloning and dropping a waker runs code of the executor, so both happen without the lock.
        let mut new = cx.waker().clone();
        let mut state = self.0.0.lock();
        match &mut *state {
            State::Waiting(_, waker) | State::Running(waker) => {
                std::mem::swap(waker, &mut new);
                drop(state);
                Poll::Pending
            }
            State::Done(_) => match std::mem::replace(&mut *state, State::Over) {
                State::Done(Ok(result)) => Poll::Ready(result),
                State::Done(Err(panic)) => {
                    drop(state);
                    resume_unwind(panic)
                }
                State::Waiting(..) | State::Running(_) | State::Over => Poll::Pending,
            },
            State::Over => Poll::Pending,
        }
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        let former = std::mem::replace(&mut *self.0.0.lock(), State::Over);
        drop(former);
    }
}

impl<T> fmt::Debug for Work<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

impl Workers {
    /// Makes a pool of up to `threads_max` threads, at least one, which start when they are needed. Their names begin with
    /// `name`.
    pub(crate) fn new(name: &'static str, threads_max: usize) -> Self {
        Self { shared: Arc::default(), name, threads_max, threads: Mutex::default() }
    }

    /// Gives `call` to a thread of the pool. `waker` is woken when the result is there.
    ///
    /// # Errors
    /// When the system grants not even one thread.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        waker: &Waker,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Work<T>, Error> {
        let piece = Arc::new(Piece(Mutex::new(State::Waiting(Box::new(call), waker.clone()))));
        let work = Work(piece.clone());
        let needs_thread = {
            let mut inbox = self.shared.inbox.lock();
            inbox.waiting.push_back(piece);
            inbox.waiting.len() > inbox.idle
        };
        self.shared.changed.notify_one();
        if needs_thread {
            // If there is no thread, `work` is dropped, and nothing is called.
            self.add_thread()?;
        }
        Ok(work)
    }

    /// Starts a thread, unless there are as many as there may be.
    fn add_thread(&self) -> Result<(), Error> {
        let mut threads = self.threads.lock();
        if threads.len() >= self.threads_max.max(1) {
            return Ok(());
        }
        let shared = self.shared.clone();
        match start_thread(format!("{}{}", self.name, threads.len()), move || shared.serve()) {
            Ok(thread) => threads.push(thread),
            Err(error) if threads.is_empty() => return Err(Error::System(error)),
            // The threads that are there do the work.
            Err(_) => {}
        }
        Ok(())
    }
}

impl Shared {
    fn serve(&self) {
        loop {
            let piece = {
                let mut inbox = self.inbox.lock();
                loop {
                    match inbox.waiting.pop_front() {
                        Some(piece) => break piece,
                        None if inbox.is_over => return,
                        None => {
                            inbox.idle += 1;
                            self.changed.wait(&mut inbox);
                            inbox.idle -= 1;
                        }
                    }
                }
            };
            piece.run();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.inbox.lock().is_over = true;
        self.shared.changed.notify_all();
        for thread in self.threads.get_mut().drain(..) {
            // The work itself may drop the last handle of a memory. The thread cannot join itself; it ends soon.
            if thread.thread().id() != thread::current().id() {
                // The thread cannot have panicked: panics of work and of wakers are caught.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    /// A waker that counts its calls.
    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll<T>(work: &mut Work<T>, waker: &Arc<Counting>) -> Poll<T> {
        Pin::new(work).poll(&mut Context::from_waker(&Waker::from(waker.clone())))
    }

    fn wait_for(count: &Counting, calls: u32) {
        while count.0.load(Ordering::SeqCst) < calls {
            thread::yield_now();
        }
    }

    #[test]
    fn work_is_carried_out_in_order_by_as_many_threads_as_were_asked_for() {
        let workers = Workers::new("test", 2);
        let waker = Arc::new(Counting::default());
        let both = Arc::new(Barrier::new(2));
        let mut works: Vec<_> = (0..100)
            .map(|n| {
                let both = both.clone();
                let run = move || {
                    // Only two threads at a time pass the barrier.
                    both.wait();
                    n
                };
                workers.run(&Waker::from(waker.clone()), run).unwrap()
            })
            .collect();
        wait_for(&waker, 100);
        assert!((0..).zip(&mut works).all(|(n, work)| poll(work, &waker) == Poll::Ready(n)));
        assert!(works.iter_mut().all(|work| poll(work, &waker).is_pending()), "a result is returned once");
        assert_eq!(workers.threads.lock().len(), 2);
        drop((workers, works));
        assert_eq!((waker.0.load(Ordering::SeqCst), Arc::strong_count(&waker)), (100, 1));
    }

    #[test]
    fn dropped_work_is_not_carried_out_and_drops_its_result() {
        let workers = Workers::new("test", 1);
        let (waker, shared) = (Arc::new(Counting::default()), Arc::new(()));
        let (begun, gate) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (own_begun, own_gate, own) = (begun.clone(), gate.clone(), shared.clone());
        let run = move || {
            own_begun.wait();
            own_gate.wait();
            own
        };
        let running = workers.run(&Waker::from(waker.clone()), run).unwrap();
        begun.wait();
        let own = shared.clone();
        let waiting = workers.run(&Waker::from(waker.clone()), move || drop(own)).unwrap();
        assert_eq!(Arc::strong_count(&shared), 3);
        drop(waiting);
        assert_eq!(Arc::strong_count(&shared), 2, "the work that had not begun is gone at once");
        drop(running);
        gate.wait();
        drop(workers);
        assert_eq!((Arc::strong_count(&shared), waker.0.load(Ordering::SeqCst)), (1, 0));
        assert_eq!(Arc::strong_count(&waker), 1);
    }
}
