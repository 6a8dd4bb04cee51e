//! A workload with its parameters, without its type: what it needs ([`Needs`]), and its run on the system of one ground
//! ([`Load`]). A ground's own code is therefore compiled once, and not anew for each workload.

use crate::job::Failure;
use figures::figure::RowName;
use figures::scale::Scale;
use placed::Node;
use workloads::extent::Extent;
use workloads::system::{System, SystemError};
use workloads::workload::{Measurements, Resources, Workload};

/// The needs of a workload with the parameters of a job. The methods are those of [`Workload`] that are called before a
/// run.
pub trait Needs {
    /// Returns whether a task of the workload forks ([`Workload::forks`]).
    #[must_use]
    fn forks(&self) -> bool;

    /// Returns the names of the memory control groups that the parameters name ([`Workload::groups`]).
    #[must_use]
    fn groups(&self) -> Vec<&str>;

    /// Checks the parameters ([`Workload::check`]).
    ///
    /// # Errors
    /// When the parameters are wrong, or the system is too small for them. The error is a text for the user.
    fn check(&self, resources: &Resources) -> Result<(), String>;

    /// Returns the extent of a run ([`Workload::extent`]).
    #[must_use]
    fn extent(&self, resources: &Resources, scale: Scale) -> Extent;

    /// Returns the names of the rows that a run may report; `None` if they are not known ([`Workload::row_names`]).
    #[must_use]
    fn row_names(&self, resources: &Resources) -> Option<Vec<RowName>>;
}

/// The parameters of the workload `W`.
struct Read<W: Workload>(W::Params);

impl<W: Workload> Needs for Read<W> {
    fn forks(&self) -> bool {
        W::forks(&self.0)
    }

    fn groups(&self) -> Vec<&str> {
        W::groups(&self.0)
    }

    fn check(&self, resources: &Resources) -> Result<(), String> {
        W::check(&self.0, resources)
    }

    fn extent(&self, resources: &Resources, scale: Scale) -> Extent {
        W::extent(&self.0, resources, scale)
    }

    fn row_names(&self, resources: &Resources) -> Option<Vec<RowName>> {
        W::row_names(&self.0, resources)
    }
}

/// Reads the parameters of the workload `W` from the section `[params]` of an experiment.
///
/// # Errors
/// When a parameter is unknown, missing or wrong.
pub fn read<W: Workload>(params: &Node) -> Result<Box<dyn Needs>, Failure> {
    Ok(Box::new(Read::<W>(params.read()?)))
}

/// A workload with its parameters, as a function of the system on which it runs.
pub type Body<S> = Box<dyn FnOnce(&S) -> Result<Measurements, SystemError>>;

/// A workload with its parameters, ready to run on a system.
pub struct Load<S> {
    /// `true` if the workload verifies the contents of pages ([`Workload::VERIFIES`]).
    pub verifies: bool,
    /// `true` if the workload's report says how many of its tasks were killed ([`Workload::MEASURES_KILLS`]).
    pub measures_kills: bool,
    /// The run of the workload.
    pub body: Body<S>,
}

impl<S: System> Load<S> {
    /// Reads the parameters of the workload `W` from the section `[params]` of an experiment.
    ///
    /// # Errors
    /// When a parameter is unknown, missing or wrong.
    pub fn new<W: Workload>(params: &Node) -> Result<Self, Failure> {
        let params: W::Params = params.read()?;
        let body = Box::new(move |system: &S| W::run(system, &params));
        Ok(Self { verifies: W::VERIFIES, measures_kills: W::MEASURES_KILLS, body })
    }
}
