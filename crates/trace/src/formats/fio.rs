//! Logs of fio (`write_iolog`), versions 2 and 3: a heading, then lines of the form `file action [offset length]`. In
//! version 3, each of these lines begins with a time in µs. In version 2, `wait` advances the time by its offset, µs.

use super::text::{fields, lossy, number};
use super::{Format, Opened};
use crate::operation::Operation;
use crate::read::{Options, Parser, Shape, Sink, Start};
use crate::request::{Kind, Request};

/// Version 2 of the format of fio's I/O logs.
pub static V2: Format = Format {
    name: "fio-2",
    about: "fio's write_iolog, version 2",
    recognise: |start| begins(start, b"fio version 2 iolog"),
    open: |_, _: &Options| Ok(opened(false)),
};

/// Version 3 of the format of fio's I/O logs.
pub static V3: Format = Format {
    name: "fio-3",
    about: "fio's write_iolog, version 3",
    recognise: |start| begins(start, b"fio version 3 iolog"),
    open: |_, _: &Options| Ok(opened(true)),
};

fn begins(start: Start<'_>, heading: &[u8]) -> bool {
    start.lines().next().is_some_and(|line| line.trim_ascii() == heading)
}

fn opened(has_times: bool) -> Opened {
    (Shape::Lines, Kind::Ranges, Box::new(Fio { has_times, now_us: 0 }))
}

struct Fio {
    has_times: bool,
    now_us: u64,
}

impl Parser for Fio {
    fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), String> {
        if line.trim_ascii().is_empty() || line.starts_with(b"fio version ") {
            return Ok(());
        }
        let mut fields = fields(line);
        if self.has_times {
            let time = fields.next().unwrap_or_default();
            self.now_us = number(time).ok_or_else(|| format!("`{}`: expected a time in µs", lossy(time)))?;
        }
        let (name, action) = fields.next().zip(fields.next()).ok_or("expected a file and an action")?;
        let operation = match action {
            b"add" => return Ok(()),
            b"wait" => None,
            b"open" => Some(Operation::Open),
            b"close" => Some(Operation::Close),
            b"read" => Some(Operation::Read),
            b"write" => Some(Operation::Write),
            b"sync" | b"datasync" | b"syncfs" => Some(Operation::Sync),
            b"trim" => Some(Operation::Punch),
            other => return Err(format!("`{}`: expected an action of fio, such as read", lossy(other))),
        };
        let (mut offset, mut len) = (0, 0);
        if !matches!(operation, Some(Operation::Open | Operation::Close)) {
            let range = fields.next().zip(fields.next()).and_then(|(one, other)| number(one).zip(number(other)));
            // A sync may have no range.
            (offset, len) = match (range, operation) {
                (Some(range), _) => range,
                (None, Some(Operation::Sync)) => (0, 0),
                (None, _) => return Err("expected an offset and a length after the action".to_owned()),
            };
        }
        let Some(operation) = operation else {
            self.now_us = self.now_us.saturating_add(offset).min(Request::TIME_LIMIT_US - 1);
            return Ok(());
        };
        if operation == Operation::Sync {
            (offset, len) = (0, 0);
        }
        let file = sink.files.intern(name);
        sink.push(Request { time_us: self.now_us, operation, file, offset, len, ..Request::default() })
    }
}
