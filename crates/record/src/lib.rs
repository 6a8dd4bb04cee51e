//! Records what a running program does to files and memory, as a trace in the format `.hwtrace`.
//!
//! There are two means of recording. The *shim* is a library that the loader puts into the program (`LD_PRELOAD`); any
//! user may use it. *tracefs* is the kernel's tracing, for root. Both give requests of the crate `trace`. The program's
//! memory is sampled meanwhile. docs/record.md says what each means costs and what it cannot see.
//!
//! - [`session`] runs the command and writes the record; [`answer`] describes the result in words.
//! - `shim/` is the library itself, a crate of its own that the build script compiles; `ring` is the memory that the
//!   shim and the recorder share; `follow` converts the shim's events in this memory to requests.
//! - `tracefs` is the other means. [`memory`] and [`working_set`] look at memory.
//! - [`elf`] says whether the shim can be loaded into a program; [`hash`] hides names.
#![cfg(target_os = "linux")]

pub mod answer;
pub mod elf;
pub mod files;
pub mod follow;
pub mod hash;
pub mod memory;
mod metadata;
mod options;
mod ring;
pub mod session;
mod shim;
mod source;
pub mod tasks;
mod tracefs;
#[allow(dead_code, reason = "the shim uses what the recorder does not")]
mod wire;
pub mod working_set;

pub use options::{Means, Options, Target};
pub use session::{Error, Recorded, record};
