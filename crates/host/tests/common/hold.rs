//! A backend that keeps reads of futures until a test lets them go, and a waker that counts its calls.

use highwater::machine::disk::backend::{Backend, Transfer};
use machine::Operation;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// The reads that a [`Holding`] keeps.
#[derive(Default)]
pub struct Hold {
    kept: Mutex<Vec<Transfer>>,
    is_over: Mutex<bool>,
}

impl Hold {
    /// Returns the number of reads that are kept.
    pub fn count(&self) -> usize {
        self.kept.lock().unwrap().len()
    }

    /// Carries out the reads that are kept, on the calling thread, also those that begin because of this; later reads are
    /// not kept any more.
    pub fn let_go(&self) {
        *self.is_over.lock().unwrap() = true;
        self.carry_out();
    }

    /// Carries out the reads that are kept now.
    pub fn carry_out(&self) {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap());
        kept.into_iter().for_each(Transfer::perform);
    }
}

/// A backend that keeps the reads that are started without a waiting thread.
pub struct Holding {
    pub inner: Arc<dyn Backend>,
    pub hold: Arc<Hold>,
}

impl Backend for Holding {
    fn run_all(&self, transfers: Vec<Transfer>) {
        self.inner.run_all(transfers);
    }

    fn start(&self, transfer: Transfer) {
        let keeps = transfer.request().operation == Operation::Read && !*self.hold.is_over.lock().unwrap();
        if keeps {
            self.hold.kept.lock().unwrap().push(transfer);
        } else {
            self.inner.start(transfer);
        }
    }
}

/// A waker that counts its calls.
#[derive(Default)]
pub struct Counting(AtomicU32);

impl Counting {
    pub fn calls(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// Polls a future with this waker.
    pub fn poll<F: Future + Unpin>(self: &Arc<Self>, future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(&Waker::from(self.clone())))
    }
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits until `is_true` returns `true`.
pub fn wait_until(is_true: impl Fn() -> bool) {
    while !is_true() {
        std::thread::yield_now();
    }
}
