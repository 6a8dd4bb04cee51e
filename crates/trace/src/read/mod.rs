//! Reading of traces in any format, as a stream: [`Stream`] gives the requests in batches, [`load`] makes a
//! [`Trace`](crate::Trace).
//!
//! The flow: [`unpack`] takes the input apart (gzip, zstd, xz), [`Start`] has its first bytes, by which
//! [`formats::recognise`](crate::formats::recognise) chooses a format, whose [`Parser`] gets one piece after the other
//! (a line, or a record) and gives requests to a [`Sink`].

mod load;
mod options;
mod pieces;
mod sink;
mod stream;
pub mod unpack;

pub use load::{Loaded, Opened, convert, is_own, load, open};
pub use options::{Column, Columns, Options, Role};
pub use pieces::{LINE_MAX, Pieces};
pub use sink::Sink;
#[cfg(test)]
pub(crate) use stream::stream_all;
pub use stream::{Counts, Parser, Shape, Start, Stream, Unparsed};
