//! The command `highwater stat`: figures of reclaim in the running kernel over a span of time.
//!
//! [`snapshot`] reads the kernel's values at a moment. [`between`] makes the rows of a report from two snapshots, and
//! [`groups`] makes the rows about cgroups. [`live`] prints a line of figures at each interval. The rows from
//! `/proc/vmstat` are those of MMTests, computed by the same code as for simulated kernels, so that saved reports of
//! both can be compared.
//!
//! Next: [`snapshot`].

pub mod between;
pub mod groups;
pub mod live;
pub mod snapshot;

pub use between::Interval;
pub use groups::Groups;
pub use snapshot::Snapshot;
