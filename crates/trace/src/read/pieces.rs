//! [`Pieces`]: an input in lines, or in records of fixed width.

use super::stream::Shape;
use std::io::{self, BufRead};

/// Largest length of a line, bytes. Only the start of a longer line is kept, and the line counts as not understood.
pub const LINE_MAX: usize = 1 << 20;

/// An input that is read piece by piece (a line or a record at a time). Only the present piece is in memory.
pub struct Pieces {
    input: Box<dyn BufRead>,
    shape: Shape,
    piece: Vec<u8>,
    /// Number of pieces (lines or records) that were read so far.
    count: u64,
    /// Number of bytes of the input before the present piece.
    at: u64,
    /// Number of bytes of the input that were read so far.
    end: u64,
    is_cut: bool,
}

impl Pieces {
    /// Begins to read an input piece by piece. If the pieces are records, skips the head before them.
    ///
    /// # Errors
    /// When the head cannot be read, or the input ends within it.
    pub fn new(mut input: Box<dyn BufRead>, shape: Shape) -> io::Result<Self> {
        let mut end = 0;
        if let Shape::Records { head, .. } = shape {
            end = io::copy(&mut io::Read::take(&mut input, head), &mut io::sink())?;
        }
        Ok(Self { input, shape, piece: Vec::new(), count: 0, at: end, end, is_cut: false })
    }

    /// Reads the next piece: a line without its end, or a record. Returns `false` at the end of the input.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub fn advance(&mut self) -> io::Result<bool> {
        self.piece.clear();
        self.at = self.end;
        self.is_cut = false;
        let is_there = match self.shape {
            Shape::Lines => self.line()?,
            Shape::Records { width, .. } => self.record(width)?,
        };
        self.count += u64::from(is_there);
        Ok(is_there)
    }

    fn line(&mut self) -> io::Result<bool> {
        loop {
            let buffer = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            if buffer.is_empty() {
                return Ok(self.end > self.at);
            }
            let end = memchr::memchr(b'\n', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let room = LINE_MAX - self.piece.len();
            self.is_cut |= part.len() > room;
            self.piece.extend_from_slice(&part[..part.len().min(room)]);
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            self.end += used as u64;
            if end.is_some() {
                if self.piece.last() == Some(&b'\r') {
                    self.piece.pop();
                }
                return Ok(true);
            }
        }
    }

    fn record(&mut self, width: usize) -> io::Result<bool> {
        let read = io::Read::read_to_end(&mut io::Read::take(&mut self.input, width as u64), &mut self.piece)?;
        self.end += read as u64;
        self.is_cut = read < width;
        Ok(read > 0)
    }

    /// Returns the current piece, which [`Pieces::advance`] has read last.
    #[inline]
    #[must_use]
    pub fn piece(&self) -> &[u8] {
        &self.piece
    }

    /// Returns the number of the piece that was read last, from 1.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.count
    }

    /// Returns the offset of the piece that was read last: the position of its first byte in the unpacked input.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.at
    }

    /// Returns `true` if the piece is not complete: the piece is a line longer than [`LINE_MAX`], or a record before
    /// whose end the input ends.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }
}
