//! Parts shared by the tests of the machine and of the library.
#![allow(dead_code)]

pub mod gate;
pub mod hold;
pub mod pages;

use highwater::{Builder, Memory};
use machine::{Completions, FrameNumber, IoError, Operation, PAGE_BYTES, Request};
use std::fs::{File, OpenOptions};
use std::sync::{Arc, Condvar, Mutex};

/// Returns a new, empty folder.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// Returns the builder of a memory of 8 MiB. With `HIGHWATER_TEST_IO=threads` the memory does not use io_uring, for
/// tools such as Valgrind that do not know io_uring well.
pub fn builder() -> Builder {
    Memory::builder().size(8 << 20).io_uring(std::env::var_os("HIGHWATER_TEST_IO").is_none_or(|io| io != "threads"))
}

/// Starts a memory of 8 MiB with the settings of [`builder`].
pub fn memory() -> Memory {
    builder().start().expect("8 MiB are there")
}

/// Returns a new, empty, unnamed file, in the folder `HIGHWATER_TEST_DIR` if that is set.
pub fn temporary_file() -> File {
    match std::env::var_os("HIGHWATER_TEST_DIR") {
        Some(directory) => tempfile::tempfile_in(directory),
        None => tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")),
    }
    .expect("a directory for tests is there")
}

/// Returns a new, empty, unnamed file in memory (tmpfs). Older kernels have no direct I/O for tmpfs, so requests to the
/// file then use the kernel's page cache.
pub fn memory_file() -> File {
    tempfile::tempfile_in("/dev/shm").unwrap_or_else(|_| temporary_file())
}

/// Opens the file behind the handle `file` once more, through `/proc/self/fd`, and returns the new handle.
pub fn reopen(file: &File) -> File {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().read(true).write(true).open(path).expect("it is open already")
}

/// A receiver that keeps finished requests.
#[derive(Default)]
pub struct Receiver {
    finished: Mutex<Vec<(Request, Result<(), IoError>)>>,
    changed: Condvar,
}

impl Receiver {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Waits for `count` finished requests, then removes and returns all that have finished.
    pub fn take(&self, count: usize) -> Vec<(Request, Result<(), IoError>)> {
        let mut finished = self.finished.lock().unwrap();
        while finished.len() < count {
            finished = self.changed.wait(finished).unwrap();
        }
        std::mem::take(&mut *finished)
    }

    /// Returns the number of finished requests that [`Self::take`] has not returned yet.
    pub fn count(&self) -> usize {
        self.finished.lock().unwrap().len()
    }

    /// Waits for one finished request and returns its result.
    pub fn one(&self) -> Result<(), IoError> {
        let mut finished = self.take(1);
        assert_eq!(finished.len(), 1);
        finished.remove(0).1
    }
}

impl Completions for Receiver {
    fn complete(&self, request: Request, result: Result<(), IoError>) {
        self.finished.lock().unwrap().push((request, result));
        self.changed.notify_all();
    }
}

/// Returns a request that moves consecutive blocks from `block` on to or from `frames`. A read is marked as one for
/// which the submitter waits.
pub fn request(
    device: machine::DeviceId,
    operation: Operation,
    block: u64,
    frames: impl IntoIterator<Item = u32>,
) -> Request {
    let frames = frames.into_iter().map(FrameNumber).collect();
    Request { device, operation, block, frames, is_sync: operation == Operation::Read }
}

/// Returns the bytes of a page in which every 4 bytes are `number`.
pub fn page(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(PAGE_BYTES / 4)
}
