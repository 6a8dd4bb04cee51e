//! The state of a simulated machine, with its time, events and running tasks.
//!
//! A running fiber adds the cost of its work to `clock`. While the clock is within `horizon`, nothing else is due, and
//! [`World::spend`] returns at once. When the clock passes `horizon`, the fiber is suspended, and the loop (`run`)
//! continues.
//!
//! Invariant: a fiber whose clock is past `limit` does only one thing, to suspend with [`Ask::Spent`]. It does
//! everything else while its clock is within `limit`.

use crate::cache_line::{CacheLines, LastCpu};
use crate::clock::{CPU_BITS, Clocks, END_OF_TIME, horizon_below, nanos};
use crate::config::Config;
use crate::cpu::{Cpu, Lane, LaneId, NO_LANE, cpu_of, is_handler};
use crate::device::{Device, Network};
use crate::event::{EventKind, Events};
use crate::failure::Failure;
use crate::fiber::{Ask, Fiber, Job};
use crate::record::fingerprint::Fingerprint;
use crate::record::locks::LockCounts;
use crate::record::masks::MaskCounts;
use crate::record::pressure::GroupPressure;
use crate::record::profile::Profile;
use crate::record::trace::Recorder;
use crate::schedule::{self, Decisions, Point, Runner, Schedule};
use crate::stamps::Stamps;
use crate::task::Task;
use crate::task_id::TaskId;
use crate::tlb::Tlb;
use crate::wait_queue::WaitQueue;
use machine::{Completions, FrameNumber, Step};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// The phase of a simulated machine's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The world is being set up, or is running.
    Alive,
    /// The main task has returned, and the other tasks are told to end.
    Ending,
    /// The run is over.
    Ended,
}

pub(crate) struct World {
    /// The present time: the clock of the running CPU, or the time of the event that is being dispatched.
    pub(crate) clock: Cell<u64>,
    /// Time, ps, up to which `spend` does nothing but advance the running CPU's clock. The value is that of `limit`; it
    /// is 0 if the schedule decides at each step, or if no fiber runs.
    pub(crate) horizon: Cell<u64>,
    /// Time, ps, on the clock of the CPU at which the running fiber is suspended.
    pub(crate) limit: Cell<u64>,
    /// The lane (task or handler of a CPU) that is running; `NO_LANE` if none is.
    pub(crate) lane: Cell<LaneId>,
    pub(crate) costs: [u64; Step::ALL.len()],
    pub(crate) lanes: Box<[Lane]>,
    pub(crate) cpus: Box<[Cpu]>,
    pub(crate) clocks: Clocks,
    pub(crate) events: Events,
    pub(crate) profile: Profile,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) config: Config,
    pub(crate) schedule: RefCell<Box<dyn Schedule>>,
    /// The decisions of the schedule; `None` if they are not kept.
    pub(crate) decisions: Option<Rc<RefCell<Decisions>>>,
    /// `true` if the schedule has to be asked at each point of the run ([`Schedule::sees_steps`]).
    pub(crate) sees_steps: bool,
    /// `true` if the schedule lets only one CPU run at a time, the one whose task has the lowest rank
    /// ([`Schedule::is_by_rank`]).
    pub(crate) is_by_rank: bool,
    /// The latest time at which a CPU did something or an event was handled, ps. With a schedule by rank, a CPU that
    /// was held back continues from this time.
    pub(crate) acted: Cell<u64>,
    /// `true` if the schedule is by rank and more than one CPU has work, so that all CPUs but one are held back.
    pub(crate) holds_back: Cell<bool>,
    pub(crate) tasks: RefCell<Vec<Rc<Task>>>,
    pub(crate) tasks_left: Cell<usize>,
    pub(crate) tasks_queued: Cell<usize>,
    pub(crate) arrivals: Cell<u64>,
    /// The idle CPUs, one bit for each CPU.
    pub(crate) idle: [Cell<u64>; 4],
    pub(crate) main: Cell<Option<TaskId>>,
    pub(crate) phase: Cell<Phase>,
    pub(crate) failure: RefCell<Option<Failure>>,
    pub(crate) has_failed: Cell<bool>,
    /// All fibers. Each is kept here, and does not move, from its creation to the end of the run.
    pub(crate) fibers: RefCell<Vec<Rc<Fiber>>>,
    pub(crate) idle_fibers: RefCell<Vec<*const Fiber>>,
    pub(crate) devices: Box<[Device]>,
    pub(crate) network: Option<Network>,
    pub(crate) uncongested: WaitQueue,
    pub(crate) completions: RefCell<Option<Rc<dyn Completions>>>,
    pub(crate) observer: RefCell<Option<Observer>>,
    pub(crate) next_observation: Cell<u64>,
    /// The function to call when the main task has returned.
    pub(crate) at_end: RefCell<Option<AtEnd>>,
    /// The function to call when a process is killed, which ends the tasks of the process; `None` if no function was
    /// set.
    pub(crate) at_kill: RefCell<Option<AtKill>>,
    pub(crate) stamps: Stamps,
    /// TLBs by CPU; empty if translations cost nothing.
    pub(crate) tlbs: Box<[Tlb]>,
    /// Time that the cache lines of a lock take to travel from another CPU, ps, by lock class.
    pub(crate) lock_travel: [u64; crate::cause::SLOT as usize + 1],
    /// Time that the cache lines of a frame take to travel from another CPU, ps.
    pub(crate) frame_travel: u64,
    /// For each frame, the CPU that touched it last. Empty if the travel of a frame's cache lines costs nothing.
    pub(crate) last_cpu_of_frame: Box<[LastCpu]>,
    pub(crate) lock_counts: Box<[LockCounts]>,
    pub(crate) mask_counts: Box<[MaskCounts]>,
    /// The periods with interrupts off that were kept for [`crate::Sim::off_windows`], each with begin and end, ps.
    pub(crate) off_windows: RefCell<Vec<(u64, u64)>>,
    pub(crate) recorder: Recorder,
    /// The pressure (PSI) of the machine at index 0, and of each memory control group at the index that is the group's
    /// number.
    pub(crate) groups: RefCell<Vec<Option<Rc<GroupPressure>>>>,
    me: Weak<World>,
}

/// A function to call when the main task has returned. Its argument is the time of the return, ps.
type AtEnd = Box<dyn FnOnce(u64)>;

/// The function that [`crate::Sim::on_kill_process`] sets, called with the number of the process.
type AtKill = Rc<dyn Fn(u32)>;

/// A function that is called at regular intervals of virtual time to look at the machine, without changing it. The
/// interval is `every`, ps.
pub(crate) struct Observer {
    pub(crate) every: u64,
    pub(crate) look: Box<dyn FnMut(u64)>,
}

impl World {
    pub(crate) fn new(config: Config, devices: Box<[Device]>) -> Rc<Self> {
        let cpus = config.cpus;
        let (schedule, decisions) = schedule::of(&config);
        Rc::new_cyclic(|me| Self {
            clock: Cell::new(0),
            horizon: Cell::new(0),
            limit: Cell::new(0),
            lane: Cell::new(NO_LANE),
            costs: config.cost.table(),
            lanes: Cpu::lanes(cpus),
            clocks: Clocks::new(cpus),
            cpus: (0..cpus).map(|_| Cpu::new()).collect(),
            events: Events::default(),
            profile: Profile::default(),
            fingerprint: Fingerprint::new(config.seed),
            observer: RefCell::default(),
            next_observation: Cell::new(u64::MAX),
            at_end: RefCell::default(),
            at_kill: RefCell::default(),
            sees_steps: schedule.sees_steps(),
            is_by_rank: schedule.is_by_rank(),
            schedule: RefCell::new(schedule),
            decisions,
            acted: Cell::new(0),
            holds_back: Cell::new(false),
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
            groups: RefCell::new(vec![Some(Rc::new(GroupPressure::new(cpus, None, 0)))]),
            me: me.clone(),
            config,
        })
    }

    pub(crate) fn rc(&self) -> Rc<Self> {
        self.me.upgrade().expect("a world in use is alive")
    }

    // ---- what fibers call ----

    /// Adds the cost of the step `step`, done `n` times, to the clock of the running CPU.
    #[inline]
    pub(crate) fn spend(&self, step: Step, n: u32) {
        self.spend_picos(self.costs[step as usize] * u64::from(n));
    }

    /// Adds the cost of `n` steps on a frame to the running CPU's clock. The cost depends on the frame's node, and on
    /// whether another CPU touched the frame last.
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

    /// Returns the memory node of a CPU.
    pub(crate) fn node_of_cpu(&self, cpu: usize) -> usize {
        self.config.nodes.as_ref().map_or(0, |nodes| usize::from(nodes.of_cpu[cpu]))
    }

    /// Returns the memory node of the running CPU; outside of tasks and handlers, the first node.
    #[inline]
    pub(crate) fn node_here(&self) -> usize {
        match self.lane.get() {
            _ if self.config.nodes.is_none() => 0,
            NO_LANE => 0,
            lane => self.node_of_cpu(cpu_of(lane)),
        }
    }

    /// Returns the CPU of the running task or handler; `None` if neither runs.
    #[inline]
    pub(crate) fn cpu_here(&self) -> Option<usize> {
        match self.lane.get() {
            NO_LANE => None,
            lane => Some(cpu_of(lane)),
        }
    }

    /// Returns the time, in ps, that the cache lines of a lock take to arrive at the CPU of `lane`, which has just got
    /// the lock. Records this CPU as the last one that had the lock.
    #[inline]
    pub(crate) fn lock_travel(&self, last: &LastCpu, lane: LaneId, cause: u8) -> u64 {
        let cost = self.lock_travel[usize::from(cause)];
        if cost > 0 && last.touch(crate::cpu::cpu_of(lane)) { cost } else { 0 }
    }

    /// Returns the time, in ps, that the cache lines of a frame take to arrive at the running CPU. Records this CPU as
    /// the last one that touched the frame.
    #[inline]
    pub(crate) fn frame_travel(&self, frame: FrameNumber) -> u64 {
        if self.frame_travel == 0 {
            return 0;
        }
        match (self.last_cpu_of_frame.get(frame.0 as usize), self.cpu_here()) {
            (Some(last), Some(cpu)) if last.touch(cpu) => self.frame_travel,
            _ => 0,
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
            // No CPU does this work, because it belongs to the set-up or to the inspection of results. It takes no
            // time.
            self.clock.set(self.clock.get() - cost);
        } else if !self.is_dying() {
            self.take_turn(Point::Step, cost);
            self.settle();
        }
    }

    /// Suspends the running fiber until all events that are due before its clock have been handled.
    #[inline]
    fn settle(&self) {
        if self.clock.get() > self.limit.get() {
            self.suspend(Ask::Spent);
        }
    }

    /// Lets the schedule delay the running task or interrupt handler, or change the task's rank, or make it yield its
    /// CPU, after a step that cost `cost`. Does nothing if the schedule does not look at single steps.
    #[inline]
    fn take_turn(&self, at: Point, cost: u64) {
        if self.sees_steps {
            self.take_turn_by_schedule(at, cost);
        }
    }

    #[cold]
    fn take_turn_by_schedule(&self, at: Point, cost: u64) {
        self.acted.set(self.clock.get() - cost);
        let holds_back = self.holds_back.get() || self.tasks_queued.get() > 0;
        let runner = Runner { task: self.current_task_id(), holds_back };
        let turn = self.schedule.borrow_mut().turn(runner, at);
        self.clock.set(self.clock.get() + turn.delay);
        if let Some(rank) = turn.rank {
            self.settle();
            self.take_rank(rank);
        }
        if turn.gives_up {
            self.settle();
            self.yield_cpu();
        }
    }

    /// Changes the rank of the running task to `rank`. The task with the lowest rank runs first: if a task that waits
    /// for this CPU has a lower rank, the running task yields the CPU to it, as soon as the running task may be
    /// preempted.
    fn take_rank(&self, rank: u64) {
        self.current_task().expect("a task has a rank").rank.set(rank);
        let cpu = cpu_of(self.lane.get());
        let is_outranked = self.cpus[cpu].queue.borrow().last().is_some_and(|first| first.order < rank);
        if is_outranked && self.lanes[self.lane.get() as usize].is_preemptible() {
            return self.suspend(Ask::Yield);
        }
        if is_outranked {
            self.cpus[cpu].wants_switch.set(true);
            self.cpus[cpu].attention.set(true);
        }
        self.suspend(Ask::Spent);
    }

    /// Lets the schedule decide at a point at which no CPU time was spent, such as right before the task takes a lock.
    #[inline]
    pub(crate) fn schedule_point(&self, at: Point) {
        if self.sees_steps && self.lane.get() != NO_LANE && !self.is_dying() {
            self.take_turn(at, 0);
            self.settle();
        }
    }

    /// Yields the CPU, if the running task may be preempted and another task waits for the CPU.
    pub(crate) fn yield_cpu(&self) {
        let lane = self.lane.get();
        let cpu = cpu_of(lane);
        let may = !is_handler(lane) && self.lanes[lane as usize].is_preemptible();
        if may && !self.cpus[cpu].queue.borrow().is_empty() {
            self.suspend(Ask::Yield);
        }
    }

    /// Suspends the running fiber until the main loop resumes it, perhaps on another CPU. `ask` tells the loop why.
    #[inline]
    pub(crate) fn suspend(&self, ask: Ask) {
        let fiber = self.lanes[self.lane.get() as usize].fiber.get();
        // SAFETY: a lane that runs holds a fiber, which `fibers` keeps until the run ends.
        unsafe { (*fiber).suspend(ask) }
    }

    /// Asserts that the running task or handler may be suspended. This is checked before anything is marked as
    /// suspended, because a caller may catch the panic and go on.
    ///
    /// # Panics
    /// When the caller does not run on the stack of the running task or handler. This happens if the running task runs
    /// a second machine, and the caller is a task of that machine.
    #[inline]
    pub(crate) fn assert_on_own_stack(&self) {
        let fiber = self.lanes[self.lane.get() as usize].fiber.get();
        // SAFETY: as in `suspend`.
        unsafe { (*fiber).assert_on_own_stack() }
    }

    /// Returns whether this thread is unwinding from a panic. In that case no task or handler may be suspended any
    /// more, and the run ends.
    #[inline]
    pub(crate) fn is_dying(&self) -> bool {
        std::thread::panicking()
    }

    /// Returns the state of the running task or handler (its lane); `None` if neither runs.
    #[inline]
    pub(crate) fn running(&self) -> Option<&Lane> {
        self.lanes.get(self.lane.get() as usize)
    }

    /// Returns the running task; `None` outside of tasks and in a handler.
    #[inline]
    pub(crate) fn current_task(&self) -> Option<Rc<Task>> {
        self.current_task_id().map(|id| self.task(id))
    }

    /// Returns the number of the running task; `None` in an interrupt handler, and while no task runs.
    #[inline]
    fn current_task_id(&self) -> Option<TaskId> {
        let lane = self.lane.get();
        if lane == NO_LANE || is_handler(lane) {
            return None;
        }
        self.cpus[cpu_of(lane)].task.get()
    }

    /// Returns whether the running task was told to end.
    #[inline]
    pub(crate) fn is_killed(&self) -> bool {
        self.current_task_id().is_some_and(|id| self.tasks.borrow()[id.0 as usize].is_killed.get())
    }

    /// Returns the calling task, which is about to do an operation that may sleep. `what` names the operation in the
    /// message of a panic.
    ///
    /// # Panics
    /// When the caller may not sleep, which is a bug of the caller.
    #[inline]
    pub(crate) fn sleeping_task(&self, what: &str) -> Rc<Task> {
        let lane = self.lane.get();
        assert!(lane != NO_LANE, "{what} outside of any task");
        assert!(!is_handler(lane), "{what} in an interrupt handler");
        let held = &self.lanes[lane as usize];
        assert!(held.held.get() == 0 && held.slots.get() == 0, "{what} while holding {}", held.held_words());
        self.assert_on_own_stack();
        self.current_task().expect("a task's lane has a task")
    }

    #[inline]
    pub(crate) fn task(&self, id: TaskId) -> Rc<Task> {
        Rc::clone(&self.tasks.borrow()[id.0 as usize])
    }

    /// Adds the time that `lane` (a task or interrupt handler) has used since the last call to the profile, under the
    /// lane's present call path.
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

    // ---- events ----

    pub(crate) fn push_event(&self, time: u64, kind: EventKind) {
        if time >= END_OF_TIME {
            return;
        }
        if self.events.push(time, kind) {
            self.lower_limit(time.saturating_sub(1));
        }
    }

    /// Sets the function `look`, which is called before the first event after each multiple of `every` ps.
    pub(crate) fn set_observer(&self, every: u64, look: Box<dyn FnMut(u64)>) {
        self.next_observation.set(self.clock.get().next_multiple_of(every));
        *self.observer.borrow_mut() = Some(Observer { every, look });
    }

    // ---- CPUs ----

    /// Marks CPU `cpu` as running, with its clock at `clock`, so that the main loop may resume it.
    #[inline]
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

    pub(crate) fn fail(&self, message: String) {
        self.has_failed.set(true);
        let time = nanos(self.clock.get());
        self.failure.borrow_mut().get_or_insert(Failure { message, task: None, time });
    }

    // ---- fibers ----

    /// Returns an idle fiber, or a new one, with `job` assigned to it.
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
}
