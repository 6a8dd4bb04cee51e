//! Making a file durable: group commit.
//!
//! A *round* writes all dirty pages of a file, and then the system makes the file durable. One thread at a time runs a
//! round, for itself and for all waiting threads. A thread that comes while a round is running waits for the next
//! round, because only the next one is certain to include its writes. Therefore threads that commit side by side share
//! the cost of a commit, and a thread that commits alone does not wait.
//!
//! Threads that commit repeatedly would split into two halves: one half would wait while the round of the other half
//! runs. Therefore a thread that is about to run a round first waits until the threads of the last round have come
//! again, at most for half of the last round's duration. (The journal of ext4 does the same.)

use super::{File, OpenFile};
use crate::error::Error;
use crate::machine::Durable;
use crate::shared::Shared;
use machine::{IoError, PAGE_BYTES};
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
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
    fn join<R>(&self, wanted: Durable, run: impl FnOnce(Durable) -> R) -> Option<R> {
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
    fn are_unused(&self) -> bool {
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

/// Largest number of pages in a thread's last write for which the thread writes these pages to disk by itself when it
/// syncs the file. It then joins a commit round, in which one sync serves several threads.
const OWN_PAGES_MAX: u32 = 8;

thread_local! {
    /// The file and the pages that this thread wrote last: the number of the file, the first page, and the page after
    /// the last.
    static LAST_WRITTEN: Cell<(u32, u32, u32)> = const { Cell::new((u32::MAX, 0, 0)) };
}

/// Notes that this thread has written pages of a file, because the thread may sync them soon.
#[inline]
pub(super) fn note_written(file: u32, pages: Range<u32>) {
    LAST_WRITTEN.set((file, pages.start, pages.end));
}

impl OpenFile {
    /// Writes the pages of this thread's last write to the disk, in parallel with other threads that sync the file.
    /// Does nothing if there are more than [`OWN_PAGES_MAX`] pages. Also does nothing if the file ends within the last
    /// of the pages: other threads that append write to that page, too, and [`Self::run_round`] writes it once for all
    /// of them.
    fn write_own_pages(&self, shared: &Shared) {
        let (file, start, end) = LAST_WRITTEN.replace((u32::MAX, 0, 0));
        if self.rounds.are_unused() {
            // The round writes these pages together with the others, in one request if there are no others.
            return;
        }
        let is_whole = u64::from(end) <= self.cached.length() / PAGE_BYTES as u64;
        if file == self.cached.id && is_whole && (1..=OWN_PAGES_MAX).contains(&end.saturating_sub(start)) {
            let _plug = shared.engine.machine().plug();
            shared.engine.access().write_few_pages(&self.cached, start..end);
        }
    }

    /// Writes all dirty pages and makes the system sync the file. Pages that cannot be written, and failures of the
    /// system, count as failed writes of the file and are reported to every handle.
    fn run_round(&self, shared: &Shared, wanted: Durable) -> io::Result<()> {
        {
            // All metadata of the file are more than a write can make durable.
            let syncs = (wanted == Durable::Data).then(|| self.device.id());
            let host = shared.engine.machine();
            let _plug = syncs.map_or_else(|| host.plug(), |device| host.plug_to_sync(device));
            shared.engine.access().write_dirty_pages(&self.cached);
        }
        self.sync_in_system(wanted)
    }

    /// Makes the system sync the file. A failure counts as a failed write of the file.
    pub(super) fn sync_in_system(&self, wanted: Durable) -> io::Result<()> {
        let synced = self.device.sync(wanted);
        if let Err(source) = &synced {
            let cause = source.raw_os_error().map_or(IoError::Device, IoError::Os);
            self.cached.note_write_error((self.cached.length() / PAGE_BYTES as u64) as u32, cause);
        }
        synced
    }

    /// Writes all dirty pages of the file and waits for the writes. Distant pages are written in parallel.
    pub(super) fn write_dirty_pages(&self, shared: &Shared) {
        let _plug = shared.engine.machine().plug();
        shared.engine.access().write_dirty_pages(&self.cached);
    }
}

impl File {
    /// Makes all data durable that were written to the file through any handle. Threads that call this at the same time
    /// share the work.
    ///
    /// # Errors
    /// When a page could not be written since this handle last got an error; the page stays in memory and will be
    /// written again. Also when the system could not make the file durable; the system has then given up the data that
    /// it had not written.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let log = memory.create(&path)?;
    /// log.write_all_at(b"begin; ", 0)?;
    /// log.write_all_at(b"commit", 7)?;
    /// log.sync_data()?;
    /// assert_eq!(std::fs::read(&path)?, b"begin; commit");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sync_data(&self) -> Result<(), Error> {
        self.sync("sync the data of the file", Durable::Data)
    }

    /// Makes all data and all metadata of the file durable.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<(), Error> {
        self.sync("sync the file", Durable::All)
    }

    fn sync(&self, doing: &'static str, wanted: Durable) -> Result<(), Error> {
        self.shared.check_is_up()?;
        let open = self.opened();
        let failed_before = self.cached().failed_writes();
        open.write_own_pages(&self.shared);
        let synced = open.rounds.join(wanted, |wanted| open.run_round(&self.shared, wanted));
        // Every thread that waited for the round reports the round's failures, not only the thread that ran it.
        self.report_sync(doing, failed_before, synced)
    }

    /// Returns the errors of a sync: failed writes of pages that this handle has not returned yet, and the failure of the
    /// system if this thread asked it to sync (`synced`). `failed_before` is the number of failed writes of the file
    /// before the sync.
    pub(super) fn report_sync(
        &self,
        doing: &'static str,
        failed_before: u32,
        synced: Option<io::Result<()>>,
    ) -> Result<(), Error> {
        let (open, cached) = (self.opened(), self.cached());
        let failed = cached.write_error_since(&self.seen_failures, failed_before);
        open.told.fetch_max(self.seen_failures.load(Ordering::Acquire), Ordering::AcqRel);
        if let Some(Err(source)) = synced {
            return Err(Error::File { path: open.path.to_path_buf(), doing, source });
        }
        failed.map_or(Ok(()), |failure| {
            let offset = u64::from(failure.page) * PAGE_BYTES as u64;
            Err(Error::Write { path: open.path.clone(), offset, source: failure.source })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU64;

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
