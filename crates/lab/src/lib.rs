//! The laboratory: experiments with the engine, their reports, and the command `highwater`.
//!
//! An *experiment* is a machine, a workload and the kernels to compare. The laboratory consists of several parts, each
//! of which is a crate. This crate has the command ([`cli`]) and re-exports the modules of the other parts:
//!
//! * [`catalogue`]: kernels, machines and experiments by name;
//! * [`workloads`]: workloads, written against [`system::System`]; [`grounds`]: the systems that they run on;
//! * [`figures`]: the results of runs; [`report`]: their output;
//! * [`study`]: many runs and conclusions from them; [`swarm`]: random worlds, a module of `grounds`;
//! * [`recordings`] and [`observe`]: logs, and this computer; `record` and `trace`: what a program does to files and memory;
//! * `cache`: cache policies on traces, without time; `guest`: kernel images in virtual machines;
//! * `kit`: small functions that every part may use; `computer`: calls of Linux.
//!
//! Next: [`cli`], which has a module for each verb.

pub mod cli;
pub mod known_names;
pub mod meanings;
pub mod untimed;

pub use ::{catalogue, figures, grounds, kit, observe, recordings, report, study, workloads};
#[cfg(feature = "linux")]
pub use ::computer;
pub use catalogue::{change, difference, embedded, experiment, find, ground, hardware, machine_file, values, versions};
pub use figures::{
    call_tree, cgroup, counters, figure, generations, memory_map, moments, profile, scale, series, shift, statistics,
    trace, verdict,
};
pub use grounds::{backend, job, real_time, simulation, swarm};
pub use kit::{draft, in_use, input, interrupt, panics, progress, shown, words};
pub use observe::{doctor, import, stalls};
#[cfg(feature = "linux")]
pub use observe::{stat, this_computer};
pub use report::{html, plot, rows};
pub use study::{ablation, bars, bench, fidelity, plan, ranking, results, runner, store, sweep, variants};
pub use workloads::{choose, extent, system, workload};
