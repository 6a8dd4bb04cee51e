//! The laboratory: experiments over the engine, their reports, the command `highwater`.
//!
//! An *experiment* is a machine, a workload and the kernels to compare.
//!
//! * [`plan::Plan`] makes a job of each kernel and seed, [`runner`] runs them side by side, [`report`] makes the
//!   table;
//! * [`library`] finds files, which are embedded in the binary; [`cli`] is the command, a file for each verb;
//! * a [`workload::Workload`] runs in a job, written against [`system::System`]; [`workloads`] lists them;
//! * [`simulation`] runs a workload on a simulated machine, [`real_time`] on real memory, in a process of its own
//!   ([`real_time::apart`]); both are a [`backend::Backend`], and [`grounds`] takes a job to that of its [`ground`].
//!   Only [`real_time`] needs Linux: it is there with the feature `linux`;
//! * [`store`] keeps what simulated runs found, [`sweep`] runs a grid of them over it, [`results`] reads it;
//! * [`html`] makes pages with charts of what reports show;
//! * [`import`] reads logs of MMTests as reports, and writes reports as such;
//! * [`statistics`] says what is known of a median, [`shift`] by how much two columns differ, and [`verdict`] what that is worth: reports,
//!   pages, rankings and ablations take it from there;
//! * [`difference`] lists what separates two kernels, [`ablation`] what each difference does to a figure, [`ranking`] how all
//!   kernels stand.
//!
//! Next: [`job`], the input and output of a run.

pub mod ablation;
pub mod backend;
pub mod bars;
pub mod bench;
pub mod call_tree;
pub mod cgroup;
pub mod change;
pub mod choose;
pub mod cli;
pub mod counters;
pub mod difference;
pub mod doctor;
pub mod draft;
pub mod embedded;
pub mod experiment;
pub mod extent;
pub mod fidelity;
pub mod figure;
pub mod generations;
pub mod ground;
pub mod grounds;
pub mod hardware;
pub mod html;
pub mod import;
pub mod in_use;
pub mod input;
pub mod interrupt;
pub mod job;
pub mod known_names;
pub mod library;
pub mod machine_file;
pub mod meanings;
pub mod memory_map;
pub mod moments;
pub mod panics;
pub mod plan;
pub mod plot;
pub mod profile;
pub mod progress;
pub mod ranking;
#[cfg(feature = "linux")]
pub mod real_time;
#[cfg(not(feature = "linux"))]
#[path = "no_real_time.rs"]
pub mod real_time;
pub mod recordings;
pub mod report;
pub mod results;
pub mod rows;
pub mod runner;
pub mod scale;
pub mod series;
pub mod shift;
pub mod shown;
pub mod simulation;
pub mod stalls;
#[cfg(feature = "linux")]
pub mod stat;
pub mod statistics;
pub mod store;
pub mod swarm;
pub mod sweep;
pub mod system;
#[cfg(feature = "linux")]
pub mod this_computer;
pub mod trace;
pub mod values;
pub mod variants;
pub mod verdict;
pub mod versions;
mod words;
pub mod workload;
pub mod workloads;
