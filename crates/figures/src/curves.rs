//! Curves and steps of a run, which pictures of it show.

use serde::{Deserialize, Serialize};

/// The steps of a run one after the other, which pictures over time mark.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Steps {
    /// The steps of the run, in order.
    pub steps: Vec<Step>,
    /// The name of the time between them.
    pub between: String,
}

/// A step of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Step {
    /// Its name: what is special of it, in a word or two.
    pub name: String,
    /// The time at which it began, seconds of the run.
    pub from_s: f64,
    /// The time at which it ended.
    pub to_s: f64,
}

/// Something that grows while a workload runs, against something else that grows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Curve {
    /// The quantity that grows, and its unit.
    pub name: String,
    /// Against what, and its unit.
    pub across: String,
    /// Its points, those against which it grows first.
    pub points: Vec<(f64, f64)>,
}

/// The curves and steps of a run, and which run that was.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCurves {
    /// Its column.
    pub column: String,
    /// Its seed.
    pub seed: u64,
    /// The curves, the same ones in each run of a workload.
    pub curves: Vec<Curve>,
    /// The steps.
    pub steps: Steps,
}
