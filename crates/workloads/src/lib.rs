//! The workloads, a module for each, and the interface that they use.
//!
//! A [`workload::Workload`] uses only a [`system::System`] and knows no ground. The crate `grounds` runs each workload
//! on the systems of its grounds. [`choose`], which is a module of the simulator, draws random places in files and
//! memory. [`extent`] predicts the extent of a run.

pub mod anon;
pub mod big_file;
pub mod build;
pub mod compile;
pub mod controller;
pub mod cpu_rows;
pub mod exhaust;
pub mod exits;
pub mod extent;
pub mod grow;
pub mod highalloc;
pub mod hopeless;
pub mod hotset;
pub mod livelock;
pub mod many;
pub mod meter;
pub mod multibuild;
pub mod parallelio;
mod pass;
pub mod ping;
pub mod pods;
pub mod postmark;
pub mod random;
pub mod randread;
pub mod randread_async;
pub mod randwrite;
pub mod replay;
pub mod scan;
pub mod simon;
pub mod streaming;
pub mod system;
pub mod tasks;
pub mod thp;
pub mod workload;

pub use sim::choose;
