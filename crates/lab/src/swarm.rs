//! Random worlds: a machine, a workload and a kernel drawn from a seed, with every check on.

use std::fmt;

/// What a seed drew and where it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwarmReport {
    /// What was drawn, in one line.
    pub drawn: String,
    /// Hash over every state and event of the run: two runs of a seed end on the same one.
    pub fingerprint: u64,
}

/// What a seed drew and what broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwarmFailure {
    /// What was drawn, in one line.
    pub drawn: String,
    /// The check that failed, with its values.
    pub message: String,
}

impl fmt::Display for SwarmFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}", self.message, self.drawn)
    }
}

impl std::error::Error for SwarmFailure {}

/// Runs the world of one seed.
///
/// # Errors
/// When a check fails; a panic inside is the caller's to catch.
pub fn run(seed: u64) -> Result<SwarmReport, SwarmFailure> {
    let drawn = format!("seed {seed:#x}: nothing");
    Err(SwarmFailure { drawn, message: "the swarm has no worlds yet".into() })
}
