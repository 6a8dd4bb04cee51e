//! The report that a simulated kernel logs of each kill, in the form in which the out-of-memory killer of Linux 6.1
//! prints it.
//!
//! A report shows memory at the time of the kill, then the processes, then the victim. Lines about features that a
//! simulated machine lacks (call traces, users, cpusets) are left out, or have the value of a machine without the
//! feature.

use crate::groups::NamedGroups;
use engine::Engine;
use engine::allocate::out_of_memory::{Candidate, Exhausted, Kill};
use engine::anonymous::ProcessId;
use engine::memory::{Gfp, GroupId, Limit, MigrateType, NodeId, Zone, ZoneFlag};
use engine::stat::Vmstat;
use machine::{Machine, PAGE_BYTES};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Size of a page, KiB.
const PAGE_KIB: u64 = PAGE_BYTES as u64 / 1024;

/// The words with which the note about kills ([`killed`]) begins.
pub const KILLED: &str = "killed for lack of memory";

/// Largest number of kills whose full reports are logged. For each kill after these, only the lines about the victim
/// are logged.
const REPORTS_MAX: usize = 100;

/// Returns the names of a workload's processes if the out-of-memory killer has ended all of them; otherwise an empty
/// list. `started` is the number of the workload's processes without the process `main`. If `started` is 0, only `main`
/// counts; otherwise `main` does not count.
#[must_use]
pub fn killed_whole(kills: &[Kill], main: ProcessId, started: usize) -> Vec<String> {
    let victims = of_workload(kills, main, started);
    let is_whole = victims.len() >= started.max(1);
    victims.into_values().filter(|_| is_whole).map(str::to_owned).collect()
}

/// Returns whether the out-of-memory killer has ended at least one of a workload's processes. `main` and `started` are as
/// for [`killed_whole`].
#[must_use]
pub fn is_bereft(kills: &[Kill], main: ProcessId, started: usize) -> bool {
    !of_workload(kills, main, started).is_empty()
}

/// Returns the number and the name of each killed process of a workload. `main` and `started` are as for
/// [`killed_whole`].
fn of_workload(kills: &[Kill], main: ProcessId, started: usize) -> BTreeMap<u32, &str> {
    let is_of_workload = |victim: &&Candidate| (victim.id == main) == (started == 0);
    victims_of(kills).filter(is_of_workload).map(|victim| (victim.id.0, victim.name.as_str())).collect()
}

/// Returns the processes that were killed, in order of time.
pub fn victims_of(kills: &[Kill]) -> impl Iterator<Item = &Candidate> {
    kills.iter().flat_map(|kill| {
        let others = kill.others.iter().map(|n| &kill.candidates[*n]);
        std::iter::once(&kill.candidates[kill.victim]).chain(others)
    })
}

/// Returns a note that names each process that was killed; `None` if none was.
#[must_use]
pub fn killed(kills: &[Kill]) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for victim in victims_of(kills) {
        let name = format!("`{}`", victim.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| format!("{KILLED}: {} (see --kernel-log)", names.join(", ")))
}

/// Returns the lines that a kernel logs for kill number `n` (from 0). Each line begins with the time of the kill. This
/// must be called at the time of the kill, because the lines show the present state of memory.
pub fn lines<M: Machine>(engine: &Engine<M>, groups: &NamedGroups, kill: &Kill, n: usize) -> Vec<String> {
    let report = if n < REPORTS_MAX { report(engine, groups, kill) } else { victims(groups, kill) };
    let us = kill.at.0 / 1000;
    report.into_iter().map(|line| format!("[{:>5}.{:06}] {line}", us / 1_000_000, us % 1_000_000)).collect()
}

/// Returns the path of a group as a kernel's log shows it: `/` and the name of the group.
fn path(groups: &NamedGroups, id: GroupId) -> String {
    format!("/{}", groups.name(id).unwrap_or_default())
}

/// Returns the flags of an allocation request as Linux 6.1 prints them.
const fn mask(gfp: Gfp) -> &'static str {
    match gfp.migrate {
        MigrateType::Movable => "0x100cca(GFP_HIGHUSER_MOVABLE)",
        MigrateType::Reclaimable => "0xcd0(GFP_KERNEL|__GFP_RECLAIMABLE)",
        _ => "0xcc0(GFP_KERNEL)",
    }
}

/// Returns the lines of the report of a kill, without their times. This must be called at the time of the kill, because
/// the lines show the present state of memory.
fn report<M: Machine>(engine: &Engine<M>, groups: &NamedGroups, kill: &Kill) -> Vec<String> {
    let mut lines = vec![format!(
        "{} invoked oom-killer: gfp_mask={}, order={}, oom_score_adj={}",
        kill.by.as_ref().map_or("kernel task", |(name, _)| name.as_str()),
        mask(kill.gfp),
        kill.order.0,
        kill.by.as_ref().map_or(0, |(_, adj)| *adj)
    )];
    match kill.exhausted {
        Exhausted::Memory => lines.extend(mem_info(engine)),
        Exhausted::Group(id) => lines.extend(group_info(engine, groups, id)),
    }
    lines.push("Tasks state (memory values in pages):".into());
    lines.push("[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name".into());
    lines.extend(kill.candidates.iter().map(task_line));
    let victim = &kill.candidates[kill.victim];
    let of = match kill.exhausted {
        Exhausted::Memory => "CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom".to_owned(),
        Exhausted::Group(id) => {
            let full = path(groups, id);
            format!("CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={full}")
        }
    };
    let (group, Candidate { name, id, .. }) = (path(groups, victim.group), victim);
    lines.push(format!("oom-kill:constraint={of},task_memcg={group},task={name},pid={},uid=0", id.0));
    lines.extend(victims(groups, kill));
    lines
}

/// Returns the lines that name the killed processes.
fn victims(groups: &NamedGroups, kill: &Kill) -> Vec<String> {
    let begin = match kill.exhausted {
        Exhausted::Memory => "Out of memory",
        Exhausted::Group(_) => "Memory cgroup out of memory",
    };
    let victim = &kill.candidates[kill.victim];
    let mut lines = vec![killed_line(begin, victim)];
    if let Some(whole) = kill.whole {
        let group = path(groups, whole);
        lines.push(format!("Tasks in {group} are going to be killed due to memory.oom.group set"));
        lines.extend(kill.others.iter().map(|n| killed_line(begin, &kill.candidates[*n])));
    }
    lines
}

fn task_line(it: &Candidate) -> String {
    let Candidate { id, name, oom_score_adj, resident, .. } = it;
    let (pid, rss, tables) = (id.0, resident.rss(), resident.tables * PAGE_BYTES as u64);
    format!(
        "[{pid:>7}]     0 {pid:>5} {:>8} {rss:>8} {tables:>8} {:>8} {oom_score_adj:>13} {name}",
        resident.mapped, resident.swapped
    )
}

fn killed_line(begin: &str, it: &Candidate) -> String {
    let Candidate { id, name, oom_score_adj, resident, .. } = it;
    let kib = |pages: u64| pages * PAGE_KIB;
    format!(
        "{begin}: Killed process {} ({name}) total-vm:{}kB, anon-rss:{}kB, file-rss:{}kB, shmem-rss:0kB, UID:0 \
         pgtables:{}kB oom_score_adj:{oom_score_adj}",
        id.0,
        kib(resident.mapped),
        kib(resident.anon),
        kib(resident.file),
        kib(resident.tables)
    )
}

/// Returns those lines of a report that show the memory and the events of a group that has reached its limit.
fn group_info<M: Machine>(engine: &Engine<M>, groups: &NamedGroups, id: GroupId) -> Vec<String> {
    let Some(tree) = &engine.memory().groups else { return Vec::new() };
    let stat = engine.lru().group_stat(id);
    let (usage, limit) = (tree.usage(id) * PAGE_KIB, tree.limit(id, Limit::Max) * PAGE_KIB);
    let failures = stat.get("memory.events.max").copied().unwrap_or_default();
    let mut lines = vec![format!("memory: usage {usage}kB, limit {limit}kB, failcnt {failures}")];
    let memsw = tree.limit(id, Limit::Memsw);
    if memsw < u64::MAX {
        let (usage, limit, failures) = (tree.memsw_usage(id) * PAGE_KIB, memsw * PAGE_KIB, tree.memsw_failures(id));
        lines.push(format!("memory+swap: usage {usage}kB, limit {limit}kB, failcnt {failures}"));
    }
    lines.push(format!("Memory cgroup stats for {}:", path(groups, id)));
    let bytes = |names: [&str; 2]| names.iter().filter_map(|name| stat.get(*name)).sum::<u64>() * PAGE_BYTES as u64;
    lines.push(format!("anon {}", bytes(["inactive_anon", "active_anon"])));
    lines.push(format!("file {}", bytes(["inactive_file", "active_file"])));
    let is_event = |name: &str| name.starts_with("pg") || name.starts_with("workingset_");
    lines.extend(stat.iter().filter(|(name, _)| is_event(name)).map(|(name, value)| format!("{name} {value}")));
    lines
}

/// Returns the line `Mem-Info` and the lines after it, up to the totals of pages.
fn mem_info<M: Machine>(engine: &Engine<M>) -> Vec<String> {
    let memory = engine.memory();
    let all = memory.vmstat_of(|_| true);
    let of = |name: &str| all.get(name).copied().unwrap_or_default();
    let mut lines = vec![
        "Mem-Info:".to_owned(),
        format!(
            "active_anon:{} inactive_anon:{} isolated_anon:{}",
            of("nr_active_anon"),
            of("nr_inactive_anon"),
            of("nr_isolated_anon")
        ),
        format!(
            " active_file:{} inactive_file:{} isolated_file:{}",
            of("nr_active_file"),
            of("nr_inactive_file"),
            of("nr_isolated_file")
        ),
        format!(" unevictable:{} dirty:{} writeback:{}", of("nr_unevictable"), of("nr_dirty"), of("nr_writeback")),
        format!(" slab_reclaimable:{} slab_unreclaimable:{}", of("nr_slab_reclaimable"), of("nr_slab_unreclaimable")),
        format!(" mapped:{} shmem:0 pagetables:{}", of("nr_mapped"), of("nr_page_table_pages")),
        format!(" sec_pagetables:0 bounce:{}", of("nr_bounce")),
        " kernel_misc_reclaimable:0".to_owned(),
        format!(" free:{} free_pcp:0 free_cma:0", of("nr_free_pages")),
    ];
    for node in &memory.nodes {
        lines.push(node_line(node.id, &memory.node_vmstat(node.id), is_hopeless(engine, node.id)));
    }
    for zone in &memory.zones {
        lines.push(zone_line(zone, &memory.vmstat_of(|it| it.id == zone.id)));
        let reserves = (0..).map_while(|classzone| zone.lowmem_reserve(classzone));
        lines.push(format!(
            "lowmem_reserve[]: {}",
            reserves.map(|pages| pages.to_string()).collect::<Vec<_>>().join(" ")
        ));
    }
    lines.extend(memory.zones.iter().map(|zone| buddy_line(zone, memory.free_blocks(zone))));
    let swap = engine.swap();
    let present: u64 = memory.zones.iter().map(|zone| zone.present()).sum();
    let managed: u64 = memory.zones.iter().map(|zone| zone.managed()).sum();
    lines.extend([
        format!("{} total pagecache pages", of("nr_file_pages")),
        format!("Free swap  = {}kB", u64::from(swap.free_slots()) * PAGE_KIB),
        format!("Total swap = {}kB", u64::from(swap.total_slots()) * PAGE_KIB),
        format!("{present} pages RAM"),
        "0 pages HighMem/MovableOnly".to_owned(),
        format!("{} pages reserved", present.saturating_sub(managed)),
    ]);
    lines
}

/// Returns whether reclaim treats a node as hopeless (`all_unreclaimable`).
fn is_hopeless<M: Machine>(engine: &Engine<M>, node: NodeId) -> bool {
    let mut zones = engine.memory().zones.iter().filter(|zone| zone.node == node);
    zones.all(|zone| zone.is(ZoneFlag::ALL_UNRECLAIMABLE)) || engine.reclaim().has_kswapd_failed(node)
}

/// Returns the values of several counters of a node or zone as one text, with ` name:valuekB` for each. For each
/// counter, `names` holds the name to show and the name in `/proc/vmstat`.
fn counters(stat: &Vmstat, names: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (shown, name) in names {
        let pages = stat.get(*name).copied().unwrap_or_default();
        let _ = write!(text, " {shown}:{}kB", pages * PAGE_KIB);
    }
    text
}

/// The sizes of LRU lists that the lines about nodes and zones show. For each list: its name in these lines, and its
/// name in `/proc/vmstat`.
const LISTS: [(&str, &str); 5] = [
    ("active_anon", "nr_active_anon"),
    ("inactive_anon", "nr_inactive_anon"),
    ("active_file", "nr_active_file"),
    ("inactive_file", "nr_inactive_file"),
    ("unevictable", "nr_unevictable"),
];

fn node_line(node: NodeId, stat: &Vmstat, is_hopeless: bool) -> String {
    let more = [
        ("isolated(anon)", "nr_isolated_anon"),
        ("isolated(file)", "nr_isolated_file"),
        ("mapped", "nr_mapped"),
        ("dirty", "nr_dirty"),
        ("writeback", "nr_writeback"),
        ("pagetables", "nr_page_table_pages"),
    ];
    let hopeless = if is_hopeless { "yes" } else { "no" };
    format!("Node {}{}{} all_unreclaimable? {hopeless}", node.0, counters(stat, &LISTS), counters(stat, &more))
}

fn zone_line<M: Machine>(zone: &Zone<M>, stat: &Vmstat) -> String {
    let marks = zone.marks();
    let kib = |pages: u64| pages * PAGE_KIB;
    format!(
        "Node {} {} free:{}kB boost:{}kB min:{}kB low:{}kB high:{}kB reserved_highatomic:0KB{} writepending:{}kB \
         present:{}kB managed:{}kB mlocked:0kB bounce:0kB free_pcp:0kB local_pcp:0kB free_cma:0kB",
        zone.node.0,
        zone.kind.name(),
        kib(zone.free_pages()),
        kib(zone.boost()),
        kib(marks.min),
        kib(marks.low),
        kib(marks.high),
        counters(stat, &LISTS),
        kib(stat.get("nr_dirty").copied().unwrap_or_default() + stat.get("nr_writeback").copied().unwrap_or_default()),
        kib(zone.present()),
        kib(zone.managed())
    )
}

fn buddy_line<M: Machine>(zone: &Zone<M>, free: [u64; engine::memory::MAX_ORDERS]) -> String {
    let sizes = || (0..).map(|order: u32| PAGE_KIB << order).zip(free);
    let blocks = sizes().map(|(kib, count)| format!(" {count}*{kib}kB")).collect::<String>();
    let sum: u64 = sizes().map(|(kib, count)| kib * count).sum();
    format!("Node {} {}:{blocks} = {sum}kB", zone.node.0, zone.kind.name())
}
