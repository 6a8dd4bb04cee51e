//! Observation of real computers and of simulated runs.
//!
//! [`doctor`] diagnoses logs or the running kernel. [`import`] converts logs of MMTests to reports, and reports to
//! logs. [`of_recording`] converts recordings to counters over time. [`stalls`] explains why tasks of a simulated run
//! waited. With the feature `linux`, `stat` reads counters of the running kernel, and `this_computer` describes the
//! computer as a machine file.

pub mod doctor;
pub mod import;
pub mod of_recording;
pub mod stalls;
#[cfg(feature = "linux")]
pub mod stat;
#[cfg(feature = "linux")]
pub mod this_computer;
