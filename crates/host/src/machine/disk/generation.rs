//! Counts of the writes in flight, kept apart in two generations: writes that began before a task started to wait, and
//! writes that began later. The task waits only until the first generation has ended.

use crate::machine::wait::WaitQueue;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counters of the writes under way. The writes are divided into two groups, called generations. A thread can wait for
/// all writes that have begun. It does not wait for later writes, because they belong to the other generation.
#[derive(Debug, Default)]
pub(super) struct Generations {
    /// The number of the generation to which new writes belong; its lowest bit selects the counter in `under_way`.
    current: AtomicU32,
    under_way: [AtomicU32; 2],
    ended: WaitQueue,
    /// The lock that a thread holds while it waits for the end of all writes of a generation.
    waiting: Mutex<()>,
}

/// One of the two groups, 0 and 1, into which the writes under way are divided. A thread can wait for all writes of one
/// group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generation(usize);

impl Generations {
    /// Counts a write as under way, and returns its generation. A call of [`Generations::wait`] either waits for this
    /// write, or has begun before it. In the second case, the write sees all changes that the waiting caller had made
    /// before its call.
    pub(super) fn begin(&self) -> Generation {
        loop {
            let own = Generation(self.current.load(Ordering::SeqCst) as usize % 2);
            self.under_way[own.0].fetch_add(1, Ordering::SeqCst);
            if self.current.load(Ordering::SeqCst) as usize % 2 == own.0 {
                return own;
            }
            // The generation changed meanwhile. A thread that waits for the old generation may already have found no
            // write in it, so this write must belong to the new one.
            self.end(own);
        }
    }

    /// Records that a write has ended. `own` is its generation.
    pub(super) fn end(&self, own: Generation) {
        if self.under_way[own.0].fetch_sub(1, Ordering::SeqCst) == 1 {
            self.ended.wake();
        }
    }

    /// Waits until all writes that have begun so far have ended. Writes that begin later see all changes that the
    /// caller made before this call.
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
