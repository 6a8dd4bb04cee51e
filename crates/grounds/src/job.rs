//! Jobs (descriptions of single runs), their outcomes, and the trait of workloads that can run a job.

use std::{fmt, path::PathBuf, sync::Arc};

use engine::{kernel::Kernel, memory::Layout};
use machine::Nanos;
use placed::Node;

use serde::{Deserialize, Serialize};

use sim::trace::{Trace, TraceConfig};

use catalogue::ground::Ground;
use catalogue::group::Group;
use catalogue::hardware::Hardware;
use figures::cgroup::{Cgroup, Version};
use figures::curves::{Curve, Steps};
use figures::figure::{Row, RowName};
use figures::histogram::Times;
use figures::scale::Scale;
use figures::series::{Every, Series};
use figures::{generations, memory_map};
use kit::progress::Progress;
use workloads::extent::Extent;

/// The description of one run: one kernel on one ground with one seed.
#[derive(Clone, Debug)]
pub struct Job {
    /// Name of the experiment.
    pub experiment: String,
    /// The kernel under which the workload runs.
    pub kernel: Kernel,
    /// The machine on which the workload runs.
    pub machine: Arc<Hardware>,
    /// The section `[params]` of the experiment. The workload reads its parameters from this section.
    pub params: Node,
    /// The random seed.
    pub seed: u64,
    /// Factor by which memory, swap, files and disk bandwidth of the experiment are multiplied.
    pub scale: Scale,
    /// True if a profile is to be recorded: the virtual time that was spent on each call path.
    pub profile: bool,
    /// Interval between records of counters, in virtual or real time; `None` records nothing.
    pub series_every: Option<Every>,
    /// Interval between records of the state of memory, on a simulated machine or in a guest; `None` records nothing.
    pub memory_every: Option<Nanos>,
    /// Interval at which the run records how many pages each generation has (multi-generational LRU), on a simulated
    /// machine or in a guest; `None` records nothing.
    pub generations_every: Option<Nanos>,
    /// The part of the run that is traced, on a simulated machine; `None` traces nothing.
    pub trace: Option<TraceConfig>,
    /// True if the report is to have rows about locks and about the time with interrupts off.
    pub locks: bool,
    /// The ground on which the job runs.
    pub ground: Ground,
    /// True if a run on the ground `linux` gets a swap file, in addition to the computer's own swap. The machine file
    /// states its size.
    pub makes_swap: bool,
    /// Number of pages that fit on the device that holds the workload's files. `None` if the number is unknown, or in a
    /// simulated run.
    pub device_pages: Option<u64>,
    /// The kernel image that the ground `guest` boots; `None` on other grounds.
    pub kernel_image: Option<PathBuf>,
    /// Folder and cgroup of this process, if the process was started for this job; otherwise `None`.
    pub inside: Option<Inside>,
}

impl Job {
    /// Returns a job on the simulated ground, with seed 1, that records nothing beside the rows of the report.
    #[must_use]
    pub fn simulated(
        experiment: impl Into<String>,
        kernel: Kernel,
        machine: Arc<Hardware>,
        params: Node,
        scale: Scale,
    ) -> Self {
        Self {
            experiment: experiment.into(),
            kernel,
            machine,
            params,
            seed: 1,
            scale,
            profile: false,
            series_every: None,
            memory_every: None,
            generations_every: None,
            trace: None,
            locks: false,
            ground: Ground::Sim,
            makes_swap: false,
            device_pages: None,
            kernel_image: None,
            inside: None,
        }
    }

    /// Returns the layout of the machine's memory, with the sizes multiplied by the job's scale.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let mut layout = self.machine.memory.clone();
        for zone in layout.nodes.iter_mut().flat_map(|node| &mut node.zones) {
            zone.managed_pages = self.scale.of(zone.managed_pages);
        }
        layout.limit_pages = layout.limit_pages.map(|pages| self.scale.of(pages));
        layout.groups = layout.groups.max(Group::total(&self.machine.groups) as u16);
        layout.group_version = Group::version(&self.machine.groups, layout.group_version);
        layout
    }

    /// Returns the number of pages that tasks may use at the job's scale.
    #[must_use]
    pub fn memory_pages(&self) -> u64 {
        self.layout().usable_pages()
    }

    /// Returns the number of pages of files that fit on the machine's disks, at the job's scale.
    #[must_use]
    pub fn file_pages(&self) -> u64 {
        let room = |[first, end]: [u64; 2]| end.saturating_sub(first);
        self.scale.of(self.machine.disks.iter().map(|disk| room(disk.file_blocks.value)).sum())
    }

    /// Returns the size of the machine's swap at the job's scale, pages.
    #[must_use]
    pub fn swap_pages(&self) -> u64 {
        self.machine.swap_disk().map_or(0, |(_, disk)| self.scale.of(disk.swap_slots.value))
    }
}

/// A job in the form in which it is sent to another process on this computer. It contains names of files, which that
/// process reads itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NamedJob {
    /// Name of a built-in experiment, or path of an experiment file; followed by changes to it, if any.
    pub experiment: String,
    /// Name of a built-in kernel, or path of a kernel file; followed by changes to it, if any.
    pub kernel: String,
    /// Name of a built-in machine, or path of a machine file; followed by changes to it, if any.
    pub machine: String,
    /// The ground on which the job runs.
    pub ground: Ground,
    /// The random seed.
    pub seed: u64,
    /// The scale of the run, in the form in which the user writes it.
    pub scale: String,
    /// Interval between records of counters; `None` records nothing.
    pub series_every: Option<Every>,
}

/// A job in the form in which it is sent to a guest, which does not have the files of this computer. Files are named
/// only as the places of values.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Described {
    /// Name of the workload.
    pub workload: String,
    /// The section `[params]` of the experiment.
    pub params: Node,
    /// Memory that tasks may use, pages.
    pub memory_pages: u64,
    /// The random seed.
    pub seed: u64,
    /// The scale of the run, in the form in which the user writes it.
    pub scale: String,
    /// Interval between records of counters; `None` records nothing.
    pub series_every: Option<Every>,
    /// Interval between records of the generations of pages, ns; `None` records nothing.
    pub generations_every_ns: Option<u64>,
    /// Interval between records of the state of memory, ns; `None` records nothing.
    pub memory_every_ns: Option<u64>,
    /// Version of the cgroup that limits the memory of the worker, the process that runs the workload; `None` if there
    /// is no limit.
    pub cgroup: Option<Version>,
    /// The memory control groups of the machine file.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// The part of each page, percent, that the workload fills with contents. The rest is zeroes, so that compressed
    /// swap stores the page in about this size. `None` if the guest's swap is not compressed memory.
    pub compressed_percent: Option<u32>,
}

/// The folder and the cgroup of a process that runs a job in real time.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Inside {
    /// A fresh folder for the files of the workload.
    pub folder: PathBuf,
    /// The cgroup that limits the process, if any.
    pub cgroup: Option<Cgroup>,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Outcome {
    /// The run's figures, in the order in which they are printed.
    pub rows: Vec<Row>,
    /// Hash over the states and events of a simulated run; 0 for a run in real time. It does not depend on the output
    /// format or on [`Job::profile`].
    pub fingerprint: u64,
    /// Duration of the run, virtual or real, ns.
    pub virtual_time_ns: u64,
    /// A measure of the work done: the sum of pages allocated, freed, faulted, scanned, reclaimed and moved between
    /// lists.
    pub page_events: u64,
    /// `true` if a simulated run never filled its memory, so that reclaim scanned no page.
    #[serde(default)]
    pub is_idle: bool,
    /// Profile, if requested: folded stacks, each a call path and the virtual nanoseconds that were spent there, such
    /// as "`kswapd0;balance_pgdat;shrink_zone 1234`".
    pub profile: Option<Vec<String>>,
    /// Counters over time, if requested.
    pub series: Option<Series>,
    /// States of memory over time, if requested.
    #[serde(default)]
    pub memory: Option<Vec<memory_map::Moment>>,
    /// Generations of pages over time, if requested.
    #[serde(default)]
    pub generations: Option<Vec<generations::Moment>>,
    /// Events over time, if a trace was requested.
    #[serde(skip)]
    pub trace: Option<Trace>,
    /// Notes for readers of the report. They name control groups without tasks. For a run in real time, they also name
    /// the memory limit and resources that the system did not grant.
    pub notes: Vec<String>,
    /// The report of the workload, as lines of text.
    #[serde(default)]
    pub report: Vec<String>,
    /// The lines that the simulated kernel logged, each with its time. For each process killed for lack of memory there
    /// is a report of several lines.
    #[serde(default)]
    pub kernel_log: Vec<String>,
    /// Names of the workload's tasks if the out-of-memory killer ended every one of them, so that the figures say nothing;
    /// otherwise empty. Also empty for workloads that measure kills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub killed: Vec<String>,
    /// `true` if the out-of-memory killer ended some of the workload's tasks, but not all. The figures are then those of
    /// the tasks that were left. Always `false` for workloads that measure kills.
    #[serde(default)]
    pub is_bereft: bool,
    /// Curves to draw in pictures of the run, in addition to the counters over time.
    #[serde(default)]
    pub curves: Vec<Curve>,
    /// The consecutive steps of the run. Plots over time mark them.
    #[serde(default)]
    pub steps: Steps,
    /// For each kind of operation of the workload, a histogram of the durations.
    #[serde(default)]
    pub times: Vec<Times>,
}

impl Outcome {
    /// Returns why the run counts as failed although it ended: the out-of-memory killer ended every task of the workload.
    /// `None` if a task was left.
    #[must_use]
    pub fn loss(&self) -> Option<Failure> {
        let tasks = self.killed.len();
        let mut names: Vec<String> = Vec::new();
        for name in self.killed.iter().map(|name| format!("`{name}`")) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let why = "the out-of-memory killer ended every task of the workload";
        (tasks > 0).then(|| Failure(format!("killed ({tasks} of {tasks}): {why}, {}", names.join(", "))))
    }
}

/// The reason why a job cannot run or has failed, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<placed::Error> for Failure {
    fn from(error: placed::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self(message)
    }
}

/// A workload that every ground (system to run on) can run without knowing the workload's type.
pub trait Runnable: Sync {
    /// Returns the workload's name in `experiment.toml`.
    fn name(&self) -> &'static str;

    /// Returns a description of the workload in one line.
    fn about(&self) -> &'static str;

    /// Returns all parameters of a run: those `given` in `[params]`, and default values of all others. Returns `None`
    /// if `given` is wrong.
    fn params(&self, given: &Node) -> Option<serde_json::Value> {
        let _ = given;
        None
    }

    /// Returns the meaning of a parameter; `None` if the parameter does not exist or has no description.
    fn about_param(&self, key: &str) -> Option<&'static str> {
        let _ = key;
        None
    }

    /// Returns the parameter that names a file of this computer, which the workload reads; `None` if it reads no file.
    fn file(&self) -> Option<&'static str> {
        None
    }

    /// Returns the reason why the workload does not run on a ground; `None` if the workload runs there.
    fn refused_on(&self, ground: Ground) -> Option<&'static str> {
        let _ = ground;
        None
    }

    /// Checks a job quickly, before any job runs.
    ///
    /// # Errors
    /// When the job's parameters are wrong or its machine is too small. This is bad input, which ends the command with
    /// status 2.
    fn check(&self, job: &Job) -> Result<(), Failure>;

    /// Returns the predicted extent of a job: its duration, operations and file pages; `None` if the job's parameters
    /// or its machine are wrong.
    fn extent(&self, job: &Job) -> Option<Extent> {
        let _ = job;
        None
    }

    /// Returns the names of the rows that a job may report; `None` if they are not known in advance.
    fn row_names(&self, job: &Job) -> Option<Vec<RowName>> {
        let _ = job;
        None
    }

    /// Runs a job in the guest to which it was sent. This process runs in the guest, on the guest's kernel. Reports
    /// progress, and returns the outcome.
    ///
    /// # Errors
    /// The errors of [`Runnable::run`]. Also when this build lacks the feature `linux`.
    fn run_described(&self, job: &Described, progress: &Progress) -> Result<Outcome, Failure> {
        let _ = (job, progress);
        Err(Failure(format!("`{}` does not run in a guest", self.name())))
    }

    /// Runs a job to its end on the calling thread, reports progress, and returns the outcome.
    ///
    /// # Errors
    /// When the run could not be finished: simulated memory or swap is exhausted, or a check of the workload failed.
    /// The command then ends with status 1. A panic is caught and has the same effect.
    fn run(&self, job: &Job, progress: &Progress) -> Result<Outcome, Failure>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_reach_another_process_with_their_places() {
        let text = "share = 0.1\nfirst = true\nsteps = [{ read = \"a\", times = 3 }]\n";
        let mut params = Node::parse("e.toml", text).expect("TOML");
        let line = serde_json::to_string(&params).expect("JSON");
        let sent: Node = serde_json::from_str(&line).expect("JSON");
        assert_eq!(sent, params);
        let wrong = sent.get("share").expect("it is there").read::<u32>().expect_err("it is no whole number");
        assert!(wrong.to_string().starts_with("e.toml:1: "), "{wrong}");
        let first = params.get_mut("first").expect("it is there");
        first.value = placed::Value::Boolean(false);
        assert!(params != sent && params.get_mut("none").is_none());
    }
}
