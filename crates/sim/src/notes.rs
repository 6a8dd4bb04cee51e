//! Functions by which the simulator tells the trace recorder what happens in a run. They do nothing while the recorder
//! is off.

use crate::cause::cause_name;
use crate::clock::{nanos, picos};
use crate::device::CARD;
use crate::record::trace::{Activity, Command, Noted, Pending, Slice, State, Trace, TraceConfig, Way};
use crate::task::Task;
use crate::world::World;
use machine::{DeviceId, Func, Note, Request, WaitReason};

impl World {
    /// Starts the recording of a trace.
    pub(crate) fn start_recording(&self, config: TraceConfig) {
        let mut state = self.recorder.state.borrow_mut();
        state.window = [picos(config.from), picos(config.to)];
        state.max_slices = config.max_slices;
        self.recorder.is_on.set(true);
        for lane in self.lanes.iter().step_by(2) {
            lane.note_off_from.set(lane.note_off_from.get().min(picos(config.shortest_off)));
        }
        self.recorder.shortest_off.set(picos(config.shortest_off));
        self.recorder.waits_of.set(config.waits_of);
    }

    /// Ends the recording and returns the record; `None` if recording was not started.
    pub(crate) fn take_trace(&self) -> Option<Trace> {
        if !self.recorder.is_on.replace(false) {
            return None;
        }
        let state = self.recorder.state.take();
        Some(Trace {
            slices: state.slices,
            notes: state.notes,
            tasks: self.tasks.borrow().iter().map(|task| task.name.to_string()).collect(),
            cpus: self.cpus.len(),
            left_out: state.left_out,
            full_at: state.full_at.map(nanos),
        })
    }

    /// Records an activity that has just ended as a slice of the trace, from `from` to `to`. Does nothing if recording
    /// is off.
    #[inline]
    pub(crate) fn note(&self, from: u64, to: u64, what: impl FnOnce() -> Activity) {
        if self.recorder.is_on() {
            self.record(from, to, what());
        }
    }

    #[cold]
    fn record(&self, from: u64, to: u64, what: Activity) {
        if self.recorder.waits_of.get().is_some_and(|cpu| !what.is_wait_of(cpu)) {
            return;
        }
        let mut state = self.recorder.state.borrow_mut();
        let [begin, end] = state.window;
        if to < begin || from >= end {
            return;
        }
        if state.slices.len() < state.max_slices {
            state.slices.push(Slice { from: nanos(from.max(begin)), to: nanos(to.min(end)), what });
        } else {
            state.left_out += 1;
            state.full_at.get_or_insert(to);
        }
    }

    /// Records the period with interrupts off that has just ended on the CPU of the running task or handler. Leaves out
    /// a period that is shorter than the recorder's `shortest_off`.
    pub(crate) fn note_off(&self, from: u64, to: u64, cause: u8) {
        if to - from >= self.recorder.shortest_off.get() {
            let cpu = crate::cpu::cpu_of(self.lane.get());
            self.note(from, to, || Activity::InterruptsOff { cpu, cause: cause_name(cause) });
        }
    }

    /// Records how long a task has waited for the CPU that it has just got. Leaves out a wait that is shorter than the
    /// recorder's `shortest_off`.
    pub(crate) fn note_queued(&self, task: &Task, to: u64) {
        let from = task.queued_at.get();
        if to.saturating_sub(from) >= self.recorder.shortest_off.get() {
            self.note(from, to, || Activity::Queued { task: task.id });
        }
    }

    /// Records a span from the time `from` until now. If `is_wait` is true, the running task or handler has spun for a
    /// lock in this span, and now has the lock. Otherwise it has held a lock in this span, and now passes the lock to a
    /// CPU that spins for it.
    pub(crate) fn note_lock(&self, from: u64, cause: u8, is_wait: bool) {
        let (cpu, class) = (crate::cpu::cpu_of(self.lane.get()), cause_name(cause));
        self.note(from, self.clock.get(), || match is_wait {
            true => Activity::LockWait { cpu, class },
            false => Activity::LockHold { cpu, class },
        });
    }

    /// Records the time that the running task spent in a function that it leaves now. Leaves out a time of 0.
    pub(crate) fn note_function(&self, from: u64, func: Func) {
        if self.recorder.is_on()
            && from < self.clock.get()
            && let Some(task) = self.current_task()
        {
            self.record(from, self.clock.get(), Activity::Function { task: task.id, func });
        }
    }

    /// Records the reason for which the running task is about to sleep; `None` records that the sleep is over.
    #[inline]
    pub(crate) fn note_wait(&self, reason: Option<WaitReason>) {
        if let Some(task) = self.current_task() {
            task.waits_for_io.set(reason.is_some_and(WaitReason::is_io));
        }
        if self.recorder.is_on() {
            self.record_wait(reason);
        }
    }

    #[cold]
    fn record_wait(&self, reason: Option<WaitReason>) {
        let (now, Some(task)) = (self.clock.get(), self.current_task()) else { return };
        let waited = task.waits.replace(reason.map(|reason| (reason, now)));
        debug_assert!(reason.is_none() || waited.is_none(), "{}: a wait within a wait", task.name);
        if let Some((reason, from)) = waited.filter(|(_, from)| *from < now) {
            self.record(from, now, Activity::Wait { task: task.id, reason });
        }
    }

    /// Records a note of the running task, if recording is on. If the note says that the task was throttled, also
    /// records this time as a call of `balance_dirty_pages`.
    #[inline]
    pub(crate) fn note_words(&self, note: impl FnOnce() -> Note) {
        if self.recorder.is_on() {
            self.record_words(note());
        }
    }

    #[cold]
    fn record_words(&self, note: Note) {
        let Some(task) = self.current_task() else { return };
        let (now, at) = (self.clock.get(), nanos(self.clock.get()));
        if let Note::HeldBack(held) = &note {
            let func = Func::BalanceDirtyPages;
            self.record(picos(held.began), now, Activity::Function { task: task.id, func });
        }
        let mut state = self.recorder.state.borrow_mut();
        let [begin, end] = state.window;
        let is_of_other = self.recorder.waits_of.get().is_some();
        if now >= begin && now < end && state.notes.len() < state.max_slices && !is_of_other {
            state.notes.push(Noted { at, task: task.id, note });
        }
    }

    /// Records that a handler has dealt with an interrupt of `device`, from `from` until now, and has ended the I/O of
    /// `pages` pages.
    pub(crate) fn note_interrupt(&self, from: u64, cpu: usize, device: u8, pages: u64) {
        let disk = (device != CARD).then_some(DeviceId(device.into()));
        self.note(from, self.clock.get(), || Activity::Interrupt { cpu, disk, pages });
    }

    /// Notes the time at which a request was submitted.
    pub(crate) fn note_submitted(&self, request: &Request) {
        if self.recorder.is_on() {
            let pending = Pending { submitted: self.clock.get(), done: None };
            let mut state = self.recorder.state.borrow_mut();
            state.requests.entry(Way::of(request)).or_default().push_back(pending);
        }
    }

    /// Notes the time at which the disk finished a request.
    pub(crate) fn note_done(&self, request: &Request) {
        if self.recorder.is_on() {
            let mut state = self.recorder.state.borrow_mut();
            let all = state.requests.get_mut(&Way::of(request));
            if let Some(first) = all.and_then(|all| all.iter_mut().find(|pending| pending.done.is_none())) {
                first.done = Some(self.clock.get());
            }
        }
    }

    /// Records that a handler has ended a request. If the request is the last one of its command, the command is
    /// recorded as a slice.
    pub(crate) fn note_ended(&self, way: Way, has_failed: bool, is_last: bool) {
        if !self.recorder.is_on() {
            return;
        }
        let now = self.clock.get();
        let mut state = self.recorder.state.borrow_mut();
        let State { requests, commands, .. } = &mut *state;
        let Some(all) = requests.get_mut(&way) else { return };
        let Some(Pending { submitted, done }) = all.pop_front() else { return };
        if all.is_empty() {
            requests.remove(&way);
        }
        let Way { disk, operation, block, pages } = way;
        let done = done.unwrap_or(now);
        let none = Command { submitted, block, pages: 0, done, has_failed: false };
        let command = commands.entry(disk).or_insert(none);
        command.submitted = command.submitted.min(submitted);
        command.pages += pages;
        command.has_failed |= has_failed;
        if !is_last {
            return;
        }
        let Some(Command { submitted, block, pages, done, has_failed }) = commands.remove(&disk) else { return };
        drop(state);
        let done = nanos(done);
        self.record(submitted, now, Activity::Request { disk, operation, block, pages, done, has_failed });
    }
}
