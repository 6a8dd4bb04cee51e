//! Making a file durable. Threads that do so side by side share a commit round ([`super::rounds`]).

use super::{File, OpenFile};
use crate::error::Error;
use crate::machine::Durable;
use crate::shared::Shared;
use engine::page_cache::file::SyncStart;
use machine::{IoError, PAGE_BYTES};
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Largest number of pages in a thread's last write for which the thread writes these pages to disk by itself when it
/// syncs the file. It then joins a commit round, in which one sync serves several threads.
const OWN_PAGES_MAX: u32 = 8;

thread_local! {
    /// The file and the pages that this thread wrote last: the number of the file, the first page, and the page after
    /// the last.
    static LAST_WRITTEN: Cell<(u32, u32, u32)> = const { Cell::new((u32::MAX, 0, 0)) };
}

/// Notes that this thread has written pages of a file, because the thread may sync them soon.
#[inline]
pub(super) fn note_written(file: u32, pages: Range<u32>) {
    LAST_WRITTEN.set((file, pages.start, pages.end));
}

impl OpenFile {
    /// Writes the pages of this thread's last write to the disk, in parallel with other threads that sync the file.
    /// Does nothing if there are more than [`OWN_PAGES_MAX`] pages. Also does nothing if the file ends within the last
    /// of the pages: other threads that append write to that page, too, and [`Self::run_round`] writes it once for all
    /// of them.
    fn write_own_pages(&self, shared: &Shared) {
        let (file, start, end) = LAST_WRITTEN.replace((u32::MAX, 0, 0));
        if self.rounds.are_unused() {
            // The round writes these pages together with the others, in one request if there are no others.
            return;
        }
        let is_whole = u64::from(end) <= self.cached.length() / PAGE_BYTES as u64;
        if file == self.cached.id && is_whole && (1..=OWN_PAGES_MAX).contains(&end.saturating_sub(start)) {
            let _plug = shared.engine.machine().plug();
            shared.engine.access().write_few_pages(&self.cached, start..end);
        }
    }

    /// Writes all dirty pages and makes the system sync the file. Pages that cannot be written, and failures of the
    /// system, count as failed writes of the file and are reported to every handle.
    fn run_round(&self, shared: &Shared, wanted: Durable) -> io::Result<()> {
        {
            // All metadata of the file are more than a write can make durable.
            let syncs = (wanted == Durable::Data).then(|| self.device.id());
            let host = shared.engine.machine();
            let _plug = syncs.map_or_else(|| host.plug(), |device| host.plug_to_sync(device));
            shared.engine.access().write_dirty_pages(&self.cached);
        }
        self.sync_in_system(wanted)
    }

    /// Makes the system sync the file. A failure counts as a failed write of the file.
    pub(super) fn sync_in_system(&self, wanted: Durable) -> io::Result<()> {
        let synced = self.device.sync(wanted);
        if let Err(source) = &synced {
            let cause = source.raw_os_error().map_or(IoError::Device, IoError::Os);
            self.cached.note_write_error((self.cached.length() / PAGE_BYTES as u64) as u32, cause);
        }
        synced
    }

    /// Writes all dirty pages of the file and waits for the writes. Distant pages are written in parallel.
    pub(super) fn write_dirty_pages(&self, shared: &Shared) {
        let _plug = shared.engine.machine().plug();
        shared.engine.access().write_dirty_pages(&self.cached);
    }
}

impl File {
    /// Makes all data durable that were written to the file through any handle. Threads that call this at the same time
    /// share the work.
    ///
    /// # Errors
    /// When a page could not be written since this handle last got an error; the page stays in memory and will be
    /// written again. When a page must not be written before the log, with the kind
    /// [`ErrorKind::LogBehind`](crate::ErrorKind::LogBehind), or because the program holds it, with
    /// [`ErrorKind::Held`](crate::ErrorKind::Held). Also when the system could not make the file durable; the system has
    /// then given up the data that it had not written.
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
        self.sync("sync the data of the file", Durable::Data)
    }

    /// Makes all data and all metadata of the file durable.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<(), Error> {
        self.sync("sync the file", Durable::All)
    }

    fn sync(&self, doing: &'static str, wanted: Durable) -> Result<(), Error> {
        self.shared.check_is_up()?;
        let open = self.opened();
        let start = self.cached().begin_sync();
        open.write_own_pages(&self.shared);
        let synced = open.rounds.join(wanted, |wanted| open.run_round(&self.shared, wanted));
        // Every thread that waited for the round reports the round's failures, not only the thread that ran it.
        self.report_sync(doing, start, synced)
    }

    /// Returns the errors of a sync: failed writes of pages that this handle has not returned yet, and the failure of the
    /// system if this thread asked it to sync (`synced`). `start` is the state of the file's writes before the sync.
    pub(super) fn report_sync(
        &self,
        doing: &'static str,
        start: SyncStart,
        synced: Option<io::Result<()>>,
    ) -> Result<(), Error> {
        let (open, cached) = (self.opened(), self.cached());
        let failed = cached.write_error_since(&self.seen_failures, start);
        open.told.fetch_max(self.seen_failures.load(Ordering::Acquire), Ordering::AcqRel);
        if let Some(Err(source)) = synced {
            return Err(Error::File { path: open.path.to_path_buf(), doing, source });
        }
        failed.map_or(Ok(()), |failure| {
            let offset = u64::from(failure.page) * PAGE_BYTES as u64;
            Err(Error::Write { path: open.path.clone(), offset, source: failure.source })
        })
    }
}
