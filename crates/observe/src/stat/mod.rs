//! Figures of reclaim in the running kernel over a time: `highwater stat`.
//!
//! [`snapshot`] reads the kernel's values at a moment. [`between`] makes rows from two snapshots, [`groups`] rows of
//! cgroups, and [`live`] a line of figures at intervals. The rows from `/proc/vmstat` are those of MMTests, computed by
//! the same code as for simulated kernels, so that saved reports of both can be compared.
//!
//! Next: [`snapshot`].

pub mod between;
pub mod groups;
pub mod live;
pub mod snapshot;

pub use between::Interval;
pub use groups::Groups;
pub use snapshot::Snapshot;
