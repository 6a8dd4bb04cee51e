//! Signs of memory over a period: the counters and levels that rules judge. A sign that no source provides is none, and
//! is not guessed.
//!
//! [`Signs::then`] adds the signs of the period that follows: each sign is combined by its meaning.

use super::usage::Usage;
use recordings::kernel_log::Log;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name of a sign (counter or level) that a rule needs and the input lacks.
pub type Missing = String;

/// Numbers of pages that one kind of reclaimer, kswapd or tasks, scanned and reclaimed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scan {
    /// Number of scanned pages; only scans of inactive lists count.
    pub scanned: Option<f64>,
    /// Number of pages that were reclaimed.
    pub stolen: Option<f64>,
}

impl Scan {
    /// Adds the pages of the following period, `later`. A period whose number of scanned pages is unknown is left out.
    /// The sum of reclaimed pages is known only if the number is known for each period that counts.
    fn then(&mut self, later: Self) {
        *self = match (self.scanned, later.scanned) {
            (Some(now), Some(later_scanned)) => Self {
                scanned: Some(now + later_scanned),
                stolen: self.stolen.zip(later.stolen).map(|(now, later)| now + later),
            },
            (None, Some(_)) => later,
            (_, None) => *self,
        };
    }
}

/// A zone at the end of the observed period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Zone {
    /// The zone's name in the kernel.
    pub name: String,
    /// Number of free pages.
    pub free: f64,
    /// The zone's marks, pages: min, low, high.
    pub marks: [f64; 3],
    /// Free blocks by order; empty if unknown.
    pub blocks: Vec<f64>,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The node's number in the kernel.
    pub name: String,
    /// Size of the node, pages: its managed pages or, if their number is unknown, the largest sum of free and used
    /// pages at a moment.
    pub pages: f64,
    /// Number of free pages on the node at the moment of the observed period when it was smallest.
    pub free: f64,
    /// Number of pages on the node that tasks scanned; none if the kernel does not count this by node.
    pub by_tasks: Option<f64>,
    /// Number of pages on the node that kswapd scanned; none if the kernel does not count this by node.
    pub by_kswapd: Option<f64>,
}

impl Node {
    /// Returns the number of pages scanned on the node by kswapd and tasks together.
    #[must_use]
    pub fn scanned(&self) -> f64 {
        self.by_tasks.unwrap_or(0.0) + self.by_kswapd.unwrap_or(0.0)
    }

    /// Extends the node's values by `later`, the node's values over the following period.
    fn then(&mut self, later: &Self) {
        self.pages = self.pages.max(later.pages);
        self.free = self.free.min(later.free);
        self.by_tasks = both(self.by_tasks, later.by_tasks, |now, later| now + later);
        self.by_kswapd = both(self.by_kswapd, later.by_kswapd, |now, later| now + later);
    }
}

/// The process that is examined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// The process's number.
    pub pid: u32,
    /// The process's number and name.
    pub name: String,
    /// The folder of the process's cgroup; none if the process is in no cgroup that has memory values.
    pub folder: Option<String>,
    /// Number of the process's major faults.
    pub major_faults: f64,
    /// The process's resident pages at the end of the observed period.
    pub resident: f64,
    /// Number of the process's resident pages at the end of the observed period minus that at its beginning.
    pub resident_grown: f64,
    /// The process's resident pages of files.
    pub resident_file: f64,
    /// Number of the process's pages that are in swap at the end of the observed period.
    pub swapped: f64,
}

/// A disk, with means over the observed period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disk {
    /// The disk's name.
    pub name: String,
    /// Share of the time in which the disk was busy, percent.
    pub busy_percent: Option<f64>,
    /// Mean time of a read request, including its wait in the queue, ms.
    pub read_wait_ms: Option<f64>,
    /// Mean time of a write request, including its wait in the queue, ms.
    pub write_wait_ms: Option<f64>,
}

/// A file system on a disk, at the end of the observed period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileSystem {
    /// The file system's mount point.
    pub mount: String,
    /// The file system's size, bytes.
    pub bytes: f64,
    /// Free space for users other than root, bytes.
    pub free_bytes: f64,
}

/// Counters of how often a cgroup was out of memory: at its limit, with nothing left to reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OutOfMemory {
    /// Number of allocations that were about to fail at the cgroup's limit.
    pub times: f64,
    /// Number of the cgroup's processes that were killed.
    pub kills: f64,
    /// Number of times that the cgroup was killed as a whole.
    pub group_kills: f64,
    /// True if, at the end of the observed period, a process in the cgroup waits for memory that nobody frees.
    pub is_waiting: bool,
}

impl OutOfMemory {
    /// Extends the observed period by the one that follows it. `later` has the counters of the same cgroup in that
    /// period.
    fn then(&mut self, later: &Self) {
        self.times += later.times;
        self.kills += later.kills;
        self.group_kills += later.group_kills;
        self.is_waiting = later.is_waiting;
    }
}

/// The limits and the protection of a cgroup (its bounds), and the numbers of events at them. A bound that is not set
/// (`max`) is infinite; an unknown bound is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Number of times that tasks of the cgroup exceeded `memory.high` and had to reclaim (`high` of `memory.events`).
    pub high_events: Option<f64>,
    /// Number of times that pages were reclaimed although `memory.low` protected them (`low` of `memory.events`).
    pub low_events: Option<f64>,
    /// Pages charged to the cgroup at the end of the observed period.
    pub used: Option<f64>,
    /// The cgroup's `memory.max`, pages.
    pub max: Option<f64>,
    /// The cgroup's `memory.high`, pages.
    pub high: Option<f64>,
    /// The cgroup's `memory.low`, pages.
    pub low: Option<f64>,
}

impl Bounds {
    /// Returns `self`; none if all bounds and all numbers of events in it are unknown.
    #[must_use]
    pub fn if_any(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }

    /// Returns by how much the cgroup exceeds `memory.high`, percent of `memory.high`; 0 if it does not, none if this
    /// is unknown.
    #[must_use]
    pub fn above_high_percent(&self) -> Option<f64> {
        let (used, high) = self.used.zip(self.high.filter(|high| high.is_finite() && *high > 0.0))?;
        Some((100.0 * (used - high) / high).max(0.0))
    }

    /// Returns the values over two successive periods: that of `self`, then that of `later`. Numbers of events are
    /// summed. Levels are those of `later`, or those of `self` if `later` does not have them.
    fn then(self, later: Self) -> Self {
        let sum = |now: Option<f64>, later: Option<f64>| both(now, later, |now, later| now + later);
        Self {
            high_events: sum(self.high_events, later.high_events),
            low_events: sum(self.low_events, later.low_events),
            used: later.used.or(self.used),
            max: later.max.or(self.max),
            high: later.high.or(self.high),
            low: later.low.or(self.low),
        }
    }
}

/// A summary of samples of dirty pages over the observed period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dirty {
    /// Share of samples in which enough pages were dirty or under writeback to throttle writers, percent.
    pub held_back_percent: f64,
    /// Largest number of pages that were dirty or under writeback at the same time, over the samples.
    pub most: f64,
    /// Number of dirty pages at which writers are throttled, as of the last sample. It lies halfway between the two
    /// dirty limits.
    pub from: f64,
    /// Number of pages that became dirty; none if this is not counted.
    pub dirtied: Option<f64>,
}

impl Dirty {
    /// Returns the summary of two successive periods: that of `self`, then that of `later`. `times` are the lengths of
    /// the two periods, s.
    fn then(self, later: Self, times: [f64; 2]) -> Self {
        let shares = [Some(self.held_back_percent), Some(later.held_back_percent)];
        Self {
            held_back_percent: weighted(shares, times).unwrap_or_default(),
            most: self.most.max(later.most),
            from: later.from,
            dirtied: both(self.dirtied, later.dirtied, |now, later| now + later),
        }
    }
}

/// The counters and levels of memory over a period. The sign of a counter is its growth over the period; the sign of a
/// level is in most cases the level at the end. A sign that is unknown is none or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signs {
    /// The length of the observed period, s.
    pub elapsed_s: Option<f64>,
    /// Numbers of pages that kswapd scanned and that it reclaimed.
    pub kswapd: Scan,
    /// Numbers of pages that tasks scanned and that they reclaimed, in direct reclaim.
    pub direct: Scan,
    /// CPU time of all kswapd threads, s.
    pub kswapd_cpu_s: Option<f64>,
    /// Number of pages scanned in each zone, by the zone's name; empty if unknown.
    pub scanned_by_zone: BTreeMap<String, f64>,
    /// Number of pages allocated in each zone, by the zone's name; empty if unknown.
    pub allocated_by_zone: BTreeMap<String, f64>,
    /// Number of direct reclaims (`allocstall`).
    pub stalls: Option<f64>,
    /// Number of all pages reclaimed. Pages reclaimed at the limits of cgroups are included if the kernel counts them.
    pub stolen_together: Option<f64>,
    /// Number of all pages scanned. Pages scanned at the limits of cgroups are included if the kernel counts them.
    pub scanned_together: Option<f64>,
    /// Number of pages on active lists that were scanned (`pgrefill`).
    pub refilled: Option<f64>,
    /// Number of pages that were moved to the tail of their list when their writeback ended (`pgrotated`).
    pub rotated: Option<f64>,
    /// Time that tasks spent in direct reclaim, s, summed over the tasks in which it was measured.
    pub direct_s: Option<f64>,
    /// Share of the observed period in which some task waited for memory (PSI), percent.
    pub some_waited_percent: Option<f64>,
    /// Share of the observed period in which all tasks with work waited for memory (PSI), percent.
    pub all_waited_percent: Option<f64>,
    /// Pages read from swap.
    pub swapped_in: Option<f64>,
    /// Pages written to swap.
    pub swapped_out: Option<f64>,
    /// Number of pages filled with zeroes that came back from swap without a read. `swapped_in` does not include them.
    pub zeroes_in: Option<f64>,
    /// Number of pages filled with zeroes that left memory for swap without a write. `swapped_out` does not include
    /// them.
    pub zeroes_out: Option<f64>,
    /// Number of anonymous pages that refaulted; none if they are not counted, as by kernels before Linux 5.9.
    pub refaulted_anon: Option<f64>,
    /// Number of file pages that refaulted.
    pub refaulted_file: Option<f64>,
    /// Number of refaulted file pages that had been evicted so recently that they became active at once.
    pub activated_file: Option<f64>,
    /// Number of major faults.
    pub major_faults: Option<f64>,
    /// Number of faults that got a huge page.
    pub huge_got: Option<f64>,
    /// Number of faults that wanted a huge page and got none.
    pub huge_failed: Option<f64>,
    /// Number of direct compactions.
    pub compactions: Option<f64>,
    /// Number of direct compactions after which the task got a block of the requested order.
    pub compactions_succeeded: Option<f64>,
    /// Number of direct compactions after which the task got no block of the requested order.
    pub compactions_failed: Option<f64>,
    /// The zones of memory, if known.
    pub zones: Option<Vec<Zone>>,
    /// The nodes of memory; empty if unknown.
    pub nodes: Vec<Node>,
    /// Number of times that a task reclaimed memory on its own node before it tried other nodes
    /// (`vm.zone_reclaim_mode`).
    pub node_reclaims: Option<f64>,
    /// The use of memory, if known.
    pub usage: Option<Usage>,
    /// Mean number of tasks that waited for a disk or slept uninterruptibly (`b` of `vmstat`, `procs_blocked`).
    pub blocked: Option<f64>,
    /// The numbers of dirty pages, if known.
    pub dirty: Option<Dirty>,
    /// The disks of the computer; empty if unknown.
    pub disks: Vec<Disk>,
    /// Writable file systems on disks, if known.
    pub file_systems: Option<Vec<FileSystem>>,
    /// Number of file pages that reclaim wrote itself.
    pub file_writes: Option<f64>,
    /// Number of pages under writeback that reclaim met, and marked so that they are freed soon after their write ends.
    pub met_unwritten: Option<f64>,
    /// The size of swap, and the smallest part of it that was free during the period, pages.
    pub swap: Option<[f64; 2]>,
    /// Largest number of pages in swap, for sources that report this number.
    pub swap_used: Option<f64>,
    /// Number of times that each cgroup reached its limit, by the cgroup's name. Cgroups that did not reach their
    /// limits may be missing.
    pub at_limit: Option<BTreeMap<String, f64>>,
    /// Counters of the cgroups that needed memory and found none to reclaim, by name; none if no cgroup has such
    /// counters.
    pub out_of_memory: Option<BTreeMap<String, OutOfMemory>>,
    /// The cgroup's folder, if the signs are those of a cgroup; none for the whole computer.
    pub group: Option<String>,
    /// The cgroup's limits and protection, if the signs are those of a cgroup and at least one of these bounds is
    /// known.
    pub bounds: Option<Bounds>,
    /// The process that is diagnosed, if the diagnosis is about one process. The other fields then describe the
    /// process's cgroup, or the whole computer if the cgroup does not count reclaim.
    pub process: Option<Process>,
    /// The signs of each cgroup, from the cgroup's own counters, by the cgroup's name.
    pub groups: BTreeMap<String, Signs>,
    /// True if the cgroups are of version 1, whose files have other names.
    pub is_v1: bool,
    /// Names of files and commands whose contents were given: a next step that shows the same would show nothing new.
    pub given: BTreeSet<&'static str>,
    /// The known settings, by the names that `sysctl` or the files of a cgroup use.
    pub settings: BTreeMap<String, String>,
    /// Number of processes killed for lack of memory.
    pub killed: Option<f64>,
    /// Number of requests for memory that failed because there was neither a free page nor a page to reclaim. Only the
    /// engine of this project counts them, because it kills no programs.
    pub exhausted: Option<f64>,
    /// The memory reports of the kernel log, if there is one.
    pub log: Option<Arc<Log>>,
    /// Slab caches, each with its memory in pages, the largest first; empty if unknown.
    pub slabs: Vec<(String, f64)>,
    /// Processes, each with its resident memory in pages, the largest first; empty if unknown.
    pub processes: Vec<(String, f64)>,
    /// The largest share of a CPU that a kswapd takes, percent, as `top` or `ps` shows it; none if it is not shown.
    pub kswapd_shown_percent: Option<f64>,
    /// True if the counters are totals since boot, or since a cgroup was made, and not growth between two readings.
    pub is_since_start: bool,
    /// Assumptions, in words, about facts that the input does not state.
    pub assumed: Vec<String>,
    /// Files or facts that are missing in the input, each in words.
    pub missing: Vec<String>,
}

impl Signs {
    /// Extends the signs by `later`, the signs over the following period. Counters add up. A share becomes the mean of
    /// its two values, weighted by time. A level becomes the later, the smaller or the larger of its two values,
    /// depending on the sign. A sign that one period lacks is taken from the other.
    pub fn then(&mut self, later: &Self) {
        // The pattern has no `..`, so that whoever adds a sign must say how it is joined.
        let Self {
            elapsed_s,
            kswapd,
            direct,
            kswapd_cpu_s,
            scanned_by_zone,
            allocated_by_zone,
            stalls,
            stolen_together,
            scanned_together,
            refilled,
            rotated,
            direct_s,
            some_waited_percent,
            all_waited_percent,
            swapped_in,
            swapped_out,
            zeroes_in,
            zeroes_out,
            refaulted_anon,
            refaulted_file,
            activated_file,
            major_faults,
            huge_got,
            huge_failed,
            compactions,
            compactions_succeeded,
            compactions_failed,
            zones,
            nodes,
            node_reclaims,
            usage,
            blocked,
            dirty,
            disks,
            file_systems,
            file_writes,
            met_unwritten,
            swap,
            swap_used,
            at_limit,
            out_of_memory,
            group,
            bounds,
            process,
            groups,
            is_v1,
            given,
            settings,
            killed,
            exhausted,
            log,
            slabs,
            processes,
            kswapd_shown_percent,
            is_since_start,
            assumed,
            missing,
        } = later;
        let times = [self.elapsed_s, *elapsed_s].map(|time| time.unwrap_or(0.0));
        let mean = |now: &mut Option<f64>, later: &Option<f64>| *now = weighted([*now, *later], times);
        mean(&mut self.some_waited_percent, some_waited_percent);
        mean(&mut self.all_waited_percent, all_waited_percent);
        mean(&mut self.blocked, blocked);
        self.dirty = match (self.dirty, *dirty) {
            (Some(now), Some(later)) => Some(now.then(later, times)),
            (now, later) => later.or(now),
        };
        for disk in disks {
            match self.disks.iter_mut().find(|it| it.name == disk.name) {
                Some(now) => {
                    mean(&mut now.busy_percent, &disk.busy_percent);
                    mean(&mut now.read_wait_ms, &disk.read_wait_ms);
                    mean(&mut now.write_wait_ms, &disk.write_wait_ms);
                }
                None => self.disks.push(disk.clone()),
            }
        }
        self.kswapd.then(*kswapd);
        self.direct.then(*direct);
        for (now, later) in [
            (&mut self.elapsed_s, elapsed_s),
            (&mut self.kswapd_cpu_s, kswapd_cpu_s),
            (&mut self.stalls, stalls),
            (&mut self.stolen_together, stolen_together),
            (&mut self.scanned_together, scanned_together),
            (&mut self.refilled, refilled),
            (&mut self.rotated, rotated),
            (&mut self.node_reclaims, node_reclaims),
            (&mut self.direct_s, direct_s),
            (&mut self.swapped_in, swapped_in),
            (&mut self.swapped_out, swapped_out),
            (&mut self.zeroes_in, zeroes_in),
            (&mut self.zeroes_out, zeroes_out),
            (&mut self.refaulted_anon, refaulted_anon),
            (&mut self.refaulted_file, refaulted_file),
            (&mut self.activated_file, activated_file),
            (&mut self.major_faults, major_faults),
            (&mut self.huge_got, huge_got),
            (&mut self.huge_failed, huge_failed),
            (&mut self.compactions, compactions),
            (&mut self.compactions_succeeded, compactions_succeeded),
            (&mut self.compactions_failed, compactions_failed),
            (&mut self.file_writes, file_writes),
            (&mut self.met_unwritten, met_unwritten),
            (&mut self.killed, killed),
            (&mut self.exhausted, exhausted),
        ] {
            *now = both(*now, *later, |now, later| now + later);
        }
        for (now, later) in
            [(&mut self.scanned_by_zone, scanned_by_zone), (&mut self.allocated_by_zone, allocated_by_zone)]
        {
            add_by_name(now, later, |now, later| *now += later);
        }
        if let Some(later) = at_limit {
            add_by_name(self.at_limit.get_or_insert_default(), later, |now, later| *now += later);
        }
        if let Some(later) = out_of_memory {
            add_by_name(self.out_of_memory.get_or_insert_default(), later, OutOfMemory::then);
        }
        self.bounds = both(self.bounds, *bounds, Bounds::then);
        for node in nodes {
            match self.nodes.iter_mut().find(|it| it.name == node.name) {
                Some(now) => now.then(node),
                None => self.nodes.push(node.clone()),
            }
        }
        add_by_name(&mut self.groups, groups, Self::then);
        add_by_name(&mut self.settings, settings, String::clone_from);
        if process.is_some() {
            self.process.clone_from(process);
        }
        if group.is_some() {
            self.group.clone_from(group);
        }
        if zones.is_some() {
            self.zones.clone_from(zones);
        }
        match (&mut self.usage, usage) {
            (Some(now), Some(later)) => now.then(later),
            (now, later) => *now = now.take().or_else(|| later.clone()),
        }
        let least = |now: [f64; 2], later: [f64; 2]| [later[0], now[1].min(later[1])];
        self.swap = both(self.swap, *swap, least);
        self.swap_used = both(self.swap_used, *swap_used, f64::max);
        for later in file_systems.iter().flatten() {
            let all = self.file_systems.get_or_insert_default();
            match all.iter_mut().find(|it| it.mount == later.mount) {
                Some(now) => now.free_bytes = now.free_bytes.min(later.free_bytes),
                None => all.push(later.clone()),
            }
        }
        if log.is_some() {
            self.log.clone_from(log);
        }
        for (now, later) in [(&mut self.slabs, slabs), (&mut self.processes, processes)] {
            if !later.is_empty() {
                now.clone_from(later);
            }
        }
        self.kswapd_shown_percent = kswapd_shown_percent.or(self.kswapd_shown_percent);
        self.is_since_start &= is_since_start;
        self.is_v1 |= is_v1;
        self.given.extend(given);
        for (now, later) in [(&mut self.assumed, assumed), (&mut self.missing, missing)] {
            let new: Vec<String> = later.iter().filter(|it| !now.contains(it)).cloned().collect();
            now.extend(new);
        }
    }

    /// Returns the number of all reclaimed pages: the sum of the numbers for kswapd and for tasks, or
    /// [`Signs::stolen_together`] if it is larger.
    #[must_use]
    pub fn stolen(&self) -> Option<f64> {
        let apart = self.kswapd.stolen.zip(self.direct.stolen).map(|(kswapd, direct)| kswapd + direct);
        match (apart, self.stolen_together) {
            (Some(apart), Some(together)) => Some(apart.max(together)),
            (apart, together) => apart.or(together),
        }
    }

    /// Returns the smallest share of memory that was free during the period, percent. For a cgroup, returns the
    /// smallest share of its limit that was not used.
    #[must_use]
    pub fn free_share(&self) -> Option<f64> {
        let usage = self.usage.as_ref()?;
        Some(100.0 * usage.least.free? / usage.total().filter(|pages| *pages > 0.0)?)
    }

    /// Returns words for the memory that the programs may use: `memory`, or, if the signs are those of a cgroup, `the
    /// limit of their cgroup`.
    #[must_use]
    pub fn memory_of(&self) -> &'static str {
        if self.group.is_some() { "the limit of their cgroup" } else { "memory" }
    }

    /// Returns the length of the observed period, s.
    ///
    /// # Errors
    /// When the length is unknown or 0.
    pub fn seconds(&self) -> Result<f64, Missing> {
        self.elapsed_s.filter(|time| *time > 0.0).ok_or_else(|| "elapsed time".to_owned())
    }
}

/// Returns the values of two periods, joined by `join`. If one value is missing, returns the other.
fn both<T>(now: Option<T>, later: Option<T>, join: impl FnOnce(T, T) -> T) -> Option<T> {
    match (now, later) {
        (Some(now), Some(later)) => Some(join(now, later)),
        (now, later) => now.or(later),
    }
}

/// Returns the mean of the values of two periods, weighted by the lengths of the periods. If one value is missing,
/// returns the other.
fn weighted(values: [Option<f64>; 2], times: [f64; 2]) -> Option<f64> {
    let [now, later] = values;
    let all = times[0] + times[1];
    both(now, later, |now, later| if all > 0.0 { (now * times[0] + later * times[1]) / all } else { later })
}

fn add_by_name<T: Clone>(now: &mut BTreeMap<String, T>, later: &BTreeMap<String, T>, add: impl Fn(&mut T, &T)) {
    for (name, value) in later {
        match now.get_mut(name) {
            Some(known) => add(known, value),
            None => drop(now.insert(name.clone(), value.clone())),
        }
    }
}

/// Returns the value of a sign (counter or level) that a rule needs.
///
/// # Errors
/// When the value is none. The error is the name of the sign.
pub fn need(sign: Option<f64>, name: &str) -> Result<f64, Missing> {
    sign.ok_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sign_is_added_as_it_means() {
        let mut first = Signs {
            elapsed_s: Some(1.0),
            kswapd: Scan { scanned: Some(10.0), stolen: Some(5.0) },
            swapped_in: Some(100.0),
            some_waited_percent: Some(40.0),
            swap: Some([90.0, 10.0]),
            at_limit: Some([("/a".to_owned(), 1.0)].into()),
            disks: vec![Disk { name: "sda".into(), busy_percent: Some(100.0), ..Disk::default() }],
            assumed: vec!["x".into()],
            ..Signs::default()
        };
        let later = Signs {
            elapsed_s: Some(3.0),
            kswapd: Scan { scanned: Some(20.0), stolen: None },
            swapped_in: Some(50.0),
            refaulted_file: Some(7.0),
            some_waited_percent: Some(0.0),
            swap: Some([90.0, 20.0]),
            at_limit: Some([("/a".to_owned(), 2.0), ("/b".to_owned(), 3.0)].into()),
            disks: vec![Disk {
                name: "sda".into(),
                busy_percent: Some(0.0),
                write_wait_ms: Some(2.0),
                ..Disk::default()
            }],
            assumed: vec!["x".into()],
            ..Signs::default()
        };
        first.then(&later);
        let both = Signs {
            elapsed_s: Some(4.0),
            // Only one of the two times knows reclaimed pages by reclaimer.
            kswapd: Scan { scanned: Some(30.0), stolen: None },
            swapped_in: Some(150.0),
            refaulted_file: Some(7.0),
            some_waited_percent: Some(10.0),
            swap: Some([90.0, 10.0]),
            at_limit: Some([("/a".to_owned(), 3.0), ("/b".to_owned(), 3.0)].into()),
            disks: vec![Disk {
                name: "sda".into(),
                busy_percent: Some(25.0),
                write_wait_ms: Some(2.0),
                ..Disk::default()
            }],
            assumed: vec!["x".into()],
            ..Signs::default()
        };
        assert_eq!(first, both);
    }
}
