//! The workloads by name.

use crate::job::Workload;

/// Every workload, in the order in which they are listed.
#[must_use]
pub fn all() -> &'static [&'static dyn Workload] {
    &[]
}

/// The workload called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Workload> {
    all().iter().copied().find(|workload| workload.name() == name)
}
