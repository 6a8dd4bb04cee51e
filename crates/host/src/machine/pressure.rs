//! Pressure stall information of a library's memory: the time in which threads that called it lacked memory
//! (mechanisms/pressure, 6).
//!
//! A thread is *stalled* while its call frees memory itself, waits for others to do so, or waits for a page that was
//! evicted although it was in use. Threads that the machine started (kswapd, flushers) do not count.
//!
//! *Some* is the time in which at least one thread is stalled. *Full* is the time in which at least one thread is
//! stalled, and no thread is known to work in a call. Work outside of calls is not seen. So that calls cost nothing while
//! no thread is stalled, a call is known only from the first moment at which it meets a stall: when it begins during
//! one, or when the thread's own stall ends during another's. A call that waits for a disk or a lock does not work.
//!
//! *Locks*: the mutex of the counts; nothing is called while it is held.

use super::{task, wait};
use machine::Nanos;
use machine::pressure::{Averages, PERIOD, Pressure, Stalls};
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// What a thread does. A thread is in a call of one memory at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Number of nested stalls.
    stalls: u32,
    is_in_call: bool,
    /// `true` if the thread's call is known.
    is_known: bool,
    /// `true` while the thread sleeps for something else than memory.
    waits: bool,
}

impl Thread {
    const NEW: Self = Self { stalls: 0, is_in_call: false, is_known: false, waits: false };

    /// Returns how often the thread counts as stalled, and as working.
    fn counts(self) -> [u32; 2] {
        let is_stalled = self.stalls > 0;
        [is_stalled.into(), (self.is_known && !is_stalled && !self.waits).into()]
    }
}

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread::NEW) };
}

/// The number of threads by what they do, and the stall times up to `since`.
#[derive(Debug)]
struct Counts {
    stalled: u32,
    working: u32,
    since: Nanos,
    /// Stall times so far, some and full.
    total: [Nanos; 2],
    averages: [Averages; 2],
    /// The stall times at the end of the last period.
    at_period: [Nanos; 2],
    /// End of the present period.
    ends: Nanos,
}

impl Counts {
    /// Adds the time up to `now`.
    fn advance(&mut self, now: Nanos) {
        while self.since < now {
            let to = now.min(self.ends);
            let time = to.since(self.since);
            self.since = to;
            if self.stalled > 0 {
                self.total[0] += time;
                if self.working == 0 {
                    self.total[1] += time;
                }
            }
            if to == self.ends {
                self.end_period(now);
            }
        }
    }

    fn end_period(&mut self, now: Nanos) {
        for ((averages, before), total) in self.averages.iter_mut().zip(&mut self.at_period).zip(self.total) {
            averages.add_period(total.since(*before).as_secs_f64() / PERIOD.as_secs_f64());
            *before = total;
        }
        self.ends += PERIOD;
        if self.stalled == 0 && self.ends <= now {
            let quiet = now.since(self.ends).0 / PERIOD.0 + 1;
            self.averages.iter_mut().for_each(|averages| averages.add_quiet_periods(quiet));
            self.ends += Nanos(quiet * PERIOD.0);
            self.since = Nanos(self.ends.0 - PERIOD.0);
        }
    }
}

/// Stall times of the threads that call one memory.
#[derive(Debug)]
pub(super) struct ThreadPressure {
    began: Instant,
    /// The number of stalled threads, which calls read before they count anything.
    stalled: AtomicU32,
    counts: Mutex<Counts>,
}

impl ThreadPressure {
    pub(super) fn new(began: Instant) -> Self {
        let counts = Counts {
            stalled: 0,
            working: 0,
            since: Nanos(0),
            total: [Nanos(0); 2],
            averages: Default::default(),
            at_period: [Nanos(0); 2],
            ends: PERIOD,
        };
        Self { began, stalled: AtomicU32::new(0), counts: Mutex::new(counts) }
    }

    /// Changes what the calling thread does, and counts it as it is then.
    #[inline]
    fn change(&self, change: impl FnOnce(&mut Thread)) {
        let before = THREAD.get();
        let mut after = before;
        change(&mut after);
        THREAD.set(after);
        if before.counts() != after.counts() {
            self.recount(before.counts(), after.counts());
        }
    }

    #[cold]
    fn recount(&self, before: [u32; 2], after: [u32; 2]) {
        let mut counts = self.counts.lock();
        counts.advance(wait::since(self.began));
        counts.stalled = counts.stalled + after[0] - before[0];
        counts.working = counts.working + after[1] - before[1];
        self.stalled.store(counts.stalled, Relaxed);
    }

    fn is_any_stalled(&self) -> bool {
        self.stalled.load(Relaxed) > 0
    }

    /// Notes that a stall of the calling thread begins or ends.
    pub(super) fn note_stall(&self, begins: bool) {
        if task::is_task() {
            return;
        }
        self.change(|thread| thread.stalls = if begins { thread.stalls + 1 } else { thread.stalls - 1 });
        if !begins && self.is_any_stalled() {
            self.change(|thread| thread.is_known = thread.is_in_call);
        }
    }

    /// Notes that the calling thread is about to sleep, or has slept.
    pub(super) fn note_wait(&self, waits: bool) {
        self.change(|thread| thread.waits = waits);
    }

    /// Notes that the calling thread begins a call, which ends when the result is dropped.
    #[inline]
    pub(super) fn enter_call(&self) -> Call<'_> {
        self.change(|thread| {
            thread.is_in_call = true;
            thread.is_known = self.is_any_stalled();
        });
        Call(self)
    }

    /// Returns the figures until now.
    pub(super) fn read(&self) -> Pressure {
        let mut counts = self.counts.lock();
        counts.advance(wait::since(self.began));
        let stalls =
            |line: usize| Stalls { percent: counts.averages[line].percent(), total_us: counts.total[line].0 / 1000 };
        Pressure { some: stalls(0), full: stalls(1) }
    }
}

/// A call of a thread.
pub(crate) struct Call<'a>(&'a ThreadPressure);

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.change(|thread| (thread.is_in_call, thread.is_known) = (false, false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Counts {
        ThreadPressure::new(Instant::now()).counts.into_inner()
    }

    #[test]
    fn overlapping_stalls_count_once_and_work_ends_full() {
        let mut counts = counts();
        let mut at = |ms: u64, stalled: u32, working: u32| {
            counts.advance(Nanos::from_millis(ms));
            (counts.stalled, counts.working) = (stalled, working);
        };
        at(10, 1, 0);
        at(20, 2, 0);
        at(30, 1, 1);
        at(40, 0, 1);
        at(50, 0, 0);
        counts.advance(Nanos::from_millis(90));
        assert_eq!(counts.total, [Nanos::from_millis(30), Nanos::from_millis(20)]);
    }

    /// A stall of 1 s in the first period, and then nothing for 10 s, in one step or in many.
    #[test]
    fn averages_do_not_depend_on_when_they_are_read() {
        let after = |steps: u64| {
            let mut counts = counts();
            counts.stalled = 1;
            counts.advance(Nanos::from_millis(1000));
            counts.stalled = 0;
            (1..=steps).for_each(|step| counts.advance(Nanos::from_millis(1000 + 11_000 * step / steps)));
            counts
        };
        let [once, often] = [1, 1100].map(after);
        assert_eq!((once.averages, once.ends, once.since), (often.averages, often.ends, often.since));
        let [short, ..] = once.averages[0].percent();
        assert!((short - 50.0 * (1.0 - (-0.2_f64).exp()) * (-1.0_f64).exp()).abs() < 1e-9, "{short}");
    }

    /// Another thread works in a call from 0 on, and is known from the stall's beginning on only if it begins a call
    /// then.
    #[test]
    fn calls_are_known_when_they_begin_during_a_stall() {
        let pressure = ThreadPressure::new(Instant::now());
        let working = || pressure.counts.lock().working;
        std::thread::scope(|scope| {
            let (begin, begun) = std::sync::mpsc::channel::<()>();
            let (tell, told) = std::sync::mpsc::channel();
            let own = &pressure;
            scope.spawn(move || {
                let call = own.enter_call();
                tell.send(()).unwrap();
                begun.recv().unwrap();
                drop(call);
                let _call = own.enter_call();
                tell.send(()).unwrap();
                begun.recv().unwrap();
                own.note_wait(true);
                tell.send(()).unwrap();
                begun.recv().unwrap();
                own.note_wait(false);
            });
            let _call = pressure.enter_call();
            told.recv().unwrap();
            pressure.note_stall(true);
            pressure.note_stall(true);
            assert_eq!((working(), pressure.counts.lock().stalled), (0, 1));
            begin.send(()).unwrap();
            told.recv().unwrap();
            assert_eq!(working(), 1);
            begin.send(()).unwrap();
            told.recv().unwrap();
            assert_eq!(working(), 0, "a thread that waits for a disk does not work");
            pressure.note_stall(false);
            pressure.note_stall(false);
            begin.send(()).unwrap();
        });
        assert_eq!((working(), pressure.counts.lock().stalled), (0, 0));
        let Pressure { some, full } = pressure.read();
        assert!(some.total_us >= full.total_us);
    }
}
