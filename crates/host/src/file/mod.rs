//! Files whose pages the memory caches. Reads and writes of the disk bypass the page cache of the system.
//!
//! [`OpenOptions`] opens a file, once for all its handles (`open_file`, found by `table`); a [`File`] is one of these
//! handles. The operations of a handle are in `read`, `write`, `pages`, `ranges`, `sync` and `handle`; `stream` has the
//! traits of the standard library. In `rounds`, threads that sync a file at the same time share a commit. `page_future`,
//! `read_future` and `change_future` are the operations for async programs; `pinning` is what the first two share.

mod change_future;
mod handle;
mod log_order;
mod open_file;
mod options;
mod page_future;
mod pages;
mod pinning;
mod ranges;
mod read;
mod read_future;
mod rounds;
mod stream;
mod sync;
pub(crate) mod table;
mod write;

pub use change_future::ChangeFuture;
pub(crate) use open_file::OpenFile;
pub use options::OpenOptions;
pub use page_future::PageFuture;
pub use pages::PageVersion;
pub use read_future::ReadFuture;
pub use stream::FileStream;

use crate::error::Error;
use crate::machine::Host;
use crate::shared::Shared;
use engine::page_cache::File as Cached;
use engine::{Engine, ReadPattern, ReadState, Task};
use machine::PAGE_BYTES;
use parking_lot::Mutex;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Advice on how a file, or a part of it, will be used (`posix_fadvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No pattern is announced: the library reads ahead when reads look sequential.
    Normal,
    /// Sequential access from the beginning to the end: the library reads further ahead than with [`Advice::Normal`].
    /// This advice holds for all reads of the handle.
    Sequential,
    /// Random access: nothing is read ahead. This advice holds for all reads of the handle.
    Random,
    /// The range will be used soon: the library starts to read it. From a long range only the beginning is read: at
    /// most half of the number of pages that are free or on an inactive file list.
    WillNeed,
    /// The range is not needed any more: the clean pages in it are dropped.
    DontNeed,
}

/// A handle of a file. A read of cached pages takes no lock and makes no system call.
///
/// Dropping the last handle of a file writes the file's dirty pages, without a sync, and drops all its pages from
/// memory. A thread that opens the file meanwhile waits until this is done. Pages that could not be written are lost;
/// [`Memory::shutdown`](crate::Memory::shutdown) reports the loss. To get the error in time, call [`File::sync_data`]
/// before the drop.
pub struct File {
    /// The engine of `shared`. It is stored here, too, so that a hit finds the engine without reading `shared`.
    engine: Arc<Engine<Host>>,
    pub(crate) shared: Arc<Shared>,
    cached: Arc<Cached<Host>>,
    /// The open file, which all handles of the file in this memory share; `None` only while this handle is dropped.
    open: Option<Arc<OpenFile>>,
    is_writable: bool,
    seen_failures: AtomicU32,
    state: Mutex<ReadState>,
    /// `true` if [`Advice::Random`] was given. Readahead, which uses `state`, is then off.
    is_random: AtomicBool,
}

impl File {
    pub(crate) fn opened(&self) -> &Arc<OpenFile> {
        self.open.as_ref().expect("taken only when the handle is dropped")
    }

    #[inline]
    pub(crate) fn cached(&self) -> &Arc<Cached<Host>> {
        &self.cached
    }

    pub(crate) fn engine(&self) -> &Arc<Engine<Host>> {
        &self.engine
    }

    fn error(&self, error: engine::Error) -> Error {
        let full = self.shared.error_of_full_group(&error);
        full.unwrap_or_else(|| Error::of_file(&self.opened().path, error))
    }

    /// Calls `call` with the engine and this thread's state. The pages that `call` takes are charged to the file's
    /// group.
    fn with_task<R>(&self, call: impl FnOnce(&Engine<Host>, &mut Task) -> R) -> R {
        self.shared.with_task(self.opened().group.as_ref(), call)
    }

    /// Calls `call` as [`File::with_task`] does, for a caller that must not sleep.
    fn with_task_at_once<R>(&self, call: impl FnOnce(&Engine<Host>, &mut Task) -> R) -> R {
        self.shared.with_task_at_once(self.opened().group.as_ref(), call)
    }

    /// Returns the length of the file, bytes.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(&path)?;
    /// file.write_all_at(b"five.", 100)?;
    /// assert_eq!(file.len(), 105);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> u64 {
        self.cached().length()
    }

    /// Returns whether the file is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells the library how `range`, a range of bytes of the file, will be used. [`Advice::Normal`],
    /// [`Advice::Sequential`] and [`Advice::Random`] do not depend on `range`: they hold for all reads of this handle.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, vec![1; 1 << 20])?;
    /// let file = memory.open(&path)?;
    /// file.advise(0..0, highwater::Advice::Sequential);
    /// file.advise(0..65536, highwater::Advice::WillNeed);
    /// file.read_exact_at(&mut [0; 65536], 0)?;
    /// file.advise(0..65536, highwater::Advice::DontNeed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advise(&self, range: Range<u64>, advice: Advice) {
        let end = range.end.min(self.len());
        let pages = (range.start.min(end) / PAGE_BYTES as u64) as u32..end.div_ceil(PAGE_BYTES as u64) as u32;
        let set = |pattern| {
            let mut state = self.state.lock();
            state.pattern = pattern;
            self.is_random.store(pattern == ReadPattern::Random, Ordering::Relaxed);
        };
        match advice {
            Advice::Normal => set(ReadPattern::Normal),
            Advice::Sequential => set(ReadPattern::Sequential),
            Advice::Random => set(ReadPattern::Random),
            Advice::WillNeed if pages.start < pages.end => {
                self.with_task(|engine, task| engine.access().prefetch(task, self.cached(), pages));
            }
            Advice::DontNeed if pages.start < pages.end => {
                self.shared.engine.lru().invalidate_pages(self.cached(), pages);
            }
            Advice::WillNeed | Advice::DontNeed => {}
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.release_late(&self.shared);
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.opened().path).field("len", &self.len()).finish_non_exhaustive()
    }
}
