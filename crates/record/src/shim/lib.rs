//! The library that `highwater trace record` loads into the recorded program by `LD_PRELOAD`. It replaces the functions
//! of libc that concern files and mappings. Each replacement passes its call on to libc unchanged, and records what the
//! call did in a ring of memory that it shares with the recorder.
//!
//! - [`wire`]: the layout of the ring, known to both sides; [`ring`]: its writer.
//! - [`hook`]: how a function is replaced.
//! - [`files`]: what the descriptors of the process are; [`io`], [`names`], [`stdio`]: the calls about them;
//!   [`paths`]: the folders that names are relative to.
//! - [`maps`]: mapped files; [`pages`]: each touch of their pages, on request.
//! - [`process`]: the start and end of processes; [`sys`] and [`real`]: system calls and functions of libc.
//!
//! Each replaced function keeps `errno` as libc left it, and allocates nothing. The library has no dependency: the
//! build script of the crate `highwater-record` calls the compiler directly.
#![allow(clippy::missing_safety_doc, reason = "the functions are those of libc")]

mod files;
mod hook;
mod io;
mod maps;
mod names;
mod pages;
mod paths;
mod process;
mod real;
mod ring;
mod stdio;
mod sys;
#[path = "../wire.rs"]
mod wire;
