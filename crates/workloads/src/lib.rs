//! The workloads, a module for each, and what they are written against.
//!
//! A [`workload::Workload`] sees a [`system::System`] alone, and knows no ground. Places in files and memory come from [`choose`];
//! [`extent`] says how much a run would take. Nothing here is instantiated: the crate `grounds` does that.

pub mod anon;
pub mod big_file;
pub mod build;
pub mod choose;
pub mod cpu_rows;
pub mod exhaust;
pub mod extent;
pub mod highalloc;
pub mod livelock;
pub mod meter;
pub mod multibuild;
pub mod parallelio;
pub mod ping;
pub mod postmark;
pub mod random;
pub mod randread;
pub mod randread_async;
pub mod randwrite;
pub mod scan;
pub mod simon;
pub mod streaming;
pub mod system;
pub mod thp;
pub mod workload;
