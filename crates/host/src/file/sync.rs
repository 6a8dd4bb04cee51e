//! Making a file durable.

use super::File;
use crate::error::Error;
use machine::{IoError, PAGE_BYTES};
use std::io;
use std::sync::atomic::Ordering;

impl File {
    /// Writes everything that was written to the file, through whatever handle, and waits until it is durable.
    ///
    /// # Errors
    /// When a page could not be written since this handle was last told: the pages are still in memory and will be
    /// written again.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let log = memory.create(&path)?;
    /// log.write_all_at(b"begin; ", 0)?;
    /// log.write_all_at(b"commit", 7)?;
    /// log.sync_data()?;
    /// assert_eq!(std::fs::read(&path)?, b"begin; commit");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sync_data(&self) -> Result<(), Error> {
        self.sync("sync the data of the file", std::fs::File::sync_data)
    }

    /// As [`File::sync_data`], and what the system knows of the file is durable, too.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<(), Error> {
        self.sync("sync the file", std::fs::File::sync_all)
    }

    fn sync(&self, doing: &'static str, sync: impl Fn(&std::fs::File) -> io::Result<()>) -> Result<(), Error> {
        self.shared.check_is_up()?;
        let (open, cached) = (self.opened(), self.cached());
        let failed_before = cached.failed_writes();
        let written = self.shared.with_task(|engine, task| engine.fsync_since(task, cached, &self.seen_failures));
        let note_told = || open.told.fetch_max(self.seen_failures.load(Ordering::Acquire), Ordering::AcqRel);
        note_told();
        // While somebody makes the file longer there is nothing to be cut yet, and no use in waiting for it.
        let held = open.length.try_write().filter(|_| open.is_writable);
        let settled = held.map_or(Ok(()), |held| open.settle_len(&held));
        // One after the other: the system tells only one, and takes what it could not write for written. All must hear of it.
        let synced = {
            let _alone = open.syncs.lock();
            let synced = sync(open.device.file());
            if let Err(source) = &synced {
                let cause = source.raw_os_error().map_or(IoError::Device, IoError::Os);
                cached.note_write_error((cached.length() / PAGE_BYTES as u64) as u32, cause);
            }
            synced
        };
        let failed_meanwhile = cached.write_error_since(&self.seen_failures, failed_before);
        note_told();
        written.map_err(|error| self.error(error))?;
        synced.map_err(|source| Error::File { path: open.path.to_path_buf(), doing, source })?;
        settled?;
        match failed_meanwhile {
            Some(failure) => {
                let offset = u64::from(failure.page) * PAGE_BYTES as u64;
                Err(Error::Write { path: open.path.clone(), offset, source: failure.source })
            }
            None => Ok(()),
        }
    }
}
