//! The work of reclaim in the running kernel in some time: `highwater stat`.
//!
//! [`snapshot`] reads what the kernel tells at a moment, [`between`] makes rows of two snapshots, [`live`] a line of them every so
//! often. The rows of `/proc/vmstat` are those of MMTests, computed by the same code as those of simulated kernels, so that a saved
//! report can be set beside them.
//!
//! Next: [`snapshot`].

pub mod between;
pub mod live;
pub mod snapshot;

pub use between::Interval;
pub use snapshot::Snapshot;
