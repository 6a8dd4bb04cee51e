//! libCacheSim's "lcs", versions 1 to 8: a head of 8192 bytes, then records, little-endian and packed.
//!
//! The head begins and ends with a magic number; its bytes 8 to 15 are the version, and bytes 24 to 31 the number of
//! requests.
//!
//! | record of version | |
//! | --- | --- |
//! | 1 | as oracleGeneral: `u32` time in s, `u64` object, `u32` size, `i64` next request |
//! | 2 | `u32` time, `u64` object, `u32` size, `u8` operation, `u24` tenant, `i64` next request |
//! | 3 | `u32` time, `u64` object, `i64` size, `u8` operation, `u24` tenant, `u32` time to live, `i64` next request |
//! | 4 to 8 | as version 3, and 1, 2, 4, 8 or 16 features of 4 bytes |

use super::{Format, Opened};
use crate::operation::Operation;
use crate::read::{Options, Parser, Shape, Sink, Start};
use crate::request::{Kind, Request};

/// The format `lcs`: binary traces of libCacheSim.
pub static FORMAT: Format = Format {
    name: "lcs",
    about: "libCacheSim, versions 1 to 8",
    recognise: |start| start.bytes.starts_with(&MAGIC),
    open,
};

const MAGIC: [u8; 8] = 0x1234_5678_9abc_def0_u64.to_le_bytes();
const HEAD: usize = 8192;
/// Number of bytes of a record in each version of the format, from version 1 on.
const WIDTHS: [usize; 8] = [24, 28, 36, 40, 44, 52, 68, 100];

fn open(start: Start<'_>, _: &Options) -> Result<Opened, String> {
    let head = start
        .bytes
        .get(..HEAD)
        .ok_or_else(|| format!("byte {}: the input ends within its head of {HEAD} bytes", start.bytes.len()))?;
    if !head.starts_with(&MAGIC) || !head.ends_with(&MAGIC) {
        return Err(format!("byte {}: expected the magic number that ends the head", HEAD - 8));
    }
    let version = word(head, 8);
    let width = usize::try_from(version).ok().and_then(|version| WIDTHS.get(version.checked_sub(1)?));
    let width = *width.ok_or_else(|| format!("byte 8: version {version}: expected 1 to {}", WIDTHS.len()))?;
    Ok((Shape::Records { head: HEAD as u64, width }, Kind::Objects, Box::new(Lcs { version })))
}

struct Lcs {
    version: u64,
}

impl Parser for Lcs {
    fn parse(&mut self, record: &[u8], sink: &mut Sink) -> Result<(), String> {
        let time_us = u64::from(half(record, 0)) * 1_000_000;
        let (len, marks) = match self.version {
            1 => (u64::from(half(record, 12)), 0),
            2 => (u64::from(half(record, 12)), half(record, 16)),
            _ => (word(record, 12), half(record, 20)),
        };
        let (operation, tenant) = (operation_of(marks & 0xff)?, marks >> 8);
        sink.push(Request { time_us, task: tenant, operation, offset: word(record, 4), len, ..Request::default() })
    }
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("a record has these bytes"))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("a record has these bytes"))
}

/// Returns the operation that a number means in libCacheSim. The numbers for "no operation" and "invalid" count as a
/// read, because a trace with these numbers does not state operations.
fn operation_of(number: u32) -> Result<Operation, String> {
    match number {
        // nop, get, gets, read
        0 | 1 | 2 | 12 => Ok(Operation::Read),
        // set, add, cas, replace, append, prepend, incr, decr, write, update
        3..=8 | 10 | 11 | 13 | 14 => Ok(Operation::Write),
        9 => Ok(Operation::Delete),
        // "invalid": the trace has no operations.
        15 | 255 => Ok(Operation::Read),
        other => Err(format!("operation {other}: expected 0 to 15")),
    }
}
