//! [`Log`]: the program's log, for which the pages of several files wait.

use crate::machine::Host;
use crate::shared::Shared;
use engine::page_cache::Log as EnginesLog;
use machine::{Machine, Nanos};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The program's log (write-ahead log), as far as a [`Memory`](crate::Memory) has to know it: up to which record it is
/// durable. The library neither reads nor writes it. No page whose log number is larger is written to its file
/// ([`PageWrite::raise_log_number`](crate::PageWrite::raise_log_number)).
///
/// One log may be that of many files ([`File::set_log`](crate::File::set_log)). A clone is a handle of the same log. Handles keep the memory
/// alive: the thread that writes the log drops its handle when it ends.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// let log = memory.log();
/// let [table, index] = ["table", "index"].map(|name| memory.create(folder.path().join(name)).unwrap());
/// for file in [&table, &index] {
///     file.set_log(&log)?;
///     file.set_len(4096)?;
/// }
/// table.page_mut(0)?.raise_log_number(7)?;
/// index.page_mut(0)?.raise_log_number(8)?;
/// assert!(table.sync_data().is_err() && index.sync_data().is_err());
/// assert_eq!(log.wanted(), Some(8));
/// // Here the log is written and synced up to the record 8.
/// log.note_durable(8);
/// table.sync_data()?;
/// index.sync_data()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
    pub(crate) engines: Arc<EnginesLog<Host>>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("wanted", &self.wanted()).finish_non_exhaustive()
    }
}

impl Log {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), engines: shared.engine.access().create_log() }
    }

    /// Returns whether the log belongs to the memory `shared`.
    pub(crate) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Says that the log is durable up to the record `number`. Before the first call, no page with a log number is written.
    /// Pages whose log numbers are not larger may be written from now on; the library begins at once to write those that it
    /// has put off. Smaller numbers than before have no effect. The time that this call takes grows with the number of
    /// files of which writes are put off, not with that of all files.
    pub fn note_durable(&self, number: u64) {
        self.shared.engine.access().note_log_durable(&self.engines, number);
    }

    /// Returns the number of the record up to which the log should become durable, because the library has put off writes
    /// of pages until then; `None` if it has put off none. The number may be larger than what the remaining pages need, if a
    /// page was cut off its file.
    #[must_use]
    pub fn wanted(&self) -> Option<u64> {
        self.shared.engine.access().log_wanted(&self.engines)
    }

    /// Waits until the library puts off the write of a page, but for `time` at most. Returns the same as [`Log::wanted`].
    /// Returns as soon as the memory is shut down. It is meant for the thread that writes the log: the library never calls
    /// the program back, and none of its threads waits for the log.
    #[must_use]
    pub fn wait_for_wanted(&self, time: Duration) -> Option<u64> {
        let engine = &self.shared.engine;
        engine.access().wait_for_log_wanted(&self.engines, until(engine.machine(), time))
    }
}

/// Returns the time of the machine's clock at which `time` will be over.
pub(crate) fn until(machine: &Host, time: Duration) -> Nanos {
    machine.now() + Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 2))
}
