//! Writes in flight, in two generations, so that a task can wait for all writes that have begun and need not wait for
//! later ones.

use crate::machine::wait::WaitQueue;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The writes that are under way, by generation; see the module's head.
#[derive(Debug, Default)]
pub(super) struct Generations {
    /// The generation of new operations, modulo 2.
    current: AtomicU32,
    under_way: [AtomicU32; 2],
    ended: WaitQueue,
    /// Held by the thread that waits for a generation to end.
    waiting: Mutex<()>,
}

/// The generation of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generation(usize);

impl Generations {
    /// Begins an operation. For each call of [`Generations::wait`], either the call waits for this operation, or this
    /// operation sees all changes that the caller made before.
    pub(super) fn begin(&self) -> Generation {
        loop {
            let own = Generation(self.current.load(Ordering::SeqCst) as usize % 2);
            self.under_way[own.0].fetch_add(1, Ordering::SeqCst);
            if self.current.load(Ordering::SeqCst) as usize % 2 == own.0 {
                return own;
            }
            // The generation changed meanwhile: a thread that waits for the old generation may already have seen that
            // it is empty.
            self.end(own);
        }
    }

    /// Ends an operation that belongs to the generation `own`.
    pub(super) fn end(&self, own: Generation) {
        if self.under_way[own.0].fetch_sub(1, Ordering::SeqCst) == 1 {
            self.ended.wake();
        }
    }

    /// Waits for all operations that have begun. Later operations see the caller's earlier changes.
    pub(super) fn wait(&self) {
        let _alone = self.waiting.lock();
        let old = self.current.fetch_add(1, Ordering::SeqCst) as usize % 2;
        loop {
            let ticket = self.ended.ticket();
            if self.under_way[old].load(Ordering::SeqCst) == 0 {
                return;
            }
            self.ended.sleep_unkillable(ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn only_what_has_begun_is_waited_for() {
        let generations = Generations::default();
        generations.wait();
        let (first, is_over) = (generations.begin(), AtomicBool::new(false));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                generations.wait();
                assert!(is_over.load(Ordering::SeqCst));
            });
            while generations.current.load(Ordering::SeqCst) == 1 {
                thread::yield_now();
            }
            let later = generations.begin();
            is_over.store(true, Ordering::SeqCst);
            generations.end(first);
            waiter.join().unwrap();
            generations.end(later);
        });
        generations.wait();
    }
}
