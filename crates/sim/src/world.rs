//! The world and its loop: whichever CPU or event is the earliest goes on.
//!
//! A running fiber adds to `clock`. As long as the clock stays within `horizon` nothing else is due, and
//! [`World::spend`] returns at once; past it the fiber is suspended and the loop resumes the CPU with the earliest
//! clock, or dispatches the earliest event when that is due first. All state that tasks share therefore changes in
//! the order of virtual time; equal times go by CPU number, events first, and events by the order of their making.
//!
//! Invariant: a fiber acts, and asks for anything but [`Ask::Spent`], only while its clock is within the limit.

use crate::cache_line::{CacheLines, LastCpu};
use crate::clock::{CPU_BITS, Clocks, END_OF_TIME, NOT_RUNNING, horizon_below, nanos, picos};
use crate::config::{Config, Perturb};
use crate::cpu::{Cpu, Lane, LaneId, NO_LANE, cpu_of, is_handler};
use crate::device::Device;
use crate::failure::Failure;
use crate::fiber::{Ask, Fiber, Job};
use crate::fingerprint::{Fingerprint, Mark};
use crate::interrupt::MaskCounts;
use crate::lock::LockCounts;
use crate::network::Network;
use crate::pressure::Pressure;
use crate::profile::Profile;
use crate::rng::Rng;
use crate::stamps::Stamps;
use crate::task::{State, Task, TaskId};
use crate::tlb::Tlb;
use crate::trace::Recorder;
use crate::wait::{Sleeper, WaitQueue};
use machine::{Completions, FrameNumber, Func, Step};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::{Rc, Weak};

/// An event that is to happen at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A sleep reaches its deadline.
    Timer(Sleeper),
    /// A device has something to do.
    Device(u8),
    /// A packet reaches the network card.
    Packet,
    /// A task's time slice ends.
    Slice(u16),
    /// Tasks have had enough time to end.
    ShutdownLimit,
    /// The run has had enough time.
    TimeLimit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Event {
    time: u64,
    number: u64,
    kind: EventKind,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// How far a world has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Being set up, or running.
    Alive,
    /// The main task has returned; the others are told to.
    Ending,
    /// Over.
    Ended,
}

pub(crate) struct World {
    /// The time: of the running CPU, or of the event being dispatched.
    pub(crate) clock: Cell<u64>,
    /// Clock past which `spend` must look closer; the limit, or 0 when each spend is perturbed or no fiber runs.
    pub(crate) horizon: Cell<u64>,
    /// Clock up to which the running fiber may go.
    limit: Cell<u64>,
    /// The lane that runs.
    pub(crate) lane: Cell<LaneId>,
    pub(crate) costs: [u64; Step::ALL.len()],
    pub(crate) lanes: Box<[Lane]>,
    pub(crate) cpus: Box<[Cpu]>,
    pub(crate) clocks: Clocks,
    events: RefCell<BinaryHeap<Reverse<Event>>>,
    events_made: Cell<u64>,
    next_event: Cell<u64>,
    pub(crate) profile: Profile,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) config: Config,
    perturb: Option<Perturb>,
    pub(crate) chance: RefCell<Rng>,
    pub(crate) tasks: RefCell<Vec<Rc<Task>>>,
    pub(crate) tasks_left: Cell<usize>,
    pub(crate) tasks_queued: Cell<usize>,
    pub(crate) arrivals: Cell<u64>,
    /// One bit for each CPU.
    pub(crate) idle: [Cell<u64>; 4],
    main: Cell<Option<TaskId>>,
    pub(crate) phase: Cell<Phase>,
    failure: RefCell<Option<Failure>>,
    has_failed: Cell<bool>,
    /// Keeps every fiber where it is, from its making to the end of the run.
    fibers: RefCell<Vec<Rc<Fiber>>>,
    idle_fibers: RefCell<Vec<*const Fiber>>,
    pub(crate) devices: Box<[Device]>,
    pub(crate) network: Option<Network>,
    pub(crate) uncongested: WaitQueue,
    pub(crate) completions: RefCell<Option<Rc<dyn Completions>>>,
    observer: RefCell<Option<Observer>>,
    next_observation: Cell<u64>,
    /// The function that looks at the end of the run.
    pub(crate) at_end: RefCell<Option<AtEnd>>,
    pub(crate) stamps: Stamps,
    /// By CPU; empty where translations cost nothing.
    pub(crate) tlbs: Box<[Tlb]>,
    /// By cause: what the lines of a lock take that come from another CPU, ps.
    pub(crate) lock_travel: [u64; crate::lock::SLOT as usize + 1],
    /// The same of a frame.
    pub(crate) frame_travel: u64,
    /// By frame; empty where its lines cost nothing.
    pub(crate) last_cpu_of_frame: Box<[LastCpu]>,
    pub(crate) lock_counts: Box<[LockCounts]>,
    pub(crate) mask_counts: Box<[MaskCounts]>,
    /// Times without interrupts that are kept: begin and end.
    pub(crate) off_windows: RefCell<Vec<(u64, u64)>>,
    pub(crate) recorder: Recorder,
    pub(crate) pressure: Pressure,
    me: Weak<World>,
}

/// A function that looks at the end of a run, at the time of it.
type AtEnd = Box<dyn FnOnce(u64)>;

/// A function that looks at the world from outside, and its interval.
struct Observer {
    every: u64,
    look: Box<dyn FnMut(u64)>,
}

impl World {
    pub(crate) fn new(config: Config, devices: Box<[Device]>) -> Rc<Self> {
        let cpus = config.cpus;
        Rc::new_cyclic(|me| Self {
            clock: Cell::new(0),
            horizon: Cell::new(0),
            limit: Cell::new(0),
            lane: Cell::new(NO_LANE),
            costs: config.cost.table(),
            lanes: Cpu::lanes(cpus),
            clocks: Clocks::new(cpus),
            cpus: (0..cpus).map(|_| Cpu::new()).collect(),
            events: RefCell::default(),
            events_made: Cell::new(0),
            next_event: Cell::new(u64::MAX),
            profile: Profile::default(),
            fingerprint: Fingerprint::new(config.seed),
            observer: RefCell::default(),
            next_observation: Cell::new(u64::MAX),
            at_end: RefCell::default(),
            perturb: config.perturb,
            chance: RefCell::new(Rng::new(config.seed, u64::MAX - 1)),
            tasks: RefCell::default(),
            tasks_left: Cell::new(0),
            tasks_queued: Cell::new(0),
            arrivals: Cell::new(0),
            idle: std::array::from_fn(|word| {
                Cell::new((0..64).filter(|bit| word * 64 + bit < cpus).fold(0, |mask, bit| mask | 1 << bit))
            }),
            main: Cell::new(None),
            phase: Cell::new(Phase::Alive),
            failure: RefCell::default(),
            has_failed: Cell::new(false),
            fibers: RefCell::default(),
            idle_fibers: RefCell::default(),
            devices,
            network: config.network.map(Network::new),
            uncongested: WaitQueue::default(),
            completions: RefCell::default(),
            stamps: Stamps::new(config.stamps, config.frames),
            tlbs: config.tlb.iter().flat_map(|tlb| (0..cpus).map(|_| Tlb::new(tlb))).collect(),
            lock_travel: CacheLines::lock_table(config.cache_lines.as_ref()),
            frame_travel: CacheLines::frame_cost(config.cache_lines.as_ref()),
            last_cpu_of_frame: match CacheLines::frame_cost(config.cache_lines.as_ref()) {
                0 => Box::default(),
                _ => (0..config.frames).map(|_| LastCpu::default()).collect(),
            },
            lock_counts: LockCounts::table(),
            mask_counts: MaskCounts::table(),
            off_windows: RefCell::default(),
            recorder: Recorder::default(),
            pressure: Pressure::default(),
            me: me.clone(),
            config,
        })
    }

    pub(crate) fn rc(&self) -> Rc<Self> {
        self.me.upgrade().expect("a world in use is alive")
    }

    // ---- what fibers call ----

    /// Adds the cost of `n` steps to the running CPU's clock.
    #[inline]
    pub(crate) fn spend(&self, step: Step, n: u32) {
        self.spend_picos(self.costs[step as usize] * u64::from(n));
    }

    /// Adds the cost of `n` steps on a frame, whose node may be another than the CPU's, and which another CPU may have touched last.
    #[inline]
    pub(crate) fn spend_on(&self, step: Step, frame: FrameNumber, n: u32) {
        let mut cost = self.costs[step as usize] * u64::from(n);
        if self.config.nodes.is_some() {
            cost = self.cost_on(cost, frame);
        }
        self.spend_picos(cost + self.frame_travel(frame));
    }

    #[cold]
    fn cost_on(&self, cost: u64, frame: FrameNumber) -> u64 {
        self.config.nodes.as_ref().map_or(cost, |nodes| nodes.cost(cost, self.node_here(), frame))
    }

    /// The memory node of a CPU.
    pub(crate) fn node_of_cpu(&self, cpu: usize) -> usize {
        self.config.nodes.as_ref().map_or(0, |nodes| usize::from(nodes.of_cpu[cpu]))
    }

    /// The memory node of the running CPU; the first outside of tasks.
    #[inline]
    pub(crate) fn node_here(&self) -> usize {
        match self.lane.get() {
            _ if self.config.nodes.is_none() => 0,
            NO_LANE => 0,
            lane => self.node_of_cpu(cpu_of(lane)),
        }
    }

    /// The CPU of the task or handler that runs; none outside of a run.
    #[inline]
    pub(crate) fn cpu_here(&self) -> Option<usize> {
        match self.lane.get() {
            NO_LANE => None,
            lane => Some(cpu_of(lane)),
        }
    }

    #[inline]
    pub(crate) fn spend_picos(&self, cost: u64) {
        let clock = self.clock.get().saturating_add(cost);
        self.clock.set(clock);
        if clock > self.horizon.get() {
            self.spend_past_horizon(cost);
        }
    }

    #[inline(never)]
    fn spend_past_horizon(&self, cost: u64) {
        if self.lane.get() == NO_LANE {
            // Setting up, or looking at the result: no CPU does it.
            self.clock.set(self.clock.get() - cost);
        } else if !self.is_dying() {
            self.perturb();
            self.settle();
        }
    }

    /// Lets everything that is due before the running clock happen.
    #[inline]
    fn settle(&self) {
        if self.clock.get() > self.limit.get() {
            self.suspend(Ask::Spent);
        }
    }

    /// In a swarm: perhaps takes longer, perhaps gives up the CPU.
    #[inline]
    fn perturb(&self) {
        if let Some(perturb) = self.perturb {
            self.perturb_by(perturb);
        }
    }

    #[cold]
    fn perturb_by(&self, perturb: Perturb) {
        let mut chance = self.chance.borrow_mut();
        if chance.chance(perturb.delay_chance) {
            let extra = chance.below(picos(perturb.delay_max) + 1);
            self.clock.set(self.clock.get() + extra);
        }
        let gives_up = chance.chance(perturb.yield_chance);
        drop(chance);
        if gives_up {
            self.settle();
            self.yield_cpu();
        }
    }

    /// A point at which a swarm may disturb, besides spends.
    #[inline]
    pub(crate) fn perturb_point(&self) {
        if self.perturb.is_some() && self.lane.get() != NO_LANE && !self.is_dying() {
            self.perturb();
            self.settle();
        }
    }

    /// Gives up the CPU, where that is allowed and anyone waits for it.
    pub(crate) fn yield_cpu(&self) {
        let lane = self.lane.get();
        let cpu = cpu_of(lane);
        let may = !is_handler(lane) && self.lanes[lane as usize].is_preemptible();
        if may && !self.cpus[cpu].queue.borrow().is_empty() {
            self.suspend(Ask::Yield);
        }
    }

    /// Leaves the running fiber's stack until the loop resumes it, perhaps on another CPU.
    #[inline]
    pub(crate) fn suspend(&self, ask: Ask) {
        let fiber = self.lanes[self.lane.get() as usize].fiber.get();
        // SAFETY: a lane that runs holds a fiber, which `fibers` keeps until the run ends.
        unsafe { (*fiber).suspend(ask) }
    }

    /// Asserts that the running task or handler can leave its stack. Asked before anything says that it does: a caller may catch the
    /// panic and go on.
    ///
    /// # Panics
    /// When it runs on another: that of a task of a world that it runs.
    #[inline]
    pub(crate) fn assert_on_own_stack(&self) {
        let fiber = self.lanes[self.lane.get() as usize].fiber.get();
        // SAFETY: as in `suspend`.
        unsafe { (*fiber).assert_on_own_stack() }
    }

    /// Is this thread unwinding? Then nothing may suspend any more: the world ends at the end of it.
    #[inline]
    pub(crate) fn is_dying(&self) -> bool {
        std::thread::panicking()
    }

    /// The lane that runs, if any does.
    #[inline]
    pub(crate) fn running(&self) -> Option<&Lane> {
        self.lanes.get(self.lane.get() as usize)
    }

    /// The task that runs; none outside of tasks and in a handler.
    pub(crate) fn current_task(&self) -> Option<Rc<Task>> {
        self.current_task_id().map(|id| self.task(id))
    }

    /// The number of the task that runs, as [`World::current_task`].
    fn current_task_id(&self) -> Option<TaskId> {
        let lane = self.lane.get();
        if lane == NO_LANE || is_handler(lane) {
            return None;
        }
        self.cpus[cpu_of(lane)].task.get()
    }

    /// Was the running task told to end?
    pub(crate) fn is_killed(&self) -> bool {
        self.current_task_id().is_some_and(|id| self.tasks.borrow()[id.0 as usize].is_killed.get())
    }

    pub(crate) fn task(&self, id: TaskId) -> Rc<Task> {
        Rc::clone(&self.tasks.borrow()[id.0 as usize])
    }

    /// Charges the running lane's time to where it is in the profile.
    #[inline]
    pub(crate) fn charge(&self, lane: &Lane) {
        let clock = self.clock.get();
        let time = clock.saturating_sub(lane.mark.get());
        if time > 0 {
            self.profile.charge(lane.node.get(), time);
            lane.used.set(lane.used.get() + time);
            lane.mark.set(clock);
        }
    }

    /// Runs `body` as a part of `func`.
    pub(crate) fn within(&self, func: Func, body: impl FnOnce()) {
        let span = crate::sim::Span::enter(self, func);
        body();
        drop(span);
    }

    // ---- events ----

    pub(crate) fn push_event(&self, time: u64, kind: EventKind) {
        if time >= END_OF_TIME {
            return;
        }
        let number = self.events_made.get();
        self.events_made.set(number + 1);
        self.events.borrow_mut().push(Reverse(Event { time, number, kind }));
        if time < self.next_event.get() {
            self.next_event.set(time);
            self.lower_limit(time.saturating_sub(1));
        }
    }

    fn dispatch_event(&self) {
        let mut events = self.events.borrow_mut();
        let Reverse(event) = events.pop().expect("next_event is the time of an event");
        self.next_event.set(events.peek().map_or(u64::MAX, |Reverse(next)| next.time));
        drop(events);
        if !self.is_current(event) {
            return;
        }
        self.clock.set(event.time);
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
            EventKind::Device(device) => self.device_event(usize::from(device)),
            EventKind::Packet => self.packet_arrived(),
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

    /// Has `look` called with the time of the first event from each multiple of `every` on, before that event.
    pub(crate) fn set_observer(&self, every: u64, look: Box<dyn FnMut(u64)>) {
        self.next_observation.set(self.clock.get().next_multiple_of(every));
        *self.observer.borrow_mut() = Some(Observer { every, look });
    }

    #[cold]
    fn observe(&self, time: u64) {
        if let Some(Observer { every, look }) = self.observer.borrow_mut().as_mut() {
            look(time);
            self.next_observation.set((time + 1).next_multiple_of(*every));
        }
    }

    /// Does the event still mean anything?
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

    // ---- CPUs ----

    /// From `clock` on CPU `cpu` competes for the next turn.
    pub(crate) fn set_running(&self, cpu: usize, clock: u64) {
        self.cpus[cpu].clock.set(clock);
        self.clocks.run(cpu, clock);
        let lane = self.lane.get();
        if lane != NO_LANE {
            self.lower_limit(horizon_below(clock << CPU_BITS | cpu as u64, cpu_of(lane)));
        }
    }

    fn lower_limit(&self, limit: u64) {
        if limit < self.limit.get() {
            self.limit.set(limit);
            self.horizon.set(self.horizon.get().min(limit));
        }
    }

    // ---- the loop ----

    /// Runs until nothing is left to do, or something fails.
    fn run_loop(&self) {
        while !self.has_failed.get() {
            let key = self.clocks.least();
            let event = self.next_event.get();
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

    /// Resumes the CPU that is the earliest, until it asks for something.
    #[inline]
    fn run_cpu(&self, key: u64, event: u64) {
        let cpu = (key & ((1 << CPU_BITS) - 1)) as usize;
        let state = &self.cpus[cpu];
        let lane_id = state.front(cpu);
        let limit = horizon_below(self.clocks.least_other(cpu), cpu).min(event - 1);
        self.clock.set(key >> CPU_BITS);
        self.limit.set(limit);
        self.horizon.set(if self.perturb.is_some() { 0 } else { limit });
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

    #[inline(never)]
    fn answer(&self, cpu: usize, lane: LaneId, ask: Ask) {
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

    pub(crate) fn fail(&self, message: String) {
        self.has_failed.set(true);
        let time = nanos(self.clock.get());
        self.failure.borrow_mut().get_or_insert(Failure { message, task: None, time });
    }

    /// One line for each task that has not returned.
    fn list_tasks(&self) -> String {
        let mut list = String::new();
        for task in self.tasks.borrow().iter() {
            let state = match task.state.get() {
                State::Finished => continue,
                State::OnCpu => {
                    let lane = &self.lanes[2 * task.cpu.get()];
                    task.node.set(lane.node.get());
                    if lane.is_spinning.get() {
                        format!("spins for {}", crate::lock::cause_name(lane.spins_for.get()))
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

    // ---- tasks and fibers ----

    pub(crate) fn spawn(&self, name: &str, node: Option<usize>, job: Job) -> TaskId {
        assert!(self.phase.get() != Phase::Ended, "spawned `{name}` in a world that has ended");
        let id = TaskId(u32::try_from(self.tasks.borrow().len()).expect("fewer than 4 Gi tasks"));
        let root = self.profile.root(name);
        let bound_to = node.filter(|node| (0..self.cpus.len()).any(|cpu| self.node_of_cpu(cpu) == *node));
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
            owed: Cell::new(0),
            cpu_time: Cell::new(0),
            started_at: self.clock.get(),
            slept_at: Cell::new(self.clock.get()),
            queued_at: Cell::new(0),
            sleeps: Cell::new(0),
            waits: Cell::new(None),
            is_killed: Cell::new(self.phase.get() == Phase::Ending),
            stalls: Cell::new(0),
            is_aside: Cell::new(false),
            rng: RefCell::new(Rng::new(self.config.seed, u64::from(id.0))),
            ended: WaitQueue::default(),
        });
        self.tasks.borrow_mut().push(Rc::clone(&task));
        self.tasks_left.set(self.tasks_left.get() + 1);
        self.fingerprint.mix(Mark::Spawn, self.clock.get(), u64::from(id.0));
        self.place_woken(&task);
        id
    }

    /// A fiber with a job.
    pub(crate) fn take_fiber(&self, job: Job) -> *const Fiber {
        let idle = self.idle_fibers.borrow_mut().pop();
        let fiber = idle.unwrap_or_else(|| {
            let mut fibers = self.fibers.borrow_mut();
            let fiber = Rc::new(Fiber::new(self.config.stack_bytes, fibers.len()));
            fibers.push(Rc::clone(&fiber));
            Rc::as_ptr(&fiber)
        });
        // SAFETY: `fibers` keeps every fiber until the run ends.
        unsafe { (*fiber).assign(job) };
        fiber
    }

    pub(crate) fn give_fiber(&self, fiber: *const Fiber) {
        self.idle_fibers.borrow_mut().push(fiber);
    }

    /// Runs everything; see [`crate::Sim::run`].
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
        // What takes completions owns locks, which own the world: the circle ends here.
        let completions = self.completions.take();
        drop(completions);
        // So may who observes.
        let observer = (self.observer.take(), self.at_end.take());
        drop(observer);
        failure.map_or(Ok(()), Err)
    }
}

/// Returns the words of a panic.
fn words_of(payload: &(dyn Any + Send)) -> String {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(words), _) => (*words).to_string(),
        (_, Some(words)) => words.clone(),
        _ => "a panic without words".to_string(),
    }
}
