//! A handle as a value: closing, cloning, and what the system knows of the file.

use super::File;
use super::stream::FileStream;
use crate::error::Error;
use machine::PAGE_BYTES;
use parking_lot::Mutex;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::{fs, io};

impl File {
    /// Closes the handle. If it is the last handle of the file, and no owned guard is left, writes the file's dirty pages
    /// to the system, without a sync, and drops the file's pages from memory. Dropping the handle does the same, but then
    /// [`Memory::shutdown`](crate::Memory::shutdown) reports the errors.
    ///
    /// # Errors
    /// When a page could not be written since this handle last returned an error, or cannot be written now.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(&path)?;
    /// file.write_all_at(b"written back", 0)?;
    /// file.close()?;
    /// assert_eq!(std::fs::read(&path)?, b"written back");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(mut self) -> Result<(), Error> {
        let open = self.open.take().expect("taken only when the handle is dropped");
        let earlier = self.cached.write_error_since(&self.seen_failures, self.cached.begin_sync());
        open.told.fetch_max(self.seen_failures.load(Ordering::Acquire), Ordering::AcqRel);
        let path = open.path.clone();
        if let Some(error) = open.release(&self.shared) {
            return Err(error);
        }
        earlier.map_or(Ok(()), |failure| {
            Err(Error::Write { path, offset: u64::from(failure.page) * PAGE_BYTES as u64, source: failure.source })
        })
    }

    /// Returns the path under which the file was first opened in this memory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.opened().path
    }

    /// Returns what the system knows of the file (`fstat`). The length there may be smaller than [`File::len`], as long
    /// as bytes that were appended have not been written back.
    ///
    /// Since Linux 6.13, a write after this call makes the next sync write the file's time of change, too. Call it
    /// seldom.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn metadata(&self) -> Result<fs::Metadata, Error> {
        self.opened().device.file().metadata().map_err(|source| self.failed("examine the file", source))
    }

    /// Appends `bytes` at the end of the file, and returns the offset at which they lie. Threads that append at the same
    /// time, through any handle, get separate ranges. A thread that meanwhile writes after the end by other methods may
    /// overwrite the bytes.
    ///
    /// # Errors
    /// As [`File::write_at`]. A part of the bytes may have been appended.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let log = memory.create(folder.path().join("log"))?;
    /// assert_eq!((log.append(b"begin; ")?, log.append(b"commit")?), (0, 7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append(&self, bytes: &[u8]) -> Result<u64, Error> {
        self.begin_change()?;
        let _alone = self.opened().appending.lock();
        let offset = self.len();
        self.write_all_at(bytes, offset)?;
        Ok(offset)
    }

    /// Returns a reader and writer with a position, which begins at byte 0: [`Read`](io::Read), [`Write`](io::Write) and
    /// [`Seek`](io::Seek).
    ///
    /// ```
    /// use std::io::{Read, Seek, Write};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let mut stream = memory.create(folder.path().join("data"))?.into_stream();
    /// write!(stream, "{} bytes", 7)?;
    /// stream.rewind()?;
    /// let mut text = String::new();
    /// stream.read_to_string(&mut text)?;
    /// assert_eq!(text, "7 bytes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn into_stream(self) -> FileStream {
        FileStream::new(self)
    }

    /// Returns an error of the system about this file. `doing` is what failed.
    pub(super) fn failed(&self, doing: &'static str, source: io::Error) -> Error {
        Error::File { path: self.opened().path.to_path_buf(), doing, source }
    }
}

/// Makes another handle of the file, with its own readahead. Failed writes that this handle has not returned yet are
/// returned by both.
impl Clone for File {
    fn clone(&self) -> Self {
        Self {
            engine: self.engine.clone(),
            shared: self.shared.clone(),
            cached: self.cached.clone(),
            open: self.open.clone(),
            is_writable: self.is_writable,
            seen_failures: AtomicU32::new(self.seen_failures.load(Ordering::Acquire)),
            state: Mutex::new(self.state.lock().clone()),
            is_random: AtomicBool::new(self.is_random.load(Ordering::Relaxed)),
        }
    }
}

/// Gives access to the system's descriptor of the file, for example for `ioctl`. Reads and writes through it bypass the
/// pages in memory.
impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.opened().device.file().as_fd()
    }
}
