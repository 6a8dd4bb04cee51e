//! Counts and records of a run: fingerprint, locks, interrupts, pressure, profile, trace. Reading them does not change
//! the run.

pub(crate) mod fingerprint;
pub(crate) mod locks;
pub(crate) mod masks;
pub(crate) mod pressure;
pub(crate) mod profile;
pub mod trace;
