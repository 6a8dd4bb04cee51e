//! Pages pinned by an application: their bytes without a copy.

#![allow(unsafe_code)]

use crate::machine::Host;
use crate::memory::Shared;
use engine::mapping::File as Cached;
use machine::{FrameNumber, PAGE_BYTES};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A page of zeroes, for pages of a region that nobody has written.
static ZEROES: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// What a guard gives back when it is dropped.
enum Pinned<'a> {
    FileRead,
    FileWrite(&'a Arc<Cached<Host>>),
    Region,
    Zeroes,
}

/// A page pinned for reading: 4096 bytes. The page stays in memory, and nobody writes it, until this is dropped.
///
/// Do not hold one while writing to the same page by other means: that would wait for itself.
#[must_use = "the page is let go at once"]
pub struct PageRead<'a> {
    shared: &'a Shared,
    frame: FrameNumber,
    pinned: Pinned<'a>,
}

impl<'a> PageRead<'a> {
    #[inline]
    pub(crate) fn of_file(shared: &'a Shared, frame: FrameNumber) -> Self {
        Self { shared, frame, pinned: Pinned::FileRead }
    }

    /// `None` is a page that nobody has written.
    pub(crate) fn of_region(shared: &'a Shared, frame: Option<FrameNumber>) -> Self {
        match frame {
            Some(frame) => Self { shared, frame, pinned: Pinned::Region },
            None => Self { shared, frame: FrameNumber(0), pinned: Pinned::Zeroes },
        }
    }
}

impl Deref for PageRead<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        if matches!(self.pinned, Pinned::Zeroes) {
            return &ZEROES;
        }
        let bytes = self.shared.engine.machine.arena().pointer(self.frame);
        // SAFETY: the frame is in the arena for as long as `shared` lives. The guard has a reference of the page, so that
        // it stays whose it is, and its shared latch: whoever writes a page's bytes has the exclusive one, or fills a
        // page that is not valid yet, which no guard is made of.
        unsafe { std::slice::from_raw_parts(bytes, PAGE_BYTES) }
    }
}

impl Drop for PageRead<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.pinned {
            Pinned::FileRead => self.shared.engine.unpin_read(self.frame),
            Pinned::Region => self.shared.engine.unpin_region(self.frame, false),
            Pinned::Zeroes | Pinned::FileWrite(_) => {}
        }
    }
}

impl fmt::Debug for PageRead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageRead").field("frame", &self.frame).finish_non_exhaustive()
    }
}

/// A page pinned for writing: 4096 bytes. Nobody else reads or writes it until this is dropped.
///
/// Do not hold one while reading or writing the same page by other means: that would wait for itself.
#[must_use = "the page is let go at once"]
pub struct PageWrite<'a> {
    shared: &'a Shared,
    frame: FrameNumber,
    pinned: Pinned<'a>,
}

impl<'a> PageWrite<'a> {
    pub(crate) fn of_file(shared: &'a Shared, file: &'a Arc<Cached<Host>>, frame: FrameNumber) -> Self {
        Self { shared, frame, pinned: Pinned::FileWrite(file) }
    }

    pub(crate) fn of_region(shared: &'a Shared, frame: FrameNumber) -> Self {
        Self { shared, frame, pinned: Pinned::Region }
    }
}

impl Deref for PageWrite<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let bytes = self.shared.engine.machine.arena().pointer(self.frame);
        // SAFETY: as in `PageRead`; the guard has the exclusive latch.
        unsafe { std::slice::from_raw_parts(bytes, PAGE_BYTES) }
    }
}

impl DerefMut for PageWrite<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes = self.shared.engine.machine.arena().pointer(self.frame);
        // SAFETY: as in `PageRead`; the guard has the exclusive latch, so that there is no other guard of the page, and
        // the engine copies bytes only under a latch. A device may read them meanwhile: what it gets is written again,
        // for the page is dirty when the guard lets go.
        unsafe { std::slice::from_raw_parts_mut(bytes, PAGE_BYTES) }
    }
}

impl Drop for PageWrite<'_> {
    fn drop(&mut self) {
        match self.pinned {
            Pinned::FileWrite(file) => self.shared.engine.unpin_write(file, self.frame),
            Pinned::Region => self.shared.engine.unpin_region(self.frame, true),
            Pinned::FileRead | Pinned::Zeroes => {}
        }
    }
}

impl fmt::Debug for PageWrite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageWrite").field("frame", &self.frame).finish_non_exhaustive()
    }
}
