//! The workloads by name, and what they have in common.

pub mod before;
pub mod parallelio;

use crate::job::Workload;

/// Every workload, in the order in which they are listed.
#[must_use]
pub fn all() -> &'static [&'static dyn Workload] {
    &[&parallelio::Parallelio]
}

/// The workload called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Workload> {
    all().iter().copied().find(|workload| workload.name() == name)
}
