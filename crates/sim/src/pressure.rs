//! Pressure: for how long tasks could not go on for want of memory (`/proc/pressure/memory`).
//!
//! *Some*: at least one task is stalled. *Full*: so is every task that has something to do, so that no work gets done: one is
//! stalled, and none that is not runs or waits for a CPU. A task that waits for a disk, and not for memory, does not end *full*; nor
//! do tasks that are left aside, the kernel's own: what they do is no work of a program.

use crate::clock::nanos;
use crate::task::{State, Task, TaskId};
use crate::world::World;
use machine::Nanos;
use std::cell::Cell;

/// How long tasks were stalled for memory, since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PressureStatistics {
    /// At least one was.
    pub some: Nanos,
    /// All were that had something to do.
    pub full: Nanos,
}

/// Counts it, ps.
#[derive(Default)]
pub(crate) struct Pressure {
    stalled: Cell<u32>,
    working: Cell<u32>,
    since: Cell<u64>,
    some: Cell<u64>,
    full: Cell<u64>,
}

impl Pressure {
    /// Counts the time up to `now`, before something changes. CPUs are not in step to the picosecond: an earlier time adds nothing.
    fn count(&self, now: u64) {
        let time = now.saturating_sub(self.since.get());
        self.since.set(self.since.get().max(now));
        if self.stalled.get() > 0 {
            self.some.set(self.some.get() + time);
            if self.working.get() == 0 {
                self.full.set(self.full.get() + time);
            }
        }
    }

    fn change(&self, now: u64, stalled: i32, working: i32) {
        self.count(now);
        self.stalled.set(plus(self.stalled.get(), stalled));
        self.working.set(plus(self.working.get(), working));
    }
}

fn plus(tasks: u32, more: i32) -> u32 {
    tasks.checked_add_signed(more).expect("each task is counted once")
}

const fn can_run(state: State) -> bool {
    matches!(state, State::Queued | State::OnCpu)
}

impl World {
    /// Changes what a task does.
    pub(crate) fn set_state(&self, task: &Task, state: State) {
        let before = task.state.replace(state);
        if can_run(before) != can_run(state) && task.stalls.get() == 0 && !task.is_aside.get() {
            self.pressure.change(self.clock.get(), 0, if can_run(state) { 1 } else { -1 });
        }
    }

    /// The running task is stalled from now on, or not any more.
    pub(crate) fn note_stall(&self, begins: bool) {
        let Some(task) = self.current_task().filter(|task| !task.is_aside.get()) else { return };
        let before = task.stalls.get();
        assert!(begins || before > 0, "the end of a stall that did not begin");
        task.stalls.set(if begins { before + 1 } else { before - 1 });
        match (before, begins) {
            (0, true) => self.pressure.change(self.clock.get(), 1, -1),
            (1, false) => self.pressure.change(self.clock.get(), -1, 1),
            _ => {}
        }
    }

    /// A task that was just spawned, the kernel's own, is not counted from now on.
    pub(crate) fn set_aside(&self, id: TaskId) {
        let task = self.task(id);
        if !task.is_aside.replace(true) && can_run(task.state.get()) {
            self.pressure.change(self.clock.get(), 0, -1);
        }
    }

    pub(crate) fn pressure_now(&self) -> PressureStatistics {
        self.pressure.count(self.clock.get());
        PressureStatistics { some: nanos(self.pressure.some.get()), full: nanos(self.pressure.full.get()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Sim};
    use machine::{Machine, Stalled};

    /// Two tasks, a stall of each: of 30 ms in which one is stalled, the other works for 10.
    #[test]
    fn all_are_stalled_when_nobody_works() {
        let sim = Sim::new(Config::uniform(2, 1));
        let (worker, waiter, aside) = (sim.clone(), sim.clone(), sim.clone());
        let seen = sim.clone();
        sim.run("main", move || {
            worker.clone().spawn("worker", move || worker.compute(Nanos::from_millis(10)));
            let kernel = aside.clone().spawn("kswapd0", move || aside.compute(Nanos::from_millis(25)));
            waiter.set_aside(kernel);
            let _stalled = Stalled::begin(&waiter);
            let _within = Stalled::begin(&waiter);
            waiter.pause(Nanos::from_millis(30));
        })
        .unwrap();
        let PressureStatistics { some, full } = seen.pressure();
        let ms = |time: Nanos| (time.0 as f64 / 1e6).round() as u64;
        assert_eq!((ms(some), ms(full)), (30, 20), "{some:?} {full:?}");
    }
}
