//! This computer as a machine file: `highwater machine here` and `highwater calibrate`; and another one by what was pasted of it,
//! `highwater machine from` ([`told`]).
//!
//! [`read`] takes from `/proc` and `/sys` what they tell: zones, nodes, CPUs, swap, the disk under a folder, sysctls. [`measure`]
//! measures what they do not: what steps cost, and how fast the disk is. [`text`] writes both as a machine file, over the base
//! [`BASE`], each value with where it comes from;
//! [`load`] says how busy others kept the CPUs meanwhile; and [`nearest`] names the kernel file that is nearest to the running kernel.
//!
//! Next: [`read`].

pub mod load;
pub mod measure;
pub mod nearest;
pub mod read;
pub mod text;
pub mod told;
mod turns;

pub use read::Computer;

/// The machine whose values stand for what is neither told nor measured.
pub const BASE: &str = "randread-512m";
