//! Pages pinned in place while a program reads or writes their bytes without a copy.
//!
//! A pinned page has a reference, which keeps it in its frame, and a latch, which lets readers and a writer exclude
//! each other. A page of a file becomes dirty when it is pinned for writing. If the flusher cleans the page while it is
//! pinned, the page becomes dirty again when the pin is released.

use super::fault::Throttle;
use super::{Access, Error, ReadState};
use crate::anonymous::Region;
use crate::memory::{Flags, Frame, Latched, Owner};
use crate::page_cache::file_index::Slot;
use crate::page_cache::{File, NotPinned, Wait};
use crate::task::Task;
use machine::{FrameNumber, HazardPointer, Hazards, Machine, PAGE_BYTES, Step};
use std::sync::Arc;

/// A page of a file that is pinned for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the page stays pinned until `Access::unpin_write`"]
pub struct PinnedForWrite {
    /// The frame that holds the page. The frame may be a part of a larger folio.
    pub frame: FrameNumber,
    /// Number of the page's bytes that belonged to the file when the page was pinned. The bytes after them become
    /// zeroes when the page is released. This holds even if the file has become longer meanwhile, because the bytes
    /// that lengthening adds are zeroes.
    pub bytes: usize,
}

impl<M: Machine> Access<M> {
    /// Pins, for reading, the page that a slot of a file's index holds. Returns `None` if the page is not in memory, is
    /// not open to hazard pointers ([`crate::page_cache::hazard`]), or if [`Hazards::publish_at_once`] finds no free
    /// hazard pointer.
    // Keep this function short. The fewer instructions lie between two reads, and the fewer of them write a register,
    // the more pages a processor can wait for at the same time.
    #[inline(always)]
    pub fn pin_open(&self, slot: Slot<'_>) -> Option<(FrameNumber, HazardPointer<'_, M>)> {
        self.pin_open_by(slot, M::Hazards::publish_at_once)
    }

    /// Pins the page of a slot as [`Access::pin_open`] does, but takes more time to find a free hazard pointer
    /// ([`Hazards::publish`]).
    pub fn pin_open_slowly(&self, slot: Slot<'_>) -> Option<(FrameNumber, HazardPointer<'_, M>)> {
        self.pin_open_by(slot, M::Hazards::publish)
    }

    #[inline(always)]
    fn pin_open_by<'a>(
        &'a self,
        slot: Slot<'_>,
        publish: impl FnOnce(&'a M::Hazards, FrameNumber) -> Option<HazardPointer<'a, M>>,
    ) -> Option<(FrameNumber, HazardPointer<'a, M>)> {
        let found = slot.find_open()?;
        self.machine.spend(Step::IndexLookup, 1);
        let hazard = publish(self.machine.hazards(), found.frame)?;
        if found.is_unchanged() {
            return Some((found.frame, hazard));
        }
        self.unpin_changed(found.frame, hazard);
        None
    }

    /// Releases a page whose pinning failed, because the page was closed to hazard pointers or left the file meanwhile.
    /// Another task may have seen the pin, and may wait for its end.
    #[cold]
    #[inline(never)]
    fn unpin_changed(&self, frame: FrameNumber, hazard: HazardPointer<'_, M>) {
        self.unpin_open(frame, hazard);
    }

    /// Prefetches `bytes` bytes of a page of a file, starting at byte `offset` of the page, into the processor's cache.
    /// Guesses the page's frame ([`FileIndex::guess`](crate::page_cache::FileIndex::guess)), so that the bytes arrive
    /// while the page is looked up.
    #[inline(always)]
    pub fn prefetch_page(&self, file: &File<M>, page: usize, offset: usize, bytes: usize) {
        if let Some(frame) = file.index.guess(page) {
            self.machine.prefetch_frame(frame, offset, bytes);
        }
    }

    /// Releases a page that was pinned by a hazard pointer.
    #[inline(always)]
    pub fn unpin_open(&self, frame: FrameNumber, hazard: HazardPointer<'_, M>) {
        self.machine.hazards().withdraw(hazard);
        if self.page_cache().is_hazard_waited_for() {
            self.lru().end_hazard(frame);
        }
    }

    /// Pins a page of a file for reading if it is in memory and valid. Returns the page's frame and the descriptor of
    /// its folio. Takes no lock, allocates nothing, and sleeps only for a writer's latch. Several reads of one page in
    /// pieces count as one use: a use of the page is noted only if `is_new_use` returns `true`, which means that the
    /// caller's last use was of another page. `is_new_use` is called only where its answer matters.
    #[inline(always)]
    pub fn pin_cached(
        &self,
        file: &File<M>,
        page: u32,
        is_new_use: impl FnOnce() -> bool,
    ) -> Option<(FrameNumber, &Frame)> {
        const USED_OFTEN: Flags = Flags::UPTODATE.with(Flags::REFERENCED).with(Flags::USED_AGAIN);
        let (frame, descriptor) = self.page_cache().find_shared(&file.index, page)?;
        let flags = descriptor.flags();
        if flags.0 & USED_OFTEN.with(Flags::READAHEAD).with(Flags::COMPOUND).0 == USED_OFTEN.0 {
            self.page_cache().open_page(file, page, frame, flags);
        } else if !self.is_usable(frame, flags, is_new_use) {
            return None;
        } else if flags.has(Flags::COMPOUND) {
            return Some((self.page_cache().frame_of(frame, page), descriptor));
        }
        Some((frame, descriptor))
    }

    /// Pins a page of a file for reading if it is in memory and valid, and its latch is free within the time `wait`.
    /// Starts no read from the device. `is_new_use` is as for [`Access::pin_cached`]. This function may sleep, unless
    /// `wait` is [`Wait::No`].
    ///
    /// # Errors
    /// When the page was not pinned, with the reason.
    pub fn pin_cached_within(
        &self,
        file: &File<M>,
        page: u32,
        wait: Wait,
        is_new_use: impl FnOnce() -> bool,
    ) -> Result<FrameNumber, NotPinned> {
        let (frame, descriptor) = self.page_cache().find_shared_within(&file.index, page, wait)?;
        // A caller that must not wait could not start the next readahead either.
        let ignored = if wait == Wait::No { Flags::READAHEAD } else { Flags::default() };
        if !self.is_usable(frame, descriptor.flags().without(ignored), is_new_use) {
            return Err(NotPinned::Absent);
        }
        Ok(self.page_cache().frame_of(frame, page))
    }

    /// Returns `true` if a latched page is up to date and not marked for readahead; then also notes a use of the page,
    /// if `is_new_use` returns `true`. Otherwise releases the page and returns `false`.
    #[inline(never)]
    fn is_usable(&self, frame: FrameNumber, flags: Flags, is_new_use: impl FnOnce() -> bool) -> bool {
        // A page marked for readahead is left to a caller that knows the reader's readahead window and can start the
        // next one.
        if flags.has(Flags::UPTODATE) && (!flags.has(Flags::READAHEAD) || flags.has(Flags::WRITEBACK)) {
            if is_new_use() {
                self.lru().mark_accessed(frame);
            }
            return true;
        }
        self.page_cache().put_shared(frame);
        false
    }

    /// Pins a page of a file for reading, and reads it from the device if it is not in memory. The caller will next
    /// read `wanted_pages` pages from this one on. This function may sleep.
    ///
    /// # Errors
    /// When the page cannot be read, or memory for it is exhausted.
    pub fn pin_for_read(
        &self,
        task: &mut Task,
        file: &File<M>,
        state: &mut ReadState,
        page: u32,
        wanted_pages: u32,
    ) -> Result<FrameNumber, Error> {
        let folio = self.read_page(task, file, state, page, wanted_pages)?;
        self.lru().mark_accessed(folio);
        state.note_read(page, PAGE_BYTES);
        Ok(self.page_cache().frame_of(folio, page))
    }

    /// Releases a page that was pinned for reading.
    #[inline(always)]
    pub fn unpin_read(&self, frame: FrameNumber) {
        self.page_cache().put_shared(frame);
    }

    /// Pins a page of a file for writing. If the page is not valid, reads it first. This function may sleep.
    ///
    /// # Errors
    /// When the page lies after the end of the file, the page cannot be read, memory is exhausted, the device has no
    /// block for the page, or pages of the file cannot be written and memory has too many of these pages already.
    pub fn pin_for_write(&self, task: &mut Task, file: &Arc<File<M>>, page: u32) -> Result<PinnedForWrite, Error> {
        self.wait_while_refused(file)?;
        // The task is throttled before it holds the page: otherwise readers of the page would wait, too, and the page
        // might be written before it is changed.
        self.balance_dirty_pages_ratelimited(task, file.backing);
        self.pin_dirty(task, file, page)
    }

    /// Pins a page of a file for writing as [`Access::pin_for_write`] does, but does not throttle the task.
    pub(super) fn pin_dirty(&self, task: &mut Task, file: &Arc<File<M>>, page: u32) -> Result<PinnedForWrite, Error> {
        let frame = self.grab_page(task, file, page, false)?;
        self.pin_grabbed(task, file, page, frame)
    }

    /// Pins a page of a file for writing if it is in memory and valid, and its latch is free within the time `wait`. If
    /// `wait` is [`Wait::No`], this function does not sleep, and a caller that would be throttled gets
    /// [`NotPinned::Busy`].
    ///
    /// # Errors
    /// When the page lies after the end of the file, the device has no block for it, or pages of the file cannot be
    /// written and memory has too many such pages already.
    pub fn pin_for_write_within(
        &self,
        task: &mut Task,
        file: &Arc<File<M>>,
        page: u32,
        wait: Wait,
    ) -> Result<Result<PinnedForWrite, NotPinned>, Error> {
        if wait != Wait::No {
            self.wait_while_refused(file)?;
            self.balance_dirty_pages_ratelimited(task, file.backing);
        } else if self.would_hold_back(file) {
            return Ok(Err(NotPinned::Busy));
        }
        match self.grab_cached_page(file, page, wait) {
            Ok(frame) if wait == Wait::No && !self.may_change_at_once(frame, bytes_in_page(file, page)) => {
                self.page_cache().unlock_page(frame);
                self.page_cache().unlatch(frame, true);
                self.lru().put(frame);
                Ok(Err(NotPinned::Busy))
            }
            Ok(frame) => self.pin_grabbed(task, file, page, frame).map(Ok),
            Err(reason) => Ok(Err(reason)),
        }
    }

    /// Marks a page that [`Access::grab_page`] has returned as dirty, and unlocks it. The page stays latched.
    fn pin_grabbed(
        &self,
        task: &mut Task,
        file: &Arc<File<M>>,
        page: u32,
        frame: FrameNumber,
    ) -> Result<PinnedForWrite, Error> {
        let offset = u64::from(page) * PAGE_BYTES as u64;
        // The page is locked here, so a task that truncates the file from now on finds the page in the index.
        let bytes = bytes_in_page(file, page);
        let result = match bytes > 0 {
            true => self.prepare_write(file, frame, offset),
            false => Err(Error::BeyondEnd { file: file.id, offset }),
        };
        if let Err(error) = result {
            self.page_cache().unlock_page(frame);
            self.page_cache().unlatch(frame, true);
            self.lru().put(frame);
            return Err(error);
        }
        Ok(self.make_pinned(task, file, frame, self.page_cache().frame_of(frame, page), bytes))
    }

    /// Marks a locked folio, whose exclusive latch the task has, as dirty, and unlocks it. Returns the pin of its page in
    /// `frame`, of which `bytes` bytes belong to the file. Sleeps only if [`Access::may_change_at_once`] returns `false`.
    fn make_pinned(
        &self,
        task: &mut Task,
        file: &Arc<File<M>>,
        head: FrameNumber,
        frame: FrameNumber,
        bytes: usize,
    ) -> PinnedForWrite {
        self.versions.note(file.id, self.page_cache().index_of(frame));
        let pages = self.writeback().set_page_dirty(file, head);
        self.note_dirtied(task, pages);
        if bytes < PAGE_BYTES {
            self.writeback().open_end(head);
        }
        self.page_cache().unlock_page(head);
        if bytes < PAGE_BYTES {
            self.writeback().wait_until_end_is_open(head);
        }
        self.lru().mark_accessed(head);
        PinnedForWrite { frame, bytes }
    }

    /// Returns whether a task that has locked a page, of which `bytes` bytes belong to the file, may pin it for writing
    /// without a wait for a write of the page that is under way.
    fn may_change_at_once(&self, head: FrameNumber, bytes: usize) -> bool {
        bytes == PAGE_BYTES || self.writeback().is_end_open_at_once(head)
    }

    /// Releases a page that was pinned for writing. Bytes after the end that the file had when the page was pinned
    /// become zeroes again. This function may sleep.
    pub fn unpin_write(&self, file: &Arc<File<M>>, pinned: PinnedForWrite) {
        let frame = self.frames.head(pinned.frame);
        // The latch is released first, because the holder of the page lock may wait for it.
        self.end_write_by_pin(file, pinned, || self.page_cache().unlatch(frame, true));
        self.lru().put(frame);
    }

    /// Turns a page that is pinned for writing into one that is pinned for reading. No other task changes the page in
    /// between. Bytes after the end of the file become zeroes as in [`Access::unpin_write`]. This function may sleep.
    pub fn downgrade(&self, file: &Arc<File<M>>, pinned: PinnedForWrite) {
        let frame = self.frames.head(pinned.frame);
        self.end_write_by_pin(file, pinned, || self.page_cache().downgrade_latch(frame));
    }

    /// Turns a page of a file that is pinned for reading by a reference and the latch into one that is pinned for
    /// writing, if this is possible without a wait. Returns `None`, and changes nothing, if it is not: another reader has
    /// the page, it left the file, its lock is taken, it is being written, or the caller would be throttled.
    pub fn try_upgrade(&self, task: &mut Task, file: &Arc<File<M>>, frame: FrameNumber) -> Option<PinnedForWrite> {
        let head = self.frames.head(frame);
        if self.would_hold_back(file) || !self.page_cache().try_upgrade_latch(head) {
            return None;
        }
        if self.writeback().is_stable(head) && self.frames[head].try_lock() {
            // The page is locked here, so a task that truncates the file from now on finds the page in the index.
            let page = self.page_cache().index_of(frame);
            let bytes = bytes_in_page(file, page);
            let is_ours = self.page_cache().is_page_of(head, Owner::File(file.id), page) && bytes > 0;
            let is_ready = is_ours && self.may_change_at_once(head, bytes);
            if is_ready && self.prepare_write(file, head, u64::from(page) * PAGE_BYTES as u64).is_ok() {
                return Some(self.make_pinned(task, file, head, frame, bytes));
            }
            self.page_cache().unlock_page(head);
        }
        self.page_cache().downgrade_latch(head);
        None
    }

    /// Turns a page that is pinned by a hazard pointer into one that is pinned for reading by a reference and the latch.
    ///
    /// # Errors
    /// The hazard pointer, if another task is taking the page's latch, or taking the page away.
    pub fn count_hazard<'a>(
        &self,
        frame: FrameNumber,
        hazard: HazardPointer<'a, M>,
    ) -> Result<(), HazardPointer<'a, M>> {
        if self.frames[frame].get_shared() != Latched::Yes {
            return Err(hazard);
        }
        self.unpin_open(frame, hazard);
        Ok(())
    }

    /// Ends the change of a page that was pinned for writing: bytes after its end become zeroes, `release` is called to
    /// give up the exclusive latch, and the page is marked dirty if it was written meanwhile.
    fn end_write_by_pin(&self, file: &Arc<File<M>>, pinned: PinnedForWrite, release: impl FnOnce()) {
        let PinnedForWrite { frame: page, bytes } = pinned;
        let frame = self.frames.head(page);
        let descriptor = &self.frames[frame];
        if descriptor.owner() == Owner::File(file.id) {
            // Another task may have extended the file meanwhile, without the latch of this page. The added bytes are
            // zeroes.
            let end = bytes.min(bytes_in_page(file, self.page_cache().index_of(page)));
            if end < PAGE_BYTES {
                self.machine.write_frame(page, end, &[0; PAGE_BYTES][end..]);
            }
        }
        if bytes < PAGE_BYTES {
            self.writeback().close_end(frame);
        }
        release();
        if !descriptor.is_now(Flags::DIRTY) {
            self.page_cache().lock_page(frame);
            if descriptor.owner() == Owner::File(file.id) && !descriptor.is(Flags::DIRTY) {
                self.writeback().reserve_blocks_again(file, frame);
                self.writeback().set_page_dirty(file, frame);
            }
            self.page_cache().unlock_page(frame);
        }
    }

    /// Pins a page of a region. Returns `None` for a page that was never written, if the caller only wants to read it:
    /// the page's bytes are then all zero. This function may sleep.
    ///
    /// # Errors
    /// When memory is exhausted, or swap cannot be read.
    ///
    /// # Panics
    /// When the page lies outside the region.
    pub fn pin_region(
        &self,
        task: &mut Task,
        region: &Region<M>,
        page: u32,
        write: bool,
    ) -> Result<Option<FrameNumber>, Error> {
        let mut throttle = Throttle::Yes;
        while write || !region.is_untouched(page) {
            // If the task were throttled at each attempt, it might never get the page: each time, during the pause, the
            // flusher could write the page and make it read-only, or reclaim could take it.
            if region.touch(page..page + 1, write).is_some() {
                self.fault(task, region, page, write, throttle)?;
                throttle = Throttle::No;
            }
            // The page may be reclaimed at any moment: take a reference, then check that it is still mapped.
            if let Some(frame) = self.try_pin(region, page, write)? {
                return Ok(Some(frame));
            }
            if !write && region.entry(page).is_zero_page() {
                break;
            }
            // Another task froze the page (set its reference count to 0) to free it or to move it. Wait for that task.
            self.machine.relax();
        }
        Ok(None)
    }

    /// Turns a page of an anonymous region that is pinned for writing into one that is pinned for reading. No other task
    /// changes the page in between.
    pub fn downgrade_region(&self, frame: FrameNumber) {
        self.page_cache().downgrade_latch(self.frames.head(frame));
    }

    /// Releases a page of a region that [`Access::pin_region`] pinned. This function may sleep.
    pub fn unpin_region(&self, frame: FrameNumber, write: bool) {
        let head = self.frames.head(frame);
        if write
            && let Owner::File(id) = self.frames[head].owner()
            && let Some(file) = self.page_cache().file(id)
        {
            // A page of a mapped file may have been written to the device, and write-protected, meanwhile.
            self.unpin_write(&file, PinnedForWrite { frame, bytes: PAGE_BYTES });
        } else {
            self.page_cache().unlatch(head, write);
            self.lru().put(head);
        }
    }
}

/// Returns the number of bytes of a page that belong to its file.
fn bytes_in_page<M: Machine>(file: &File<M>, page: u32) -> usize {
    file.length().saturating_sub(u64::from(page) * PAGE_BYTES as u64).min(PAGE_BYTES as u64) as usize
}
