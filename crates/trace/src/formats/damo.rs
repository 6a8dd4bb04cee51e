//! Text of `damo report raw` (`damo report access --raw_form`): the snapshots of a record of DAMON. The binary and JSON
//! files of `damo record` are not read, because their form depends on the version of `damo`. The text has the same form
//! in all versions.
//!
//! A region that was seen to be accessed in a snapshot becomes one load of the whole region at the end of the snapshot.
//! DAMON samples one page of each region, so the load is an upper bound of the memory that was touched. The trace has
//! one file for each target of DAMON, and the target's addresses are offsets in this file.

use super::text::{SECOND, fields, hex, lossy, micros, number};
use super::{Format, Opened};
use crate::operation::Operation;
use crate::read::{Options, Parser, Shape, Sink};
use crate::request::{Kind, Request};

/// The format `damo`: the text of `damo report raw`.
pub static FORMAT: Format = Format {
    name: "damo",
    about: "DAMON records, as `damo report raw` prints them",
    recognise: |start| {
        start.is_text()
            && start
                .lines()
                .take(5)
                .any(|line| line.starts_with(b"base_time_absolute:") || line.starts_with(b"monitoring_start:"))
    },
    open: |_, _: &Options| -> Result<Opened, String> {
        Ok((Shape::Lines, Kind::Ranges, Box::new(Damo { end_us: 0, file: None })))
    },
};

struct Damo {
    end_us: u64,
    file: Option<u32>,
}

impl Parser for Damo {
    fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), String> {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(());
        }
        if let Some(at) = line.iter().position(|byte| *byte == b':')
            && line[..at].iter().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b' '))
        {
            return self.heading(&line[..at], line[at + 1..].trim_ascii(), sink);
        }
        let (start, end, accesses) = region(line)
            .ok_or_else(|| format!("`{}`: expected start-end, size and number of accesses of a region", lossy(line)))?;
        let file = self.file.ok_or("a region before its `target_id`")?;
        if accesses == 0 {
            return Ok(());
        }
        if end - start >= Request::LEN_LIMIT || end > Request::END_LIMIT {
            return Err(format!("a region of {} bytes: expected less than {}", end - start, Request::LEN_LIMIT));
        }
        sink.not_seen("which pages of a region were accessed: all are taken");
        // One access reaches at most 4 GiB.
        for offset in (start..end).step_by(Request::ACCESS_MAX as usize) {
            let len = (end - offset).min(Request::ACCESS_MAX);
            let time_us = self.end_us;
            sink.push(Request { time_us, operation: Operation::Load, file, offset, len, ..Request::default() })?;
        }
        Ok(())
    }
}

impl Damo {
    fn heading(&mut self, name: &[u8], value: &[u8], sink: &mut Sink) -> Result<(), String> {
        match name {
            b"monitoring_end" => {
                self.end_us = duration(value).ok_or_else(|| format!("`{}`: expected a time", lossy(value)))?;
            }
            b"target_id" => self.file = Some(sink.files.intern(&[b"target ", value].concat())),
            b"base_time_absolute" | b"data source" | b"monitoring_start" | b"monitoring_duration" | b"nr_regions" => {}
            other => return Err(format!("`{}`: expected a heading of a snapshot", lossy(other))),
        }
        Ok(())
    }
}

/// Reads the start, the end and the number of accesses of a region of memory from a line such as
/// `563ebaa00000-563ebc99e000(  31.617 MiB):        1`, or
/// `563ebaa00000-563ebadf3000 (   3.949 MiB)           0    -1`.
fn region(line: &[u8]) -> Option<(u64, u64, u64)> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().position(|byte| *byte == b')')?;
    let (range, rest) = (line[..open].trim_ascii(), line.get(close + 1..)?);
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let (start, end) = (hex(&range[..dash])?, hex(&range[dash + 1..])?);
    let rest = rest.strip_prefix(b":").unwrap_or(rest);
    let accesses = number(fields(rest).next()?)?;
    (start < end).then_some((start, end, accesses))
}

/// Converts a duration to µs. The text is of the form `8 m 59.809 s`, `104.599 ms` or `0 ns`, or is a bare number of
/// ns.
fn duration(text: &[u8]) -> Option<u64> {
    let mut sum = 0_u64;
    let mut parts = fields(text).peekable();
    parts.peek()?;
    while let Some(value) = parts.next() {
        let unit = match parts.next() {
            Some(b"h") => 3600 * SECOND,
            Some(b"m") => 60 * SECOND,
            Some(b"s") => SECOND,
            Some(b"ms") => 1_000_000,
            Some(b"us") => 1000,
            Some(b"ns") | None => 1,
            Some(_) => return None,
        };
        // Thousands are separated.
        let digits: Vec<u8> = value.iter().copied().filter(|byte| *byte != b',').collect();
        sum = sum.checked_add(micros(&digits, unit)?)?;
    }
    Some(sum)
}
