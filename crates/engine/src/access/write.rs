//! Buffered writes, and `fsync`.

use super::{Access, Error};
use crate::lru::Insert;
use crate::memory::{Flags, Gfp, Owner};
use crate::page_cache::{File, NotPinned, Wait};
use crate::task::Task;
use machine::atomic::AtomicU32;
use machine::{FrameNumber, Func, Machine, Order, PAGE_BYTES, Step};
use std::ops::Range;
use std::sync::Arc;

impl<M: Machine> Access<M> {
    /// Writes to a file at a byte offset, and extends the file if the bytes go beyond its end. The bytes are sure to be
    /// on the device only after [`Access::fsync`]. This function may sleep.
    ///
    /// # Errors
    /// When memory is exhausted, when the device is full, or when a page that is written in part cannot be read. Also
    /// when earlier writes of the file's pages to the device failed, and memory holds too many pages whose write
    /// failed. A killed task gets [`Error::Killed`]. The bytes before the failed page were written.
    pub fn write(&self, task: &mut Task, file: &Arc<File<M>>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let written = task.writing_to(file.device, |task| self.write_pages(task, file, offset, bytes, true));
        self.settle(task);
        written.map(|_| ())
    }

    /// Writes to a file only up to its present length, and does not extend it. Returns the number of bytes written,
    /// which is smaller than the length of `bytes` if the file became shorter meanwhile. This function may sleep.
    ///
    /// # Errors
    /// Returns the errors of [`Access::write`].
    pub fn write_within(
        &self,
        task: &mut Task,
        file: &Arc<File<M>>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<usize, Error> {
        let written = task.writing_to(file.device, |task| self.write_pages(task, file, offset, bytes, false));
        self.settle(task);
        written
    }

    fn write_pages(
        &self,
        task: &mut Task,
        file: &Arc<File<M>>,
        offset: u64,
        bytes: &[u8],
        may_extend: bool,
    ) -> Result<usize, Error> {
        let _span = self.machine.span(Func::FileWrite);
        self.machine.spend(Step::SyscallEntry, 1);
        let mut at = offset;
        let end = offset + bytes.len() as u64;
        while at < end {
            if self.machine.is_killed() {
                return Err(Error::Killed);
            }
            let page = (at / PAGE_BYTES as u64) as u32;
            let in_page = (at % PAGE_BYTES as u64) as usize;
            let n = (PAGE_BYTES - in_page).min((end - at) as usize);
            self.wait_while_refused(file)?;
            let frame = self.grab_page(task, file, page, n == PAGE_BYTES)?;
            // The page is locked here, so a task that truncates the file from now on reaches this page after this
            // write.
            let is_cut = !may_extend && at + n as u64 > file.length();
            let prepared = if is_cut { Ok(()) } else { self.prepare_write(file, frame, at) };
            if is_cut || prepared.is_err() {
                self.page_cache().unlock_page(frame);
                self.page_cache().unlatch(frame, true);
                self.lru().put(frame);
                return prepared.map(|()| (at - offset) as usize);
            }
            let from = (at - offset) as usize;
            self.versions.note(file.id, page);
            let written = self.page_cache().frame_of(frame, page);
            self.machine.write_frame(written, in_page, &bytes[from..from + n]);
            self.machine.spend(Step::WriteBegin, 1);
            self.machine.spend_on(Step::CopyPage, written, 1);
            self.frames[frame].set(Flags::UPTODATE);
            if self.choices.written.is_used() {
                self.lru().mark_accessed(frame);
            }
            let pages = self.writeback().set_page_dirty(file, frame);
            self.note_dirtied(task, pages);
            if may_extend {
                file.extend(at + n as u64);
            }
            self.page_cache().unlock_page(frame);
            self.page_cache().unlatch(frame, true);
            self.lru().put(frame);
            at += n as u64;
            self.balance_dirty_pages_ratelimited(task, file.backing);
        }
        Ok(bytes.len())
    }

    /// Makes sure that the device has a block for each page of a locked folio that is about to become dirty.
    pub(super) fn prepare_write(&self, file: &File<M>, head: FrameNumber, offset: u64) -> Result<(), Error> {
        if self.frames[head].is(Flags::DIRTY) || self.writeback().reserve_blocks(file, head) {
            return Ok(());
        }
        Err(Error::NoSpace { file: file.id, offset })
    }

    /// Finds the folio that holds a page of a file, if it is in memory and valid. Returns the folio locked, with a
    /// reference and the exclusive latch, as [`Access::grab_page`] does. Waits for the latch only as long as `wait` says;
    /// if `wait` is [`Wait::No`], does not sleep at all.
    ///
    /// # Errors
    /// When the page was not taken, with the reason.
    pub(super) fn grab_cached_page(&self, file: &File<M>, page: u32, wait: Wait) -> Result<FrameNumber, NotPinned> {
        let frame = self.page_cache().find_page(&file.index, page).ok_or(NotPinned::Absent)?;
        if !self.writeback().latch_to_change_within(file, frame, wait) {
            self.lru().put(frame);
            return Err(NotPinned::Busy);
        }
        let is_locked = self.frames[frame].try_lock()
            || wait != Wait::No && {
                self.page_cache().lock_page(frame);
                true
            };
        let is_valid = || {
            self.page_cache().is_page_of(frame, Owner::File(file.id), page) && self.frames[frame].is(Flags::UPTODATE)
        };
        if is_locked && is_valid() {
            return Ok(frame);
        }
        if is_locked {
            self.page_cache().unlock_page(frame);
        }
        self.page_cache().unlatch(frame, true);
        self.lru().put(frame);
        Err(if is_locked { NotPinned::Absent } else { NotPinned::Busy })
    }

    /// Finds or adds the folio that holds a page of a file. Returns the folio locked, with a reference and the
    /// exclusive latch. The page is valid, unless `is_whole` says that all of it is about to be written. If pages are
    /// stable (`writeback.stable_pages`), the page is not under writeback.
    pub(super) fn grab_page(
        &self,
        task: &mut Task,
        file: &File<M>,
        page: u32,
        is_whole: bool,
    ) -> Result<FrameNumber, Error> {
        loop {
            let frame = match self.page_cache().find_page(&file.index, page) {
                Some(frame) => {
                    self.writeback().latch_to_change(file, frame);
                    self.page_cache().lock_page(frame);
                    if !self.page_cache().is_page_of(frame, Owner::File(file.id), page) {
                        // The page was dropped while this task waited, so it is looked up again.
                        self.page_cache().unlock_page(frame);
                        self.page_cache().unlatch(frame, true);
                        self.lru().put(frame);
                        continue;
                    }
                    frame
                }
                None => {
                    self.prepare_node(task, file, page)?;
                    let frame =
                        self.allocate(task, Gfp::FOR_WRITE, Order::ZERO).map_err(|cause| self.out_of_memory(cause))?;
                    self.page_cache().latch(frame, true);
                    if self.page_cache().add_to_page_cache(file, page, frame).is_err() {
                        self.page_cache().unlatch(frame, true);
                        self.lru().put(frame);
                        continue;
                    }
                    self.lru().add(frame, Insert::Write, false);
                    frame
                }
            };
            let flags = self.frames[frame].flags();
            if is_whole && !flags.has(Flags::COMPOUND) || flags.has(Flags::UPTODATE) {
                return Ok(frame);
            }
            self.fill_locked_page(file, frame);
            self.page_cache().lock_page(frame);
            if !self.page_cache().is_page_of(frame, Owner::File(file.id), page) {
                // The page was truncated while it was read, so it is looked up again.
                self.page_cache().unlock_page(frame);
                self.page_cache().unlatch(frame, true);
                self.lru().put(frame);
                continue;
            }
            if self.frames[frame].is(Flags::UPTODATE) {
                return Ok(frame);
            }
            let failed = self.frames[frame].read_error();
            self.page_cache().unlock_page(frame);
            self.page_cache().unlatch(frame, true);
            if let Some(source) = failed {
                self.drop_failed_page(file, frame);
                let offset = u64::from(page) * PAGE_BYTES as u64;
                return Err(Error::Read { file: file.id, offset, source });
            }
            self.lru().put(frame);
        }
    }

    /// Writes all dirty pages of a file and waits until they are on the device. This function may sleep.
    ///
    /// # Errors
    /// When a write of one of the file's pages has failed since a task last called this function. If several handles
    /// each need to learn of every failure, they use [`Access::fsync_since`].
    pub fn fsync(&self, task: &mut Task, file: &Arc<File<M>>) -> Result<(), Error> {
        self.fsync_since(task, file, &file.reported)
    }

    /// Writes a file's dirty pages and waits as [`Access::fsync`] does, for a handle that already got the errors of the
    /// first `seen` failed writes ([`File::failed_writes`]).
    ///
    /// # Errors
    /// When more than `seen` writes have failed. The new failures then count as reported to this handle. Also when pages
    /// must not be written before the log ([`IoError::LogBehind`](machine::IoError::LogBehind)).
    pub fn fsync_since(&self, _task: &mut Task, file: &Arc<File<M>>, seen: &AtomicU32) -> Result<(), Error> {
        let start = file.begin_sync();
        self.write_dirty_pages(file);
        if let Some(failure) = file.write_error_since(seen, start) {
            return Err(Error::of_failure(file, failure));
        }
        if self.machine.is_killed() { Err(Error::Killed) } else { Ok(()) }
    }

    /// Writes all dirty pages of a file, and waits until each is on the device or its write has failed. The file counts
    /// the failures. This function may sleep.
    pub fn write_dirty_pages(&self, file: &Arc<File<M>>) {
        // Pages appended from now on are not waited for, because that wait could last for ever.
        self.write_dirty_range(file, 0..file.index.end());
    }

    /// Writes the dirty pages of a range, and waits for them, as [`Access::write_dirty_pages`] does for all pages.
    pub fn write_dirty_range(&self, file: &Arc<File<M>>, pages: Range<u32>) {
        let _span = self.machine.span(Func::Fsync);
        self.machine.spend(Step::SyscallEntry, 1);
        self.writeback().sync_pages(file, pages);
    }
}
