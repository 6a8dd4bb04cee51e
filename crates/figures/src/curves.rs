//! The data that a workload records about itself for the pictures of a run: curves of its own quantities, and the steps
//! of its work.

use serde::{Deserialize, Serialize};

/// The consecutive steps of a run's workload. Pictures over time mark these steps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Steps {
    /// The steps of the run, in order.
    pub steps: Vec<Step>,
    /// Name for the spans of time between the steps, in the legend of a picture.
    pub between: String,
}

/// One step of a run's workload, with its beginning and end.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Step {
    /// Name of the step in one or two words, for the legend of a picture.
    pub name: String,
    /// Time at which the step began, in seconds since the start of the run.
    pub from_s: f64,
    /// Time at which the step ended, in seconds since the start of the run.
    pub to_s: f64,
}

/// A curve in a picture of a run: one quantity over another. Both quantities grow while the workload runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Curve {
    /// Name and unit of the quantity on the vertical axis.
    pub name: String,
    /// Name and unit of the quantity on the horizontal axis.
    pub across: String,
    /// Points of the curve: the value on the horizontal axis (`across`), then the value on the vertical axis.
    pub points: Vec<(f64, f64)>,
}

/// The curves and the steps of one run. The run is identified by its column and its seed.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCurves {
    /// Name of the column to which the run belongs. A report has a column for each kernel.
    pub column: String,
    /// The run's seed.
    pub seed: u64,
    /// The curves of the run. All runs of a workload have curves of the same names.
    pub curves: Vec<Curve>,
    /// The consecutive steps of the run's workload, with their times.
    pub steps: Steps,
}
