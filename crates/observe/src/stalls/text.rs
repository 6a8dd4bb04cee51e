//! The report about stalls of tasks, as text and as JSON.

use super::{Cause, Stall, Stalls, Wait};
use kit::shown;
use kit::words::counted;
use machine::Nanos;
use machine::note::{HeldBack, Met, SlowRequest, Work};
use report::Look;
use report::grid::{Cell, Grid, hanging};
use report::html::{Part, Section};
use serde_json::{Value, json as value};
use std::fmt::Write as _;

/// Largest number of tasks that a text names as the holders of the resource for which a task waited.
const NAMED: usize = 3;

/// Formats a time in milliseconds, for text that people read.
pub(super) fn ms(time: Nanos) -> String {
    format!("{:.3} ms", time.0 as f64 / 1e6)
}

fn seconds(time: Nanos) -> String {
    format!("{:.9} s", time.0 as f64 / 1e9)
}

/// Describes the stalls of runs in words. `trace` is the name of the file that `--trace` wrote, if any.
#[must_use]
pub fn text(runs: &[Stalls], trace: Option<&str>, look: Look) -> String {
    let mut text = String::new();
    for (n, found) in runs.iter().enumerate() {
        if n > 0 {
            text.push('\n');
        }
        text += &hanging("", &all_of(found), look);
        for (n, stall) in found.longest.iter().enumerate() {
            let _ = write!(text, "\n{}", hanging(&format!("{}. ", n + 1), &head_of(stall), look));
            for (what, line) in lines_of(&found.run, stall, trace) {
                let colon = if what.is_empty() { "" } else { ":" };
                text += &hanging(&format!("   {:<8}", format!("{what}{colon}")), &line, look);
            }
        }
    }
    text
}

/// Returns the stalls as sections of a page, one for each run.
#[must_use]
pub fn sections(runs: &[Stalls], trace: Option<&str>) -> Vec<Section> {
    let table = |run: &str, stall: &Stall| {
        let line = |(what, line): (&str, String)| vec![Cell::from(what), Cell::from(line.as_str())];
        let lines = lines_of(run, stall, trace).into_iter().map(line).collect();
        Grid { keys: 1, lines, texts: vec![0, 1], ..Grid::default() }
    };
    let section = |found: &Stalls| {
        let mut parts = vec![Part::Words(all_of(found))];
        for (n, stall) in found.longest.iter().enumerate() {
            let heading = format!("{}. {}", n + 1, head_of(stall));
            parts.extend([Part::Heading(heading.clone()), Part::table(heading, table(&found.run, stall))]);
        }
        Section::new(found.run.clone(), parts)
    };
    runs.iter().map(section).collect()
}

/// Describes in words the number and the total duration of a run's stalls.
fn all_of(Stalls { run, over, count, total, tasks, groups, longest }: &Stalls) -> String {
    match count {
        0 => format!("{run}: no stall of at least {}", ms(*over)),
        _ => format!(
            "{run}: {} of at least {}, of {}, {} in all; of {}, the longest {}:",
            counted(*count, "stall"),
            ms(*over),
            counted(*tasks, "task"),
            ms(*total),
            counted(*groups, "kind"),
            longest.len()
        ),
    }
}

/// Returns the heading of a group of similar stalls: the task, the number of stalls, and their duration.
fn head_of(stall: &Stall) -> String {
    let Stall { count, total, task, cause, .. } = stall;
    let what = match cause {
        Cause::Request(_) => "for memory",
        Cause::HeldBack(_) => "as a writer, held back",
    };
    match count {
        1 => format!("{task} stood still {} {what}", ms(stall.time())),
        _ => format!(
            "{task} stood still {count} times {what}, {} in all; the longest time {}",
            ms(*total),
            ms(stall.time())
        ),
    }
}

/// Returns the lines about a stall, each with its label. The label is empty if it is the same as on the line before.
fn lines_of(run: &str, stall: &Stall, trace: Option<&str>) -> Vec<(&'static str, String)> {
    let Stall { task, from, to, cause, worked, waits, disks, slice, .. } = stall;
    let mut lines = match cause {
        Cause::Request(request) => [("asked", asked_for(request))].into_iter().chain(did(request)).collect::<Vec<_>>(),
        Cause::HeldBack(held) => vec![("asked", held_back(held))],
    };
    for (n, Wait { on, time, held_by }) in waits.iter().enumerate() {
        let named = held_by.iter().take(NAMED).map(|(who, time)| format!("{who} {}", ms(*time)));
        let named = named.collect::<Vec<_>>().join(", ");
        let meanwhile = if named.is_empty() { String::new() } else { format!("; meanwhile {named}") };
        lines.push((if n == 0 { "waited" } else { "" }, format!("{} {on}{meanwhile}", ms(*time))));
    }
    lines.push(("worked", format!("{} on a CPU", ms(*worked))));
    lines.extend(disks.iter().enumerate().map(|(n, disk)| (if n == 0 { "disks" } else { "" }, disk.clone())));
    let file = trace.map_or_else(String::new, |file| format!("{file}, "));
    let slice = slice.map_or_else(String::new, |(name, at)| format!(", slice `{name}` at {}", seconds(at)));
    let place = format!("{file}process `{run}`, track `{task}`, {} to {}{slice}", seconds(*from), seconds(*to));
    lines.push(("trace", place));
    lines
}

fn asked_for(request: &SlowRequest) -> String {
    let SlowRequest { order, gfp, zone, is_served, .. } = request;
    let end = if *is_served { "served" } else { "not served" };
    format!("order {}, {gfp}; zone {zone} first; {end}", order.0)
}

fn did(request: &SlowRequest) -> Vec<(&'static str, String)> {
    let Work { reclaims, compactions, scanned, freed, priority, met } = &request.work;
    let mut lines = vec![match reclaims {
        0 => ("did", format!("no direct reclaim, {}", counted(*compactions, "direct compaction"))),
        _ => (
            "did",
            format!(
                "{}, {}: scanned {}, down to priority {priority}, and freed {freed}",
                counted(*reclaims, "direct reclaim"),
                counted(*compactions, "direct compaction"),
                counted(*scanned, "page"),
            ),
        ),
    }];
    let mut stayed: Vec<(&str, u64)> = reasons(met).into_iter().filter(|(_, pages)| *pages > 0).collect();
    stayed.sort_by_key(|(_, pages)| std::cmp::Reverse(*pages));
    if !stayed.is_empty() {
        let words: Vec<String> = stayed.iter().map(|(why, pages)| format!("{pages} {why}")).collect();
        lines.push(("stayed", words.join(", ")));
    }
    lines
}

/// Returns each reason for which reclaim left pages in memory, with the number of those pages.
const fn reasons(met: &Met) -> [(&'static str, u64); 9] {
    [
        ("used lately", met.used),
        ("under writeback", met.under_writeback),
        ("dirty, left to the flusher", met.dirty),
        ("dirty, written now", met.written),
        ("locked by others", met.locked),
        ("without a place in swap", met.not_swappable),
        ("still mapped", met.mapped),
        ("held by others", met.held),
        ("not to be written", met.write_failed),
    ]
}

fn held_back(held: &HeldBack) -> String {
    let HeldBack { device, dirty_pages, limit_pages, .. } = held;
    format!(
        "to dirty more pages of {}; {dirty_pages} were dirty or being written, {limit_pages} may be",
        figures::trace::disk_name(device.0)
    )
}

/// Returns the stalls of runs as JSON, with a line break at the end. Times are ns.
#[must_use]
pub fn json(runs: &[Stalls]) -> String {
    let wait = |Wait { on, time, held_by }: &Wait| {
        let held_by: Vec<Value> = held_by.iter().map(|(who, time)| value!({ "who": who, "ns": time.0 })).collect();
        value!({ "on": on, "ns": time.0, "held_by": held_by })
    };
    let stall = |stall: &Stall| {
        let Stall { count, total, task, from, to, cause, worked, waits, disks, slice } = stall;
        let mut of = value!({
            "count": count,
            "total_ns": total.0,
            "track": task,
            "from_ns": from.0,
            "to_ns": to.0,
            "worked_ns": worked.0,
            "waits": waits.iter().map(wait).collect::<Vec<_>>(),
            "disks": disks,
            "slice": slice.map(|(name, at)| value!({ "name": name, "at_ns": at.0 })),
        });
        match cause {
            Cause::Request(SlowRequest { order, gfp, zone, is_served, work, .. }) => {
                let Work { reclaims, compactions, scanned, freed, priority, met } = work;
                let stayed: serde_json::Map<String, Value> =
                    reasons(met).into_iter().map(|(why, pages)| (why.to_owned(), pages.into())).collect();
                of["asked"] = value!({ "order": order.0, "gfp": gfp, "zone": zone, "is_served": is_served });
                of["did"] = value!({
                    "reclaims": reclaims,
                    "compactions": compactions,
                    "scanned": scanned,
                    "freed": freed,
                    "priority": priority,
                    "stayed": stayed,
                });
            }
            Cause::HeldBack(HeldBack { device, dirty_pages, limit_pages, .. }) => {
                of["held_back"] =
                    value!({ "device": device.0, "dirty_pages": dirty_pages, "limit_pages": limit_pages });
            }
        }
        of
    };
    let run = |Stalls { run, over, count, total, tasks, groups, longest }: &Stalls| {
        value!({
            "process": run,
            "over_ns": over.0,
            "stalls": count,
            "total_ns": total.0,
            "tasks": tasks,
            "groups": groups,
            "longest": longest.iter().map(stall).collect::<Vec<_>>(),
        })
    };
    shown::json(&value!({ "schema": 1, "runs": runs.iter().map(run).collect::<Vec<_>>() }))
}
