//! Traces: what programs did to files, block devices and cached objects, as a sequence of [`Request`]s.
//!
//! - [`Request`] has an [`Operation`], a time, a task, and a range of a file or an object; a range is split into pages
//!   by [`Request::page_keys`].
//! - [`hwtrace`] is the format of this project: [`Writer`] writes it, [`Trace`] maps it.
//! - [`load`] makes a [`Trace`] of a file in any of the [`formats`]; [`Stream`] reads one in batches.
//! - [`Info`] describes a trace; [`Synth`] makes one from patterns and a seed.

pub mod formats;
pub mod hwtrace;
pub mod info;
pub mod names;
pub mod operation;
pub mod read;
pub mod request;
pub mod synth;

pub use hwtrace::{Metadata, Trace, Writer};
pub use info::Info;
pub use kit::wrong::Wrong;
pub use names::Names;
pub use operation::Operation;
pub use read::{Loaded, Options, Stream, load};
pub use request::{Flags, Kind, PAGE_BYTES, Request, page_key, page_of_key};
pub use synth::{Pattern, Synth};
