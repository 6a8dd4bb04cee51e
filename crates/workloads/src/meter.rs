//! Measures tasks that do operations one after another while memory fills and after it is full.
//!
//! Each task keeps a [`Tally`] of its operations' times, separately for the time before memory was full and the time
//! after. [`measure`] starts the tasks and regularly checks how much they have done and how much memory is free. It
//! decides when memory is full ([`FullDetector`]) and when the run is over. The result is a [`Course`], which returns
//! the rows of a report.

use crate::system::{System, SystemError};
use engine::stat::Vmstat;
use figures::counters;
use figures::counters::difference;
use figures::figure::{Better, Format, Row, duration_rows};
use figures::histogram::Times;
use figures::usage::CpuTimes;
use hdrhistogram::Histogram;
use machine::Nanos;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Interval at which most workloads check the progress of their tasks and whether memory is full.
pub const LOOK_EVERY: Nanos = Nanos::from_millis(10);

/// If the tasks are to advance at the same speed, each task compares its progress with that of the other tasks after
/// every `STEP` operations. It waits while it is more than `STEP` operations ahead of the slowest task.
///
/// If a fault takes 100 µs and three operations cause two faults, 64 operations take some milliseconds. This is long
/// compared with the interval of the checks (`GATE_EVERY`) and short compared with a run. The number is also far below
/// a region's number of pages: a task that gets ahead touches only a small part of its region before it waits.
pub const STEP: u64 = 64;

/// Interval at which a ready task checks whether all tasks are ready, and at which a task that is ahead checks the
/// others' progress.
const GATE_EVERY: Nanos = Nanos::from_millis(1);

/// The condition under which a measurement ends.
#[derive(Clone, Debug)]
pub enum Length {
    /// The measurement ends after this number of operations by each task.
    Operations(u64),
    /// The measurement ends after this time, whether memory is full or not.
    Steady(Nanos),
    /// The measurement ends when the flag is set.
    Until(Arc<AtomicBool>),
    /// The measurement ends when the time `full` has passed since memory became full. If memory is not full at the time
    /// `filling` after the start, `full` counts from then on.
    Time {
        /// Time from the moment when memory is full to the end of the measurement.
        full: Nanos,
        /// Time from the start after which memory counts as full even if it is not.
        filling: Nanos,
    },
}

/// Values from which a [`FullDetector`] sees whether memory is full.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    /// Number of free pages.
    pub free: u64,
    /// Number of free pages that reclaim aims at (the high mark), if the system reports it.
    pub high_mark: Option<u64>,
    /// Number of pages that reclaim has freed since the run began, if the system counts them.
    pub reclaimed: Option<u64>,
}

/// Detector of the moment when memory is full.
///
/// Memory is full when free pages first fall below the system's high mark, which reclaim aims at, or when reclaim has
/// freed its first page. If the system reports neither the high mark nor reclaimed pages, memory is full when less than
/// 1/128 of it is free. Memory is also full when free pages stop falling: when their number has reached no new minimum
/// for a second and is below 1/8 of memory.
#[derive(Clone, Copy, Debug)]
pub struct FullDetector {
    memory_pages: u64,
    least: u64,
    least_at: Nanos,
}

impl FullDetector {
    /// Makes a detector for a system that has `memory_pages` pages of memory. `now` is the present time.
    #[must_use]
    pub const fn new(memory_pages: u64, now: Nanos) -> Self {
        Self { memory_pages, least: u64::MAX, least_at: now }
    }

    /// Returns whether memory is full at the time `now`.
    pub fn is_full(&mut self, now: Nanos, Signs { free, high_mark, reclaimed }: Signs) -> bool {
        if free < self.least {
            (self.least, self.least_at) = (free, now);
        }
        let is_under = match (high_mark, reclaimed) {
            (Some(mark), _) => free < mark,
            (None, Some(_)) => false,
            (None, None) => free < self.memory_pages / 128,
        };
        let has_stopped = now.since(self.least_at) >= Nanos::from_secs(1) && self.least < self.memory_pages / 8;
        is_under || reclaimed.is_some_and(|pages| pages > 0) || has_stopped
    }
}

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Measured<'a> {
    /// Name of the tasks.
    pub name: &'a str,
    /// Number of tasks.
    pub tasks: u64,
    /// The condition that ends the measurement.
    pub length: Length,
    /// True if memory fills during the measurement. The measurement then also records the moment at which memory became
    /// full.
    pub fills_memory: bool,
    /// Interval at which progress and free memory are checked. A workload that fills memory within a fraction of a
    /// second sets a shorter interval than [`LOOK_EVERY`].
    pub look_every: Nanos,
    /// `true` if the tasks keep step: a task that is ahead waits, so that no task is more than 128 operations, twice
    /// [`STEP`], ahead of the slowest.
    pub keeps_step: bool,
}

/// The state that the measured tasks share with the task that watches them.
#[derive(Debug)]
struct Shared {
    /// Number of tasks that have prepared their work and wait for the start, or have ended before.
    ready: AtomicUsize,
    /// `true` once all tasks are ready and may begin to do operations.
    is_open: AtomicBool,
    is_full: AtomicBool,
    is_over: AtomicBool,
    keeps_step: bool,
    /// Number of measured tasks that have not ended.
    running: AtomicUsize,
    /// Time, in ns, at which the last of the measured tasks that have ended so far ended.
    ended_at: AtomicU64,
    /// Number of tasks that run beside the measured ones and have not ended.
    others: AtomicUsize,
    /// The progress of each measured task.
    progress: Vec<Alone>,
}

/// The progress of a task. It shares its cache line with no other data.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone {
    /// Number of operations that the task has done.
    operations: AtomicU64,
    has_ended: AtomicBool,
}

/// The number and the durations of the operations that one task has done.
#[derive(Debug)]
pub struct Tally {
    shared: Arc<Shared>,
    task: usize,
    has_begun: Cell<bool>,
    operations: u64,
    most: u64,
    /// Times of operations, ns: those before memory was full, and those after.
    times: [Histogram<u64>; 2],
}

impl Tally {
    fn new(shared: &Arc<Shared>, task: usize, most: u64) -> Self {
        let times = [(); 2].map(|()| Histogram::new(3).expect("three digits are a precision"));
        Self { shared: shared.clone(), task, has_begun: Cell::new(false), operations: 0, most, times }
    }

    /// Waits until all tasks are ready. Work before this call is not measured.
    pub fn begin<S: System>(&self, system: &S) {
        self.note_ready();
        while !self.shared.is_open.load(Relaxed) && !self.shared.is_over.load(Relaxed) && !system.is_killed() {
            system.sleep(GATE_EVERY);
        }
    }

    fn note_ready(&self) {
        if !self.has_begun.replace(true) {
            self.shared.ready.fetch_add(1, Relaxed);
        }
    }

    /// Notes that the task has ended, so that no other task waits for it. A task may end early because it was killed.
    /// Work after this call is not measured. If the body of a task does not call this method, the end of the body
    /// counts.
    pub fn end<S: System>(&self, system: &S) {
        self.note_ready();
        let Some(own) = self.shared.progress.get(self.task) else { return };
        if !own.has_ended.swap(true, Relaxed) {
            self.shared.ended_at.fetch_max(system.now().0, Relaxed);
        }
    }

    /// Returns whether the measurement is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.operations >= self.most || self.shared.is_over.load(Relaxed)
    }

    /// If the tasks are to keep step, waits until no other task has done over [`STEP`] operations less than this one. A
    /// task calls this between operations, so that no operation's time includes the wait.
    #[inline]
    pub fn keep_step<S: System>(&self, system: &S) {
        if self.shared.keeps_step && self.operations.is_multiple_of(STEP) {
            self.wait_for_others(system);
        }
    }

    #[cold]
    fn wait_for_others<S: System>(&self, system: &S) {
        let least = || {
            let others = self.shared.progress.iter().filter(|task| !task.has_ended.load(Relaxed));
            others.map(|task| task.operations.load(Relaxed)).min().unwrap_or(0)
        };
        while self.operations > least() + STEP && !self.is_over() && !system.is_killed() {
            system.sleep(GATE_EVERY);
        }
    }

    /// Counts an operation of duration `time`.
    #[inline]
    pub fn count(&mut self, time: Nanos) {
        self.operations += 1;
        self.shared.progress[self.task].operations.store(self.operations, Relaxed);
        // The histogram grows as needed, so recording cannot fail.
        let _ = self.times[usize::from(self.shared.is_full.load(Relaxed))].record(time.0.max(1));
    }
}

/// Reports the end of a task when dropped. If the task panicked, tells the other tasks to end.
struct Ending {
    shared: Arc<Shared>,
    is_measured: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The other tasks must not wait for this one.
            self.shared.is_over.store(true, Relaxed);
        }
        let left = if self.is_measured { &self.shared.running } else { &self.shared.others };
        left.fetch_sub(1, Relaxed);
    }
}

/// The moment at which memory became full, and the state at that moment.
#[derive(Clone, Copy, Debug)]
struct Full {
    at: Nanos,
    operations: u64,
    read_in: Option<u64>,
}

/// The CPU time that tasks have spent from the start of the run to the moment at which this value was made, or between
/// two such moments.
#[derive(Clone, Debug, Default)]
pub struct Spent {
    /// CPU time by call path; empty if the system does not measure it.
    pub profile: BTreeMap<String, Nanos>,
    /// The part of the CPU time that was spent spinning for locks, by call path and class of lock.
    pub lock_waits: BTreeMap<(String, &'static str), Nanos>,
}

impl Spent {
    fn of<S: System>(system: &S) -> Self {
        Self { profile: system.profile(), lock_waits: system.lock_waits() }
    }

    /// Returns the CPU time spent since `earlier`.
    fn since(self, earlier: &Self) -> Self {
        fn less<K: Ord>(later: BTreeMap<K, Nanos>, earlier: &BTreeMap<K, Nanos>) -> BTreeMap<K, Nanos> {
            let since = |(key, time): (K, Nanos)| {
                let spent = time.since(earlier.get(&key).copied().unwrap_or_default());
                (key, spent)
            };
            later.into_iter().map(since).collect()
        }
        Self { profile: less(self.profile, &earlier.profile), lock_waits: less(self.lock_waits, &earlier.lock_waits) }
    }
}

/// The record of a measurement: operations over time, their durations, counters and CPU time.
#[derive(Debug)]
pub struct Course {
    started: Nanos,
    /// For each moment at which the measurement was checked, the time and the number of operations done until then, in
    /// order of time.
    looks: Vec<(Nanos, u64)>,
    full: Option<Full>,
    /// Number of operations done by each task.
    by_task: Vec<u64>,
    read_in: Option<u64>,
    cpu: CpuTimes,
    /// The growth of counters during the run.
    pub counters: Vmstat,
    /// Two values: the CPU time spent until memory was full, and the CPU time spent after. If memory never was full,
    /// the first value covers the whole run.
    pub spent: [Spent; 2],
    times: [Histogram<u64>; 2],
}

/// Starts tasks and watches them. Each task runs `body` with its number and a [`Tally`]. A body prepares, calls
/// [`Tally::begin`], and does operations until [`Tally::is_over`] returns true. Returns the record of the measurement.
///
/// # Errors
/// When a task failed.
pub fn measure<S: System>(
    system: &S,
    measured: &Measured<'_>,
    body: impl Fn(&S, u64, &mut Tally) -> Result<(), SystemError> + Clone + Send + 'static,
) -> Result<Course, SystemError> {
    let names: Vec<String> = (0..measured.tasks).map(|n| format!("{} {n}", measured.name)).collect();
    measure_tasks(system, measured, &names, body)
}

/// Starts tasks with the given names and watches them, as [`measure`] does. Only the first `measured.tasks` tasks are
/// measured. The operations of the other tasks do not count. These tasks are told to end when the measured tasks have
/// ended.
///
/// # Errors
/// When a task failed.
pub fn measure_tasks<S: System>(
    system: &S,
    measured: &Measured<'_>,
    names: &[String],
    body: impl Fn(&S, u64, &mut Tally) -> Result<(), SystemError> + Clone + Send + 'static,
) -> Result<Course, SystemError> {
    measure_bodies(
        system,
        measured,
        names.iter().map(|name| (name.as_str(), Box::new(body.clone()) as Body<S>)).collect(),
    )
}

/// The body of a measured task. It gets the number of the task.
type Body<S> = Box<dyn FnOnce(&S, u64, &mut Tally) -> Result<(), SystemError> + Send>;

/// Measures tasks, each with its name and its body. This function is compiled once for each system, not for each body.
fn measure_bodies<S: System>(
    system: &S,
    measured: &Measured<'_>,
    bodies: Vec<(&str, Body<S>)>,
) -> Result<Course, SystemError> {
    let Measured { tasks, length, .. } = measured;
    let task_count = bodies.len();
    let shared = Arc::new(Shared {
        ready: AtomicUsize::new(0),
        is_open: AtomicBool::new(false),
        is_full: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
        keeps_step: measured.keeps_step,
        running: AtomicUsize::new(*tasks as usize),
        ended_at: AtomicU64::new(0),
        others: AtomicUsize::new(task_count - *tasks as usize),
        progress: (0..*tasks).map(|_| Alone::default()).collect(),
    });
    let most = if let Length::Operations(operations) = length { *operations } else { u64::MAX };
    let started: Vec<_> = (0..)
        .zip(bodies)
        .map(|(n, (name, body))| {
            let shared = shared.clone();
            let is_measured = n < *tasks;
            system.start(name, move |system| {
                let _ending = Ending { shared: shared.clone(), is_measured };
                let mut tally = Tally::new(&shared, n as usize, if is_measured { most } else { u64::MAX });
                let result = body(system, n, &mut tally);
                tally.end(system);
                if result.is_err() {
                    shared.is_over.store(true, Relaxed);
                }
                result.map(|()| tally.times)
            })
        })
        .collect();
    while shared.ready.load(Relaxed) < task_count && !shared.is_over.load(Relaxed) && !system.is_killed() {
        system.sleep(GATE_EVERY);
    }
    system.begin_measured();
    let (counters, cpu, read_in) = (system.vmstat(), system.cpu_times(), system.pages_read_in());
    let spent = Spent::of(system);
    let begun = system.now();
    shared.is_open.store(true, Relaxed);
    let (looks, full, at_full) = watch(system, &shared, begun, measured);
    let mut times = [(); 2].map(|()| Histogram::new(3).expect("three digits are a precision"));
    let ended: Vec<_> = started.into_iter().map(|task| task.join(system)).collect();
    for result in ended {
        for (all, of_task) in times.iter_mut().zip(result?) {
            all.add(of_task).expect("it grows as far as need be");
        }
    }
    let at_end = Spent::of(system);
    system.end_measured();
    let spent = match at_full {
        None => [at_end.since(&spent), Spent::default()],
        Some(at_full) => [at_full.clone().since(&spent), at_end.since(&at_full)],
    };
    let so_far = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
    Ok(Course {
        started: begun,
        looks,
        by_task: shared.progress.iter().map(|task| task.operations.load(Relaxed)).collect(),
        full: full.map(|full| Full { read_in: so_far(read_in, full.read_in), ..full }),
        read_in: so_far(read_in, system.pages_read_in()),
        cpu: system.cpu_times().since(cpu),
        counters: difference(&counters, &system.vmstat()),
        spent,
        times,
    })
}

/// Watches the tasks until they have ended, and tells them when the measurement is over.
fn watch<S: System>(
    system: &S,
    shared: &Shared,
    started: Nanos,
    measured: &Measured<'_>,
) -> (Vec<(Nanos, u64)>, Option<Full>, Option<Spent>) {
    let mut detector = FullDetector::new(system.memory_pages(), started);
    let reclaimed = pages_reclaimed(&system.vmstat());
    let (mut full, mut at_full) = (None, None);
    let mut looks = vec![(started, 0)];
    let progress = &system.given().progress;
    if let Length::Operations(of_task) = measured.length {
        progress.set_total_operations(of_task.saturating_mul(measured.tasks));
    }
    loop {
        system.sleep(measured.look_every);
        let now = system.now();
        let has_ended = shared.running.load(Relaxed) == 0;
        let operations = shared.progress.iter().map(|task| task.operations.load(Relaxed)).sum();
        progress.set_operations(operations);
        progress.set_now_ns(now.0);
        // A number of operations is done when the last task ends, and not at the look after it.
        let is_exact = has_ended && matches!(measured.length, Length::Operations(_));
        let at = if is_exact { Nanos(shared.ended_at.load(Relaxed)).min(now) } else { now };
        if looks.last().is_none_or(|last| last.0 < at) {
            looks.push((at, operations));
        }
        if measured.fills_memory && full.is_none() && detector.is_full(now, signs(system, reclaimed)) {
            full = Some(Full { at: now, operations, read_in: system.pages_read_in() });
            at_full = Some(Spent::of(system));
            shared.is_full.store(true, Relaxed);
        }
        let end = match &measured.length {
            Length::Operations(_) | Length::Until(_) => None,
            Length::Steady(time) => Some(started + *time),
            Length::Time { full: after, filling } => Some(full.map_or(started + *filling, |full| full.at) + *after),
        };
        end.into_iter().for_each(|end| system.expect_end(end));
        let is_set = matches!(&measured.length, Length::Until(flag) if flag.load(Relaxed));
        if is_set || end.is_some_and(|end| now >= end) || system.is_killed() {
            shared.is_over.store(true, Relaxed);
        }
        if has_ended {
            shared.is_over.store(true, Relaxed);
            if shared.others.load(Relaxed) == 0 {
                return (looks, full, at_full);
            }
        }
    }
}

/// Returns the current values from which a [`FullDetector`] sees whether memory is full. `before` is the number of
/// pages that reclaim had freed when the run began.
fn signs<S: System>(system: &S, before: Option<u64>) -> Signs {
    // Counters are read only if they were available at the start, because reading them affects the run: a kernel then
    // sums the counters of a cgroup, and it also uses these sums itself.
    let now = before.and_then(|_| pages_reclaimed(&system.vmstat()));
    let reclaimed = now.zip(before).map(|(now, before)| now.saturating_sub(before));
    Signs { free: system.free_pages(), high_mark: system.high_mark_pages(), reclaimed }
}

/// Returns the number of pages that reclaim has freed so far, if the system counts them.
fn pages_reclaimed(vmstat: &Vmstat) -> Option<u64> {
    let [kswapd, direct] = ["pgsteal_kswapd", "pgsteal_direct"].map(|name| counters::sum(vmstat, name));
    Some(kswapd? + direct?)
}

impl Course {
    /// Returns an invented record that yields every row that a measurement can have. It serves to list the names of
    /// rows.
    #[must_use]
    pub fn with_everything() -> Self {
        let second = Nanos::from_secs(1);
        let mut times = Histogram::new(3).expect("three digits are a precision");
        times.record(1).expect("it grows as far as need be");
        Self {
            started: Nanos(0),
            looks: vec![(Nanos(0), 0), (second, 1)],
            full: Some(Full { at: Nanos(second.0 / 2), operations: 0, read_in: Some(0) }),
            by_task: vec![1, 1],
            read_in: Some(0),
            cpu: CpuTimes::default(),
            counters: counter_names()
                .chain(HUGE_PAGE_COUNTERS.map(|[name, _]| name))
                .map(|name| (name.to_owned(), 0))
                .collect(),
            spent: Default::default(),
            times: [times.clone(), times],
        }
    }

    fn ended(&self) -> Nanos {
        self.looks.last().map_or(self.started, |last| last.0)
    }

    fn operations(&self) -> u64 {
        self.looks.last().map_or(0, |last| last.1)
    }

    /// Returns the measured time, seconds.
    #[must_use]
    pub fn elapsed_s(&self) -> f64 {
        self.ended().since(self.started).as_secs_f64()
    }

    /// Returns the number of pages that were read from devices, readahead included; none if the system does not count
    /// them.
    #[must_use]
    pub const fn pages_read_in(&self) -> Option<u64> {
        self.read_in
    }

    /// Returns the number of operations per second between two times.
    fn rate(&self, from: Nanos, to: Nanos) -> f64 {
        let seconds = to.since(from).as_secs_f64();
        if seconds > 0.0 { (done_by(&self.looks, to) - done_by(&self.looks, from)) / seconds } else { 0.0 }
    }

    /// Returns the row `name` with the share of operations that read no page from a device, percent. The row covers the
    /// time since memory was full, or the whole run if memory never was full. `others` is the number of pages that
    /// tasks outside the measurement read from devices in the whole run. Returns none if the system does not count
    /// pages read from devices.
    #[must_use]
    pub fn hit_row(&self, name: &str, others: u64) -> Option<Row> {
        self.page_hit_row(name, 1, others)
    }

    /// Returns the row `name` as [`Course::hit_row`] does, for operations that access `pages` pages each: the share of
    /// the accessed pages that were not read from a device.
    #[must_use]
    pub fn page_hit_row(&self, name: &str, pages: u64, others: u64) -> Option<Row> {
        let since = self.full.map_or((Some(0), 0), |full| (full.read_in, full.operations));
        let misses = (self.read_in?.saturating_sub(since.0?)).saturating_sub(others);
        hit_row(name, (self.operations() - since.1) * pages, misses)
    }

    /// Returns the row `name`. Its figure is the percentage of all operations of the run that caused no major fault.
    /// Returns none if the system does not count major faults.
    #[must_use]
    pub fn fault_hit_row(&self, name: &str) -> Option<Row> {
        hit_row(name, self.operations(), *self.counters.get("pgmajfault")?)
    }

    /// Returns the rows of operations per second, whose names begin with `name`: the rate in the whole run, the rate of
    /// the slowest task if there are several tasks, and the rates before and after memory was full.
    #[must_use]
    pub fn rate_rows(&self, name: &str) -> Vec<Row> {
        let row = |part: &str, rate| {
            let name = format!("Ops {name}{part}");
            Row::new("Ops", name, "ops/s", Better::Higher, Format::Decimals(0), rate)
        };
        let mut rows = vec![row("", self.rate(self.started, self.ended()))];
        // If tasks are unequal, the fast tasks dominate the total.
        if let (Some(least), true) = (self.by_task.iter().min(), self.by_task.len() > 1) {
            rows.push(row("-slowest-task", *least as f64 / self.elapsed_s().max(1e-9)));
        }
        if let Some(full) = self.full {
            let span = self.span_at(full);
            rows.push(row("-before", self.rate(Nanos(full.at.0 - span.0), full.at)));
            rows.push(row("-at-full", self.rate(full.at, full.at + span)));
            rows.push(row("-after", self.rate(full.at, self.ended())));
        }
        rows
    }

    /// Returns the length of each of the two spans whose rates are compared. One span ends, and the other begins, at
    /// the moment `full`, when memory became full. The length is a quarter of the time that memory took to fill, or the
    /// time from `full` to the end of the run if that is shorter.
    fn span_at(&self, full: Full) -> Nanos {
        Nanos((full.at.since(self.started).0 / 4).min(self.ended().since(full.at).0))
    }

    /// Returns two rates of operations: the rate just before memory was full, and the rate from the moment when it was
    /// full to the end. Returns none if memory never was full.
    #[must_use]
    pub fn before_and_after(&self) -> Option<[f64; 2]> {
        let full = self.full?;
        let span = self.span_at(full);
        Some([self.rate(Nanos(full.at.0 - span.0), full.at), self.rate(full.at, self.ended())])
    }

    /// Divides the time after memory was full into `parts` equal parts, and returns the rate of operations in each
    /// part. Returns no rates if memory never was full.
    #[must_use]
    pub fn rates_after(&self, parts: u64) -> Vec<f64> {
        let Some(full) = self.full else { return Vec::new() };
        let length = self.ended().since(full.at).0 / parts;
        let part = |n| self.rate(full.at + Nanos(n * length), full.at + Nanos((n + 1) * length));
        (0..parts).map(part).collect()
    }

    /// Returns the time from the moment when memory was first full to the end of the measurement. If memory never was
    /// full, returns the time of the whole run.
    #[must_use]
    pub fn time_at_full(&self) -> Nanos {
        self.ended().since(self.full.map_or(self.started, |full| full.at))
    }

    /// Returns rows with percentiles of the operations' durations, separately for the time before memory was full and
    /// the time after. `what` names the operation.
    #[must_use]
    pub fn latency_rows(&self, what: &str) -> Vec<Row> {
        let parts = self.parts();
        parts.iter().flat_map(|(part, n)| latency_rows(&format!("{what}{part}"), &self.times[*n])).collect()
    }

    /// Returns histograms of the durations of operations, one for each part of the run. A histogram's name is `what`
    /// and the name of its part. The rows of [`Self::latency_rows`] summarise these histograms.
    #[must_use]
    pub fn times(&self, what: &str) -> Vec<Times> {
        self.parts().iter().filter_map(|(part, n)| Times::of(format!("{what}{part}"), &self.times[*n])).collect()
    }

    /// Returns the parts of the run for which durations are reported. Each part has a suffix for the names of its rows,
    /// and an index into `times`.
    fn parts(&self) -> &'static [(&'static str, usize)] {
        if self.full.is_some() { &[(" before full", 0), ("", 1)] } else { &[("", 0)] }
    }

    /// Returns the rows of costs: the CPU time per million operations, the time until memory was full, the duration of
    /// the run, and the main counters.
    #[must_use]
    pub fn cost_rows(&self) -> Vec<Row> {
        let millions = self.operations() as f64 / 1e6;
        let per_million = |name: &str, time: Nanos| {
            let seconds = if millions > 0.0 { time.as_secs_f64() / millions } else { 0.0 };
            Row::new("cpu", name, "s", Better::Lower, Format::Decimals(2), seconds)
        };
        let CpuTimes { user, system } = self.cpu;
        let mut rows = vec![
            per_million("CPU s per M ops", user + system),
            per_million("User s per M ops", user),
            per_million("System s per M ops", system),
        ];
        if let Some(full) = self.full {
            let time = full.at.since(self.started).as_secs_f64();
            rows.push(Row::new("duration", "Until full", "s", Better::Neutral, Format::Decimals(2), time));
        }
        rows.extend(duration_rows(user.as_secs_f64(), system.as_secs_f64(), self.elapsed_s()));
        rows.extend(counter_rows(&self.counters));
        rows
    }

    /// Returns the rows of huge-page counters, for workloads whose memory may have huge pages.
    #[must_use]
    pub fn huge_page_rows(&self) -> Vec<Row> {
        let row = |[name, renamed]: [&str; 2]| {
            let value = [renamed, name].into_iter().find_map(|name| self.counters.get(name))?;
            Some(event_row(name, "huge pages", *value))
        };
        HUGE_PAGE_COUNTERS.into_iter().filter_map(row).collect()
    }
}

fn hit_row(name: &str, operations: u64, misses: u64) -> Option<Row> {
    let ratio = 100.0 * (1.0 - misses as f64 / operations as f64).max(0.0);
    (operations > 0).then(|| Row::new("hits", name, "%", Better::Higher, Format::Decimals(2), ratio))
}

/// Returns the number of operations done by the time `at`. Each element of `looks` is a time and the number of
/// operations done by then. The result is interpolated between two of them.
fn done_by(looks: &[(Nanos, u64)], at: Nanos) -> f64 {
    let next = looks.partition_point(|look| look.0 < at);
    match (next.checked_sub(1).and_then(|last| looks.get(last)), looks.get(next)) {
        (Some((from, first)), Some((to, last))) => {
            let part = at.since(*from).0 as f64 / to.since(*from).0 as f64;
            *first as f64 + part * (last - first) as f64
        }
        (Some((_, operations)), None) | (None, Some((_, operations))) => *operations as f64,
        (None, None) => 0.0,
    }
}

/// Returns rows with the mean, some percentiles and the maximum of `times`. The histogram has nanoseconds, the rows
/// have microseconds.
#[must_use]
pub fn latency_rows(what: &str, times: &Histogram<u64>) -> Vec<Row> {
    if times.is_empty() {
        return Vec::new();
    }
    let row = |name: &str, ns: f64| {
        Row::new("latency", format!("{what} {name}"), "us", Better::Lower, Format::Decimals(2), ns / 1e3)
    };
    let at = |quantile| times.value_at_quantile(quantile) as f64;
    vec![
        row("mean", times.mean()),
        row("p50", at(0.5)),
        row("p99", at(0.99)),
        row("p99.9", at(0.999)),
        row("max", times.max() as f64),
    ]
}

/// Counters that [`counter_rows`] reports, with their units. A counter kept by zone is summed over its zones.
const COUNTERS: [(&str, &str); 21] = [
    ("pgscan_kswapd", "pages"),
    ("pgscan_direct", "pages"),
    ("pgsteal_kswapd", "pages"),
    ("pgsteal_direct", "pages"),
    ("pgactivate", "pages"),
    ("pgdeactivate", "pages"),
    ("workingset_refault_file", "pages"),
    ("workingset_activate_file", "pages"),
    ("workingset_restore_file", "pages"),
    ("workingset_refault_anon", "pages"),
    ("workingset_activate_anon", "pages"),
    ("workingset_restore_anon", "pages"),
    ("lru_used_once", "pages"),
    ("allocstall", "events"),
    ("pgfault", "faults"),
    ("pgmajfault", "faults"),
    ("pswpin", "pages"),
    ("pswpout", "pages"),
    ("pgpgin", "KiB"),
    ("pgpgout", "KiB"),
    ("nr_vmscan_write", "pages"),
];

/// Counters of huge pages, each with its name before Linux 4.5 and its name since Linux 4.5.
const HUGE_PAGE_COUNTERS: [[&str; 2]; 3] = [
    ["thp_fault_alloc", "thp_fault_alloc"],
    ["thp_fault_fallback", "thp_fault_fallback"],
    ["thp_split", "thp_split_page"],
];

/// Returns the names of the counters that [`counter_rows`] reports.
pub fn counter_names() -> impl Iterator<Item = &'static str> {
    COUNTERS.iter().map(|(name, _)| *name)
}

/// Returns the rows that say how much each main counter has grown. There is no row for a counter that the system lacks.
#[must_use]
pub fn counter_rows(counters: &Vmstat) -> Vec<Row> {
    let row = |(name, unit): &(&str, &str)| Some(event_row(name, unit, counters::sum(counters, name)?));
    COUNTERS.iter().filter_map(row).collect()
}

/// Returns a row that says how much one counter has grown.
fn event_row(name: &str, unit: &str, value: u64) -> Row {
    Row::new("vmstat", name, unit, Better::Neutral, Format::Decimals(0), value as f64)
}

/// Adds to `profile` a line for each call path that has spent CPU time between the measurements `seen` and `now`. The
/// line has `part`, the path, and this CPU time, ns. Then sets `seen` to `now`.
pub(super) fn add_profile(
    profile: &mut Vec<String>,
    part: &str,
    seen: &mut BTreeMap<String, Nanos>,
    now: BTreeMap<String, Nanos>,
) {
    for (path, time) in &now {
        let spent = time.since(seen.get(path).copied().unwrap_or_default());
        if spent > Nanos(0) {
            profile.push(format!("{part};{path} {}", spent.0));
        }
    }
    *seen = now;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_full_under_the_mark_at_the_first_reclaim_or_when_it_stops_falling_low() {
        let full_at = |signs: &dyn Fn(u64) -> Signs| {
            let mut detector = FullDetector::new(12_800, Nanos(0));
            (1..1000).find(|n| detector.is_full(Nanos::from_millis(10 * n), signs(*n)))
        };
        let falls = |n: u64| 12_800_u64.saturating_sub(100 * n);
        let signs = |free, high_mark, reclaimed| Signs { free, high_mark, reclaimed };
        assert_eq!(full_at(&|n| signs(falls(n), Some(500), Some(0))), Some(124), "under the mark of the ground");
        assert_eq!(full_at(&|n| signs(falls(n), Some(500), Some(n / 100))), Some(100), "reclaim began before");
        assert_eq!(full_at(&|n| signs(falls(n).max(2000), None, Some(n / 200))), Some(200), "reclaim begins early");
        assert_eq!(full_at(&|n| signs(falls(n), None, None)), Some(128), "under 1/128 of memory");
        assert_eq!(full_at(&|n| signs(falls(n).max(900), None, None)), Some(219), "at 900 from the 119th look on");
        assert_eq!(full_at(&|n| signs(falls(n).max(6000), None, None)), None, "half of memory is never used");
        assert_eq!(
            full_at(&|n| signs(600 - n % 7, Some(500), Some(0))),
            Some(106),
            "the least was met at the 6th look"
        );
    }

    #[test]
    fn rates_are_taken_between_looks() {
        let looks = [(0, 0), (10, 100), (20, 400)].map(|(at, n)| (Nanos(at), n));
        assert_eq!(
            [0, 5, 10, 15, 20, 25].map(|at| done_by(&looks, Nanos(at))),
            [0.0, 50.0, 100.0, 250.0, 400.0, 400.0]
        );
    }

    #[test]
    fn counters_by_zone_are_summed_and_missing_ones_have_no_row() {
        let counters =
            [("pgscan_direct_dma32", 1), ("pgscan_direct_normal", 2), ("pgscan_direct_throttle", 4), ("pswpin", 8)];
        let counters = counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let rows: Vec<(String, f64)> = counter_rows(&counters).into_iter().map(|row| (row.name, row.value)).collect();
        assert_eq!(rows, [("pgscan_direct".to_owned(), 3.0), ("pswpin".to_owned(), 8.0)]);
    }
}
