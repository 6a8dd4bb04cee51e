//! Pages of files that could not be written and stay dirty (`writeback.write_failure = "keep-dirty"`), and pages that
//! must not be written yet ([`super::log_order`]).
//!
//! It is unknown when these pages can be written. So no dirty limit counts them, reclaim ignores them, and the flusher
//! keeps them apart. At intervals, the flusher tries to write a few such pages of each file. A success shows that other
//! pages of the file may be writable, too, and the flusher then writes these pages at full speed. A sync tries to write
//! all failed pages of its file.
//!
//! *Flow*: a page has the flag [`Flags::WRITE_FAILED`] from the end of a failed write, or from the time when its write is
//! put off, to the end of a successful one. The page is counted and tagged ([`Tag::WriteFailed`]), except while it is
//! being written again. A writer that dirties the page during such a write tags it [`Tag::Dirty`], like other pages. So a
//! page may have both tags, and a dirty page has at least one of them.

use super::flusher::CHUNK_PAGES;
use super::write::{Purpose, WriteControl};
use super::{Backing, Writeback};
use crate::memory::Flags;
use crate::page_cache::{File, Tag, file};
use crate::stat::Gauge;
use machine::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use machine::atomic::{AtomicBool, AtomicI64, AtomicU64};
use machine::{FrameNumber, IoError, Machine, Nanos};

/// Interval at which the flusher retries files that could not be written. Without an interval, a write that fails at
/// once would be retried in an endless loop.
const RETRY_INTERVAL: Nanos = Nanos::from_millis(100);

/// Number of failed pages of a file that the flusher retries at a time. If each page takes 2 ms, these retries slow the
/// writer of another file down by 3 % (scenario `a_file_that_cannot_be_written_is_not_in_the_way_of_others`). Retries
/// of all failed pages at a time would nearly stop that writer.
pub(super) const PROBE_PAGES: u64 = 16;

/// After a retry has succeeded, the flusher retries the failed pages of a file in chunks of this number of pages, as it
/// writes other files. It starts the next chunk once fewer than this number of retried pages are under writeback.
const RECOVERY_PAGES: u64 = CHUNK_PAGES;

/// The record of failed writes to a device: how many pages of its files await a retry, and when the next retry is due.
#[derive(Debug, Default)]
pub(crate) struct FailedFiles {
    /// Number of pages whose last write failed and that are not being written again, summed over all files of the
    /// device.
    pages: AtomicI64,
    /// `true` if a page whose write had failed was written successfully since the flusher last read this flag.
    has_recovered: AtomicBool,
    /// Time, in ns, of the flusher's next attempt to write failed pages. Only the flusher reads it.
    retry_at: AtomicU64,
}

impl FailedFiles {
    /// Returns the number of pages whose write failed and that are not being written again.
    pub(crate) fn pages(&self) -> i64 {
        self.pages.load(Acquire)
    }

    /// Returns whether the next attempt to write the failed pages is due. If it is due, sets the time of the following
    /// attempt.
    fn is_retry_due(&self, now: Nanos) -> bool {
        let is_due = self.pages() > 0 && now.0 >= self.retry_at.load(Relaxed);
        if is_due {
            self.retry_at.store((now + RETRY_INTERVAL).0, Relaxed);
        }
        is_due
    }
}

impl<M: Machine> Writeback<M> {
    /// Adds the pages of a folio to the number of pages whose write failed (`sign` 1), or subtracts them from it
    /// (`sign` -1).
    fn add_write_failed(&self, file: &File<M>, frame: FrameNumber, sign: i64) {
        let change = sign * self.frames.pages(frame) as i64;
        self.memory().add_gauge(frame, Gauge::NrWriteFailed, change);
        file.failed_pages.pages.fetch_add(change, SeqCst);
        self.backing(file.backing).failed_files.pages.fetch_add(change, Release);
    }

    fn add_retried(&self, file: &File<M>, frame: FrameNumber, sign: i64) {
        file.failed_pages.retried.fetch_add(sign * self.frames.pages(frame) as i64, Relaxed);
    }

    /// Records that a dirty page could not be written. The caller has locked the page, or is the interrupt that ends
    /// its write.
    pub(super) fn note_write_failure(&self, file: &File<M>, frame: FrameNumber, error: IoError) {
        let descriptor = &self.frames[frame];
        let index = descriptor.index();
        let was_written = descriptor.is(Flags::WRITEBACK);
        if !self.choices.write_failure.keeps_dirty() {
            // The page may have the flag because its write was put off before ([`super::log_order`]).
            if was_written && descriptor.test_clear(Flags::WRITE_FAILED) {
                self.add_retried(file, frame, -1);
            }
            return file.note_write_error(index, error);
        }
        let failed_before = descriptor.test_set(Flags::WRITE_FAILED);
        if failed_before && was_written {
            self.add_retried(file, frame, -1);
        }
        self.tag_write_failed(file, frame);
        // The failure is noted after the tags are set, so that a sync that has not found the page learns of the
        // failure. It is noted before the page is counted, so that a refused writer learns the reason.
        file.note_write_error(index, error);
        if !failed_before || was_written {
            self.add_write_failed(file, frame, 1);
        }
    }

    /// Treats a dirty page like one whose write failed, but records no error. Returns whether the page was not treated so
    /// before. The caller has locked the page, which is not under writeback.
    pub(super) fn keep_apart(&self, file: &File<M>, frame: FrameNumber) -> bool {
        let was_apart = self.frames[frame].test_set(Flags::WRITE_FAILED);
        self.tag_write_failed(file, frame);
        if !was_apart {
            self.add_write_failed(file, frame, 1);
            // The page counts for no dirty limit any more.
            self.wake_dirty_waiter(self.backing(file.backing));
        }
        !was_apart
    }

    fn tag_write_failed(&self, file: &File<M>, frame: FrameNumber) {
        self.for_each_index(frame, |index| {
            file.index.set_tag(index, Tag::WriteFailed);
            file.index.clear_tag(index, Tag::Dirty);
        });
    }

    /// Counts the write that begins for a locked page as a retry, if the page's last write failed. Otherwise does
    /// nothing.
    pub(super) fn start_retry(&self, file: &File<M>, frame: FrameNumber) {
        if self.frames[frame].is(Flags::WRITE_FAILED) {
            self.for_each_index(frame, |index| file.index.clear_tag(index, Tag::WriteFailed));
            self.add_retried(file, frame, 1);
            self.add_write_failed(file, frame, -1);
        }
    }

    /// Records that a page was written. If the page's previous write had failed, other pages of its file may be
    /// writable again, too, so the flusher is woken.
    pub(super) fn end_good_retry(&self, file: &File<M>, frame: FrameNumber) {
        if self.frames[frame].test_clear(Flags::WRITE_FAILED) {
            self.add_retried(file, frame, -1);
            self.note_recovery(file);
        }
    }

    /// Records that more of a file's pages may be written than before, and wakes the flusher to try it.
    pub(super) fn note_recovery(&self, file: &File<M>) {
        let backing = self.backing(file.backing);
        file.failed_pages.has_recovered.store(true, Release);
        if !backing.failed_files.has_recovered.swap(true, AcqRel) {
            self.machine.wake(&backing.flusher);
        }
    }

    /// Clears the record that the write of a page has failed, because the page no longer has to be written. The caller
    /// has locked the page.
    pub(super) fn forget_write_failure(&self, file: &File<M>, frame: FrameNumber) {
        if self.frames[frame].test_clear(Flags::WRITE_FAILED) {
            self.for_each_index(frame, |index| file.index.clear_tag(index, Tag::WriteFailed));
            self.add_write_failed(file, frame, -1);
        }
    }

    /// Returns whether no more pages of a file may become dirty: some of its own pages could not be written, and the number
    /// of pages of all files that could not be written exceeds the number of dirty pages at which throttling begins. The
    /// reason is that these pages might stay in memory for ever, while other files need the remaining memory.
    pub(crate) fn refuses_writes(&self, file: &File<M>) -> bool {
        file.failed_pages.pages() > 0 && self.memory().gauge(Gauge::NrWriteFailed) > self.dirty_limits().free_run()
    }

    /// Returns the reason why writes to a file are refused; `None` if its pages can be written and only have to wait for
    /// the device.
    pub(crate) fn reason_of_refusal(&self, file: &File<M>) -> Option<file::WriteFailure> {
        self.first_put_off(file).or_else(|| file.last_failure_if_any())
    }

    /// Retries pages whose write failed, in all files of a device. Does so only if the time of the next attempt has
    /// come, or if a retry has succeeded since the last call, which shows that the device may work again.
    pub(super) fn retry_failed_files(&self, backing: &Backing<M>) {
        let is_due = backing.failed_files.is_retry_due(self.machine.now());
        let has_recovered = backing.failed_files.has_recovered.swap(false, AcqRel);
        if !is_due && !has_recovered {
            return;
        }
        let files = self.page_cache().files();
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
            self.write_file(file, WriteControl { purpose: Purpose::Retry, pages_max, pages: 0..u32::MAX });
        }
    }

    /// Records that the flusher begins to retry a file's failed pages. Forgets earlier successes: only writes that
    /// succeed from now on show that the failed pages can be written again.
    pub(super) fn begin_retry(&self, file: &File<M>) {
        file.failed_pages.has_recovered.store(false, Release);
    }

    /// Wakes the flusher if it could not write the failed pages of a file because another task was writing the file.
    pub(super) fn continue_recovery(&self, file: &File<M>) {
        if file.failed_pages.has_recovered.load(Acquire) {
            let backing = self.backing(file.backing);
            backing.failed_files.has_recovered.store(true, Release);
            self.machine.wake(&backing.flusher);
        }
    }
}
