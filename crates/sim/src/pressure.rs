//! Counts for pressure (PSI): how many tasks can run, and how many are stalled for memory.

use crate::clock::nanos;
use crate::record::pressure::PressureStatistics;
use crate::task::{State, Task};
use crate::task_id::TaskId;
use crate::world::World;

const fn can_run(state: State) -> bool {
    matches!(state, State::Queued | State::OnCpu)
}

impl World {
    /// Changes the state of a task. If the task can run now but could not before, or the reverse, counts that for
    /// pressure (PSI).
    pub(crate) fn set_state(&self, task: &Task, state: State) {
        let before = task.state.replace(state);
        if can_run(before) != can_run(state) && task.stalls.get() == 0 && !task.is_aside.get() {
            self.pressure.change(self.clock.get(), 0, if can_run(state) { 1 } else { -1 });
        }
    }

    /// Notes that the running task begins or ends to be stalled for memory.
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

    /// Excludes a task of the kernel from pressure (PSI). Called right after the task is spawned.
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
