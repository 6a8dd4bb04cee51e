//! A Linux kernel image in a virtual machine, with this program as its only process.
//!
//! Outside, a kernel [`image`] and its [`modules`], the [`program`] and its libraries become an [`archive`] that the kernel
//! unpacks at its start. [`disk`] makes files that are the machine's disks, and [`vm`] starts QEMU with all that. Inside,
//! [`inside`] is the first process: it loads the modules, moves to the disk, so that nothing of the archive stays in memory,
//! makes the settings, and starts a worker whose standard input and output are a virtual serial port. Outside, that port is
//! the standard input and output of QEMU.

pub mod archive;
pub mod disk;
pub mod image;
pub mod inside;
pub mod memory;
pub mod modules;
pub mod program;
pub mod vm;
pub mod zoneinfo;
