//! The figures of runs, and statistics over them.
//!
//! * [`figure`] has the type of a row of a report. [`vmscan`], [`mmtests`], [`locks`] and [`nodes`] make groups of rows
//!   from [`counters`] and [`usage`].
//! * [`series`] are counters over time, [`histogram`] counts durations of operations, [`curves`] are a workload's
//!   curves.
//! * [`profile`], [`call_tree`] and [`trace`] show where time was spent; [`memory_map`] and [`generations`] show what
//!   memory held at recorded [`moments`].
//! * [`statistics`] computes intervals of medians, [`shift`] the difference between two columns, [`verdict`] the
//!   significance of this difference.
//!
//! This crate runs nothing and prints nothing.

pub mod call_tree;
pub mod cgroup;
pub mod counters;
pub mod cputime;
pub mod csv_error;
pub mod curves;
pub mod engine_view;
pub mod figure;
pub mod generations;
pub mod histogram;
pub mod kernel_log;
pub mod locks;
pub mod memory_map;
pub mod mmtests;
pub mod moments;
pub mod nodes;
pub mod profile;
pub mod samples;
pub mod scale;
pub mod series;
pub mod shift;
pub mod statistics;
pub mod trace;
pub mod usage;
pub mod verdict;
pub mod vmscan;
pub mod waits;
