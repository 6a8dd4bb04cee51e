//! [`ReadFuture`]: reading bytes of a file in an async program.

use super::File;
use super::pinning::Pinning;
use super::read::pages_of;
use crate::error::Error;
use crate::machine::copy;
use crate::page::PageRead;
use machine::PAGE_BYTES;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Number of pages that one poll copies at most, 1 MiB, so that other futures of the executor's thread get their turn.
const PAGES_AT_ONCE: u32 = 256;

/// The future of a read; [`File::read_at_async`] makes it. Nothing happens before it is polled.
///
/// Its result is that of the read, and the buffer. Dropping the future drops the buffer with it; the library never keeps
/// the buffer's address, so nothing is written to it afterwards.
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct ReadFuture {
    file: Arc<File>,
    bytes: Vec<u8>,
    offset: u64,
    /// The byte of the file up to which bytes were copied.
    at: u64,
    pinning: Pinning,
}

impl File {
    /// Reads bytes from byte `offset` on into the whole of `bytes`, as [`File::read_at`] does, in an async program. The
    /// future returns the number of bytes read, which is less than `bytes.len()` only at the end of the file, and the
    /// buffer. The calling thread never waits: see [`File::page_async`].
    ///
    /// The pages of the read that are not in memory are read together, as far as the readahead window reaches.
    ///
    /// # Errors
    /// As [`File::read_at`] and [`File::page_async`]. The buffer comes back with an error, too.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("words");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "three words here")?;
    /// let file = Arc::new(memory.open(&path)?);
    /// let (read, bytes) = smol::block_on(async { file.read_at_async(vec![0; 100], 6).await });
    /// assert_eq!(&bytes[..read?], b"words here");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_at_async(self: &Arc<Self>, bytes: Vec<u8>, offset: u64) -> ReadFuture {
        ReadFuture { file: self.clone(), bytes, offset, at: offset, pinning: Pinning::default() }
    }
}

impl ReadFuture {
    /// Copies the bytes of one page. Returns `false` if there are no more bytes to copy.
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        let (file, at) = (&self.file, self.at);
        let end = || file.len().min(self.offset.saturating_add(self.bytes.len() as u64));
        if at >= end() {
            self.pinning.stop(file);
            return Poll::Ready(Ok(false));
        }
        let page = at / PAGE_BYTES as u64;
        let in_page = (at % PAGE_BYTES as u64) as usize;
        let guard = match file.pin_open(page) {
            Some(guard) => {
                // The page for which the future has waited may have come into use meanwhile.
                self.pinning.stop(file);
                guard
            }
            None => {
                let wanted = pages_of(at, end().saturating_sub(at) as usize).len() as u32;
                match self.pinning.poll(file, page as u32, wanted.max(1), cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(frame)) => PageRead::of_file(file.engine(), frame),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
            }
        };
        // The file may have been truncated. Its length is read again now that the page is pinned, so that truncated bytes
        // are not returned as zeroes.
        let n = (PAGE_BYTES - in_page).min(end().saturating_sub(at) as usize);
        let from = (at - self.offset) as usize;
        copy(&guard[in_page..in_page + n], &mut self.bytes[from..from + n]);
        drop(guard);
        self.at += n as u64;
        Poll::Ready(Ok(n > 0))
    }
}

impl Future for ReadFuture {
    type Output = (Result<usize, Error>, Vec<u8>);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        for _ in 0..PAGES_AT_ONCE {
            let result = match this.poll_page(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(true)) => continue,
                Poll::Ready(Ok(false)) => Ok((this.at - this.offset) as usize),
                Poll::Ready(Err(error)) => Err(error),
            };
            this.at = this.offset;
            return Poll::Ready((result, std::mem::take(&mut this.bytes)));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for ReadFuture {
    fn drop(&mut self) {
        self.pinning.stop(&self.file);
    }
}
