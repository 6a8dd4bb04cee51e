//! [`Stream`]: the requests of an input, in batches.

use super::options::Options;
use super::pieces::Pieces;
use super::sink::Sink;
use super::unpack;
use crate::formats::{self, Format};
use crate::hwtrace::{Metadata, layout};
use crate::names::Names;
use crate::request::{Kind, Request};
use kit::input::why;
use kit::wrong::Wrong;
use std::fmt;
use std::io::{BufRead, Cursor, Read as _};
use std::path::Path;

/// The way in which an input is divided into pieces, which a parser gets one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Lines of text.
    Lines,
    /// Records of `width` bytes each, which follow a head of `head` bytes.
    Records {
        /// Number of bytes before the first record.
        head: u64,
        /// Number of bytes of each record.
        width: usize,
    },
}

/// A reader of a format. It gets the pieces of the input (lines or records) one after the other.
pub trait Parser {
    /// Reads a piece (a line or record) of the input. Gives the sink the requests of this piece, and also requests of
    /// earlier pieces that are complete only now.
    ///
    /// # Errors
    /// When the piece is not understood. The error says what was expected. Reading goes on with the next piece.
    fn parse(&mut self, piece: &[u8], sink: &mut Sink) -> Result<(), String>;

    /// Called at the end of the input. Gives the sink the requests that were held back.
    fn end(&mut self, sink: &mut Sink) {
        let _ = sink;
    }
}

/// The first bytes of an input, from which its format is recognised.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The first bytes of the input, at most [`Start::BYTES`].
    pub bytes: &'a [u8],
    /// `true` if `bytes` is the whole input.
    pub is_all: bool,
}

impl<'a> Start<'a> {
    /// Largest number of bytes that are read from the start of an input to recognise the input's format.
    pub const BYTES: usize = 1 << 16;

    /// Returns the lines, other than empty ones, among the first bytes of the input. A last line that may be cut off is
    /// left out, unless it is the only one.
    pub fn lines(self) -> impl Iterator<Item = &'a [u8]> {
        let whole = if self.is_all {
            self.bytes.len()
        } else {
            // A single line that is longer than the start counts as it is.
            memchr::memrchr(b'\n', self.bytes).map_or(self.bytes.len(), |at| at + 1)
        };
        let text = &self.bytes[..whole];
        text.split(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.is_empty())
    }

    /// Returns whether the first bytes of the input look like text: they contain no control characters except those
    /// that occur in texts, such as tabs and line ends.
    #[must_use]
    pub fn is_text(self) -> bool {
        !self.bytes.iter().any(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31))
    }
}

/// A piece of the input (a line or a record) that was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unparsed {
    /// Number of the line or record, from 1.
    pub number: u64,
    /// Offset of the piece's first byte in the unpacked input.
    pub offset: u64,
    /// The piece's first bytes: text, or hexadecimal digits of a record.
    pub text: String,
    /// The content that was expected instead, in words.
    pub why: String,
}

/// Counts of what was read from an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of pieces (lines or records) that were read.
    pub pieces: u64,
    /// Number of pieces of the input (lines or records) that the parser did not understand.
    pub unparsed: u64,
    /// The first pieces that were not understood, at most [`Counts::SHOWN`].
    pub first: Vec<Unparsed>,
    /// Number of requests that were read.
    pub requests: u64,
    /// `true` if the pieces of the input are lines of text; `false` if they are binary records.
    pub are_lines: bool,
}

impl Counts {
    /// Largest number of pieces (lines or records) in `first`, which shows the user pieces that were not understood.
    pub const SHOWN: usize = 5;

    /// Returns `true` if more than 1 % of the input's pieces (lines or records) were not understood.
    #[must_use]
    pub const fn is_doubtful(&self) -> bool {
        self.unparsed * 100 > self.pieces
    }
}

/// Largest number of bytes that the names of an input may take together.
const NAMES_MAX: usize = 1 << 30;

/// The requests of an input, in batches. The memory that a stream needs does not grow with the input, except for names.
pub struct Stream {
    name: String,
    format: &'static Format,
    pieces: Pieces,
    parser: Box<dyn Parser>,
    sink: Sink,
    counts: Counts,
    is_over: bool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("name", &self.name).field("format", &self.format.name).finish_non_exhaustive()
    }
}

impl Stream {
    /// Number of requests at which a batch ends. A batch may have a few requests more, because a piece may hold
    /// several.
    const BATCH: usize = 4096;

    /// Opens a file, or standard input for `-`, to read its requests.
    ///
    /// # Errors
    /// When the input cannot be read, is empty, or no format is recognised.
    pub fn open(path: &Path, options: &Options) -> Result<Self, Wrong> {
        Self::of(unpack::open(path)?, &path.display().to_string(), options)
    }

    /// Opens `input` to read its requests. The bytes of `input` are not compressed. Errors name the input as `name`.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn of(mut input: Box<dyn BufRead>, name: &str, options: &Options) -> Result<Self, Wrong> {
        let wrong = |what: String| Wrong::of(name, what);
        let mut bytes = Vec::new();
        let most = Start::BYTES as u64;
        input.by_ref().take(most + 1).read_to_end(&mut bytes).map_err(|error| wrong(why(&error)))?;
        let start = Start { bytes: &bytes[..bytes.len().min(Start::BYTES)], is_all: bytes.len() <= Start::BYTES };
        if bytes.is_empty() {
            return Err(wrong("it is empty: expected a trace".to_owned()));
        }
        if bytes.starts_with(&layout::MAGIC) {
            return Err(wrong("it is a trace of this program already: it needs no reader".to_owned()));
        }
        let format = match &options.from {
            Some(from) => formats::by_name(from),
            None if !options.columns.0.is_empty() => formats::by_name("csv"),
            None => formats::recognise(start),
        };
        let format = format.map_err(wrong)?;
        let (shape, kind, parser) =
            (format.open)(start, options).map_err(|what| wrong(format!("{}: {what}", format.name)))?;
        let pieces =
            Pieces::new(Box::new(Cursor::new(bytes).chain(input)), shape).map_err(|error| wrong(why(&error)))?;
        let counts = Counts { are_lines: shape == Shape::Lines, ..Counts::default() };
        Ok(Self { name: name.to_owned(), format, pieces, parser, sink: Sink::new(kind), counts, is_over: false })
    }

    /// Returns the next batch of requests; none at the end of the input.
    ///
    /// # Errors
    /// When the input cannot be read further. The error names the byte of the unpacked input or the piece (line or
    /// record) at which reading failed.
    pub fn batch(&mut self) -> Result<Option<&[Request]>, Wrong> {
        self.sink.requests.clear();
        while !self.is_over && self.sink.requests.len() < Self::BATCH {
            let is_there = self.pieces.advance().map_err(|error| {
                Wrong::of(&self.name, format!("byte {} of the unpacked input: {}", self.pieces.offset(), why(&error)))
            })?;
            if !is_there {
                self.is_over = true;
                self.parser.end(&mut self.sink);
                break;
            }
            self.counts.pieces += 1;
            let parsed = if self.pieces.is_cut() {
                Err(self.cut())
            } else {
                self.parser.parse(self.pieces.piece(), &mut self.sink)
            };
            if let Err(why) = parsed {
                self.unparsed(why);
            }
            self.check_names()?;
        }
        self.counts.requests += self.sink.requests.len() as u64;
        Ok((!self.sink.requests.is_empty()).then_some(&self.sink.requests))
    }

    /// Refuses an input whose names of files and tasks would take too much memory. Nothing else in memory grows with an
    /// input.
    fn check_names(&self) -> Result<(), Wrong> {
        let Sink { files, tasks, .. } = &self.sink;
        if files.bytes() + tasks.bytes() <= NAMES_MAX && files.len() + tasks.len() <= Request::FILE_LIMIT as usize {
            return Ok(());
        }
        let what = format!(
            "{} {}: the names of files and tasks are too many: expected less than {} with {} MiB",
            if self.counts.are_lines { "line" } else { "record" },
            self.pieces.number(),
            Request::FILE_LIMIT,
            NAMES_MAX >> 20
        );
        Err(Wrong::of(&self.name, what))
    }

    fn cut(&self) -> String {
        if self.counts.are_lines {
            format!("a line of more than {} bytes", super::pieces::LINE_MAX)
        } else {
            format!("the input ends after {} bytes of this record", self.pieces.piece().len())
        }
    }

    fn unparsed(&mut self, why: String) {
        self.counts.unparsed += 1;
        if self.counts.first.len() < Counts::SHOWN {
            let text = shown(self.pieces.piece(), self.counts.are_lines);
            let (number, offset) = (self.pieces.number(), self.pieces.offset());
            self.counts.first.push(Unparsed { number, offset, text, why });
        }
    }

    /// Returns the format that is read.
    #[must_use]
    pub const fn format(&self) -> &'static Format {
        self.format
    }

    /// Returns the kind of the requests that were read: they address ranges of files, or objects.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.sink.kind()
    }

    /// Returns the counts of the pieces and requests that were read so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the names of all files that requests have used so far.
    #[must_use]
    pub const fn files(&self) -> &Names {
        &self.sink.files
    }

    /// Returns the names of all tasks that have made requests so far.
    #[must_use]
    pub const fn tasks(&self) -> &Names {
        &self.sink.tasks
    }

    /// Returns the metadata of the trace so far: the remarks of the parser, and the keys `source`, `format`, `start_us`
    /// and `unparsed`.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::new();
        metadata.insert("source".to_owned(), self.name.as_str().into());
        metadata.insert("format".to_owned(), self.format.name.into());
        if let Some(start_us) = self.sink.start_us() {
            metadata.insert("start_us".to_owned(), start_us.into());
        }
        metadata.insert("unparsed".to_owned(), self.counts.unparsed.into());
        metadata.extend(self.sink.metadata.clone());
        metadata
    }
}

/// Returns the first bytes of a piece as text for a message: a line as it is, a record as hexadecimal digits.
fn shown(piece: &[u8], is_line: bool) -> String {
    const MOST: usize = 120;
    let first = &piece[..piece.len().min(MOST)];
    let more = if piece.len() > MOST { "…" } else { "" };
    if is_line {
        return format!("{}{more}", kit::shown::harmless(&String::from_utf8_lossy(first)));
    }
    let digits: String = first.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}{more}")
}

/// For tests: reads all requests of the input that consists of `bytes`. Returns the requests, and the stream at its
/// end.
///
/// # Errors
/// When the input cannot be read.
#[cfg(test)]
pub(crate) fn stream_all(bytes: &[u8], options: &Options) -> Result<(Vec<Request>, Stream), Wrong> {
    let input = unpack::unpacked(Cursor::new(bytes.to_vec()))
        .map_err(|error: std::io::Error| Wrong::of("test", why(&error)))?;
    let mut stream = Stream::of(input, "test", options)?;
    let mut requests = Vec::new();
    while let Some(batch) = stream.batch()? {
        requests.extend_from_slice(batch);
    }
    Ok((requests, stream))
}
