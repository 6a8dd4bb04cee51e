//! [`ChangeFuture`]: writes and syncs in an async program. They may sleep in many places, so a few threads of the library
//! carry them out.

use super::File;
use crate::error::Error;
use crate::work::Work;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The future of a write or a sync, with the result `T`; [`File::write_at_async`] and others make it. Nothing happens
/// before it is polled.
///
/// If it is dropped before a thread has begun the call, the call is not made. If it is dropped later, the call is made to
/// its end, and its result is lost.
#[must_use = "a future does nothing until it is polled"]
pub struct ChangeFuture<T> {
    file: Arc<File>,
    state: State<T>,
}

enum State<T> {
    /// The call, as long as the future was not polled.
    New(Box<dyn FnOnce(&File) -> T + Send>, Refuse<T>),
    Waits(Work<T>),
    Over,
}

/// Makes a result from an error, if the system grants no thread.
type Refuse<T> = fn(Error) -> T;

impl File {
    /// Writes `bytes` from byte `offset` on, as [`File::write_at`] does, in an async program. The future returns the
    /// result of the write, and the buffer.
    ///
    /// One of up to four threads, which all futures of the memory share, makes the call. A write therefore costs two
    /// switches of threads, and writes beyond the fourth at a time stand in line. If a page has to be read first, memory
    /// is short, or the file's writers are throttled, the thread waits for this.
    ///
    /// # Errors
    /// As [`File::write_at`]; also when the system grants no thread. The buffer comes back with an error, too, except if
    /// there is no thread.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = Arc::new(memory.create(&path)?);
    /// smol::block_on(async {
    ///     let (written, _buffer) = file.write_at_async(b"durable".to_vec(), 0).await;
    ///     written?;
    ///     file.sync_data_async().await
    /// })?;
    /// assert_eq!(std::fs::read(&path)?, b"durable");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_at_async(
        self: &Arc<Self>,
        bytes: Vec<u8>,
        offset: u64,
    ) -> ChangeFuture<(Result<usize, Error>, Vec<u8>)> {
        let refuse = |error| (Err(error), Vec::new());
        self.change_async(refuse, move |file| (file.write_at(&bytes, offset), bytes))
    }

    /// Makes all data durable that were written to the file, as [`File::sync_data`] does, in an async program. One of up to
    /// four threads, which all futures of the memory share, makes the call: see [`File::write_at_async`]. Calls that run
    /// at the same time share the work.
    ///
    /// # Errors
    /// As [`File::sync_data`]; also when the system grants no thread.
    pub fn sync_data_async(self: &Arc<Self>) -> ChangeFuture<Result<(), Error>> {
        self.change_async(Err, Self::sync_data)
    }

    /// Makes all data and all metadata of the file durable, as [`File::sync_all`] does, in an async program:
    /// see [`File::sync_data_async`].
    ///
    /// # Errors
    /// As [`File::sync_data_async`].
    pub fn sync_all_async(self: &Arc<Self>) -> ChangeFuture<Result<(), Error>> {
        self.change_async(Err, Self::sync_all)
    }

    fn change_async<T>(
        self: &Arc<Self>,
        refuse: Refuse<T>,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> ChangeFuture<T> {
        ChangeFuture { file: self.clone(), state: State::New(Box::new(call), refuse) }
    }
}

// No part of the future is pinned in place.
impl<T> Unpin for ChangeFuture<T> {}

impl<T: Send + 'static> Future for ChangeFuture<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        if let State::Waits(work) = &mut this.state {
            return Pin::new(work).poll(cx);
        }
        if let State::New(call, refuse) = std::mem::replace(&mut this.state, State::Over) {
            let own = this.file.clone();
            match this.file.shared.futures.changers.run(cx.waker(), move || call(&own)) {
                Ok(work) => this.state = State::Waits(work),
                Err(error) => return Poll::Ready(refuse(error)),
            }
        }
        Poll::Pending
    }
}

impl<T> fmt::Debug for ChangeFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeFuture").field("file", &self.file).finish_non_exhaustive()
    }
}
