//! Text of ftrace (`trace-cmd report`, the file `trace` of tracefs, `perf script`) with the events of the page cache:
//!
//! | event | becomes |
//! | --- | --- |
//! | `mm_filemap_get_pages` | a read |
//! | `mm_filemap_fault` | a load of a page |
//! | `mm_filemap_map_pages` | a load of the first page that fault-around maps, unless a fault of the same task follows, which names the page |
//! | `ext4_da_write_begin`, `ext4_write_begin` | a write |
//! | `block_touch_buffer` | a read of a block device |
//! | `mm_filemap_add_to_page_cache` | nothing; it shows how long a file is |
//!
//! Other events are skipped. Files are named `major:minor inode`, the inode in hexadecimal.
//!
//! The kernel fetches the pages of one read in several steps, and each step is an event. The range of the event reaches
//! from the first page that is not fetched yet to the end of the whole read, which may lie past the end of the file.
//! Therefore a read is held back until its task does something else, at most 100 ms. Steps with the same end are merged
//! meanwhile. Then the range is cut at the end of the file ([`Ends`]).

use super::text::{SECOND, fields, hex, lossy, micros, number};
use super::{Format, Opened, most_lines};
use crate::operation::Operation;
use crate::read::{Options, Parser, Shape, Sink, Start};
use crate::request::{Kind, PAGE_BYTES, Request};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The format `ftrace`: the kernel's filemap events as text.
pub static FORMAT: Format = Format {
    name: "ftrace",
    about: "ftrace text of filemap events (trace-cmd report, tracefs, perf script)",
    recognise: |start| {
        let is_heading = start.lines().next().is_some_and(|line| line.starts_with(b"# tracer:"));
        start.is_text() && (is_heading || most_lines(start, |line| event(line).is_some()))
    },
    open: |_: Start<'_>, options: &Options| -> Result<Opened, String> {
        let parser = Ftrace { sizes: options.file_bytes.clone(), ..Ftrace::default() };
        Ok((Shape::Lines, Kind::Ranges, Box::new(parser)))
    },
};

/// Longest time, µs, for which the parser keeps a read back, so that later events can extend the read.
const HELD_US: u64 = 100_000;
/// Largest number of requests that the parser keeps back at a time. This limit bounds the use of memory if the times in
/// a trace do not advance, so that [`HELD_US`] never passes.
const HELD_MAX: usize = 1 << 16;

/// An event of the kernel, from one line of the input.
struct Event<'a> {
    task: &'a [u8],
    time_us: u64,
    name: &'a [u8],
    rest: &'a [u8],
}

/// Reads the event from a line such as
/// `less-901  [005] .....  72.532039: mm_filemap_get_pages: dev=253:3 ino=13f730 ofs=0-4095`. The command may have
/// blanks; the field of flags may be missing.
fn event(line: &[u8]) -> Option<Event<'_>> {
    let (open, close) = cpu_field(line)?;
    let task = line[..open].trim_ascii();
    // A number in parentheses is the process of the thread.
    let task = match task.iter().rposition(|byte| *byte == b'(') {
        Some(at) if at > 0 && task.ends_with(b")") => task[..at].trim_ascii(),
        _ => task,
    };
    let mut rest = line[close + 1..].trim_ascii();
    for _ in 0..2 {
        let end = rest.iter().position(u8::is_ascii_whitespace)?;
        let (first, after) = (&rest[..end], rest[end..].trim_ascii());
        rest = after;
        if let Some(time_us) = first.strip_suffix(b":").and_then(|time| micros(time, SECOND)) {
            let colon =
                rest.windows(2).position(|two| two == b": ").or(rest.ends_with(b":").then(|| rest.len() - 1))?;
            let name = &rest[..colon];
            // perf puts the subsystem before the event.
            let name = name.iter().position(|byte| *byte == b':').map_or(name, |at| &name[at + 1..]);
            let is_name = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
            return is_name.then_some(Event { task, time_us, name, rest: rest[colon + 1..].trim_ascii() });
        }
    }
    None
}

/// Returns where the field of the CPU, such as `[005]`, begins and ends.
fn cpu_field(line: &[u8]) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(open) = line[from..].iter().position(|byte| *byte == b'[').map(|at| from + at) {
        let digits = line[open + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let close = open + 1 + digits;
        if digits > 0 && line.get(close) == Some(&b']') {
            return Some((open, close));
        }
        from = open + 1;
    }
    None
}

/// Searches the fields of an event for `name=value` or `name value`, and returns the value.
fn value<'a>(rest: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut words = fields(rest);
    while let Some(word) = words.next() {
        if word == name {
            return words.next();
        }
        if let Some(value) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")) {
            return Some(value);
        }
    }
    None
}

/// Facts about the length of a file: its size if the user gave it, and the highest pages that events of the trace name.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    /// Size of the file, bytes, if the user gave it.
    size: Option<u64>,
    /// One more than the highest number of a page of this file that was added to the page cache; 0 if none was.
    added: u64,
    /// The highest number of a page of this file at which a read began.
    begun: u64,
}

impl Ends {
    /// Returns the number of pages of the file, if it is known. Readahead stops at the end of a file, so the last page
    /// that was ever added to the page cache is taken as the last of the file, unless a read began after it.
    const fn known(self) -> Option<u64> {
        match self.size {
            Some(bytes) => Some(bytes.div_ceil(PAGE_BYTES)),
            None if self.added > self.begun => Some(self.added),
            None => None,
        }
    }
}

/// A request that is not passed on yet, because a later event can still change this request or an earlier one.
struct Held {
    request: Request,
    is_open: bool,
}

/// A read that the next event of its task may continue.
#[derive(Clone, Copy)]
struct Open {
    /// Number of the request, counted from the first request of the input.
    number: u64,
    last_start: u64,
    end: u64,
}

#[derive(Default)]
struct Ftrace {
    sizes: BTreeMap<String, u64>,
    ends: HashMap<u32, Ends>,
    held: VecDeque<Held>,
    /// Number of requests that have left the list `held`.
    passed: u64,
    /// For each task, its last read, if the next events of the task may still extend this read.
    open: HashMap<u32, Open>,
    /// For each task, the number of the request for its last fault-around. A fault-around maps several pages, so a
    /// later event may correct the page in this request.
    around: HashMap<u32, u64>,
}

impl Parser for Ftrace {
    fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), String> {
        let trimmed = line.trim_ascii();
        // Headings, and the notes of buffers.
        if trimmed.is_empty()
            || trimmed.starts_with(b"#")
            || trimmed.starts_with(b"cpus=")
            || trimmed.starts_with(b"CPU")
        {
            return Ok(());
        }
        let event = event(line).ok_or_else(|| format!("`{}`: expected task, [CPU], time and event", lossy(trimmed)))?;
        match event.name {
            b"mm_filemap_get_pages"
            | b"mm_filemap_map_pages"
            | b"mm_filemap_fault"
            | b"mm_filemap_add_to_page_cache"
            | b"ext4_da_write_begin"
            | b"ext4_write_begin"
            | b"block_touch_buffer" => {}
            _ => return Ok(()),
        }
        let done = self.event(&event, sink);
        done.and(self.pass(event.time_us, sink))
    }

    fn end(&mut self, sink: &mut Sink) {
        let numbers: Vec<_> = self.open.drain().map(|(_, open)| open.number).collect();
        numbers.into_iter().for_each(|number| self.close(number, sink));
        let _ = self.pass(u64::MAX, sink);
    }
}

impl Ftrace {
    fn event(&mut self, event: &Event<'_>, sink: &mut Sink) -> Result<(), String> {
        let Event { time_us, name, rest, .. } = *event;
        let task = sink.tasks.intern(event.task);
        let base = Request { time_us, task, len: PAGE_BYTES, ..Request::default() };
        if name == b"block_touch_buffer" {
            return self.block(rest, base, sink);
        }
        let device = value(rest, b"dev").ok_or("expected dev")?;
        let inode = value(rest, b"ino").ok_or("expected ino")?;
        if name.ends_with(b"write_begin") {
            let inode = number(inode).ok_or_else(|| format!("`{}`: expected an inode", lossy(inode)))?;
            let file = self.file(device, inode, sink);
            return self.write(rest, Request { file, ..base }, sink);
        }
        let inode = hex(inode).ok_or_else(|| format!("`{}`: expected an inode", lossy(inode)))?;
        let file = self.file(device, inode, sink);
        let text = value(rest, b"ofs").ok_or("expected ofs")?;
        let mut parts = text.split(|byte| *byte == b'-');
        let start = parts.next().and_then(number).ok_or_else(|| format!("`{}`: expected an offset", lossy(text)))?;
        // Either the last byte, or in early versions the page behind the last.
        let end = match (parts.next(), value(rest, b"max_ofs")) {
            (Some(last), _) => number(last).and_then(|last| last.checked_add(1)),
            (None, Some(end)) => number(end),
            (None, None) => start.checked_add(PAGE_BYTES),
        };
        let end = end.filter(|end| *end >= start).ok_or_else(|| format!("`{}`: expected a range", lossy(text)))?;
        match name {
            b"mm_filemap_add_to_page_cache" => {
                let order = value(rest, b"order").and_then(number).unwrap_or(0).min(20);
                let ends = self.ends.entry(file).or_default();
                ends.added = ends.added.max((start / PAGE_BYTES).saturating_add(1 << order));
            }
            b"mm_filemap_get_pages" => self.read(Request { file, ..base }, start, end, sink),
            b"mm_filemap_fault" => {
                if let Some(number) = self.around.remove(&task)
                    && let Some(held) = self.held_mut(number)
                    && held.request.file == file
                {
                    // The fault names the page that fault-around did not find.
                    held.request.offset = start;
                } else {
                    self.add(Request { operation: Operation::Load, file, offset: start, ..base }, false, task, sink);
                }
            }
            _ => {
                sink.not_seen("which page of a fault-around was touched: the first is taken");
                let number =
                    self.add(Request { operation: Operation::Load, file, offset: start, ..base }, false, task, sink);
                self.around.insert(task, number);
            }
        }
        Ok(())
    }

    /// Adds a read of a block device, from the fields `rest` of the event that reports this read.
    fn block(&mut self, rest: &[u8], base: Request, sink: &mut Sink) -> Result<(), String> {
        let numbers = value(rest, b"sector").and_then(number).zip(value(rest, b"size").and_then(number));
        let (sector, size) = numbers.ok_or("expected device, sector= and size=")?;
        let device = String::from_utf8_lossy(fields(rest).next().unwrap_or_default()).replace(',', ":");
        let file = sink.files.intern(format!("{device} blocks").as_bytes());
        // The event counts in blocks of `size` bytes.
        let offset = sector.checked_mul(size).ok_or("a block beyond 2^64 bytes")?;
        self.add(Request { operation: Operation::Read, file, offset, len: size, ..base }, false, base.task, sink);
        Ok(())
    }

    /// Adds the write of a file that an event reports.
    fn write(&mut self, rest: &[u8], base: Request, sink: &mut Sink) -> Result<(), String> {
        let numbers = value(rest, b"pos").and_then(number).zip(value(rest, b"len").and_then(number));
        let (offset, len) = numbers.ok_or("expected pos and len")?;
        let ends = self.ends.entry(base.file).or_default();
        let end = offset.saturating_add(len);
        ends.added = ends.added.max(end.div_ceil(PAGE_BYTES));
        ends.size = ends.size.map(|size| size.max(end));
        self.add(Request { operation: Operation::Write, offset, len, ..base }, false, base.task, sink);
        Ok(())
    }

    /// Handles an event of a read from `start` to `end`: continues the task's last read if the event belongs to it, and
    /// otherwise begins a new one.
    fn read(&mut self, base: Request, start: u64, end: u64, sink: &mut Sink) {
        let ends = self.ends.entry(base.file).or_default();
        ends.begun = ends.begun.max(start / PAGE_BYTES);
        let open = self.open.get(&base.task).copied();
        if let Some(open) = open
            && open.end == end
            && start > open.last_start
            && self.held_mut(open.number).is_some_and(|held| held.request.file == base.file)
        {
            self.open.insert(base.task, Open { last_start: start, ..open });
            return;
        }
        let request = Request { operation: Operation::Read, offset: start, len: end - start, ..base };
        let number = self.add(request, true, base.task, sink);
        self.open.insert(base.task, Open { number, last_start: start, end });
    }

    /// Returns the number of the file with this device and inode in the sink's table of names. A new file is added.
    fn file(&mut self, device: &[u8], inode: u64, sink: &mut Sink) -> u32 {
        let device = String::from_utf8_lossy(device).replace(',', ":");
        let name = format!("{device} {inode:x}");
        let file = sink.files.intern(name.as_bytes());
        let size = self.sizes.get(&name).copied();
        self.ends.entry(file).or_insert(Ends { size, ..Ends::default() });
        file
    }

    /// Appends a request and returns its number. `is_open` states whether later events may extend the request. If the
    /// last read of `task` was still open, closes that read, because it is now complete.
    fn add(&mut self, request: Request, is_open: bool, task: u32, sink: &mut Sink) -> u64 {
        if let Some(open) = self.open.remove(&task) {
            self.close(open.number, sink);
        }
        self.around.remove(&task);
        self.held.push_back(Held { request, is_open });
        self.passed + self.held.len() as u64 - 1
    }

    fn held_mut(&mut self, number: u64) -> Option<&mut Held> {
        self.held.get_mut(usize::try_from(number.checked_sub(self.passed)?).ok()?)
    }

    /// Marks a read as complete: no later event extends it. If the length of the file is known, cuts off the part of
    /// the read that lies after the end of the file.
    fn close(&mut self, number: u64, sink: &mut Sink) {
        let ends = |file: u32| self.ends.get(&file).and_then(|ends| ends.known());
        let Some(held) = number.checked_sub(self.passed).and_then(|at| self.held.get_mut(at as usize)) else { return };
        held.is_open = false;
        let Request { file, offset, len, .. } = held.request;
        match ends(file) {
            Some(pages) => {
                let end = pages.max(offset / PAGE_BYTES + 1).saturating_mul(PAGE_BYTES);
                if offset.saturating_add(len) > end {
                    held.request.len = end - offset;
                    sink.count("ranges_cut_to_file");
                }
            }
            None if len > PAGE_BYTES => sink.count("ranges_of_unsure_end"),
            None => {}
        }
    }

    /// Passes held requests to `sink`, the oldest first. Stops before a read that later events may still extend. A read
    /// counts as complete once it is [`HELD_US`] old, or while more than [`HELD_MAX`] requests are held.
    fn pass(&mut self, now_us: u64, sink: &mut Sink) -> Result<(), String> {
        while let Some(Held { request, is_open }) = self.held.front() {
            if *is_open {
                if now_us.saturating_sub(request.time_us) < HELD_US && self.held.len() <= HELD_MAX {
                    break;
                }
                let (task, number) = (request.task, self.passed);
                self.open.remove(&task);
                self.close(number, sink);
            }
            // A fault-around that is passed on keeps its first page.
            let Some(Held { request, .. }) = self.held.pop_front() else { break };
            self.passed += 1;
            sink.push(request)?;
        }
        Ok(())
    }
}
