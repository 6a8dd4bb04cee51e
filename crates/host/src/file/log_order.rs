//! The order of a file's writes and of the writes to the caller's log
//! ([`PageWrite::raise_log_number`](crate::PageWrite::raise_log_number)).

use super::File;
use machine::{Machine, Nanos};
use std::time::Duration;

impl File {
    /// Says that the log is durable up to the record `number`. The number is forgotten when the last handle of the file is
    /// closed; before the first call, no page with a log number is written. Pages whose log numbers are not larger may be written from
    /// now on; the library begins at once to write those that it has put off. Smaller numbers than before have no effect.
    pub fn note_log_durable(&self, number: u64) {
        self.engine.access().note_log_durable(self.cached(), number);
    }

    /// Returns the number of the record up to which the log should become durable, because the library has put off writes
    /// of pages until then; `None` if it has put off none.
    #[must_use]
    pub fn log_wanted(&self) -> Option<u64> {
        self.engine.access().log_wanted(self.cached())
    }

    /// Waits until the library puts off the write of a page, but for `time` at most. Returns the same as
    /// [`File::log_wanted`]. Returns as soon as the memory is shut down. It is meant for the thread that writes the log: the library never calls the program back, and
    /// none of its threads waits for the log.
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
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 2);
        let end = self.engine.machine().now() + Nanos(nanos);
        self.engine.access().wait_for_log_wanted(self.cached(), end)
    }
}
