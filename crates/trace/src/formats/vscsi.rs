//! Traces of vscsiStats, of VMware virtual disks: records of 32 bytes (version 1) or 40 bytes (version 2),
//! little-endian.
//!
//! | | version 1 | version 2 |
//! | --- | --- | --- |
//! | 0 | `u32` serial number | `u16` command |
//! | 2 | | `u16` version |
//! | 4 | `u32` length, bytes | `u32` serial number |
//! | 8 | `u32` scatter-gather entries | `u32` length, bytes |
//! | 12 | `u16` command | `u32` scatter-gather entries |
//! | 14 | `u16` version | |
//! | 16 | `u64` block of 512 bytes | `u64` block of 512 bytes |
//! | 24 | `u64` time, µs | `u64` time, µs |
//! | 32 | | `u64` response time, µs |
//!
//! The upper byte of the version is 1 or 2.

use super::{Format, Opened};
use crate::operation::Operation;
use crate::read::{Options, Parser, Shape, Sink, Start};
use crate::request::{Kind, Request};

/// Version 1 of the format of vscsi traces.
pub static V1: Format = Format {
    name: "vscsi-1",
    about: "vscsiStats, version 1",
    recognise: |start| Layout::V1.recognise(start),
    open: |_, _: &Options| Ok(Layout::V1.open()),
};

/// Version 2 of the format of vscsi traces.
pub static V2: Format = Format {
    name: "vscsi-2",
    about: "vscsiStats, version 2",
    recognise: |start| Layout::V2.recognise(start),
    open: |_, _: &Options| Ok(Layout::V2.open()),
};

/// Size of a block of the disk, bytes.
const BLOCK: u64 = 512;

/// Offsets of the fields in a record, bytes, and the record's width.
#[derive(Clone, Copy, Debug)]
struct Layout {
    number: u8,
    width: usize,
    command: usize,
    version: usize,
    len: usize,
}

impl Layout {
    const V1: Self = Self { number: 1, width: 32, command: 12, version: 14, len: 4 };
    const V2: Self = Self { number: 2, width: 40, command: 0, version: 2, len: 8 };

    /// Returns whether an input is in this layout: each of its first records must have the layout's version and a known
    /// command.
    fn recognise(self, start: Start<'_>) -> bool {
        const RECORDS: usize = 16;
        let mut records = start.bytes.chunks_exact(self.width).take(RECORDS).peekable();
        records.peek().is_some()
            && records.all(|record| self.is_right(record) && operation_of(self.command_of(record)).is_ok())
    }

    fn is_right(self, record: &[u8]) -> bool {
        record[self.version + 1] == self.number
    }

    fn command_of(self, record: &[u8]) -> u64 {
        u64::from(u16::from_le_bytes([record[self.command], record[self.command + 1]]))
    }

    fn open(self) -> Opened {
        (Shape::Records { head: 0, width: self.width }, Kind::Ranges, Box::new(self))
    }
}

impl Parser for Layout {
    fn parse(&mut self, record: &[u8], sink: &mut Sink) -> Result<(), String> {
        if !self.is_right(record) {
            let version = record[self.version + 1];
            return Err(format!("a record of version {version}: expected version {}", self.number));
        }
        let operation = operation_of(self.command_of(record))?;
        let word = |at: usize| u64::from_le_bytes(*record[at..].first_chunk().expect("a record has these bytes"));
        let offset = word(16).checked_mul(BLOCK).ok_or("a block beyond 2^64 bytes")?;
        let len = word(self.len) & u64::from(u32::MAX);
        sink.push(Request { time_us: word(24), operation, offset, len, ..Request::default() })?;
        if sink.files.is_empty() {
            sink.files.push(b"disk");
            sink.metadata.insert("block_bytes".to_owned(), BLOCK.into());
        }
        Ok(())
    }
}

/// Returns the operation of a SCSI command. Known are READ and WRITE with 6, 10, 12 and 16 bytes, SYNCHRONIZE CACHE,
/// and UNMAP.
///
/// # Errors
/// For all other commands.
pub fn operation_of(command: u64) -> Result<Operation, String> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Ok(Operation::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Ok(Operation::Write),
        0x35 | 0x91 => Ok(Operation::Sync),
        0x42 => Ok(Operation::Punch),
        other => Err(format!("SCSI command {other:#x}: expected one that reads or writes")),
    }
}
