//! The bytes of `.hwtrace`: constants, and the encoding of a record.

use crate::operation::Operation;
use crate::request::{Flags, Kind, Request};

/// The first bytes of a file. A transfer of the file as text would change the first byte or the line ends, so a reader
/// detects the damage.
pub const MAGIC: [u8; 8] = *b"\x89HWT\r\n\x1a\n";
/// The last bytes of every complete file in the format `.hwtrace`.
pub const END: [u8; 8] = *b"HWT\x1aend\n";
/// The version of the format `.hwtrace`. Only this version is written and read.
pub const VERSION: u32 = 1;
/// Length of the header, bytes. It is a multiple of [`RECORD`], so that the records are aligned when the file is
/// mapped.
pub const HEADER: usize = 64;
/// Length of the trailer, bytes.
pub const TRAILER: usize = 32;
/// Length of a record, bytes.
pub const RECORD: usize = 32;
/// Length of an entry of the table of sections, bytes.
pub const ENTRY: usize = 32;
/// Largest number of sections of a trace file.
pub const SECTIONS_MAX: usize = 1024;

/// Name of the section of records.
pub const RECORDS: [u8; 4] = *b"RECS";
/// Name of the section of file names.
pub const FILES: [u8; 4] = *b"NAME";
/// Name of the section of task names.
pub const TASKS: [u8; 4] = *b"TASK";
/// Name of the section of metadata.
pub const METADATA: [u8; 4] = *b"META";

/// Returns the header of a trace.
#[must_use]
pub fn header(kind: Kind) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12] = (kind == Kind::Objects).into();
    header
}

/// Returns the record of a request: four words of 64 bits.
///
/// | word | bits |
/// | --- | --- |
/// | 0 | 0..48 time, 48..56 operation, 56..64 flags |
/// | 1 | offset, or key |
/// | 2 | 0..32 file, 32..64 handle |
/// | 3 | 0..40 length, 40..64 task |
///
/// The request must be within the limits of [`Request::fault`]; what exceeds its bits is cut off.
#[inline]
#[must_use]
pub const fn encode(request: &Request) -> [u8; RECORD] {
    let Request { time_us, task, operation, flags, file, handle, offset, len } = *request;
    let words = [
        time_us & (Request::TIME_LIMIT_US - 1) | (operation as u64) << 48 | (flags.0 as u64) << 56,
        offset,
        file as u64 | (handle as u64) << 32,
        len & (Request::LEN_LIMIT - 1) | (task as u64) << 40,
    ];
    let mut record = [0; RECORD];
    let mut at = 0;
    while at < RECORD {
        record[at] = words[at / 8].to_le_bytes()[at % 8];
        at += 1;
    }
    record
}

/// Decodes a record to its request. Every sequence of 32 bytes gives a request.
#[inline]
#[must_use]
pub fn decode(record: &[u8; RECORD]) -> Request {
    let (words, _) = record.as_chunks::<8>();
    let word = |n: usize| u64::from_le_bytes(words[n]);
    Request {
        time_us: word(0) & (Request::TIME_LIMIT_US - 1),
        task: (word(3) >> 40) as u32,
        operation: Operation::of_code((word(0) >> 48) as u8),
        flags: Flags((word(0) >> 56) as u8),
        file: word(2) as u32,
        handle: (word(2) >> 32) as u32,
        offset: word(1),
        len: word(3) & (Request::LEN_LIMIT - 1),
    }
}

/// Returns the number in the four bytes of `bytes` from byte `at` on; `None` if they are not all there.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Returns the number in the eight bytes of `bytes` from byte `at` on; `None` if they are not all there.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
