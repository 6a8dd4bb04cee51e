//! Pressure: the time that tasks were stalled for lack of memory (`/proc/pressure/memory`).
//!
//! *Some*: at least one task is stalled. *Full*: at least one task is stalled, and no other task runs or waits for a
//! CPU, so no work gets done. A task that waits for a disk, and not for memory, does not end *full*. Excluded tasks,
//! which are the kernel's own, do not end *full* either, because their work is not the work of a program.

use machine::Nanos;
use std::cell::Cell;

/// Times during which tasks were stalled for memory, since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PressureStatistics {
    /// Time during which at least one task was stalled.
    pub some: Nanos,
    /// Time during which all tasks that had work were stalled.
    pub full: Nanos,
}

/// The running counts of pressure, ps.
#[derive(Default)]
pub(crate) struct Pressure {
    pub(crate) stalled: Cell<u32>,
    pub(crate) working: Cell<u32>,
    pub(crate) since: Cell<u64>,
    pub(crate) some: Cell<u64>,
    pub(crate) full: Cell<u64>,
}

impl Pressure {
    /// Counts the time up to `now`, before the number of tasks in a state changes. CPUs are not in step to the
    /// picosecond, so `now` may be earlier than the last time; nothing is added then.
    pub(crate) fn count(&self, now: u64) {
        let time = now.saturating_sub(self.since.get());
        self.since.set(self.since.get().max(now));
        if self.stalled.get() > 0 {
            self.some.set(self.some.get() + time);
            if self.working.get() == 0 {
                self.full.set(self.full.get() + time);
            }
        }
    }

    pub(crate) fn change(&self, now: u64, stalled: i32, working: i32) {
        self.count(now);
        self.stalled.set(plus(self.stalled.get(), stalled));
        self.working.set(plus(self.working.get(), working));
    }
}

fn plus(tasks: u32, more: i32) -> u32 {
    tasks.checked_add_signed(more).expect("each task is counted once")
}
