//! MSR Cambridge traces: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, without a heading. Times are
//! Windows' FILETIME, in units of 100 ns; offset and size are bytes.

use super::text::{lossy, micros, number};
use super::{Format, Opened, most_lines};
use crate::operation::Operation;
use crate::read::{Options, Parser, Shape, Sink};
use crate::request::{Kind, Request};

/// The format `msr`: block traces of MSR Cambridge.
pub static FORMAT: Format = Format {
    name: "msr",
    about: "MSR Cambridge block traces (SNIA)",
    recognise: |start| most_lines(start, |line| parts(line).is_some_and(|parts| operation_of(parts[3]).is_some())),
    open: |_, _: &Options| -> Result<Opened, String> { Ok((Shape::Lines, Kind::Ranges, Box::new(Msr))) },
};

fn parts(line: &[u8]) -> Option<[&[u8]; 7]> {
    let mut parts = [&b""[..]; 7];
    let mut found = line.split(|byte| *byte == b',');
    for part in &mut parts {
        *part = found.next()?.trim_ascii();
    }
    found.next().is_none().then_some(parts)
}

struct Msr;

impl Parser for Msr {
    fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), String> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let [time, host, disk, operation, offset, size, _] = parts(line).ok_or("expected seven columns")?;
        // Ten units of a FILETIME are 1 µs.
        let time_us = micros(time, 100).ok_or_else(|| format!("`{}`: expected a time in 100 ns", lossy(time)))?;
        let operation =
            operation_of(operation).ok_or_else(|| format!("`{}`: expected Read or Write", lossy(operation)))?;
        let (offset, len) =
            number(offset).zip(number(size)).ok_or("columns 5 and 6: expected offset and size, bytes")?;
        let file = sink.files.intern(&[host, b".", disk].concat());
        sink.push(Request { time_us, operation, file, offset, len, ..Request::default() })
    }
}

fn operation_of(name: &[u8]) -> Option<Operation> {
    match name.to_ascii_lowercase().as_slice() {
        b"read" => Some(Operation::Read),
        b"write" => Some(Operation::Write),
        _ => None,
    }
}
