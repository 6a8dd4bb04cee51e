//! [`PageFuture`]: pinning a page of a file in an async program.

use super::File;
use super::pinning::Pinning;
use crate::error::Error;
use crate::page_owned::OwnedPageRead;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The future of a pinned page; [`File::page_async`] makes it. Nothing happens before it is polled.
///
/// While the future waits for the disk, it keeps the frame of its page. Dropping it takes its waker off the library's
/// lists and lets the frame go; a read that is under way goes on, and its page stays in memory like any other. Polled
/// again after it was ready, it pins the page anew.
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct PageFuture {
    file: Arc<File>,
    page: u64,
    pinning: Pinning,
}

const _: () = assert!(size_of::<PageFuture>() <= 64, "10,000 futures take 640 kB");

impl File {
    /// Pins page `page` (of 4096 bytes) for reading, as [`File::page_owned`] does, in an async program. The calling thread
    /// never waits: neither for the disk, nor for a writer of the page, nor for memory. The future works with any
    /// executor.
    ///
    /// A page that is in memory is pinned at the first poll, without an allocation. Reads are independent of each other:
    /// any number of futures may wait at the same time. A device gets 256 of their reads at a time; the others stand in
    /// line. The pages that are being read take at most a quarter of the memory; a read beyond this, and one that finds no
    /// free page, is started by a thread of the library as soon as kswapd, or this thread itself, has freed one.
    ///
    /// # Errors
    /// As [`File::page`]; [`Error::ShutDown`] also when the memory is shut down while the future waits; [`Error::System`]
    /// when the system grants no thread.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, [7; 8192])?;
    /// let file = Arc::new(memory.open(&path)?);
    /// let page = smol::block_on(async { file.page_async(1).await })?;
    /// assert_eq!(page[..], [7; 4096]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn page_async(self: &Arc<Self>, page: u64) -> PageFuture {
        PageFuture { file: self.clone(), page, pinning: Pinning::default() }
    }

    /// Checks that a page lies within the file.
    fn check_within(&self, page: u64) -> Result<(), Error> {
        let pages = self.pages();
        if page < pages { Ok(()) } else { Err(Error::OutOfRange { page, pages }) }
    }
}

impl Future for PageFuture {
    type Output = Result<OwnedPageRead, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { file, page, pinning } = self.get_mut();
        // The file may be truncated while the future waits, so the page is compared with the end before and after.
        if let Err(error) = file.check_within(*page) {
            pinning.stop(file);
            return Poll::Ready(Err(error));
        }
        pinning.poll(file, *page as u32, 1, cx).map(|pinned| {
            let guard = OwnedPageRead::of_file(file.clone(), pinned?);
            file.check_within(*page).map(|()| guard)
        })
    }
}

impl Drop for PageFuture {
    fn drop(&mut self) {
        self.pinning.stop(&self.file);
    }
}
