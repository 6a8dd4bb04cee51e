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

/// A step of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Step {
    /// The step's name, a word or two.
    pub name: String,
    /// The time at which it began, seconds of the run.
    pub from_s: f64,
    /// The time at which it ended.
    pub to_s: f64,
}

/// A quantity that grows while a workload runs, against another that grows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Curve {
    /// The quantity that grows, and its unit.
    pub name: String,
    /// The other quantity, and its unit.
    pub across: String,
    /// The curve's points; the first value is that of the other quantity.
    pub points: Vec<(f64, f64)>,
}

/// The curves and steps of a run, with its column and seed.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCurves {
    /// The run's column.
    pub column: String,
    /// The run's seed.
    pub seed: u64,
    /// The curves; all runs of a workload have the same ones.
    pub curves: Vec<Curve>,
    /// The steps.
    pub steps: Steps,
}
