//! Access to pages of a file in place, without a copy.

use super::File;
use super::sync::note_written;
use crate::error::Error;
use crate::machine::{HazardPointer, Host};
use crate::page::{PageRead, PageWrite};
use crate::page_owned::{OwnedPageRead, OwnedPageWrite};
use engine::access::PinnedForWrite;
use engine::page_cache::{NotPinned, Wait};
use engine::{Engine, ReadPattern, ReadState, Task};
use machine::{FrameNumber, Machine, Nanos, PAGE_BYTES};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

thread_local! {
    /// The number of the file and the number of the page that this thread used last. Pages that the engine already
    /// knows to be used often are pinned on another path, which does not set this value.
    static LAST_USED: Cell<(u32, u32)> = const { Cell::new((u32::MAX, u32::MAX)) };
}

/// Returns `false` if page `page` of the file `file` is the page that this thread used last. Otherwise stores it as the
/// page used last, and returns `true`. Repeated reads of one page thus count as one use.
#[inline]
pub(super) fn is_new_use(file: u32, page: u32) -> bool {
    LAST_USED.replace((file, page)) != (file, page)
}

/// The version of a page of a file ([`File::version`]). Two equal versions of a page say that it was not changed in
/// between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageVersion {
    written: u64,
    cuts: u64,
}

impl File {
    /// Pins page `page` (of 4096 bytes) for reading, without a copy. Other threads may read the page meanwhile; writers
    /// wait. Bytes after the end of the file are zeroes.
    ///
    /// # Errors
    /// When the page lies after the end of the file or has 16383 readers already; also in all cases in which
    /// [`File::read_at`] fails.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("table");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let table = memory.create(&path)?;
    /// table.set_len(8 * 4096)?;
    /// table.page_mut(3)?[..4].copy_from_slice(b"head");
    /// assert_eq!(&table.page(3)?[..4], b"head");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn page(&self, page: u64) -> Result<PageRead<'_>, Error> {
        // A page that may be pinned by a hazard pointer lies within the file, unless the file was truncated just now.
        if let Some(guard) = self.pin_open(page) {
            return Ok(guard);
        }
        match self.pin_within(page) {
            Ok(frame) => Ok(PageRead::of_file(&self.engine, frame)),
            Err(error) => Err(*error),
        }
    }

    #[cold]
    #[inline(never)]
    fn pin_within(&self, page: u64) -> Result<FrameNumber, Box<Error>> {
        let is_within = || {
            let pages = self.pages();
            if page < pages { Ok(()) } else { Err(Box::new(Error::OutOfRange { page, pages })) }
        };
        is_within()?;
        let frame = self.pin(page as u32, 1)?;
        // The file may have been truncated meanwhile; the page is then released.
        is_within().inspect_err(|_| drop(PageRead::of_file(&self.engine, frame)))?;
        Ok(frame)
    }

    /// Pins page `page` for writing, exclusively and without a copy. The page becomes dirty even if the caller changes
    /// nothing. If the file ends within the page, the bytes after this end become zeroes when the guard is dropped,
    /// even if the file has become longer meanwhile. A thread that dirties pages faster than the disk writes them is
    /// throttled here, before the page is pinned.
    ///
    /// # Errors
    /// When the page lies after the end of the file or the handle is read-only; also in all cases in which
    /// [`File::write_at`] fails.
    pub fn page_mut(&self, page: u64) -> Result<PageWrite<'_>, Error> {
        self.pin_for_write(page).map(|pinned| PageWrite::of_file(&self.engine, self.cached(), pinned))
    }

    fn pin_for_write(&self, page: u64) -> Result<PinnedForWrite, Error> {
        self.begin_page_change(page)?;
        let pinned = self.with_task(|engine, task| engine.access().pin_for_write(task, self.cached(), page as u32));
        pinned.map_err(|error| self.error_of_page(page, error))
    }

    /// Checks that a page may be pinned for writing, and notes that this thread writes it.
    fn begin_page_change(&self, page: u64) -> Result<(), Error> {
        self.begin_change()?;
        let pages = self.pages();
        if page >= pages {
            return Err(Error::OutOfRange { page, pages });
        }
        note_written(self.cached().id, page as u32..page as u32 + 1);
        Ok(())
    }

    fn error_of_page(&self, page: u64, error: engine::Error) -> Error {
        match error {
            // The file was truncated just now.
            engine::Error::BeyondEnd { .. } => Error::OutOfRange { page, pages: self.pages() },
            other => self.error(other),
        }
    }

    /// Pins a page for reading as [`File::page`] does, if this is possible at once. Returns `None` if the page is not in
    /// memory, or a writer has it. Does not wait, neither for the disk nor for other threads.
    ///
    /// # Errors
    /// When the page lies after the end of the file.
    pub fn try_page(&self, page: u64) -> Result<Option<PageRead<'_>>, Error> {
        self.page_within(page, Wait::No)
    }

    /// Pins a page for reading as [`File::page`] does, but waits for a writer of the page at most as long as `time`, and
    /// then returns `None`. If the page is not in memory, the time does not limit the call, which then waits as
    /// [`File::page`] does.
    ///
    /// # Errors
    /// As [`File::page`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(folder.path().join("data"))?;
    /// file.set_len(4096)?;
    /// let writing = file.page_mut(0)?;
    /// assert!(file.page_timeout(0, Duration::from_millis(1))?.is_none() && file.try_page(0)?.is_none());
    /// drop(writing);
    /// assert!(file.page_timeout(0, Duration::from_millis(1))?.is_some() && file.try_page(0)?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn page_timeout(&self, page: u64, time: Duration) -> Result<Option<PageRead<'_>>, Error> {
        self.page_within(page, self.wait_for(time))
    }

    fn wait_for(&self, time: Duration) -> Wait {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 2);
        Wait::Until(self.engine.machine().now() + Nanos(nanos))
    }

    fn page_within(&self, page: u64, wait: Wait) -> Result<Option<PageRead<'_>>, Error> {
        if let Some(guard) = self.pin_open(page) {
            return Ok(Some(guard));
        }
        let (cached, pages) = (self.cached(), self.pages());
        if page >= pages {
            return Err(Error::OutOfRange { page, pages });
        }
        let is_new_use = || is_new_use(cached.id, page as u32);
        match self.engine.access().pin_cached_within(cached, page as u32, wait, is_new_use) {
            Ok(frame) => {
                let guard = PageRead::of_file(&self.engine, frame);
                // The file may have been truncated meanwhile; the page is then released.
                let pages = self.pages();
                if page < pages { Ok(Some(guard)) } else { Err(Error::OutOfRange { page, pages }) }
            }
            Err(NotPinned::Absent) if wait != Wait::No => self.page(page).map(Some),
            Err(NotPinned::Absent | NotPinned::Busy) => Ok(None),
        }
    }

    /// Pins a page for writing as [`File::page_mut`] does, if this is possible at once. Returns `None` if the page is not
    /// in memory, another thread has it, it is being written to the disk, or so many pages are dirty that
    /// [`File::page_mut`] would make the thread pause. Does not wait, neither for the disk nor for other threads.
    ///
    /// # Errors
    /// When the page lies after the end of the file, the handle is read-only, or the memory was shut down.
    pub fn try_page_mut(&self, page: u64) -> Result<Option<PageWrite<'_>>, Error> {
        self.page_mut_within(page, Wait::No)
    }

    /// Pins a page for writing as [`File::page_mut`] does, but waits for other holders of the page at most as long as
    /// `time`, and then returns `None`. If the page is not in memory, the time does not limit the call, which then waits
    /// as [`File::page_mut`] does.
    ///
    /// # Errors
    /// As [`File::page_mut`].
    pub fn page_mut_timeout(&self, page: u64, time: Duration) -> Result<Option<PageWrite<'_>>, Error> {
        self.page_mut_within(page, self.wait_for(time))
    }

    fn page_mut_within(&self, page: u64, wait: Wait) -> Result<Option<PageWrite<'_>>, Error> {
        self.begin_page_change(page)?;
        let pin = |engine: &Engine<Host>, task: &mut Task| {
            engine.access().pin_for_write_within(task, self.cached(), page as u32, wait)
        };
        match self.with_task(pin).map_err(|error| self.error_of_page(page, error))? {
            Ok(pinned) => Ok(Some(PageWrite::of_file(&self.engine, self.cached(), pinned))),
            Err(NotPinned::Absent) if wait != Wait::No => self.page_mut(page).map(Some),
            Err(NotPinned::Absent | NotPinned::Busy) => Ok(None),
        }
    }

    /// Turns a guard for reading into one for writing, if this is possible at once: `page` must be a guard of this file,
    /// and the only one of its page. No other thread changes the page in between. Does not wait.
    ///
    /// # Errors
    /// The guard for reading, if another thread has the page, too, the page is being written to the disk or was cut off,
    /// the handle is read-only, or so many pages are dirty that [`File::page_mut`] would make the thread pause.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(folder.path().join("data"))?;
    /// file.set_len(4096)?;
    /// let (page, other) = (file.page(0)?, file.page(0)?);
    /// let page = file.try_upgrade(page).expect_err("there are two readers");
    /// drop(other);
    /// file.try_upgrade(page).expect("this is the only reader")[0] = 1;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_upgrade<'a>(&'a self, mut page: PageRead<'a>) -> Result<PageWrite<'a>, PageRead<'a>> {
        if self.begin_change().is_err() {
            return Err(page);
        }
        let Some(frame) = page.counted_frame(&self.engine) else { return Err(page) };
        match self.with_task(|engine, task| engine.access().try_upgrade(task, self.cached(), frame)) {
            Some(pinned) => {
                std::mem::forget(page);
                Ok(PageWrite::of_file(&self.engine, self.cached(), pinned))
            }
            None => Err(page),
        }
    }

    /// Pins a page for reading as [`File::page`] does. The guard has a share of the file, so it can be stored and sent to
    /// other threads, and outlives the caller's handle.
    ///
    /// # Errors
    /// As [`File::page`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = Arc::new(memory.create(folder.path().join("data"))?);
    /// file.write_all_at(b"kept", 0)?;
    /// let page = file.page_owned(0)?;
    /// drop(file);
    /// assert_eq!(&page[..4], b"kept");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn page_owned(self: &Arc<Self>, page: u64) -> Result<OwnedPageRead, Error> {
        match self.pin_within(page) {
            Ok(frame) => Ok(OwnedPageRead::of_file(self.clone(), frame)),
            Err(error) => Err(*error),
        }
    }

    /// Pins a page for writing as [`File::page_mut`] does. The guard has a share of the file, so it can be stored and
    /// sent to other threads, and outlives the caller's handle.
    ///
    /// # Errors
    /// As [`File::page_mut`].
    pub fn page_mut_owned(self: &Arc<Self>, page: u64) -> Result<OwnedPageWrite, Error> {
        self.pin_for_write(page).map(|pinned| OwnedPageWrite::of_file(self.clone(), pinned))
    }

    /// Returns the version of a page, which is another one after each change of the page: by a guard for writing, by
    /// `write_at`, by a truncation or by a hole. A reader that has dropped its guard can so learn whether the page is
    /// still as it was. The call takes no latch, and does not look whether the page is in memory.
    ///
    /// Read the version first, then the page. If the version is the same later, the page was not changed in between. In
    /// rare cases the version is another one although only another page was changed. A thread that holds a
    /// [`PageWrite`] has changed the version already.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let tree = memory.create(folder.path().join("tree"))?;
    /// tree.set_len(4 * 4096)?;
    /// tree.page_mut(0)?[0] = 3; // the child of page 0
    /// let seen = tree.version(0);
    /// let child = u64::from(tree.page(0)?[0]);
    /// let leaf = tree.page(child)?;
    /// // Nobody has changed page 0, so the leaf is still its child.
    /// assert_eq!(tree.version(0), seen);
    /// # drop(leaf);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn version(&self, page: u64) -> PageVersion {
        let cached = self.cached();
        PageVersion { written: self.engine.access().versions.of(cached.id, page as u32), cuts: cached.cuts() }
    }

    #[inline]
    pub(super) fn pages(&self) -> u64 {
        self.cached().length().div_ceil(PAGE_BYTES as u64)
    }

    /// Pins a page by a hazard pointer and returns its guard. Only a clean page that is used often may be pinned in
    /// this way. Returns `None` for other pages, or if no hazard pointer of the thread is free.
    // Everything on this path is inlined, except for functions whose result fits into two registers. A guard that is
    // returned through memory costs more than finding the page.
    #[inline(always)]
    pub(super) fn pin_open(&self, page: u64) -> Option<PageRead<'_>> {
        let (engine, index) = (&self.engine, &self.cached.index);
        let page = usize::try_from(page).ok()?;
        // `pin_open` is called in each branch, so that the branches need not bring their results into the same
        // registers: each instruction that writes a register takes 3 % of the time of a hit.
        let pinned = match index.slot_in_head(page) {
            Some(slot) => engine.access().pin_open(slot),
            None => index.slot_behind(page).and_then(|slot| engine.access().pin_open(slot)),
        };
        let pinned = pinned.or_else(|| self.pin_open_slowly(page));
        pinned.map(|(frame, hazard)| PageRead::of_open(engine, frame, hazard))
    }

    /// Pins a page by any free hazard pointer of the thread. Returns `None` if the thread has no free hazard pointer,
    /// if the page is not in memory, or if the page is closed to hazard pointers.
    #[cold]
    #[inline(never)]
    fn pin_open_slowly(&self, page: usize) -> Option<(FrameNumber, HazardPointer<'_>)> {
        self.engine.access().pin_open_slowly(self.cached.index.slot(page)?)
    }

    /// Takes a reference to a page, latches the page as a reader, and returns its frame. Reads the page from the device
    /// if it is not in memory. `wanted_pages` tells readahead how many pages from this page on the caller wants.
    #[inline(never)]
    pub(super) fn pin(&self, page: u32, wanted_pages: u32) -> Result<FrameNumber, Box<Error>> {
        let cached = self.cached();
        match self.shared.engine.access().pin_cached(cached, page, || is_new_use(cached.id, page)) {
            Some((frame, _)) => Ok(frame),
            None => self.pin_slowly(page, wanted_pages),
        }
    }

    #[cold]
    fn pin_slowly(&self, page: u32, wanted_pages: u32) -> Result<FrameNumber, Box<Error>> {
        self.shared.check_is_up()?;
        self.with_read_state(|state| {
            self.with_task(|engine, task| engine.access().pin_for_read(task, self.cached(), state, page, wanted_pages))
                .map_err(|error| self.error(error).into())
        })
    }

    /// Calls `read` with the readahead state of this handle, and keeps the state that `read` leaves.
    #[inline]
    pub(super) fn with_read_state<R>(&self, read: impl FnOnce(&mut ReadState) -> R) -> R {
        if self.is_random.load(Ordering::Relaxed) {
            let mut state = ReadState::default();
            state.pattern = ReadPattern::Random;
            return read(&mut state);
        }
        // This read uses a copy of the readahead state, so that other readers of the handle need not wait for the
        // state's lock during the disk request.
        let mut state = self.state.lock().clone();
        let result = read(&mut state);
        let mut kept = self.state.lock();
        // If another thread has called `advise` meanwhile, the pattern that it has set stays.
        state.pattern = kept.pattern;
        *kept = state;
        result
    }
}
