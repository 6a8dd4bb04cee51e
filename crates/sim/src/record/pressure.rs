//! Pressure stall information: the time that tasks were stalled for lack of memory, of the machine and of each memory
//! control group (mechanisms/pressure, 2 to 5).
//!
//! Each CPU counts the tasks that are on it: tasks that run on it or wait for it, and sleeping tasks that ran on it
//! last. On a CPU, *some* is the time in which at least one task is stalled. *Full* is the time in which a task is
//! stalled and no task works. A task works if it can run, except in two cases: the task itself is stalled, or a stalled
//! task of the group has the CPU. The times of all CPUs are averaged. The weight of a CPU is the time in which it was
//! not idle. A [`Sum`] computes this average at the end of each period, and when a task reads the figures.
//!
//! Tasks of the kernel are left out: they count neither as stalled nor as working.

use crate::clock::{nanos, picos};
use machine::Nanos;
use machine::pressure::{Averages, PERIOD, Pressure, Stalls, Trigger};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// The contribution of a task to the pressure (PSI) of the CPU on which the task runs or last ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The task sleeps, has ended, or is a task of the kernel.
    Nothing,
    /// The task can run and is not stalled.
    Works,
    /// The task is stalled and does not have the CPU: it sleeps, or waits for the CPU.
    Stalled,
    /// The task is stalled and has the CPU.
    StalledOnCpu,
    /// The task waits for block I/O and is not stalled.
    WaitsForIo,
}

/// Three durations, ps, that are counted for a CPU. The first two are stall times, as *some* and *full* of PSI: the
/// time in which at least one task was stalled, and the time in which no task did useful work because of stalls. The
/// third is the time in which the CPU was not idle.
type Times = [u64; 3];

/// The pressure of one group on one CPU: how many of the group's tasks on the CPU are in each state of [`Part`], and
/// the stall times and the busy time ([`Times`]) up to the time `since`, ps.
#[derive(Debug, Default)]
struct OnCpu {
    working: Cell<u32>,
    stalled: Cell<u32>,
    stalled_on_cpu: Cell<u32>,
    waiting_for_io: Cell<u32>,
    since: Cell<u64>,
    times: Cell<Times>,
}

impl OnCpu {
    fn is_idle(&self) -> bool {
        self.working.get() + self.stalled.get() + self.waiting_for_io.get() == 0
    }

    /// Adds the time since the last call to the CPU's three times (PSI `some`, PSI `full`, not idle), as far as its
    /// tasks are in these states. Adds nothing if `now` is earlier than at the last call, which is possible because the
    /// clocks of CPUs differ a little.
    fn count(&self, now: u64) {
        let time = now.saturating_sub(self.since.get());
        self.since.set(self.since.get().max(now));
        if self.is_idle() {
            return;
        }
        let is_some = self.stalled.get() > 0;
        let is_full = is_some && (self.working.get() == 0 || self.stalled_on_cpu.get() > 0);
        let [some, full, busy] = self.times.get();
        self.times.set([some + time * u64::from(is_some), full + time * u64::from(is_full), busy + time]);
    }

    fn add(&self, part: Part, more: i32) {
        let add = |count: &Cell<u32>| {
            count.set(count.get().checked_add_signed(more).expect("each task is counted once"));
        };
        match part {
            Part::Nothing => {}
            Part::Works => add(&self.working),
            Part::Stalled => add(&self.stalled),
            Part::StalledOnCpu => {
                add(&self.stalled);
                add(&self.stalled_on_cpu);
            }
            Part::WaitsForIo => add(&self.waiting_for_io),
        }
    }
}

/// Total stall times over all CPUs. Each call of [`Sum::look`] adds the mean over the CPUs of their stall times since
/// the last call. In this mean, the weight of a CPU is the time in which it was not idle.
#[derive(Debug)]
struct Sum {
    /// Times of the CPUs as they were at the last call of [`Sum::look`].
    seen: Vec<Times>,
    /// Stall times so far, ps: *some* and *full* of PSI.
    total: [u64; 2],
}

impl Sum {
    fn new(cpus: &[OnCpu]) -> Self {
        Self { seen: cpus.iter().map(|cpu| cpu.times.get()).collect(), total: [0; 2] }
    }

    /// Adds the stall times since the last call. The caller ensures that all CPUs have counted up to the same time.
    fn look(&mut self, cpus: &[OnCpu]) {
        let (mut weighted, mut weights) = ([0; 2], 0);
        for (seen, cpu) in self.seen.iter_mut().zip(cpus) {
            let now = cpu.times.get();
            let [some, full, busy] = [0, 1, 2].map(|n| u128::from(now[n] - seen[n]));
            weighted = [weighted[0] + some * busy, weighted[1] + full * busy];
            weights += busy;
            *seen = now;
        }
        for (total, weighted) in self.total.iter_mut().zip(weighted) {
            *total += weighted.checked_div(weights).unwrap_or(0) as u64;
        }
    }
}

/// The averages of a group, and the sum of the group's stall times, from which the averages are computed.
#[derive(Debug)]
struct Averaged {
    sum: Sum,
    averages: [Averages; 2],
    /// The total stall times at the end of the last averaging period, ps.
    at_period: [u64; 2],
    /// Time at which the present averaging period ends, ps.
    ends: u64,
}

/// A trigger of PSI. It looks at the stall time of a group at regular intervals. If this time has grown by the
/// trigger's threshold within one window, there is an event, but at most one in each window.
#[derive(Debug)]
struct Watch {
    trigger: Trigger,
    sum: Sum,
    /// Time, ps, at which the trigger looks at the stall time next.
    next: u64,
    /// The total stall times, ps, that the trigger has read within the last window.
    looks: VecDeque<u64>,
    last_event: Option<u64>,
    has_event: bool,
}

impl Watch {
    /// Adds up the stall time until now. If this time has grown by the trigger's threshold within the trigger's window,
    /// records an event for the trigger. Called when the time [`Watch::next`] is reached.
    fn look(&mut self, cpus: &[OnCpu]) {
        let now = self.next;
        self.sum.look(cpus);
        let total = self.sum.total[usize::from(self.trigger.is_full)];
        let before = self.looks.front().copied().unwrap_or(0);
        let window = picos(self.trigger.window);
        let may = self.last_event.is_none_or(|last| now - last >= window);
        if may && total - before >= picos(self.trigger.threshold) {
            self.last_event = Some(now);
            self.has_event = true;
        }
        self.looks.push_back(total);
        if self.looks.len() > machine::pressure::LOOKS_IN_WINDOW as usize {
            self.looks.pop_front();
        }
        self.next += picos(self.trigger.look_every());
    }
}

/// Pressure (PSI) of the machine as a whole, or of a memory control group together with its descendants.
pub(crate) struct GroupPressure {
    pub(crate) parent: Option<Rc<GroupPressure>>,
    cpus: Box<[OnCpu]>,
    /// The next time, ps, at which an averaging period of PSI ends or a trigger has to compare the stall time with its
    /// threshold.
    due: Cell<u64>,
    averaged: RefCell<Averaged>,
    watches: RefCell<Vec<Weak<RefCell<Watch>>>>,
}

impl GroupPressure {
    /// Creates the pressure of a group without tasks. Its first period ends together with the present period of the
    /// other groups.
    pub(crate) fn new(cpus: usize, parent: Option<Rc<GroupPressure>>, now: u64) -> Self {
        let cpus: Box<[OnCpu]> = (0..cpus).map(|_| OnCpu::default()).collect();
        let ends = (now / picos(PERIOD) + 1) * picos(PERIOD);
        let averaged = Averaged { sum: Sum::new(&cpus), averages: Default::default(), at_period: [0; 2], ends };
        Self { parent, cpus, due: Cell::new(ends), averaged: RefCell::new(averaged), watches: RefCell::default() }
    }

    /// Returns this group and its ancestors, from the group up.
    pub(crate) fn with_ancestors(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |group| group.parent.as_deref())
    }

    /// Updates the counts of tasks by which stall time is measured, because a task changes its state or its CPU at
    /// `now` (ps). Each pair is a state and a CPU: `before` is no longer counted for the task, and `after` is counted
    /// from now on.
    pub(crate) fn change(&self, now: u64, before: (Part, usize), after: (Part, usize)) {
        self.advance(now);
        for ((part, cpu), more) in [(before, -1), (after, 1)] {
            if part != Part::Nothing {
                self.cpus[cpu].count(now);
                self.cpus[cpu].add(part, more);
            }
        }
    }

    /// Ends all averaging periods that end at or before `now` (ps), and lets each PSI trigger look at the stall time at
    /// each of its times up to `now`.
    #[inline]
    fn advance(&self, now: u64) {
        if now >= self.due.get() {
            self.advance_to(now);
        }
    }

    #[cold]
    fn advance_to(&self, now: u64) {
        let mut averaged = self.averaged.borrow_mut();
        let mut watches: Vec<_> = self.watches.borrow().iter().filter_map(Weak::upgrade).collect();
        let is_idle = self.cpus.iter().all(OnCpu::is_idle);
        loop {
            let of_watch = watches.iter().map(|watch| watch.borrow().next).min();
            let due = averaged.ends.min(of_watch.unwrap_or(u64::MAX));
            self.due.set(due);
            if due > now {
                break;
            }
            self.cpus.iter().for_each(|cpu| cpu.count(due));
            for watch in &mut watches {
                let mut watch = watch.borrow_mut();
                if watch.next == due {
                    watch.look(&self.cpus);
                }
            }
            if averaged.ends == due {
                averaged.end_period(&self.cpus);
                let quiet = if is_idle && watches.is_empty() { (now - due) / picos(PERIOD) } else { 0 };
                averaged.add_quiet_periods(quiet);
            }
        }
    }

    /// Returns the pressure at `now`, as a task gets that reads the pressure file. The call adds to the total stall
    /// times the weighted mean over the CPUs since the totals were last updated, as the end of a period does. Means
    /// over two short spans differ from one over both, so a read changes later figures a little.
    pub(crate) fn read(&self, now: u64) -> Pressure {
        self.advance(now);
        self.cpus.iter().for_each(|cpu| cpu.count(now));
        let mut averaged = self.averaged.borrow_mut();
        averaged.sum.look(&self.cpus);
        let stalls = |line: usize| Stalls {
            percent: averaged.averages[line].percent(),
            total_us: nanos(averaged.sum.total[line]).0 / 1000,
        };
        Pressure { some: stalls(0), full: stalls(1) }
    }

    fn add_watch(&self, trigger: Trigger, now: u64) -> Rc<RefCell<Watch>> {
        self.advance(now);
        self.cpus.iter().for_each(|cpu| cpu.count(now));
        let next = now + picos(trigger.look_every());
        let (sum, looks) = (Sum::new(&self.cpus), [0].into());
        let watch = Rc::new(RefCell::new(Watch { trigger, sum, next, looks, last_event: None, has_event: false }));
        let mut watches = self.watches.borrow_mut();
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Rc::downgrade(&watch));
        self.due.set(self.due.get().min(next));
        watch
    }
}

impl Averaged {
    /// Ends the present period. The caller ensures that all CPUs have counted up to its end.
    fn end_period(&mut self, cpus: &[OnCpu]) {
        self.sum.look(cpus);
        for ((averages, before), total) in self.averages.iter_mut().zip(&mut self.at_period).zip(self.sum.total) {
            averages.add_period((total - *before) as f64 / picos(PERIOD) as f64);
            *before = total;
        }
        self.ends += picos(PERIOD);
    }

    fn add_quiet_periods(&mut self, periods: u64) {
        self.averages.iter_mut().for_each(|averages| averages.add_quiet_periods(periods));
        self.ends += periods * picos(PERIOD);
    }
}

/// A reader of stall times for records of a run. It has sums of its own, so its use does not change the figures that
/// tasks read.
pub struct PressureReader {
    group: Rc<GroupPressure>,
    sum: Sum,
}

impl PressureReader {
    pub(crate) fn new(group: Rc<GroupPressure>) -> Self {
        let sum = Sum { seen: vec![[0; 3]; group.cpus.len()], total: [0; 2] };
        Self { group, sum }
    }

    /// Returns two total stall times until `now`: *some* and *full* of PSI.
    pub(crate) fn totals(&mut self, now: u64) -> [Nanos; 2] {
        self.group.advance(now);
        self.group.cpus.iter().for_each(|cpu| cpu.count(now));
        self.sum.look(&self.group.cpus);
        self.sum.total.map(nanos)
    }
}

/// A trigger on the pressure of the machine or of a group. Dropping it ends the trigger.
pub struct PressureTrigger {
    group: Rc<GroupPressure>,
    watch: Rc<RefCell<Watch>>,
}

impl PressureTrigger {
    pub(crate) fn new(group: Rc<GroupPressure>, trigger: Trigger, now: u64) -> Self {
        let watch = group.add_watch(trigger, now);
        Self { group, watch }
    }

    /// Returns whether an event has been raised since this method last returned `true`.
    pub(crate) fn take_event(&self, now: u64) -> bool {
        self.group.advance(now);
        std::mem::take(&mut self.watch.borrow_mut().has_event)
    }

    /// Returns the virtual time, ps, at which this PSI trigger next compares the stall time with its threshold.
    pub(crate) fn next_look(&self) -> u64 {
        self.watch.borrow().next
    }
}
