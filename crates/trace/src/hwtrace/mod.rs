//! The format `.hwtrace`: records of fixed width that are mapped and read in place, and written once, front to back.
//!
//! All numbers are little-endian. The file begins with a header of 64 bytes and ends with a trailer of 32 bytes, which
//! says where the table of sections is. A file that was not written to its end has no trailer and is refused.
//!
//! | bytes of the header | |
//! | --- | --- |
//! | 0..8 | [`layout::MAGIC`] |
//! | 8..12 | the version, 1 |
//! | 12 | what is addressed: 0 ranges, 1 objects |
//! | 13..64 | 0 |
//!
//! | section | contents |
//! | --- | --- |
//! | `RECS` | the records, 32 bytes each ([`layout::encode`]) |
//! | `NAME` | names of files, by number: their count (`u64`), the start of each and the end of the last (`u64`, counted from the first name), the names |
//! | `TASK` | names of tasks, in the same form |
//! | `META` | the [`Metadata`], a JSON object |
//!
//! A section begins at a multiple of 8 bytes. Sections with other names are skipped. The table has 32 bytes for each
//! section: name (4 bytes), 0 (`u32`), first byte (`u64`), length (`u64`), CRC-32 (`u32`), 0 (`u32`).
//!
//! | bytes of the trailer | |
//! | --- | --- |
//! | 0..8 | first byte of the table of sections |
//! | 8..12 | number of sections |
//! | 12..16 | CRC-32 of the header and the table |
//! | 16..24 | 0 |
//! | 24..32 | [`layout::END`] |

pub mod layout;
mod open;
mod writer;

pub use open::{Requests, Trace};
pub use writer::Writer;

/// The metadata of a trace: a JSON object that says where the trace comes from and what it lacks. Readers keep keys
/// that they do not know. This project writes these keys:
///
/// | key | value |
/// | --- | --- |
/// | `source` | text: the file or command that the trace was made from |
/// | `format` | text: the format that it was read from, such as `vscsi-1`, `recorded`, or `synth` |
/// | `start_us` | number: the source's own time of the first request, µs, which the trace counts from |
/// | `block_bytes` | number: size of the blocks of a block trace |
/// | `file_bytes` | object: size of a file at its first use, by the file's number as a text |
/// | `readahead_kib` | object or number: `read_ahead_kb` of the disks |
/// | `rss` | array of objects: samples of the recorded processes' memory, each with its time |
/// | `unparsed` | number: lines or records of the source that were not understood |
/// | `not_seen` | array of texts: what the source cannot tell |
pub type Metadata = serde_json::Map<String, serde_json::Value>;
