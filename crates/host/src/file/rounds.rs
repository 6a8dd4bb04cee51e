//! The commit rounds of a file (group commit).
//!
//! A *round* writes all dirty pages of a file, and then the system makes the file durable. One thread at a time runs a
//! round, for itself and for all waiting threads. A thread that comes while a round is running waits for the next
//! round, because only the next one is certain to include its writes. Therefore threads that commit side by side share
//! the cost of a commit, and a thread that commits alone does not wait.
//!
//! Threads that commit repeatedly would split into two halves: one half would wait while the round of the other half
//! runs. Therefore a thread that is about to run a round first waits until the threads of the last round have come
//! again, at most for half of the last round's duration. (The journal of ext4 does the same.)

use crate::machine::Durable;
// `std` is used here because a `notify_all` of `parking_lot` does not wake all threads at once: each woken thread wakes
// the next one.
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time for which a thread that is about to run a commit round (one sync for several threads) waits for other
/// threads to join the round.
const GATHERING_MAX: Duration = Duration::from_millis(1);

/// The commit rounds of one file. A round writes the file's dirty pages and syncs the file, for all threads that wait.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    state: Mutex<State>,
    /// The condition variable that is signalled when a commit round has ended.
    ended: Condvar,
    /// The condition variable that is signalled when as many threads wait as the next round expects.
    gathered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    begun: u64,
    /// Number of commit rounds that have ended: equal to `begun`, or one less.
    ended: u64,
    /// `true` while a thread runs a commit round, or is about to run one.
    has_leader: bool,
    /// `true` while the thread that is about to run a commit round waits for other threads to join the round.
    is_gathering: bool,
    /// Number of threads that wait for the next commit round.
    waiting: u32,
    /// Number of threads that the next commit round expects: the threads of the last round, and the threads that came
    /// while the last round ran.
    expected: u32,
    /// Duration of the last commit round.
    took: Duration,
    /// True if a waiting thread wants all metadata of the file to be durable, too ([`Durable::All`]).
    wants_all: bool,
}

impl Rounds {
    /// Waits for the end of a commit round that began after this call. If no other thread is running a round, this
    /// thread runs the next round by calling `run`, and returns the result of `run`. Returns `None` if another thread
    /// ran the round.
    pub(super) fn join<R>(&self, wanted: Durable, run: impl FnOnce(Durable) -> R) -> Option<R> {
        let mut state = self.lock();
        state.wants_all |= wanted == Durable::All;
        state.waiting += 1;
        if state.is_gathering && state.waiting == state.expected {
            self.gathered.notify_one();
        }
        let own = state.begun + 1;
        while state.has_leader {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            if state.ended >= own {
                return None;
            }
        }
        state.has_leader = true;
        let patience = (state.took / 2).min(GATHERING_MAX);
        if state.waiting < state.expected && !patience.is_zero() {
            state.is_gathering = true;
            let are_missing = |state: &mut State| state.waiting < state.expected;
            let gathered = self.gathered.wait_timeout_while(state, patience, are_missing);
            state = gathered.unwrap_or_else(PoisonError::into_inner).0;
            state.is_gathering = false;
        }
        state.begun += 1;
        let wanted = if std::mem::take(&mut state.wants_all) { Durable::All } else { Durable::Data };
        let _round = Round { rounds: self, members: std::mem::take(&mut state.waiting), began: Instant::now() };
        drop(state);
        Some(run(wanted))
    }

    /// Returns whether no other thread runs a round, waits for one, or took part in the last one.
    pub(super) fn are_unused(&self) -> bool {
        let state = self.lock();
        !state.has_leader && state.waiting == 0 && state.expected <= 1
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has left the state in order: see `Round`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A round of syncs that has begun: one thread syncs the file for all threads that wait for it. Dropping the value ends
/// the round and wakes these threads.
struct Round<'a> {
    rounds: &'a Rounds,
    members: u32,
    began: Instant,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let mut state = self.rounds.lock();
        if thread::panicking() {
            // This thread panicked before it completed the round: one of the waiting threads runs the round anew.
            state.begun -= 1;
            state.wants_all = true;
        } else {
            state.ended += 1;
        }
        state.has_leader = false;
        state.took = self.began.elapsed();
        state.expected = state.waiting + self.members;
        let is_alone = state.expected == 1;
        drop(state);
        // A thread that is alone does not notify, because notifying is a system call even if no thread waits.
        if !is_alone {
            self.rounds.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Six threads write data and call `join` after each write. After each call, the data that the caller wrote before
    /// it must be durable, whichever thread ran the round of syncs. The number of rounds must be at least the number of
    /// calls by one thread, and at most the number of calls by all threads.
    #[test]
    fn a_round_covers_what_was_written_before_it_began_and_no_more() {
        const THREADS: u64 = 6;
        const COMMITS: u64 = 200;
        let rounds = Rounds::default();
        let written: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
        let durable: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
        let (run, running, all) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let start = Barrier::new(THREADS as usize);
        thread::scope(|scope| {
            for own in 0..THREADS as usize {
                let (rounds, written, durable) = (&rounds, &written, &durable);
                let (run, running, all, start) = (&run, &running, &all, &start);
                scope.spawn(move || {
                    start.wait();
                    for number in 1..=COMMITS {
                        written[own].store(number, Ordering::SeqCst);
                        let wanted = if number % 10 == 0 { Durable::All } else { Durable::Data };
                        let all_before = all.load(Ordering::SeqCst);
                        rounds.join(wanted, |wanted| {
                            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two rounds at a time");
                            run.fetch_add(1, Ordering::SeqCst);
                            let seen: Vec<u64> = written.iter().map(|written| written.load(Ordering::SeqCst)).collect();
                            thread::yield_now();
                            durable.iter().zip(seen).for_each(|(durable, seen)| durable.store(seen, Ordering::SeqCst));
                            all.fetch_add(u64::from(wanted == Durable::All), Ordering::SeqCst);
                            running.fetch_sub(1, Ordering::SeqCst);
                        });
                        assert!(durable[own].load(Ordering::SeqCst) >= number);
                        assert!(wanted == Durable::Data || all.load(Ordering::SeqCst) > all_before);
                    }
                });
            }
        });
        let run = run.into_inner();
        assert!((COMMITS..=THREADS * COMMITS).contains(&run), "{run} rounds");
        // A thread runs its round at once if no other thread waits.
        assert_eq!(rounds.join(Durable::Data, |_| 7), Some(7));
    }

    /// Checks that threads which call `join` while a round runs wait for the next round, and share it.
    #[test]
    fn those_who_come_during_a_round_share_the_next() {
        const WAITERS: usize = 5;
        let rounds = Rounds::default();
        let run = AtomicU64::new(0);
        thread::scope(|scope| {
            rounds.join(Durable::Data, |_| {
                run.fetch_add(1, Ordering::SeqCst);
                let (rounds, run) = (&rounds, &run);
                for _ in 0..WAITERS {
                    scope.spawn(move || {
                        rounds.join(Durable::All, |_| run.fetch_add(1, Ordering::SeqCst));
                    });
                }
                while rounds.lock().waiting < WAITERS as u32 {
                    thread::yield_now();
                }
                assert_eq!(run.load(Ordering::SeqCst), 1, "nobody runs one beside this");
            });
        });
        assert_eq!(run.into_inner(), 2);
    }
}
