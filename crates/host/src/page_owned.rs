//! Guards of pages that keep their file or region alive, for programs that store a guard beside its file, such as the
//! cursor of a B-tree.

#![allow(unsafe_code)]

use crate::error::Error;
use crate::file::File;
use crate::machine::Host;
use crate::page::{OF_REGION, ReadOf, ZEROES, give_back, hold, raise_log_number};
use crate::region::Region;
use engine::Engine;
use engine::access::PinnedForWrite;
use machine::{FrameNumber, PAGE_BYTES};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::Arc;

/// The file or region whose page an owned guard holds.
#[derive(Clone, Debug)]
enum Keeps {
    File(Arc<File>),
    Region(Arc<Region>),
}

impl Keeps {
    fn engine(&self) -> &Arc<Engine<Host>> {
        match self {
            Self::File(file) => file.engine(),
            Self::Region(region) => region.engine(),
        }
    }
}

/// A page pinned for reading, as by [`PageRead`](crate::PageRead), with a share of its file or region, which therefore
/// stays open. [`File::page_owned`] and [`Region::page_owned`] make it.
///
/// The guard is a value of a few words and needs no allocation. It can be stored, and sent to another thread. It always
/// takes a reference and the page's latch, so it costs more than a [`PageRead`](crate::PageRead) of a page that is used
/// often.
#[must_use = "the page is let go at once"]
pub struct OwnedPageRead {
    keeps: Keeps,
    bytes: *const [u8; PAGE_BYTES],
    frame: FrameNumber,
    of: ReadOf,
}

// SAFETY: no thread changes the guard's bytes while the guard exists, and its other fields are `Send`. Any thread can
// release the latch and the reference.
unsafe impl Send for OwnedPageRead {}
// SAFETY: no thread changes the guard's bytes while the guard exists, and its other fields are `Sync`.
unsafe impl Sync for OwnedPageRead {}

const _: () = assert!(size_of::<OwnedPageRead>() <= 4 * size_of::<usize>(), "an owned guard is a few words");

impl OwnedPageRead {
    pub(crate) fn of_file(file: Arc<File>, frame: FrameNumber) -> Self {
        let bytes = file.engine().machine().bytes(frame);
        Self { keeps: Keeps::File(file), bytes, frame, of: ReadOf::File }
    }

    pub(crate) fn of_region(region: Arc<Region>, frame: Option<FrameNumber>) -> Self {
        let (frame, bytes, of) = match frame {
            Some(frame) => (frame, region.engine().machine().bytes(frame).cast_const(), ReadOf::Region),
            None => (FrameNumber(0), &raw const ZEROES, ReadOf::Zeroes),
        };
        Self { keeps: Keeps::Region(region), bytes, frame, of }
    }
}

impl Deref for OwnedPageRead {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `keeps` keeps the engine and thereby the arena alive. The guard has a reference and the shared latch, so
        // nobody writes the page; or it shows the page of zeroes, which is never written.
        unsafe { &*self.bytes }
    }
}

impl Drop for OwnedPageRead {
    fn drop(&mut self) {
        give_back(self.keeps.engine(), self.frame, self.of);
    }
}

impl fmt::Debug for OwnedPageRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPageRead").field("frame", &self.frame).finish_non_exhaustive()
    }
}

/// A page pinned for writing, as by [`PageWrite`](crate::PageWrite), with a share of its file or region, which therefore
/// stays open. [`File::page_mut_owned`] and [`Region::page_mut_owned`] make it.
#[must_use = "the page is let go at once"]
pub struct OwnedPageWrite {
    keeps: Keeps,
    bytes: *mut [u8; PAGE_BYTES],
    pinned: PinnedForWrite,
}

// SAFETY: the guard's bytes are accessible through this guard alone, and its other fields are `Send`. Any thread can
// release the latch and the reference.
unsafe impl Send for OwnedPageWrite {}
// SAFETY: a shared guard only reads its bytes, which no other thread changes; its other fields are `Sync`.
unsafe impl Sync for OwnedPageWrite {}

impl OwnedPageWrite {
    pub(crate) fn of_file(file: Arc<File>, pinned: PinnedForWrite) -> Self {
        let bytes = file.engine().machine().bytes(pinned.frame);
        Self { keeps: Keeps::File(file), bytes, pinned }
    }

    pub(crate) fn of_region(region: Arc<Region>, frame: FrameNumber) -> Self {
        let bytes = region.engine().machine().bytes(frame);
        Self { keeps: Keeps::Region(region), bytes, pinned: PinnedForWrite { frame, bytes: PAGE_BYTES } }
    }

    /// Raises the page's log number, as [`PageWrite::raise_log_number`](crate::PageWrite::raise_log_number) does.
    ///
    /// # Errors
    /// As there.
    pub fn raise_log_number(&mut self, number: u64) -> Result<(), Error> {
        match &self.keeps {
            Keeps::File(file) => raise_log_number(file.engine(), file.cached(), self.pinned.frame, number),
            Keeps::Region(_) => Err(Error::WriteOrder(OF_REGION)),
        }
    }

    /// Holds the page, as [`PageWrite::hold`](crate::PageWrite::hold) does.
    ///
    /// # Errors
    /// As there.
    pub fn hold(&mut self) -> Result<(), Error> {
        match &self.keeps {
            Keeps::File(file) => hold(file.engine(), file.cached(), self.pinned.frame),
            Keeps::Region(_) => Err(Error::WriteOrder(OF_REGION)),
        }
    }

    /// Turns the guard into one for reading. No other thread changes the page in between.
    pub fn downgrade(self) -> OwnedPageRead {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped and not used any more, so `keeps` is moved out once.
        let keeps = unsafe { ptr::read(&raw const this.keeps) };
        let (access, frame) = (keeps.engine().access(), this.pinned.frame);
        let of = match &keeps {
            Keeps::File(file) => {
                access.downgrade(file.cached(), this.pinned);
                ReadOf::File
            }
            Keeps::Region(_) => {
                access.downgrade_region(frame);
                ReadOf::Region
            }
        };
        OwnedPageRead { bytes: this.bytes, keeps, frame, of }
    }
}

impl Deref for OwnedPageWrite {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `keeps` keeps the engine and thereby the arena alive, and the guard has the exclusive latch.
        unsafe { &*self.bytes }
    }
}

impl DerefMut for OwnedPageWrite {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `PageWrite`: the guard has the exclusive latch, so nobody else touches the bytes but perhaps a
        // device that reads them, after which the page is written again.
        unsafe { &mut *self.bytes }
    }
}

impl Drop for OwnedPageWrite {
    fn drop(&mut self) {
        match &self.keeps {
            Keeps::File(file) => file.engine().access().unpin_write(file.cached(), self.pinned),
            Keeps::Region(region) => region.engine().access().unpin_region(self.pinned.frame, true),
        }
    }
}

impl fmt::Debug for OwnedPageWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPageWrite").field("frame", &self.pinned.frame).finish_non_exhaustive()
    }
}
