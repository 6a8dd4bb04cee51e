//! What a run finds, and what is known of it.
//!
//! * [`figure`] is a row; [`vmscan`], [`mmtests`], [`locks`] and [`nodes`] make groups of rows out of [`counters`] and [`usage`];
//! * [`series`] are counters over time, [`histogram`] is how long operations took, [`curves`] are what a workload draws by itself;
//! * [`profile`], [`call_tree`] and [`trace`] say where time went, [`memory_map`] and [`generations`] where pages were, at [`moments`];
//! * [`statistics`] says what is known of a median, [`shift`] by how much two columns differ, [`verdict`] what that is worth.
//!
//! Nothing here runs anything, and nothing prints.

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
