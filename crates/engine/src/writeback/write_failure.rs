//! Pages of files that could not be written and stay dirty (`writeback.write_failure = "keep-dirty"`).
//!
//! It is unknown when these pages can be written. So no dirty limit counts them, reclaim ignores them, and the flusher
//! keeps them apart. The flusher tries a few pages of each file at intervals. A success shows that other pages may be
//! writable, too, and these are then written at full speed. A sync writes all of them.
//!
//! *Flow*: a page is [`Flags::WRITE_FAILED`] from the end of a failed write to the end of a successful one. It is
//! counted and tagged ([`Tag::WriteFailed`]), except during another write. A writer that dirties it meanwhile tags it
//! like other pages. So a page may have both tags, and a dirty page has at least one of them.

use super::flusher::CHUNK_PAGES;
use super::write::{Purpose, WriteControl};
use super::{Backing, Writeback};
use crate::memory::Flags;
use crate::page_cache::{File, Tag, file};
use crate::stat::Gauge;
use machine::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::atomic::{AtomicBool, AtomicI64, AtomicU64};
use machine::{FrameNumber, IoError, Machine, Nanos};

/// Interval at which files that could not be written are tried again. A write that fails at once would fail at once
/// again.
const RETRY_INTERVAL: Nanos = Nanos::from_millis(100);

/// Number of pages of a file that are tried at a time. Chosen: at 2 ms a page they take 3 % of the rate of another
/// file's writer (scenario `a_file_that_cannot_be_written_is_not_in_the_way_of_others`), where trying all of them at a
/// time took nearly all of it.
const PROBE_PAGES: u64 = 16;

/// Number of pages that are written at a time of a file that can be written again: a chunk, as of other files. Another
/// chunk may be under way already.
const RECOVERY_PAGES: u64 = CHUNK_PAGES;

/// The record of all files of a device.
#[derive(Debug, Default)]
pub(crate) struct FailedFiles {
    /// Sum of these pages over all files.
    pages: AtomicI64,
    /// A page of one of them was written since the flusher last looked.
    has_recovered: AtomicBool,
    /// Time of the next attempt, ns; only the flusher reads it.
    retry_at: AtomicU64,
}

impl FailedFiles {
    /// Returns the number of pages that could not be written and are not being written again.
    pub(crate) fn pages(&self) -> i64 {
        self.pages.load(Acquire)
    }

    /// Returns whether an attempt is due, and sets the time of the next one.
    fn is_retry_due(&self, now: Nanos) -> bool {
        let is_due = self.pages() > 0 && now.0 >= self.retry_at.load(Relaxed);
        if is_due {
            self.retry_at.store((now + RETRY_INTERVAL).0, Relaxed);
        }
        is_due
    }
}

impl<M: Machine> Writeback<M> {
    /// Counts the pages of a folio as failed (`sign` 1), or not failed any more (-1).
    fn add_write_failed(&self, file: &File<M>, frame: FrameNumber, sign: i64) {
        let change = sign * self.frames.pages(frame) as i64;
        self.add_gauge(frame, Gauge::NrWriteFailed, change);
        file.failed_pages.pages.fetch_add(change, Release);
        self.backing(file.backing).failed_files.pages.fetch_add(change, Release);
    }

    fn add_retried(&self, file: &File<M>, frame: FrameNumber, sign: i64) {
        file.failed_pages.retried.fetch_add(sign * self.frames.pages(frame) as i64, Relaxed);
    }

    /// Notes that a dirty page could not be written. The page is locked, or the completion of its write works on it.
    pub(super) fn note_write_failure(&self, file: &File<M>, frame: FrameNumber, error: IoError) {
        let descriptor = &self.frames[frame];
        let index = descriptor.index();
        if !self.choices.write_failure.keeps_dirty() {
            return file.note_write_error(index, error);
        }
        let failed_before = descriptor.test_set(Flags::WRITE_FAILED);
        let was_written = descriptor.is(Flags::WRITEBACK);
        if failed_before && was_written {
            self.add_retried(file, frame, -1);
        }
        self.for_each_index(frame, |index| {
            file.index.set_tag(index, Tag::WriteFailed);
            file.index.clear_tag(index, Tag::Dirty);
        });
        // After the tag: a sync that has not found the page learns of the failure. Before the page is counted: a
        // refused writer learns the reason.
        file.note_write_error(index, error);
        if !failed_before || was_written {
            self.add_write_failed(file, frame, 1);
        }
    }

    /// Notes that a locked page is written again, if its last write failed.
    pub(super) fn start_retry(&self, file: &File<M>, frame: FrameNumber) {
        if self.frames[frame].is(Flags::WRITE_FAILED) {
            self.for_each_index(frame, |index| file.index.clear_tag(index, Tag::WriteFailed));
            self.add_retried(file, frame, 1);
            self.add_write_failed(file, frame, -1);
        }
    }

    /// Notes that a page was written. If it could not be before, other pages of its file may be writable again, too.
    pub(super) fn end_good_retry(&self, file: &File<M>, frame: FrameNumber) {
        if self.frames[frame].test_clear(Flags::WRITE_FAILED) {
            self.add_retried(file, frame, -1);
            let backing = self.backing(file.backing);
            file.failed_pages.has_recovered.store(true, Release);
            if !backing.failed_files.has_recovered.swap(true, AcqRel) {
                self.machine.wake(&backing.flusher);
            }
        }
    }

    /// Forgets the failed write of a locked page that does not have to be written any more.
    pub(super) fn forget_write_failure(&self, file: &File<M>, frame: FrameNumber) {
        if self.frames[frame].test_clear(Flags::WRITE_FAILED) {
            self.for_each_index(frame, |index| file.index.clear_tag(index, Tag::WriteFailed));
            self.add_write_failed(file, frame, -1);
        }
    }

    /// Returns the last write failure of a file if no more of its pages may become dirty. That is so if pages of it
    /// cannot be written, and memory has as many such pages as may be dirty without holding writers back. Their number
    /// may never fall, and other files need the rest.
    pub(crate) fn refuses_writes(&self, file: &File<M>) -> Option<file::WriteFailure> {
        let is_refused =
            file.failed_pages.pages() > 0 && self.gauge(Gauge::NrWriteFailed) > self.dirty_limits().free_run();
        is_refused.then(|| file.last_failure())
    }

    /// Tries files of a device again that could not be written, if it is time for that or one of them can be.
    pub(super) fn retry_failed_files(&self, backing: &Backing<M>) {
        let is_due = backing.failed_files.is_retry_due(self.machine.now());
        let has_recovered = backing.failed_files.has_recovered.swap(false, AcqRel);
        if !is_due && !has_recovered {
            return;
        }
        let files = self.files();
        for file in files.iter().filter(|file| file.backing == backing.device) {
            let failed = &file.failed_pages;
            let (pages, retried) = (failed.pages(), failed.retried.load(Relaxed));
            let has_recovered = failed.has_recovered.load(Acquire);
            let pages_max = match (pages, retried) {
                (0, 0) => {
                    failed.has_recovered.store(false, Release);
                    continue;
                }
                (0, _) => continue,
                _ if has_recovered && retried < RECOVERY_PAGES as i64 => RECOVERY_PAGES,
                (_, 0) if is_due => PROBE_PAGES,
                _ => continue,
            };
            self.write_file(file, WriteControl { purpose: Purpose::Retry, pages_max, end: u32::MAX });
        }
    }

    /// Notes that the flusher has the file's turn to retry its failed pages.
    pub(super) fn begin_retry(&self, file: &File<M>) {
        file.failed_pages.has_recovered.store(false, Release);
    }

    /// Continues the recovery if the flusher had asked for the file's turn while another task had it.
    pub(super) fn continue_recovery(&self, file: &File<M>) {
        if file.failed_pages.has_recovered.load(Acquire) {
            let backing = self.backing(file.backing);
            backing.failed_files.has_recovered.store(true, Release);
            self.machine.wake(&backing.flusher);
        }
    }
}
