//! The trait [`workloads::system::System`] implemented on the simulator, the library and this computer's kernel.

#[cfg(feature = "linux")]
pub mod host;
#[cfg(feature = "linux")]
pub mod linux;
pub mod sim;
#[cfg(feature = "linux")]
pub mod threads;
