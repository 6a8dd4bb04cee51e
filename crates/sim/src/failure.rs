//! The failure of a simulated run: why the run stopped before its end.

use machine::Nanos;
use std::fmt;

/// A bug that the simulation found: a failed assertion, a deadlock, a task that does not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The failure, in words.
    pub message: String,
    /// Name of the task in which the failure occurred, or `interrupt`; `None` if it occurred in neither.
    pub task: Option<String>,
    /// Virtual time of the failure.
    pub time: Nanos,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.task {
            Some(task) => write!(f, "{} (task {task}, at {})", self.message, self.time),
            None => write!(f, "{} (at {})", self.message, self.time),
        }
    }
}

impl std::error::Error for Failure {}
