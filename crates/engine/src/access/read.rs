//! Buffered reads.

use super::readahead::Patience;
use super::{Access, Error, ReadState};
use crate::bio::Bio;
use crate::memory::Flags;
use crate::page_cache::File;
use crate::task::Task;
use machine::{FrameNumber, Func, Machine, Order, PAGE_BYTES, Step};

impl<M: Machine> Access<M> {
    /// Reads from a file at a byte offset. Returns the number of bytes read, which is smaller than the length of
    /// `bytes` only at the end of the file. This function may sleep.
    ///
    /// # Errors
    /// When a page cannot be read, or memory for it is exhausted. The bytes before that page were read.
    pub fn read(
        &self,
        task: &mut Task,
        file: &File<M>,
        state: &mut ReadState,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<usize, Error> {
        let read = self.read_pages(task, file, state, offset, bytes);
        self.settle(task);
        read
    }

    #[inline]
    fn read_pages(
        &self,
        task: &mut Task,
        file: &File<M>,
        state: &mut ReadState,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<usize, Error> {
        let _span = self.machine.span(Func::FileRead);
        self.machine.spend(Step::SyscallEntry, 1);
        let mut end = file.length().min(offset + bytes.len() as u64);
        let mut at = offset;
        while at < end {
            let page = (at / PAGE_BYTES as u64) as u32;
            let in_page = (at % PAGE_BYTES as u64) as usize;
            let last_page = ((end - 1) / PAGE_BYTES as u64) as u32;
            let folio = self.read_page(task, file, state, page, last_page - page + 1)?;
            // The length is read again while the page is latched. Otherwise, if the file was truncated, bytes that were
            // cut off would be read as zeroes that the file never had.
            end = end.min(file.length());
            if end <= at {
                self.page_cache().put_shared(folio);
                break;
            }
            let frame = self.page_cache().frame_of(folio, page);
            let n = (PAGE_BYTES - in_page).min((end - at) as usize);
            let from = (at - offset) as usize;
            self.machine.read_frame(frame, in_page, &mut bytes[from..from + n]);
            self.machine.spend_on(Step::CopyPage, frame, 1);
            // Several reads of one page in pieces count as one use.
            if state.previous != Some((page, in_page)) {
                self.lru().mark_accessed(folio);
            }
            state.note_read(page, in_page + n);
            self.page_cache().put_shared(folio);
            at += n as u64;
        }
        Ok((at - offset) as usize)
    }

    /// Returns the folio that holds a page of a file. If the folio is not in memory, reads it first. The returned folio
    /// is up to date. The caller holds a reference to the folio, and the folio's latch in shared mode.
    pub(super) fn read_page(
        &self,
        task: &mut Task,
        file: &File<M>,
        state: &mut ReadState,
        page: u32,
        wanted_pages: u32,
    ) -> Result<FrameNumber, Error> {
        let mut has_read_ahead = false;
        let mut has_read_alone = false;
        loop {
            let Some((frame, descriptor)) = self.page_cache().find_shared(&file.index, page) else {
                if file.index.get(page).is_some_and(|frame| self.frames[frame].has_all_readers()) {
                    return Err(Error::TooManyReaders { page });
                }
                if has_read_ahead {
                    self.read_single(task, file, page)?;
                    has_read_alone = true;
                } else {
                    has_read_alone = self.sync_readahead(task, file, state, page, wanted_pages, Patience::Waits) == 1;
                }
                has_read_ahead = true;
                continue;
            };
            if descriptor.is(Flags::READAHEAD)
                && !descriptor.is(Flags::WRITEBACK)
                && descriptor.test_clear(Flags::READAHEAD)
            {
                self.async_readahead(task, file, state, page, Patience::Waits);
            }
            if !descriptor.is(Flags::UPTODATE) {
                // The task that reads the page in may need the latch, so the latch is released during the wait.
                self.page_cache().unlatch(frame, false);
                self.page_cache().wait_on_read(frame);
                if descriptor.is(Flags::UPTODATE) {
                    self.page_cache().latch(frame, false);
                } else {
                    let failed = descriptor.read_error();
                    self.drop_failed_page(file, frame);
                    // A request for many pages may have failed because of any of them, so an error counts only if the
                    // page was read alone.
                    if let Some(source) = failed.filter(|_| has_read_alone) {
                        let offset = u64::from(page) * PAGE_BYTES as u64;
                        return Err(Error::Read { file: file.id, offset, source });
                    }
                    has_read_ahead = true;
                    continue;
                }
            }
            return Ok(frame);
        }
    }

    /// Reads a single page, after readahead found no memory for the page, or its read failed.
    pub(super) fn read_single(&self, task: &mut Task, file: &File<M>, page: u32) -> Result<(), Error> {
        self.prepare_node(task, file, page)?;
        let gfp = Patience::Waits.gfp();
        let frame = self.allocate(task, gfp, Order::ZERO).map_err(|cause| self.out_of_memory(cause))?;
        self.read_into(task, file, page, frame, Patience::Waits);
        self.lru().put(frame);
        Ok(())
    }

    /// Puts a fresh frame into a file as page `page`, and starts to read the page into it. Does nothing if the page is in
    /// memory meanwhile. The caller has a reference to the frame, and keeps it.
    pub(super) fn read_into(&self, task: &mut Task, file: &File<M>, page: u32, frame: FrameNumber, patience: Patience) {
        if let Ok(shadow) = self.page_cache().add_to_page_cache(file, page, frame) {
            self.lru().note_reader(frame, task);
            self.lru().add_read(frame, shadow, task.maps_page_of_file());
            self.start_read_of_locked(file, frame, patience);
        }
    }

    /// Starts to read a locked folio of a file.
    pub(super) fn fill_locked_page(&self, file: &File<M>, head: FrameNumber) {
        self.start_read_of_locked(file, head, Patience::Waits);
    }

    fn start_read_of_locked(&self, file: &File<M>, head: FrameNumber, patience: Patience) {
        let mut bio = patience.bio(file.device);
        self.start_filling(file, head, &mut bio);
        bio.submit(self);
    }

    /// Prepares to read a locked folio of a file: adds the pages that have a block to `bio`, and fills the others with
    /// zeroes. Returns the number of pages to be read. If this number is 0, the folio is valid and unlocked on return.
    pub(super) fn start_filling(&self, file: &File<M>, head: FrameNumber, bio: &mut Bio) -> u32 {
        let (folio, first) = (self.frames.folio(head), self.frames[head].index());
        if folio.is_large() {
            self.frames.begin_io(folio, folio.pages());
        }
        let mut reads = 0;
        for (page, frame) in (first..).zip(folio.frames()) {
            match file.stored_block(page) {
                Some(block) => {
                    bio.add(self, block, frame);
                    reads += 1;
                }
                None => {
                    // A hole reads as zeroes.
                    self.machine.zero_frame(frame);
                    self.end_read(frame, Ok(()));
                }
            }
        }
        reads
    }

    /// Removes a page whose read has failed from its file, so that the next reader tries again.
    pub(super) fn drop_failed_page(&self, file: &File<M>, frame: FrameNumber) {
        self.page_cache().lock_page(frame);
        self.drop_failed_locked(file, frame);
        self.page_cache().unlock_page(frame);
        self.lru().put(frame);
    }

    /// Removes a page from its file if it is not valid. The caller has the page's lock.
    pub(super) fn drop_failed_locked(&self, file: &File<M>, frame: FrameNumber) {
        let descriptor = &self.frames[frame];
        if descriptor.owner() == crate::memory::Owner::File(file.id) && !descriptor.is(Flags::UPTODATE) {
            self.writeback().cancel_dirty(file, frame);
            self.page_cache().delete_from_page_cache(file, frame);
        }
    }
}
