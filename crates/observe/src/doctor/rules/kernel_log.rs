//! Findings in a kernel log: killed processes, failed requests, blocked tasks.

use super::{Said, figure, ill, percent};
use crate::doctor::looks::of_report;
use crate::doctor::signs::Signs;
use crate::doctor::want::{Room, Want, Why};
use crate::doctor::{Evidence, Finding, Weight};
use recordings::kernel_log::gfp::ZoneKind;
use recordings::kernel_log::killers::{Eviction, Killer};
use recordings::kernel_log::{Kill, Kind, Limit, Log, Report, ZoneReport};
use std::collections::BTreeMap;

/// Largest number of reasons for kills or failures that are described in full. Further reasons are only counted.
const TOLD_MAX: usize = 3;

/// Largest number of process names that a sentence lists.
const NAMES_MAX: usize = 3;

/// Smallest share of memory, percent, that a use of memory must have to be named in a finding.
const HOLDER_MIN: f64 = 10.0;

/// Sentences about a kernel log, and the figures that support them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// The sentences about the kernel log.
    pub sentences: Vec<String>,
    /// The figures that support the sentences about the kernel log.
    pub figures: Vec<Evidence>,
    /// Number of processes that were killed according to the log.
    pub kills: usize,
}

/// Returns sentences that say which processes were killed according to a log, and why. The sentences summarise all
/// reports of the OOM killer in the log.
#[must_use]
pub fn kills(log: &Log) -> Told {
    let mut told = Told::default();
    let reports: Vec<&Report> = log.reports.iter().filter(|report| report.kind == Kind::OutOfMemory).collect();
    told.kills = log.kills.len() + reports.iter().map(|report| report.kills.len()).sum::<usize>();
    let groups = alike(&reports);
    for (n, alike) in groups.iter().enumerate().take(TOLD_MAX) {
        let want = Want::of(alike[0]);
        told.sentences.push(who_was_killed(alike));
        told.sentences.extend(why(&want));
        told.sentences.extend(holders(&want));
        told.sentences.extend(largest(alike[0]));
        told.sentences.extend(next(&want).map(str::to_owned));
        // Figures are given only for the first cause. They show how to read the reports of the others.
        if n == 0 {
            told.figures.extend(figures(&want));
        }
    }
    if groups.len() > TOLD_MAX {
        let rest: usize = groups[TOLD_MAX..].iter().map(Vec::len).sum();
        told.sentences.push(format!("{rest} more reports of other causes follow."));
    }
    if !log.kills.is_empty() {
        let of_cgroup = log.kills.iter().filter(|kill| kill.is_of_cgroup).count();
        let whose = match (of_cgroup, log.kills.len() - of_cgroup) {
            (0, _) => "for want of memory",
            (_, 0) => "at the limit of a cgroup",
            _ => "for want of memory or at the limit of a cgroup",
        };
        let names = names(&log.kills.iter().collect::<Vec<_>>());
        told.sentences.push(format!("The kernel killed {names} {whose}; the log has no report of why."));
    }
    let mut killers: Vec<Killer> = log.evictions.iter().map(|it| it.by).collect();
    killers.sort();
    killers.dedup();
    for killer in killers {
        let all: Vec<&Eviction> = log.evictions.iter().filter(|it| it.by == killer).collect();
        told.sentences.extend(evicted(killer, &all));
        told.figures.push(figure(&format!("killed, by {}", name_of(killer)), all.len() as f64, "times"));
    }
    told
}

/// Returns whether a log reports a killed process, or a call of the kernel's killer.
#[must_use]
pub fn tells_of_kills(log: &Log) -> bool {
    let has_report = log.reports.iter().any(|report| report.kind == Kind::OutOfMemory);
    has_report || !log.kills.is_empty() || !log.evictions.is_empty()
}

fn name_of(killer: Killer) -> &'static str {
    match killer {
        Killer::SystemdOomd => "systemd-oomd",
        Killer::Earlyoom => "earlyoom",
        Killer::Kubelet => "kubelet",
        Killer::OfContainer | Killer::OfNode => "the kernel (as Kubernetes tells)",
        Killer::OfUnit => "the kernel (as systemd tells)",
    }
}

/// Returns sentences on the processes or containers that a killer in user space ended: which they are, the reason that
/// the killer states, and the settings that control this killer.
fn evicted(killer: Killer, all: &[&Eviction]) -> Vec<String> {
    let Some(last) = all.last() else { return Vec::new() };
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    all.iter().for_each(|it| *by_name.entry(&it.whom).or_default() += 1);
    let whom = match all {
        [one] if one.whom.is_empty() && killer == Killer::OfNode => "a process".to_owned(),
        [one] if one.whom.is_empty() => "a container".to_owned(),
        [one] => one.whom.clone(),
        several => listed(&format!("{} times", several.len()), by_name),
    };
    let processes = all.iter().filter_map(|it| it.processes).sum::<u64>();
    let how_many = match processes {
        0 => String::new(),
        1 => ", 1 process".to_owned(),
        many => format!(", {many} processes"),
    };
    let line = if all.len() > 1 { "the last on line" } else { "line" };
    let place = format!("{line} {}{how_many}", last.line);
    let why = last.why.as_ref().map_or_else(String::new, |why| format!(" Its reason: {why}."));
    let (said, how) = match killer {
        Killer::SystemdOomd => (
            format!("systemd-oomd, and not the kernel, killed {whom} ({place}).{why}"),
            "It decides by how long a cgroup waits (PSI), or by memory and swap used, while the kernel may still find memory: \
             ManagedOOMMemoryPressureLimit= of the unit, and SwapUsedLimit= and DefaultMemoryPressureDurationSec= of \
             oomd.conf; `oomctl` shows them.",
        ),
        Killer::Earlyoom => (
            format!("earlyoom, and not the kernel, killed {whom} ({place}).{why}"),
            "It decides by what is available of memory and free of swap, both together (-m and -s), before the kernel finds none.",
        ),
        Killer::Kubelet if all.iter().all(|it| it.whom.is_empty() && it.why.is_none()) => (
            format!("kubelet set out to evict pods for want of memory ({place}); which it evicted is not in the log."),
            OF_KUBELET,
        ),
        Killer::Kubelet => (format!("kubelet, and not the kernel, evicted {whom} ({place}).{why}"), OF_KUBELET),
        Killer::OfContainer => (
            format!("The kernel killed {whom} ({place}), as Kubernetes tells it (OOMKilled).{why}{}", described(all)),
            "A container is killed at its own limit (resources.limits.memory), whatever is free on the \
             node; the kernel log of the node has the report.",
        ),
        Killer::OfNode => (
            format!("The kernel killed {whom} ({place}), as kubelet tells it (SystemOOM).{why}"),
            "The node's own memory was exhausted, and no container had to reach its limit: requests that sum up to what the node has \
             keep it from this, and the node's kernel log has the report.",
        ),
        Killer::OfUnit => (
            format!("The kernel killed a process of {whom} ({place}), as systemd tells it.{why}"),
            "The kernel's own report says why.",
        ),
    };
    vec![said, how.to_owned()]
}

/// The way in which kubelet decides what to evict.
const OF_KUBELET: &str = "It decides by memory.available of the node (--eviction-hard, --eviction-soft), and takes what exceeds its \
                          request first: a request that is true keeps a container.";

/// Returns a sentence on the limits and restarts of killed containers, as far as `kubectl describe` tells them.
fn described(all: &[&Eviction]) -> String {
    let one = |it: &&&Eviction| {
        let limit = it.limit.as_ref().map(|limit| format!("its limit is {limit}"));
        let restarts = it.restarts.map(|times| {
            let s = if times == 1 { "" } else { "s" };
            format!("it was restarted {times} time{s} in all")
        });
        let parts: Vec<String> = [limit, restarts].into_iter().flatten().collect();
        let whom = if it.whom.is_empty() { "this container" } else { &*it.whom };
        (!parts.is_empty()).then(|| format!(" Of {whom}: {}.", parts.join(", ")))
    };
    all.iter().filter_map(|it| one(&it)).take(NAMES_MAX).collect()
}

/// Sorts the kernel's reports of failed requests into groups, so that the same sentences are true of all reports in a
/// group. Reports of one group agree in their kind, order, zones and cgroup limit, and in the reason for the failure.
/// The largest group comes first.
fn alike<'a>(reports: &[&'a Report]) -> Vec<Vec<&'a Report>> {
    let mut groups: Vec<(String, Vec<&Report>)> = Vec::new();
    for report in reports {
        let want = Want::of(report);
        let zones: Vec<ZoneKind> = want.rooms.iter().map(|room| room.zone.kind).collect();
        let limited = report.cgroup.as_ref().and_then(|cgroup| cgroup.limited.clone());
        let key = format!("{:?} {:?} {zones:?} {limited:?} {:?}", report.kind, want.why, report.order);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(report),
            None => groups.push((key, vec![report])),
        }
    }
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.len()));
    groups.into_iter().map(|(_, group)| group).collect()
}

fn who_was_killed(alike: &[&Report]) -> String {
    let kills: Vec<&Kill> = alike.iter().flat_map(|report| &report.kills).collect();
    let place = place(alike);
    match (kills.as_slice(), alike[0].has_panicked) {
        ([], true) => format!("Memory was exhausted and nobody was left to kill: the kernel stopped ({place})."),
        ([], false) => format!("The kernel's killer was called ({place}); whom it killed is not in the log."),
        ([kill], _) => {
            let had = kill.rss_kib().map_or_else(String::new, |kib| format!(", which had {kib} kB in memory"));
            let name = if kill.name.is_empty() { "a process whose name is not in the text" } else { &kill.name };
            format!("The kernel killed {name} (PID {}){had} ({place}).", kill.pid)
        }
        (kills, _) => format!("The kernel killed {} ({place}).", names(kills)),
    }
}

/// Returns words for the place of reports in the log: the line of a single report, or the first and the last line of
/// several reports.
fn place(alike: &[&Report]) -> String {
    let at = |report: &Report| {
        let time = report.at.as_ref().map_or_else(String::new, |at| format!(", {at}"));
        format!("line {}{time}", report.line)
    };
    match alike {
        [] => String::new(),
        [one] => at(one),
        [first, .., last] => format!("{} reports, from {} to {}", alike.len(), at(first), at(last)),
    }
}

/// Returns the number of killed processes, and the most frequent of their names with counts: `5 processes: httpd (4),
/// java`.
fn names(kills: &[&Kill]) -> String {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    kills.iter().for_each(|kill| *by_name.entry(&kill.name).or_default() += 1);
    listed(&format!("{} process{}", kills.len(), if kills.len() == 1 { "" } else { "es" }), by_name)
}

/// Returns `what`, followed by the most frequent of the names in `by_name` with their counts.
fn listed(what: &str, by_name: BTreeMap<&str, usize>) -> String {
    let mut all: Vec<(&str, usize)> = by_name.into_iter().filter(|(name, _)| !name.is_empty()).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown: Vec<String> = all
        .iter()
        .take(NAMES_MAX)
        .map(|(name, count)| if *count == 1 { (*name).to_owned() } else { format!("{name} ({count})") })
        .collect();
    let more = if all.len() > NAMES_MAX { " and others" } else { "" };
    if shown.is_empty() { what.to_owned() } else { format!("{what}: {}{more}", shown.join(", ")) }
}

fn pages_of(order: i32) -> String {
    match order {
        ..=0 => "a page".to_owned(),
        order => format!("{} pages in one block (order {order})", 1_u64 << order.min(30)),
    }
}

/// Returns sentences on a request for memory, and on the reason why it found none.
fn why(want: &Want<'_>) -> Vec<String> {
    let report = want.report;
    if report.order.is_some_and(|order| order < 0) {
        return vec!["Somebody called the killer by hand (SysRq f).".to_owned()];
    }
    let mut said = cut(want);
    let asked = || {
        let task = report.task.as_deref().unwrap_or("A task");
        let gfp = report.gfp.as_ref().map_or_else(String::new, |gfp| format!(" ({})", gfp.name()));
        format!("{task} asked for {}{gfp}", pages_of(report.order.unwrap_or(0)))
    };
    match want.why {
        Why::Limit => said.extend(limit(report)),
        Why::Untold if report.is_cut => {}
        Why::Untold => {
            let what = if report.gfp.is_none() { "what was asked for" } else { "how much is free in which zone" };
            said.push(format!("The report does not tell {what}: why there was no memory is not known."));
        }
        Why::Short | Why::Pieces | Why::Over => {
            said.push(format!("{}, which {} can serve{}.", asked(), alone(want), closed(want)));
            said.extend(rooms(want));
            said.extend(swap(want));
        }
    }
    said
}

/// Returns sentences on a report whose beginning is missing: what is unknown for this reason, and what the rest tells of
/// zones and swap. Returns none for other reports.
fn cut(want: &Want<'_>) -> Vec<String> {
    let report = want.report;
    if !report.is_cut {
        return Vec::new();
    }
    if want.why == Why::Limit {
        return vec!["The beginning of the report is missing: which task asked for how much is not known.".to_owned()];
    }
    let mut said = vec![
        "The beginning of the report is missing: who asked for how much and of which kind, and so which zones could serve it, is \
         not known."
            .to_owned(),
    ];
    let nodes = has_nodes(report);
    let with_marks = || report.zones.iter().filter(|zone| zone.kib.contains_key("min"));
    let under: Vec<String> = with_marks()
        .filter(|zone| zone.kib("free") < zone.kib("min"))
        .map(|zone| format!("{} ({} kB, min {} kB)", zone_name(zone, nodes), zone.kib("free"), zone.kib("min")))
        .collect();
    said.push(match (under.as_slice(), with_marks().next()) {
        (_, None) => "The lines with what is free in each zone are missing, too.".to_owned(),
        ([], _) => format!("Of the zones that are there, none is under its min mark: {}.", zones_with_free(report)),
        (under, _) => format!("Less than the min mark is free in {}.", under.join(", ")),
    });
    if let [Some(total), Some(free)] = report.swap {
        said.push(format!("{}.", of_swap(total, free)));
    }
    said
}

/// Returns the zones of a report with their free memory.
fn zones_with_free(report: &Report) -> String {
    let zones = report.zones.iter().filter(|zone| zone.kib.contains_key("free"));
    let named = zones.map(|zone| format!("{} has {} kB free", zone_name(zone, has_nodes(report)), zone.kib("free")));
    named.collect::<Vec<_>>().join(", ")
}

fn zone_names<'a>(zones: impl Iterator<Item = &'a ZoneReport>, has_nodes: bool) -> String {
    let names: Vec<String> = zones.map(|zone| zone_name(zone, has_nodes)).collect();
    match names.as_slice() {
        [] => "no zone".to_owned(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

fn zone_name(zone: &ZoneReport, has_nodes: bool) -> String {
    if has_nodes { format!("{} of node {}", zone.kind, zone.node) } else { zone.kind.to_string() }
}

fn has_nodes(report: &Report) -> bool {
    report.zones.iter().any(|zone| zone.node != report.zones[0].node)
}

/// Returns words that name the zones that the request `want` may use, such as `zone DMA alone`. The word `alone` is
/// there only if other zones have free memory.
fn alone(want: &Want<'_>) -> String {
    let names = zone_names(want.rooms.iter().map(|room| room.zone), has_nodes(want.report));
    let several = if want.rooms.len() == 1 { "" } else { "s" };
    let alone = if want.elsewhere.is_empty() { "" } else { " alone" };
    format!("zone{several} {names}{alone}")
}

/// Returns words that name the zones that have free memory but that the request may not use, and the reason, such as a
/// cpuset. Returns an empty text if there are no such zones.
fn closed(want: &Want<'_>) -> String {
    if want.elsewhere.is_empty() {
        return String::new();
    }
    let report = want.report;
    let with_free: Vec<String> = want
        .elsewhere
        .iter()
        .map(|zone| format!("{} ({} kB free)", zone_name(zone, has_nodes(report)), zone.kib("free")))
        .collect();
    let is_of_node = |zone: &&ZoneReport| report.nodes.as_ref().is_some_and(|nodes| !nodes.contains(&zone.node));
    let by_nodes = if !want.elsewhere.iter().any(is_of_node) {
        ""
    } else if report.constraint.as_deref() == Some("CONSTRAINT_MEMORY_POLICY") {
        ", which its memory policy excludes"
    } else {
        ", which its cpuset or memory policy excludes"
    };
    format!(", not {}{by_nodes}", with_free.join(" or "))
}

/// Returns sentences on the zones that the request may use: their free memory, and the part of the free memory that the
/// request may not use. The highest zone comes first, because the kernel tries it first.
fn rooms(want: &Want<'_>) -> Vec<String> {
    let report = want.report;
    let nodes = has_nodes(report);
    let open = || want.rooms.iter().filter(|room| room.is_over_mark());
    match want.why {
        Why::Short => {
            // Lower zones keep nearly all memory for other requests, so only their sum is reported.
            let is_kept = |room: &&Room<'_>| room.reserve > 0 && room.cma == 0;
            let kept: Vec<&Room<'_>> = want.rooms.iter().filter(is_kept).collect();
            let mut said: Vec<String> =
                want.rooms.iter().rev().filter(|room| !is_kept(room)).map(|room| short(room, nodes)).collect();
            match kept.as_slice() {
                [] => {}
                [one] => said.push(short(one, nodes)),
                several => {
                    let [free, reserve] = [|room: &Room<'_>| room.free, |room: &Room<'_>| room.reserve]
                        .map(|of| several.iter().map(|room| of(room)).sum::<u64>());
                    said.push(format!(
                        "{free} kB are free in {}, which keep {reserve} kB from requests that a higher zone could serve (lowmem_reserve): \
                         too little is left there.",
                        zone_names(several.iter().map(|room| room.zone), nodes)
                    ));
                }
            }
            said
        }
        Why::Pieces => open().map(|room| pieces(room, report, nodes)).collect(),
        _ => vec![format!(
            "When the report was printed, {} had enough for it: memory came back meanwhile, or reclaim found nothing to free before.",
            zone_names(open().map(|room| room.zone), nodes)
        )],
    }
}

/// Returns a sentence that says why a zone has too little memory for a request. `nodes` is `true` if the computer has
/// several nodes; the sentence then names the node, too.
fn short(room: &Room<'_>, nodes: bool) -> String {
    let name = zone_name(room.zone, nodes);
    let Room { free, cma, high_atomic, reserve, mark, left, .. } = *room;
    let under = if mark == room.zone.kib("min") {
        format!("under its min mark of {mark} kB")
    } else {
        format!("under {mark} kB, the part of its min mark that even such a request must leave")
    };
    let mut kept = Vec::new();
    if cma > 0 {
        kept.push(format!("{cma} of them are CMA, which only pages that can be moved may take"));
    }
    if high_atomic > 0 {
        kept.push(format!("{high_atomic} are kept for blocks that cannot be waited for (highatomic)"));
    }
    if reserve > 0 {
        kept.push(format!("{reserve} are kept from requests that a higher zone could serve (lowmem_reserve)"));
    }
    let left_is = match (kept.is_empty(), left) {
        (true, _) => format!("{free} kB are free in {name}"),
        (false, ..=0) => return format!("{free} kB are free in {name}, but {}: nothing is left.", kept.join(", and ")),
        (false, left) => {
            format!("{free} kB are free in {name}, but {}: {left} kB are left", kept.join(", and "))
        }
    };
    // A boost raises the mark for a short time, and refuses requests that would otherwise be served.
    let boost = room.zone.kib("boost");
    let boosted = match mark.checked_sub(boost) {
        Some(without) if boost > 0 && left > without as i64 => {
            format!(" Without a boost of {boost} kB (watermark_boost_factor) that mark would be {without} kB.")
        }
        _ => String::new(),
    };
    format!("{left_is}, {under}.{boosted}")
}

/// Returns a sentence on a zone with enough free memory, but without a free block of the requested size.
fn pieces(room: &Room<'_>, report: &Report, nodes: bool) -> String {
    let order = report.order.unwrap_or(0).clamp(0, 30);
    let size_kib = report.page_kib() << order;
    let largest = room.zone.blocks.iter().filter(|blocks| blocks.count > 0).map(|blocks| blocks.kib).max();
    let name = zone_name(room.zone, nodes);
    let largest = match largest {
        Some(kib) if kib >= size_kib => format!("those of {kib} kB that are free are kept for others"),
        Some(kib) => format!("the largest has {kib} kB"),
        None => "none is told".to_owned(),
    };
    format!("Memory is in pieces: {} kB are free in {name}, but in no block of {size_kib} kB; {largest}.", room.free)
}

/// Returns a sentence on how full swap is, and on which pages could be swapped out or dropped in the zones that the
/// request may use. Returns none if the report does not show swap.
fn swap(want: &Want<'_>) -> Option<String> {
    let [total, free] = want.report.swap;
    let (total, free) = (total?, free?);
    // Only programs' pages in the zones that are short could leave for swap.
    let sum = |name: &str| want.rooms.iter().map(|room| room.zone.kib(name)).sum::<u64>();
    let anon = sum("active_anon") + sum("inactive_anon");
    let files = sum("active_file") + sum("inactive_file");
    let unwritten = sum("writepending").max(sum("dirty") + sum("writeback"));
    let swap = of_swap(total, free);
    let zones = if want.rooms.len() == 1 { "this zone" } else { "these zones" };
    let has_room = percent(free as f64, total as f64) >= super::SWAP_FREE_MIN;
    let programs =
        if has_room { format!("; programs have {anon} kB in {zones} that could go there") } else { String::new() };
    let files = if files == 0 || want.why != Why::Short {
        String::new()
    } else if unwritten * 2 >= files {
        format!("; of {files} kB of files there {} are not yet written to disk", unwritten.min(files))
    } else {
        format!("; {files} kB of files are there")
    };
    Some(format!("{swap}{programs}{files}."))
}

/// Returns words that say how full swap is. Sizes are in KiB.
fn of_swap(total: u64, free: u64) -> String {
    match (total, free) {
        (0, _) => "There is no swap".to_owned(),
        (total, free) if free == total => format!("Swap is empty ({free} kB free)"),
        (total, free) if percent(free as f64, total as f64) < super::SWAP_FREE_MIN => {
            format!("Swap is full ({free} of {total} kB free)")
        }
        (total, free) => format!("Swap has {free} of {total} kB free"),
    }
}

/// Returns sentences on the memory of the cgroup whose limit made a request fail; empty if the report is not about a
/// cgroup.
fn limit(report: &Report) -> Vec<String> {
    let Some(cgroup) = &report.cgroup else { return Vec::new() };
    let name = cgroup.limited.as_deref().unwrap_or("of the task");
    let at_limit = |what: &str| {
        let Limit { usage_kib, limit_kib, failures } = *cgroup.limits.get(what)?;
        let limit_kib = limit_kib?;
        Some((usage_kib, limit_kib, failures))
    };
    let mut said = Vec::new();
    let of_parent = match (&cgroup.limited, &cgroup.of_task) {
        (Some(limited), Some(task)) if limited != task => format!(" The process was in {task}, below it."),
        _ => String::new(),
    };
    let swap = at_limit("memory+swap").filter(|(usage, limit, _)| usage >= limit);
    said.push(match (at_limit("memory"), swap) {
        (_, Some((usage, limit, failures))) => {
            format!("The cgroup {name} was at its limit of memory and swap together: {usage} of {limit} kB, {failures} times.{of_parent}")
        }
        (Some((usage, limit, failures)), None) => {
            format!("The cgroup {name} was at its limit: {usage} of {limit} kB, {failures} times.{of_parent} What is free outside is not for it.")
        }
        (None, None) => format!("The cgroup {name} was at its limit.{of_parent} What is free outside is not for it."),
    });
    let of = |names: &[&str]| names.iter().find_map(|name| cgroup.stats.get(*name)).copied().unwrap_or(0) / 1024;
    let shmem = of(&["total_shmem", "shmem"]);
    let anon = of(&["anon", "total_rss", "rss"]);
    let files = of(&["file", "total_cache", "cache"]).saturating_sub(shmem);
    let kernel = of(&["kernel"]).max(
        of(&["slab"]).max(of(&["slab_reclaimable"]) + of(&["slab_unreclaimable"]))
            + of(&["kernel_stack"])
            + of(&["pagetables"])
            + of(&["percpu"])
            + of(&["sock"]),
    );
    if !cgroup.stats.is_empty() {
        let parts = [
            ("memory of programs", anon),
            ("shared memory and tmpfs", shmem),
            ("files", files),
            ("the kernel's own", kernel),
        ];
        let mut parts: Vec<(&str, u64)> = parts.into_iter().filter(|(_, kib)| *kib > 0).collect();
        parts.sort_by_key(|(_, kib)| std::cmp::Reverse(*kib));
        let parts: Vec<String> = parts.iter().map(|(what, kib)| format!("{what} {kib} kB")).collect();
        said.push(format!("It held: {}.", parts.join(", ")));
    }
    match cgroup.limits.get("swap") {
        Some(Limit { limit_kib: Some(0), .. }) => said.push("It may not use swap.".to_owned()),
        Some(Limit { usage_kib, limit_kib: Some(limit), .. }) if usage_kib >= limit => {
            said.push(format!("Its swap was full: {usage_kib} of {limit} kB."));
        }
        _ => {}
    }
    said
}

/// Returns a sentence on what memory was used for; none if the request failed for another reason than lack of memory,
/// or if other zones had free memory.
fn holders(want: &Want<'_>) -> Option<String> {
    let is_untold = want.why == Why::Untold && want.report.is_cut;
    if !matches!(want.why, Why::Short | Why::Over) && !is_untold || !want.elsewhere.is_empty() {
        return None;
    }
    let usage = of_report(want.report)?;
    let total = usage.total?;
    let parts = [
        ("memory of programs", usage.anon),
        ("shared memory and tmpfs", usage.shmem),
        ("page cache", usage.files()),
        ("slab that cannot be reclaimed", usage.slab_unreclaimable),
        ("other slab", usage.slab_reclaimable),
        ("page tables", usage.page_tables),
        ("huge pages", usage.huge_pool),
        ("in no line of the report", usage.unaccounted()),
    ];
    let mut parts: Vec<(&str, f64)> =
        parts.into_iter().filter_map(|(name, pages)| Some((name, percent(pages?, total)))).collect();
    parts.retain(|(_, share)| *share >= HOLDER_MIN);
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let parts: Vec<String> = parts.iter().map(|(name, share)| format!("{name} {share:.0} %")).collect();
    (!parts.is_empty()).then(|| format!("Memory was: {}.", parts.join(", ")))
}

/// Returns a sentence that advises what to do about a failed request. The advice depends on the reason of the failure,
/// `want.why`. Returns none if there is no advice.
fn next(want: &Want<'_>) -> Option<&'static str> {
    let is_of_node = |zone: &&&ZoneReport| want.report.nodes.as_ref().is_some_and(|nodes| !nodes.contains(&zone.node));
    match want.why {
        Why::Limit => Some(
            "Raise its limit (memory.max; memory.limit_in_bytes of version 1), or look in its memory.stat, twice, for what grows.",
        ),
        Why::Short if want.rooms.iter().any(|room| room.cma * 2 > room.free) => Some(
            "A smaller CMA (`cma=` of the kernel's command line, or of the device tree) leaves more to the kernel.",
        ),
        Why::Short if want.elsewhere.iter().any(|zone| is_of_node(&zone)) => {
            Some("Let it take from other nodes, too: `cpuset.mems`, or `numactl --interleave` instead of `--membind`.")
        }
        Why::Pieces => Some(
            "A higher vm.min_free_kbytes keeps larger blocks, `echo 1 > /proc/sys/vm/compact_memory` makes some now; who asks for \
             so much in one block is in the trace of the report.",
        ),
        _ => None,
    }
}

/// Returns a sentence about the process that had the most memory and swap when memory was exhausted. Processes with the
/// same name are added up. Returns `None` if the report shows no process with memory.
fn largest(report: &Report) -> Option<String> {
    let page_kib = report.page_kib();
    let mut by_name: BTreeMap<&str, (usize, u64, u64)> = BTreeMap::new();
    for task in &report.tasks {
        let (count, rss, swap) = by_name.entry(&task.name).or_default();
        (*count, *rss, *swap) = (*count + 1, *rss + task.rss_pages, *swap + task.swap_pages);
    }
    let (name, (count, rss, swap)) = by_name.into_iter().max_by_key(|(_, (_, rss, swap))| rss + swap)?;
    let all: u64 = report.tasks.iter().map(|task| task.rss_pages + task.swap_pages).sum();
    let share = percent((rss + swap) as f64, all as f64);
    let who = if count == 1 { name.to_owned() } else { format!("{count} processes {name} together") };
    let in_swap = if swap > 0 { format!(" and {} kB in swap", swap * page_kib) } else { String::new() };
    (rss + swap > 0).then(|| {
        format!(
            "Of the processes {who} had the most: {} kB in memory{in_swap}, {share:.0} % of what all had.",
            rss * page_kib
        )
    })
}

fn figures(want: &Want<'_>) -> Vec<Evidence> {
    let report = want.report;
    let nodes = has_nodes(report);
    let mut figures = Vec::new();
    if let Some(cgroup) = &report.cgroup {
        for (what, Limit { usage_kib, limit_kib, failures }) in &cgroup.limits {
            figures.push(figure(&format!("{what}: usage"), *usage_kib as f64, "kB"));
            figures.extend(limit_kib.map(|kib| figure(&format!("{what}: limit"), kib as f64, "kB")));
            figures.push(figure(&format!("{what}: failcnt"), *failures as f64, "times"));
        }
        return figures;
    }
    for room in &want.rooms {
        let name = zone_name(room.zone, nodes);
        let mut push = |what: &str, kib: f64| figures.push(figure(&format!("{name}: {what}"), kib, "kB"));
        push("free", room.free as f64);
        let kept = [("CMA", room.cma), ("highatomic", room.high_atomic), ("lowmem_reserve", room.reserve)];
        let kept: Vec<(&str, u64)> = kept.into_iter().filter(|(_, kib)| *kib > 0).collect();
        kept.iter().for_each(|(what, kib)| push(what, *kib as f64));
        if !kept.is_empty() {
            push("left for this request", room.left as f64);
        }
        push("min", room.zone.kib("min") as f64);
    }
    // Which zones a request of unknown kind may use is not known.
    for zone in report.zones.iter().filter(|zone| report.is_cut && zone.kib.contains_key("min")) {
        let name = zone_name(zone, nodes);
        figures.extend(["free", "min"].map(|what| figure(&format!("{name}: {what}"), zone.kib(what) as f64, "kB")));
    }
    let [total, free] = report.swap;
    figures.extend(total.map(|kib| figure("swap", kib as f64, "kB")));
    figures.extend(free.map(|kib| figure("free swap", kib as f64, "kB")));
    figures
}

/// Finds requests for memory that failed, or that waited for a long time, as the kernel logged them.
pub fn allocation_failed(signs: &Signs) -> Said {
    let log = signs.log.as_deref().ok_or("kernel log")?;
    let is_one = |report: &&Report| match report.kind {
        Kind::Failure | Kind::Stalled(_) => true,
        Kind::Shown => report.is_cut,
        Kind::OutOfMemory => false,
    };
    let reports: Vec<&Report> = log.reports.iter().filter(is_one).collect();
    if reports.is_empty() {
        return Ok(None);
    }
    let groups = alike(&reports);
    let (mut sentences, mut all_figures) = (Vec::new(), Vec::new());
    for (n, alike) in groups.iter().enumerate().take(TOLD_MAX) {
        let want = Want::of(alike[0]);
        let place = place(alike);
        let cannot_wait = alike[0].gfp.as_ref().is_some_and(|gfp| !gfp.may_sleep);
        sentences.push(match alike[0].kind {
            Kind::Stalled(ms) => format!("A request for memory waited {ms} ms ({place})."),
            Kind::Shown => format!(
                "The kernel printed a report on memory ({place}): its killer was called, or a request failed, or somebody asked for the \
                 report (SysRq m)."
            ),
            _ if cannot_wait => format!("A request that cannot wait for reclaim failed ({place})."),
            _ => format!("A request for memory failed ({place})."),
        });
        sentences.extend(why(&want));
        if alike[0].is_cut {
            sentences.extend(holders(&want));
        }
        sentences.extend(next(&want).map(str::to_owned));
        if n == 0 {
            all_figures = figures(&want);
        }
    }
    if groups.len() > TOLD_MAX {
        sentences.push(format!("{} more kinds of failures follow.", groups.len() - TOLD_MAX));
    }
    all_figures.push(figure("reports", reports.len() as f64, ""));
    let rule = "the kernel log has `page allocation failure` or `page allocation stalls`, or a report whose beginning is missing; the \
                latter is an illness where a zone is under its min mark"
        .to_owned();
    // A report of unknown reason may be one that a user asked for.
    let is_under = |report: &&&Report| report.zones.iter().any(|zone| zone.kib("free") < zone.kib("min"));
    let is_ill = reports.iter().any(|report| report.kind != Kind::Shown || is_under(&report));
    let finding = ill("allocation-failed", sentences.join(" "), all_figures, rule);
    Ok(finding.map(|finding| if is_ill { finding } else { Finding { weight: Weight::Notice, ..finding } }))
}

/// Finds CPUs that were stuck, and tasks that were blocked for a long time, according to the kernel's log.
pub fn stood_still(signs: &Signs) -> Said {
    let log = signs.log.as_deref().ok_or("kernel log")?;
    if log.blocked.is_empty() && log.stuck.is_empty() {
        return Ok(None);
    }
    let mut sentences = Vec::new();
    let mut is_in_reclaim = false;
    let count = |names: &[&str]| {
        let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
        names.iter().for_each(|name| *by_name.entry(name).or_default() += 1);
        listed(&format!("{} time{}", names.len(), if names.len() == 1 { "" } else { "s" }), by_name)
    };
    let blocked: Vec<&str> = log.blocked.iter().map(|it| without_pid(&it.task)).collect();
    if let Some(longest) = log.blocked.iter().map(|it| it.seconds).max() {
        let in_reclaim = log.blocked.iter().filter(|it| it.is_in_reclaim).count();
        is_in_reclaim |= in_reclaim > 0;
        sentences.push(format!(
            "Tasks slept for more than {longest} s without an end ({}); the traces of {in_reclaim} of them are in reclaim.",
            count(&blocked)
        ));
    }
    let stuck: Vec<&str> = log.stuck.iter().map(|it| without_pid(&it.task)).collect();
    if let Some(longest) = log.stuck.iter().map(|it| it.seconds).max() {
        let in_reclaim = log.stuck.iter().filter(|it| it.is_in_reclaim).count();
        is_in_reclaim |= in_reclaim > 0;
        sentences.push(format!(
            "A CPU was held by one task for up to {longest} s (soft lockup, {}); {in_reclaim} of them in reclaim.",
            count(&stuck)
        ));
    }
    if !is_in_reclaim {
        sentences.push("That is a disk, a lock or a driver, and not reclaim, as far as the log tells.".to_owned());
    }
    let figures = vec![
        figure("blocked tasks", log.blocked.len() as f64, "reports"),
        figure("soft lockups", log.stuck.len() as f64, "reports"),
    ];
    let rule = "the kernel log has `blocked for more than` or `soft lockup`; an illness where a trace of them goes through reclaim";
    Ok(Some(Finding {
        weight: if is_in_reclaim { Weight::Illness } else { Weight::Notice },
        ..Finding::new("stood-still", sentences.join(" "), figures, rule.to_owned())
    }))
}

fn without_pid(task: &str) -> &str {
    task.rsplit_once(':')
        .filter(|(_, pid)| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(task, |(name, _)| name)
}

#[cfg(test)]
mod tests;
