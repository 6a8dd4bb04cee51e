//! Pressure stall information of one memory: the time in which threads that called the library lacked memory
//! (mechanisms/pressure, 6).
//!
//! A thread is *stalled* while its call frees memory itself, waits for others to do so, or waits for a page that was
//! evicted although it was in use. Threads that the machine started (kswapd, flushers) do not count.
//!
//! *Some* is the time in which at least one thread is stalled. *Full* is the time in which at least one thread is
//! stalled, and no thread is known to work in a call. Work outside of calls is not seen. Calls cost nothing while no
//! thread is stalled, so a call is not *known* from its beginning, but only from the first moment at which it meets a
//! stall: when the call begins during a stall of another thread, or when the thread's own stall ends during such a
//! stall. A call that waits for a disk or a lock does not work.
//!
//! Each memory control group has its own figures of this kind, for the threads whose calls work for the group or a
//! descendant.
//!
//! *Locks*: the counts have a mutex; nothing is called while it is held.

use super::{task, wait};
use machine::Nanos;
use machine::pressure::{Averages, PERIOD, Pressure, Stalls};
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// The state of a thread. It decides how the thread is counted for pressure stall information (PSI). A thread is in a
/// call of one memory at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Number of nested stalls that the thread is in; 0 if it is not stalled.
    stalls: u32,
    is_in_call: bool,
    /// `true` if the thread's present call may count as work: another thread was stalled when the call began, or when a
    /// stall of this thread ended. The thread then counts as working unless it is stalled or waits.
    is_known: bool,
    /// `true` while the thread sleeps for another reason than lack of memory.
    waits: bool,
    /// The memory control group for which the thread's present call works: the number of the group, or 0 for the root
    /// group.
    group: u16,
}

impl Thread {
    const NEW: Self = Self { stalls: 0, is_in_call: false, is_known: false, waits: false, group: 0 };

    /// Returns two numbers: 1 if the thread counts as stalled, otherwise 0; and 1 if it counts as working, otherwise 0.
    fn counts(self) -> [u32; 2] {
        let is_stalled = self.stalls > 0;
        [is_stalled.into(), (self.is_known && !is_stalled && !self.waits).into()]
    }
}

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread::NEW) };
}

/// The numbers of stalled and of working threads, and the stall times up to `since`.
#[derive(Debug)]
struct Counts {
    stalled: u32,
    working: u32,
    since: Nanos,
    /// Two stall times up to `since`. The first (`some`) is the time in which at least one thread was stalled. The
    /// second (`full`) is the part of this time in which no thread was known to work.
    total: [Nanos; 2],
    averages: [Averages; 2],
    /// The two stall times (`some` and `full`) at the end of the last averaging period.
    at_period: [Nanos; 2],
    /// End of the present averaging period.
    ends: Nanos,
}

impl Counts {
    /// Creates the counts for the time `now`: no thread is counted, and all stall times are 0.
    fn new(now: Nanos) -> Self {
        Self {
            stalled: 0,
            working: 0,
            since: now,
            total: [Nanos(0); 2],
            averages: Default::default(),
            at_period: [Nanos(0); 2],
            ends: Nanos((now.0 / PERIOD.0 + 1) * PERIOD.0),
        }
    }

    /// Replaces a thread's contribution `before` to the counts of stalled and of working threads by the contribution
    /// `after`.
    fn recount(&mut self, now: Nanos, before: [u32; 2], after: [u32; 2]) {
        self.advance(now);
        self.stalled = self.stalled + after[0] - before[0];
        self.working = self.working + after[1] - before[1];
    }

    fn read(&mut self, now: Nanos) -> Pressure {
        self.advance(now);
        let stalls =
            |line: usize| Stalls { percent: self.averages[line].percent(), total_us: self.total[line].0 / 1000 };
        Pressure { some: stalls(0), full: stalls(1) }
    }

    /// Moves `since` to `now`. Adds the time between them to the first stall time if a thread is stalled, and also to
    /// the second if then no thread works.
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

/// The counts of stalled and working threads: those of a whole memory, and those of each of its groups.
#[derive(Debug)]
struct AllCounts {
    /// The counts of the whole memory, over all threads.
    all: Counts,
    /// For each group, the number of its parent, and its counts. The first element is that of group 1. Empty if no
    /// group was made yet.
    groups: Vec<(u16, Counts)>,
}

impl AllCounts {
    /// Updates the counts of threads, those of the whole machine and those of the memory control groups, when a
    /// thread's state changes from `before` to `after`.
    fn recount(&mut self, now: Nanos, before: Thread, after: Thread) {
        self.all.recount(now, before.counts(), after.counts());
        if before.group == after.group {
            self.recount_groups(now, before.group, before.counts(), after.counts());
        } else {
            self.recount_groups(now, before.group, before.counts(), [0; 2]);
            self.recount_groups(now, after.group, [0; 2], after.counts());
        }
    }

    /// Updates the counts of a memory control group and of all its ancestors after a change of one thread's state:
    /// subtracts the thread's contribution `before` the change, and adds its contribution `after` it.
    fn recount_groups(&mut self, now: Nanos, mut group: u16, before: [u32; 2], after: [u32; 2]) {
        while let Some(at) = usize::from(group).checked_sub(1) {
            let (parent, counts) = &mut self.groups[at];
            counts.recount(now, before, after);
            group = *parent;
        }
    }
}

/// Stall times (PSI) of the threads that call the functions of one `Memory`.
#[derive(Debug)]
pub(super) struct ThreadPressure {
    began: Instant,
    /// A copy of the number of stalled threads, which a call reads without the lock of `counts`. As long as it is 0,
    /// calls are not counted, so that they cost nothing.
    stalled: AtomicU32,
    counts: Mutex<AllCounts>,
}

impl ThreadPressure {
    pub(super) fn new(began: Instant) -> Self {
        let counts = AllCounts { all: Counts::new(Nanos(0)), groups: Vec::new() };
        Self { began, stalled: AtomicU32::new(0), counts: Mutex::new(counts) }
    }

    /// Changes the state of the calling thread. Then updates the numbers of stalled and of working threads, if the
    /// change affects them.
    #[inline]
    fn change(&self, change: impl FnOnce(&mut Thread)) {
        let before = THREAD.get();
        let mut after = before;
        change(&mut after);
        THREAD.set(after);
        let moves = before.group != after.group && after.counts() != [0; 2];
        if before.counts() != after.counts() || moves {
            self.recount(before, after);
        }
    }

    #[cold]
    fn recount(&self, before: Thread, after: Thread) {
        let mut counts = self.counts.lock();
        counts.recount(wait::since(self.began), before, after);
        self.stalled.store(counts.all.stalled, Relaxed);
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

    /// Notes that the calling thread is about to sleep (`waits` is `true`), or has slept.
    pub(super) fn note_wait(&self, waits: bool) {
        self.change(|thread| thread.waits = waits);
    }

    /// Starts the counts of the new memory control group `group` at zero. The number may have belonged to a removed
    /// group, but no thread may still be in a call for that group.
    pub(super) fn note_new_group(&self, group: u16, parent: u16) {
        let mut counts = self.counts.lock();
        let new = || (parent, Counts::new(wait::since(self.began)));
        let at = usize::from(group) - 1;
        if at >= counts.groups.len() {
            counts.groups.resize_with(at + 1, new);
        }
        counts.groups[at] = new();
    }

    /// Assigns the current call of the calling thread to the group `group` until the call ends: stalls of the thread
    /// then count as pressure of this group.
    pub(super) fn note_group(&self, group: u16) {
        self.change(|thread| thread.group = group);
    }

    /// Notes that the calling thread begins a call of the library. The call ends when the returned value is dropped.
    /// Stalls of the thread count as pressure of the root group, until [`Self::note_group`] names another group.
    #[inline]
    pub(super) fn enter_call(&self) -> Call<'_> {
        self.change(|thread| {
            thread.is_in_call = true;
            thread.is_known = self.is_any_stalled();
        });
        Call(self)
    }

    /// Returns the pressure of this memory: the stall times of its threads up to now, and their averages.
    pub(super) fn read(&self) -> Pressure {
        self.counts.lock().all.read(wait::since(self.began))
    }

    /// Returns the stall times of a group and their averages, up to now; `None` if there never was a group of this
    /// number.
    pub(super) fn read_group(&self, group: u16) -> Option<Pressure> {
        let mut counts = self.counts.lock();
        let (_, of_group) = counts.groups.get_mut(usize::from(group).checked_sub(1)?)?;
        Some(of_group.read(wait::since(self.began)))
    }
}

/// A call of the library by a thread. The call ends when this value is dropped.
pub(crate) struct Call<'a>(&'a ThreadPressure);

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.change(|thread| (thread.is_in_call, thread.is_known, thread.group) = (false, false, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Counts {
        Counts::new(Nanos(0))
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

    /// A stall lasts for the first second of 12 s: half of the first period of 2 s. The time from 1 s to 12 s is
    /// counted in a single step, and again in 1,100 steps. The averages must be equal.
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

    /// A thread is in a call when another thread's stall begins. The thread must not count as working during the stall
    /// until it begins its next call.
    #[test]
    fn calls_are_known_when_they_begin_during_a_stall() {
        let pressure = ThreadPressure::new(Instant::now());
        let working = || pressure.counts.lock().all.working;
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
            assert_eq!((working(), pressure.counts.lock().all.stalled), (0, 1));
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
        assert_eq!((working(), pressure.counts.lock().all.stalled), (0, 0));
        let Pressure { some, full } = pressure.read();
        assert!(some.total_us >= full.total_us);
    }

    /// A thread makes a call that works for group 2, a child of group 1, and stalls. During the stall, the call begins
    /// to work for group 3. The time until then must count as a stall of groups 2 and 1, and a stall of group 3 must
    /// begin.
    #[test]
    fn a_stall_counts_in_the_group_of_the_call_and_its_ancestors() {
        let pressure = ThreadPressure::new(Instant::now());
        [(1, 0), (2, 1), (3, 0)].into_iter().for_each(|(group, parent)| pressure.note_new_group(group, parent));
        let stalled = || pressure.counts.lock().groups.iter().map(|(_, counts)| counts.stalled).collect::<Vec<_>>();
        let call = pressure.enter_call();
        pressure.note_group(2);
        pressure.note_stall(true);
        assert_eq!(stalled(), [1, 1, 0]);
        std::thread::sleep(std::time::Duration::from_millis(2));
        pressure.note_group(3);
        assert_eq!(stalled(), [0, 0, 1]);
        pressure.note_stall(false);
        drop(call);
        assert_eq!((stalled(), THREAD.get().group), (vec![0; 3], 0));
        let [parent, child] = [1, 2].map(|group| pressure.read_group(group).unwrap().some.total_us);
        assert!(child >= 2000 && parent == child && pressure.read().some.total_us >= child);
        assert_eq!(pressure.read_group(4), None);
    }
}
