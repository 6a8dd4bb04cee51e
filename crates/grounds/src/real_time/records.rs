//! Records of counters, of memory, and of generations of pages, made during a run in real time. Each of these kinds of
//! record is made by a task that runs beside the workload.

use crate::job::Outcome;
use engine::memory::GroupVersion;
use engine::stat::Vmstat;
use figures::series::{Every, Recorder, Series};
use figures::{generations, memory_map, series};
use machine::Nanos;
use workloads::system::{Started, System};

/// The prefix of the names of those tasks that record counters and the state of memory during a run. No task of a
/// workload has a name with this prefix.
pub(crate) const RECORDER: &str = "record ";

/// A function that reads values from files of the kernel other than `/proc/vmstat`, and adds them to a record.
pub(super) type MoreValues = Box<dyn Fn(&mut Vmstat) + Send>;

/// A function that returns the state of memory; its argument is the present time, ns.
pub(super) type LookAtMemory = fn(u64) -> memory_map::Moment;

/// The records that are to be made during a run, each kind with the interval between two records. By default, none are
/// made.
#[derive(Default)]
pub(super) struct Records {
    /// Interval between records of counters; `None` if none are made.
    pub series: Option<Every>,
    /// A function that adds to each record of counters the values that `/proc/vmstat` lacks, such as those of
    /// `/proc/diskstats`.
    pub more: Option<MoreValues>,
    /// The control groups whose counters each record has.
    pub groups: Vec<String>,
    /// Interval between records of the generations of pages (multi-generational LRU); `None` if none are made.
    pub generations: Option<Nanos>,
    /// Interval between records of the state of memory, and the function that makes such a record.
    pub memory: Option<(Nanos, LookAtMemory)>,
}

/// The running tasks that make records, one for each requested kind.
pub(super) struct Recorders<S: System> {
    series: Option<Started<S, Series>>,
    generations: Option<Started<S, Vec<generations::Moment>>>,
    memory: Option<Started<S, Vec<memory_map::Moment>>>,
}

impl Records {
    /// Starts a task for each requested kind of record: counters, generations of pages, and the state of memory.
    pub(super) fn start<S: System>(self, system: &S) -> Recorders<S> {
        let Self { series, more, groups, generations, memory } = self;
        Recorders {
            series: series.map(|every| {
                system.start("record series", move |system| recorded_series(system, every, more, &groups))
            }),
            generations: generations
                .map(|every| system.start("record generations", move |system| recorded(system, every, generations_at))),
            memory: memory
                .map(|(every, look)| system.start("record memory", move |system| recorded(system, every, look))),
        }
    }
}

impl<S: System> Recorders<S> {
    /// Ends the tasks that make the records. Returns an outcome that holds the records and nothing else.
    pub(super) fn end(self, system: &S) -> Outcome {
        let Self { series, generations, memory } = self;
        Outcome {
            series: ended(system, series),
            generations: ended(system, generations),
            memory: ended(system, memory),
            ..Outcome::default()
        }
    }
}

fn ended<S: System, T>(system: &S, recorder: Option<Started<S, T>>) -> Option<T> {
    let recorder = recorder?;
    recorder.kill(system);
    Some(recorder.join(system))
}

/// Records counters at intervals until the task is told to end, and once more at the end. Returns the records.
fn recorded_series<S: System>(system: &S, every: Every, more: Option<MoreValues>, groups: &[String]) -> Series {
    let mut recorder = Recorder::new(every);
    let values = || {
        let mut values = system.vmstat();
        series::add_operations(&mut values, system.given().progress.operations());
        if let Some(engine) = system.engine_view() {
            series::add_zones(&mut values, engine);
        }
        if let Some(more) = &more {
            more(&mut values);
        }
        for group in groups {
            let stat = system.group_stat(group).ok().flatten().unwrap_or_default();
            // Groups of a real kernel are of version 2.
            series::add_group(&mut values, group, &stat, GroupVersion::V2);
        }
        values
    };
    while !system.is_killed() {
        recorder.push(system.now(), &values());
        system.sleep(recorder.every());
    }
    recorder.end(system.now(), &values());
    recorder.finish()
}

/// Calls `look` with the present time, ns, at intervals of `every`, until the task is told to end. Returns the results
/// of these calls.
fn recorded<S: System, T>(system: &S, every: Nanos, look: impl Fn(u64) -> T) -> Vec<T> {
    let mut moments = Vec::new();
    while !system.is_killed() {
        moments.push(look(system.now().0));
        system.sleep(every);
    }
    moments
}

/// Returns the present generations of pages, as the kernel reports them.
fn generations_at(now_ns: u64) -> generations::Moment {
    let text = std::fs::read_to_string("/sys/kernel/debug/lru_gen_full").unwrap_or_default();
    generations::Moment { now_ns, mark: None, text }
}
