//! The systems of the grounds: what a workload sees as [`workloads::system::System`] on each.

#[cfg(feature = "linux")]
pub mod host;
#[cfg(feature = "linux")]
pub mod linux;
pub mod sim;
#[cfg(feature = "linux")]
pub mod threads;
