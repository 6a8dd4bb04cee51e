//! Studies: many runs, and what they say together.
//!
//! [`plan`] makes a job of each kernel and seed, [`runner`] runs them side by side, [`bars`] shows how far they are; [`store`] keeps
//! what simulated runs found, [`sweep`] runs a grid of them over it, [`results`] reads it. [`ablation`] says what each difference
//! between two kernels does to a figure, [`variants`] the like of values, [`ranking`] how all kernels stand, [`fidelity`] how far
//! simulated figures are from published ones, [`mod@bench`] how fast the simulator is. [`page`] and [`pictures`] show it.

pub mod ablation;
pub mod bars;
pub mod bench;
pub mod fidelity;
pub mod page;
pub mod pictures;
pub mod plan;
pub mod ranking;
pub mod results;
pub mod runner;
pub mod store;
pub mod sweep;
pub mod variants;
