//! The main loop, which resumes the earliest CPU or event.
//!
//! The loop resumes the CPU with the earliest clock, or dispatches the earliest event if that is due first. So all
//! state that tasks share changes in the order of virtual time. At equal times, events come before CPUs: events in the
//! order in which they were made, then CPUs by number.

use crate::clock::{CPU_BITS, NOT_RUNNING, horizon_below, picos};
use crate::cpu::{LaneId, NO_LANE, is_handler};
use crate::device::CARD;
use crate::event::{Event, EventKind};
use crate::failure::Failure;
use crate::fiber::{Ask, Job};
use crate::record::fingerprint::Mark;
use crate::rng::Rng;
use crate::task::{State, Task};
use crate::task_id::TaskId;
use crate::wait_queue::WaitQueue;
use crate::world::{Observer, Phase, World};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

impl World {
    fn dispatch_event(&self) {
        let event = self.events.pop();
        if !self.is_current(event) {
            return;
        }
        self.clock.set(event.time);
        self.acted.set(event.time);
        if event.time >= self.next_observation.get() {
            self.observe(event.time);
        }
        let id = match event.kind {
            EventKind::Timer(sleeper) => u64::from(sleeper.task.0) << 8 | 1,
            EventKind::Device(device) => u64::from(device) << 8 | 2,
            EventKind::Slice(cpu) => u64::from(cpu) << 8 | 3,
            EventKind::ShutdownLimit => 4,
            EventKind::TimeLimit => 5,
            EventKind::Packet => 6,
        };
        self.fingerprint.mix(Mark::Event, event.time, id);
        match event.kind {
            EventKind::Timer(sleeper) => {
                self.end_sleep(sleeper);
            }
            EventKind::Device(device) => {
                if let Some(cpu) = self.device_event(usize::from(device)) {
                    self.raise_interrupt(cpu, device);
                }
            }
            EventKind::Packet => {
                if let Some(cpu) = self.packet_arrived() {
                    self.raise_interrupt(cpu, CARD);
                }
            }
            EventKind::Slice(cpu) => self.slice_ended(usize::from(cpu)),
            EventKind::ShutdownLimit => self.fail(format!(
                "{} after the main task returned, tasks have not:{}",
                self.config.shutdown_limit,
                self.list_tasks()
            )),
            EventKind::TimeLimit => {
                let limit = self.config.time_limit.expect("a limit that is over was set");
                self.fail(format!(
                    "the time limit of {limit} is over: does a step cost too much, or is a disk too slow, for what is to be \
                     done? These tasks have not ended:{}",
                    self.list_tasks()
                ))
            }
        }
    }

    #[cold]
    fn observe(&self, time: u64) {
        if let Some(Observer { every, look }) = self.observer.borrow_mut().as_mut() {
            look(time);
            self.next_observation.set((time + 1).next_multiple_of(*every));
        }
    }

    /// Returns whether an event still has to be handled. A timer, for example, has no effect if its task was woken
    /// before.
    fn is_current(&self, event: Event) -> bool {
        match event.kind {
            EventKind::Timer(sleeper) => {
                let tasks = self.tasks.borrow();
                let task = &tasks[sleeper.task.0 as usize];
                task.state.get() == State::Sleeping && task.sleeps.get() == sleeper.sleep
            }
            EventKind::Device(device) => self.devices[usize::from(device)].is_due(event.time),
            EventKind::Slice(cpu) => self.cpus[usize::from(cpu)].slice_event.get() == event.time,
            EventKind::Packet => self.phase.get() == Phase::Alive,
            EventKind::ShutdownLimit | EventKind::TimeLimit => self.tasks_left.get() > 0,
        }
    }

    /// Runs tasks and handles events in the order of time, until no task can run and no event is left, or something
    /// fails.
    fn run_loop(&self) {
        while !self.has_failed.get() {
            let key = if self.is_by_rank { self.first_by_rank() } else { self.clocks.least() };
            let event = self.events.next();
            if event <= key >> CPU_BITS {
                self.dispatch_event();
            } else if key != NOT_RUNNING {
                self.run_cpu(key, event);
            } else if self.tasks_left.get() > 0 {
                self.fail(format!("deadlock: no task can run and no event is left:{}", self.list_tasks()));
            } else {
                return;
            }
        }
    }

    /// Runs a CPU until its fiber suspends itself, and then does what the fiber asks for. `key` has the number and the
    /// clock of the CPU. `event` is the time of the next event.
    #[inline]
    fn run_cpu(&self, key: u64, event: u64) {
        let cpu = (key & ((1 << CPU_BITS) - 1)) as usize;
        let state = &self.cpus[cpu];
        let lane_id = state.front(cpu);
        self.clock.set(key >> CPU_BITS);
        let limit = if self.is_by_rank {
            self.catch_up(cpu);
            event - 1
        } else {
            horizon_below(self.clocks.least_other(cpu), cpu).min(event - 1)
        };
        self.limit.set(limit);
        self.horizon.set(if self.sees_steps { 0 } else { limit });
        self.lane.set(lane_id);
        let fiber = self.lanes[lane_id as usize].fiber.get();
        // SAFETY: a CPU that competes has a fiber on its front lane, which `fibers` keeps until the run ends.
        let ask = unsafe { (*fiber).resume() };
        self.lane.set(NO_LANE);
        self.horizon.set(0);
        state.clock.set(self.clock.get());
        match ask {
            Ask::Spent => self.clocks.run(cpu, self.clock.get()),
            ask => self.answer(cpu, lane_id, ask),
        }
    }

    /// Returns the key of the CPU whose task has the lowest rank, because that CPU runs next. The clock in the key is
    /// the time at which the CPU can continue. Returns [`NOT_RUNNING`] if no CPU competes to run.
    #[cold]
    fn first_by_rank(&self) -> u64 {
        let rank = |cpu: usize| match self.cpus[cpu].task.get() {
            Some(id) if !self.cpus[cpu].in_handler.get() => self.tasks.borrow()[id.0 as usize].rank.get(),
            _ => 0,
        };
        let (mut competing, mut first) = (0, None);
        for cpu in (0..self.cpus.len()).filter(|cpu| self.clocks.is_running(*cpu)) {
            competing += 1;
            let key = (rank(cpu), self.cpus[cpu].clock.get(), cpu);
            first = Some(first.map_or(key, |other| key.min(other)));
        }
        self.holds_back.set(competing > 1);
        first.map_or(NOT_RUNNING, |(_, clock, cpu)| clock.max(self.acted.get()) << CPU_BITS | cpu as u64)
    }

    #[inline(never)]
    fn answer(&self, cpu: usize, lane: LaneId, ask: Ask) {
        self.acted.set(self.clock.get());
        match ask {
            Ask::Spent => unreachable!("answered by run_cpu"),
            Ask::Spin => self.clocks.stop(cpu),
            Ask::Sleep => {
                self.take_off(cpu);
                self.schedule(cpu);
            }
            Ask::Yield => self.yield_to_next(cpu),
            Ask::Unmasked => self.unmasked(cpu),
            Ask::Done if is_handler(lane) => self.end_handler(cpu),
            Ask::Done => self.end_task(cpu),
            Ask::Panicked(payload) => self.fail(words_of(payload.as_ref())),
        }
        if self.has_failed.get() && self.failure.borrow().as_ref().is_some_and(|failure| failure.task.is_none()) {
            self.name_culprit(cpu, lane);
        }
    }

    fn name_culprit(&self, cpu: usize, lane: LaneId) {
        let task = self.cpus[cpu].task.get();
        let name = match task {
            _ if is_handler(lane) => "interrupt".to_string(),
            Some(id) => self.task(id).name.to_string(),
            None => return,
        };
        let path = self.profile.path(self.lanes[lane as usize].node.get());
        if let Some(failure) = &mut *self.failure.borrow_mut() {
            failure.message = format!("{} [in {path}]", failure.message);
            failure.task = Some(name);
        }
    }

    fn end_task(&self, cpu: usize) {
        let lane = &self.lanes[2 * cpu];
        if lane.held.get() != 0 || lane.slots.get() != 0 {
            return self.fail(format!("a task returned while holding {}", lane.held_words()));
        }
        let id = self.cpus[cpu].task.get().expect("a task that returns is on its CPU");
        let task = self.task(id);
        self.take_off(cpu);
        self.give_fiber(task.fiber.replace(std::ptr::null()));
        self.set_state(&task, State::Finished);
        self.tasks_left.set(self.tasks_left.get() - 1);
        self.fingerprint.mix(Mark::End, self.clock.get(), u64::from(id.0));
        self.schedule(cpu);
        self.wake(&task.ended);
        if self.main.get() == Some(id) {
            self.begin_shutdown();
        }
    }

    fn begin_shutdown(&self) {
        let at_end = self.at_end.take();
        if let Some(look) = at_end {
            look(self.clock.get());
        }
        self.phase.set(Phase::Ending);
        let ids: Vec<TaskId> = self.tasks.borrow().iter().map(|task| task.id).collect();
        for id in ids {
            self.kill(id);
        }
        let limit = self.clock.get().saturating_add(picos(self.config.shutdown_limit));
        self.push_event(limit, EventKind::ShutdownLimit);
    }

    /// Returns one line for each task that has not returned.
    pub(crate) fn list_tasks(&self) -> String {
        let mut list = String::new();
        for task in self.tasks.borrow().iter() {
            let state = match task.state.get() {
                State::Finished => continue,
                State::OnCpu => {
                    let lane = &self.lanes[2 * task.cpu.get()];
                    task.node.set(lane.node.get());
                    if lane.is_spinning.get() {
                        format!("spins for {}", crate::cause::cause_name(lane.spins_for.get()))
                    } else {
                        "runs".into()
                    }
                }
                State::Queued => "waits for a CPU".into(),
                State::Sleeping => "sleeps".into(),
                State::Uninterruptible => "waits for a device's queue".into(),
            };
            list += &format!("\n  {}: {state} in {}", task.name, self.profile.path(task.node.get()));
        }
        list
    }

    pub(crate) fn spawn(&self, name: &str, node: Option<usize>, job: Job) -> TaskId {
        assert!(self.phase.get() != Phase::Ended, "spawned `{name}` in a world that has ended");
        let id = TaskId(u32::try_from(self.tasks.borrow().len()).expect("fewer than 4 Gi tasks"));
        let root = self.profile.root(name);
        let bound_to = node.filter(|node| (0..self.cpus.len()).any(|cpu| self.node_of_cpu(cpu) == *node));
        // A new task is in the group of the task that starts it.
        let group = self.current_task().map_or_else(|| self.pressure_of(0), |task| task.group.borrow().clone());
        let task = Rc::new(Task {
            id,
            name: name.into(),
            state: Cell::new(State::Sleeping),
            job: Cell::new(Some(job)),
            fiber: Cell::new(std::ptr::null()),
            node: Cell::new(root),
            root,
            bound_to,
            cpu: Cell::new(id.0 as usize % self.cpus.len()),
            runtime: Cell::new(0),
            rank: Cell::new(self.schedule.borrow_mut().rank()),
            owed: Cell::new(0),
            cpu_time: Cell::new(0),
            started_at: self.clock.get(),
            slept_at: Cell::new(self.clock.get()),
            queued_at: Cell::new(0),
            sleeps: Cell::new(0),
            waits: Cell::new(None),
            is_killed: Cell::new(self.phase.get() == Phase::Ending),
            waits_for_io: Cell::new(false),
            group: RefCell::new(group),
            stalls: Cell::new(0),
            is_aside: Cell::new(false),
            plug: RefCell::default(),
            rng: RefCell::new(Rng::new(self.config.seed, u64::from(id.0))),
            ended: WaitQueue::default(),
        });
        self.tasks.borrow_mut().push(Rc::clone(&task));
        self.tasks_left.set(self.tasks_left.get() + 1);
        self.fingerprint.mix(Mark::Spawn, self.clock.get(), u64::from(id.0));
        self.place_woken(&task);
        id
    }

    /// Runs the machine to its end; see [`crate::Sim::run`].
    pub(crate) fn run(&self, name: &str, job: Job) -> Result<(), Failure> {
        assert!(self.lane.get() == NO_LANE, "run inside of a task");
        assert!(self.main.get().is_none(), "a machine runs once");
        let main = self.spawn(name, None, job);
        self.main.set(Some(main));
        if let Some(limit) = self.config.time_limit {
            self.push_event(picos(limit), EventKind::TimeLimit);
        }
        self.run_loop();
        self.end()
    }

    fn end(&self) -> Result<(), Failure> {
        self.phase.set(Phase::Ended);
        self.idle_fibers.borrow_mut().clear();
        for lane in &self.lanes {
            lane.fiber.set(std::ptr::null());
        }
        let fibers = self.fibers.take();
        let failure = self.failure.borrow().clone();
        if failure.is_none() {
            for fiber in &fibers {
                fiber.retire();
            }
        }
        drop(fibers);
        // The receiver of completions owns locks, which own the world. Dropping the receiver breaks this cycle.
        let completions = self.completions.take();
        drop(completions);
        // An observer may own the world, too.
        let observer = (self.observer.take(), self.at_end.take(), self.at_kill.take());
        drop(observer);
        failure.map_or(Ok(()), Err)
    }
}

/// Returns the message of a panic.
fn words_of(payload: &(dyn Any + Send)) -> String {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(words), _) => (*words).to_string(),
        (_, Some(words)) => words.clone(),
        _ => "a panic without words".to_string(),
    }
}
