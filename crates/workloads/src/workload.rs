//! The trait of workloads: parameters, needs, work, results.
//!
//! It is written once, against [`System`], and knows no ground; [`crate`] lists those that there are
//! and takes each to the ground of a job.

use crate::extent::Extent;
use crate::system::{System, SystemError};
use figures::curves::{Curve, Steps};
use figures::figure::{Row, RowName};
use figures::histogram::Times;
use figures::scale::Scale;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The resources of a ground, known before anything runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Memory that the system manages, pages: what [`System::memory_pages`] will say.
    pub memory_pages: u64,
    /// Memory in use before the workload begins that cannot all be dropped, pages.
    pub used_pages: u64,
    /// Swap, pages.
    pub swap_pages: u64,
}

/// The results of a workload.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its figures, in the order in which they are printed.
    pub rows: Vec<Row>,
    /// Folded stacks, `part;task;func ns`, by the parts that the workload divides its run into; empty where the
    /// ground has no [`System::profile`].
    pub profile: Vec<String>,
    /// Its report in words of its own, line by line; shown under the table.
    pub report: Vec<String>,
    /// Curves of pictures of its runs beside counters over time.
    pub curves: Vec<Curve>,
    /// How long its operations took, for histograms.
    pub times: Vec<Times>,
    /// The steps that it had, where it had some.
    pub steps: Steps,
}

/// A workload, written against [`System`] alone.
pub trait Workload: Sync + 'static {
    /// The `[params]` of an experiment; unknown keys are refused.
    type Params: DeserializeOwned + Serialize + 'static;

    /// Its name in `experiment.toml`.
    const NAME: &'static str;

    /// One line about it.
    const ABOUT: &'static str;

    /// Does it verify the contents of pages? A simulated machine keeps their stamps then.
    const VERIFIES: bool = false;

    /// Why it runs on the simulator alone, if it does.
    const SIM_ONLY: Option<&'static str> = None;

    /// Returns the meaning of a parameter; none where it is not described. With `documented::DocumentedFields` derived for parameters it
    /// is `Params::get_field_docs(key).ok()`.
    #[must_use]
    fn about_param(key: &str) -> Option<&'static str> {
        let _ = key;
        None
    }

    /// Looks at parameters before anything runs, quickly.
    ///
    /// # Errors
    /// When they are wrong or the ground is too small for them, in words for the user: bad input, which ends the
    /// command with status 2.
    fn check(params: &Self::Params, resources: &Resources) -> Result<(), String>;

    /// Returns the extent of a run, as far as parameters tell: who asks for what cannot end is refused before [`Workload::check`]. By
    /// default nothing is known.
    #[must_use]
    fn extent(params: &Self::Params, resources: &Resources, scale: Scale) -> Extent {
        let _ = (params, resources, scale);
        Extent::default()
    }

    /// Names of the rows that a run may find, if they are known before it: with them a slip in `--rows` is told before the
    /// run. Not every run finds all of them. By default they are not known.
    #[must_use]
    fn row_names(params: &Self::Params, resources: &Resources) -> Option<Vec<RowName>> {
        let _ = (params, resources);
        None
    }

    /// Runs, as the main task of `system`: sets up, measures, verifies, removes what it made.
    ///
    /// # Errors
    /// When the run could not be finished, or contents were wrong. The command then ends with status 1.
    fn run<S: System>(system: &S, params: &Self::Params) -> Result<Found, SystemError>;
}
