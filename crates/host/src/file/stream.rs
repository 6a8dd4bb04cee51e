//! A file as a stream of bytes with a position, and the traits of the standard library for files.

use super::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

/// A handle of a file with a position, for code that reads or writes by the traits [`Read`], [`Write`] and [`Seek`].
/// [`File::into_stream`] makes it. Nothing is buffered beside the pages in memory; `flush` does nothing, and
/// [`File::sync_data`] of [`FileStream::file`] makes data durable.
#[derive(Debug)]
pub struct FileStream {
    file: File,
    position: u64,
}

impl FileStream {
    pub(super) const fn new(file: File) -> Self {
        Self { file, position: 0 }
    }

    /// Returns the handle.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Returns the handle, and gives up the position.
    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }
}

impl Read for FileStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(bytes, self.position)?;
        self.position += n as u64;
        Ok(n)
    }
}

impl Write for FileStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write_at(bytes, self.position)?;
        self.position += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for FileStream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(from) => self.file.len().checked_add_signed(from),
            SeekFrom::Current(from) => self.position.checked_add_signed(from),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, format!("{to:?} is not a position in a file"));
        self.position = position.ok_or_else(outside)?;
        Ok(self.position)
    }
}

/// The methods of [`File`] under the standard library's trait, for code that is generic over it. Errors are
/// [`io::Error`]s, which have the library's [`Error`](crate::Error) as their source.
impl FileExt for File {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(Self::read_at(self, bytes, offset)?)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        Ok(Self::write_at(self, bytes, offset)?)
    }
}
