//! What is seen of real computers.
//!
//! [`doctor`] makes a diagnosis of logs or of the running kernel, [`import`] makes reports of logs of MMTests and back,
//! [`of_recording`] makes counters over time of a recording, [`stalls`] says why tasks of a simulated run waited. With the feature
//! `linux` `stat` reads counters of the running kernel, and `this_computer` describes it as a machine file.

pub mod doctor;
pub mod import;
pub mod of_recording;
pub mod stalls;
#[cfg(feature = "linux")]
pub mod stat;
#[cfg(feature = "linux")]
pub mod this_computer;
