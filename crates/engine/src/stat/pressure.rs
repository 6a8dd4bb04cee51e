//! Pressure: the time that tasks were stalled for lack of memory (`/proc/pressure/memory`, the line `some`).

use machine::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use machine::{Machine, Nanos, Stalled};

/// Number of low bits of [`Pressure::state`] that count stalled tasks.
const TASKS_BITS: u32 = 16;

/// Time in which at least one task could not continue because it had to free memory itself.
#[derive(Debug, Default)]
pub struct Pressure {
    /// Low bits: number of tasks that are stalled. Other bits: time at which a first task stalled, in microseconds;
    /// since then, at least one task has been stalled.
    state: AtomicU64,
    /// Total time with a stalled task, in microseconds, up to the last moment at which the number of stalled tasks
    /// became 0.
    total_us: AtomicU64,
}

impl Pressure {
    /// Counts the calling task as stalled until the result is dropped.
    pub fn stall<'a, M: Machine>(&'a self, machine: &'a M) -> Stall<'a, M> {
        self.begin(machine.now());
        Stall { pressure: self, machine, _noted: Stalled::begin(machine) }
    }

    fn begin(&self, now: Nanos) {
        let since = (now.0 / 1000) << TASKS_BITS;
        let more = |state| Some(if tasks(state) == 0 { since | 1 } else { state + 1 });
        self.state.fetch_update(AcqRel, Acquire, more).expect("there is always a next state");
    }

    fn end(&self, now: Nanos) {
        let before = self.state.fetch_sub(1, AcqRel);
        debug_assert!(tasks(before) > 0, "a stall that never began");
        if tasks(before) == 1 {
            self.total_us.fetch_add((now.0 / 1000).saturating_sub(before >> TASKS_BITS), Relaxed);
        }
    }

    /// Returns the total time until `now` during which at least one task was stalled.
    #[must_use]
    pub fn total(&self, now: Nanos) -> Nanos {
        let state = self.state.load(Acquire);
        let open_us = if tasks(state) > 0 { (now.0 / 1000).saturating_sub(state >> TASKS_BITS) } else { 0 };
        Nanos((self.total_us.load(Relaxed) + open_us) * 1000)
    }
}

const fn tasks(state: u64) -> u64 {
    state & ((1 << TASKS_BITS) - 1)
}

/// The stall of a task, which ends when this is dropped.
#[must_use = "the stall ends at once"]
pub struct Stall<'a, M: Machine> {
    pressure: &'a Pressure,
    machine: &'a M,
    _noted: Stalled<'a, M>,
}

impl<M: Machine> Drop for Stall<'_, M> {
    fn drop(&mut self) {
        self.pressure.end(self.machine.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_stalls_count_once() {
        let pressure = Pressure::default();
        pressure.begin(Nanos(10_000));
        pressure.begin(Nanos(20_000));
        pressure.end(Nanos(30_000));
        assert_eq!(pressure.total(Nanos(35_000)), Nanos(25_000));
        pressure.end(Nanos(40_000));
        pressure.begin(Nanos(100_000));
        pressure.end(Nanos(101_000));
        assert_eq!(pressure.total(Nanos(500_000)), Nanos(31_000));
    }
}
