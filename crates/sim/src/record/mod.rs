//! Records of events, charges and notes. Reading them does not change a run.

pub(crate) mod fingerprint;
pub(crate) mod locks;
pub(crate) mod masks;
pub(crate) mod pressure;
pub(crate) mod profile;
pub mod trace;
