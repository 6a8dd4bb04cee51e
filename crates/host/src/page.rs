//! Guards that hold a page pinned for an application, which reads or writes the page's bytes in place.

#![allow(unsafe_code)]

use crate::error::Error;
use crate::machine::{HazardPointer, Host};
use engine::Engine;
use engine::access::PinnedForWrite;
use engine::page_cache::{File as Cached, LOG_NUMBER_MAX};
use machine::{FrameNumber, PAGE_BYTES};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A page of zeroes, for pages of a region that were never written.
pub(crate) static ZEROES: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// The reason why a page of a region has no log number, and is not held.
pub(crate) const OF_REGION: &str = "the page belongs to a region";

/// Checks whether the engine can keep pages from being written.
fn check_order(engine: &Engine<Host>) -> Result<(), Error> {
    match engine.access().keeps_log_order() {
        true => Ok(()),
        false => Err(Error::WriteOrder("the kernel's `writeback.stable_pages` is `no`")),
    }
}

/// Raises the log number of the page of `file` in `frame`, of which the caller has a guard for writing.
///
/// # Errors
/// When the engine's kernel cannot keep the order, or the number is too large.
pub(crate) fn raise_log_number(
    engine: &Engine<Host>,
    file: &Cached<Host>,
    frame: FrameNumber,
    number: u64,
) -> Result<(), Error> {
    check_order(engine)?;
    if number > LOG_NUMBER_MAX {
        return Err(Error::WriteOrder("a log number must be below 2^63"));
    }
    engine.access().raise_log_number_in(file, frame, number);
    Ok(())
}

/// Holds the page of `file` in `frame`, of which the caller has a guard for writing.
///
/// # Errors
/// When the engine's kernel cannot keep the order, or no more pages can be held.
pub(crate) fn hold(engine: &Engine<Host>, file: &Cached<Host>, frame: FrameNumber) -> Result<(), Error> {
    check_order(engine)?;
    let access = engine.access();
    match access.hold_page_in(file, frame) {
        true => Ok(()),
        false => Err(Error::TooManyHeld { pages: access.held_pages_max() }),
    }
}

/// The owner of a read guard's page: a file or a region. The owner decides how dropping the guard releases the page. If
/// a hazard pointer holds the page, the pointer is withdrawn instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOf {
    File,
    Region,
    /// A page of a region that was never written. Such a page needs no release.
    Zeroes,
}

/// A page pinned for reading: 4096 bytes. The page stays in memory and does not change until the guard is dropped.
///
/// Do not hold the guard while the same thread writes to the page in another way: the thread would wait for itself.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// std::fs::write(&path, "a short page")?;
/// let file = memory.open(&path)?;
/// let page = file.page(0)?;
/// assert_eq!((&page[..7], page.len(), page[100]), (&b"a short"[..], 4096, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the page is let go at once"]
pub struct PageRead<'a> {
    // A reference to the `engine` field of the file's handle. Its address is the same for all pages of the file, so a
    // loop over pages keeps it in a register.
    engine: &'a Arc<Engine<Host>>,
    bytes: *const [u8; PAGE_BYTES],
    frame: FrameNumber,
    hazard: Option<HazardPointer<'a>>,
    of: ReadOf,
}

// SAFETY: no thread changes the guard's bytes while the guard exists, and its other fields are `Sync`. Any thread can
// release the latch, the reference or the hazard pointer.
unsafe impl Send for PageRead<'_> {}
// SAFETY: no thread changes the guard's bytes while the guard exists, and its other fields are `Sync`.
unsafe impl Sync for PageRead<'_> {}

impl<'a> PageRead<'a> {
    #[inline(always)]
    pub(crate) fn of_open(engine: &'a Arc<Engine<Host>>, frame: FrameNumber, hazard: HazardPointer<'a>) -> Self {
        Self { engine, bytes: engine.machine().bytes(frame), frame, hazard: Some(hazard), of: ReadOf::File }
    }

    #[inline]
    pub(crate) fn of_file(engine: &'a Arc<Engine<Host>>, frame: FrameNumber) -> Self {
        Self { engine, bytes: engine.machine().bytes(frame), frame, hazard: None, of: ReadOf::File }
    }

    /// Creates a guard of a region's page; `None` stands for a page that was never written.
    pub(crate) fn of_region(engine: &'a Arc<Engine<Host>>, frame: Option<FrameNumber>) -> Self {
        let (bytes, of) = match frame {
            Some(frame) => (engine.machine().bytes(frame).cast_const(), ReadOf::Region),
            None => (&raw const ZEROES, ReadOf::Zeroes),
        };
        Self { engine, bytes, frame: frame.unwrap_or(FrameNumber(0)), hazard: None, of }
    }

    /// Returns the frame of the guard's page, if the guard holds a page of a file of `engine` by a reference and the
    /// latch. If it holds the page by a hazard pointer, first replaces the pointer by these.
    pub(crate) fn counted_frame(&mut self, engine: &Arc<Engine<Host>>) -> Option<FrameNumber> {
        if self.of != ReadOf::File || !Arc::ptr_eq(self.engine, engine) {
            return None;
        }
        if let Some(hazard) = self.hazard.take()
            && let Err(hazard) = engine.access().count_hazard(self.frame, hazard)
        {
            self.hazard = Some(hazard);
            return None;
        }
        Some(self.frame)
    }
}

/// Releases a page's reference and latch.
// Takes no reference to the guard, because the compiler keeps a guard whose address is taken in memory and not in
// registers. Cold and not inlined, so that registers are saved in this function and not in the caller's loop over pages.
#[cold]
#[inline(never)]
pub(crate) fn give_back(engine: &Arc<Engine<Host>>, frame: FrameNumber, of: ReadOf) {
    match of {
        ReadOf::File => engine.access().unpin_read(frame),
        ReadOf::Region => engine.access().unpin_region(frame, false),
        ReadOf::Zeroes => {}
    }
}

impl Deref for PageRead<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the frame is in the arena for as long as `engine` lives. Nobody writes its bytes meanwhile, in each
        // of three cases. A guard with a reference and the shared latch: writers need the exclusive latch, or fill a
        // page that is not valid yet, which has no guard. A guard with a hazard pointer: a task that takes the page
        // away, or wants the exclusive latch, waits for the hazard pointer. A guard of the page of zeroes, which is
        // never written.
        unsafe { &*self.bytes }
    }
}

impl Drop for PageRead<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.hazard {
            Some(hazard) => self.engine.access().unpin_open(self.frame, hazard),
            None => give_back(self.engine, self.frame, self.of),
        }
    }
}

impl fmt::Debug for PageRead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held_by = if self.hazard.is_some() { "a hazard pointer" } else { "a reference" };
        f.debug_struct("PageRead").field("frame", &self.frame).field("held_by", &held_by).finish_non_exhaustive()
    }
}

/// A page pinned for writing: 4096 bytes. Until the guard is dropped, no other thread reads or writes the page, and the
/// page does not reach the disk half changed.
///
/// Do not hold the guard while the same thread reads or writes the page in another way, syncs the file, or shuts the
/// memory down: the thread would wait for itself.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// let file = memory.create(&path)?;
/// file.set_len(4096)?;
/// let mut page = file.page_mut(0)?;
/// page[10] = b'x';
/// drop(page);
/// file.sync_data()?;
/// assert_eq!(std::fs::read(&path)?[10], b'x');
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the page is let go at once"]
pub struct PageWrite<'a> {
    engine: &'a Arc<Engine<Host>>,
    bytes: *mut [u8; PAGE_BYTES],
    frame: FrameNumber,
    of: WriteOf<'a>,
}

/// The owner of a write guard's page: a file or a region. The owner decides how dropping the guard releases the page.
#[derive(Clone, Copy)]
enum WriteOf<'a> {
    File(&'a Arc<Cached<Host>>, PinnedForWrite),
    Region,
}

// SAFETY: the guard's bytes are accessible through this guard alone, and its other fields are `Sync`. Any thread can
// release the latch and the reference.
unsafe impl Send for PageWrite<'_> {}
// SAFETY: a shared guard only reads its bytes, which no other thread changes; its other fields are `Sync`.
unsafe impl Sync for PageWrite<'_> {}

impl<'a> PageWrite<'a> {
    pub(crate) fn of_file(engine: &'a Arc<Engine<Host>>, file: &'a Arc<Cached<Host>>, pinned: PinnedForWrite) -> Self {
        let frame = pinned.frame;
        Self { engine, bytes: engine.machine().bytes(frame), frame, of: WriteOf::File(file, pinned) }
    }

    pub(crate) fn of_region(engine: &'a Arc<Engine<Host>>, frame: FrameNumber) -> Self {
        Self { engine, bytes: engine.machine().bytes(frame), frame, of: WriteOf::Region }
    }

    /// Raises the page's *log number* (log sequence number) to `number`, for write-ahead logging: from now on the page is
    /// not written to its file before [`Log::note_durable`](crate::Log::note_durable) was called with this
    /// number or a larger one. The log itself is another file, which the caller writes. A log number is never lowered. It
    /// ends when the page leaves the file by a truncation or a hole; neither of these waits for the log.
    ///
    /// A sync of the file writes all pages that it may write, and fails with
    /// [`ErrorKind::LogBehind`](crate::ErrorKind::LogBehind) if it had to put a page off. Closing the file and shutting
    /// the memory down do the same, and what could not be written is then lost, as in a crash. Pages that wait for the log
    /// stay in memory, and the dirty limits do not count them. If they are more than the number of dirty pages at which
    /// throttling begins, writes to the file wait for a second, and then fail with the same error.
    ///
    /// # Errors
    /// When the memory's kernel changes pages while they are being written (`writeback.stable_pages = "no"`, as in all
    /// built-in kernels but `highwater`), the page belongs to a region, or the number is 2<sup>63</sup> or larger.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("tree");
    /// use highwater::{ErrorKind, Memory};
    ///
    /// let memory = Memory::builder().size(16 << 20).start()?;
    /// let tree = memory.create(&path)?;
    /// tree.set_len(4096)?;
    /// let mut page = tree.page_mut(0)?;
    /// page.raise_log_number(7)?; // the change is in record 7 of the log
    /// page[0] = 1;
    /// drop(page);
    /// assert_eq!(tree.sync_data().unwrap_err().kind(), ErrorKind::LogBehind);
    /// assert_eq!((std::fs::read(&path)?[0], tree.log_wanted()), (0, Some(7)));
    /// // The log was written and synced up to record 9.
    /// tree.note_log_durable(9);
    /// tree.sync_data()?;
    /// assert_eq!((std::fs::read(&path)?[0], tree.log_wanted()), (1, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn raise_log_number(&mut self, number: u64) -> Result<(), Error> {
        match self.of {
            WriteOf::File(file, _) => raise_log_number(self.engine, file, self.frame, number),
            WriteOf::Region => Err(Error::WriteOrder(OF_REGION)),
        }
    }

    /// Holds the page: from now on it is not written to its file before [`File::release`](crate::File::release) was
    /// called, as the page of a transaction that may still be undone. A page that is held already stays so; one release
    /// ends it. A page that leaves the file by a truncation or a hole is released.
    ///
    /// A sync of the file writes all other pages, makes them durable, and then fails with
    /// [`ErrorKind::Held`](crate::ErrorKind::Held). If there are also pages that wait for the log, it fails with
    /// [`ErrorKind::LogBehind`](crate::ErrorKind::LogBehind). Closing the file and shutting the memory down do the same,
    /// and the contents of held pages are then lost, as in a crash. Held pages stay in memory, and the dirty limits do not
    /// count them.
    ///
    /// # Errors
    /// With [`ErrorKind::TooManyHeld`](crate::ErrorKind::TooManyHeld) when as many pages of all files are held as half
    /// the number of dirty pages at which throttling begins: with default settings 7.5 % of the memory that is free or has
    /// pages of files. When the memory's kernel changes pages while they are being
    /// written, or the page belongs to a region, as [`Self::raise_log_number`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("tree");
    /// use highwater::{ErrorKind, Memory};
    ///
    /// let memory = Memory::builder().size(16 << 20).start()?;
    /// let tree = memory.create(&path)?;
    /// tree.set_len(2 * 4096)?;
    /// for (n, byte) in [(0, 1), (1, 2)] {
    ///     let mut page = tree.page_mut(n)?;
    ///     page.hold()?;
    ///     page[0] = byte;
    /// }
    /// tree.release(1);
    /// assert_eq!(tree.sync_data().unwrap_err().kind(), ErrorKind::Held);
    /// let on_disk = || std::fs::read(&path).map(|bytes| [bytes[0], bytes[4096]]);
    /// assert_eq!(on_disk()?, [0, 2]);
    /// assert!(tree.release(0) && !tree.release(0));
    /// tree.sync_data()?;
    /// assert_eq!(on_disk()?, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hold(&mut self) -> Result<(), Error> {
        match self.of {
            WriteOf::File(file, _) => hold(self.engine, file, self.frame),
            WriteOf::Region => Err(Error::WriteOrder(OF_REGION)),
        }
    }

    /// Turns the guard into one for reading. No other thread changes the page in between.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(folder.path().join("data"))?;
    /// file.set_len(4096)?;
    /// let mut page = file.page_mut(0)?;
    /// page[0] = 7;
    /// let page = page.downgrade();
    /// assert_eq!((page[0], file.page(0)?[0]), (7, 7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn downgrade(self) -> PageRead<'a> {
        let this = ManuallyDrop::new(self);
        let (engine, frame, access) = (this.engine, this.frame, this.engine.access());
        let of = match this.of {
            WriteOf::File(file, pinned) => {
                access.downgrade(file, pinned);
                ReadOf::File
            }
            WriteOf::Region => {
                access.downgrade_region(frame);
                ReadOf::Region
            }
        };
        PageRead { engine, bytes: this.bytes, frame, hazard: None, of }
    }
}

impl Deref for PageWrite<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the frame is in the arena for as long as `engine` lives, and the guard has the exclusive latch, so
        // that only this guard touches the bytes.
        unsafe { &*self.bytes }
    }
}

impl DerefMut for PageWrite<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the frame is in the arena for as long as `engine` lives. The guard has the exclusive latch, so there
        // is no other guard of the page, and the engine copies bytes only under a latch. With `writeback.stable_pages`,
        // no device reads the bytes meanwhile. Without it, a device may read changing bytes; the page is dirty when the
        // guard is dropped, so it is written again.
        unsafe { &mut *self.bytes }
    }
}

impl Drop for PageWrite<'_> {
    fn drop(&mut self) {
        match self.of {
            WriteOf::File(file, pinned) => self.engine.access().unpin_write(file, pinned),
            WriteOf::Region => self.engine.access().unpin_region(self.frame, true),
        }
    }
}

impl fmt::Debug for PageWrite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageWrite").field("frame", &self.frame).finish_non_exhaustive()
    }
}
