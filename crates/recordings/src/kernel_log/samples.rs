//! Kernel logs that tests in this and other crates use.

/// The OOM report of a whole computer, Linux 2.6.32.
pub const GLOBAL_2_6_32: &str = include_str!("samples/2.6.32-global.txt");

/// The OOM report of a cgroup of version 1, Linux 4.4.
pub const CGROUP_4_4: &str = include_str!("samples/4.4-cgroup.txt");

/// The report of a page allocation failure, Linux 5.10.
pub const FAILURE_5_10: &str = include_str!("samples/5.10-failure.txt");

/// The OOM report of a cgroup of version 2, Linux 5.15.
pub const CGROUP_5_15: &str = include_str!("samples/5.15-cgroup.txt");

/// The OOM report of a whole computer, Linux 6.1.
pub const GLOBAL_6_1: &str = include_str!("samples/6.1-global.txt");
