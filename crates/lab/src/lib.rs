//! The laboratory: experiments over the engine, their reports, the command `highwater`.
//!
//! An *experiment* is a machine, a workload and the kernels to compare. [`plan::Plan`] makes a job of
//! each kernel and seed, [`runner`] runs them side by side, [`report`] makes the table that kernel
//! developers know. [`library`] finds the files, which are embedded in the binary; [`cli`] is the
//! command, a file for each verb. What runs in a job is a [`job::Workload`], from [`workloads`].
//!
//! Next: [`job`], what goes into a simulation and what comes out.

pub mod cli;
pub mod embedded;
pub mod experiment;
pub mod hardware;
pub mod job;
pub mod library;
pub mod machine_file;
pub mod panics;
pub mod plan;
pub mod progress;
pub mod report;
pub mod runner;
pub mod scale;
pub mod simulation;
pub mod statistics;
pub mod swarm;
pub mod system;
pub mod workloads;
