//! Kernel logs: what `dmesg`, the console, syslog and `journalctl -k` show, of kernels 2.6.32 to 6.18.
//!
//! [`read`] takes out of a log what tells of memory: reports of the killer and of allocations that failed, with all that the kernel printed
//! of zones and processes; processes killed; tasks that were blocked, and CPUs that were stuck. Anything else is passed over. A report may
//! lack lines, begin late or end early: what is not there is none.
//!
//! [`mod@line`] takes off what loggers put before a line, [`gfp`] says what a request may take, [`killers`] reads lines of killers that are
//! no part of the kernel, which stand in the same logs.
//!
//! Next: [`mod@line`].

pub mod gfp;
pub mod killers;
pub mod line;
pub mod samples;

use gfp::{Gfp, ZoneKind};
use killers::{Eviction, Killers};
use line::{Line, lines};
use std::collections::{BTreeMap, BTreeSet};

/// Numbers by their names, as the kernel printed them.
pub type Numbers = BTreeMap<String, u64>;

/// The contents of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Reports, in order.
    pub reports: Vec<Report>,
    /// Processes that were killed for want of memory, of which no report is there.
    pub kills: Vec<Kill>,
    /// The victims of killers of user space.
    pub evictions: Vec<Eviction>,
    /// Tasks that slept so long that the kernel told of it.
    pub blocked: Vec<Blocked>,
    /// CPUs on which one task ran so long that the kernel told of it.
    pub stuck: Vec<Stuck>,
    /// The kernel's release, where it is told.
    pub release: Option<String>,
}

impl Log {
    /// Adds another part of a log, or another log of the same computer.
    pub fn extend(&mut self, later: Self) {
        self.reports.extend(later.reports);
        self.kills.extend(later.kills);
        self.evictions.extend(later.evictions);
        self.blocked.extend(later.blocked);
        self.stuck.extend(later.stuck);
        self.release = self.release.take().or(later.release);
    }
}

/// The reason for which a report was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The killer was called.
    OutOfMemory,
    /// A request failed.
    Failure,
    /// A request waited for so many ms; 4.10 to 4.14 told of that.
    Stalled(u64),
    /// Somebody asked for it (SysRq `m`), or its beginning is not in the log.
    Shown,
}

/// A report of the kernel on memory at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The reason for which it was printed.
    pub kind: Kind,
    /// The line where it begins, from 1.
    pub line: usize,
    /// The time, as it was printed.
    pub at: Option<String>,
    /// The task that asked for memory.
    pub task: Option<String>,
    /// The memory that its request may take.
    pub gfp: Option<Gfp>,
    /// The order of its request; none where it is not told, and -1 of a killer that was called by hand.
    pub order: Option<i32>,
    /// Nodes that the request may take from; none where all.
    pub nodes: Option<BTreeSet<u32>>,
    /// The reason for which nodes are left out: `CONSTRAINT_CPUSET`, `CONSTRAINT_MEMORY_POLICY`, `CONSTRAINT_MEMCG`.
    pub constraint: Option<String>,
    /// The cgroup at whose limit it was.
    pub cgroup: Option<CgroupReport>,
    /// Counters of the computer, pages: `free`, `active_anon`, `free_cma`.
    pub counters: Numbers,
    /// Zones with managed pages.
    pub zones: Vec<ZoneReport>,
    /// Figures that lines of nodes alone tell, all nodes together, KiB: `kernel_stack`, `pagetables`.
    pub node_kib: Numbers,
    /// Pools of huge pages.
    pub huge: Vec<HugePages>,
    /// Swap and what is free of it, KiB.
    pub swap: [Option<u64>; 2],
    /// Totals in pages: `RAM`, `reserved`, `HighMem/MovableOnly`, `cma reserved`, `hwpoisoned`.
    pub pages: Numbers,
    /// Processes that could be killed.
    pub tasks: Vec<Task>,
    /// Slab caches that cannot be reclaimed, with what they hold, KiB.
    pub slabs: BTreeMap<String, u64>,
    /// Processes that were killed for it.
    pub kills: Vec<Kill>,
    /// True where the kernel stopped, since there was nobody to kill.
    pub has_panicked: bool,
}

/// The part of a report on a cgroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupReport {
    /// The cgroup whose limit it was.
    pub limited: Option<String>,
    /// The cgroup of the process that was killed.
    pub of_task: Option<String>,
    /// Usage, limit and failures by what is limited: `memory`, `swap`, `memory+swap`, `kmem`; KiB.
    pub limits: BTreeMap<String, Limit>,
    /// Its statistics: bytes, or events.
    pub stats: Numbers,
}

/// Something that is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Memory in use, KiB.
    pub usage_kib: u64,
    /// The most that may be in use, KiB; none without a limit.
    pub limit_kib: Option<u64>,
    /// The number of requests that met the limit.
    pub failures: u64,
}

/// A zone.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneReport {
    /// Its node.
    pub node: u32,
    /// Its kind.
    pub kind: ZoneKind,
    /// Sizes, KiB: `free`, `min`, `boost`, `present`, `free_cma`, `reserved_highatomic`.
    pub kib: Numbers,
    /// Pages that it keeps from requests that could take from a higher zone, by that zone.
    pub reserve: Vec<u64>,
    /// Free blocks by size.
    pub blocks: Vec<Blocks>,
}

impl ZoneReport {
    /// A size, KiB; 0 where it is not told.
    #[must_use]
    pub fn kib(&self, name: &str) -> u64 {
        self.kib.get(name).copied().unwrap_or(0)
    }
}

/// Free blocks of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Their size, KiB.
    pub kib: u64,
    /// The number of free blocks of the size.
    pub count: u64,
    /// The kinds of pages among them, a letter each: `UME`; empty where kernels before 3.9 do not tell.
    pub kinds: String,
}

/// A pool of huge pages of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HugePages {
    /// All, in pages of that size.
    pub total: u64,
    /// Huge pages that nobody has.
    pub free: u64,
    /// Their size, KiB.
    pub size_kib: u64,
}

/// A process that could be killed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Its number.
    pub pid: u64,
    /// Its name.
    pub name: String,
    /// Pages that it has in memory.
    pub rss_pages: u64,
    /// Pages that it has in swap.
    pub swap_pages: u64,
    /// Bytes of its page tables; none where kernels count other things.
    pub page_table_bytes: Option<u64>,
}

/// A process that was killed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kill {
    /// The line.
    pub line: usize,
    /// Its number.
    pub pid: u64,
    /// Its name.
    pub name: String,
    /// Its memory, KiB, where that is told: `anon-rss`, `file-rss`, `shmem-rss`, `total-vm`, `pgtables`.
    pub kib: Numbers,
    /// True for a process that was killed at the limit of a cgroup.
    pub is_of_cgroup: bool,
}

impl Kill {
    /// Returns its resident memory, KiB; none where that is not told.
    #[must_use]
    pub fn rss_kib(&self) -> Option<u64> {
        let parts = ["anon-rss", "file-rss", "shmem-rss"].iter().filter_map(|name| self.kib.get(*name));
        parts.copied().reduce(|sum, part| sum + part)
    }
}

/// A task that slept for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The line.
    pub line: usize,
    /// Its name and number: `jbd2/sda1-8:312`.
    pub task: String,
    /// For how long at least, s.
    pub seconds: u64,
    /// True where its trace goes through reclaim.
    pub is_in_reclaim: bool,
}

/// A CPU on which one task ran for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The line.
    pub line: usize,
    /// Its name and number.
    pub task: String,
    /// For how long, s.
    pub seconds: u64,
    /// True where its trace goes through reclaim, or it is a task of reclaim.
    pub is_in_reclaim: bool,
}

impl Report {
    fn new(kind: Kind, line: Line<'_>) -> Self {
        Self {
            kind,
            line: line.number,
            at: line.at.map(str::to_owned),
            task: None,
            gfp: None,
            order: None,
            nodes: None,
            constraint: None,
            cgroup: None,
            counters: Numbers::new(),
            zones: Vec::new(),
            node_kib: Numbers::new(),
            huge: Vec::new(),
            swap: [None; 2],
            pages: Numbers::new(),
            tasks: Vec::new(),
            slabs: BTreeMap::new(),
            kills: Vec::new(),
            has_panicked: false,
        }
    }

    /// KiB of a page: the smallest block of the buddy system; 4 where no block is told. Pages have 4 to 64 KiB.
    #[must_use]
    pub fn page_kib(&self) -> u64 {
        let smallest = self.zones.iter().find_map(|zone| zone.blocks.first()).map(|blocks| blocks.kib);
        smallest.filter(|kib| (4..=64).contains(kib)).unwrap_or(4)
    }

    fn cgroup(&mut self) -> &mut CgroupReport {
        self.cgroup.get_or_insert_default()
    }

    /// Returns whether it has the lines behind `Mem-Info:`.
    fn has_memory(&self) -> bool {
        !self.counters.is_empty() || !self.zones.is_empty()
    }

    /// The zone of a name on a node, which is made where it is new.
    fn zone(&mut self, node: u32, kind: ZoneKind) -> &mut ZoneReport {
        let place = self.zones.iter().position(|zone| (zone.node, zone.kind) == (node, kind)).unwrap_or_else(|| {
            self.zones.push(ZoneReport { node, kind, kib: Numbers::new(), reserve: Vec::new(), blocks: Vec::new() });
            self.zones.len() - 1
        });
        &mut self.zones[place]
    }
}

/// Words of lines that tell of memory.
const SIGNS: [&str; 10] = [
    " invoked oom-killer:",
    "page allocation failure",
    "page allocation stalls for",
    "Out of memory: Kill",
    "Memory cgroup out of memory: Kill",
    "oom-kill:constraint=",
    "Mem-Info:",
    "oom_reaper: reaped process",
    "INFO: task ",
    "soft lockup - CPU#",
];

/// Returns whether a line is of a kernel log, and tells of memory.
#[must_use]
pub fn tells(line: &str) -> bool {
    SIGNS.iter().chain(&killers::SIGNS).any(|sign| line.contains(sign))
}

/// Returns whether a line is surely of a log that has begun: one with a time, or one of a report that other texts have too.
#[must_use]
pub fn holds(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (name, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_pair = words.next().is_none() && value.parse::<u64>().is_ok();
    // Statistics of a cgroup; `/proc/vmstat` begins otherwise.
    line::has_time(line) || is_pair && !name.starts_with("nr_")
}

/// The table whose lines follow, for lines that have no word of their own.
#[derive(Clone, Copy, PartialEq)]
enum Table {
    None,
    /// Statistics of a cgroup, `anon 4096`.
    CgroupStats,
    /// `kmalloc-96   1234KB   1240KB`.
    Slabs,
}

/// Reads a log.
#[must_use]
pub fn read(text: &str) -> Log {
    read_lines((1..).zip(text.lines()))
}

/// Reads lines of a log, each with its number.
#[must_use]
pub fn read_lines<'a>(numbered: impl IntoIterator<Item = (usize, &'a str)>) -> Log {
    let mut reader = Reader::default();
    lines(numbered).for_each(|line| reader.line(line));
    reader.end_report();
    reader.log
}

#[derive(Default)]
struct Reader {
    log: Log,
    report: Option<Report>,
    table: Option<Table>,
    columns: Vec<String>,
    /// The trace that is being printed belongs to the last of these, up to a line.
    trace_of: Option<(Trace, usize)>,
    last_zone: Option<(u32, ZoneKind)>,
    killers: Killers,
}

#[derive(Clone, Copy, PartialEq)]
enum Trace {
    Blocked,
    Stuck,
}

/// Lines of a trace, at most: registers, and a stack of some dozens of calls.
const TRACE_LINES: usize = 80;

/// Functions of which one in a trace says that the task reclaims, or waits for those who do.
const OF_RECLAIM: [&str; 9] = [
    "try_to_free_pages",
    "try_to_free_mem_cgroup_pages",
    "balance_pgdat",
    "shrink_node",
    "shrink_zone",
    "shrink_lruvec",
    "shrink_inactive_list",
    "try_to_compact_pages",
    "throttle_direct_reclaim",
];

impl Reader {
    fn end_report(&mut self) {
        self.log.reports.extend(self.report.take());
        (self.table, self.last_zone) = (None, None);
    }

    fn begin(&mut self, kind: Kind, line: Line<'_>) -> &mut Report {
        self.end_report();
        self.trace_of = None;
        self.report.insert(Report::new(kind, line))
    }

    fn line(&mut self, line: Line<'_>) {
        let text = line.text;
        if self.begins_report(line) || self.tells_of_stuck(line) || self.tells_of_kill(line) {
            return;
        }
        // Within a report no other line is of one.
        if self.killers.take(line, &mut self.log.evictions) {
            return;
        }
        if let Some(release) = release_of(text) {
            self.log.release.get_or_insert_with(|| release.to_owned());
        }
        if text.starts_with("Mem-Info:") && self.report.as_ref().is_none_or(Report::has_memory) {
            self.begin(Kind::Shown, line);
        }
        self.trace(line);
        let Some(report) = &mut self.report else { return };
        match self.table.unwrap_or(Table::None) {
            Table::CgroupStats if cgroup_stat(report, text) => return,
            Table::Slabs if slab(report, text) => return,
            _ => self.table = None,
        }
        if text.starts_with("Kernel panic") {
            report.has_panicked = text.contains("memory");
        } else if let Some(stats) = text.strip_prefix("Memory cgroup stats") {
            self.table = Some(Table::CgroupStats);
            // Version 1 told them on the same line, behind the name: ` for /a: cache:0KB rss:8KB`.
            // It told them of each cgroup below, without what is in those below that.
            for (name, kib) in stats.split_whitespace().filter_map(sized) {
                *report.cgroup().stats.entry(name.to_owned()).or_default() += kib * 1024;
            }
        } else if text.starts_with("Unreclaimable slab info") {
            self.table = Some(Table::Slabs);
        } else if let Some(rest) = text.strip_prefix("oom-kill:") {
            constraint(report, rest);
        } else if let Some(rest) = text.strip_prefix("Task in ") {
            if let Some((task, limited)) = rest.split_once(" killed as a result of limit of ") {
                report.cgroup().of_task = Some(task.to_owned());
                report.cgroup().limited = Some(limited.to_owned());
            }
        } else if text.starts_with('[') && text.contains("total_vm") {
            let columns = text.split_once(']').map_or("", |(_, columns)| columns);
            self.columns = columns.split_whitespace().map(str::to_owned).collect();
        } else if let Some(task) = task(text, &self.columns) {
            report.tasks.push(task);
        } else if let Some(limited) = limit(text) {
            report.cgroup().limits.insert(limited.0.to_owned(), limited.1);
        } else if let Some(huge) = huge_pages(text) {
            report.huge.push(huge);
        } else if let Some(rest) = text.strip_prefix("lowmem_reserve[]:") {
            if let Some((node, kind)) = self.last_zone {
                report.zone(node, kind).reserve = rest.split_whitespace().filter_map(counted).collect();
            }
        } else if let Some(zone) = zone(report, text) {
            self.last_zone = Some(zone);
        } else if let Some(mems) = text.split_once("mems_allowed=").map(|(_, mems)| mems) {
            report.nodes = report.nodes.take().or_else(|| nodes(mems.split(',').next().unwrap_or(mems)));
        } else {
            totals(report, text);
        }
    }

    /// Begins a report, if the line does.
    fn begins_report(&mut self, line: Line<'_>) -> bool {
        let text = line.text;
        let (task, kind, request) = if let Some((task, request)) = text.split_once(" invoked oom-killer:") {
            (task, Kind::OutOfMemory, request)
        } else if let Some((task, request)) = text.split_once(": page allocation failure") {
            (task, Kind::Failure, request)
        } else if let Some((task, request)) = text.split_once(": page allocation stalls for ") {
            let ms = request.split("ms").next().and_then(|word| word.parse().ok()).unwrap_or(0);
            (task, Kind::Stalled(ms), request)
        } else {
            return false;
        };
        let report = self.begin(kind, line);
        report.task = Some(task.trim().to_owned());
        // Before 4.10 the order came last, before 3.x behind a point: `. order:1, mode:0x20`.
        let value = |names: [&str; 2]| {
            names.iter().find_map(|name| {
                let (_, rest) = request.split_once(name)?;
                Some(rest.split([',', ' ']).next().unwrap_or(rest))
            })
        };
        report.order = value(["order=", "order:"]).and_then(|word| word.parse().ok());
        report.gfp = value(["gfp_mask=", "mode:"]).and_then(Gfp::read);
        report.nodes = request.split_once("nodemask=").and_then(|(_, mask)| nodes_until(mask, &[", ", ",cpuset"]));
        if let Some((_, mems)) = request.split_once("mems_allowed=") {
            report.nodes = report.nodes.take().or_else(|| nodes(mems));
        }
        true
    }

    /// Notes a task that was blocked, or a CPU that was stuck, if the line tells of one.
    fn tells_of_stuck(&mut self, line: Line<'_>) -> bool {
        let text = line.text;
        // `INFO: task a:12 blocked for more than 120 seconds.`, in newer kernels `blocked in I/O wait for more than`.
        let of_task = text.strip_prefix("INFO: task ").and_then(|rest| rest.split_once(" blocked "));
        if let Some((task, rest)) = of_task
            && let Some((_, seconds)) = rest.split_once("for more than ")
        {
            let (task, seconds) = (task.to_owned(), first_number(seconds).unwrap_or(0));
            self.log.blocked.push(Blocked { line: line.number, task, seconds, is_in_reclaim: false });
            self.trace_of = Some((Trace::Blocked, line.number + TRACE_LINES));
            return true;
        }
        let Some((_, rest)) = text.split_once("soft lockup - CPU#") else { return false };
        let seconds = rest.split_once("stuck for ").and_then(|(_, time)| first_number(time)).unwrap_or(0);
        let task = rest.split_once('[').map_or("", |(_, task)| task.trim_end_matches(']')).to_owned();
        let is_in_reclaim = task.starts_with("kswapd") || task.starts_with("kcompactd");
        self.log.stuck.push(Stuck { line: line.number, task, seconds, is_in_reclaim });
        self.trace_of = Some((Trace::Stuck, line.number + TRACE_LINES));
        true
    }

    /// Looks for reclaim in a line of a trace.
    fn trace(&mut self, Line { number, text, .. }: Line<'_>) {
        let Some((trace, _)) = self.trace_of.filter(|(_, last)| number <= *last) else { return };
        // A guess of the unwinder is none.
        if text.contains("? ") || !OF_RECLAIM.iter().any(|name| text.contains(name)) {
            return;
        }
        match trace {
            Trace::Blocked => self.log.blocked.last_mut().into_iter().for_each(|it| it.is_in_reclaim = true),
            Trace::Stuck => self.log.stuck.last_mut().into_iter().for_each(|it| it.is_in_reclaim = true),
        }
    }

    /// Notes a process that was killed, if the line tells of one: `Out of memory: Kill process 12 (a) score 9 or sacrifice child`, and then
    /// `Killed process 12 (a) total-vm:1kB, anon-rss:1kB`; since 5.1 one line, `Out of memory: Killed process 12 (a) total-vm:…`.
    fn tells_of_kill(&mut self, line: Line<'_>) -> bool {
        let text = line.text;
        let says_cgroup = text.starts_with("Memory cgroup out of memory");
        let Some(rest) = ["Killed process ", "Kill process "].iter().find_map(|it| Some(text.split_once(it)?.1)) else {
            return false;
        };
        let is_it = text.starts_with("Kill") || says_cgroup || text.starts_with("Out of memory");
        let Some(pid) = first_number(rest).filter(|_| is_it) else { return false };
        let name = rest.split_once('(').and_then(|(_, rest)| Some(name_in_parentheses(rest)?.to_owned()));
        let sizes = rest.split_once(')').map_or("", |(_, sizes)| sizes).split([',', ' ']).filter_map(sized);
        let kib: Numbers = sizes.map(|(name, kib)| (name.to_owned(), kib)).collect();
        let is_of_cgroup = says_cgroup || self.report.as_ref().is_some_and(|report| report.cgroup.is_some());
        let kills = match &mut self.report {
            Some(report) if matches!(report.kind, Kind::OutOfMemory | Kind::Shown) => {
                report.kind = Kind::OutOfMemory;
                &mut report.kills
            }
            _ => &mut self.log.kills,
        };
        match kills.iter_mut().rev().find(|kill| kill.pid == pid && kill.kib.is_empty()) {
            Some(told) => told.kib = kib,
            None => kills.push(Kill { line: line.number, pid, name: name.unwrap_or_default(), kib, is_of_cgroup }),
        }
        true
    }
}

/// A name up to the parenthesis that closes it; it may hold some itself.
fn name_in_parentheses(text: &str) -> Option<&str> {
    let end = [") total-vm", ") score", "), UID", ") vsz"].iter().filter_map(|end| text.find(end)).min();
    end.or_else(|| text.find(')')).map(|end| &text[..end])
}

/// The kernel's release of the line that names the task that runs: the word before `#1642`.
fn release_of(text: &str) -> Option<&str> {
    if !text.contains("ainted") || !(text.starts_with("CPU:") || text.starts_with("Pid:")) {
        return None;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = words.iter().position(|word| word.starts_with('#'))?;
    words.get(number.checked_sub(1)?).copied().filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

/// No computer has so many pages, KiB or events: a larger number is a line that was spoilt, and sums stay far from the end of 64 bits.
const COUNTED_MAX: u64 = 1 << 50;

/// A number that a kernel can have counted.
fn counted(word: &str) -> Option<u64> {
    word.parse().ok().filter(|number| *number < COUNTED_MAX)
}

/// The number at the start of a text.
fn first_number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    counted(&text[..end])
}

/// A size with its name, `free:518900kB`, KiB.
fn sized(word: &str) -> Option<(&str, u64)> {
    let (name, value) = word.trim_end_matches(',').split_once(':')?;
    let number = value.strip_suffix("kB").or_else(|| value.strip_suffix("KB"))?;
    Some((name, counted(number)?))
}

/// Nodes of a list of the kernel's, `0-1,3`; none of `(null)`, which are all.
fn nodes(list: &str) -> Option<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // No kernel has more than 1024 nodes.
        found.extend(first..=last.min(first.saturating_add(1024)));
    }
    Some(found)
}

/// Nodes of a list that is followed by something else.
fn nodes_until(text: &str, ends: &[&str]) -> Option<BTreeSet<u32>> {
    let end = ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    nodes(&text[..end])
}

/// `constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg=/a,task_memcg=/a/b,task=c,pid=1,uid=0`.
fn constraint(report: &mut Report, text: &str) {
    // Lists have commas themselves: what has no `=` belongs to the value before it.
    let mut pairs: Vec<(&str, String)> = Vec::new();
    for part in text.split(',') {
        match (part.split_once('='), pairs.last_mut()) {
            (Some((name, value)), _) => pairs.push((name, value.to_owned())),
            (None, Some((name, value))) if *name != "cpuset" && part != "global_oom" => {
                value.push(',');
                value.push_str(part);
            }
            (None, _) => {}
        }
    }
    let of = |wanted: &str| pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.clone());
    report.kind = Kind::OutOfMemory;
    report.constraint = of("constraint");
    // What the policy of the request leaves, and then what its cpuset does.
    if let Some(mask) = of("nodemask").and_then(|list| nodes(&list)) {
        report.nodes = Some(mask);
    } else if let Some(mems) = of("mems_allowed").and_then(|list| nodes(&list)) {
        report.nodes = Some(mems);
    }
    if let Some(limited) = of("oom_memcg") {
        report.cgroup().limited = Some(limited);
        report.cgroup().of_task = of("task_memcg");
    }
}

/// A line of statistics of a cgroup: `anon 519155712`. One that is none ends them.
fn cgroup_stat(report: &mut Report, text: &str) -> bool {
    let mut words = text.split_whitespace();
    let (Some(name), Some(value), None) = (words.next(), words.next(), words.next()) else { return false };
    let Some(value) = counted(value) else { return false };
    report.cgroup().stats.insert(name.to_owned(), value);
    true
}

/// A line of slab caches, or the heading above them. One that is none ends them.
fn slab(report: &mut Report, text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, _, total] = words.as_slice() else { return false };
    if (*name, *total) == ("Name", "Total") {
        return true;
    }
    let Some(kib) = total.strip_suffix("KB").and_then(counted) else { return false };
    report.slabs.insert((*name).to_owned(), kib);
    true
}

/// A line of the table of processes: `[  456]     0   456     2662      331    53248        0             0 udevd`.
fn task(text: &str, columns: &[String]) -> Option<Task> {
    let (pid, rest) = text.strip_prefix('[')?.split_once(']')?;
    let pid = pid.trim().parse().ok()?;
    let numbers = columns.len().checked_sub(1)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (values, name) = words.split_at_checked(numbers)?;
    let of = |column: &str| counted(values.get(columns.iter().position(|it| it == column)?)?);
    Some(Task {
        pid,
        name: name.join(" "),
        rss_pages: of("rss")?,
        swap_pages: of("swapents").unwrap_or(0),
        page_table_bytes: of("pgtables_bytes"),
    })
}

/// `memory: usage 524288kB, limit 524288kB, failcnt 1234`.
fn limit(text: &str) -> Option<(&str, Limit)> {
    let (what, rest) = text.split_once(": usage ")?;
    let (usage, rest) = rest.split_once("kB, limit ")?;
    let (limit, rest) = rest.split_once("kB")?;
    let failures = rest.split_once("failcnt ").and_then(|(_, word)| first_number(word)).unwrap_or(0);
    // Without a limit kernels print the largest number of pages that they count.
    let limit_kib = counted(limit);
    Some((what, Limit { usage_kib: counted(usage)?, limit_kib, failures }))
}

/// `Node 0 hugepages_total=8 hugepages_free=8 hugepages_surp=0 hugepages_size=2048kB`.
fn huge_pages(text: &str) -> Option<HugePages> {
    let of = |name: &str| text.split_once(name).and_then(|(_, rest)| first_number(rest));
    let size_kib = of("hugepages_size=")?;
    Some(HugePages { total: of("hugepages_total=")?, free: of("hugepages_free=").unwrap_or(0), size_kib })
}

/// The zone of a line that tells of one, into which what it tells is put: its sizes, or its free blocks.
fn zone(report: &mut Report, text: &str) -> Option<(u32, ZoneKind)> {
    let (node, rest) = match text.strip_prefix("Node ") {
        Some(rest) => rest.split_once(' ').and_then(|(node, rest)| Some((node.parse().ok()?, rest)))?,
        // A kernel without nodes names none.
        None => (0, text),
    };
    if rest.starts_with("active_anon:") {
        for (name, kib) in rest.split_whitespace().filter_map(sized) {
            *report.node_kib.entry(name.to_owned()).or_default() += kib;
        }
        return None;
    }
    let (name, rest) = rest.trim_start().split_once([' ', ':'])?;
    let kind = ZoneKind::of(name)?;
    if rest.trim_start().starts_with("free:") {
        let sizes: Vec<(&str, u64)> = rest.split_whitespace().filter_map(sized).collect();
        let zone = report.zone(node, kind);
        zone.kib.extend(sizes.into_iter().map(|(name, kib)| (name.to_owned(), kib)));
        return Some((node, kind));
    }
    let blocks = blocks(rest.split('=').next().unwrap_or(rest));
    if blocks.is_empty() {
        return None;
    }
    report.zone(node, kind).blocks = blocks;
    Some((node, kind))
}

/// `1234*4kB (UME) 12*8kB (UM) 0*16kB`.
fn blocks(text: &str) -> Vec<Blocks> {
    let mut found: Vec<Blocks> = Vec::new();
    for word in text.split_whitespace() {
        if let (Some(kinds), Some(last)) = (word.strip_prefix('('), found.last_mut()) {
            kinds.trim_end_matches(')').clone_into(&mut last.kinds);
        } else if let Some((count, size)) = word.split_once('*')
            && let (Some(count), Some(kib)) = (counted(count), size.strip_suffix("kB").and_then(counted))
        {
            found.push(Blocks { kib, count, kinds: String::new() });
        }
    }
    found
}

/// Totals of the computer: `active_anon:300 free:915900`, `Free swap  = 785600kB`, `524284 pages RAM`.
fn totals(report: &mut Report, text: &str) {
    let words: Vec<&str> = text.split_whitespace().collect();
    if let [which, "swap", "=", size] = words.as_slice() {
        let place = usize::from(*which == "Free");
        report.swap[place] = counted(size.trim_end_matches("kB"));
        return;
    }
    if let [count, "pages", what @ ..] = words.as_slice() {
        if let Some(count) = counted(count) {
            report.pages.insert(what.join(" "), count);
        }
        return;
    }
    let counter = |word: &&str| {
        let (name, value) = word.split_once(':')?;
        Some((name.to_owned(), counted(value)?))
    };
    let counters: Vec<(String, u64)> = words.iter().filter_map(counter).collect();
    // Counters of a node or of a CPU's batches stand among other words.
    if !counters.is_empty() && counters.len() == words.len() {
        report.counters.extend(counters);
    }
}

#[cfg(test)]
mod tests;
