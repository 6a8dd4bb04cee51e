//! libCacheSim's "oracleGeneral": records of 24 bytes, little-endian and packed: `u32` time in seconds, `u64` object,
//! `u32` size in bytes, `i64` number of the next request for the object (-1 or the largest number if there is none).

use super::{Format, Opened};
use crate::read::{Options, Parser, Shape, Sink, Start};
use crate::request::{Kind, Request};

/// The format `oracleGeneral` of libCacheSim.
pub static FORMAT: Format = Format {
    name: "oracleGeneral",
    about: "libCacheSim, with each object's next request",
    recognise,
    open: |_, _: &Options| -> Result<Opened, String> {
        Ok((Shape::Records { head: 0, width: WIDTH }, Kind::Objects, Box::new(Oracle)))
    },
};

const WIDTH: usize = 24;

/// The fields of a record of the format `oracleGeneral`.
pub(super) struct Fields {
    seconds: u64,
    object: u64,
    size: u64,
    next: i64,
}

/// Returns the fields of a record; `None` if `record` has fewer than 24 bytes. Byte 0 begins the time, byte 4 the
/// object's number, byte 12 its size, and byte 16 the number of its next request.
pub(super) fn fields(record: &[u8]) -> Option<Fields> {
    Some(Fields {
        seconds: u32::from_le_bytes(*record.first_chunk()?).into(),
        object: u64::from_le_bytes(*record.get(4..)?.first_chunk()?),
        size: u32::from_le_bytes(*record.get(12..)?.first_chunk()?).into(),
        next: i64::from_le_bytes(*record.get(16..)?.first_chunk()?),
    })
}

/// Returns whether the start of an input looks like this format, which has no magic number. The times of the records
/// must never decrease. The next request that a record names must be a later record, if any. At most half of the sizes
/// may be 0.
fn recognise(start: Start<'_>) -> bool {
    if start.is_text() || start.bytes.len() < WIDTH || (start.is_all && !start.bytes.len().is_multiple_of(WIDTH)) {
        return false;
    }
    let mut before = 0;
    let (mut last, mut zero_sizes, mut records) = (true, 0, 0);
    for (number, record) in start.bytes.chunks_exact(WIDTH).enumerate() {
        let Some(Fields { seconds, size, next, .. }) = fields(record) else { return false };
        last &= seconds >= before && (next == -1 || next > number as i64);
        before = seconds;
        zero_sizes += usize::from(size == 0);
        records += 1;
    }
    last && zero_sizes * 2 <= records
}

struct Oracle;

impl Parser for Oracle {
    fn parse(&mut self, record: &[u8], sink: &mut Sink) -> Result<(), String> {
        let Fields { seconds, object, size, next } = fields(record).ok_or("expected 24 bytes")?;
        if next < -1 {
            return Err(format!("next request {next}: expected a number, or -1 for none"));
        }
        sink.push(Request { time_us: seconds * 1_000_000, offset: object, len: size, ..Request::default() })
    }
}
