//! Workloads, systems, experiments, reports.
