//! Descriptions of computers as machine files: of this computer (`highwater machine here`, `highwater calibrate`), and
//! of another from pasted texts (`highwater machine from`, [`told`]).
//!
//! [`read`] takes zones, nodes, CPUs, swap, the disk that holds a folder, and sysctls from `/proc` and `/sys`,
//! and [`groups`] the memory control groups.
//! [`measure`] measures the cost of steps and the speed of the disk. [`text`] writes the values and measurements as a
//! machine file over the base [`BASE`], each value with its source. [`load`] reports what other processes used during
//! the measurement. [`nearest`] names the kernel file nearest to the running kernel.
//!
//! Next: [`read`].

pub mod groups;
pub mod load;
pub mod measure;
pub mod nearest;
pub mod read;
pub mod text;
pub mod told;
mod turns;

pub use read::Computer;

/// Name of the machine file that supplies the values which are neither known for this computer nor measured.
pub const BASE: &str = "randread-512m";
