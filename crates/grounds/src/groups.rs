//! The memory control groups of a machine file on the ground `sim`: creates them, and reports their rows.

use catalogue::group::Group;
use engine::Engine;
use engine::memory::GroupId;
use engine::stat::Vmstat;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use machine::Machine;
use machine::pressure::{Pressure, Stalls};
use sim::Sim;
use std::collections::BTreeMap;

/// The groups of a run, by name.
#[derive(Clone, Debug, Default)]
pub struct NamedGroups {
    /// Each section of the machine file, with its groups.
    sections: Vec<(Group, Vec<GroupId>)>,
    ids: BTreeMap<String, GroupId>,
}

impl NamedGroups {
    /// Creates the groups of a machine file in an engine, with their limits at a scale. Parents stand before their
    /// children.
    ///
    /// # Errors
    /// When the engine has no room for them, in words.
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

    /// Returns the number of a group; none if there is no such group.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<GroupId> {
        self.ids.get(name).copied()
    }

    /// Returns how many groups the section `name` stands for; none if there is no such section.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.sections.iter().find(|(group, _)| group.name == name).map(|(_, ids)| ids.len() as u64)
    }

    /// Returns the name of a group; none for the root group.
    #[must_use]
    pub fn name(&self, id: GroupId) -> Option<&str> {
        self.ids.iter().find(|(_, of)| **of == id).map(|(name, _)| name.as_str())
    }

    /// Returns the `oom_score_adj` of the tasks of a group.
    #[must_use]
    pub fn oom_score_adj(&self, id: GroupId) -> i16 {
        self.sections.iter().find(|(_, ids)| ids.contains(&id)).map_or(0, |(group, _)| group.oom_score_adj)
    }

    /// Returns the group that names a task of the workload; none if none does.
    #[must_use]
    pub fn of_task(&self, task: &str) -> Option<GroupId> {
        self.sections.iter().find_map(|(group, ids)| group.of_task(task).map(|n| ids[n]))
    }

    /// Returns the rows of all groups at the end of a run. The groups of a section have sums.
    #[must_use]
    pub fn rows(&self, engine: &Engine<Sim>) -> Vec<Row> {
        let stat = |ids: &[GroupId]| sum(ids.iter().map(|id| engine.lru().group_stat(*id)));
        let pressure = |ids: &[GroupId]| sum_pressure(ids.iter().map(|id| engine.machine().pressure(id.0)));
        self.sections.iter().flat_map(|(group, ids)| rows(&group.name, &stat(ids), &pressure(ids))).collect()
    }
}

/// Returns the sums of counters of several groups.
pub(crate) fn sum(stats: impl Iterator<Item = Vmstat>) -> Vmstat {
    let mut sum = Vmstat::new();
    for (name, count) in stats.flatten() {
        *sum.entry(name).or_default() += count;
    }
    sum
}

/// Returns the sums of the stall times of several groups. They have no averages.
pub(crate) fn sum_pressure(pressures: impl Iterator<Item = Pressure>) -> Pressure {
    pressures.fold(Pressure::default(), |mut sum, it| {
        sum.some.total_us += it.some.total_us;
        sum.full.total_us += it.full.total_us;
        sum
    })
}

/// Checks that a machine file has the groups that the parameters of a workload name.
///
/// # Errors
/// The first group that it lacks, in words.
pub(crate) fn check(machine: &str, groups: &[Group], named: &[&str]) -> Result<(), String> {
    let has = |name: &str| groups.iter().any(|group| group.name == name);
    let Some(missing) = named.iter().find(|name| !has(name)) else { return Ok(()) };
    let known: Vec<String> = groups.iter().map(|group| format!("`{}`", group.name)).collect();
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
    Err(format!("machine `{machine}` has no [[group]] `{missing}`, which the parameters name: {known}"))
}

/// Returns the names of the rows of the groups of a machine file.
#[must_use]
pub fn row_names(groups: &[Group]) -> Vec<RowName> {
    names(groups.iter().flat_map(|group| rows(&group.name, &Vmstat::new(), &Pressure::default())).collect())
}

/// Returns the rows of one group. Each is named after the group and its file or counter.
pub(crate) fn rows(group: &str, stat: &Vmstat, pressure: &Pressure) -> Vec<Row> {
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
    let pages = |name: &str| row(name, "pages", Better::Lower, 0, count(name));
    let events = |name: &str| row(name, "", Better::Neutral, 0, count(&format!("memory.events.{name}")));
    let counted = ["pgscan", "pgsteal", "workingset_refault_anon", "workingset_refault_file"].map(pages);
    let of_events = ["low", "high", "max", "oom", "oom_kill"].map(events);
    let stalled = |line: &str, stalls: Stalls| {
        row(&format!("memory.pressure {line}"), "s", Better::Lower, 3, stalls.total_us as f64 / 1e6)
    };
    let of_pressure = [stalled("some", pressure.some), stalled("full", pressure.full)];
    sizes.into_iter().chain(counted).chain(of_events).chain(of_pressure).collect()
}
