//! The implementations of [`workloads::system::System`] on each ground.

#[cfg(feature = "linux")]
pub mod host;
#[cfg(feature = "linux")]
pub mod linux;
pub mod sim;
#[cfg(feature = "linux")]
pub mod threads;
