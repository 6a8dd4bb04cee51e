//! The work of reclaim in the running kernel over some time: `highwater stat`.
//!
//! [`snapshot`] reads the kernel's values at a moment. [`between`] makes rows from two snapshots, [`live`] a periodic
//! line. The rows of `/proc/vmstat` are those of MMTests, computed by the same code as for simulated kernels, so that a
//! saved report can be compared with them.
//!
//! Next: [`snapshot`].

pub mod between;
pub mod live;
pub mod snapshot;

pub use between::Interval;
pub use snapshot::Snapshot;
