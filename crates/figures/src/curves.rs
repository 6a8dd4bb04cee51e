//! Curves and steps of a run, for pictures.

use serde::{Deserialize, Serialize};

/// Consecutive steps of a run, which pictures over time mark.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Steps {
    /// The steps of the run, in order.
    pub steps: Vec<Step>,
    /// Name of the time between two steps.
    pub between: String,
}

/// One step of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Step {
    /// Name of the step, a word or two.
    pub name: String,
    /// Time at which the step began, seconds of the run.
    pub from_s: f64,
    /// Time at which the step ended, seconds of the run.
    pub to_s: f64,
}

/// A quantity that grows while a workload runs, as a function of another quantity that grows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Curve {
    /// Name and unit of the quantity.
    pub name: String,
    /// Name and unit of the other quantity.
    pub across: String,
    /// Points of the curve: the value of the other quantity, then the value of this quantity.
    pub points: Vec<(f64, f64)>,
}

/// The curves and steps of a run, with its column and seed.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCurves {
    /// Name of the run's column.
    pub column: String,
    /// The run's seed.
    pub seed: u64,
    /// The curves. All runs of a workload have curves with these names.
    pub curves: Vec<Curve>,
    /// The steps of the run.
    pub steps: Steps,
}
