//! Runs a Linux kernel image in a virtual machine (guest). A copy of this program is the guest's only program.
//!
//! Outside of the guest, the [`modules`] of a kernel [`image`] and the [`program`] with its libraries are packed into
//! an [`archive`], which the kernel unpacks at its start. [`disk`] makes the files that are the machine's disks, and
//! [`vm`] starts QEMU with all of these. In the guest, [`inside`] is the first process. It loads the modules, and moves
//! to the disk so that nothing of the archive stays in memory. Then it makes the settings, and starts a worker, which
//! runs the workload. The worker's standard input and output are a virtual serial port. Outside of the guest, this port
//! is the standard input and output of QEMU.

pub mod archive;
pub mod disk;
pub mod image;
pub mod inside;
pub mod memory;
pub mod modules;
pub mod program;
pub mod vm;
pub mod zoneinfo;
