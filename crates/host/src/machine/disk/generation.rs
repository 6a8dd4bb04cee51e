//! Counts of writes in flight, in two groups called generations: writes that began before a task started to wait, and
//! later ones. The task waits for the first group alone.

use crate::machine::wait::WaitQueue;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts the writes under way, in two groups called generations. A thread can wait for all writes that have begun:
/// later writes belong to the other generation, so the thread does not wait for them.
#[derive(Debug, Default)]
pub(super) struct Generations {
    /// The number of the generation to which new writes belong; its lowest bit selects the counter in `under_way`.
    current: AtomicU32,
    under_way: [AtomicU32; 2],
    ended: WaitQueue,
    /// The lock that is held by the thread that waits for all writes of a generation to end.
    waiting: Mutex<()>,
}

/// The generation (one of two groups of writes under way) to which a write belongs: 0 or 1.
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

    /// Counts a write of the generation `own` as ended.
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
