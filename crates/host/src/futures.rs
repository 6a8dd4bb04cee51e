//! The state that the futures of a memory share: how many reads are under way, and the threads that make calls which may
//! sleep, for futures.
//!
//! *Turns*: a future that waits for a page keeps the page's frame. So that the reads of futures do not take all memory,
//! only a part of them is under way at a time: the pages for which they wait are at most a quarter of the memory. What is
//! read ahead with these pages comes on top. *Starved reads*: a read
//! that gets no turn or no frame at once is started by a single thread, in order. This thread may sleep until kswapd has
//! freed pages, reclaims itself if need be, and finds out when memory is exhausted, as the threads of blocking calls do.
//! *Changes*: writes and syncs are carried out by a few threads.

use crate::error::Error;
use crate::work::Workers;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The part of memory, as a divisor, that reads of futures may take while they are under way.
const READS_IN_MEMORY: u64 = 4;

/// Longest time for which the starting thread waits for a turn. If the futures that have turns are not polled, reads are
/// started all the same, until a turn is given back. Whether they succeed then depends on free memory.
const TURN_WAIT: Duration = Duration::from_millis(250);

/// Largest number of threads that carry out writes and syncs of futures.
pub(crate) const CHANGE_THREADS: usize = 4;

/// The state that the futures of a memory share.
pub(crate) struct Futures {
    pub turns: Turns,
    pub starved: Starved,
    /// The thread that starts reads that could not be started at once.
    pub starter: Workers,
    /// The threads that write and sync.
    pub changers: Workers,
}

impl Default for Futures {
    fn default() -> Self {
        Self {
            turns: Turns::default(),
            starved: Starved::default(),
            starter: Workers::new("highwater-start", 1),
            changers: Workers::new("highwater-change", CHANGE_THREADS),
        }
    }
}

/// The turns of reads, which bound the memory that they take.
#[derive(Default)]
pub(crate) struct Turns {
    taken: AtomicU64,
    /// Number of threads that wait for a turn.
    waiting: AtomicU32,
    /// `true` while no turn was given back since a thread has waited for one in vain.
    is_stuck: AtomicBool,
    lock: Mutex<()>,
    given_back: Condvar,
}

impl Turns {
    /// Takes a turn in a memory of `pages` pages, if fewer than a quarter as many are taken. Returns whether it did.
    #[inline]
    pub(crate) fn try_take(&self, pages: u64) -> bool {
        let most = (pages / READS_IN_MEMORY).max(1);
        self.taken.fetch_update(SeqCst, SeqCst, |taken| (taken < most).then_some(taken + 1)).is_ok()
    }

    /// Takes a turn. Sleeps until one is free, but at most for [`TURN_WAIT`].
    pub(crate) fn take(&self, pages: u64) {
        if self.try_take(pages) {
            return;
        }
        let deadline = Instant::now() + TURN_WAIT;
        let mut lock = self.lock.lock();
        self.waiting.fetch_add(1, SeqCst);
        while !self.try_take(pages) {
            if self.is_stuck.load(SeqCst) || self.given_back.wait_until(&mut lock, deadline).timed_out() {
                self.is_stuck.store(true, SeqCst);
                self.taken.fetch_add(1, SeqCst);
                break;
            }
        }
        self.waiting.fetch_sub(1, SeqCst);
    }

    /// Gives a turn back.
    #[inline]
    pub(crate) fn give_back(&self) {
        self.taken.fetch_sub(1, SeqCst);
        if self.is_stuck.load(SeqCst) {
            self.is_stuck.store(false, SeqCst);
        }
        if self.waiting.load(SeqCst) > 0 {
            let _lock = self.lock.lock();
            self.given_back.notify_one();
        }
    }
}

/// The reads that found no memory, as numbers in the order in which they asked. If memory is exhausted for one of them,
/// all reads that waited meanwhile fail, too, without a try of their own.
#[derive(Default)]
pub(crate) struct Starved {
    last: AtomicU64,
    exhausted: Mutex<Option<Exhausted>>,
}

/// The last attempt to free memory that failed.
struct Exhausted {
    /// The serial number of the memory control group whose file was read; 0 for none.
    group: u64,
    /// The number of the last read that asked before the attempt began.
    asked_before: u64,
    state: String,
}

impl Starved {
    /// Returns the number of a read that now asks for memory.
    pub(crate) fn next(&self) -> u64 {
        self.last.fetch_add(1, SeqCst) + 1
    }

    /// Returns the number of the last read that has asked.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(SeqCst)
    }

    /// Returns an error if an attempt for the group that began after read `number` had asked has failed.
    pub(crate) fn check(&self, group: u64, number: u64) -> Result<(), Error> {
        match &*self.exhausted.lock() {
            Some(exhausted) if exhausted.group == group && number <= exhausted.asked_before => {
                Err(Error::OutOfMemory { state: exhausted.state.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Notes that an attempt has failed with `error`, which began when `asked_before` was the last read that had asked.
    pub(crate) fn note(&self, group: u64, asked_before: u64, error: &Error) {
        if let Error::OutOfMemory { state } = error {
            *self.exhausted.lock() = Some(Exhausted { group, asked_before, state: state.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_a_quarter_of_the_pages_and_a_wait_for_one_ends() {
        let turns = Turns::default();
        assert_eq!((0..10).filter(|_| turns.try_take(8)).count(), 2);
        turns.give_back();
        turns.take(8);
        // Nobody gives a turn back: the first wait takes its time, and the others take none.
        let began = Instant::now();
        turns.take(8);
        assert!(began.elapsed() >= TURN_WAIT);
        (0..1000).for_each(|_| turns.take(8));
        assert_eq!(turns.taken.load(SeqCst), 1003);
        assert!(turns.is_stuck.load(SeqCst));
        turns.give_back();
        assert!(!turns.is_stuck.load(SeqCst));
        (0..1002).for_each(|_| turns.give_back());
        assert!(turns.try_take(3), "there is always one turn");
    }

    #[test]
    fn a_waiting_thread_gets_a_turn_that_is_given_back() {
        let turns = Turns::default();
        assert!(turns.try_take(4));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(4));
            while turns.waiting.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            turns.give_back();
            waiting.join().unwrap();
        });
        assert_eq!((turns.taken.load(SeqCst), turns.waiting.load(SeqCst)), (1, 0));
    }

    #[test]
    fn exhaustion_concerns_those_of_its_group_that_asked_before() {
        let starved = Starved::default();
        let numbers = [(); 3].map(|()| starved.next());
        assert!(starved.check(0, numbers[0]).is_ok());
        starved.note(0, 2, &Error::ShutDown);
        assert!(starved.check(0, numbers[0]).is_ok(), "only exhaustion counts");
        starved.note(0, 2, &Error::OutOfMemory { state: "full".to_owned() });
        let failed = |group| numbers.map(|number| starved.check(group, number).is_err());
        assert_eq!((failed(0), failed(1)), ([true, true, false], [false; 3]));
        assert_eq!(starved.last(), 3);
    }
}
