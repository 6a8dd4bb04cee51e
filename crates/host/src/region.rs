//! Regions of anonymous memory. A region may be larger than its `Memory`, because seldom used pages go to swap.

use crate::error::{Error, PAGES_MAX};
use crate::group::table::Node;
use crate::machine::Host;
use crate::page::{PageRead, PageWrite};
use crate::page_owned::{OwnedPageRead, OwnedPageWrite};
use crate::shared::Shared;
use engine::Engine;
use engine::anonymous::Region as Mapped;
use machine::{FrameNumber, PAGE_BYTES};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A region of anonymous memory, all zeroes at first. Seldom used pages go to swap. The contents do not outlive the
/// process.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// let heap = memory.anonymous(1 << 30)?;
/// heap.write_at(b"far out", 1 << 29)?;
/// assert_eq!(&heap.page((1 << 29) / 4096)?[..7], b"far out");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Region {
    shared: Arc<Shared>,
    mapped: Arc<Mapped<Host>>,
    /// The memory control group to which the region's pages are charged; `None` for the root group.
    group: Option<Arc<Node>>,
    bytes: u64,
}

impl Region {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        group: Option<Arc<Node>>,
        bytes: u64,
        huge_pages: bool,
    ) -> Result<Self, Error> {
        shared.check_is_up()?;
        let pages = bytes.div_ceil(PAGE_BYTES as u64);
        if pages > PAGES_MAX {
            return Err(Error::TooLong { bytes });
        }
        let mapped = shared.engine.anonymous().create_region(None, (pages as u32).max(1), huge_pages);
        Ok(Self { shared: shared.clone(), mapped, group, bytes })
    }

    /// Returns the length of the region, bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the region has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(crate) fn engine(&self) -> &Arc<Engine<Host>> {
        &self.shared.engine
    }

    fn check_range(&self, offset: u64, bytes: usize) -> Result<(), Error> {
        self.shared.check_is_up()?;
        match offset.checked_add(bytes as u64) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Error::OutOfBytes { offset, bytes: bytes as u64, len: self.bytes }),
        }
    }

    fn check_page(&self, page: u64) -> Result<u32, Error> {
        self.shared.check_is_up()?;
        let pages = self.bytes.div_ceil(PAGE_BYTES as u64);
        if page < pages { Ok(page as u32) } else { Err(Error::OutOfRange { page, pages }) }
    }

    /// Copies bytes out of the region, starting at byte `offset`.
    ///
    /// # Errors
    /// When the range reaches beyond the end of the region, a page cannot be read back from swap, or memory is
    /// exhausted.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let heap = memory.anonymous(1 << 20)?;
    /// let mut bytes = [1; 3];
    /// heap.read_at(&mut bytes, 4095)?;
    /// assert_eq!(bytes, [0; 3]);
    /// assert!(heap.read_at(&mut bytes, (1 << 20) - 2).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        self.check_range(offset, bytes.len())?;
        self.shared
            .with_task(self.group.as_ref(), |engine, task| {
                engine.access().read_region(task, &self.mapped, offset, bytes)
            })
            .map_err(|error| self.shared.error(error))
    }

    /// Copies bytes into the region, starting at byte `offset`.
    ///
    /// # Errors
    /// When the range reaches beyond the end of the region, a page cannot be read back from swap, or memory is
    /// exhausted, for example because swap is full.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let heap = memory.anonymous(1 << 20)?;
    /// heap.write_at(b"over the edge of a page", 4090)?;
    /// assert_eq!(&heap.page(1)?[..3], b"he ");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.check_range(offset, bytes.len())?;
        self.shared
            .with_task(self.group.as_ref(), |engine, task| {
                engine.access().write_region(task, &self.mapped, offset, bytes)
            })
            .map_err(|error| self.shared.error(error))
    }

    /// Pins page `page` (of 4096 bytes) for reading, without a copy. A page that was never written reads as zeroes, and
    /// the guard of such a page does not exclude writers.
    ///
    /// # Errors
    /// As [`Region::read_at`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let heap = memory.anonymous(1 << 20)?;
    /// heap.write_at(b"in place", 5 * 4096)?;
    /// assert_eq!(&heap.page(5)?[..8], b"in place");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn page(&self, page: u64) -> Result<PageRead<'_>, Error> {
        self.pin(page, false).map(|frame| PageRead::of_region(&self.shared.engine, frame))
    }

    fn pin(&self, page: u64, write: bool) -> Result<Option<FrameNumber>, Error> {
        let page = self.check_page(page)?;
        self.shared
            .with_task(self.group.as_ref(), |engine, task| engine.access().pin_region(task, &self.mapped, page, write))
            .map_err(|error| self.shared.error(error))
    }

    fn pin_for_write(&self, page: u64) -> Result<FrameNumber, Error> {
        Ok(self.pin(page, true)?.expect("a page that is to be written has a frame"))
    }

    /// Pins a page for reading as [`Region::page`] does. The guard has a share of the region, so it can be stored and sent
    /// to other threads.
    ///
    /// # Errors
    /// As [`Region::read_at`].
    pub fn page_owned(self: &Arc<Self>, page: u64) -> Result<OwnedPageRead, Error> {
        self.pin(page, false).map(|frame| OwnedPageRead::of_region(self.clone(), frame))
    }

    /// Pins a page for writing as [`Region::page_mut`] does. The guard has a share of the region, so it can be stored and
    /// sent to other threads.
    ///
    /// # Errors
    /// As [`Region::page_mut`].
    pub fn page_mut_owned(self: &Arc<Self>, page: u64) -> Result<OwnedPageWrite, Error> {
        self.pin_for_write(page).map(|frame| OwnedPageWrite::of_region(self.clone(), frame))
    }

    /// Makes the bytes of `range` zeroes, and frees the memory and the swap of the pages that lie in it as a whole
    /// (`MADV_DONTNEED`). A thread that holds a guard of such a page goes on to see, or to write, what the page was; what
    /// it writes is lost.
    ///
    /// # Errors
    /// When the range reaches beyond the end of the region; also when a page of which a part becomes zeroes cannot be read
    /// back from swap.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let heap = memory.anonymous(1 << 20)?;
    /// heap.write_at(&[1; 20_000], 0)?;
    /// heap.discard(100..20_000)?;
    /// assert_eq!((heap.page(0)?[99], heap.page(0)?[100], heap.page(3)?[0]), (1, 0, 0));
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn discard(&self, range: Range<u64>) -> Result<(), Error> {
        const PAGE: u64 = PAGE_BYTES as u64;
        let bytes = range.end.saturating_sub(range.start);
        self.check_range(range.start, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        if bytes == 0 {
            return Ok(());
        }
        // The region's last page counts as a whole page even if the region ends within it.
        let end = if range.end == self.bytes { range.end.next_multiple_of(PAGE) } else { range.end };
        let whole = range.start.div_ceil(PAGE)..end / PAGE;
        if whole.is_empty() {
            return self.write_zeroes(range);
        }
        self.write_zeroes(range.start..whole.start * PAGE)?;
        self.write_zeroes(whole.end * PAGE..range.end.max(whole.end * PAGE))?;
        self.shared.engine.access().discard(&self.mapped, whole.start as u32..whole.end as u32);
        Ok(())
    }

    /// Writes zeroes over a range of fewer than 4096 bytes, or over two such ranges in adjacent pages.
    fn write_zeroes(&self, range: Range<u64>) -> Result<(), Error> {
        if range.is_empty() {
            return Ok(());
        }
        let zeroes = [0; 2 * PAGE_BYTES];
        self.write_at(&zeroes[..(range.end - range.start) as usize], range.start)
    }

    /// Pins page `page` for writing, exclusively and without a copy.
    ///
    /// # Errors
    /// When the page lies after the end of the region or cannot be read back from swap, or when memory is exhausted.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let heap = memory.anonymous(1 << 20)?;
    /// heap.page_mut(9)?[7] = 1;
    /// assert_eq!((heap.page(9)?[7], heap.page(8)?[7]), (1, 0));
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn page_mut(&self, page: u64) -> Result<PageWrite<'_>, Error> {
        self.pin_for_write(page).map(|frame| PageWrite::of_region(&self.shared.engine, frame))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.shared.engine.access().drop_region(&self.mapped);
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("len", &self.bytes).finish_non_exhaustive()
    }
}
