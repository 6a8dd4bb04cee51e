//! The scheduler: which task runs on which CPU, by virtual runtime.
//!
//! A woken task goes to its previous CPU if that is idle, else to an idle CPU, else to the CPU with the fewest tasks.
//! An idle CPU takes a task from the CPU with the most tasks. With several memory nodes, CPUs of the same node are
//! preferred. A task yields at the end of its slice, or earlier to a woken task that has had much less CPU time, but
//! never while it holds a lock or a per-CPU slot.

use crate::clock::picos;
use crate::cpu::{Queued, cpu_of};
use crate::event::EventKind;
use crate::record::fingerprint::Mark;
use crate::record::trace::Activity;
use crate::schedule::Point;
use crate::task::{State, Task};
use crate::task_id::TaskId;
use crate::world::World;
use machine::{Func, Step};

impl World {
    /// Puts a task that has become runnable onto a CPU or into a CPU's queue.
    pub(crate) fn place_woken(&self, task: &Task) {
        let cpu = self.choose_cpu(task);
        // A sleeper gets credit for one slice, not for all the time that it slept.
        let floor = self.cpus[cpu].runtime_floor.get();
        self.move_runtime(task, cpu);
        task.runtime.set(task.runtime.get().max(floor.saturating_sub(picos(self.config.scheduler.slice))));
        if self.is_marked_idle(cpu) {
            self.leave_idle(cpu);
            self.cpus[cpu].clock.set(self.clock.get());
            self.put_on(cpu, task);
        } else {
            self.enqueue(cpu, task);
            self.preempt_for(cpu, task);
        }
    }

    /// Returns the number of tasks that run or wait on a CPU.
    fn load(&self, cpu: usize) -> usize {
        self.cpus[cpu].queue.borrow().len() + usize::from(self.cpus[cpu].task.get().is_some())
    }

    fn choose_cpu(&self, task: &Task) -> usize {
        let previous = task.cpu.get();
        if self.config.nodes.is_some() {
            return self.choose_cpu_by_node(task);
        }
        if self.is_marked_idle(previous) {
            return previous;
        }
        if let Some(word) = self.idle.iter().position(|word| word.get() != 0) {
            return word * 64 + self.idle[word].get().trailing_zeros() as usize;
        }
        let least = (0..self.cpus.len()).min_by_key(|&cpu| (self.load(cpu), cpu != previous, cpu));
        least.expect("a machine has a CPU")
    }

    fn choose_cpu_by_node(&self, task: &Task) -> usize {
        let previous = task.cpu.get();
        let home = task.bound_to.unwrap_or_else(|| self.node_of_cpu(previous));
        let rank = |cpu: usize| {
            let (is_busy, is_far) = (!self.is_marked_idle(cpu), self.node_of_cpu(cpu) != home);
            (is_busy, if is_busy { self.load(cpu) } else { 0 }, is_far, cpu != previous, cpu)
        };
        let allowed = (0..self.cpus.len()).filter(|cpu| self.may_run_on(task, *cpu));
        allowed.min_by_key(|cpu| rank(*cpu)).expect("a task is bound to a node with a CPU")
    }

    fn may_run_on(&self, task: &Task, cpu: usize) -> bool {
        task.bound_to.is_none_or(|node| self.node_of_cpu(cpu) == node)
    }

    /// Moves a task to CPU `to`. Virtual runtimes of different CPUs are not comparable. So the task keeps only the
    /// amount by which its virtual runtime is above the `runtime_floor` of its old CPU.
    fn move_runtime(&self, task: &Task, to: usize) {
        let from = self.set_cpu(task, to);
        if from != to {
            let lead = task.runtime.get().saturating_sub(self.cpus[from].runtime_floor.get());
            task.runtime.set(self.cpus[to].runtime_floor.get() + lead);
        }
    }

    fn enqueue(&self, cpu: usize, task: &Task) {
        self.set_state(task, State::Queued);
        task.queued_at.set(self.clock.get());
        let arrival = self.arrivals.get();
        self.arrivals.set(arrival + 1);
        let order = if self.is_by_rank { task.rank.get() } else { task.runtime.get() };
        let queued = Queued { order, arrival, task: task.id };
        let mut queue = self.cpus[cpu].queue.borrow_mut();
        let place = queue.partition_point(|other| *other > queued);
        queue.insert(place, queued);
        drop(queue);
        self.tasks_queued.set(self.tasks_queued.get() + 1);
        self.arm_slice(cpu);
    }

    /// Lets a woken task preempt the running task, if the running task has had much more CPU time than the woken one.
    /// If the schedule is by rank, only ranks count: the task with the lower rank runs.
    fn preempt_for(&self, cpu: usize, woken: &Task) {
        let state = &self.cpus[cpu];
        let Some(current) = state.task.get() else { return };
        let current = self.task(current);
        let gives_way = if self.is_by_rank {
            current.rank.get() > woken.rank.get()
        } else {
            let lane = &self.lanes[2 * cpu];
            let used = lane.used.get() + self.clock.get().saturating_sub(lane.mark.get());
            current.runtime.get() + used > woken.runtime.get() + picos(self.config.scheduler.wakeup_granularity)
        };
        if gives_way {
            state.wants_switch.set(true);
            state.slice_event.set(self.clock.get());
            self.push_event(self.clock.get(), EventKind::Slice(cpu as u16));
        }
    }

    /// Schedules the end of the time slice of the task on `cpu`; does nothing if the CPU has no task. Called when
    /// another task waits for the CPU.
    fn arm_slice(&self, cpu: usize) {
        let state = &self.cpus[cpu];
        let time = state.slice_end.get().max(self.clock.get());
        if state.task.get().is_some() && state.slice_event.get() > time {
            state.slice_event.set(time);
            self.push_event(time, EventKind::Slice(cpu as u16));
        }
    }

    pub(crate) fn slice_ended(&self, cpu: usize) {
        let state = &self.cpus[cpu];
        state.slice_event.set(u64::MAX);
        if state.task.get().is_none() || state.queue.borrow().is_empty() {
            state.wants_switch.set(false);
        } else if self.is_by_rank && !state.wants_switch.get() {
            // There are no slices: the rank decides how long a task runs.
        } else if !state.wants_switch.get() && self.clock.get() < state.slice_end.get() {
            self.arm_slice(cpu);
        } else {
            state.wants_switch.set(true);
            self.switch_if_possible(cpu);
        }
    }

    /// Switches to the next task if a switch is due. If the running task may not be preempted now, the switch comes as
    /// soon as it may be.
    pub(crate) fn switch_if_possible(&self, cpu: usize) {
        let state = &self.cpus[cpu];
        if state.wants_switch.get() && !state.in_handler.get() {
            if self.lanes[2 * cpu].is_preemptible() {
                self.give_way(cpu);
            } else {
                state.attention.set(true);
            }
        }
    }

    /// Returns whether the running task has to yield its CPU to a waiting task (`need_resched`).
    pub(crate) fn is_resched_due(&self) -> bool {
        if self.running().is_none() {
            return false;
        }
        let state = &self.cpus[cpu_of(self.lane.get())];
        // If another CPU has taken the task that waited, no switch is due.
        state.wants_switch.get() && !state.queue.borrow().is_empty()
    }

    /// Puts the task on `cpu` back into the CPU's queue, and lets the CPU take the next task. If the task is in the
    /// middle of a step, it spends the rest of the step's time when it runs again.
    pub(crate) fn give_way(&self, cpu: usize) {
        if self.is_by_rank {
            self.catch_up(cpu);
        }
        let state = &self.cpus[cpu];
        let task = self.task(state.task.get().expect("a CPU gives way from a task"));
        // If the context switch to this task is not over yet, it is completed first.
        let lane = &self.lanes[2 * cpu];
        let now = self.clock.get();
        let stop = now.max(lane.mark.get());
        task.owed.set(state.clock.get().saturating_sub(stop));
        self.clock.set(stop);
        state.clock.set(stop);
        self.take_off(cpu);
        self.enqueue(cpu, &task);
        self.schedule(cpu);
        self.clock.set(now);
    }

    /// Moves the clock of a CPU forward to the present time, if the schedule held the CPU back. The skipped time does
    /// not count as CPU time.
    pub(crate) fn catch_up(&self, cpu: usize) {
        let state = &self.cpus[cpu];
        let lane = &self.lanes[state.front(cpu) as usize];
        let held_back = self.clock.get().saturating_sub(state.clock.get());
        if held_back > 0 && !lane.is_spinning.get() {
            lane.mark.set(lane.mark.get() + held_back);
            state.clock.set(self.clock.get());
        }
    }

    /// Puts the task that runs on `cpu` into the CPU's queue, and lets the CPU take the next task. The task's place in
    /// the queue is behind the first waiting task. With a schedule by rank, the place is that of the task's rank.
    pub(crate) fn yield_to_next(&self, cpu: usize) {
        let task = self.task(self.cpus[cpu].task.get().expect("a task yields"));
        self.take_off(cpu);
        if !self.is_by_rank {
            let first = self.cpus[cpu].queue.borrow().last().map_or(0, |first| first.order);
            task.runtime.set(task.runtime.get().max(first));
        }
        self.enqueue(cpu, &task);
        self.schedule(cpu);
    }

    /// Takes the task that is on `cpu` off the CPU at the present time.
    pub(crate) fn take_off(&self, cpu: usize) {
        let state = &self.cpus[cpu];
        let lane = &self.lanes[2 * cpu];
        let id = state.task.take().expect("a task leaves the CPU that it is on");
        let task = self.task(id);
        self.charge(lane);
        let used = lane.used.take();
        task.cpu_time.set(task.cpu_time.get() + used);
        task.runtime.set(task.runtime.get() + used);
        task.node.set(lane.node.get());
        lane.fiber.set(std::ptr::null());
        self.note(state.on_since.get(), self.clock.get(), || Activity::Runs { cpu, task: id });
        state.last_task.set(Some(id));
        state.wants_switch.set(false);
    }

    /// Gives a CPU without a task the next task from its own queue or another CPU's. If there is none, the CPU becomes
    /// idle.
    pub(crate) fn schedule(&self, cpu: usize) {
        match self.next_task(cpu) {
            Some(id) => {
                let task = self.task(id);
                self.move_runtime(&task, cpu);
                self.put_on(cpu, &task);
            }
            None => {
                self.clocks.stop(cpu);
                self.idle[cpu / 64].set(self.idle[cpu / 64].get() | 1 << (cpu % 64));
                self.cpus[cpu].idle_since.set(self.clock.get());
                self.fingerprint.mix(Mark::Idle, self.clock.get(), cpu as u64);
            }
        }
    }

    fn next_task(&self, cpu: usize) -> Option<TaskId> {
        if self.tasks_queued.get() == 0 {
            return None;
        }
        if self.config.nodes.is_some() {
            return self.next_task_by_node(cpu);
        }
        let own = self.cpus[cpu].queue.borrow().len();
        let from = match own {
            0 => (0..self.cpus.len()).rev().max_by_key(|&other| self.cpus[other].queue.borrow().len())?,
            _ => cpu,
        };
        let next = self.cpus[from].queue.borrow_mut().pop().expect("some queue has a task");
        self.tasks_queued.set(self.tasks_queued.get() - 1);
        Some(next.task)
    }

    fn next_task_by_node(&self, cpu: usize) -> Option<TaskId> {
        let home = self.node_of_cpu(cpu);
        let candidate = |other: usize| {
            let queue = self.cpus[other].queue.borrow();
            let place = queue.iter().rposition(|queued| self.may_run_on(&self.task(queued.task), cpu))?;
            Some(((other == cpu, self.node_of_cpu(other) == home, queue.len()), other, place))
        };
        let (_, from, place) = (0..self.cpus.len()).rev().filter_map(candidate).max_by_key(|(rank, ..)| *rank)?;
        let next = self.cpus[from].queue.borrow_mut().remove(place);
        self.tasks_queued.set(self.tasks_queued.get() - 1);
        Some(next.task)
    }

    fn put_on(&self, cpu: usize, task: &Task) {
        let state = &self.cpus[cpu];
        let lane = &self.lanes[2 * cpu];
        let mut clock = state.clock.get();
        state.on_since.set(clock);
        let off_cpu = clock.saturating_sub(task.slept_at.get());
        if task.slept_at.replace(u64::MAX) != u64::MAX {
            self.profile.charge_sleep(task.node.get(), off_cpu);
        }
        if task.fiber.get().is_null() {
            let job = task.job.take().expect("a task that has not started has its job");
            task.fiber.set(self.take_fiber(job));
        }
        if state.last_task.get() != Some(task.id) {
            let cost = self.costs[Step::ContextSwitch as usize];
            self.profile.charge(self.profile.child(task.root, Func::Schedule), cost);
            lane.used.set(cost);
            clock += cost;
            state.switches.set(state.switches.get() + 1);
        }
        self.fingerprint.mix(Mark::Switch, clock, (cpu as u64) << 32 | u64::from(task.id.0));
        if task.state.get() == State::Queued {
            self.note_queued(task, state.clock.get());
        }
        self.set_state(task, State::OnCpu);
        state.task.set(Some(task.id));
        state.runtime_floor.set(state.runtime_floor.get().max(task.runtime.get()));
        state.slice_end.set(clock + picos(self.config.scheduler.slice));
        lane.fiber.set(task.fiber.get());
        lane.node.set(task.node.get());
        lane.mark.set(clock);
        self.set_running(cpu, clock + task.owed.take());
        if !state.queue.borrow().is_empty() {
            self.arm_slice(cpu);
        }
    }

    fn is_marked_idle(&self, cpu: usize) -> bool {
        self.idle[cpu / 64].get() >> (cpu % 64) & 1 == 1
    }

    /// Marks an idle CPU as busy, because it gets a task or an interrupt now.
    pub(crate) fn leave_idle(&self, cpu: usize) {
        let state = &self.cpus[cpu];
        self.idle[cpu / 64].set(self.idle[cpu / 64].get() & !(1 << (cpu % 64)));
        state.idle_total.set(state.idle_total.get() + self.clock.get().saturating_sub(state.idle_since.get()));
    }

    /// Offers the calling task's CPU to other tasks. `at` is [`Point::Waits`] if another task has to run before the
    /// caller can continue.
    pub(crate) fn relax(&self, at: Point) {
        self.sleeping_task("relax");
        self.schedule_point(at);
        if self.cpus[cpu_of(self.lane.get())].wants_switch.get() {
            self.yield_cpu();
        }
    }
}
