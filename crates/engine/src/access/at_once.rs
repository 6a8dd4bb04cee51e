//! Pins of pages for callers that must not sleep: futures.
//!
//! *Flow*: [`Access::pin_at_once`] pins a page that is in memory, or starts to read it. If the caller has to wait for the
//! page, it gets the page's frame with a reference. It then takes a ticket of the page's queue
//! ([`PageCache::page_queue`](crate::page_cache::PageCache::page_queue)), calls [`Access::pin_after_wait`], and waits
//! only if the page is still not ready, and only as long as nobody has woken the queue since. If no memory is free, a
//! task that may sleep starts the read in the caller's place: [`Access::start_in_place`].

use super::readahead::Patience;
use super::{Access, Error, ReadState};
use crate::memory::{Flags, Owner};
use crate::page_cache::{File, NotPinned, Wait};
use crate::task::Task;
use machine::{FrameNumber, Machine, Order, PAGE_BYTES};

/// The result of an attempt to pin a page at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the page stays pinned or referenced"]
pub enum AtOnce {
    /// The page is pinned for reading, in this frame, until [`Access::unpin_read`].
    Pinned(FrameNumber),
    /// The page is being read, or a writer has it. The caller has a reference to the folio with this head, until it calls
    /// [`Access::pin_after_wait`] with another result, or [`Access::stop_waiting`].
    Waits(FrameNumber),
    /// The page is not in memory, and no memory for it is free.
    NoMemory,
    /// The page has left its file, or its read has failed together with other pages: the caller begins anew with
    /// [`Access::pin_at_once`]. Only [`Access::pin_after_wait`] returns this.
    Again,
}

/// The attempts that were made to read a page, from [`Access::pin_at_once`] to the end of its read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    has_read_ahead: bool,
    has_read_alone: bool,
}

impl Tries {
    /// The tries of a page that [`Access::start_in_place`] has begun to read.
    const IN_PLACE: Self = Self { has_read_ahead: true, has_read_alone: true };

    /// The tries of a page that [`Access::start_in_place`] has found. Another task may read it together with others.
    const FOUND: Self = Self { has_read_ahead: true, has_read_alone: false };
}

impl<M: Machine> Access<M> {
    /// Pins a page of a file for reading if it is in memory and valid, and no writer has it. Otherwise starts to read it,
    /// together with the pages that are likely to follow, as far as memory is free. Does not sleep. The caller will next
    /// read `wanted_pages` pages from this one on.
    ///
    /// # Errors
    /// When the page has as many readers as can be counted, or the system has no memory for the file's index.
    pub fn pin_at_once(
        &self,
        task: &mut Task,
        file: &File<M>,
        state: &mut ReadState,
        page: u32,
        wanted_pages: u32,
        tries: &mut Tries,
    ) -> Result<AtOnce, Error> {
        loop {
            match self.page_cache().find_shared_within(&file.index, page, Wait::No) {
                Ok((head, descriptor)) => {
                    let is_marked = descriptor.is(Flags::READAHEAD) && !descriptor.is(Flags::WRITEBACK);
                    if is_marked && descriptor.test_clear(Flags::READAHEAD) {
                        self.async_readahead(task, file, state, page, Patience::AtOnce);
                    }
                    state.note_read(page, PAGE_BYTES);
                    if descriptor.is(Flags::UPTODATE) {
                        self.lru().mark_accessed(head);
                        return Ok(AtOnce::Pinned(self.page_cache().frame_of(head, page)));
                    }
                    // The task that reads the page in may need the latch.
                    self.page_cache().unlatch(head, false);
                    return self.check_readers(head, page).map(|()| AtOnce::Waits(head));
                }
                Err(NotPinned::Busy) => {
                    let Some(head) = self.page_cache().find_page(&file.index, page) else { continue };
                    return self.check_readers(head, page).map(|()| AtOnce::Waits(head));
                }
                Err(NotPinned::Absent) if tries.has_read_ahead => {
                    if !self.start_alone_at_once(task, file, page) {
                        return Ok(AtOnce::NoMemory);
                    }
                    tries.has_read_alone = true;
                }
                Err(NotPinned::Absent) => {
                    let reads = self.sync_readahead(task, file, state, page, wanted_pages, Patience::AtOnce);
                    *tries = Tries { has_read_ahead: true, has_read_alone: reads == 1 };
                }
            }
        }
    }

    /// Pins the page for which the caller waits, if it is ready. `head` is the frame of [`AtOnce::Waits`]. If the result
    /// is again [`AtOnce::Waits`], the caller keeps its reference, and the queue of `head` is woken when the page may be
    /// ready. With every other result and with an error, the reference is used up. Does not sleep.
    ///
    /// # Errors
    /// When the page could not be read, or has as many readers as can be counted.
    pub fn pin_after_wait(
        &self,
        file: &File<M>,
        page: u32,
        head: FrameNumber,
        tries: &mut Tries,
    ) -> Result<AtOnce, Error> {
        let descriptor = &self.frames[head];
        if !descriptor.is(Flags::UPTODATE) {
            if descriptor.is_now(Flags::LOCKED) {
                return Ok(AtOnce::Waits(head));
            }
            // The read may have ended between the two checks.
            if !descriptor.is_now(Flags::UPTODATE) {
                return self.end_failed_wait(file, page, head, tries);
            }
        }
        let latches = || self.page_cache().latch_within(head, false, Wait::No);
        let is_latched = latches() || {
            descriptor.note_latch_wait();
            latches()
        };
        if !is_latched {
            return self.check_readers(head, page).map(|()| AtOnce::Waits(head));
        }
        if !self.page_cache().is_page_of(head, Owner::File(file.id), page) {
            self.page_cache().put_shared(head);
            return Ok(AtOnce::Again);
        }
        self.lru().mark_accessed(head);
        Ok(AtOnce::Pinned(self.page_cache().frame_of(head, page)))
    }

    /// Drops the reference of [`AtOnce::Waits`], for a caller that gives the page up.
    pub fn stop_waiting(&self, head: FrameNumber) {
        self.lru().put(head);
    }

    /// Starts to read a missing page for a caller that found no memory free. The task sleeps until memory for the page
    /// was made free, but not until the page was read. Returns the head of the page's folio, with a reference as
    /// [`AtOnce::Waits`] has it, and the tries for [`Access::pin_after_wait`].
    ///
    /// # Errors
    /// When memory is exhausted.
    pub fn start_in_place(&self, task: &mut Task, file: &File<M>, page: u32) -> Result<(FrameNumber, Tries), Error> {
        loop {
            if let Some(head) = self.page_cache().find_page(&file.index, page) {
                return self.check_readers(head, page).map(|()| (head, Tries::FOUND));
            }
            self.prepare_node(task, file, page)?;
            let gfp = Patience::Waits.gfp();
            let frame = self.allocate(task, gfp, Order::ZERO).map_err(|cause| self.out_of_memory(cause))?;
            self.read_into(task, file, page, frame, Patience::AtOnce);
            // The frame holds the page, or another task has read the page meanwhile.
            if self.page_cache().is_page_of(frame, Owner::File(file.id), page) {
                return Ok((frame, Tries::IN_PLACE));
            }
            self.lru().put(frame);
        }
    }

    /// Returns an error, and drops the caller's reference, if no more readers of a page can be counted, or if so many
    /// callers wait for the page that references to it become scarce.
    fn check_readers(&self, head: FrameNumber, page: u32) -> Result<(), Error> {
        if !self.frames[head].has_all_readers() && !self.frames[head].has_many_references() {
            return Ok(());
        }
        self.lru().put(head);
        Err(Error::TooManyReaders { page })
    }

    /// Ends the wait for a page whose read has failed. A request for many pages may have failed because of any of them,
    /// so the error counts only if the page was read alone.
    fn end_failed_wait(
        &self,
        file: &File<M>,
        page: u32,
        head: FrameNumber,
        tries: &mut Tries,
    ) -> Result<AtOnce, Error> {
        let failed = self.frames[head].read_error();
        self.drop_failed_page_at_once(file, head);
        tries.has_read_ahead = true;
        match failed.filter(|_| tries.has_read_alone) {
            Some(source) => {
                let offset = u64::from(page) * PAGE_BYTES as u64;
                Err(Error::Read { file: file.id, offset, source })
            }
            None => Ok(AtOnce::Again),
        }
    }

    /// Starts to read a single page if memory for it is free, and returns whether it was.
    fn start_alone_at_once(&self, task: &mut Task, file: &File<M>, page: u32) -> bool {
        let Some(frame) = self.allocate_at_once(task, file, page) else { return false };
        self.read_into(task, file, page, frame, Patience::AtOnce);
        self.lru().put(frame);
        true
    }

    /// Allocates a frame for a page of a file, if one is free above the min mark. A task whose control group is over its
    /// `high` limit gets none, because it would have to sleep for the frame afterwards.
    pub(super) fn allocate_at_once(&self, task: &mut Task, file: &File<M>, page: u32) -> Option<FrameNumber> {
        let groups = self.memory().groups.as_ref();
        let is_throttled = groups.is_some_and(|groups| groups.is_over_high(task.group));
        if is_throttled || !self.has_node_at_once(task, file, page) {
            return None;
        }
        self.allocate(task, Patience::AtOnce.gfp(), Order::ZERO).ok()
    }

    /// Returns whether the index of a file has a node and a slot for a page, or can get them without an allocation from
    /// the engine's memory.
    fn has_node_at_once(&self, task: &Task, file: &File<M>, page: u32) -> bool {
        if !file.index.prepare(page) {
            return false;
        }
        let Some(slabs) = self.index_nodes.slabs() else { return true };
        let is_ready = || !file.index.lacks_node(page) || task.group.is_root() && slabs.has_free();
        file.index.prepare_node(page) && is_ready()
    }

    /// Removes a page whose read has failed, unless another task has its lock. Drops the caller's reference.
    fn drop_failed_page_at_once(&self, file: &File<M>, head: FrameNumber) {
        if self.frames[head].try_lock() {
            self.drop_failed_locked(file, head);
            self.page_cache().unlock_page(head);
        }
        self.lru().put(head);
    }
}
