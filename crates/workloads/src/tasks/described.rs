//! The description of a load: files, regions, and tasks with steps, as `[params]` of an experiment's file has them.

use super::signals;
use super::step::{Action, Repeated, Step};
use super::within::within;
use crate::random::{Size, check_theta};
use documented::DocumentedFields;
use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize};

/// Largest number of tasks of one load.
pub(super) const TASKS_MAX: u64 = 1024;

/// Parameters of the workload `tasks`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Params(Described);

impl std::ops::Deref for Params {
    type Target = Described;

    fn deref(&self) -> &Described {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        within(deserializer, "a table", |described: Described| described.checked().map(Self))
    }
}

/// A load as it is described: when it ends, the files and regions that its tasks use, and the tasks.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// Name of the load in the row of its rate, as in `Ops NAME`. Default `tasks`.
    #[serde(default = "name")]
    pub name: String,
    /// Number of operations of each measured task after which the run ends.
    pub operations: Option<u64>,
    /// Time for which the tasks are measured, seconds. Then the run ends.
    pub seconds: Option<u64>,
    /// Time for which the tasks are measured after memory became full, seconds. Then the run ends.
    pub full_s: Option<u64>,
    /// Longest time for memory to fill if the run ends by `full_s`, seconds. Default 60.
    #[serde(default = "filling_s")]
    pub filling_s: u64,
    /// `true`: the report has the rates before and after the moment at which memory was full. Always `true` if the run
    /// ends by `full_s`. Default: `false`.
    #[serde(default)]
    pub fills_memory: bool,
    /// `true`: no measured task gets more than 128 operations ahead of the slowest one. Default: `false`.
    #[serde(default)]
    pub keeps_step: bool,
    /// The event that counts as a miss in the row `Hit ratio`: a page that was read in, or a major fault. There is no
    /// such row if tasks in the background or children read too, or operations access different numbers of pages. Default: major faults if no step reads a file, otherwise pages
    /// read in.
    pub misses: Option<Misses>,
    /// The files that are there when the tasks start, by name.
    #[serde(default)]
    pub file: IndexMap<String, FileOf>,
    /// Memory that tasks can map, by name. Each task has regions of its own.
    #[serde(default)]
    pub region: IndexMap<String, RegionOf>,
    /// The tasks by name, in the order in which they start.
    pub task: IndexMap<String, TaskOf>,
}

fn name() -> String {
    "tasks".to_owned()
}

const fn filling_s() -> u64 {
    60
}

/// The events that count as misses in the hit ratio of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misses {
    /// A page that was read in from a device for this load's tasks, readahead included.
    PagesReadIn,
    /// A major fault.
    MajorFaults,
}

/// The description of a file that a load's tasks use, as in the load's table.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileOf {
    /// Size of the file, percent of memory.
    pub percent: Option<u64>,
    /// Size of the file in MiB at full scale, instead of `percent`.
    pub mib: Option<u64>,
    /// `true`: each task that uses the file has a file of its own, of this size. Default: `false`.
    #[serde(default)]
    pub of_each_task: bool,
}

impl FileOf {
    pub(super) fn size(&self) -> Size {
        Size { percent: self.percent.unwrap_or(0), mib: self.mib }
    }
}

/// Memory that a task can map.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RegionOf {
    /// Size of the region in all tasks together, percent of memory.
    pub percent: Option<u64>,
    /// Size of the region in all tasks together in MiB at full scale, instead of `percent`.
    pub mib: Option<u64>,
    /// The file that the region maps from its beginning, instead of anonymous memory. The region is as large as the
    /// file, so that it needs no size.
    pub file: Option<String>,
    /// `true`: pages of the file are copied when they are first stored to (`MAP_PRIVATE`). Default: `false`, so that
    /// stores go to the file.
    #[serde(default)]
    pub private: bool,
    /// `true`: the region may have huge pages. Default: `false`.
    #[serde(default)]
    pub huge_pages: bool,
    /// `true`: each page is stored once, in order, when the region is mapped. Default: `true` for anonymous memory.
    pub stored: Option<bool>,
}

impl RegionOf {
    pub(super) fn size(&self) -> Size {
        Size { percent: self.percent.unwrap_or(0), mib: self.mib }
    }

    /// Returns whether each page of the region is written once when the region is mapped.
    pub(super) fn is_stored(&self) -> bool {
        self.stored.unwrap_or(self.file.is_none())
    }
}

/// Tasks of one kind, which do the same steps.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TaskOf {
    /// Number of tasks of this kind. Default 1.
    #[serde(default = "count")]
    pub count: u64,
    /// Number of the first task's random stream; each further task has the next number. Default: 10000 for the first
    /// kind of task, 20000 for the second, and so on.
    pub stream: Option<u64>,
    /// The `oom_score_adj` of the tasks, from -1000 to 1000. Default 0.
    #[serde(default)]
    pub oom_score_adj: i16,
    /// The `[[group]]` of the machine file that the tasks enter. Default: none.
    pub group: Option<String>,
    /// `false`: the tasks' operations count neither in the rate nor in `operations`, and the run does not wait for
    /// these tasks to end. Default: `true`.
    #[serde(default = "measured")]
    pub measured: bool,
    /// The steps that each task does once before the measurement begins.
    #[serde(default)]
    pub before: Vec<Step>,
    /// The steps that each task does in the measurement, again and again.
    pub steps: Vec<Step>,
    /// The steps that a child process does. A step `fork = true` starts the child, which has the task's anonymous
    /// regions as they are then.
    #[serde(default)]
    pub child: Vec<Step>,
    /// Number of times that a child does its steps before it ends. Default 1.
    #[serde(default = "count")]
    pub child_rounds: u64,
    /// Number of times that a task does its steps before it ends. Default: it repeats them until the run ends.
    pub rounds: Option<u64>,
}

const fn count() -> u64 {
    1
}

const fn measured() -> bool {
    true
}

impl Described {
    /// Returns the description if it passes all checks that do not depend on the machine; otherwise returns the fault
    /// in words.
    fn checked(self) -> Result<Self, String> {
        let ends = [self.operations, self.seconds, self.full_s].iter().flatten().count();
        let is_bounded = |task: &TaskOf| task.measured && task.rounds.is_some();
        if ends > 1 {
            return Err("expected one of `operations`, `seconds` and `full_s`".into());
        }
        if ends == 0 && !self.task.values().all(|task| is_bounded(task) || !task.measured) {
            return Err(
                "nothing ends the run: expected `operations`, `seconds` or `full_s`, or `rounds` in each task \
                        that is measured"
                    .into(),
            );
        }
        if !self.task.values().any(|task| task.measured) {
            return Err("no task is measured".into());
        }
        let tasks = self.task.values().fold(0_u64, |sum, task| sum.saturating_add(task.count));
        if tasks > TASKS_MAX || self.task.values().any(|task| task.count == 0) {
            return Err(format!("{tasks} tasks: expected at least one of each kind, and at most {TASKS_MAX} in all"));
        }
        self.file.iter().try_for_each(|(name, file)| check_file(name, file))?;
        self.region.iter().try_for_each(|(name, region)| self.check_region(name, region))?;
        self.task.iter().try_for_each(|(name, task)| self.check_task(name, task))?;
        signals::check(&self)?;
        Ok(self)
    }

    fn check_region(&self, name: &str, region: &RegionOf) -> Result<(), String> {
        let sizes = usize::from(region.percent.is_some()) + usize::from(region.mib.is_some());
        match &region.file {
            None if sizes != 1 => Err(format!("region `{name}`: expected one of `percent`, `mib` and `file`")),
            None if region.private => Err(format!("region `{name}`: `private` is for a region of a file")),
            None => Ok(()),
            Some(_) if sizes > 0 => Err(format!("region `{name}`: it is as large as its file, and has no size")),
            Some(_) if region.huge_pages => Err(format!("region `{name}`: a region of a file has no huge pages")),
            Some(file) => match self.file.get(file) {
                None => Err(format!("region `{name}`: no file is called `{file}`")),
                // Which of its pages show a later write depends on when they were first touched.
                Some(_) if region.private && self.is_written(file) => {
                    Err(format!("region `{name}`: it maps `{file}` privately, and a step writes to that file"))
                }
                Some(_) => Ok(()),
            },
        }
    }

    /// Returns an error if the action waits for a signal that no step gives.
    fn check_signal(&self, action: &Action) -> Result<(), String> {
        let (Action::Wait(signal, _) | Action::Turn(signal)) = action else { return Ok(()) };
        let is_given = |action: &Action| matches!(action, Action::Signal(given) if given == signal);
        match self.actions().any(is_given) {
            true => Ok(()),
            false => Err(format!("no step gives the signal `{signal}`, so that the task would wait for ever")),
        }
    }

    fn check_task(&self, name: &str, task: &TaskOf) -> Result<(), String> {
        if task.steps.is_empty() || task.rounds == Some(0) {
            return Err(format!("task `{name}`: expected at least one step, and at least one round"));
        }
        let takes_time =
            |step: &Step| step.action.is_operation() || matches!(step.action, Action::Sleep(_) | Action::Compute(_));
        if !task.steps.iter().any(takes_time) {
            return Err(format!(
                "task `{name}`: a round takes no time, so that the task would do nothing else: expected a step that \
                 reads, writes, touches, syncs, sleeps or computes"
            ));
        }
        if self.operations.is_some() && task.measured && !task.steps.iter().any(|step| step.action.is_operation()) {
            return Err(format!("task `{name}`: it has no operations, so that it would never do `operations` of them"));
        }
        if !(-1000..=1000).contains(&task.oom_score_adj) {
            let found = task.oom_score_adj;
            return Err(format!("task `{name}`, `oom_score_adj`: expected -1000 to 1000, found {found}"));
        }
        self.check_child(task).map_err(|error| format!("task `{name}`, {error}"))?;
        let steps = [("before", &task.before), ("steps", &task.steps), ("child", &task.child)];
        for (list, number, step) in
            steps.iter().flat_map(|(list, steps)| (1..).zip(*steps).map(move |(n, step)| (list, n, step)))
        {
            let at = || format!("task `{name}`, `{list}`, step {number}");
            if let Some(file) = step.action.file().filter(|file| !self.file.contains_key(*file)) {
                return Err(format!("{}: no file is called `{file}`", at()));
            }
            if let Some(region) = step.action.region().filter(|region| !self.region.contains_key(*region)) {
                return Err(format!("{}: no region is called `{region}`", at()));
            }
            self.check_signal(&step.action).map_err(|error| format!("{}: {error}", at()))?;
            if let Some(places) = step.action.places() {
                check_theta(places.distribution, places.theta).map_err(|error| format!("{}: {error}", at()))?;
            }
        }
        Ok(())
    }

    /// Returns an error if the steps of a task's child are none that a child can do, or no step starts the child. The error
    /// begins with the key that it is about.
    fn check_child(&self, task: &TaskOf) -> Result<(), String> {
        if task.before.iter().any(|step| step.action == Action::Fork) {
            return Err("`before`: it forks, and nothing is measured there: expected `fork` in `steps` alone".into());
        }
        let has_fork = task.steps.iter().any(|step| step.action == Action::Fork);
        match (has_fork, task.child.is_empty()) {
            (true, true) => {
                return Err("`steps`: one forks, but the child has no steps: expected `child = [...]`".into());
            }
            (false, false) => return Err("`child`: no step starts the child: expected a step `fork = true`".into()),
            _ => {}
        }
        if task.child_rounds == 0 {
            return Err("`child_rounds`: expected at least 1, found 0".into());
        }
        for (number, step) in (1..).zip(&task.child) {
            let is_possible =
                step.action.is_operation() || matches!(step.action, Action::Sleep(_) | Action::Compute(_));
            if !is_possible {
                return Err(format!(
                    "`child`, step {number}: a child reads, writes, touches, syncs, sleeps and computes"
                ));
            }
            let maps_file = |region: &str| self.region.get(region).is_some_and(|region| region.file.is_some());
            if let Some(region) = step.action.region().filter(|region| maps_file(region)) {
                return Err(format!(
                    "`child`, step {number}: region `{region}` maps a file, and a child has none of these"
                ));
            }
        }
        Ok(())
    }

    /// Returns the kinds of tasks by name. The kinds that are measured come first.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&String, &TaskOf)> {
        let of = |measured: bool| self.task.iter().filter(move |(_, task)| task.measured == measured);
        of(true).chain(of(false))
    }

    /// Returns the total number of tasks of the kinds for which `uses` returns `true`.
    pub(super) fn users(&self, uses: impl Fn(&TaskOf) -> bool) -> u64 {
        self.task.values().filter(|task| uses(task)).map(|task| task.count).sum()
    }

    /// Returns whether a task reads, writes, syncs or maps a file.
    pub(super) fn uses_file(&self, task: &TaskOf, file: &str) -> bool {
        let maps = |region: &str| self.region.get(region).is_some_and(|region| region.file.as_deref() == Some(file));
        task.actions().any(|action| action.file() == Some(file) || action.region().is_some_and(maps))
    }

    /// Returns whether a step of some task writes the file `file`, or stores to a shared mapping of this file.
    pub(super) fn is_written(&self, file: &str) -> bool {
        let is_mapped = |region: &str| {
            self.region.get(region).is_some_and(|region| region.file.as_deref() == Some(file) && !region.private)
        };
        self.actions().any(|action| match action {
            Action::Write { file: written, .. } => written == file,
            Action::Read { file: read, write_percent, .. } => *write_percent > 0 && read == file,
            Action::Touch { region, store_percent, .. } => *store_percent > 0 && is_mapped(region),
            _ => false,
        })
    }

    /// Returns whether some step writes a file, or stores to a shared mapping of it.
    pub(super) fn writes(&self) -> bool {
        self.file.keys().any(|file| self.is_written(file))
    }

    /// Returns what counts as a miss in reports of this load: the description's own rule or, by default, pages read in
    /// if the load reads files, and otherwise major faults.
    pub(super) fn misses(&self) -> Misses {
        let reads = self.actions().any(|action| matches!(action, Action::Read { .. }));
        self.misses.unwrap_or(if reads { Misses::PagesReadIn } else { Misses::MajorFaults })
    }

    /// Returns whether a task that is not measured, or a child, reads a file or touches a region.
    pub(super) fn is_read_in_background(&self) -> bool {
        let reads = |action: &Action| matches!(action, Action::Read { .. } | Action::Touch { .. });
        let of_children = self.task.values().flat_map(|task| &task.child).map(|step| &step.action);
        self.task.values().filter(|task| !task.measured).flat_map(TaskOf::actions).chain(of_children).any(reads)
    }

    /// Returns the number of pages that each measured operation accesses; `None` if the numbers differ.
    pub(super) fn pages_of_operations(&self) -> Option<u64> {
        let steps = self.task.values().filter(|task| task.measured).flat_map(|task| &task.steps);
        let mut pages = steps.filter_map(|step| step.action.places()).map(|places| places.pages);
        let first = pages.next().unwrap_or(1);
        pages.all(|other| other == first).then_some(first)
    }

    /// Returns the name of each signal that an action sends or waits for, in the order of the actions. A name may come
    /// several times.
    pub(super) fn signals(&self) -> impl Iterator<Item = &str> {
        self.actions().filter_map(|action| match action {
            Action::Signal(name) | Action::Wait(name, _) | Action::Turn(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns the names of the report's rows for durations of operations. The steps name these rows; the names are in
    /// the order of the steps.
    pub(super) fn row_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for step in self.task.values().flat_map(|task| task.steps.iter().chain(&task.child)) {
            for name in [&step.row, &step.write_row, &step.sync_row].into_iter().flatten() {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// Returns whether the durations of some step's operations go to the row `name`. Returns `false` if only syncs
    /// after writes go to it.
    pub(super) fn is_row_of_operations(&self, name: &str) -> bool {
        self.task
            .values()
            .flat_map(|task| &task.steps)
            .any(|step| [&step.row, &step.write_row].into_iter().flatten().any(|row| row == name))
    }

    /// Returns the row that has the durations of all measured operations and of no others; none if there is none.
    pub(super) fn row_of_all(&self) -> Option<&str> {
        let operations = |measured: bool| {
            let tasks = self.task.values().filter(move |task| task.measured == measured);
            tasks.flat_map(|task| &task.steps).filter(|step| step.action.is_operation())
        };
        let name = operations(true).next()?.row.as_deref()?;
        let has =
            |step: &Step| step.row.as_deref() == Some(name) && step.write_row.as_deref().is_none_or(|row| row == name);
        let is_sync =
            self.task.values().flat_map(|task| &task.steps).any(|step| step.sync_row.as_deref() == Some(name));
        (operations(true).all(has) && !operations(false).any(has) && !is_sync).then_some(name)
    }

    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.task.values().flat_map(TaskOf::actions)
    }
}

impl TaskOf {
    /// Returns the actions of all steps.
    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.before.iter().chain(&self.steps).chain(&self.child).map(|step| &step.action)
    }

    /// Returns whether any action of the tasks' steps uses the region called `region`.
    pub(super) fn uses_region(&self, region: &str) -> bool {
        self.actions().any(|action| action.region() == Some(region))
    }

    /// Returns the smallest number of operations that the steps of a task carry out in one round.
    pub(super) fn operations_at_least(&self) -> u64 {
        let of_step = |step: &Step| match step.repeated {
            _ if step.is_one => 1,
            Repeated::Operations(operations) if step.action.is_operation() => operations,
            _ => 0,
        };
        self.steps.iter().map(of_step).fold(0, u64::saturating_add)
    }
}

fn check_file(name: &str, file: &FileOf) -> Result<(), String> {
    if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
        return Err(format!("file `{name}`: a name has no `/` and does not begin with a dot"));
    }
    match (file.percent, file.mib) {
        (Some(_), None) | (None, Some(_)) => Ok(()),
        _ => Err(format!("file `{name}`: expected one of `percent` and `mib`")),
    }
}
