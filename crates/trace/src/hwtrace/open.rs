//! [`Trace`]: a trace that is mapped, or lies in a buffer.

use super::Metadata;
use super::layout::{self, ENTRY, HEADER, RECORD, SECTIONS_MAX, TRAILER, u32_at, u64_at};
use super::writer::Writer;
use crate::names::Names;
use crate::request::{Kind, Request};
use kit::input::why;
use kit::wrong::Wrong;
use memmap2::Mmap;
use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;

/// A complete trace in the format `.hwtrace`. Several threads may read it at once.
#[derive(Debug)]
pub struct Trace {
    bytes: Bytes,
    kind: Kind,
    records: Range<usize>,
    files: Table,
    tasks: Table,
    metadata: Metadata,
}

/// The bytes of a trace: a mapped file, or memory of this program.
#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Held(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Held(bytes) => bytes,
        }
    }
}

/// The place of a table of names among the bytes of a trace.
#[derive(Clone, Copy, Debug, Default)]
struct Table {
    /// Byte offset, in the trace, of the numbers that state where each name begins and where the last name ends.
    at: usize,
    /// Number of names in the table.
    len: usize,
}

impl Trace {
    /// Maps a trace and checks it: that all sections lie within the file, that their checksums are right, and that
    /// every record is one that [`Writer`] writes. Reads the whole file once.
    ///
    /// The file must not be changed while it is mapped: a request may then have any values, and if the file is made
    /// shorter, the process is ended by a signal.
    ///
    /// # Errors
    /// When the file cannot be mapped, or is not a complete trace: with the offset of the fault.
    pub fn open(path: &Path) -> Result<Self, Wrong> {
        let trace = Self::open_quick(path)?;
        trace.check_records().map_err(|what| Wrong::of(&path.display().to_string(), what))?;
        Ok(trace)
    }

    /// Maps a trace as [`open`](Self::open) does, but reads and checks everything except the records. A damaged file
    /// may give requests with any values.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_quick(path: &Path) -> Result<Self, Wrong> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Wrong::of(&name, why(&error)))?;
        Self::map_quick(&file, &name)
    }

    /// Maps the trace in an open file, and checks the trace as [`open`](Self::open) does. Errors call the file `name`.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn map(file: &File, name: &str) -> Result<Self, Wrong> {
        let trace = Self::map_quick(file, name)?;
        trace.check_records().map_err(|what| Wrong::of(name, what))?;
        Ok(trace)
    }

    fn map_quick(file: &File, name: &str) -> Result<Self, Wrong> {
        let wrong = |what: String| Wrong::of(name, what);
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(wrong("it is not a regular file: a trace is mapped".to_owned()));
        }
        // SAFETY: the mapping is only read, by copies of plain numbers. If another process changes the file meanwhile,
        // the copies have other values, and every value is handled; the documentation of `open` says what happens to
        // a shortened file. No lock would prevent either.
        let map = unsafe { Mmap::map(file) }.map_err(|error| wrong(why(&error)))?;
        Self::check(Bytes::Mapped(map)).map_err(wrong)
    }

    /// Takes a trace that lies in memory. `name` stands for a file name in errors.
    ///
    /// # Errors
    /// When the bytes are not a complete trace.
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Self, Wrong> {
        let trace = Self::check(Bytes::Held(bytes)).map_err(|what| Wrong::of(name, what))?;
        trace.check_records().map_err(|what| Wrong::of(name, what))?;
        Ok(trace)
    }

    /// Makes a trace in memory, without names of files and tasks.
    ///
    /// # Errors
    /// When a request has a [fault](Request::fault). The error has the number of the request.
    pub fn from_requests(kind: Kind, requests: impl IntoIterator<Item = Request>) -> Result<Self, Wrong> {
        let mut writer = Writer::new(Vec::new(), kind).expect("a buffer takes all bytes");
        for request in requests {
            let number = writer.requests();
            writer.push(&request).map_err(|error| Wrong::of("requests", format!("request {number}: {error}")))?;
        }
        let finished = writer.finish(&Names::new(), &Names::new(), &Metadata::new());
        Self::from_bytes(finished.expect("a buffer takes all bytes"), "requests")
    }

    /// Returns all bytes of the trace, as they are in its file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns what the requests of the trace address: ranges of files, or objects.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the number of requests in the trace.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        (self.records.end - self.records.start) / RECORD
    }

    /// Returns `true` if there is no request.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the request with the number `number`, counted from 0; `None` if there is no such request.
    #[inline]
    #[must_use]
    pub fn get(&self, number: usize) -> Option<Request> {
        self.records().get(number).map(layout::decode)
    }

    /// Returns all requests, in order.
    #[inline]
    #[must_use]
    pub fn requests(&self) -> Requests<'_> {
        Requests(self.records().iter())
    }

    /// Returns the requests whose numbers lie in `numbers`. Numbers that the trace does not have are ignored.
    #[must_use]
    pub fn part(&self, numbers: Range<usize>) -> Requests<'_> {
        let end = numbers.end.min(self.len());
        Requests(self.records()[numbers.start.min(end)..end].iter())
    }

    /// Returns the name of the file with the number `number`; `None` if the trace has no name for it. A name may
    /// contain any bytes.
    #[must_use]
    pub fn file_name(&self, number: u32) -> Option<&[u8]> {
        name_in(&self.bytes, self.files, number as usize)
    }

    /// Returns the number of file names.
    #[must_use]
    pub const fn file_names(&self) -> usize {
        self.files.len
    }

    /// Returns the name of the task with the number `number`; `None` if the trace has no name for it.
    #[must_use]
    pub fn task_name(&self, number: u32) -> Option<&[u8]> {
        name_in(&self.bytes, self.tasks, number as usize)
    }

    /// Returns the number of task names.
    #[must_use]
    pub const fn task_names(&self) -> usize {
        self.tasks.len
    }

    /// Returns the trace's metadata, such as the source of the trace.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    #[inline]
    fn records(&self) -> &[[u8; RECORD]] {
        self.bytes[self.records.clone()].as_chunks().0
    }

    /// Opens the trace that `bytes` contain, and checks all of its sections except the records.
    fn check(bytes: Bytes) -> Result<Self, String> {
        let (kind, table_at, table) = check_ends(&bytes)?;
        let mut trace = Self {
            bytes: Bytes::Held(Vec::new()),
            kind,
            records: 0..0,
            files: Table::default(),
            tasks: Table::default(),
            metadata: Metadata::new(),
        };
        let mut found = Vec::new();
        for (n, entry) in table.as_chunks::<ENTRY>().0.iter().enumerate() {
            let here = table_at + n * ENTRY;
            let name = *entry.first_chunk::<4>().expect("an entry has 32 bytes");
            let section = section_of(entry, table_at).map_err(|what| format!("byte {here}: {what}"))?;
            if found.contains(&name) {
                return Err(format!("byte {here}: a second section {}", shown(name)));
            }
            found.push(name);
            if name == layout::RECORDS {
                if section.len() % RECORD != 0 {
                    return Err(format!("byte {here}: {} bytes of records: expected {RECORD} each", section.len()));
                }
                trace.records = section;
                continue;
            }
            let contents = &bytes[section.clone()];
            if crc32fast::hash(contents) != u32_at(entry, 24).unwrap_or(0) {
                return Err(format!("byte {}: wrong checksum of section {}", section.start, shown(name)));
            }
            let misplaced = |what: String| format!("byte {}: section {}: {what}", section.start, shown(name));
            match name {
                layout::FILES => trace.files = table_in(&bytes, &section).map_err(misplaced)?,
                layout::TASKS => trace.tasks = table_in(&bytes, &section).map_err(misplaced)?,
                layout::METADATA => {
                    trace.metadata = serde_json::from_slice(contents).map_err(|error| misplaced(error.to_string()))?;
                }
                _ => {}
            }
        }
        if !found.contains(&layout::RECORDS) {
            return Err(format!("byte {table_at}: no section {}", shown(layout::RECORDS)));
        }
        trace.bytes = bytes;
        Ok(trace)
    }

    /// Checks the checksum of the records, and then each record.
    fn check_records(&self) -> Result<(), String> {
        let contents = &self.bytes[self.records.clone()];
        let table_at = u64_at(&self.bytes, self.bytes.len() - TRAILER).unwrap_or(0) as usize;
        let table = &self.bytes[table_at..self.bytes.len() - TRAILER];
        let entry = table.as_chunks::<ENTRY>().0.iter().find(|entry| entry[..4] == layout::RECORDS);
        if entry.and_then(|entry| u32_at(entry, 24)) != Some(crc32fast::hash(contents)) {
            return Err(format!("byte {}: wrong checksum of section {}", self.records.start, shown(layout::RECORDS)));
        }
        for (number, request) in self.requests().enumerate() {
            if let Some(fault) = request.fault(self.kind) {
                let at = self.records.start + number * RECORD;
                return Err(format!("byte {at}: request {number}: {fault}"));
            }
        }
        Ok(())
    }
}

/// The requests of a trace, in order.
#[derive(Clone, Debug)]
pub struct Requests<'a>(std::slice::Iter<'a, [u8; RECORD]>);

impl Iterator for Requests<'_> {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        self.0.next().map(layout::decode)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Requests<'_> {}

/// Checks the header and the trailer of a trace. Returns what the requests address, the offset of the table of
/// sections, and the bytes of this table.
fn check_ends(bytes: &[u8]) -> Result<(Kind, usize, &[u8]), String> {
    if !bytes.starts_with(&layout::MAGIC) {
        return Err("byte 0: not a trace of this program: expected one that `trace convert` wrote".to_owned());
    }
    let len = bytes.len();
    let version = u32_at(bytes, 8).ok_or_else(|| format!("byte {len}: the file ends within its header"))?;
    if version != layout::VERSION {
        return Err(format!("byte 8: version {version} of the format: this program reads version {}", layout::VERSION));
    }
    if len < HEADER + TRAILER || !bytes.ends_with(&layout::END) {
        return Err(format!(
            "byte {len}: the file ends before its end mark: it was cut off, or not written to its end"
        ));
    }
    let kind = match bytes[12] {
        0 => Kind::Ranges,
        1 => Kind::Objects,
        other => return Err(format!("byte 12: kind {other}: expected 0 (ranges) or 1 (objects)")),
    };
    let trailer_at = len - TRAILER;
    let sections = u32_at(bytes, trailer_at + 8).unwrap_or(0) as usize;
    let table_at = u64_at(bytes, trailer_at).and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
    // At most 32 KiB, so nothing overflows.
    if sections > SECTIONS_MAX || table_at < HEADER || trailer_at.checked_sub(sections * ENTRY) != Some(table_at) {
        return Err(format!("byte {trailer_at}: {sections} sections from byte {table_at}: expected them to end here"));
    }
    let table = &bytes[table_at..trailer_at];
    let mut sum = crc32fast::Hasher::new();
    sum.update(&bytes[..HEADER]);
    sum.update(table);
    if u32_at(bytes, trailer_at + 12) != Some(sum.finalize()) {
        return Err(format!("byte {}: wrong checksum of the header and the table of sections", trailer_at + 12));
    }
    Ok((kind, table_at, table))
}

/// Returns the range of bytes of a section in the trace file. `entry` is the section's entry in the table of sections.
/// Fails if the section does not end before the table, which begins at byte `table_at`.
fn section_of(entry: &[u8; ENTRY], table_at: usize) -> Result<Range<usize>, String> {
    let (at, bytes) = (u64_at(entry, 8).unwrap_or(0), u64_at(entry, 16).unwrap_or(0));
    let end = at.checked_add(bytes).filter(|end| *end <= table_at as u64 && at >= HEADER as u64 && at % 8 == 0);
    let end = end.ok_or_else(|| format!("a section of {bytes} bytes from byte {at}: it is not within the file"))?;
    Ok(at as usize..end as usize)
}

/// Checks the table of names that a section of the trace consists of, and returns the place of the table.
fn table_in(bytes: &[u8], section: &Range<usize>) -> Result<Table, String> {
    let contents = &bytes[section.clone()];
    let count = u64_at(contents, 0).ok_or("it ends before the number of names")?;
    // The starts, and the end of the last name.
    let ends = usize::try_from(count).ok().and_then(|count| count.checked_add(1)?.checked_mul(8)?.checked_add(8));
    let names_at = ends.filter(|at| *at <= contents.len()).ok_or_else(|| format!("{count} names do not fit"))?;
    let names = contents.len() - names_at;
    let mut last = 0;
    for (n, end) in contents[8..names_at].as_chunks::<8>().0.iter().enumerate() {
        let end = u64::from_le_bytes(*end);
        if end < last || end > names as u64 || (n == 0 && end != 0) {
            return Err(format!("name {n} begins at byte {end} of {names}: expected at least {last}"));
        }
        last = end;
    }
    Ok(Table { at: section.start + 8, len: count as usize })
}

/// Returns the name with the number `number` of a table; `None` if the table has no such name. Also returns `None` if
/// the offsets in the table point outside of `bytes`, because a mapped file may have been changed since it was checked.
fn name_in(bytes: &[u8], table: Table, number: usize) -> Option<&[u8]> {
    if number >= table.len {
        return None;
    }
    let names_at = table.at + (table.len + 1) * 8;
    let place = |n: usize| Some(names_at.saturating_add(usize::try_from(u64_at(bytes, table.at + n * 8)?).ok()?));
    bytes.get(place(number)?..place(number + 1)?)
}

fn shown(name: [u8; 4]) -> String {
    name.escape_ascii().to_string()
}
