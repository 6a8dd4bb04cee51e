//! Writing to a file by copy, and setting its length.

use super::File;
use super::read::pages_of;
use super::sync::note_written;
use crate::error::{Error, PAGES_MAX};
use crate::machine::Host;
use engine::{Engine, Task};
use machine::PAGE_BYTES;
use std::io;

impl File {
    /// Checks that the file may be changed through this handle; called before each change. Returns an error if the
    /// handle is read-only or the memory was shut down.
    pub(super) fn begin_change(&self) -> Result<(), Error> {
        self.shared.check_is_up()?;
        if !self.is_writable {
            return Err(Error::ReadOnly { path: self.opened().path.clone() });
        }
        Ok(())
    }

    /// Writes `bytes` from byte `offset` on, extends the file if necessary, and returns the number of bytes written,
    /// which is always `bytes.len()`. The bytes are durable after [`File::sync_data`].
    ///
    /// # Errors
    /// Nothing is written when the handle is read-only, the memory was shut down, the file would be larger than 16 TiB
    /// less 4 MiB, the file is a block device that ends before the last byte, or the system still refuses an earlier
    /// truncation ([`File::set_len`]).
    ///
    /// A part is written when memory is exhausted, when a page that is to be partially written cannot be read, or when
    /// memory holds many pages of the file that cannot be written to the disk ([`Error::Write`]). The bytes before the
    /// failing page are then written, and the file ends no earlier than these bytes.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(&path)?;
    /// assert_eq!(file.write_at(b"after a hole", 10_000)?, 12);
    /// assert_eq!(file.len(), 10_012);
    /// let mut hole = [1; 100];
    /// file.read_exact_at(&mut hole, 5000)?;
    /// assert_eq!(hole, [0; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Error> {
        self.begin_change()?;
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= PAGES_MAX * PAGE_BYTES as u64);
        if end.is_none() {
            return Err(Error::TooLong { bytes: offset.saturating_add(bytes.len() as u64) });
        }
        let cached = self.cached();
        note_written(cached.id, pages_of(offset, bytes.len()));
        let within = |engine: &Engine<Host>, task: &mut Task| engine.access().write_within(task, cached, offset, bytes);
        let done = match end.filter(|end| *end <= cached.length()) {
            Some(_) => self.with_task(within).map_err(|error| self.error(error))?,
            None => 0,
        };
        if done < bytes.len() {
            if !self.opened().is_regular {
                let source = io::Error::other("a block device is as long as it is");
                let path = self.opened().path.to_path_buf();
                return Err(Error::File { path, doing: "write after the end of the file", source });
            }
            // A recursive read does not queue behind a `set_len` that waits for the lock. Queueing could deadlock:
            // `set_len` waits for another reader of the lock, and that reader may wait for a page that this thread has
            // pinned.
            let open = self.opened();
            let _longer = open.length.read_recursive();
            open.finish_cut().map_err(|source| open.cannot_set_length(source))?;
            self.with_task(|engine, task| engine.access().write(task, cached, offset + done as u64, &bytes[done..]))
                .map_err(|error| self.error(error))?;
        }
        Ok(bytes.len())
    }

    /// Writes all of `bytes`, starting at byte `offset`.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.write_at(bytes, offset).map(|_| ())
    }

    /// Sets the length of the file to `bytes`, for this memory and in the system. Bytes after the new end are dropped;
    /// added bytes read as zeroes.
    ///
    /// # Errors
    /// When the page at the new end cannot be read, the handle is read-only, or the system refuses. The length is then
    /// as before, with one exception. If the system refuses to shorten the file, the handle has the new length, but the
    /// file in the system keeps the bytes after the new end. The truncation is tried again before the file becomes
    /// longer, so these bytes never become visible again.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(&path)?;
    /// file.write_all_at(b"cut here", 0)?;
    /// file.set_len(3)?;
    /// file.set_len(5)?;
    /// assert_eq!(std::fs::read(&path)?.len(), 5);
    /// let mut bytes = [1; 5];
    /// file.read_exact_at(&mut bytes, 0)?;
    /// assert_eq!(&bytes, b"cut\0\0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_len(&self, bytes: u64) -> Result<(), Error> {
        self.begin_change()?;
        if bytes > PAGES_MAX * PAGE_BYTES as u64 {
            return Err(Error::TooLong { bytes });
        }
        let (open, cached) = (self.opened(), self.cached());
        if !open.is_regular {
            return Err(open.cannot_set_length(io::Error::other("a block device is as long as it is")));
        }
        let _alone = open.length.write();
        let refused = |source| open.cannot_set_length(source);
        if bytes >= cached.length() {
            open.finish_cut().and_then(|()| open.device.set_len(bytes)).map_err(refused)?;
            cached.extend(bytes);
            return Ok(());
        }
        let access = self.shared.engine.access();
        let end = self
            .with_task(|engine, task| engine.access().hold_end(task, cached, bytes))
            .map_err(|error| self.error(error))?;
        // The system's file may be shorter than the new length, even if the new length is smaller, because dirty bytes
        // may not have reached the disk yet. Therefore the system's file is lengthened first: if the system does not
        // allow the length, it refuses here, before anything has changed.
        let is_set = open.device.lengthen(bytes).and_then(|()| {
            access.cut(cached, &end);
            // From here on, no task reads bytes after the new end from the disk, and no such byte is being written.
            open.cut_in_system()
        });
        // Only now may the page that contains the new end leave memory. Until the truncation, the disk still held the
        // old bytes after the new end, and reading the page again would have brought them back.
        access.release_end(cached, end);
        is_set.map_err(refused)
    }
}
