//! Reader of kernel logs from `dmesg`, the console, syslog and `journalctl -k`, as Linux 2.6.32 to 6.18 prints them.
//!
//! [`read`] extracts reports of the OOM killer and of failed allocations, with all that the kernel printed about zones
//! and processes. It also extracts killed processes, blocked tasks, and stuck CPUs. Other lines are skipped. A report
//! may lack lines, begin late or end early: a missing value is none.
//!
//! [`mod@line`] removes the prefixes that loggers add. [`gfp`] decodes which memory a request may use. [`killers`]
//! reads the lines of killers outside of the kernel, which appear in the same logs.
//!
//! Next: [`mod@line`].

pub mod gfp;
pub mod killers;
pub mod line;
pub mod samples;

use gfp::{Gfp, ZoneKind};
use killers::{Eviction, Killers};
use line::{Line, lines};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The numbers of a report in the log, each by the name that the kernel printed for it.
pub type Numbers = BTreeMap<String, u64>;

/// The contents of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Memory reports, in the order of the log.
    pub reports: Vec<Report>,
    /// Killed processes that do not belong to any of the reports.
    pub kills: Vec<Kill>,
    /// The victims of user-space killers.
    pub evictions: Vec<Eviction>,
    /// Tasks that the kernel reported because they slept for too long.
    pub blocked: Vec<Blocked>,
    /// CPUs that the kernel reported because one task ran on them for too long.
    pub stuck: Vec<Stuck>,
    /// The kernel's release; none if unknown.
    pub release: Option<String>,
}

impl Log {
    /// Adds `later`, which is another part of the log or another log of the same computer.
    pub fn extend(&mut self, later: Self) {
        self.reports.extend(later.reports);
        self.kills.extend(later.kills);
        self.evictions.extend(later.evictions);
        self.blocked.extend(later.blocked);
        self.stuck.extend(later.stuck);
        self.release = self.release.take().or(later.release);
    }
}

/// The reason for which the kernel printed a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The OOM killer was invoked.
    OutOfMemory,
    /// A request for memory failed.
    Failure,
    /// A request for memory waited for this many ms. Linux 4.10 to 4.14 reported this.
    Stalled(u64),
    /// A user asked for the report (SysRq `m`), or the beginning of the report is missing and nothing in the rest says
    /// why it was printed.
    Shown,
}

/// A memory report printed by the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The reason for which the report was printed.
    pub kind: Kind,
    /// True if the beginning of the report is missing from the log. The request, and the task that made it, are then
    /// unknown.
    pub is_cut: bool,
    /// The line at which the report begins, from 1.
    pub line: usize,
    /// The time at the beginning of the report's first line, as the log prints it; none if this line has no time.
    pub at: Option<String>,
    /// The task that requested memory; none if unknown.
    pub task: Option<String>,
    /// The allocation flags of the request, which state the memory that the request may use; none if unknown.
    pub gfp: Option<Gfp>,
    /// The order of the request; none if unknown, -1 if the killer was invoked by hand.
    pub order: Option<i32>,
    /// The nodes that the request may use; none means all.
    pub nodes: Option<BTreeSet<u32>>,
    /// The kernel's name for the restriction of the request that exhausted memory: `CONSTRAINT_CPUSET` or
    /// `CONSTRAINT_MEMORY_POLICY` (to some nodes), or `CONSTRAINT_MEMCG` (to a cgroup).
    pub constraint: Option<String>,
    /// The part of the report about the cgroup at its limit; none if no cgroup reached its limit.
    pub cgroup: Option<CgroupReport>,
    /// Counters of the whole computer, pages, by names such as `free`, `active_anon` and `free_cma`.
    pub counters: Numbers,
    /// Zones with managed pages.
    pub zones: Vec<ZoneReport>,
    /// Figures that the kernel reports only for each node, summed over the nodes, KiB: `kernel_stack`, `pagetables`.
    pub node_kib: Numbers,
    /// Pools of huge pages, one for each node and size.
    pub huge: Vec<HugePages>,
    /// Total swap and free swap, KiB.
    pub swap: [Option<u64>; 2],
    /// Totals of the whole computer, pages: `RAM`, `reserved`, `HighMem/MovableOnly`, `cma reserved`, `hwpoisoned`.
    pub pages: Numbers,
    /// Processes that the OOM killer could kill.
    pub tasks: Vec<Task>,
    /// Unreclaimable slab caches by name, with the memory that each takes, KiB.
    pub slabs: BTreeMap<String, u64>,
    /// Processes that the OOM killer killed because of the lack of memory that is reported.
    pub kills: Vec<Kill>,
    /// True if the kernel panicked because no process was left to kill.
    pub has_panicked: bool,
}

/// The part of a memory report that describes the cgroup at its limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupReport {
    /// The path of the cgroup whose limit was reached; none if the log does not name it.
    pub limited: Option<String>,
    /// The path of the killed process's cgroup; none if the log does not name it.
    pub of_task: Option<String>,
    /// The limits of the cgroup, by the names of the resources: `memory`, `swap`, `memory+swap`, `kmem`.
    pub limits: BTreeMap<String, Limit>,
    /// The cgroup's statistics, in bytes or events.
    pub stats: Numbers,
}

/// The limit of one resource of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Usage of the resource by the cgroup, KiB.
    pub usage_kib: u64,
    /// Largest usage that the cgroup may have, KiB; none if unlimited.
    pub limit_kib: Option<u64>,
    /// Number of times that the usage reached the limit (`failcnt`).
    pub failures: u64,
}

/// The state of a zone, as an out-of-memory report shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneReport {
    /// The zone's node.
    pub node: u32,
    /// The zone's kind.
    pub kind: ZoneKind,
    /// Sizes, KiB: `free`, `min`, `boost`, `present`, `free_cma`, `reserved_highatomic`.
    pub kib: Numbers,
    /// Numbers of pages that the zone keeps from requests that could use a higher zone (`lowmem_reserve`). The index is
    /// that of the higher zone.
    pub reserve: Vec<u64>,
    /// Free blocks of the buddy allocator, by size.
    pub blocks: Vec<Blocks>,
}

impl ZoneReport {
    /// Returns one of the zone's sizes, KiB, by its name in the report, such as `min`. Returns 0 if the report does not
    /// have it.
    #[must_use]
    pub fn kib(&self, name: &str) -> u64 {
        self.kib.get(name).copied().unwrap_or(0)
    }
}

/// Free blocks of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Size of the blocks, KiB.
    pub kib: u64,
    /// Number of free blocks of this size.
    pub count: u64,
    /// Migrate types of the free blocks, one letter for each type, such as `UME`; empty before Linux 3.9, which does
    /// not report the types.
    pub kinds: String,
}

/// The pool of huge pages of one size on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HugePages {
    /// Number of huge pages in the pool.
    pub total: u64,
    /// Number of unused huge pages.
    pub free: u64,
    /// Size of the huge pages, KiB.
    pub size_kib: u64,
}

/// A process that the OOM killer could kill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// The process's number.
    pub pid: u64,
    /// The process's name.
    pub name: String,
    /// The process's resident pages.
    pub rss_pages: u64,
    /// The process's pages in swap.
    pub swap_pages: u64,
    /// Bytes of the process's page tables; none for kernels that report another unit.
    pub page_table_bytes: Option<u64>,
}

/// A killed process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kill {
    /// Number of the log's line that reports the kill. The first line is 1.
    pub line: usize,
    /// The process's number.
    pub pid: u64,
    /// The process's name.
    pub name: String,
    /// The process's memory, KiB, as far as reported: `anon-rss`, `file-rss`, `shmem-rss`, `total-vm`, `pgtables`.
    pub kib: Numbers,
    /// True if the process was killed at the limit of a cgroup.
    pub is_of_cgroup: bool,
}

impl Kill {
    /// Returns the killed process's resident memory, KiB; none if unknown.
    #[must_use]
    pub fn rss_kib(&self) -> Option<u64> {
        let parts = ["anon-rss", "file-rss", "shmem-rss"].iter().filter_map(|name| self.kib.get(*name));
        parts.copied().reduce(|sum, part| sum + part)
    }
}

/// A task that the kernel reported as blocked for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Number of the log's line that reports the task. The first line is 1.
    pub line: usize,
    /// The task's name and number: `jbd2/sda1-8:312`.
    pub task: String,
    /// The task was blocked for at least this time, s.
    pub seconds: u64,
    /// True if the task's stack trace has functions of reclaim.
    pub is_in_reclaim: bool,
}

/// A message in which the kernel reports a task that occupied a CPU for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The number of the line that reports the CPU, from 1.
    pub line: usize,
    /// The task's name and number.
    pub task: String,
    /// Time for which the task kept the CPU before the report, s.
    pub seconds: u64,
    /// True if the task's stack trace has functions of reclaim, or if the task is kswapd or kcompactd.
    pub is_in_reclaim: bool,
}

impl Report {
    fn new(kind: Kind, line: Line<'_>) -> Self {
        Self {
            kind,
            is_cut: false,
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

    /// Returns the size of a page, 4 to 64 KiB. It is the size of the smallest block of the buddy allocator, or 4 KiB
    /// if no block is reported.
    #[must_use]
    pub fn page_kib(&self) -> u64 {
        let smallest = self.zones.iter().find_map(|zone| zone.blocks.first()).map(|blocks| blocks.kib);
        smallest.filter(|kib| (4..=64).contains(kib)).unwrap_or(4)
    }

    fn cgroup(&mut self) -> &mut CgroupReport {
        self.cgroup.get_or_insert_default()
    }

    /// Returns whether the report already has figures from lines after `Mem-Info:`.
    fn has_memory(&self) -> bool {
        !self.counters.is_empty() || !self.zones.is_empty()
    }

    /// Returns the zone of kind `kind` on a node. If the report does not have the zone yet, it is added first.
    fn zone(&mut self, node: u32, kind: ZoneKind) -> &mut ZoneReport {
        let place = self.zones.iter().position(|zone| (zone.node, zone.kind) == (node, kind)).unwrap_or_else(|| {
            self.zones.push(ZoneReport { node, kind, kib: Numbers::new(), reserve: Vec::new(), blocks: Vec::new() });
            self.zones.len() - 1
        });
        &mut self.zones[place]
    }
}

/// Texts by which a line of a kernel log is recognised as one about memory.
const SIGNS: [&str; 12] = [
    "sysrq: Show Memory",
    "SysRq : Show Memory",
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

/// Texts with which lines after the first of a report begin. No other text has such lines.
const INSIDE: [&str; 7] = [
    "lowmem_reserve[]:",
    "Free swap  =",
    "Total swap =",
    "Memory cgroup stats for ",
    "Memory cgroup stats:",
    "Unreclaimable slab info:",
    "Tasks state (memory values in pages):",
];

/// The counters with which lines of a report about the whole computer begin.
const COUNTERS: [&str; 6] = ["active_anon", "active_file", "unevictable", "slab_reclaimable", "mapped", "free"];

/// Texts with which lines inside of a report end, after a number of pages.
const PAGES: [&str; 5] =
    [" total pagecache pages", " pages in swap cache", " pages RAM", " pages HighMem/MovableOnly", " pages hwpoisoned"];

/// Returns whether a line comes from a kernel log and is about memory.
#[must_use]
pub fn tells(line: &str) -> bool {
    SIGNS.iter().chain(&killers::SIGNS).any(|sign| line.contains(sign)) || is_inside(line::message(line))
}

/// Returns whether a message of the kernel can only be a line inside of a report. If no report is open at such a line,
/// the log lacks the beginning of the report.
fn is_inside(text: &str) -> bool {
    let is_of_zone = text.contains(" free:") && text.contains("kB min:") && text.contains("kB low:");
    let is_of_node = || text.starts_with("Node ") && text.contains(" isolated(anon):");
    let is_of_counters = || {
        let mut names = text.split_whitespace().map(|word| {
            let (name, pages) = word.split_once(':')?;
            counted(pages).map(|_| name)
        });
        names.next().flatten().is_some_and(|first| COUNTERS.contains(&first)) && names.next().flatten().is_some()
    };
    let has_blocks = || text.contains("*4kB ") && text.ends_with("kB") && text.contains("= ");
    INSIDE.iter().any(|begin| text.starts_with(begin))
        || PAGES.iter().any(|end| text.strip_suffix(end).is_some_and(|count| counted(count).is_some()))
        || is_of_zone
        || is_of_node()
        || is_of_counters()
        || has_blocks()
        || is_only_of_killer(text)
}

/// Returns whether a message of the kernel is a line that only the OOM killer prints within a report.
fn is_only_of_killer(text: &str) -> bool {
    is_heading_of_tasks(text)
        || text.starts_with("Tasks state (memory values in pages):")
        || text.starts_with("Unreclaimable slab info:")
        || text.starts_with("Memory cgroup stats")
        || text.starts_with("oom-kill:constraint=")
        || text.starts_with("Task in ") && text.contains(" killed as a result of limit of ")
        || limit(text).is_some()
        || task(text, &[]).is_some()
}

/// Returns whether a line is the heading of the table of processes, such as `[ pid ]   uid  tgid total_vm      rss …`.
fn is_heading_of_tasks(text: &str) -> bool {
    text.starts_with('[') && text.contains("total_vm")
}

/// Returns whether a line that follows lines of a kernel log certainly belongs to this log: the line has a time, or is
/// part of a report.
#[must_use]
pub fn holds(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (name, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_pair = words.next().is_none() && value.parse::<u64>().is_ok();
    // A name with a number is a statistic of a cgroup; a copy of `/proc/vmstat` begins with names in `nr_`.
    line::has_time(line) || is_pair && !name.starts_with("nr_")
}

/// The table to which the next lines belong, until a line begins something else.
#[derive(Clone, Copy, PartialEq)]
enum Table {
    None,
    /// Statistics of a cgroup, such as `anon 4096`.
    CgroupStats,
    /// Slab caches, such as `kmalloc-96   1234KB   1240KB`.
    Slabs,
}

/// Reads a log from a text.
#[must_use]
pub fn read(text: &str) -> Log {
    read_lines((1..).zip(text.lines()))
}

/// Reads a log from lines, each with its number.
#[must_use]
pub fn read_lines<'a>(numbered: impl IntoIterator<Item = (usize, &'a str)>) -> Log {
    let mut reader = Reader::default();
    let joined = unwrapped(numbered.into_iter().collect());
    lines(joined.iter().map(|(number, text)| (*number, &**text))).for_each(|line| reader.line(line));
    reader.end_report();
    reader.log
}

/// Largest width of a text that a mail program or a terminal may have wrapped, characters. Lines about zones are much
/// longer.
const WRAPPED_MAX: usize = 100;

/// Smallest width of a wrapped line and the word that did not fit, characters. Mail programs wrap at 60 and more, but the
/// spaces of a table at the end of the line are gone.
const WRAPPED_MIN: usize = 48;

/// Joins lines that a mail program or a terminal wrapped. If many lines begin with a time, a line without one
/// continues the line above, provided that its first word did not fit there. In a log without times, only a line that ends
/// within the name of a killed process is joined with the next.
fn unwrapped(numbered: Vec<(usize, &str)>) -> Vec<(usize, Cow<'_, str>)> {
    // A long word is not wrapped, so it does not count.
    let longest = |line: &str| line.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
    let width = |line: &str| line.trim_end().chars().count() - longest(line);
    let is_narrow = numbered.iter().all(|(_, line)| width(line) <= WRAPPED_MAX);
    let timed = numbered.iter().filter(|(_, line)| line::has_time(line)).count();
    let is_timed = timed * 5 > numbered.iter().filter(|(_, line)| !line.trim().is_empty()).count();
    let terminal = terminal_width(&numbered);
    let mut joined: Vec<(usize, Cow<'_, str>)> = Vec::new();
    // Number and width of the last line that was read.
    let mut before = (0, 0);
    for (number, line) in numbered {
        let first = line.split_whitespace().next().map_or(0, |word| word.chars().count());
        let is_next = number == before.0 + 1 && first > 0 && !line::has_time(line);
        let is_full = terminal == Some(before.1);
        let did_not_fit = is_full || is_narrow && before.1 + 1 + first > WRAPPED_MIN;
        before = (number, line.trim_end().chars().count());
        match joined.last_mut().filter(|_| is_next) {
            Some((_, last)) if (is_timed && line::has_time(last) && did_not_fit) || is_within_name(last) => {
                // A bracket, and the name behind it, are one word. A terminal breaks a line within a word.
                let is_one_word = is_full && !line.starts_with(char::is_whitespace);
                let gap = if is_one_word || last.trim_end().ends_with('(') { "" } else { " " };
                *last = Cow::Owned(format!("{}{gap}{}", last.trim_end(), line.trim_start()));
            }
            _ => joined.push((number, Cow::Borrowed(line))),
        }
    }
    joined
}

/// Widths that terminals have by default, characters.
const TERMINALS: [usize; 4] = [80, 100, 120, 132];

/// Returns the width of the terminal that wrapped the lines of a log; none if no terminal did. A terminal fills each line
/// that it wraps, so no line is longer. A mail program breaks lines between words, and fills few of them.
fn terminal_width(numbered: &[(usize, &str)]) -> Option<usize> {
    let width = |line: &str| line.trim_end().chars().count();
    let longest = numbered.iter().map(|(_, line)| width(line)).max()?;
    let wrapped = numbered.windows(2).filter(|pair| {
        let [(number, line), (next, behind)] = pair else { return false };
        let follows = *next == number + 1 && !behind.trim().is_empty() && !line::has_time(behind);
        follows
            && line::has_time(line)
            && width(line) + 1 + behind.split_whitespace().next().map_or(0, str::len) > longest
    });
    let (full, others): (Vec<usize>, Vec<usize>) =
        wrapped.map(|pair| width(pair[0].1)).partition(|width| *width == longest);
    let is_usual = TERMINALS.contains(&longest) && !full.is_empty() || full.len() >= 3;
    (is_usual && full.len() > others.len()).then_some(longest)
}

/// Returns whether a line ends before the name of the process that it reports as killed has ended.
fn is_within_name(line: &str) -> bool {
    let killed = ["Killed process ", "Kill process "].iter().find_map(|it| Some(line.split_once(it)?.1));
    killed.is_some_and(|rest| first_number(rest).is_some() && !rest.contains(')'))
}

#[derive(Default)]
struct Reader {
    log: Log,
    report: Option<Report>,
    table: Option<Table>,
    columns: Vec<String>,
    /// The blocked task or stuck CPU whose stack trace follows, and the number of the last line that may belong to
    /// the trace.
    trace_of: Option<(Trace, usize)>,
    last_zone: Option<(u32, ZoneKind)>,
    /// True after a line which says that a user asked for a report, until a report begins.
    is_asked_for: bool,
    killers: Killers,
}

#[derive(Clone, Copy, PartialEq)]
enum Trace {
    Blocked,
    Stuck,
}

/// Largest number of lines in a stack trace, which has registers and some dozens of functions.
const TRACE_LINES: usize = 80;

/// Functions that show, if they are in a stack trace, that the task reclaims or waits for reclaim.
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
        (self.trace_of, self.is_asked_for) = (None, false);
        self.report.insert(Report::new(kind, line))
    }

    fn line(&mut self, line: Line<'_>) {
        let text = line.text;
        if self.begins_report(line) || self.tells_of_stuck(line) || self.tells_of_kill(line) {
            return;
        }
        // A user-space killer's line does not belong to a kernel's report.
        if self.killers.take(line, &mut self.log.evictions) {
            return;
        }
        if let Some(release) = release_of(text) {
            self.log.release.get_or_insert_with(|| release.to_owned());
        }
        self.is_asked_for |= text.ends_with("Show Memory");
        if text.starts_with("Mem-Info:") && self.report.as_ref().is_none_or(Report::has_memory)
            || self.report.is_none() && is_inside(text)
        {
            let is_cut = !self.is_asked_for;
            self.begin(Kind::Shown, line).is_cut = is_cut;
        }
        self.trace(line);
        let Some(report) = &mut self.report else { return };
        if report.kind == Kind::Shown && is_only_of_killer(text) {
            report.kind = Kind::OutOfMemory;
        }
        match self.table.unwrap_or(Table::None) {
            Table::CgroupStats if cgroup_stat(report, text) => return,
            Table::Slabs if slab(report, text) => return,
            _ => self.table = None,
        }
        if text.starts_with("Kernel panic") {
            report.has_panicked = text.contains("memory");
        } else if let Some(stats) = text.strip_prefix("Memory cgroup stats") {
            self.table = Some(Table::CgroupStats);
            // Version 1 printed the statistics on the same line, behind the name: ` for /a: cache:0KB rss:8KB`. It
            // printed such a line for each cgroup of the subtree. A line excludes the memory of cgroups further down,
            // so the figures are summed.
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
        } else if is_heading_of_tasks(text) {
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

    /// Begins a report if the line is the first line of one. Returns whether a report began.
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
        // Before 4.10 the order was printed last, and before 3.x it followed a point: `. order:1, mode:0x20`.
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

    /// Records a blocked task or a stuck CPU if the line reports one. Returns whether the line reports one.
    fn tells_of_stuck(&mut self, line: Line<'_>) -> bool {
        let text = line.text;
        // Old kernels print `INFO: task a:12 blocked for more than 120 seconds.`, newer ones `blocked in I/O wait for
        // more than`.
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

    /// Notes that the traced task is in reclaim if a line of its stack trace names a function of reclaim.
    fn trace(&mut self, Line { number, text, .. }: Line<'_>) {
        let Some((trace, _)) = self.trace_of.filter(|(_, last)| number <= *last) else { return };
        // The unwinder marks guesses with `?`; a guess proves no reclaim.
        if text.contains("? ") || !OF_RECLAIM.iter().any(|name| text.contains(name)) {
            return;
        }
        match trace {
            Trace::Blocked => self.log.blocked.last_mut().into_iter().for_each(|it| it.is_in_reclaim = true),
            Trace::Stuck => self.log.stuck.last_mut().into_iter().for_each(|it| it.is_in_reclaim = true),
        }
    }

    /// Records a killed process if the line reports one. Returns whether the line reports one.
    ///
    /// Before Linux 5.1 the kernel printed two lines: `Out of memory: Kill process 12 (a) score 9 or sacrifice
    /// child`, then `Killed process 12 (a) total-vm:1kB, anon-rss:1kB`. Linux since 5.1 prints one line: `Out of
    /// memory: Killed process 12 (a) total-vm:…`.
    fn tells_of_kill(&mut self, line: Line<'_>) -> bool {
        let text = line.text;
        let says_cgroup = text.contains("Memory cgroup out of memory: Kill");
        let Some(rest) = ["Killed process ", "Kill process "].iter().find_map(|it| Some(text.split_once(it)?.1)) else {
            return false;
        };
        // Kubernetes quotes the kernel behind words of its own.
        let is_it = text.starts_with("Kill") || says_cgroup || text.contains("Out of memory: Kill");
        let Some(pid) = first_number(rest).filter(|_| is_it) else { return false };
        let name = rest.split_once('(').and_then(|(_, rest)| Some(name_in_parentheses(rest)?.to_owned()));
        let sizes = rest.split_once(')').map_or("", |(_, sizes)| sizes).split([',', ' ']).filter_map(sized);
        let kib: Numbers = sizes.map(|(name, kib)| (name.to_owned(), kib)).collect();
        let listed = self.report.iter().flat_map(|report| &report.tasks).find(|task| task.pid == pid);
        let name = name.or_else(|| listed.map(|task| task.name.clone()));
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

/// Returns the name with which `text` begins, up to the parenthesis after it. The opening parenthesis is not part of
/// `text`. The name may itself contain parentheses.
fn name_in_parentheses(text: &str) -> Option<&str> {
    let end = [") total-vm", ") score", "), UID", ") vsz"].iter().filter_map(|end| text.find(end)).min();
    end.or_else(|| text.find(')')).map(|end| &text[..end])
}

/// Returns the kernel's release from the line that names the running task: the word before `#1642`.
fn release_of(text: &str) -> Option<&str> {
    if !text.contains("ainted") || !(text.starts_with("CPU:") || text.starts_with("Pid:")) {
        return None;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = words.iter().position(|word| word.starts_with('#'))?;
    words.get(number.checked_sub(1)?).copied().filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

/// Largest plausible number of pages, KiB or events. A larger number shows that the line is damaged. Sums of plausible
/// numbers stay far below 2^64.
const COUNTED_MAX: u64 = 1 << 50;

/// Reads a number; none if it is larger than a kernel can have counted.
fn counted(word: &str) -> Option<u64> {
    word.parse().ok().filter(|number| *number < COUNTED_MAX)
}

/// Returns the number at the start of a text.
fn first_number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    counted(&text[..end])
}

/// Splits a word such as `free:518900kB` into the name and the size, KiB.
fn sized(word: &str) -> Option<(&str, u64)> {
    let (name, value) = word.trim_end_matches(',').split_once(':')?;
    let number = value.strip_suffix("kB").or_else(|| value.strip_suffix("KB"))?;
    Some((name, counted(number)?))
}

/// Reads a list of nodes, such as `0-1,3`. Returns none for `(null)`, which means all nodes.
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

/// Reads a list of nodes that ends where one of the texts `ends` begins.
fn nodes_until(text: &str, ends: &[&str]) -> Option<BTreeSet<u32>> {
    let end = ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    nodes(&text[..end])
}

/// Adds to the report the facts in a line such as
/// `constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg=/a,task_memcg=/a/b,task=c,pid=1,uid=0`.
fn constraint(report: &mut Report, text: &str) {
    // Lists contain commas: a part without `=` continues the value before it.
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
    // The nodes that the request's memory policy allows, or else those that its cpuset allows.
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

/// Adds a line of a cgroup's statistics, such as `anon 519155712`, to the report. Returns `false` for any other line,
/// which ends the statistics.
fn cgroup_stat(report: &mut Report, text: &str) -> bool {
    let mut words = text.split_whitespace();
    let (Some(name), Some(value), None) = (words.next(), words.next(), words.next()) else { return false };
    let Some(value) = counted(value) else { return false };
    report.cgroup().stats.insert(name.to_owned(), value);
    true
}

/// Adds a line of the table of slab caches to the report, or skips the table's heading. Returns `false` for any other
/// line, which ends the table.
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

/// Smallest number of numbers before the name in the table of processes, since Linux has counted pages in swap there.
const WITH_SWAP_MIN: usize = 7;

/// Reads a line of the table of processes that the OOM killer prints, such as
/// `[  456]     0   456     2662      331    53248        0             0 udevd`. Empty `columns` mean that the heading
/// is missing.
fn task(text: &str, columns: &[String]) -> Option<Task> {
    let (pid, rest) = text.strip_prefix('[')?.split_once(']')?;
    let pid = pid.trim().parse().ok()?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let Some(numbers) = columns.len().checked_sub(1) else {
        // All kernels print uid, tgid, total_vm and rss first; pages in swap are last but one of the numbers.
        let numbers = words.iter().position(|word| word.parse::<i64>().is_err())?;
        let [_, tgid, _, rss, _, ..] = words[..numbers] else { return None };
        let swap = numbers.checked_sub(2).filter(|_| numbers >= WITH_SWAP_MIN);
        return (counted(tgid)? == pid).then_some(Task {
            pid,
            name: words[numbers..].join(" "),
            rss_pages: counted(rss)?,
            swap_pages: swap.and_then(|at| counted(words[at])).unwrap_or(0),
            page_table_bytes: None,
        });
    };
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

/// Reads the limit of a resource from a line such as `memory: usage 524288kB, limit 524288kB, failcnt 1234`.
fn limit(text: &str) -> Option<(&str, Limit)> {
    let (what, rest) = text.split_once(": usage ")?;
    let (usage, rest) = rest.split_once("kB, limit ")?;
    let (limit, rest) = rest.split_once("kB")?;
    let failures = rest.split_once("failcnt ").and_then(|(_, word)| first_number(word)).unwrap_or(0);
    // For no limit, kernels print the largest number of pages that they can count.
    let limit_kib = counted(limit);
    Some((what, Limit { usage_kib: counted(usage)?, limit_kib, failures }))
}

/// Reads a pool of huge pages from a line such as `Node 0 hugepages_total=8 hugepages_free=8 hugepages_surp=0
/// hugepages_size=2048kB`.
fn huge_pages(text: &str) -> Option<HugePages> {
    let of = |name: &str| text.split_once(name).and_then(|(_, rest)| first_number(rest));
    let size_kib = of("hugepages_size=")?;
    Some(HugePages { total: of("hugepages_total=")?, free: of("hugepages_free=").unwrap_or(0), size_kib })
}

/// Reads a line that states the sizes or the free blocks of a zone, and adds them to `report`. Returns the zone's node
/// and kind; none if the line is not about a zone.
fn zone(report: &mut Report, text: &str) -> Option<(u32, ZoneKind)> {
    let (node, rest) = match text.strip_prefix("Node ") {
        Some(rest) => rest.split_once(' ').and_then(|(node, rest)| Some((node.parse().ok()?, rest)))?,
        // A kernel without nodes prints no node.
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

/// Reads free blocks, such as `1234*4kB (UME) 12*8kB (UM) 0*16kB`.
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

/// Adds totals of the computer to the report from a line such as `active_anon:300 free:915900`, `Free swap  =
/// 785600kB`, `524284 pages RAM`.
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
    // On lines about a node or about a CPU's batches, counters are mixed with other words.
    if !counters.is_empty() && counters.len() == words.len() {
        report.counters.extend(counters);
    }
}

#[cfg(test)]
mod tests;
