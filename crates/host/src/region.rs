//! Regions of anonymous memory. A region may be larger than its `Memory`, because seldom used pages go to swap.

use crate::error::{Error, PAGES_MAX};
use crate::group::Node;
use crate::machine::Host;
use crate::page::{PageRead, PageWrite};
use crate::shared::Shared;
use engine::anonymous::Region as Mapped;
use machine::PAGE_BYTES;
use std::fmt;
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
        let page = self.check_page(page)?;
        self.shared
            .with_task(self.group.as_ref(), |engine, task| engine.access().pin_region(task, &self.mapped, page, false))
            .map(|frame| PageRead::of_region(&self.shared.engine, frame))
            .map_err(|error| self.shared.error(error))
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
        let page = self.check_page(page)?;
        let pinned = self
            .shared
            .with_task(self.group.as_ref(), |engine, task| engine.access().pin_region(task, &self.mapped, page, true));
        let frame =
            pinned.map_err(|error| self.shared.error(error))?.expect("a page that is to be written has a frame");
        Ok(PageWrite::of_region(&self.shared.engine, frame))
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
