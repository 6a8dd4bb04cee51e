//! One run: what goes in, what comes out, who carries it out.

use std::{fmt, path::PathBuf, sync::Arc};

use engine::{kernel::Kernel, memory::Layout};
use machine::Nanos;
use placed::Node;

use serde::{Deserialize, Serialize};

use sim::trace::{Trace, TraceConfig};

use catalogue::ground::Ground;
use catalogue::hardware::Machine;
use figures::cgroup::Cgroup;
use figures::curves::{Curve, Steps};
use figures::figure::{Row, RowName};
use figures::histogram::Times;
use figures::scale::Scale;
use figures::series::{Every, Series};
use figures::{generations, memory_map};
use kit::progress::Progress;

/// One run: one kernel on one ground, one seed.
#[derive(Clone, Debug)]
pub struct Job {
    /// Name of the experiment.
    pub experiment: String,
    /// The kernel.
    pub kernel: Kernel,
    /// The machine.
    pub machine: Arc<Machine>,
    /// The experiment's `[params]`; a workload reads its own type from it.
    pub params: Node,
    /// The random seed.
    pub seed: u64,
    /// By how much the experiment is made smaller.
    pub scale: Scale,
    /// Is virtual time by call path wanted?
    pub profile: bool,
    /// How often its counters are recorded, if that is wanted; virtual time, or real.
    pub series_every: Option<Every>,
    /// How often memory is looked at, if that is wanted; on a simulated machine.
    pub memory_every: Option<Nanos>,
    /// How often generations of pages are looked at, if that is wanted; on a simulated machine.
    pub generations_every: Option<Nanos>,
    /// The part of the run that is recorded for a trace, if one is wanted; on a simulated machine.
    pub trace: Option<TraceConfig>,
    /// Are rows wanted of how often locks were taken, and how long interrupts were off?
    pub locks: bool,
    /// The ground that it runs on.
    pub ground: Ground,
    /// Does `linux` get a swap file of the machine's size, beside the computer's own swap?
    pub makes_swap: bool,
    /// Pages that the device under the files of a ground of real time has room for, where that is known.
    pub device_pages: Option<u64>,
    /// Where this process runs it, if that is a ground of real time.
    pub inside: Option<Inside>,
}

impl Job {
    /// Memory of its machine at its scale.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let mut layout = self.machine.memory.clone();
        for zone in layout.nodes.iter_mut().flat_map(|node| &mut node.zones) {
            zone.managed_pages = self.scale.of(zone.managed_pages);
        }
        layout.limit_pages = layout.limit_pages.map(|pages| self.scale.of(pages));
        layout
    }

    /// Memory that tasks of its machine may have at its scale, pages.
    #[must_use]
    pub fn memory_pages(&self) -> u64 {
        self.layout().usable_pages()
    }

    /// Swap of its machine at its scale, pages.
    #[must_use]
    pub fn swap_pages(&self) -> u64 {
        self.machine.swap_disk().map_or(0, |(_, disk)| self.scale.of(disk.swap_slots.value))
    }
}

/// A job in words that another process understands.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Order {
    /// Name or file of the experiment.
    pub experiment: String,
    /// Name or file of the kernel.
    pub kernel: String,
    /// Name or file of the machine.
    pub machine: String,
    /// The ground.
    pub ground: Ground,
    /// The random seed.
    pub seed: u64,
    /// The scale, as text.
    pub scale: String,
    /// How often counters are recorded, if that is wanted.
    pub series_every: Option<Every>,
}

/// The order to a process that runs a job in real time.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Inside {
    /// A fresh folder for files.
    pub folder: PathBuf,
    /// The cgroup that limits it, if one does.
    pub cgroup: Option<Cgroup>,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Outcome {
    /// Its figures, in the order in which they are printed.
    pub rows: Vec<Row>,
    /// Hash over states and events; does not depend on output format or [`Job::profile`]. 0 where time is real.
    pub fingerprint: u64,
    /// How long the run was, in virtual or real nanoseconds.
    pub virtual_time_ns: u64,
    /// Pages allocated, freed, faulted, scanned, reclaimed and moved between lists: the work done.
    pub page_events: u64,
    /// True for a simulated run in which reclaim looked at no page: memory never filled.
    #[serde(default)]
    pub is_idle: bool,
    /// Folded stacks, "`kswapd0;balance_pgdat;shrink_zone 1234`" with virtual nanoseconds, if wanted.
    pub profile: Option<Vec<String>>,
    /// Counters over time, if wanted.
    pub series: Option<Series>,
    /// Memory over time, if wanted.
    #[serde(skip)]
    pub memory: Option<Vec<memory_map::Moment>>,
    /// Generations of pages over time, if wanted.
    #[serde(skip)]
    pub generations: Option<Vec<generations::Moment>>,
    /// The events over time, if a trace was wanted.
    #[serde(skip)]
    pub trace: Option<Trace>,
    /// Notes on a ground of real time: what limited memory, what was not granted.
    pub notes: Vec<String>,
    /// The report of the workload in words of its own.
    #[serde(default)]
    pub report: Vec<String>,
    /// The curves of its pictures beside counters over time.
    #[serde(default)]
    pub curves: Vec<Curve>,
    /// The steps that it had.
    #[serde(default)]
    pub steps: Steps,
    /// How long its operations took.
    #[serde(default)]
    pub times: Vec<Times>,
}

/// Why a job cannot run or did not end well.
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

/// A workload on whatever ground a job names: the part of an experiment that runs.
pub trait Runnable: Sync {
    /// Its name in `experiment.toml`.
    fn name(&self) -> &'static str;

    /// One line about it.
    fn about(&self) -> &'static str;

    /// All parameters of a run, those that `given`, the `[params]` of an experiment, leaves to their defaults included;
    /// none where those are wrong.
    fn params(&self, given: &Node) -> Option<serde_json::Value> {
        let _ = given;
        None
    }

    /// Returns the meaning of a parameter; none of one that it does not have, or does not describe.
    fn about_param(&self, key: &str) -> Option<&'static str> {
        let _ = key;
        None
    }

    /// Why it runs on the simulator alone, if it does.
    fn sim_only(&self) -> Option<&'static str> {
        None
    }

    /// Looks at a job before any job runs, quickly.
    ///
    /// # Errors
    /// When its parameters are wrong or its machine is too small: bad input, which ends the command
    /// with status 2.
    fn check(&self, job: &Job) -> Result<(), Failure>;

    /// Seconds of virtual or real time that a job lasts, if its parameters say so.
    fn time_s(&self, job: &Job) -> Option<u64> {
        let _ = job;
        None
    }

    /// Names of the rows that a job may find, if they are known before it runs.
    fn row_names(&self, job: &Job) -> Option<Vec<RowName>> {
        let _ = job;
        None
    }

    /// Runs a job to its end, on the calling thread, telling how far it is.
    ///
    /// # Errors
    /// When the run could not be finished: simulated memory or swap exhausted, a check of the workload
    /// failed. The command then ends with status 1. A panic is caught and ends it so too.
    fn run(&self, job: &Job, progress: &Progress) -> Result<Outcome, Failure>;
}
