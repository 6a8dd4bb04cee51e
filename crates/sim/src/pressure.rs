//! Counts the tasks of the machine and of its groups for pressure stall information (PSI): which are stalled, which
//! work, and on which CPU (mechanisms/pressure, 2 and 3).

use crate::clock::{nanos, picos};
use crate::record::pressure::{GroupPressure, Part, PressureTrigger};
use crate::task::{State, Task};
use crate::task_id::TaskId;
use crate::world::World;
use machine::Nanos;
use std::rc::Rc;

const fn part_of(task: &Task) -> Part {
    if task.is_aside.get() {
        return Part::Nothing;
    }
    let is_stalled = task.stalls.get() > 0;
    match task.state.get() {
        State::OnCpu if is_stalled => Part::StalledOnCpu,
        State::Queued | State::OnCpu if !is_stalled => Part::Works,
        State::Finished => Part::Nothing,
        _ if is_stalled => Part::Stalled,
        State::Uninterruptible => Part::WaitsForIo,
        _ if task.waits_for_io.get() => Part::WaitsForIo,
        _ => Part::Nothing,
    }
}

impl World {
    /// Calls `change`, which changes the task. If this changes the task's CPU, or its state in pressure statistics
    /// ([`Part`]), updates the counts of the task's group and of the group's ancestors.
    #[inline]
    fn recount(&self, task: &Task, change: impl FnOnce()) {
        let before = (part_of(task), task.cpu.get());
        change();
        let after = (part_of(task), task.cpu.get());
        if before != after && (before.0 != Part::Nothing || after.0 != Part::Nothing) {
            let now = self.clock.get();
            task.group.borrow().with_ancestors().for_each(|group| group.change(now, before, after));
        }
    }

    /// Sets the state of a task, and counts the change in the pressure (PSI) of the task's groups.
    pub(crate) fn set_state(&self, task: &Task, state: State) {
        self.recount(task, || task.state.set(state));
    }

    /// Moves a task that is not running to another CPU. Returns the CPU that the task was on.
    pub(crate) fn set_cpu(&self, task: &Task, cpu: usize) -> usize {
        let before = task.cpu.get();
        self.recount(task, || task.cpu.set(cpu));
        before
    }

    /// Notes that the running task begins to be stalled for memory, or ceases to be.
    pub(crate) fn note_stall(&self, begins: bool) {
        let Some(task) = self.current_task() else { return };
        let before = task.stalls.get();
        assert!(begins || before > 0, "the end of a stall that did not begin");
        self.recount(&task, || task.stalls.set(if begins { before + 1 } else { before - 1 }));
    }

    /// Excludes a task of the kernel from pressure (PSI). Called right after the task is spawned.
    pub(crate) fn set_aside(&self, id: TaskId) {
        let task = self.task(id);
        self.recount(&task, || task.is_aside.set(true));
    }

    /// Notes that a memory control group was created. It has no tasks yet.
    pub(crate) fn note_new_group(&self, group: u16, parent: u16) {
        let parent = self.pressure_of(parent);
        let new = GroupPressure::new(self.cpus.len(), Some(parent), self.clock.get());
        let mut groups = self.groups.borrow_mut();
        let place = usize::from(group);
        if groups.len() <= place {
            groups.resize_with(place + 1, || None);
        }
        groups[place] = Some(Rc::new(new));
    }

    /// From now on, counts the running task in the pressure (PSI) of the memory control group with the number `group`,
    /// and no longer in that of its present group.
    pub(crate) fn note_group(&self, group: u16) {
        let Some(task) = self.current_task() else { return };
        let (to, now) = (self.pressure_of(group), self.clock.get());
        if Rc::ptr_eq(&to, &task.group.borrow()) {
            return;
        }
        let counted = (part_of(&task), task.cpu.get());
        let none = (Part::Nothing, task.cpu.get());
        task.group.borrow().with_ancestors().for_each(|group| group.change(now, counted, none));
        to.with_ancestors().for_each(|group| group.change(now, none, counted));
        *task.group.borrow_mut() = to;
    }

    /// Returns the pressure of the memory control group with the number `group`. Number 0 stands for the whole machine.
    ///
    /// # Panics
    /// When no group with this number was created.
    pub(crate) fn pressure_of(&self, group: u16) -> Rc<GroupPressure> {
        let groups = self.groups.borrow();
        let found = groups.get(usize::from(group)).and_then(Option::as_ref);
        Rc::clone(found.unwrap_or_else(|| panic!("no group has number {group}")))
    }

    /// Waits until a trigger has an event, but not longer than `time`. Returns whether the trigger has an event.
    /// Returns early if the task is killed.
    pub(crate) fn wait_for_pressure(&self, trigger: &PressureTrigger, time: Nanos) -> bool {
        let task = self.sleeping_task("wait for pressure");
        let end = self.clock.get().saturating_add(picos(time));
        loop {
            let now = self.clock.get();
            if trigger.take_event(now) {
                return true;
            }
            if now >= end || task.is_killed.get() {
                return false;
            }
            // The time is rounded up, so that the look is due when the task wakes.
            self.pause(nanos(trigger.next_look().min(end).saturating_sub(now)) + Nanos(1));
        }
    }
}
