//! Text of blkparse in its default format:
//! `8,0  3  1  0.000000000  697  Q  WS 223490 + 8 [kjournald]`: device, CPU, number, time, process, action, kind, first
//! sector, number of sectors, command.
//!
//! The output has a line for each action of a request. Only the lines of one action are read: Q (queued) if the start
//! of the input has it, or else D (issued), or else C (complete). The summary at the end is skipped.

use super::text::{SECOND, first_fields, lossy, micros, number};
use super::{Format, Opened, most_lines};
use crate::operation::Operation;
use crate::read::{Options, Parser, Shape, Sink, Start};
use crate::request::{Flags, Kind, Request};

/// The format `blkparse`: block requests as blkparse prints them.
pub static FORMAT: Format = Format {
    name: "blkparse",
    about: "blktrace, as blkparse prints it",
    recognise: |start| most_lines(start, is_line),
    open,
};

/// Size of a sector, bytes.
const SECTOR: u64 = 512;

/// Returns `true` if a line has the form of an event, so that an input of such lines is recognised as text of blkparse.
fn is_line(line: &[u8]) -> bool {
    let ([device, cpu, _, time, _, action], count) = first_fields(line);
    count == 6
        && is_device(device)
        && number(cpu).is_some()
        && micros(time, SECOND).is_some()
        && action.len() <= 2
        && action.iter().all(u8::is_ascii_alphabetic)
}

fn is_device(text: &[u8]) -> bool {
    let mut parts = text.split(|byte| *byte == b',');
    let is_number = |part: Option<&[u8]>| part.and_then(number).is_some();
    is_number(parts.next()) && is_number(parts.next()) && parts.next().is_none()
}

fn open(start: Start<'_>, _: &Options) -> Result<Opened, String> {
    let has = |action: &[u8]| start.lines().any(|line| is_line(line) && first_fields::<6>(line).0[5] == action);
    let action = [b'Q', b'D', b'C'].into_iter().find(|action| has(&[*action])).unwrap_or(b'Q');
    Ok((Shape::Lines, Kind::Ranges, Box::new(Blkparse { action, is_summary: false })))
}

struct Blkparse {
    action: u8,
    /// `true` once the first line of the summary at the end of the output has been read.
    is_summary: bool,
}

impl Parser for Blkparse {
    fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), String> {
        if self.is_summary || line.trim_ascii().is_empty() {
            return Ok(());
        }
        if line.starts_with(b"CPU") || line.starts_with(b"Total") || line.starts_with(b"Throughput") {
            self.is_summary = true;
            return Ok(());
        }
        if !is_line(line) {
            return Err(format!("`{}`: expected device, CPU, number, time, process, action", lossy(line)));
        }
        let ([device, _, _, time, process, action, kind, sector, plus, sectors], count) = first_fields(line);
        if action != [self.action] {
            return Ok(());
        }
        let (mut operation, flags) = operation_of(kind)
            .ok_or_else(|| format!("`{}`: expected a kind of request, such as R or WS", lossy(kind)))?;
        let range = if count == 10 && plus == b"+" { number(sector).zip(number(sectors)) } else { None };
        let (sector, sectors) = match (range, operation) {
            (Some(range), _) => range,
            // A flush has no range; before a write that has no data, it is named with the write.
            (None, Operation::Sync) => (0, 0),
            (None, Operation::Write) if kind.starts_with(b"F") => {
                operation = Operation::Sync;
                (0, 0)
            }
            (None, _) => return Err("expected first sector, `+`, number of sectors".to_owned()),
        };
        let time_us = micros(time, SECOND).ok_or("expected a time in s")?;
        let offset = sector.checked_mul(SECTOR).ok_or("a sector beyond 2^64 bytes")?;
        let len = sectors.checked_mul(SECTOR).ok_or("more sectors than 2^64 bytes")?;
        let (file, task) = (sink.files.intern(device), sink.tasks.intern(process));
        sink.push(Request { time_us, task, operation, flags, file, offset, len, ..Request::default() })
    }
}

/// Returns what the letters of a block request mean: R read, W write, D discard, F flush or (after W) force unit access,
/// N none; then S synchronous, M metadata, A readahead.
pub(super) fn operation_of(letters: &[u8]) -> Option<(Operation, Flags)> {
    if letters.is_empty() || letters.len() > 8 || !letters.iter().all(|letter| b"RWDEFNSMAPB".contains(letter)) {
        return None;
    }
    let operation = if letters.contains(&b'R') {
        Operation::Read
    } else if letters.contains(&b'W') {
        Operation::Write
    } else if letters.contains(&b'D') || letters.contains(&b'E') {
        Operation::Punch
    } else if letters.contains(&b'F') || letters.contains(&b'N') {
        Operation::Sync
    } else {
        return None;
    };
    let mut flags = Flags::NONE;
    for (letter, flag) in [(b'S', Flags::SYNC), (b'M', Flags::METADATA), (b'A', Flags::READAHEAD)] {
        if letters.contains(&letter) {
            flags |= flag;
        }
    }
    Some((operation, flags))
}
