//! Explains, from a trace, why tasks of a simulated run were stalled. A stall is a direct reclaim, or a wait of a
//! throttled writer, that takes at least a given time.
//!
//! A task reports a stall when it ends ([`machine::note`]): the request, the pages scanned, and why pages stayed. The
//! slices of the trace show what the task waited for and which tasks were responsible: the queue of its CPU, locks,
//! waits in reclaim, requests to disks. Nothing is guessed: a sleeping task states its reason
//! ([`machine::note::WaitReason`]), and unexplained time is reported as such.
//!
//! Next: [`find`].

mod text;

pub use text::{json, sections, text};

use figures::trace::{RunTrace, disk_name};
use figures::waits;
use kit::words::counted;
use machine::note::{HeldBack, SlowRequest};
use machine::{DeviceId, Func, Nanos, Note, Operation, Order, WaitReason};
use sim::TaskId;
use sim::trace::{Activity, Noted, Slice, Trace};
use std::collections::BTreeMap;

/// Text that stands for a part of a stall that the trace does not explain. Such a part lies outside of the trace's
/// window, came after the trace had reached its largest number of slices, or was too short to be recorded.
const UNTOLD: &str = "for what the trace does not say";

/// The cause of a stall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The task requested memory and had to wait for it.
    Request(SlowRequest),
    /// The task was held back because it dirtied pages faster than they are written.
    HeldBack(HeldBack),
}

/// A wait that is a part of a stall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The thing that the task waited for, in words.
    pub on: String,
    /// Duration of the wait.
    pub time: Nanos,
    /// The tasks for which the stalled task waited: each held the lock, or did the work, that the wait was for. Each
    /// entry has a description in words, and the time for which that task did so during the wait. The longest time
    /// comes first.
    pub held_by: Vec<(String, Nanos)>,
}

/// A group of similar stalls of one task, which have the same cause and the same main reason for sleep. `count` and
/// `total` are about the whole group; all other fields describe its longest stall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Number of stalls in the group.
    pub count: usize,
    /// Total duration of the stalls in the group.
    pub total: Nanos,
    /// The task's name, which is also the name of its track in the trace.
    pub task: String,
    /// Start of the stall in virtual time.
    pub from: Nanos,
    /// End of the stall in virtual time.
    pub to: Nanos,
    /// The cause of the stall.
    pub cause: Cause,
    /// CPU time that the task used during the stall, except for spinning for locks.
    pub worked: Nanos,
    /// The stall's waits, longest first.
    pub waits: Vec<Wait>,
    /// Work that disks did during the stall, in words.
    pub disks: Vec<String>,
    /// The longest event with a duration (slice) that the trace shows in the task's track within the stall: its name
    /// and its start.
    pub slice: Option<(&'static str, Nanos)>,
}

impl Stall {
    /// Returns the stall's duration.
    #[must_use]
    pub fn time(&self) -> Nanos {
        self.to.since(self.from)
    }
}

/// The stalls found in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stalls {
    /// The name of the run, which is also the name of its process in the trace.
    pub run: String,
    /// Shortest duration of a stall that is counted.
    pub over: Nanos,
    /// Number of stalls that took at least `over`.
    pub count: usize,
    /// Total duration of the counted stalls: those that took at least as long as the field `over`.
    pub total: Nanos,
    /// Number of tasks that had a stall of at least `over`.
    pub tasks: usize,
    /// Number of groups of similar stalls.
    pub groups: usize,
    /// The longest stall of each group of similar stalls, with its explanation; the longest first. Only as many groups
    /// have an entry here as the caller of [`find`] asked for.
    pub longest: Vec<Stall>,
}

/// Finds the stalls in a run that take at least `over`, and groups similar stalls. Explains the longest stall of each
/// group, for at most `most` groups: those with the longest stalls.
#[must_use]
pub fn find(run: &RunTrace, over: Nanos, most: usize) -> Stalls {
    let trace = &run.trace;
    let mut found: Vec<(&Noted, Nanos)> = trace.notes.iter().map(|note| (note, began(note))).collect();
    found.retain(|(note, began)| note.at.since(*began) >= over);
    found.sort_by_key(|(note, began)| (std::cmp::Reverse(note.at.since(*began)), *began, note.task));
    let total = found.iter().fold(Nanos(0), |sum, (note, began)| sum + note.at.since(*began));
    let tasks: std::collections::BTreeSet<TaskId> = found.iter().map(|(note, _)| note.task).collect();
    let sleeps = Sleeps::of(trace);
    // Stalls are sorted, so the first stall of a group is its longest, and groups are in order of their longest.
    let mut groups: Vec<(Alike<'_>, &Noted, usize, Nanos)> = Vec::new();
    for (note, began) in &found {
        let (alike, time) = (Alike::of(&sleeps, note, *began), note.at.since(*began));
        match groups.iter_mut().find(|(other, ..)| *other == alike) {
            Some((_, _, count, total)) => (*count, *total) = (*count + 1, *total + time),
            None => groups.push((alike, note, 1, time)),
        }
    }
    let explained = groups.iter().take(most).map(|(_, note, count, total)| Stall {
        count: *count,
        total: *total,
        ..explain(trace, note, began(note))
    });
    let longest = explained.collect();
    Stalls {
        run: run.title.clone(),
        over,
        count: found.len(),
        total,
        tasks: tasks.len(),
        groups: groups.len(),
        longest,
    }
}

/// The properties that are equal in all stalls of a group of similar stalls.
#[derive(PartialEq)]
struct Alike<'a> {
    task: TaskId,
    wanted: Wanted<'a>,
    slept_for: Option<WaitReason>,
}

/// The cause of a stall, reduced to the details by which two stalls are compared: stalls with equal values are similar.
/// Times and numbers of pages are left out.
#[derive(PartialEq)]
enum Wanted<'a> {
    Pages { order: Order, gfp: &'a str, zone: &'a str, is_served: bool },
    ToDirty(DeviceId),
}

impl<'a> Alike<'a> {
    fn of(sleeps: &Sleeps, noted: &'a Noted, from: Nanos) -> Self {
        let wanted = match &noted.note {
            Note::SlowRequest(SlowRequest { order, gfp, zone, is_served, .. }) => {
                Wanted::Pages { order: *order, gfp, zone, is_served: *is_served }
            }
            Note::HeldBack(held) => Wanted::ToDirty(held.device),
        };
        Self { task: noted.task, wanted, slept_for: sleeps.longest(noted.task, from, noted.at) }
    }
}

/// For each task, its sleeps in the order of time: begin, end, and the reason for the sleep.
struct Sleeps(BTreeMap<TaskId, Vec<(Nanos, Nanos, WaitReason)>>);

impl Sleeps {
    fn of(trace: &Trace) -> Self {
        let mut sleeps: BTreeMap<TaskId, Vec<(Nanos, Nanos, WaitReason)>> = BTreeMap::new();
        for slice in &trace.slices {
            if let Activity::Wait { task, reason } = slice.what {
                sleeps.entry(task).or_default().push((slice.from, slice.to, reason));
            }
        }
        Self(sleeps)
    }

    /// Returns the reason for which a task slept longest in total between `from` and `to`; none if it did not sleep.
    fn longest(&self, task: TaskId, from: Nanos, to: Nanos) -> Option<WaitReason> {
        let sleeps = self.0.get(&task)?;
        let first = sleeps.partition_point(|(_, ended, _)| *ended <= from);
        let mut times: BTreeMap<WaitReason, Nanos> = BTreeMap::new();
        for (began, ended, reason) in sleeps[first..].iter().take_while(|(began, ..)| *began < to) {
            *times.entry(*reason).or_default() += (*ended).min(to).since((*began).max(from));
        }
        times.into_iter().max_by_key(|(_, time)| *time).map(|(reason, _)| reason)
    }
}

/// Returns the start of a stall.
const fn began(noted: &Noted) -> Nanos {
    match &noted.note {
        Note::SlowRequest(request) => request.began,
        Note::HeldBack(held) => held.began,
    }
}

/// Returns the length of the overlap of a slice and the interval from `from` to `to`.
fn overlap(slice: &Slice, from: Nanos, to: Nanos) -> Nanos {
    slice.to.min(to).since(slice.from.max(from))
}

/// Adds `time` to the sum of times that the map `times` has for `name`.
fn add(times: &mut BTreeMap<String, Nanos>, name: String, time: Nanos) {
    if time > Nanos(0) {
        *times.entry(name).or_default() += time;
    }
}

/// Sorts names by their times, the longest first. A time longer than `wait` is cut to `wait`.
fn ranked(times: BTreeMap<String, Nanos>, wait: Nanos) -> Vec<(String, Nanos)> {
    let mut ranked: Vec<_> = times.into_iter().map(|(who, time)| (who, time.min(wait))).collect();
    ranked.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    ranked
}

fn explain(trace: &Trace, noted: &Noted, from: Nanos) -> Stall {
    let (task, to) = (noted.task, noted.at);
    let within: Vec<&Slice> = trace.slices.iter().filter(|slice| overlap(slice, from, to) > Nanos(0)).collect();
    let look = Look { trace, within: &within };
    let mut worked = Nanos(0);
    let mut waits: Vec<Wait> = Vec::new();
    let mut spins: BTreeMap<&'static str, (Nanos, BTreeMap<String, Nanos>)> = BTreeMap::new();
    let (mut queued, mut runners) = (Nanos(0), BTreeMap::new());
    let mut reasons: BTreeMap<WaitReason, (Nanos, BTreeMap<String, Nanos>)> = BTreeMap::new();
    let mut slice = None;
    for one in &within {
        let time = overlap(one, from, to);
        let (begin, end) = (one.from.max(from), one.to.min(to));
        match one.what {
            Activity::Runs { task: of, cpu } if of == task => {
                worked += time;
                for spin in &within {
                    let Activity::LockWait { cpu: on, class } = spin.what else { continue };
                    let spun = overlap(spin, begin, end);
                    if on == cpu && spun > Nanos(0) {
                        let (sum, holders) = spins.entry(class).or_default();
                        *sum += spun;
                        look.holders_of(class, cpu, spin.from.max(begin), spin.to.min(end), holders);
                    }
                }
            }
            Activity::Queued { task: of } if of == task => {
                queued += time;
                look.runners(begin, end, &mut runners);
            }
            Activity::Function { task: of, func } if of == task => {
                let is_longer =
                    slice.is_none_or(|(_, from, to): (_, Nanos, Nanos)| one.to.since(one.from) > to.since(from));
                if is_longer {
                    slice = Some((func.name(), one.from, one.to));
                }
            }
            Activity::Wait { task: of, reason } if of == task => {
                let (sum, others) = reasons.entry(reason).or_default();
                *sum += look.off_cpu(task, begin, end);
                look.others(task, reason, begin, end, others);
            }
            _ => {}
        }
    }
    let spun = spins.values().fold(Nanos(0), |sum, (time, _)| sum + *time);
    let worked = worked.0.saturating_sub(spun.0);
    for (class, (time, holders)) in spins {
        waits.push(Wait { on: format!("for the lock {class}"), time, held_by: ranked(holders, time) });
    }
    if queued > Nanos(0) {
        waits.push(Wait { on: "for a CPU".into(), time: queued, held_by: ranked(runners, queued) });
    }
    for (reason, (time, others)) in reasons {
        if time > Nanos(0) {
            waits.push(Wait { on: waits::wait(reason).to_owned(), time, held_by: ranked(others, time) });
        }
    }
    let explained = waits.iter().fold(worked, |sum, wait| sum + wait.time.0);
    let rest = Nanos(to.since(from).0.saturating_sub(explained));
    if rest > Nanos(0) {
        waits.push(Wait { on: UNTOLD.into(), time: rest, held_by: Vec::new() });
    }
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.time));
    let cause = match &noted.note {
        Note::SlowRequest(request) => Cause::Request(request.clone()),
        Note::HeldBack(held) => Cause::HeldBack(held.clone()),
    };
    Stall {
        count: 1,
        total: to.since(from),
        task: trace.tasks[task.0 as usize].clone(),
        from,
        to,
        cause,
        worked: Nanos(worked),
        waits,
        disks: look.disks(from, to),
        slice: slice.map(|(name, from, _)| (name, from)),
    }
}

/// The slices of a trace that overlap one stall.
struct Look<'a> {
    trace: &'a Trace,
    within: &'a [&'a Slice],
}

impl Look<'_> {
    fn name(&self, task: TaskId) -> &str {
        &self.trace.tasks[task.0 as usize]
    }

    /// Returns the innermost recorded function that a task was in at the moment `at`; none if no function was recorded.
    fn function_of(&self, task: TaskId, at: Nanos) -> Option<Func> {
        let is_in = |slice: &&&Slice| slice.from <= at && at < slice.to;
        let of = self.within.iter().filter(is_in).filter_map(|slice| match slice.what {
            Activity::Function { task: of, func } if of == task => Some((slice.to.since(slice.from), func)),
            _ => None,
        });
        of.min_by_key(|(time, _)| *time).map(|(_, func)| func)
    }

    /// Returns a task's name and, if recorded, the kernel function that the task was in at the moment `at`.
    fn words(&self, task: TaskId, at: Nanos) -> String {
        match self.function_of(task, at) {
            Some(func) => format!("{} (in {})", self.name(task), func.name()),
            None => self.name(task).to_owned(),
        }
    }

    /// Returns how long, between `from` and `to`, a task was neither on a CPU nor in a CPU's queue.
    fn off_cpu(&self, task: TaskId, from: Nanos, to: Nanos) -> Nanos {
        let is_on = |slice: &&&Slice| match slice.what {
            Activity::Runs { task: of, .. } | Activity::Queued { task: of } => of == task,
            _ => false,
        };
        let on = self.within.iter().filter(is_on).fold(0, |sum, slice| sum + overlap(slice, from, to).0);
        Nanos(to.since(from).0.saturating_sub(on))
    }

    /// Adds to `holders` the tasks on CPUs other than `cpu` that held a lock of the class `class` between `from` and
    /// `to`, each with the time for which it held a lock of this class between `from` and `to`.
    fn holders_of(&self, class: &str, cpu: usize, from: Nanos, to: Nanos, holders: &mut BTreeMap<String, Nanos>) {
        for hold in self.within {
            let Activity::LockHold { cpu: on, class: held } = hold.what else { continue };
            let time = overlap(hold, from, to);
            if on == cpu || held != class || time == Nanos(0) {
                continue;
            }
            let holder = self.within.iter().find_map(|slice| match slice.what {
                Activity::Runs { cpu: where_, task }
                    if where_ == on && slice.from <= hold.from && hold.from < slice.to =>
                {
                    Some(task)
                }
                _ => None,
            });
            let name = holder.map_or_else(|| format!("CPU {on}"), |task| self.words(task, hold.from));
            add(holders, name, time);
        }
    }

    /// Adds to `runners` the tasks that ran on any CPU between `from` and `to`, each with the time for which it ran.
    fn runners(&self, from: Nanos, to: Nanos, runners: &mut BTreeMap<String, Nanos>) {
        for slice in self.within {
            if let Activity::Runs { task, .. } = slice.what {
                add(runners, self.words(task, slice.from.max(from)), overlap(slice, from, to));
            }
        }
    }

    /// Adds to `others` the tasks that did the work for which `task` waited between `from` and `to`, each with the time
    /// that it spent on this work. The kind of the work follows from `reason`.
    fn others(&self, task: TaskId, reason: WaitReason, from: Nanos, to: Nanos, others: &mut BTreeMap<String, Nanos>) {
        let does: fn(Func) -> bool = match reason {
            WaitReason::DirectReclaimers
            | WaitReason::Reserve
            | WaitReason::Isolated
            | WaitReason::VmWriteout
            | WaitReason::NoProgress
            | WaitReason::Generation => |func| matches!(func, Func::DirectReclaim | Func::BalancePgdat),
            WaitReason::DirtyLimit => |func| func == Func::BalanceDirtyPages,
            // For these reasons no task is named: the disk's part is reported separately, a back-off concerns only the
            // task itself, and a trace does not show which task holds a page.
            WaitReason::PageLock
            | WaitReason::PageIo
            | WaitReason::PageWriteback
            | WaitReason::PageLatch
            | WaitReason::FileWriteback
            | WaitReason::DeviceQueue
            | WaitReason::RefusedWrites
            | WaitReason::FruitlessReclaim
            | WaitReason::Retry
            | WaitReason::OomKill
            | WaitReason::ReclaimPass
            | WaitReason::UnwrittenPages => return,
        };
        for slice in self.within {
            let Activity::Function { task: of, func } = slice.what else { continue };
            if of != task && does(func) {
                add(others, format!("{} (in {})", self.name(of), func.name()), overlap(slice, from, to));
            }
        }
    }

    /// Returns the work of each disk, in words: `sda: 3 reads of 24 pages and 40 writes of 1200 pages under way, the
    /// longest took 30 ms`.
    fn disks(&self, from: Nanos, to: Nanos) -> Vec<String> {
        /// The requests of one disk. The array has the number of requests and the number of their pages, first of
        /// reads, then of writes. The time is the duration of the longest request.
        #[derive(Default)]
        struct Done([(u64, u64); 2], Nanos);
        let mut disks: BTreeMap<u32, Done> = BTreeMap::new();
        for slice in self.within.iter().filter(|slice| overlap(slice, from, to) > Nanos(0)) {
            if let Activity::Request { disk, operation, pages, .. } = slice.what {
                let Done(counts, longest) = disks.entry(disk.0).or_default();
                let (requests, of_pages) = &mut counts[usize::from(operation == Operation::Write)];
                *requests += 1;
                *of_pages += pages;
                *longest = (*longest).max(slice.to.since(slice.from));
            }
        }
        let words = |(disk, Done([(reads, read), (writes, written)], longest)): (u32, Done)| {
            format!(
                "{}: {} of {} and {} of {} under way, the longest took {}",
                disk_name(disk),
                counted(reads, "read"),
                counted(read, "page"),
                counted(writes, "write"),
                counted(written, "page"),
                text::ms(longest)
            )
        };
        disks.into_iter().map(words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::note::{Met, Work};

    fn slice(from: u64, to: u64, what: Activity) -> Slice {
        Slice { from: Nanos(from), to: Nanos(to), what }
    }

    /// Makes the trace of a stall of 100 ns: the task works for 10 ns, spins for 20 ns for a lock that kswapd holds,
    /// waits for 30 ns in a CPU's queue behind kswapd, and pauses for 25 ns; for 15 ns the trace has no activity. The
    /// stall that is found must have these times, and the text about it must name them. Shorter stalls with the same
    /// main reason must join its group.
    #[test]
    fn a_stall_is_told_by_what_it_waited_for() {
        let (waiter, kswapd, disk) = (TaskId(0), TaskId(1), DeviceId(0));
        let request = SlowRequest {
            began: Nanos(100),
            order: Order(3),
            gfp: "movable, wait".into(),
            zone: "Normal".into(),
            is_served: true,
            work: Work {
                reclaims: 1,
                compactions: 0,
                scanned: 64,
                freed: 32,
                priority: 11,
                met: Met { freed: 32, used: 20, under_writeback: 12, ..Met::default() },
            },
        };
        let note = |at, began| Noted {
            at: Nanos(at),
            task: waiter,
            note: Note::SlowRequest(SlowRequest { began: Nanos(began), ..request.clone() }),
        };
        let trace = Trace {
            slices: vec![
                slice(90, 130, Activity::Runs { cpu: 0, task: waiter }),
                slice(105, 125, Activity::LockWait { cpu: 0, class: "lru" }),
                slice(80, 125, Activity::LockHold { cpu: 1, class: "lru" }),
                slice(130, 160, Activity::Queued { task: waiter }),
                slice(160, 185, Activity::Wait { task: waiter, reason: WaitReason::FruitlessReclaim }),
                slice(100, 200, Activity::Function { task: waiter, func: Func::DirectReclaim }),
                slice(50, 300, Activity::Runs { cpu: 1, task: kswapd }),
                slice(50, 300, Activity::Function { task: kswapd, func: Func::BalancePgdat }),
                slice(
                    150,
                    190,
                    Activity::Request {
                        disk,
                        operation: Operation::Write,
                        block: 1,
                        pages: 8,
                        done: Nanos(190),
                        has_failed: false,
                    },
                ),
            ],
            notes: vec![note(200, 100), note(400, 390)],
            tasks: vec!["anon 1".into(), "kswapd0".into()],
            cpus: 2,
            ..Trace::default()
        };
        let run = RunTrace { title: "3.10".into(), trace };
        let found = find(&run, Nanos(50), 10);
        assert_eq!((found.count, found.total, found.tasks), (1, Nanos(100), 1));
        let stall = &found.longest[0];
        assert_eq!((stall.worked, stall.slice), (Nanos(10), Some(("try_to_free_pages", Nanos(100)))));
        let waits: Vec<(&str, u64)> = stall.waits.iter().map(|wait| (&*wait.on, wait.time.0)).collect();
        assert_eq!(waits[0], ("for a CPU", 30));
        assert_eq!(waits[1], (waits::wait(WaitReason::FruitlessReclaim), 25));
        assert_eq!(waits[2..], [("for the lock lru", 20), (UNTOLD, 15)]);
        assert_eq!(waits.iter().map(|wait| wait.1).sum::<u64>() + stall.worked.0, 100);
        assert_eq!(stall.waits[2].held_by, [("kswapd0 (in balance_pgdat)".to_owned(), Nanos(20))]);
        assert!(
            stall.disks[0].starts_with("sda: 0 reads of 0 pages and 1 write of 8 pages under way"),
            "{:?}",
            stall.disks
        );
        let told = text(std::slice::from_ref(&found), None, report::Look::default());
        for words in ["order 3", "movable, wait", "20 used lately", "12 under writeback", "track `anon 1`"] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert_eq!(find(&run, Nanos(5), 1).count, 2);
        // A shorter stall of the same kind joins the group; one that waited for something else does not.
        let mut again = run.clone();
        let shorter = |at, reason| slice(at - 20, at, Activity::Wait { task: waiter, reason });
        again.trace.slices.extend([
            shorter(1000, WaitReason::FruitlessReclaim),
            shorter(2000, WaitReason::PageLock),
            shorter(3000, WaitReason::FruitlessReclaim),
        ]);
        again.trace.notes.extend([note(1000, 940), note(2000, 1970), note(3000, 2940)]);
        let grouped = find(&again, Nanos(30), 1);
        assert_eq!((grouped.count, grouped.groups, grouped.total), (4, 2, Nanos(250)));
        let [of_group] = grouped.longest.as_slice() else { panic!("{grouped:#?}") };
        assert_eq!((of_group.count, of_group.total, of_group.time()), (3, Nanos(220), Nanos(100)));
        let told = text(&[grouped], None, report::Look::default());
        assert!(told.contains("stood still 3 times for memory, 0.000 ms in all; the longest time 0.000 ms"), "{told}");
        let value: serde_json::Value = serde_json::from_str(&json(&[found])).unwrap();
        assert_eq!(value["runs"][0]["longest"][0]["asked"]["order"], 3);
    }
}
