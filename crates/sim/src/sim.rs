//! The interface of the simulated machine. The engine uses it, and so do the programs that run experiments.

use crate::clock::{nanos, picos};
use crate::config::Config;
use crate::device::Device;
use crate::device::network::{Network, OffWindow, RoundTrip};
use crate::disk::{DiskStatistics, Fault};
use crate::failure::Failure;
use crate::lock::SpinLock;
use crate::per_cpu::CpuSlots;
use crate::record::fingerprint::Mark;
use crate::record::locks::LockStatistics;
use crate::record::masks::MaskStatistics;
use crate::record::pressure::{PressureReader, PressureTrigger};
use crate::record::trace::{Trace, TraceConfig};
use crate::rng::Rng;
use crate::schedule::{Decisions, Point};
use crate::span::Span;
use crate::task::{State, Task};
use crate::task_id::TaskId;
use crate::wait_queue::WaitQueue;
use crate::world::World;
use machine::pressure::{Pressure, Trigger};
use machine::{
    Completions, DeviceId, FrameNumber, Func, LockClass, Machine, Nanos, NoHazards, Note, Observe, Operation, Request,
    Step, Ticket, WaitReason,
};
use std::rc::Rc;

/// A machine in virtual time. A clone is a second handle to the same machine.
///
/// Functions that do not sleep may also be called before and after [`Sim::run`]. No task runs then, and the functions
/// take no time.
#[derive(Clone)]
pub struct Sim(pub(crate) Rc<World>);

/// Counts of one CPU: idle time, time in interrupt handlers, context switches, and the handlers' work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStatistics {
    /// Time in which the CPU had nothing to do.
    pub idle: Nanos,
    /// Time in interrupt handlers.
    pub interrupt: Nanos,
    /// Number of switches to another task.
    pub switches: u64,
    /// The longest time for which interrupts were off on the CPU.
    pub longest_off: Nanos,
    /// Number of runs of an interrupt handler that ended I/O. A handler keeps running while it finds completed
    /// requests.
    pub handlers: u64,
    /// Number of pages whose I/O ended in a handler on this CPU.
    pub handled_pages: u64,
    /// Largest number of pages whose I/O ended in a single run of a handler.
    pub handled_pages_max: u64,
}

impl Sim {
    /// Creates a machine at time 0.
    ///
    /// # Panics
    /// When the configuration makes no sense: no CPU, more than 256 CPUs, or an interrupt on a CPU that does not exist.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let device = |(index, disk)| {
            let cpu = config.interrupt_cpus.get(index).copied().unwrap_or(0);
            assert!(cpu < config.cpus, "device {index} interrupts CPU {cpu} of {}", config.cpus);
            Device::new(disk, cpu)
        };
        if let Some(network) = config.network {
            assert!(network.cpu < config.cpus, "the network card interrupts CPU {} of {}", network.cpu, config.cpus);
        }
        let devices = config.disks.iter().enumerate().map(device).collect();
        let kept = config.network.map(|network| (network.cpu, crate::clock::picos(network.keep_from)));
        let world = World::new(config, devices);
        if let Some((cpu, from)) = kept {
            world.cpus[cpu].keep_off_from.set(from);
            world.lanes[2 * cpu].note_off_from.set(from);
        }
        Self(world)
    }

    /// Sets the receiver of finished requests. The receiver is dropped when [`Sim::run`] returns.
    pub fn attach(&self, completions: Rc<dyn Completions>) {
        *self.0.completions.borrow_mut() = Some(completions);
    }

    /// Starts a task. Tasks with the same name share their root in the profile.
    pub fn spawn(&self, name: &str, main: impl FnOnce() + 'static) -> TaskId {
        self.0.spawn(name, None, Box::new(main))
    }

    /// Starts a task that runs only on CPUs of a memory node. If `node` is `None` or a node without CPUs, the task runs
    /// on any CPU.
    pub fn spawn_on(&self, node: impl Into<Option<usize>>, name: &str, main: impl FnOnce() + 'static) -> TaskId {
        self.0.spawn(name, node.into(), Box::new(main))
    }

    /// Excludes a task from pressure (PSI). This is meant for tasks of the kernel, because their stalls stall no
    /// program. The caller calls this right after spawning the task.
    pub fn set_aside(&self, id: TaskId) {
        self.0.set_aside(id);
    }

    /// Returns the pressure on memory until now. For group 0 this is the pressure of the whole machine. For any other
    /// number it is the pressure of the memory control group with this number and of its descendants. As in Linux, each
    /// call averages the stall times of the CPUs. A call between the ends of two periods therefore changes later
    /// figures a little. [`Sim::pressure_totals`] changes no later figures.
    ///
    /// # Panics
    /// When no group with this number was created.
    #[must_use]
    pub fn pressure(&self, group: u16) -> Pressure {
        self.0.pressure_of(group).read(self.0.clock.get())
    }

    /// Returns a reader of the machine's stall times, for records of a run. Its sums begin at the start of the machine.
    #[must_use]
    pub fn pressure_reader(&self) -> PressureReader {
        PressureReader::new(self.0.pressure_of(0))
    }

    /// Returns the machine's total stall times until now, *some* and *full* of PSI. Does not change the figures that
    /// [`Sim::pressure`] returns.
    #[must_use]
    pub fn pressure_totals(&self, reader: &mut PressureReader) -> [Nanos; 2] {
        reader.totals(self.0.clock.get())
    }

    /// Sets a PSI trigger on the pressure of the machine (group 0) or of a memory control group. The trigger counts
    /// only stall time after this call.
    ///
    /// # Panics
    /// When no group with this number was created.
    #[must_use]
    pub fn pressure_trigger(&self, group: u16, trigger: Trigger) -> PressureTrigger {
        PressureTrigger::new(self.0.pressure_of(group), trigger, self.0.clock.get())
    }

    /// Waits until a trigger has an event, but not longer than `time`. If an event has occurred since the last wait for
    /// this trigger, returns at once. Returns whether there was an event; also returns `false` if the calling task was
    /// killed. The calling task may sleep.
    pub fn wait_for_pressure(&self, trigger: &PressureTrigger, time: Nanos) -> bool {
        self.0.wait_for_pressure(trigger, time)
    }

    /// Returns the CPU time of all tasks whose name begins with `name`, including the time spent spinning for locks.
    #[must_use]
    pub fn cpu_time_of(&self, name: &str) -> Nanos {
        let tasks = self.0.tasks.borrow();
        let ids: Vec<TaskId> = tasks.iter().filter(|task| task.name.starts_with(name)).map(|task| task.id).collect();
        drop(tasks);
        ids.into_iter().map(|id| self.cpu_time(id)).fold(Nanos(0), |sum, time| sum + time)
    }

    /// Waits until task `id` has returned, or the caller is killed. Returns whether task `id` has returned. The calling
    /// task may sleep.
    pub fn join(&self, id: TaskId) -> bool {
        let task = self.0.task(id);
        loop {
            let ticket = task.ended.ticket();
            if task.state.get() == State::Finished {
                return true;
            }
            if self.is_killed() {
                return false;
            }
            self.0.sleep(&task.ended, ticket, None);
        }
    }

    /// Returns whether a task sleeps until it is woken: it neither runs nor waits for a CPU or for a device's queue.
    #[must_use]
    pub fn is_asleep(&self, id: TaskId) -> bool {
        self.0.task(id).state.get() == State::Sleeping
    }

    /// Returns one line for each task that has not returned: its name, what it waits for, and the call path in which it
    /// waits. Each line begins with a line break and two spaces.
    #[must_use]
    pub fn list_tasks(&self) -> String {
        self.0.list_tasks()
    }

    /// Returns the main task; `None` before [`Sim::run`].
    #[must_use]
    pub fn main_task(&self) -> Option<TaskId> {
        self.0.main.get()
    }

    /// Tells a task to end. If the task sleeps, ends its sleep.
    pub fn kill(&self, id: TaskId) {
        self.0.kill(id);
    }

    /// Runs the machine until the main task returns. Then kills the other tasks, and runs on until they have returned
    /// and every device is idle. A machine runs once.
    ///
    /// # Errors
    /// Fails at the first bug: a panic in a task or a completion, a deadlock, a task that does not end, or an exceeded
    /// time limit. Tasks that have not returned are then abandoned, and their destructors do not run.
    pub fn run(&self, name: &str, main: impl FnOnce() + 'static) -> Result<(), Failure> {
        self.0.run(name, Box::new(main))
    }

    /// Returns the calling task; `None` outside of tasks and in a completion.
    #[must_use]
    pub fn current(&self) -> Option<TaskId> {
        self.0.current_task().map(|task| task.id)
    }

    fn calling(&self) -> Rc<Task> {
        self.0.current_task().expect("only a task has a generator")
    }

    /// Draws from the calling task's random generator. What it draws depends only on the seed and the number of the
    /// task.
    ///
    /// # Panics
    /// Outside of a task.
    pub fn with_rng<R>(&self, draw: impl FnOnce(&mut Rng) -> R) -> R {
        draw(&mut self.calling().rng.borrow_mut())
    }

    /// Returns a new random generator for the calling task; each call returns a different one.
    ///
    /// # Panics
    /// Outside of a task.
    #[must_use]
    pub fn task_rng(&self) -> Rng {
        self.with_rng(|rng| Rng::new(rng.next_u64(), 0))
    }

    /// Returns the CPU time that a task has used, including the time spent spinning for locks.
    #[must_use]
    pub fn cpu_time(&self, id: TaskId) -> Nanos {
        let task = self.0.task(id);
        let mut time = task.cpu_time.get();
        if task.state.get() == State::OnCpu {
            let lane = &self.0.lanes[2 * task.cpu.get()];
            time += lane.used.get() + self.0.clock.get().saturating_sub(lane.mark.get());
        }
        nanos(time)
    }

    /// Returns the time since a task was spawned.
    #[must_use]
    pub fn elapsed(&self, id: TaskId) -> Nanos {
        nanos(self.0.clock.get() - self.0.task(id).started_at)
    }

    /// Returns the name under which a task was spawned.
    #[must_use]
    pub fn name(&self, id: TaskId) -> Rc<str> {
        Rc::clone(&self.0.task(id).name)
    }

    /// Returns whether a task has returned.
    #[must_use]
    pub fn is_finished(&self, id: TaskId) -> bool {
        self.0.task(id).state.get() == State::Finished
    }

    /// Returns the random decisions about the order of CPUs and tasks that were made so far. The list is empty unless
    /// [`Config::keep_decisions`] is set.
    #[must_use]
    pub fn decisions(&self) -> Decisions {
        self.0.decisions.as_ref().map_or_else(Decisions::default, |decisions| decisions.borrow().clone())
    }

    /// Returns the fingerprint: a hash over all events so far, in order.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.0.fingerprint.get()
    }

    /// Mixes a number, such as a counter at the end of a run, into the fingerprint.
    pub fn mix(&self, value: u64) {
        self.0.fingerprint.mix(Mark::Lab, self.0.clock.get(), value);
    }

    /// Lets the calling task spend `time` on computations outside the engine, as a program does.
    #[inline]
    pub fn compute(&self, time: Nanos) {
        self.0.within(Func::User, || self.0.spend_picos(picos(time)));
    }

    /// Returns whether translating addresses costs time.
    #[must_use]
    #[inline]
    pub fn has_tlb(&self) -> bool {
        !self.0.tlbs.is_empty()
    }

    /// Translates an address on the calling task's CPU. The address is in page `page` of the region `space`; the page
    /// has 2 MiB if `is_huge`, otherwise 4 KiB. One call stands for `times` equal translations. A translation that is
    /// not in the CPU's TLB costs a walk of the page table. Without a [`crate::TlbConfig`] this does nothing.
    pub fn translate(&self, space: u32, page: u32, is_huge: bool, times: u32) {
        let Some(config) = &self.0.config.tlb else { return };
        let Some(cpu) = self.0.cpu_here() else { return };
        if !self.0.tlbs[cpu].look_up(space, page, is_huge) {
            let walk = if is_huge { config.walk_2m } else { config.walk_4k };
            self.compute(Nanos(walk.0 * u64::from(times)));
        }
    }

    /// Sets a function that is called before the first event after each multiple of `every`, with the event's time. The
    /// function sees the machine at that time and takes no time itself, so it does not change the run. The function
    /// must not use the machine as a task does: it must not spend time, take locks or sleep.
    ///
    /// # Panics
    /// When `every` is zero.
    pub fn observe(&self, every: Nanos, mut look: impl FnMut(Nanos) + 'static) {
        self.0.set_observer(picos(every), Box::new(move |time| look(nanos(time))));
    }

    /// Sets a function that is called when the main task has returned, before the other tasks are killed. Its argument
    /// is the time. The function must not spend time, take locks or sleep. It is not called if the run fails before the
    /// main task returns. A function that [`Sim::observe`] sets may still be called later.
    pub fn observe_end(&self, look: impl FnOnce(Nanos) + 'static) {
        *self.0.at_end.borrow_mut() = Some(Box::new(move |time| look(nanos(time))));
    }

    /// Sets a function that is called with the number of each process that the engine kills
    /// ([`Machine::kill_process`]). The task that kills the process calls the function. The function has to kill the
    /// tasks of the process ([`Sim::kill`]), and may spawn tasks.
    pub fn on_kill_process(&self, end: impl Fn(u32) + 'static) {
        *self.0.at_kill.borrow_mut() = Some(Rc::new(end));
    }

    /// Starts recording events. The recording does not change the run.
    pub fn start_trace(&self, config: TraceConfig) {
        self.0.start_recording(config);
    }

    /// Ends the recording and returns the record; `None` if [`Sim::start_trace`] was not called.
    #[must_use]
    pub fn take_trace(&self) -> Option<Trace> {
        self.0.take_trace()
    }

    /// Returns the CPU time of each call path, as folded stacks: sorted lines `task;func;func ns`.
    #[must_use]
    pub fn profile(&self) -> Vec<String> {
        self.0.profile.folded(|on_cpu, _| on_cpu)
    }

    /// Returns the time that tasks slept, by call path: sorted lines `task;func;func ns`, as in [`Sim::profile`].
    #[must_use]
    pub fn sleep_profile(&self) -> Vec<String> {
        self.0.profile.folded(|_, off_cpu| off_cpu)
    }

    /// Returns the counts of each lock class, in order of rank, and of per-CPU slots.
    #[must_use]
    pub fn lock_statistics(&self) -> Vec<LockStatistics> {
        (0..).zip(&self.0.lock_counts).map(|(cause, counts)| counts.statistics(cause)).collect()
    }

    /// Returns the time that tasks have spun for locks, as tuples of call path, lock class and time, sorted by path and
    /// then by class.
    #[must_use]
    pub fn lock_waits(&self) -> Vec<(String, &'static str, Nanos)> {
        let words = |(path, class, time)| (path, crate::cause::cause_name(class), nanos(time));
        let mut waits: Vec<_> = self.0.profile.waits().into_iter().map(words).collect();
        waits.sort();
        waits
    }

    /// Returns how long interrupts were off, by the cause that turned them off.
    #[must_use]
    pub fn mask_statistics(&self) -> Vec<MaskStatistics> {
        (0..).zip(&self.0.mask_counts).map(|(cause, counts)| counts.statistics(cause)).collect()
    }

    /// Returns for each CPU how it used its time.
    #[must_use]
    pub fn cpu_statistics(&self) -> Vec<CpuStatistics> {
        let statistics = |(cpu, state): (usize, &crate::cpu::Cpu)| {
            let is_idle = self.0.idle[cpu / 64].get() >> (cpu % 64) & 1 == 1;
            let idle_now = if is_idle { self.0.clock.get().saturating_sub(state.idle_since.get()) } else { 0 };
            CpuStatistics {
                idle: nanos(state.idle_total.get() + idle_now),
                interrupt: nanos(state.interrupt_total.get()),
                switches: state.switches.get(),
                longest_off: nanos(
                    self.0.lanes[2 * cpu].longest_off.get().max(self.0.lanes[2 * cpu + 1].longest_off.get()),
                ),
                handlers: state.handlers.get(),
                handled_pages: state.pages_total.get(),
                handled_pages_max: state.pages_max.get(),
            }
        };
        self.0.cpus.iter().enumerate().map(statistics).collect()
    }

    /// Sets all counts of interrupts to 0: how long interrupts were off ([`Sim::mask_statistics`],
    /// [`Sim::off_windows`], [`CpuStatistics::longest_off`]), and what handlers did. A period with interrupts off that
    /// began before this call counts in full when it ends. The total time of handlers ([`CpuStatistics::interrupt`]) is
    /// not changed.
    pub fn restart_interrupt_statistics(&self) {
        self.0.restart_interrupt_counts();
    }

    /// Sends `count` packets to the machine at interval `every`, starting at `first`, without waiting for replies.
    ///
    /// # Panics
    /// When the machine has no network card, or packets are being sent already.
    pub fn send_packets(&self, first: Nanos, every: Nanos, count: u32) {
        self.0.send_packets(first, every, count);
    }

    /// Returns the CPU that takes the network card's interrupts; `None` if there is no card.
    #[must_use]
    pub fn network_cpu(&self) -> Option<usize> {
        self.0.network.as_ref().map(|network| network.config.cpu)
    }

    /// Returns the packets that have reached the card so far, in the order in which they were sent.
    #[must_use]
    pub fn round_trips(&self) -> Vec<RoundTrip> {
        self.0.network.as_ref().map_or_else(Vec::new, Network::round_trips)
    }

    /// Returns the recorded periods with interrupts off on the network card's CPU, in order of their end. Periods
    /// shorter than `keep_from` of the card's configuration are not recorded.
    #[must_use]
    pub fn off_windows(&self) -> Vec<OffWindow> {
        let windows = self.0.off_windows.borrow();
        windows.iter().map(|(from, to)| OffWindow { from: nanos(*from), to: nanos(*to) }).collect()
    }

    /// Returns the counters of a device, as `/proc/diskstats` has them.
    #[must_use]
    pub fn disk_statistics(&self, device: DeviceId) -> DiskStatistics {
        self.0.devices[device.index()].disk.borrow().statistics(self.now())
    }

    /// Returns whether a block of a device has the stamp `stamp` (the first eight bytes of a page), or a write in flight
    /// carries the stamp to it.
    #[must_use]
    pub fn has_stamp(&self, device: DeviceId, block: u64, stamp: [u8; 8]) -> bool {
        self.0.devices[device.index()].stamps.borrow().has(block, stamp)
    }

    /// Returns the size of a device in blocks.
    #[must_use]
    pub fn capacity_blocks(&self, device: DeviceId) -> u64 {
        self.0.devices[device.index()].disk.borrow().capacity_blocks()
    }

    /// Adds a fault to a device.
    pub fn inject(&self, device: DeviceId, fault: Fault) {
        self.0.inject(device.index(), fault);
    }
}

impl Observe for Sim {
    type Span<'a> = Span<'a>;

    #[inline]
    fn span(&self, func: Func) -> Span<'_> {
        Span::enter(&self.0, func)
    }

    fn note_stall(&self, begins: bool) {
        self.0.note_stall(begins);
    }

    fn note_new_group(&self, group: u16, parent: u16) {
        self.0.note_new_group(group, parent);
    }

    fn note_group(&self, group: u16) {
        self.0.note_group(group);
    }

    #[inline]
    fn note_wait(&self, reason: Option<WaitReason>) {
        self.0.note_wait(reason);
    }

    #[inline]
    fn note(&self, note: impl FnOnce() -> Note) {
        self.0.note_words(note);
    }
}

impl Machine for Sim {
    type Lock<T: 'static> = SpinLock<T>;
    type PerCpu<T: 'static> = CpuSlots<T>;
    type WaitQueue = WaitQueue;
    type Hazards = NoHazards;

    #[inline]
    fn now(&self) -> Nanos {
        nanos(self.0.clock.get())
    }

    fn cpus(&self) -> usize {
        self.0.cpus.len()
    }

    #[inline]
    fn node(&self) -> usize {
        self.0.node_here()
    }

    fn lock<T: 'static>(&self, class: LockClass, value: T) -> SpinLock<T> {
        SpinLock::new(Rc::clone(&self.0), class, value)
    }

    fn per_cpu<T: 'static>(&self, make: impl FnMut(usize) -> T) -> CpuSlots<T> {
        CpuSlots::new(Rc::clone(&self.0), make)
    }

    fn wait_queue(&self) -> WaitQueue {
        WaitQueue::default()
    }

    fn ticket(&self, queue: &WaitQueue) -> Ticket {
        queue.ticket()
    }

    fn sleep(&self, queue: &WaitQueue, ticket: Ticket, deadline: Option<Nanos>) -> Nanos {
        self.0.sleep(queue, ticket, deadline)
    }

    #[inline]
    fn wake(&self, queue: &WaitQueue) {
        self.0.wake(queue);
    }

    #[inline]
    fn wake_first(&self, queue: &WaitQueue) {
        self.0.wake_first(queue);
    }

    fn pause(&self, time: Nanos) {
        self.0.pause(time);
    }

    #[inline]
    fn is_killed(&self) -> bool {
        self.0.is_killed()
    }

    fn kill_process(&self, process: u32) {
        let end = self.0.at_kill.borrow().clone();
        if let Some(end) = end {
            end(process);
        }
    }

    #[inline]
    fn spend(&self, step: Step, n: u32) {
        self.0.spend(step, n);
    }

    #[inline]
    fn spend_on(&self, step: Step, frame: FrameNumber, n: u32) {
        self.0.spend_on(step, frame, n);
    }

    #[inline]
    fn relax(&self) {
        self.0.relax(Point::Waits);
    }

    #[inline]
    fn cond_resched(&self) {
        self.0.relax(Point::Step);
    }

    fn is_resched_due(&self) -> bool {
        self.0.is_resched_due()
    }

    fn submit(&self, request: Request) {
        self.0.submit(request);
    }

    fn plugged<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.plugged(work)
    }

    fn is_congested(&self, device: DeviceId, operation: Operation) -> bool {
        self.0.devices[device.index()].disk.borrow().is_congested(operation)
    }

    fn is_any_congested(&self, operation: Operation) -> bool {
        self.0.devices.iter().any(|device| device.disk.borrow().is_congested(operation))
    }

    fn uncongested(&self) -> &WaitQueue {
        &self.0.uncongested
    }

    fn hazards(&self) -> &NoHazards {
        &NoHazards
    }

    fn zero_frame(&self, frame: FrameNumber) {
        self.0.stamps.zero(frame);
    }

    fn copy_frame(&self, from: FrameNumber, to: FrameNumber) {
        self.0.stamps.copy(from, to);
    }

    fn write_frame(&self, frame: FrameNumber, offset: usize, bytes: &[u8]) {
        self.0.stamps.write(frame, offset, bytes);
    }

    #[inline]
    fn read_frame(&self, frame: FrameNumber, offset: usize, bytes: &mut [u8]) {
        self.0.stamps.read(frame, offset, bytes);
    }
}
