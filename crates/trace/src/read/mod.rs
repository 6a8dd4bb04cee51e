//! Reading of traces in any format, as a stream: [`Stream`] gives the requests in batches, [`load`] makes a
//! [`Trace`](crate::Trace).
//!
//! *Flow*: [`unpack`] unpacks the input (gzip, zstd, xz), and [`Start`] has the first bytes of the input. By these
//! bytes, [`formats::recognise`](crate::formats::recognise) chooses a format. The [`Parser`] of the format gets one
//! piece of the input after the other (a line, or a record), and passes requests to a [`Sink`].

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
