//! The order of a file's writes and of the writes to the caller's log
//! ([`PageWrite::raise_log_number`](crate::PageWrite::raise_log_number)), and pages that are held
//! ([`PageWrite::hold`](crate::PageWrite::hold)).

use super::File;
use crate::error::Error;
use crate::log::{Log, until};
use std::time::Duration;

impl File {
    /// Sets the log to which the log numbers of the file's pages belong. Without it, the file has a log of its own, and
    /// [`File::note_log_durable`] says how far that is durable. The log stays the file's until its last handle is closed.
    ///
    /// # Errors
    /// When the file has another log: one that was set before, or its own, because a page has a log number or is held, or
    /// [`File::note_log_durable`] or [`File::wait_for_log_wanted`] was called. When the log belongs to another memory.
    pub fn set_log(&self, log: &Log) -> Result<(), Error> {
        if !log.is_of(&self.shared) {
            return Err(Error::WriteOrder("the log belongs to another memory"));
        }
        match self.engine.access().set_log(self.cached(), &log.engines) {
            true => Ok(()),
            false => Err(Error::WriteOrder("the file has another log already")),
        }
    }

    /// Releases page `page`, which [`PageWrite::hold`](crate::PageWrite::hold) holds, so that it may be written. Returns
    /// whether the page was held. Does not wait for the write, nor for guards of the page.
    pub fn release(&self, page: u64) -> bool {
        u32::try_from(page).is_ok_and(|page| self.engine.access().release_page(self.cached(), page))
    }

    /// Says that the file's log is durable up to the record `number`, as [`Log::note_durable`] does. The number is
    /// forgotten when the last handle of the file is closed, unless the log was set by [`File::set_log`].
    pub fn note_log_durable(&self, number: u64) {
        let access = self.engine.access();
        access.note_log_durable(&access.log_of(self.cached()), number);
    }

    /// Returns the number of the record up to which the file's log should become durable, as [`Log::wanted`] does.
    #[must_use]
    pub fn log_wanted(&self) -> Option<u64> {
        self.engine.access().log_wanted(&*self.cached().log()?)
    }

    /// Waits until the library puts off the write of a page for the file's log, as [`Log::wait_for_wanted`] does.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let tree = memory.create(folder.path().join("tree"))?;
    /// std::thread::scope(|scope| -> Result<(), highwater::Error> {
    ///     scope.spawn(|| {
    ///         if let Some(number) = tree.wait_for_log_wanted(Duration::from_secs(10)) {
    ///             // Here the log is written and synced up to the record `number`.
    ///             tree.note_log_durable(number);
    ///         }
    ///     });
    ///     tree.set_len(4096)?;
    ///     tree.page_mut(0)?.raise_log_number(7)?;
    ///     // The first sync finds that the log is behind, which wakes the other thread.
    ///     while tree.sync_data().is_err() {}
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn wait_for_log_wanted(&self, time: Duration) -> Option<u64> {
        let access = self.engine.access();
        access.wait_for_log_wanted(&access.log_of(self.cached()), until(self.engine.machine(), time))
    }
}
