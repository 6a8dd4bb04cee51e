//! Parts shared by the tests of the machine and of the library.
#![allow(dead_code)]

pub mod gate;
pub mod pages;

use highwater::{Builder, Memory};
use machine::{Completions, FrameNumber, IoError, Operation, PAGE_BYTES, Request};
use std::fs::{File, OpenOptions};
use std::sync::{Arc, Condvar, Mutex};

/// An empty folder.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// A memory of 8 MiB. With `HIGHWATER_TEST_IO=threads`, no io_uring: not every tool that watches a program knows it.
pub fn builder() -> Builder {
    Memory::builder().size(8 << 20).io_uring(std::env::var_os("HIGHWATER_TEST_IO").is_none_or(|io| io != "threads"))
}

/// Makes and starts the memory.
pub fn memory() -> Memory {
    builder().start().expect("8 MiB are there")
}

/// A new, empty, unnamed file; in `HIGHWATER_TEST_DIR` if that is set.
pub fn temporary_file() -> File {
    match std::env::var_os("HIGHWATER_TEST_DIR") {
        Some(directory) => tempfile::tempfile_in(directory),
        None => tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")),
    }
    .expect("a directory for tests is there")
}

/// Makes the file in memory; older systems cannot bypass the kernel's page cache there.
pub fn memory_file() -> File {
    tempfile::tempfile_in("/dev/shm").unwrap_or_else(|_| temporary_file())
}

/// Opens an open file once more.
pub fn reopen(file: &File) -> File {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().read(true).write(true).open(path).expect("it is open already")
}

/// Keeps finished requests.
#[derive(Default)]
pub struct Receiver {
    finished: Mutex<Vec<(Request, Result<(), IoError>)>>,
    changed: Condvar,
}

impl Receiver {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Waits for `count` finished requests and takes them all.
    pub fn take(&self, count: usize) -> Vec<(Request, Result<(), IoError>)> {
        let mut finished = self.finished.lock().unwrap();
        while finished.len() < count {
            finished = self.changed.wait(finished).unwrap();
        }
        std::mem::take(&mut *finished)
    }

    /// Returns the finished requests that were not taken.
    pub fn count(&self) -> usize {
        self.finished.lock().unwrap().len()
    }

    /// Waits for one request and returns how it ended.
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

/// A request of consecutive blocks; reads are waited for.
pub fn request(
    device: machine::DeviceId,
    operation: Operation,
    block: u64,
    frames: impl IntoIterator<Item = u32>,
) -> Request {
    let frames = frames.into_iter().map(FrameNumber).collect();
    Request { device, operation, block, frames, is_sync: operation == Operation::Read }
}

/// A page that is filled with its number.
pub fn page(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(PAGE_BYTES / 4)
}
