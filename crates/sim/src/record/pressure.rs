//! Pressure: the time that tasks were stalled for lack of memory (`/proc/pressure/memory`).
//!
//! *Some*: at least one task is stalled. *Full*: at least one task is stalled, and no other task runs or waits for a
//! CPU, so no work gets done. A task that waits for a disk, and not for memory, does not end *full*. A running task of
//! the kernel does not end *full* either: such tasks are excluded, because their work is not the work of a program.

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

/// Number of tasks that are stalled or working now, and the stall times up to `since`, ps.
#[derive(Default)]
pub(crate) struct Pressure {
    pub(crate) stalled: Cell<u32>,
    pub(crate) working: Cell<u32>,
    pub(crate) since: Cell<u64>,
    pub(crate) some: Cell<u64>,
    pub(crate) full: Cell<u64>,
}

impl Pressure {
    /// Adds the time up to `now` to the counts. Called before the number of stalled or working tasks changes. The
    /// clocks of CPUs differ a little, so `now` may be earlier than at the last call; in that case nothing is added.
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
