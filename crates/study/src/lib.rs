//! Studies: many runs and conclusions from them.
//!
//! - [`plan`] makes a job for each kernel and seed, [`runner`] runs the jobs in parallel, [`bars`] shows progress.
//! - [`store`] keeps the results of simulated runs, [`sweep`] runs a grid over a store, [`results`] reads a store.
//! - [`ablation`] shows the effect of each difference between two kernels on a figure, [`variants`] the effect of
//!   changed assumptions. [`ranking`] ranks all kernels. [`fidelity`] compares simulated figures with published ones,
//!   [`truth`] simulated counters with those of a real kernel. [`mod@bench`] measures the simulator.
//! - [`page`] and [`pictures`] show results, [`parquet_table`] encodes them.

pub mod ablation;
pub mod bars;
pub mod bench;
pub mod fidelity;
pub mod page;
pub mod parquet_table;
pub mod pictures;
pub mod plan;
pub mod ranking;
pub mod results;
pub mod runner;
pub mod store;
pub mod sweep;
pub mod truth;
pub mod variants;
