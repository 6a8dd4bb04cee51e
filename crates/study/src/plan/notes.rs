//! Notes that are printed with the figures of a report, about settings that no run reads, about columns whose runs are
//! equal, and about runs without reclaim.

use super::{Plan, Run, run::Ended};
use catalogue::difference::plain;
use catalogue::find;
use catalogue::versions::{self, Version};
use engine::kernel::{Kernel, Setting, choice::Choice};
use grounds::job::Job;
use std::collections::BTreeMap;

impl Plan {
    /// Returns a line for each setting that the user gave, but that the runs of some columns do not read. The line
    /// states the reason.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        let mut found: Vec<(String, Vec<usize>)> = Vec::new();
        let mut owners: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let firsts = self.runs.chunk_by(|a, b| a.column == b.column).map(|runs| &runs[0]);
        for run in firsts.filter(|run| !run.is_real()) {
            for choice in set_by_hand(run, &self.columns[run.column].set) {
                owners.entry(choice.path()).or_default().push(run.column);
                let Some(why) = choice.unused(&|what| value_of(&run.job, what)) else { continue };
                let line = format!("{}: unused with {why}", choice.path());
                match found.iter_mut().find(|(known, _)| *known == line) {
                    Some((_, columns)) => columns.push(run.column),
                    None => found.push((line, vec![run.column])),
                }
            }
        }
        let said = found.into_iter().map(|(line, columns)| {
            let key = line.split(':').next().unwrap_or_default();
            // If no column that has the setting reads it, the columns need not be named.
            if owners.get(key) == Some(&columns) { line } else { format!("{line} ({})", self.names_of(&columns)) }
        });
        said.chain(self.groups_too_new()).collect()
    }

    /// Returns a line about the columns that have control groups although their kernel is older than control groups of
    /// version 2; none if there are no such columns.
    fn groups_too_new(&self) -> Option<String> {
        let is_too_old = |column: &usize| {
            let run = self.runs.iter().find(|run| run.column == *column && !run.is_real());
            run.is_some_and(|run| {
                let groups = &run.job.machine.groups;
                let is_version_1 = run.job.layout().group_version.is_v1();
                !groups.is_empty() && !is_version_1 && is_before_groups(&run.job.kernel)
            })
        };
        let old: Vec<usize> = (0..self.columns.len()).filter(is_too_old).collect();
        (!old.is_empty()).then(|| {
            let (major, minor) = FIRST_WITH_GROUPS;
            format!(
                "[[group]]: these kernels are older than Linux {major}.{minor}, the first with control groups of version 2, and run with \
                 groups as {GROUPS_AS_OF} has them: {}",
                self.names_of(&old)
            )
        })
    }

    /// Returns the ids of `columns` in one text. The ids lack the settings that all columns of the plan share.
    pub(super) fn names_of(&self, columns: &[usize]) -> String {
        let is_common =
            |(key, value): &(&String, &String)| self.columns.iter().all(|it| it.set.get(*key) == Some(*value));
        let name = |column: &usize| {
            let column = &self.columns[*column];
            let common = column.set.iter().filter(is_common).filter(|_| self.columns.len() > 1);
            common.fold(column.id.clone(), |id, (key, value)| id.replace(&format!("+{key}={value}"), ""))
        };
        columns.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// Returns a line for each group of columns whose simulated runs have equal fingerprints. The differences between
    /// such columns had no effect.
    pub(super) fn same_runs(&self, ended: &[Ended<'_>]) -> Vec<String> {
        let mut by_prints: BTreeMap<Vec<(u64, u64)>, Vec<usize>> = BTreeMap::new();
        for column in 0..self.columns.len() {
            let runs = ended.iter().filter(|it| it.run.column == column && !it.run.is_real());
            let prints: Vec<(u64, u64)> = runs.map(|it| (it.run.seed, it.outcome.fingerprint)).collect();
            if prints.len() == self.seeds.len() {
                by_prints.entry(prints).or_default().push(column);
            }
        }
        let mut groups: Vec<Vec<usize>> = by_prints.into_values().filter(|columns| columns.len() > 1).collect();
        groups.sort();
        let one = if self.seeds.len() > 1 { "the same runs" } else { "the same run" };
        groups.iter().map(|columns| format!("these columns are {one}: {}", self.names_of(columns))).collect()
    }

    /// Returns a line that names the columns whose simulated runs reclaimed no page; none if there are no such columns.
    pub(super) fn idle_runs(&self, ended: &[Ended<'_>]) -> Option<String> {
        let is_idle = |column: &usize| {
            let mut runs = ended.iter().filter(|it| it.run.column == *column && !it.run.is_real()).peekable();
            runs.peek().is_some() && runs.all(|it| it.outcome.is_idle)
        };
        let idle: Vec<usize> = (0..self.columns.len()).filter(is_idle).collect();
        match idle.len() {
            0 => None,
            all if all == self.columns.len() => Some(
                "no page was reclaimed: memory never filled, so that nothing here tells how kernels reclaim".into(),
            ),
            _ => Some(format!("no page was reclaimed, for memory never filled, in: {}", self.names_of(&idle))),
        }
    }
}

/// The first release of Linux whose control groups of version 2 have the memory controller.
const FIRST_WITH_GROUPS: Version = (4, 5);

/// The release of Linux whose control groups the engine has (docs/mechanisms/groups.md).
const GROUPS_AS_OF: &str = "Linux 6.1";

/// Name of the library's kernel. It is derived from a kernel of an old release, but does not stand for that release.
const OF_LIBRARY: &str = "highwater";

/// Returns whether a kernel is older than the first release whose control groups of version 2 have the memory
/// controller. This is known from the version in its name, or in the name of its nearest base that has a version.
fn is_before_groups(kernel: &Kernel) -> bool {
    let mut names = std::iter::once(&kernel.name).chain(&kernel.bases).take_while(|name| *name != OF_LIBRARY);
    names.find_map(|name| versions::version(name)).is_some_and(|version| version < FIRST_WITH_GROUPS)
}

/// Returns the choices that are set on the command line or in a user's kernel file.
fn set_by_hand(run: &Run, set: &BTreeMap<String, String>) -> Vec<&'static Choice> {
    let word = run.order.kernel.split('+').next().unwrap_or_default();
    let path = |setting: &Setting| format!("{}.{}", setting.section, setting.key);
    let own: Vec<String> = if find::is_file(word) { run.job.kernel.own().map(path).collect() } else { Vec::new() };
    let mut choices: Vec<&Choice> = Vec::new();
    for choice in own.iter().chain(set.keys()).filter_map(|key| Choice::find(key)) {
        if !choices.iter().any(|known| known.path() == choice.path()) {
            choices.push(choice);
        }
    }
    choices
}

/// Returns the value of the key `what` in a job's kernel. If `what` is `memory nodes`, `swap slots` or `synchronous
/// swap`, returns this fact about the job's machine instead.
fn value_of(job: &Job, what: &str) -> Option<String> {
    match what {
        "memory nodes" => Some(job.machine.memory.nodes.len().to_string()),
        "swap slots" => Some(job.swap_pages().to_string()),
        "synchronous swap" => {
            let is_synchronous = job.machine.disks.first().and_then(|disk| disk.synchronous.as_ref());
            Some(if is_synchronous.is_some_and(|it| it.value) { "yes" } else { "no" }.to_owned())
        }
        key => {
            let (section, key) = key.split_once('.')?;
            let setting = job.kernel.settings.iter().find(|it| it.section == section && it.key == key)?;
            Some(plain(&setting.value))
        }
    }
}
