//! Signs from saved reports (JSON) and from counters over time (CSV).

use super::Patient;
use super::course::{Course, Extent, Interval};
use super::group_stat;
use super::signs::{Bounds, Dirty, Disk, FileSystem, Node, Scan, Signs, Zone};
use super::usage::{MemoryUse, Usage};
use engine::stat::Vmstat;
use figures::counters::difference;
use figures::series::{Point, RunSeries, Series};
use figures::{counters, series};
use kit::wrong::Wrong;
use machine::PAGE_BYTES;
use report::{Table, saved};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns whether a text is a report in JSON or a series in CSV. JSON is recognised by its first bracket together with
/// the character after it, because lines such as `[root@web1 ~]#` and `[ 1201.4]` also begin with a bracket.
#[must_use]
pub fn is_it(text: &str) -> bool {
    let text = text.trim_start();
    let behind = |bracket: char| text.strip_prefix(bracket).map(|rest| rest.trim_start().chars().next());
    let is_json = match (behind('{'), behind('[')) {
        (Some(next), _) => next.is_none_or(|c| matches!(c, '"' | '}')),
        (_, Some(next)) => next.is_none_or(|c| matches!(c, '{' | ']')),
        _ => false,
    };
    // The output of `sadf -j` is JSON, too, but no report.
    let is_of_sysstat = text.chars().take(200).collect::<String>().contains("\"sysstat\"");
    (is_json && !is_of_sysstat) || series::is_it(text)
}

/// Returns the patients (subjects of a diagnosis) in a text: the columns of one or several reports in JSON, or the runs
/// of a series in CSV.
///
/// # Errors
/// When the text is faulty. The error names the file and the line.
pub fn patients(file: &str, text: &str) -> Result<Vec<Patient>, Wrong> {
    if series::is_it(text) {
        return of_series(file, text);
    }
    let tables = saved::read_all(text).map_err(|why| Wrong::of(file, why))?;
    Ok(saved::names(&tables).iter().zip(&tables).flat_map(|(name, table)| of_report(name, table)).collect())
}

/// The rows (named figures) of one column of a report: group, name and value of each.
struct Rows<'a>(Vec<(&'a str, &'a str, f64)>);

impl Rows<'_> {
    /// Searches the rows for `names`, one name after the other. Returns the value of the first row found; none if there
    /// is no row with any of the names.
    fn of(&self, names: &[&str]) -> Option<f64> {
        names.iter().find_map(|wanted| self.0.iter().find(|(_, name, _)| name == wanted).map(|(.., value)| *value))
    }

    fn in_group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.iter().filter(move |row| row.0 == group).map(|(_, name, value)| (*name, *value))
    }
}

/// Returns a patient (a subject of a diagnosis) for each column of the report `name`.
fn of_report(name: &str, table: &Table) -> Vec<Patient> {
    let patient = |(n, column): (usize, &report::Column)| {
        let figures = table.rows.iter().filter_map(|row| {
            let median = row.median(n).filter(|median| median.is_finite())?;
            Some((row.group.as_str(), row.name.as_str(), median))
        });
        Patient::new(format!("{name}, {}", column.id), of_rows(&Rows(figures.collect())))
    };
    table.columns.iter().enumerate().map(patient).collect()
}

fn of_rows(rows: &Rows<'_>) -> Signs {
    let elapsed_s = rows.of(&["Elapsed", "Total Elapsed Time (seconds)"]);
    let kernel_cpu: Vec<f64> =
        rows.in_group("kernel").filter(|(name, _)| name.starts_with("kswapd")).map(|(_, value)| value).collect();
    let velocity = |(name, rate): (&str, f64)| {
        let zone = name.strip_prefix("Zone ")?.strip_suffix(" velocity")?;
        Some((zone.to_owned(), rate * elapsed_s?))
    };
    let swapped_out = rows.of(&["pswpout", "Swap Outs", "Swap outs"]);
    let written = rows.of(&["nr_vmscan_write", "Page writes by reclaim", "Pages written"]);
    let at_limit = rows.of(&["Times at the limit"]);
    let of_command = at_limit.is_some().then(|| (OF_COMMAND.to_owned(), group_of(rows, elapsed_s)));
    let groups: BTreeMap<String, Signs> = of_command.into_iter().chain(groups_of(rows, elapsed_s)).collect();
    let swap = ["total", "free"].map(|part| rows.in_group("swap").find(|(name, _)| *name == part));
    Signs {
        elapsed_s,
        kswapd: Scan {
            scanned: rows.of(&["pgscan_kswapd", "Kswapd pages scanned"]),
            stolen: rows.of(&["pgsteal_kswapd", "Kswapd pages reclaimed"]),
        },
        direct: Scan {
            scanned: rows.of(&["pgscan_direct", "Direct pages scanned", "Direct reclaim pages scanned"]),
            stolen: rows.of(&["pgsteal_direct", "Direct pages reclaimed", "Direct reclaim pages reclaimed"]),
        },
        kswapd_cpu_s: (!kernel_cpu.is_empty()).then(|| kernel_cpu.iter().sum()),
        scanned_by_zone: rows.in_group("vmstat").filter_map(velocity).collect(),
        stalls: rows.of(&["allocstall", "Direct reclaims"]),
        stolen_together: together(rows.of(&["pgsteal_anon"]), rows.of(&["pgsteal_file"])),
        scanned_together: together(rows.of(&["pgscan_anon"]), rows.of(&["pgscan_file"])),
        refilled: rows.of(&["pgrefill"]),
        rotated: rows.of(&["pgrotated"]),
        disks: disks(rows),
        direct_s: rows.of(&["in direct reclaim"]),
        some_waited_percent: rows.of(&["memory some"]),
        all_waited_percent: rows.of(&["memory full"]),
        swapped_in: rows.of(&["pswpin", "Swap Ins", "Swap ins"]),
        swapped_out,
        zeroes_in: rows.of(&["swpin_zero"]),
        zeroes_out: rows.of(&["swpout_zero"]),
        refaulted_anon: rows.of(&["workingset_refault_anon"]),
        refaulted_file: rows.of(&["workingset_refault_file", "workingset_refault"]),
        activated_file: rows.of(&["workingset_activate_file", "workingset_activate"]),
        major_faults: rows.of(&["pgmajfault", "Major Faults"]),
        huge_got: rows.of(&["thp_fault_alloc"]),
        huge_failed: rows.of(&["thp_fault_fallback"]),
        compactions: rows.of(&["compact_stall"]),
        compactions_succeeded: rows.of(&["compact_success"]),
        compactions_failed: rows.of(&["compact_fail"]),
        zones: zones(rows),
        file_writes: rows.of(&["Page writes file"]).or_else(|| Some((written? - swapped_out?).max(0.0))),
        met_unwritten: rows.of(&["nr_vmscan_immediate_reclaim", "Page reclaim immediate"]),
        swap: swap[0].zip(swap[1]).map(|((_, all), (_, free))| [all, free]),
        at_limit: times_at_limit(&groups),
        groups,
        killed: rows.of(&["oom_kill", "Processes killed"]),
        exhausted: rows.of(&["oom"]),
        ..Signs::default()
    }
}

/// The name under which findings mention the cgroup in which `highwater stat` ran a command.
const OF_COMMAND: &str = "the cgroup of the command";

/// Returns the signs of the cgroup in which `highwater stat --cgroup` ran a command, from the rows that this option
/// adds to a report. Reports of older versions have only the command's major faults.
fn group_of(rows: &Rows<'_>, elapsed_s: Option<f64>) -> Signs {
    let own: Vec<(&str, f64)> = rows.in_group("cgroup").collect();
    let of = |names: &[&str]| {
        let found = own.iter().find(|(name, _)| names.iter().any(|it| *name == format!("{it} of the cgroup")));
        found.map(|(_, value)| *value)
    };
    Signs {
        elapsed_s,
        major_faults: of(&["pgmajfault"]).or_else(|| rows.of(&["Major faults of the command"])),
        refaulted_file: of(&["workingset_refault_file"]),
        refaulted_anon: of(&["workingset_refault_anon"]),
        stolen_together: of(&["pgsteal"]),
        swapped_in: of(&["pswpin"]),
        swapped_out: of(&["pswpout"]),
        some_waited_percent: of(&["memory some"]),
        all_waited_percent: of(&["memory full"]),
        at_limit: rows.of(&["Times at the limit"]).map(|times| [(OF_COMMAND.to_owned(), times)].into()),
        ..Signs::default()
    }
}

/// Prefix of titles in reports of simulated runs and of `highwater stat`: the rows about each control group stand under
/// a title of their own, which begins so.
const BLOCK_OF_GROUP: &str = "group ";

/// Returns the signs of each control group that has rows of its own.
fn groups_of(rows: &Rows<'_>, elapsed_s: Option<f64>) -> BTreeMap<String, Signs> {
    let mut names: Vec<&str> = rows.0.iter().filter_map(|row| row.0.strip_prefix(BLOCK_OF_GROUP)).collect();
    names.dedup();
    let group = |name: &str| {
        let of = |counter: &str| rows.of(&[&format!("{name}: {counter}")]);
        let at_limit = of("max").or_else(|| of("memory.events.max"));
        let pages = |mib: f64| mib * f64::from(1 << 20) / PAGE_BYTES as f64;
        // Simulated runs have seconds.
        let stalled = |line: &str| Some(100.0 * of(line)? / elapsed_s.filter(|time| *time > 0.0)?);
        Signs {
            elapsed_s,
            refaulted_file: of("workingset_refault_file"),
            refaulted_anon: of("workingset_refault_anon"),
            major_faults: of("pgmajfault"),
            stolen_together: of("pgsteal"),
            scanned_together: of("pgscan"),
            some_waited_percent: of("memory some").or_else(|| stalled("memory.pressure some")),
            all_waited_percent: of("memory full").or_else(|| stalled("memory.pressure full")),
            at_limit: at_limit.map(|times| [(name.to_owned(), times)].into()),
            bounds: Bounds {
                high_events: of("high"),
                low_events: of("low"),
                used: of("memory.current").map(pages),
                max: of("memory.max").map(pages),
                high: of("memory.high").map(pages),
                low: of("memory.low").map(pages),
            }
            .if_any(),
            ..Signs::default()
        }
    };
    names.into_iter().map(|name| (name.to_owned(), group(name))).collect()
}

/// Returns how many times each cgroup reached its limit; none if no cgroup reports this number.
fn times_at_limit(groups: &BTreeMap<String, Signs>) -> Option<BTreeMap<String, f64>> {
    let told = groups.values().filter_map(|group| group.at_limit.clone()).flatten();
    let all: BTreeMap<String, f64> = told.collect();
    (!all.is_empty()).then_some(all)
}

/// Returns the sum of two counters that count parts of one thing, such as `pgsteal_anon` and `pgsteal_file`; none if
/// one of them is missing. Kernels have these two since Linux 5.8. They include pages that are reclaimed at the limits
/// of cgroups.
fn together(anonymous: Option<f64>, files: Option<f64>) -> Option<f64> {
    anonymous.zip(files).map(|(anonymous, files)| anonymous + files)
}

fn disks(rows: &Rows<'_>) -> Vec<Disk> {
    let names = rows.in_group("disks").filter_map(|(name, busy)| Some((name.strip_suffix(" busy")?, busy)));
    names
        .map(|(name, busy)| Disk {
            name: name.to_owned(),
            busy_percent: Some(busy),
            read_wait_ms: rows.of(&[&format!("{name} r_await")]),
            write_wait_ms: rows.of(&[&format!("{name} w_await")]),
        })
        .collect()
}

fn zones(rows: &Rows<'_>) -> Option<Vec<Zone>> {
    let mut zones: Vec<Zone> = Vec::new();
    for (name, pages) in rows.in_group("zones") {
        let (zone, what) = name.rsplit_once(' ')?;
        if zones.last().is_none_or(|last| last.name != zone) {
            zones.push(Zone { name: zone.to_owned(), ..Zone::default() });
        }
        let last = zones.last_mut()?;
        match what {
            "free" => last.free = pages,
            "min" => last.marks[0] = pages,
            "low" => last.marks[1] = pages,
            "high" => last.marks[2] = pages,
            _ => {}
        }
    }
    for (name, blocks) in rows.in_group("buddyinfo") {
        let zone = name.split_once(" order ").and_then(|(zone, _)| zones.iter_mut().find(|it| it.name == zone));
        // The rows with free blocks come in the order of block sizes.
        zone?.blocks.push(blocks);
    }
    (!zones.is_empty()).then_some(zones)
}

/// Returns the signs from `counters`, the growth of counters over `elapsed_s` seconds. The counters have the names of
/// `/proc/vmstat`.
#[must_use]
pub fn of_counters(counters: &Vmstat, elapsed_s: f64) -> Signs {
    let of = |name: &str| counters::sum(counters, name).map(|value| value as f64);
    let by_zone = |names: &[&str]| {
        let mut zones = BTreeMap::new();
        for (key, value) in counters {
            if let Some(zone) = names.iter().find_map(|name| counters::zone_of(key, name)) {
                *zones.entry(zone.to_owned()).or_insert(0.0) += *value as f64;
            }
        }
        zones
    };
    let [by_kswapd, by_others] = counters::reclaimed(counters).map(|pages| pages.map(|pages| pages as f64));
    let swapped_out = of("pswpout");
    Signs {
        elapsed_s: Some(elapsed_s),
        kswapd: Scan { scanned: of("pgscan_kswapd"), stolen: by_kswapd },
        direct: Scan { scanned: of("pgscan_direct"), stolen: by_others },
        scanned_by_zone: by_zone(&["pgscan_kswapd", "pgscan_direct"]),
        allocated_by_zone: by_zone(&["pgalloc"]),
        stalls: of("allocstall"),
        stolen_together: together(of("pgsteal_anon"), of("pgsteal_file")),
        scanned_together: together(of("pgscan_anon"), of("pgscan_file")),
        refilled: of("pgrefill"),
        rotated: of("pgrotated"),
        node_reclaims: together(of("zone_reclaim_success"), of("zone_reclaim_failed")),
        swapped_in: of("pswpin"),
        swapped_out,
        zeroes_in: of("swpin_zero"),
        zeroes_out: of("swpout_zero"),
        refaulted_anon: of("workingset_refault_anon"),
        refaulted_file: of("workingset_refault_file").or_else(|| of("workingset_refault")),
        activated_file: of("workingset_activate_file").or_else(|| of("workingset_activate")),
        major_faults: of("pgmajfault"),
        huge_got: of("thp_fault_alloc"),
        huge_failed: of("thp_fault_fallback"),
        compactions: of("compact_stall"),
        compactions_succeeded: of("compact_success"),
        compactions_failed: of("compact_fail"),
        file_writes: of("nr_vmscan_write").zip(swapped_out).map(|(all, swap)| (all - swap).max(0.0)),
        met_unwritten: of("nr_vmscan_immediate_reclaim"),
        killed: of("oom_kill"),
        exhausted: of("oom"),
        ..Signs::default()
    }
}

/// Returns two numbers: the number of pages that are dirty or under writeback at the moment when the gauges have the
/// values `levels`, and the number of such pages from which writers are throttled. Returns none if `levels` lacks one
/// of the gauges.
fn dirty_at(levels: &Vmstat) -> Option<[f64; 2]> {
    let of = |name: &str| levels.get(name).map(|value| *value as f64);
    let dirty = of("nr_dirty")? + of("nr_writeback")?;
    let from = (of("nr_dirty_background_threshold")? + of("nr_dirty_threshold")?) / 2.0;
    Some([dirty, from])
}

/// Returns whether writers are throttled: `dirty`, the number of pages that are dirty or under writeback, is at least
/// `from`.
fn is_held_back([dirty, from]: [f64; 2]) -> bool {
    from > 0.0 && dirty >= from
}

/// A summary of the samples that state the number of dirty pages.
#[derive(Clone, Debug, Default)]
pub struct DirtyLooks {
    looks: u32,
    held_back: u32,
    most: f64,
    from: f64,
}

impl DirtyLooks {
    /// Adds a sample of the number of dirty pages, from `levels`: gauges under their names in `/proc/vmstat`. Adds
    /// nothing if `levels` lacks a gauge that the sample needs.
    pub fn look(&mut self, levels: &Vmstat) {
        let Some([dirty, from]) = dirty_at(levels) else { return };
        self.from = from;
        self.looks += 1;
        self.held_back += u32::from(is_held_back([dirty, from]));
        self.most = self.most.max(dirty);
    }

    /// Returns the summary of all samples; none if there are fewer than two. `dirtied` is the number of pages that
    /// became dirty over all samples, if known.
    #[must_use]
    pub fn finish(&self, dirtied: Option<f64>) -> Option<Dirty> {
        let held_back_percent = 100.0 * f64::from(self.held_back) / f64::from(self.looks);
        (self.looks >= 2).then_some(Dirty { held_back_percent, most: self.most, from: self.from, dirtied })
    }
}

/// Counters and levels at a moment, by their names in `/proc/vmstat`.
pub struct Moment {
    /// The moment's time, s since the recording began.
    pub at_s: f64,
    /// All counters and levels at this moment.
    pub values: Vmstat,
}

/// Returns the course of a recording: one interval from each moment to the next. A moment that is not later than the
/// one before it is left out.
pub fn course_of(moments: impl IntoIterator<Item = Moment>) -> Course {
    let mut course = Course::default();
    let mut earlier: Option<(Moment, Option<Arc<MemoryUse>>)> = None;
    for now in moments {
        let used = MemoryUse::of_vmstat(&now.values).map(Arc::new);
        if let Some((before, used_before)) = &earlier {
            if now.at_s <= before.at_s {
                continue;
            }
            let usage = used_before.as_ref().zip(used.as_ref()).map(|(before, after)| Usage::between(before, after));
            let signs = Signs { usage, ..of_moments(before, &now) };
            course.push(Interval { place: Extent::Seconds { from: before.at_s, to: now.at_s }, signs });
        }
        earlier = Some((now, used));
    }
    course
}

/// Returns the signs over the time between two moments: the growth of counters from the first moment to the second, and
/// levels at the two moments.
fn of_moments(before: &Moment, after: &Moment) -> Signs {
    let counters = difference(&before.values, &after.values);
    let seconds = after.at_s - before.at_s;
    let percent = |name: &str| Some(*counters.get(name)? as f64 / 1e4 / seconds);
    let dirty = dirty_at(&before.values).map(|look| Dirty {
        held_back_percent: if is_held_back(look) { 100.0 } else { 0.0 },
        most: look[0],
        from: look[1],
        dirtied: counters.get("nr_dirtied").map(|pages| *pages as f64),
    });
    // The size at the later moment, and the smallest free part.
    let least = |all: &str, free: &str| {
        let of = |moment: &Moment, name: &str| moment.values.get(name).map(|value| *value as f64);
        Some([of(after, all)?, of(before, free)?.min(of(after, free)?)])
    };
    let blocks = least("nr_blocks_total", "nr_blocks_free");
    let groups = groups_between(&counters, &after.values, seconds);
    let of_run = counters.get("memory_events_max").map(|times| ("the cgroup of the run".to_owned(), *times as f64));
    let at_limit: BTreeMap<String, f64> =
        of_run.into_iter().chain(times_at_limit(&groups).into_iter().flatten()).collect();
    Signs {
        some_waited_percent: percent("psi_memory_some_us"),
        all_waited_percent: percent("psi_memory_full_us"),
        kswapd_cpu_s: counters.get("kswapd_cpu_us").map(|time| *time as f64 / 1e6),
        dirty,
        swap: least("nr_swap_total", "nr_swap_free"),
        file_systems: blocks.map(|blocks| {
            let [bytes, free_bytes] = blocks.map(|blocks| blocks * PAGE_BYTES as f64);
            vec![FileSystem { mount: "that of the run's files".into(), bytes, free_bytes }]
        }),
        nodes: nodes(before, after, &counters),
        at_limit: (!at_limit.is_empty()).then_some(at_limit),
        groups,
        ..of_counters(&counters, seconds)
    }
}

/// Returns the signs of each control group in a series, by the group's name. `grown` is the growth of the counters over
/// the period of `seconds` seconds; `levels` are the values at the end of the period.
fn groups_between(grown: &Vmstat, levels: &Vmstat, seconds: f64) -> BTreeMap<String, Signs> {
    let mut by_group: BTreeMap<&str, Vmstat> = BTreeMap::new();
    for (name, value) in grown {
        if let Some((group, counter)) = series::of_group(name) {
            by_group.entry(group).or_default().insert(counter.to_owned(), *value);
        }
    }
    let signs = |(group, counters): (&str, Vmstat)| {
        let events = |name: &str| counters.get(&format!("memory.events.{name}")).map(|times| *times as f64);
        let used = levels.get(&format!("{group}: memory.current")).map(|pages| *pages as f64);
        let bounds = Bounds { high_events: events("high"), low_events: events("low"), used, ..Bounds::default() };
        let at_limit = events("max").map(|times| [(group.to_owned(), times)].into());
        let signs = Signs { bounds: bounds.if_any(), at_limit, ..group_stat::signs(&counters, Some(seconds)) };
        (group.to_owned(), signs)
    };
    by_group.into_iter().map(signs).collect()
}

/// Returns the nodes of memory; empty unless the series has counters for each node, such as `node0_nr_free_pages`.
fn nodes(before: &Moment, after: &Moment, counters: &Vmstat) -> Vec<Node> {
    let free = |name: &String| name.strip_prefix("node")?.strip_suffix("_nr_free_pages").map(ToOwned::to_owned);
    let node = |number: String| {
        let of_node = |values: &Vmstat| -> Vmstat {
            let prefix = format!("node{number}_");
            let of = values.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
            of.map(|(name, value)| (name[prefix.len()..].to_owned(), *value)).collect()
        };
        let grown = of_node(counters);
        let moments = [before, after].map(|moment| MemoryUse::of_vmstat(&of_node(&moment.values)));
        let levels = moments.iter().flatten();
        let used = |now: &MemoryUse| {
            let anon = now.active_anon.unwrap_or(0.0) + now.inactive_anon.unwrap_or(0.0);
            [now.free, now.cached, now.slab_reclaimable].into_iter().flatten().sum::<f64>() + anon
        };
        let of = |name: &str| counters::sum(&grown, name).map(|pages| pages as f64);
        Node {
            pages: levels.clone().map(used).reduce(f64::max).unwrap_or(0.0),
            free: levels.filter_map(|now| now.free).reduce(f64::min).unwrap_or(0.0),
            // A series has only counters that grew at some time, so a missing one means that the node was not scanned.
            by_tasks: Some(of("pgscan_direct").unwrap_or(0.0)),
            by_kswapd: Some(of("pgscan_kswapd").unwrap_or(0.0)),
            name: number,
        }
    };
    after.values.keys().filter_map(free).map(node).collect()
}

/// Returns the settings that the name of a column contains, such as `6.18-classic+lru.swappiness=60`. The column may be
/// that of a report or of a series. The settings have the names that `sysctl` uses.
fn settings_of(column: &str) -> BTreeMap<String, String> {
    const NAMES: [(&str, &str); 4] = [
        ("lru.swappiness", "vm.swappiness"),
        ("memory.min_free_kbytes", "vm.min_free_kbytes"),
        ("memory.watermark_scale_factor", "vm.watermark_scale_factor"),
        ("reclaim.zone_reclaim_mode", "vm.zone_reclaim_mode"),
    ];
    let set = column.split('+').skip(1).filter_map(|change| change.split_once('='));
    let known = set.filter_map(|(key, value)| {
        let (_, name) = NAMES.iter().find(|(known, _)| *known == key)?;
        Some(((*name).to_owned(), value.to_owned()))
    });
    known.collect()
}

/// Returns the patient (the subject of a diagnosis) for one run of a series. Its signs are the growth of counters from
/// the first to the last moment, and the levels during this time.
fn of_run(run: RunSeries) -> Patient {
    let RunSeries { column, seed, series: Series { names, points } } = run;
    let moment = |point: Point| Moment {
        at_s: point.now_ns as f64 / 1e9,
        values: names.iter().cloned().zip(point.values).collect(),
    };
    let mut patient = Patient::of_course(format!("{column}, seed {seed}"), course_of(points.into_iter().map(moment)));
    patient.signs.settings = settings_of(&column);
    // A single sample is no share of time.
    patient.signs.dirty = patient.signs.dirty.filter(|_| patient.course.len() > 1);
    patient
}

fn of_series(file: &str, text: &str) -> Result<Vec<Patient>, Wrong> {
    let runs = series::read(file, text)?;
    if runs.is_empty() {
        return Err(Wrong::of(file, "it is a series without a line"));
    }
    Ok(runs.into_iter().map(of_run).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use figures::series::HEADING;

    #[test]
    fn a_report_has_a_patient_for_each_column() {
        let row = |group: &str, name: &str, values: &[f64]| {
            let ids = ["a", "b"];
            let values: serde_json::Map<String, serde_json::Value> = ids
                .iter()
                .zip(values)
                .map(|(id, value)| {
                    ((*id).to_owned(), serde_json::json!({ "median": value, "low": value, "high": value, "n": 1 }))
                })
                .collect();
            serde_json::json!({ "group": group, "name": name, "unit": "", "better": "neutral", "values": values })
        };
        let report = serde_json::json!({
            "schema": 1, "experiment": "x", "machine": "m",
            "columns": [{ "id": "a", "kernel": "a", "ground": "sim" }, { "id": "b", "kernel": "b", "ground": "linux" }],
            "rows": [
                row("duration", "Elapsed", &[2.0, 4.0]),
                row("vmstat", "Kswapd pages scanned", &[100.0, 200.0]),
                row("vmstat", "Kswapd pages reclaimed", &[50.0, 60.0]),
                row("vmstat", "Zone normal velocity", &[25.0]),
                row("kernel", "kswapd0 CPU", &[0.5, 0.25]),
                row("kernel", "kswapd1 CPU", &[0.5, 0.25]),
                row("zones", "Normal of node 1 free", &[7.0, 8.0]),
                row("zones", "Normal of node 1 low", &[9.0, 9.0]),
                row("buddyinfo", "Normal of node 1 order 0", &[3.0, 8.0]),
                row("buddyinfo", "Normal of node 1 order 1", &[2.0, 0.0]),
                row("swap", "total", &[10.0, 10.0]),
                row("swap", "free", &[1.0, 2.0]),
            ],
        });
        let [first, second] = <[Patient; 2]>::try_from(patients("f", &report.to_string()).unwrap()).unwrap();
        assert_eq!((&*first.name, &*second.name), ("x, a", "x, b"));
        assert_eq!(first.signs.kswapd, Scan { scanned: Some(100.0), stolen: Some(50.0) });
        assert_eq!((first.signs.kswapd_cpu_s, second.signs.kswapd_cpu_s), (Some(1.0), Some(0.5)));
        assert_eq!((first.signs.scanned_by_zone["normal"], second.signs.scanned_by_zone.len()), (50.0, 0));
        assert_eq!(first.signs.refaulted_file, None);
        let zone = &first.signs.zones.as_ref().unwrap()[0];
        assert_eq!((&*zone.name, zone.free, zone.marks), ("Normal of node 1", 7.0, [0.0, 9.0, 0.0]));
        assert_eq!((&*zone.blocks, second.signs.swap), (&[3.0, 2.0][..], Some([10.0, 2.0])));
        assert_eq!((first.signs.stalls, first.signs.killed), (None, None));
        // A list of reports, two of which have the same experiment.
        let mut other = report.clone();
        other["machine"] = "n".into();
        let list = serde_json::json!([report, other]).to_string();
        let names: Vec<String> = patients("f", &list).unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["x on m, a", "x on m, b", "x on n, a", "x on n, b"]);
    }

    #[test]
    fn a_series_has_a_patient_for_each_run() {
        let mut text = format!("{HEADING}\n");
        for seed in [1, 2] {
            for (second, scanned, dirty) in [(1, 10, 0), (2, 60, 80), (3, 110, 90)] {
                for (name, value) in [
                    ("pgscan_kswapd_normal", scanned * seed),
                    ("pgscan_direct_throttle", 99),
                    ("nr_dirty", dirty),
                    ("nr_writeback", 0),
                    ("nr_dirty_threshold", 100),
                    ("nr_dirty_background_threshold", 50),
                    ("nr_dirtied", scanned),
                    ("psi_memory_some_us", 500_000 * second),
                    ("psi_memory_full_us", 100_000 * second),
                    ("kswapd_cpu_us", 250_000 * second),
                    ("nr_swap_total", 90),
                    ("nr_swap_free", 10 - second),
                ] {
                    text += &format!("k,{seed},{second}.000,{name},{value},\n");
                }
            }
        }
        let found = patients("f", &text).unwrap();
        assert_eq!(found.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["k, seed 1", "k, seed 2"]);
        let signs = &found[1].signs;
        assert_eq!((signs.elapsed_s, signs.kswapd.scanned, signs.direct.scanned), (Some(2.0), Some(200.0), None));
        assert_eq!((signs.some_waited_percent, signs.all_waited_percent), (Some(50.0), Some(10.0)));
        assert_eq!((signs.kswapd_cpu_s, signs.swap), (Some(0.5), Some([90.0, 7.0])));
        let dirty = found[0].signs.dirty.unwrap();
        // The last moment is the end of the run and not a sample.
        assert_eq!((dirty.most, dirty.from, dirty.dirtied), (80.0, 75.0, Some(100.0)));
        assert_eq!(dirty.held_back_percent, 50.0);
    }

    #[test]
    fn counters_of_old_and_new_kernels_are_understood() {
        let of = |counters: &[(&str, u64)]| {
            of_counters(&counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(), 1.0)
        };
        let old = of(&[("pgsteal_normal", 70), ("pgsteal_dma", 10), ("kswapd_steal", 50), ("allocstall", 3)]);
        assert_eq!((old.kswapd.stolen, old.direct.stolen, old.stalls), (Some(50.0), Some(30.0), Some(3.0)));
        let new =
            of(&[("pgsteal_kswapd", 70), ("pgsteal_direct", 9), ("allocstall_normal", 2), ("allocstall_movable", 3)]);
        assert_eq!((new.kswapd.stolen, new.direct.stolen, new.stalls), (Some(70.0), Some(9.0), Some(5.0)));
        assert_eq!(of(&[("workingset_refault", 4)]).refaulted_file, Some(4.0));
    }

    #[test]
    fn what_is_no_report_is_refused() {
        let wrong = |text: &str| patients("f", text).unwrap_err().to_string();
        assert!(wrong("").starts_with("f: expected the JSON of"));
        assert!(wrong("{").contains("but it is not JSON: "));
        assert!(wrong("{}").contains("missing field `schema`"));
        // An empty line at the start, as in a pasted text, is not part of the series.
        assert!(wrong(&format!("\n{HEADING}")).contains("without a line") && is_it(&format!("\n{HEADING}\n")));
        assert!(wrong(HEADING).contains("without a line"));
        assert!(wrong(&format!("{HEADING}\nk,1,x,pgfree,1,\n")).starts_with("f:2: "));
        assert!(wrong(&format!("{HEADING}\nk,1,1.0,pgfree,-1,\n")).contains("expected a whole number"));
    }
}
