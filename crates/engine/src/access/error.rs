//! Errors that a task can get.

use crate::allocate::OutOfMemory;
use crate::page_cache::File;
use crate::page_cache::file::WriteFailure;
use machine::{IoError, Machine, PAGE_BYTES};
use std::fmt;

/// The reason why an access failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// No page is free and none can be made free.
    OutOfMemory {
        /// The allocation request that failed.
        cause: OutOfMemory,
        /// Number of free pages. They are left for tasks that reclaim.
        free_pages: u64,
        /// Number of free swap slots.
        free_slots: u32,
        /// Total number of swap slots.
        total_slots: u32,
        /// Number of file pages that are dirty or under writeback. They can be freed only once they are written.
        unwritten_pages: u64,
        /// `true` if `lru.swappiness` is more than 0. If it is 0, free slots may stay unused.
        may_swap: bool,
    },
    /// A page of a file could not be read.
    Read {
        /// Number of the file that the error is about.
        file: u32,
        /// Offset of the page's first byte in the file, bytes.
        offset: u64,
        /// The error that the device reported.
        source: IoError,
    },
    /// Page tables have reached the limit on their memory. A page table stays until its region is dropped.
    TooManyTables {
        /// Number of pages that the page tables of all regions take.
        tables: u64,
        /// Number of pages of lent blocks that count towards the same limit.
        blocks: u64,
    },
    /// A page could not be read back from swap.
    SwapRead {
        /// Number of the swap slot that could not be read.
        slot: u32,
        /// The error that the device reported.
        source: IoError,
    },
    /// A write of pages of a file has failed since a task last asked whether writes had failed.
    Write {
        /// Number of the file that the error is about.
        file: u32,
        /// Offset in the file of the last page that could not be written, bytes.
        offset: u64,
        /// The error that the device reported.
        source: IoError,
    },
    /// The device has no block for a page that is to be written.
    NoSpace {
        /// Number of the file that the error is about.
        file: u32,
        /// Number of bytes from the start of the file to the first byte that was not written.
        offset: u64,
    },
    /// The system grants no memory for the part of the file's index (its table from page numbers to frames) that the
    /// access needs.
    NoIndex {
        /// Number of the file that the error is about.
        file: u32,
        /// Offset in the file of the page that could not be indexed, bytes.
        offset: u64,
    },
    /// The page has as many readers as its descriptor can count.
    TooManyReaders {
        /// The number of the page in its file or region.
        page: u32,
    },
    /// A page after the end of its file was touched through a mapping (`SIGBUS`), or was to be pinned for writing.
    BeyondEnd {
        /// Number of the file that the error is about.
        file: u32,
        /// Offset of the page's first byte in the file, bytes.
        offset: u64,
    },
    /// The task was killed.
    Killed,
}

impl Error {
    /// Creates the error for a failed write of a page of a file.
    pub(super) fn of_failure<M: Machine>(file: &File<M>, failure: WriteFailure) -> Self {
        Self::Write { file: file.id, offset: u64::from(failure.page) * PAGE_BYTES as u64, source: failure.source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { cause, free_pages, free_slots, total_slots, unwritten_pages, may_swap } => {
                write!(f, "{cause} ({free_pages} pages in reserve, {unwritten_pages} dirty or being written; ")?;
                match (free_slots, total_slots) {
                    (_, 0) => write!(f, "there is no swap)"),
                    (0, total) => write!(f, "swap is full: all {total} slots in use)"),
                    (free, total) if *may_swap => write!(f, "{free} of {total} swap slots free)"),
                    (free, total) => {
                        write!(f, "{free} of {total} swap slots free, unused with lru.swappiness = 0)")
                    }
                }
            }
            Self::Read { file, offset, source } => write!(f, "file {file}, offset {offset}: read failed: {source}"),
            Self::TooManyTables { tables, blocks: 0 } => {
                write!(f, "out of memory for page tables: they take {tables} pages, which is half of memory")
            }
            Self::TooManyTables { tables, blocks } => write!(
                f,
                "out of memory for page tables: they take {tables} pages, and contiguous blocks {blocks}, which \
                 together is half of memory"
            ),
            Self::SwapRead { slot, source } => write!(f, "swap slot {slot}: read failed: {source}"),
            Self::Write { file, offset, source } => write!(f, "file {file}, offset {offset}: write failed: {source}"),
            Self::NoSpace { file, offset } => {
                write!(f, "file {file}, offset {offset}: no space left on device")
            }
            Self::NoIndex { file, offset } => {
                write!(f, "file {file}, offset {offset}: there is no memory for the index of the file so far into it")
            }
            Self::TooManyReaders { page } => {
                write!(f, "page {page} has {} readers, which is as many as can be", crate::memory::READERS_MAX)
            }
            Self::BeyondEnd { file, offset } => {
                write!(f, "file {file}, offset {offset}: a page after the end of its file was touched")
            }
            Self::Killed => write!(f, "the task was told to end"),
        }
    }
}

impl std::error::Error for Error {}
