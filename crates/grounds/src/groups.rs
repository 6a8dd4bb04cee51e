//! The memory control groups of a machine file on the ground `sim`. Creates the groups, and reports their rows and
//! their counters over time. Also notes mistakes in the machine file, such as a group whose tasks do not exist.

use catalogue::group::Group;
use engine::Engine;
use engine::memory::{GroupId, GroupVersion};
use engine::stat::Vmstat;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use figures::series;
use machine::Machine;
use machine::pressure::{Pressure, Stalls};
use sim::Sim;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The memory control groups of a run, with the names by which they can be looked up.
#[derive(Clone, Debug, Default)]
pub struct NamedGroups {
    /// Each section `[[group]]` of the machine file, with the numbers of the groups created from it.
    sections: Vec<(Group, Vec<GroupId>)>,
    ids: BTreeMap<String, GroupId>,
    /// Names of the tasks that the workload has started so far.
    tasks: RefCell<BTreeSet<String>>,
    measured: RefCell<MeasuredPart>,
}

/// The counts of events in the groups of a run at one moment: for each section `[[group]]`, the sums over its groups.
pub(crate) type Counts = Vec<(Vmstat, Pressure)>;

/// The counts of events in groups at the beginning and at the end of a workload's measured part.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasuredPart {
    began: Option<Counts>,
    ended: Option<Counts>,
}

impl MeasuredPart {
    /// Records that the measured part begins with the counts `now`. If it began before, it begins anew.
    pub(crate) fn begin(&mut self, now: Counts) {
        *self = Self { began: Some(now), ended: None };
    }

    /// Records that the measured part ends with the counts `now`.
    pub(crate) fn end(&mut self, now: Counts) {
        self.ended = Some(now);
    }

    /// Returns the figures of groups for a report, made from those at the end of the run, `now`: counts of events in the
    /// measured part, and amounts of memory as in `now`. A beginning that was not recorded is that of the run; so is an
    /// end.
    pub(crate) fn of(&self, now: Counts) -> Counts {
        let at = |counts: &Option<Counts>, n: usize| counts.as_ref().and_then(|counts| counts.get(n)).cloned();
        let figures = |(n, (mut stat, mut pressure)): (usize, (Vmstat, Pressure))| {
            let (began, began_pressure) = at(&self.began, n).unwrap_or_default();
            let ended = at(&self.ended, n);
            for (name, count) in stat.iter_mut().filter(|(name, _)| is_count(name)) {
                let last = ended.as_ref().map_or(*count, |(ended, _)| ended.get(name).copied().unwrap_or_default());
                *count = last.saturating_sub(began.get(name).copied().unwrap_or_default());
            }
            let last = ended.map_or(pressure, |(_, pressure)| pressure);
            pressure.some.total_us = last.some.total_us.saturating_sub(began_pressure.some.total_us);
            pressure.full.total_us = last.full.total_us.saturating_sub(began_pressure.full.total_us);
            (stat, pressure)
        };
        now.into_iter().enumerate().map(figures).collect()
    }
}

/// Returns whether the figure `name` of a group counts events. The others are amounts of memory.
fn is_count(name: &str) -> bool {
    ["pg", "workingset_", "memory.events."].into_iter().any(|begin| name.starts_with(begin))
        || name.ends_with(".failcnt")
}

/// Largest number of names of tasks, or of groups, that a note lists.
const NAMES_MAX: usize = 6;

impl NamedGroups {
    /// Creates in an engine the groups that a machine file describes, and sets their limits, multiplied by `scale`. In
    /// `groups`, each parent must stand before its children.
    ///
    /// # Errors
    /// When the engine's largest number of groups is smaller than the number of these groups. The error says so in
    /// words for the user.
    pub fn create<M: Machine>(engine: &Engine<M>, groups: &[Group], scale: Scale) -> Result<Self, String> {
        let mut made = Self::default();
        for group in groups {
            let parent = group.parent().and_then(|parent| made.id(parent)).unwrap_or(GroupId::ROOT);
            let mut ids = Vec::new();
            for name in group.names() {
                let id = engine.lru().create_group(parent).map_err(|error| error.to_string())?;
                let tree = engine.memory().groups.as_ref().ok_or("the engine has no groups")?;
                group.limits(scale).into_iter().for_each(|(limit, pages)| tree.set_limit(id, limit, pages));
                tree.set_oom_group(id, group.oom_group);
                made.ids.insert(name, id);
                ids.push(id);
            }
            made.sections.push((group.clone(), ids));
        }
        Ok(made)
    }

    /// Returns the number of the group called `name`; `None` if there is no such group.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<GroupId> {
        self.ids.get(name).copied()
    }

    /// Returns the names of the groups that were created from the section `name` of the machine file; `None` if there
    /// is no such section.
    #[must_use]
    pub fn names_of(&self, name: &str) -> Option<Vec<String>> {
        self.sections.iter().find(|(group, _)| group.name == name).map(|(group, _)| group.names())
    }

    /// Returns the name of a group; `None` for the root group.
    #[must_use]
    pub fn name(&self, id: GroupId) -> Option<&str> {
        self.ids.iter().find(|(_, of)| **of == id).map(|(name, _)| name.as_str())
    }

    /// Returns the `oom_score_adj` of the tasks of a group.
    #[must_use]
    pub fn oom_score_adj(&self, id: GroupId) -> i16 {
        self.sections.iter().find(|(_, ids)| ids.contains(&id)).map_or(0, |(group, _)| group.oom_score_adj)
    }

    /// Returns the group in whose section of the machine file the task `task` is named; `None` if no section names it.
    /// Also stores the task's name for [`Self::notes`], so it must be called once for each task of the workload, when
    /// the task starts.
    #[must_use]
    pub fn of_task(&self, task: &str) -> Option<GroupId> {
        if !self.sections.is_empty() {
            self.tasks.borrow_mut().insert(task.to_owned());
        }
        self.sections.iter().find_map(|(group, ids)| group.of_task(task).map(|n| ids[n]))
    }

    /// Returns notes about mistakes in the machine file: one for each section whose `tasks` name a task that the
    /// workload did not have, and one that lists all other groups to which no page was charged. `rows` are the rows of
    /// the groups at the end of the run. The counters behind these rows are not read again, because reading them takes
    /// locks and would change the run.
    #[must_use]
    pub fn notes(&self, rows: &[Row]) -> Vec<String> {
        let tasks = self.tasks.borrow();
        let (mut notes, mut unused) = (Vec::new(), Vec::new());
        for (group, _) in &self.sections {
            let unmet: Vec<String> = group.unmet(&tasks).map(|task| format!("`{task}`")).collect();
            if !unmet.is_empty() {
                let are = if unmet.len() == 1 { "is" } else { "are" };
                let (unmet, tasks) = (unmet.join(", "), some_of(tasks.iter()));
                let name = &group.name;
                notes
                    .push(format!("group `{name}`: {unmet} of `tasks` {are} unused: the workload's tasks are {tasks}"));
            } else if !rows.iter().any(|row| row.name == format!("{}: memory.peak", group.name) && row.value > 0.0) {
                unused.push(&group.name);
            }
        }
        if !unused.is_empty() {
            let (groups, them) = if unused.len() == 1 { ("group", "it") } else { ("groups", "them") };
            let names = some_of(unused.into_iter());
            notes.push(format!(
                "unused {groups} {names}: no page was charged to {them}, since `tasks` names no task there"
            ));
        }
        notes
    }

    /// Adds to `values` the counters of each section `[[group]]` that `names` lists, summed over the control groups of
    /// the section. If the groups are not created yet, adds zeroes, so that the records of all moments of a run have
    /// the same counters.
    pub fn add_to<M: Machine>(&self, values: &mut Vmstat, engine: &Engine<M>, names: &[String]) {
        for name in names {
            let section = self.sections.iter().find(|(group, _)| group.name == *name);
            let ids = section.map_or(&[][..], |(_, ids)| ids);
            let stat = sum(ids.iter().map(|id| engine.lru().group_stat(*id)));
            series::add_group(values, name, &stat, version_of(engine));
        }
    }

    /// Records that the workload's measured part begins, so that the rows of groups count only what happens after it.
    pub(crate) fn begin_measured(&self, engine: &Engine<Sim>) {
        self.measured.borrow_mut().begin(self.figures(engine, |id| engine.lru().group_counts(id)));
    }

    /// Records that the workload's measured part ends.
    pub(crate) fn end_measured(&self, engine: &Engine<Sim>) {
        self.measured.borrow_mut().end(self.figures(engine, |id| engine.lru().group_counts(id)));
    }

    /// Returns for each section `[[group]]` the sums of `stat` and of the pressure over its groups.
    fn figures(&self, engine: &Engine<Sim>, stat: impl Fn(GroupId) -> Vmstat) -> Counts {
        let pressure = |ids: &[GroupId]| sum_pressure(ids.iter().map(|id| engine.machine().pressure(id.0)));
        let of = |ids: &[GroupId]| (sum(ids.iter().map(|id| stat(*id))), pressure(ids));
        self.sections.iter().map(|(_, ids)| of(ids)).collect()
    }

    /// Returns the report's rows about all memory control groups. Counts of events cover the measured part of the run;
    /// amounts of memory are those at its end. If a section `[[group]]` of the machine file makes several groups, its rows
    /// are sums over these groups.
    #[must_use]
    pub fn rows(&self, engine: &Engine<Sim>) -> Vec<Row> {
        let now = self.figures(engine, |id| engine.lru().group_stat(id));
        let figures = self.measured.borrow().of(now);
        let sections = self.sections.iter().zip(figures);
        let version = version_of(engine);
        sections.flat_map(|((group, _), (stat, pressure))| rows(group, version, &stat, &pressure)).collect()
    }
}

/// Returns the version of an engine's groups; version 2 if it has no groups.
fn version_of<M: Machine>(engine: &Engine<M>) -> GroupVersion {
    engine.memory().groups.as_ref().map_or(GroupVersion::V2, |groups| groups.version())
}

/// Adds up the counters of several groups, and returns the sums.
pub(crate) fn sum(stats: impl Iterator<Item = Vmstat>) -> Vmstat {
    let mut sum = Vmstat::new();
    for (name, count) in stats.flatten() {
        *sum.entry(name).or_default() += count;
    }
    sum
}

/// Adds up the stall times of several groups, and returns the sums. The averages of the groups are left out, because
/// they cannot be added up.
pub(crate) fn sum_pressure(pressures: impl Iterator<Item = Pressure>) -> Pressure {
    pressures.fold(Pressure::default(), |mut sum, it| {
        sum.some.total_us += it.some.total_us;
        sum.full.total_us += it.full.total_us;
        sum
    })
}

/// Joins names to a text. Of more than [`NAMES_MAX`] names, lists the first ones and says how many more there are.
fn some_of<'n>(names: impl ExactSizeIterator<Item = &'n String>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named: Vec<String> = names.take(NAMES_MAX).map(|name| format!("`{name}`")).collect();
    format!("{}{more}", named.join(", "))
}

/// Checks that a machine file has the groups that the parameters of a workload name.
///
/// # Errors
/// When the machine file lacks a group. The error names the first such group.
pub(crate) fn check(machine: &str, groups: &[Group], named: &[&str]) -> Result<(), String> {
    let has = |name: &str| groups.iter().any(|group| group.name == name);
    let Some(missing) = named.iter().find(|name| !has(name)) else { return Ok(()) };
    let known: Vec<String> = groups.iter().map(|group| format!("`{}`", group.name)).collect();
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
    Err(format!("machine `{machine}` has no [[group]] `{missing}`, which the parameters name: {known}"))
}

/// Returns the names of the report rows that the memory control groups of a machine file add. `version` is the version of
/// the groups.
#[must_use]
pub fn row_names(groups: &[Group], version: GroupVersion) -> Vec<RowName> {
    names(groups.iter().flat_map(|group| rows(group, version, &Vmstat::new(), &Pressure::default())).collect())
}

/// Returns the rows of one section `[[group]]`. The name of each row consists of the section's name and the name of a file
/// or counter. Groups of version 1 with a limit of memory have a row `memory.failcnt`, and groups with a limit of memory
/// and swap together have rows about this sum.
pub(crate) fn rows(of: &Group, version: GroupVersion, stat: &Vmstat, pressure: &Pressure) -> Vec<Row> {
    let group = &of.name;
    let count = |name: &str| stat.get(name).copied().unwrap_or_default() as f64;
    let title = format!("group {group}");
    let row = |name: &str, unit: &str, better, decimals, value| {
        Row::new(&title, format!("{group}: {name}"), unit, better, Format::Decimals(decimals), value)
    };
    let mib = |name: &str, value: f64| row(name, "MiB", Better::Neutral, 1, value / 256.0);
    let sizes = [
        mib("memory.current", count("memory.current")),
        mib("memory.peak", count("memory.peak")),
        mib("memory.swap.current", count("memory.swap.current")),
        mib("anon", count("inactive_anon") + count("active_anon")),
        mib("file", count("inactive_file") + count("active_file")),
    ];
    let failures = |name: &str| row(name, "", Better::Neutral, 0, count(name));
    let of_version_1 = (version.is_v1() && of.max_mib.is_some()).then(|| failures("memory.failcnt"));
    let with_swap = of.memsw_mib.is_some().then(|| {
        let size = |name: &str| mib(name, count(name));
        [size("memory.memsw.usage_in_bytes"), size("memory.memsw.max_usage_in_bytes"), failures("memory.memsw.failcnt")]
    });
    let pages = |name: &str| row(name, "pages", Better::Lower, 0, count(name));
    let events = |name: &str| row(name, "", Better::Neutral, 0, count(&format!("memory.events.{name}")));
    let counted = ["pgscan", "pgsteal", "workingset_refault_anon", "workingset_refault_file"].map(pages);
    let of_events = ["low", "high", "max", "oom", "oom_kill"].map(events);
    let stalled = |line: &str, stalls: Stalls| {
        row(&format!("memory.pressure {line}"), "s", Better::Lower, 3, stalls.total_us as f64 / 1e6)
    };
    let of_pressure = [stalled("some", pressure.some), stalled("full", pressure.full)];
    sizes
        .into_iter()
        .chain(of_version_1)
        .chain(with_swap.into_iter().flatten())
        .chain(counted)
        .chain(of_events)
        .chain(of_pressure)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(counted: u64, level: u64, total_us: u64) -> Counts {
        let stat = [("pgscan", counted), ("memory.events.max", counted), ("memory.current", level)];
        let stalls = Stalls { total_us, ..Stalls::default() };
        vec![(stat.map(|(name, n)| (name.to_owned(), n)).into(), Pressure { some: stalls, full: stalls })]
    }

    #[test]
    fn counts_are_those_of_the_measured_part_and_sizes_those_of_the_end() {
        let mut part = MeasuredPart::default();
        let of = |part: &MeasuredPart| part.of(figures(100, 7, 50));
        assert_eq!(of(&part), figures(100, 7, 50), "a workload that says nothing is measured as a whole");
        part.begin(figures(10, 3, 20));
        assert_eq!(of(&part), figures(90, 7, 30));
        part.end(figures(60, 5, 40));
        assert_eq!(of(&part), figures(50, 7, 20));
        part.begin(figures(70, 5, 45));
        assert_eq!(of(&part), figures(30, 7, 5), "it began anew");
    }
}
