//! Writes in flight, in two generations, so that a task can wait for those that have begun and not for later ones.

use crate::machine::wait::WaitQueue;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The requests that are under way; see the module's head.
#[derive(Debug, Default)]
pub(super) struct Generations {
    /// The generation of new operations, modulo 2.
    current: AtomicU32,
    under_way: [AtomicU32; 2],
    ended: WaitQueue,
    /// Held by the thread that waits.
    waiting: Mutex<()>,
}

/// The generation of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generation(usize);

impl Generations {
    /// Begins an operation. A caller of [`Generations::wait`] either waits for it, or made its changes before the
    /// operation reads anything.
    pub(super) fn begin(&self) -> Generation {
        loop {
            let own = Generation(self.current.load(Ordering::SeqCst) as usize % 2);
            self.under_way[own.0].fetch_add(1, Ordering::SeqCst);
            if self.current.load(Ordering::SeqCst) as usize % 2 == own.0 {
                return own;
            }
            // A thread that waits for this generation may have seen that it is empty.
            self.end(own);
        }
    }

    /// Ends an operation of this generation.
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
