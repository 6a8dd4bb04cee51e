//! Access to pages of a file in place, without a copy.

use super::File;
use super::sync::note_written;
use crate::error::Error;
use crate::machine::HazardPointer;
use crate::page::{PageRead, PageWrite};
use engine::{ReadPattern, ReadState};
use machine::{FrameNumber, PAGE_BYTES};
use std::cell::Cell;
use std::sync::atomic::Ordering;

thread_local! {
    /// The number of the file and the number of the page that this thread used last. Pages that the engine already
    /// knows to be used often are pinned on another path, which does not set this value.
    static LAST_USED: Cell<(u32, u32)> = const { Cell::new((u32::MAX, u32::MAX)) };
}

/// Returns `false` if page `page` of the file `file` is the page that this thread used last. Otherwise stores it as the
/// page used last, and returns `true`. Repeated reads of one page thus count as one use.
#[inline]
fn is_new_use(file: u32, page: u32) -> bool {
    LAST_USED.replace((file, page)) != (file, page)
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
        self.begin_change()?;
        let pages = self.pages();
        if page >= pages {
            return Err(Error::OutOfRange { page, pages });
        }
        let cached = self.cached();
        note_written(cached.id, page as u32..page as u32 + 1);
        let pinned = self.with_task(|engine, task| engine.access().pin_for_write(task, cached, page as u32)).map_err(
            |error| {
                match error {
                    // The file was truncated just now.
                    engine::Error::BeyondEnd { .. } => Error::OutOfRange { page, pages: self.pages() },
                    other => self.error(other),
                }
            },
        )?;
        Ok(PageWrite::of_file(&self.engine, cached, pinned))
    }

    #[inline]
    fn pages(&self) -> u64 {
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
        let pin = |state: &mut ReadState| {
            self.with_task(|engine, task| engine.access().pin_for_read(task, self.cached(), state, page, wanted_pages))
                .map_err(|error| self.error(error).into())
        };
        if self.is_random.load(Ordering::Relaxed) {
            let mut state = ReadState::default();
            state.pattern = ReadPattern::Random;
            return pin(&mut state);
        }
        // This read uses a copy of the readahead state, so that other readers of the handle need not wait for the
        // state's lock during the disk request.
        let mut state = self.state.lock().clone();
        let pinned = pin(&mut state);
        let mut kept = self.state.lock();
        // If another thread has called `advise` meanwhile, the pattern that it has set stays.
        state.pattern = kept.pattern;
        *kept = state;
        pinned
    }
}
