//! Wait queues, timers, sleeping and waking.

use crate::clock::{END_OF_TIME, nanos, picos};
use crate::event::EventKind;
use crate::fiber::Ask;
use crate::record::fingerprint::Mark;
use crate::schedule::Point;
use crate::task::{State, Task};
use crate::task_id::TaskId;
use crate::wait_queue::{Sleeper, WaitQueue};
use crate::world::World;
use machine::{Nanos, Step, Ticket};

impl World {
    pub(crate) fn sleep(&self, queue: &WaitQueue, ticket: Ticket, deadline: Option<Nanos>) -> Nanos {
        let task = self.sleeping_task("sleep");
        let until = deadline.map_or(u64::MAX, picos);
        if task.is_killed.get() {
            self.refuse_to_sleep(&task);
        } else if queue.wakes.get() == ticket.0 && self.clock.get() < until {
            self.let_go(&task);
            if queue.wakes.get() == ticket.0 && self.clock.get() < until {
                self.sleep_at(queue, &task, until);
            }
        }
        deadline.map_or(Nanos(u64::MAX), |deadline| deadline.since(nanos(self.clock.get())))
    }

    pub(crate) fn pause(&self, time: Nanos) {
        let task = self.sleeping_task("pause");
        if task.is_killed.get() {
            self.refuse_to_sleep(&task);
        } else if time.0 > 0 {
            self.let_go(&task);
            let until = self.clock.get().saturating_add(picos(time));
            self.begin_sleep(&task, State::Sleeping, until);
            self.suspend(Ask::Sleep);
        }
    }

    /// Takes the place of a sleep of a killed task: returns after the time of a context switch, but after 1 µs or more.
    /// First submits the requests that the task has held back (plugged), because the task may be waiting for them. Time
    /// passes, so that other tasks get their turn, and so that the shutdown ends even if the task tries to sleep again
    /// and again.
    fn refuse_to_sleep(&self, task: &Task) {
        self.let_go(task);
        self.spend_picos(self.costs[Step::ContextSwitch as usize].max(1_000_000));
        if self.is_by_rank {
            self.schedule_point(Point::Waits);
        }
    }

    fn sleep_at(&self, queue: &WaitQueue, task: &Task, until: u64) {
        let sleep = self.begin_sleep(task, State::Sleeping, until);
        let sleeper = Sleeper { task: task.id, sleep };
        queue.sleepers.borrow_mut().push(sleeper);
        self.suspend(Ask::Sleep);
        // If a timer or a kill has ended the sleep, the sleeper is still in the queue.
        queue.sleepers.borrow_mut().retain(|other| *other != sleeper);
    }

    /// Marks the calling task as asleep. The caller must suspend the task next. Returns the number of the sleep; a
    /// waker has to name it.
    pub(crate) fn begin_sleep(&self, task: &Task, state: State, until: u64) -> u64 {
        let sleep = task.sleeps.get() + 1;
        task.sleeps.set(sleep);
        self.set_state(task, state);
        task.slept_at.set(self.clock.get());
        if until < END_OF_TIME {
            self.push_event(until, EventKind::Timer(Sleeper { task: task.id, sleep }));
        }
        self.fingerprint.mix(Mark::Sleep, self.clock.get(), u64::from(task.id.0));
        sleep
    }

    pub(crate) fn wake(&self, queue: &WaitQueue) {
        queue.wakes.set(queue.wakes.get() + 1);
        if queue.sleepers.borrow().is_empty() || self.is_dying() {
            return;
        }
        let mut sleepers = queue.sleepers.take();
        for &sleeper in &sleepers {
            if self.end_sleep(sleeper) {
                self.spend(Step::Wake, 1);
            }
        }
        sleepers.clear();
        let mut newer = queue.sleepers.borrow_mut();
        if newer.is_empty() {
            *newer = sleepers;
        }
    }

    /// Wakes the task that has slept longest on a queue.
    pub(crate) fn wake_first(&self, queue: &WaitQueue) {
        queue.wakes.set(queue.wakes.get() + 1);
        while !self.is_dying() && !queue.sleepers.borrow().is_empty() {
            // A sleeper that a timer or a kill has woken is still in the queue until its task runs.
            let first = queue.sleepers.borrow_mut().remove(0);
            if self.end_sleep(first) {
                return self.spend(Step::Wake, 1);
            }
        }
    }

    /// Ends a sleep, unless it is already over. Returns whether the sleep was still going on.
    pub(crate) fn end_sleep(&self, sleeper: Sleeper) -> bool {
        let task = self.task(sleeper.task);
        let sleeps = matches!(task.state.get(), State::Sleeping | State::Uninterruptible);
        if !sleeps || task.sleeps.get() != sleeper.sleep {
            return false;
        }
        self.fingerprint.mix(Mark::Wake, self.clock.get(), u64::from(task.id.0));
        self.place_woken(&task);
        true
    }

    pub(crate) fn kill(&self, id: TaskId) {
        let task = self.task(id);
        task.is_killed.set(true);
        if task.state.get() == State::Sleeping {
            self.end_sleep(Sleeper { task: id, sleep: task.sleeps.get() });
        }
    }
}
