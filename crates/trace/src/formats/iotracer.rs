//! CSV of IO Tracer (eBPF), without a heading; a time of day comes first. Four of its files are read, told apart by
//! their columns:
//!
//! | file | columns |
//! | --- | --- |
//! | `fs` | time, operation, process, command, file, size, inode, flags, (in old versions: latency,) offset, thread, … |
//! | `ds` | time, process, command, sector, operation, size, latency, thread, CPU, parent, device, … |
//! | `cache` | time, process, command, event, inode, page, file's pages, CPU, device, pages |
//! | `pagefault` | time, process, thread, command, READ or WRITE, MAJOR or MINOR, inode, page, address, device |

use super::csv::Fields;
use super::text::{date_micros, lossy, number};
use super::{Format, Opened, most_lines};
use crate::operation::Operation;
use crate::read::{Options, Parser, Shape, Sink};
use crate::request::{Flags, Kind, PAGE_BYTES, Request};
use std::collections::HashMap;

/// The format `iotracer`: csv files of IO Tracer.
pub static FORMAT: Format = Format {
    name: "iotracer",
    about: "IO Tracer's csv: fs, ds, cache, pagefault",
    recognise: |start| {
        let mut fields = Fields::default();
        let fields = std::cell::RefCell::new(&mut fields);
        most_lines(start, |line| {
            fields.borrow_mut().split(line, b',');
            kind_of(&fields.borrow()).is_some()
        })
    },
    open: |_, _: &Options| -> Result<Opened, String> { Ok((Shape::Lines, Kind::Ranges, Box::<IoTracer>::default())) },
};

/// The kind of output file of IO Tracer. Each kind has its own columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Calls,
    Disk,
    Cache,
    Faults,
}

/// Returns the kind of IO Tracer's files to which a line belongs, as its fields show; none if the line fits no kind.
fn kind_of(fields: &Fields) -> Option<File> {
    let field = |at: usize| fields.get(at).unwrap_or_default();
    date_micros(field(0))?;
    let is_word = |text: &[u8], upper: bool| {
        let fits = |byte: &u8| if upper { byte.is_ascii_uppercase() } else { byte.is_ascii_lowercase() };
        !text.is_empty() && text.iter().all(|byte| fits(byte) || matches!(byte, b'_' | b'|'))
    };
    if is_word(field(1), true) && number(field(2)).is_some() && fields.len() >= 9 {
        return Some(File::Calls);
    }
    number(field(1))?;
    if let (b"READ" | b"WRITE", b"MAJOR" | b"MINOR") = (field(4), field(5)) {
        return Some(File::Faults);
    }
    if fields.len() >= 11 && number(field(3)).is_some() && is_word(field(4), false) {
        return Some(File::Disk);
    }
    (fields.len() >= 10 && is_word(field(3), true)).then_some(File::Cache)
}

#[derive(Default)]
struct IoTracer {
    fields: Fields,
    /// For the device and the inode of each file, the number of the file in the trace.
    files: HashMap<(u64, u64), u32>,
}

impl IoTracer {
    /// Returns the number of a file, which is known by its device and inode, or by its name if `inode` is 0. A new file
    /// gets the name `name`.
    fn file(&mut self, name: &[u8], device: u64, inode: u64, sink: &mut Sink) -> u32 {
        if inode == 0 {
            return sink.files.intern(name);
        }
        let new = || {
            if name.is_empty() {
                sink.files.push(format!("{device}:{inode}").as_bytes())
            } else {
                sink.files.push(name)
            }
        };
        *self.files.entry((device, inode)).or_insert_with(new)
    }
}

impl Parser for IoTracer {
    fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), String> {
        // Some versions write a heading.
        if line.trim_ascii().is_empty() || line.starts_with(b"timestamp,") {
            return Ok(());
        }
        self.fields.split(line, b',');
        let fields = std::mem::take(&mut self.fields);
        let done = self.event(&fields, sink);
        self.fields = fields;
        done
    }
}

impl IoTracer {
    fn event(&mut self, fields: &Fields, sink: &mut Sink) -> Result<(), String> {
        let file = kind_of(fields).ok_or("expected a line of the files fs, ds, cache or pagefault")?;
        let field = |at: usize| fields.get(at).unwrap_or_default();
        // Numbers that are 0 are left out.
        let value = |at: usize| match field(at) {
            b"" => Ok(0),
            text => number(text).ok_or_else(|| format!("column {}: `{}`: expected a number", at + 1, lossy(text))),
        };
        let time_us = date_micros(field(0)).ok_or("expected a time")?;
        let mut request = Request { time_us, ..Request::default() };
        let thread = match file {
            File::Calls => {
                let offset_at = if fields.len() == 11 { 9 } else { 8 };
                let Some((operation, flags)) = call_of(field(1)) else { return Ok(()) };
                (request.operation, request.flags) = (operation, flags);
                (request.offset, request.len) = (value(offset_at)?, value(5)?);
                match operation {
                    Operation::Truncate => (request.offset, request.len) = (request.len, 0),
                    Operation::Open | Operation::Close | Operation::Delete | Operation::Sync => {
                        (request.offset, request.len) = (0, 0);
                    }
                    _ => {}
                }
                request.file = self.file(field(4), 0, value(6)?, sink);
                offset_at + 1
            }
            File::Disk => {
                let word = field(4).split(|byte| *byte == b'|').next().unwrap_or_default();
                let Ok((operation, _)) = super::csv::operation_of(word) else { return Ok(()) };
                request.operation = operation;
                for (word, flag) in
                    [(&b"sync"[..], Flags::SYNC), (b"meta", Flags::METADATA), (b"ahead", Flags::READAHEAD)]
                {
                    if field(4).split(|byte| *byte == b'|').skip(1).any(|part| part == word) {
                        request.flags |= flag;
                    }
                }
                request.offset = value(3)?.checked_mul(512).ok_or("a sector beyond 2^64 bytes")?;
                request.len = value(5)?;
                request.file = sink.files.intern(field(10));
                7
            }
            File::Cache => {
                request.operation = match field(3) {
                    b"HIT" | b"MISS" => Operation::Read,
                    b"DIRTY" => Operation::Write,
                    _ => return Ok(()),
                };
                request.offset = value(5)?.checked_mul(PAGE_BYTES).ok_or("a page beyond 2^64 bytes")?;
                request.len = value(9)?.max(1).checked_mul(PAGE_BYTES).ok_or("more pages than 2^64 bytes")?;
                request.file = self.file(b"", value(8)?, value(4)?, sink);
                1
            }
            File::Faults => {
                request.operation = if field(4) == b"WRITE" { Operation::Store } else { Operation::Load };
                request.offset = value(7)?.checked_mul(PAGE_BYTES).ok_or("a page beyond 2^64 bytes")?;
                request.len = PAGE_BYTES;
                request.file = self.file(b"", value(9)?, value(6)?, sink);
                2
            }
        };
        let process = if file == File::Calls { field(2) } else { field(1) };
        request.task = sink.tasks.intern(if field(thread).is_empty() { process } else { field(thread) });
        sink.push(request)
    }
}

/// Returns the operation that the system call `name` does, with the operation's flags; `None` if the call does not
/// concern the contents of a file.
fn call_of(name: &[u8]) -> Option<(Operation, Flags)> {
    let operation = match name {
        b"READ" | b"DIO_READ" => Operation::Read,
        b"WRITE" | b"DIO_WRITE" => Operation::Write,
        b"OPEN" => Operation::Open,
        b"CLOSE" => Operation::Close,
        b"FSYNC" | b"FDATASYNC" => Operation::Sync,
        b"MMAP" => Operation::Map,
        b"TRUNCATE" => Operation::Truncate,
        b"UNLINK" => Operation::Delete,
        _ => return None,
    };
    let flags = if name.starts_with(b"DIO_") { Flags::DIRECT } else { Flags::NONE };
    Some((operation, flags))
}
