//! Highwater: a page cache, and anonymous memory backed by a swap file, for applications.
//!
//! A database, a cache or a file server has more data than memory. [`Memory`] keeps the used part in memory, like
//! Linux, but for one program and inside its process. A hit takes no lock and makes no system call. Reads of disks
//! bypass the page cache of the system. Reclaim begins before a reader has to wait for it.
//!
//! * [`Memory::open`] and [`Memory::create`] return a [`File`]: [`File::read_at`], [`File::write_at`],
//!   [`File::sync_data`], and access to pages in place by [`File::page`] and [`File::page_mut`];
//! * [`File::page_async`], [`File::read_at_async`] and others are for async programs, with any executor;
//! * [`Memory::anonymous`] returns a [`Region`], which may be larger than the memory, with a swap file behind it;
//! * [`Memory::group`] returns a [`Group`] of files and regions with limits and protection, like a control group;
//! * [`Memory::vmstat`] returns counters under the names that they have in the Linux kernel.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("table.dat");
//! use highwater::Memory;
//!
//! let memory = Memory::builder().size(64 << 20).start()?;
//! let table = memory.create(&path)?;
//! table.set_len(1 << 20)?;
//! table.page_mut(42)?[..5].copy_from_slice(b"hello");
//! table.sync_data()?;
//! assert_eq!(&table.page(42)?[..5], b"hello");
//! println!("{}", memory.vmstat());
//! # Ok(())
//! # }
//! ```
//!
//! The simulator runs the same engine (`highwater-engine`). A kernel file selects the engine's policy: see
//! [`Builder::kernel`].
//!
//! Next: [`Memory`].

#![deny(unsafe_op_in_unsafe_fn)]
#![deny(unsafe_code)]

mod builder;
mod contiguous;
mod error;
mod file;
mod futures;
mod group;
mod kernel;
mod log;
#[doc(hidden)]
pub mod machine;
mod memory;
mod page;
mod page_owned;
mod receiver;
mod region;
mod shared;
mod size;
mod work;
mod wrap;

/// Compiles the code in README.md as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use ::machine::pressure::{Pressure, Stalls};
pub use ::machine::{IoError, Order};
pub use builder::Builder;
pub use contiguous::Contiguous;
pub use engine::lru::policy::multigen::command::CommandError as LruGenError;
pub use error::{Error, ErrorKind};
pub use file::{Advice, ChangeFuture, File, FileStream, OpenOptions, PageFuture, PageVersion, ReadFuture};
pub use group::{Group, GroupError};
pub use log::Log;
pub use machine::{Notice, SwapFileError};
pub use memory::{Memory, ShutdownError, Vmstat};
pub use page::{PageRead, PageWrite};
pub use page_owned::{OwnedPageRead, OwnedPageWrite};
pub use region::Region;
