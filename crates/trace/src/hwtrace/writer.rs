//! [`Writer`]: writes a trace front to back.

use super::Metadata;
use super::layout::{self, ENTRY, RECORD};
use crate::names::Names;
use crate::request::{Kind, Request};
use crc32fast::Hasher;
use std::io::{self, BufWriter, Write};

/// Writes a trace from beginning to end to a file, a pipe or a buffer. Keeps no request in memory.
///
/// Readers refuse a trace that was not [finished](Self::finish).
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: BufWriter<W>,
    kind: Kind,
    requests: u64,
    /// Number of bytes written so far.
    at: u64,
    records: Hasher,
    entries: Vec<[u8; ENTRY]>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace by writing its header to `out`. `kind` says what the requests of the trace address.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn new(out: W, kind: Kind) -> io::Result<Self> {
        let mut writer = Self {
            out: BufWriter::with_capacity(1 << 18, out),
            kind,
            requests: 0,
            at: 0,
            records: Hasher::new(),
            entries: Vec::new(),
        };
        writer.write(&layout::header(kind))?;
        Ok(writer)
    }

    /// Appends a request.
    ///
    /// # Errors
    /// When the request has a [fault](Request::fault) (of the kind [`InvalidInput`](io::ErrorKind::InvalidInput);
    /// nothing was written then, and the trace can go on), or when it cannot be written.
    #[inline]
    pub fn push(&mut self, request: &Request) -> io::Result<()> {
        if let Some(fault) = request.fault(self.kind) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, fault));
        }
        let record = layout::encode(request);
        self.records.update(&record);
        self.requests += 1;
        self.write(&record)
    }

    /// Returns the number of requests that were written so far.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the kind of the trace: its requests are for ranges of bytes, or for objects.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Ends the trace: writes the names of files and tasks, in the order of their numbers, and the metadata. Files or
    /// tasks whose numbers are beyond the end of their table have no name.
    ///
    /// # Errors
    /// When something cannot be written.
    pub fn finish(mut self, files: &Names, tasks: &Names, metadata: &Metadata) -> io::Result<W> {
        let records = std::mem::take(&mut self.records).finalize();
        let bytes = self.requests * RECORD as u64;
        self.entry(layout::RECORDS, self.at - bytes, bytes, records);
        self.section(layout::FILES, &table_of(files))?;
        self.section(layout::TASKS, &table_of(tasks))?;
        self.section(layout::METADATA, &serde_json::to_vec(metadata)?)?;
        let table_at = self.at;
        let table = std::mem::take(&mut self.entries).concat();
        let mut sum = Hasher::new();
        sum.update(&layout::header(self.kind));
        sum.update(&table);
        self.write(&table)?;
        self.write(&table_at.to_le_bytes())?;
        self.write(&((table.len() / ENTRY) as u32).to_le_bytes())?;
        self.write(&sum.finalize().to_le_bytes())?;
        self.write(&[0; 8])?;
        self.write(&layout::END)?;
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }

    fn section(&mut self, name: [u8; 4], contents: &[u8]) -> io::Result<()> {
        self.entry(name, self.at, contents.len() as u64, crc32fast::hash(contents));
        self.write(contents)?;
        let past = (self.at % 8) as usize;
        if past == 0 { Ok(()) } else { self.write(&[0; 8][past..]) }
    }

    fn entry(&mut self, name: [u8; 4], at: u64, bytes: u64, sum: u32) {
        let mut entry = [0; ENTRY];
        entry[..4].copy_from_slice(&name);
        entry[8..16].copy_from_slice(&at.to_le_bytes());
        entry[16..24].copy_from_slice(&bytes.to_le_bytes());
        entry[24..28].copy_from_slice(&sum.to_le_bytes());
        self.entries.push(entry);
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

/// Encodes a table of names as the contents of a section.
fn table_of(names: &Names) -> Vec<u8> {
    let mut section = Vec::new();
    section.extend((names.len() as u64).to_le_bytes());
    let mut end = 0_u64;
    section.extend(end.to_le_bytes());
    for name in names.iter() {
        end += name.len() as u64;
        section.extend(end.to_le_bytes());
    }
    names.iter().for_each(|name| section.extend(name));
    section
}
