//! The trait of workloads.
//!
//! A workload is written once, against [`System`], and knows no ground. [`crate`] lists the workloads; the crate
//! `grounds` runs them.

use crate::extent::Extent;
use crate::system::{System, SystemError};
use figures::curves::{Curve, Steps};
use figures::figure::{Row, RowName};
use figures::histogram::Times;
use figures::scale::Scale;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The memory and swap of the system on which a workload runs, as known before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Memory that the system manages, pages; equal to [`System::memory_pages`].
    pub memory_pages: u64,
    /// Memory in use before the workload starts, pages. Reclaim can free only a part of it.
    pub used_pages: u64,
    /// Size of swap, pages.
    pub swap_pages: u64,
}

/// The results of one run of a workload.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// The run's figures, in the order in which they are printed.
    pub rows: Vec<Row>,
    /// CPU time as folded stacks: lines `part;task;func ns`, in which `part` is the workload's name for a part of the
    /// run. Empty if the system has no [`System::profile`].
    pub profile: Vec<String>,
    /// A report in lines of text, which the command shows below the table of rows. It is empty for most workloads.
    pub report: Vec<String>,
    /// Curves of the run that are drawn in pictures, in addition to counters over time.
    pub curves: Vec<Curve>,
    /// Durations of the workload's operations, for histograms.
    pub times: Vec<Times>,
    /// The named steps of the run, if the workload divides the run into steps.
    pub steps: Steps,
}

/// A workload: a program that reaches memory and files only through [`System`], and so does not depend on the ground
/// (simulator, library or a kernel) on which it runs.
pub trait Workload: Sync + 'static {
    /// The workload's parameters, read from `[params]` in an experiment's file; unknown keys are refused.
    type Params: DeserializeOwned + Serialize + 'static;

    /// Name of the workload in `experiment.toml`.
    const NAME: &'static str;

    /// Description of the workload in one line.
    const ABOUT: &'static str;

    /// `true` if the workload verifies the contents of pages. A simulated machine then keeps a stamp of each page, its
    /// first eight bytes.
    const VERIFIES: bool = false;

    /// `true` if the workload's report has figures on how many of its tasks the out-of-memory killer ended. If it is
    /// `false`, a run in which all tasks of the workload were killed counts as failed.
    const MEASURES_KILLS: bool = false;

    /// The reason why the workload runs only on the simulator; none if it runs on every ground.
    const SIM_ONLY: Option<&'static str> = None;

    /// `true` if the workload maps files ([`System::map_file`]), which the library cannot do.
    const MAPS_FILES: bool = false;

    /// Returns whether a task of the workload forks ([`System::fork`]), which the library cannot do.
    fn forks(params: &Self::Params) -> bool {
        let _ = params;
        false
    }

    /// The parameter that names a file of this computer, which the workload reads; none if it reads no file. A guest gets
    /// a copy of the file.
    const FILE: Option<&'static str> = None;

    /// Returns the description of the parameter `key`; none if it has no description. With
    /// `documented::DocumentedFields` derived for the parameters, an implementation is
    /// `Params::get_field_docs(key).ok()`.
    #[must_use]
    fn about_param(key: &str) -> Option<&'static str> {
        let _ = key;
        None
    }

    /// Returns the names of the memory control groups that the parameters name. Each must be a `[[group]]` of the machine
    /// file.
    #[must_use]
    fn groups(params: &Self::Params) -> Vec<&str> {
        let _ = params;
        Vec::new()
    }

    /// Checks parameters quickly before anything runs.
    ///
    /// # Errors
    /// When the parameters are wrong, or the system is too small for them. The error is a text for the user. It counts
    /// as bad input, which ends the command with status 2.
    fn check(params: &Self::Params, resources: &Resources) -> Result<(), String>;

    /// Returns the extent of a run (duration, longest wait, operations, file pages), as far as the parameters determine
    /// it. A run whose extent exceeds the limits is refused before [`Workload::check`]. This default implementation
    /// returns the empty extent, which says that nothing is known.
    #[must_use]
    fn extent(params: &Self::Params, resources: &Resources, scale: Scale) -> Extent {
        let _ = (params, resources, scale);
        Extent::default()
    }

    /// Returns the names of the rows that a run may report, if they are known in advance. An error in `--rows` is then
    /// found before the run. A run need not report all of these rows. This default implementation returns none: the
    /// names are not known.
    #[must_use]
    fn row_names(params: &Self::Params, resources: &Resources) -> Option<Vec<RowName>> {
        let _ = (params, resources);
        None
    }

    /// Runs the workload as the main task of `system`: sets up, measures, verifies, and removes what it made. Returns
    /// the results.
    ///
    /// # Errors
    /// When the run could not be finished, or contents were wrong. The command then ends with status 1.
    fn run<S: System>(system: &S, params: &Self::Params) -> Result<Measurements, SystemError>;
}
