//! Writes dirty pages: the pages of a file in file order, for a sync, the flusher or a retry; and single pages for
//! reclaim.
//!
//! *Description*: mechanisms/reclaim, 21.5; mechanisms/parallelio-trial, 5 (delayed allocation).

use super::Writeback;
use super::write_failure::PROBE_PAGES;
use crate::bio::Bio;
use crate::memory::{Flags, Owner};
use crate::page_cache::{File, Tag};
use crate::stat::{Event, Gauge};
use machine::atomic::AtomicU32;
use machine::atomic::Ordering::{Acquire, Relaxed, Release};
use machine::{FrameNumber, Func, IoError, Machine, Operation, PAGE_BYTES, Step, WaitReason, Waiting};
use std::ops::Range;
use std::sync::Arc;

/// The purpose of a writeback of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A task waits for the write of the whole file. The writeback also waits for pages that are already under
    /// writeback, and writes them again if they are dirty.
    Sync,
    /// The flusher reduces the number of dirty pages. The writeback continues at the page at which the last flush of
    /// the file ended. After the end of the file it goes on at the beginning.
    Flush,
    /// The flusher retries pages whose write failed. It begins at the page at which the last retry in the file ended.
    /// After the end of the file it goes on at the beginning.
    Retry,
}

/// The parameters of a writeback of one file: its purpose, the number of pages to write, and the range of pages.
#[derive(Clone, Debug)]
pub(crate) struct WriteControl {
    /// The purpose of the writeback.
    pub purpose: Purpose,
    /// Largest number of pages to write.
    pub pages_max: u64,
    /// The pages of which dirty ones are written. A flush or a retry starts where the last one ended, and goes round to
    /// the beginning of the file.
    pub pages: Range<u32>,
}

/// Largest number of consecutive pages of a file that get their blocks on the device by a single allocation.
const EXTENT_PAGES: u32 = 2048;

/// A running writeback of one file.
#[derive(Debug)]
struct Writer {
    bio: Bio,
    /// Number of pages that this writeback may still write.
    left: u64,
    purpose: Purpose,
    /// Numbers of the file's pages for which contiguous blocks are already allocated, but not yet recorded as the
    /// pages' blocks. The first of these blocks is `reserved_block`.
    reserved: Range<u32>,
    reserved_block: u64,
}

/// The pages of a folio that are about to be written. Each page has a block, and keeps it while it is under writeback.
#[derive(Clone, Copy, Debug)]
struct Written {
    /// The frame whose contents are written for the first page. The other pages are written from the folio's own
    /// frames.
    source: FrameNumber,
    /// Number of pages to write, from the folio's first page on.
    pages: u32,
}

/// The outcome of reclaim's request to write a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePage {
    /// The write is under way.
    Submitted,
    /// The page has no block yet. The page is marked dirty again, and nothing was written.
    Redirtied,
    /// The page's swap slot is not needed any more. The page was dropped from the swap cache, and nothing was written.
    Dropped,
}

impl<M: Machine> Writeback<M> {
    /// Makes sure that a page has a block. Returns `false` if the device is full.
    ///
    /// Contiguous blocks for consecutive dirty pages are taken in one allocation, which is the purpose of delayed
    /// allocation. But each page is given its block only when its own write begins, because reclaim may write a page as
    /// soon as the page has a block.
    fn ensure_block(&self, file: &File<M>, writer: &mut Writer, page: u32) -> bool {
        if file.block(page).is_some() {
            return true;
        }
        if !writer.reserved.contains(&page) {
            self.give_reserved(file, writer);
            let goal = page.checked_sub(1).and_then(|before| file.block(before)).map_or(0, |block| block + 1);
            let mut end = page + 1;
            while end - page < EXTENT_PAGES && file.index.is_to_be_written(end) && file.block(end).is_none() {
                end += 1;
            }
            let taken = self.take_blocks(file.backing, goal, u64::from(end - page));
            let Some((start, got)) = taken else { return false };
            writer.reserved = page..page + got as u32;
            writer.reserved_block = start;
        }
        let skipped = u64::from(page - writer.reserved.start);
        let block = writer.reserved_block + skipped;
        if skipped > 0 {
            self.give_blocks(file.backing, writer.reserved_block, skipped);
        }
        writer.reserved.start = page + 1;
        writer.reserved_block = block + 1;
        file.set_block(page, block);
        self.end_reservation(file.backing);
        true
    }

    /// Frees the blocks that `writer` has allocated but has not given to any page.
    fn give_reserved(&self, file: &File<M>, writer: &mut Writer) {
        if !writer.reserved.is_empty() {
            let blocks = u64::from(writer.reserved.end - writer.reserved.start);
            self.give_blocks(file.backing, writer.reserved_block, blocks);
            writer.reserved = 0..0;
        }
    }

    /// Gives a file a length of `bytes` bytes, and the blocks for it, as if the contents were on the device already.
    /// Reads and writes nothing. Returns `false` if the device is full.
    pub fn allocate_blocks(&self, file: &File<M>, bytes: u64) -> bool {
        let pages = bytes.div_ceil(PAGE_BYTES as u64) as u32;
        let mut page = 0;
        while page < pages {
            let goal = page.checked_sub(1).and_then(|before| file.block(before)).map_or(0, |block| block + 1);
            let taken = self.take_blocks(file.backing, goal, u64::from(pages - page));
            let Some((start, got)) = taken else {
                // The file's length includes the blocks that it got, so that they are freed when the file is removed.
                file.extend(u64::from(page) * PAGE_BYTES as u64);
                return false;
            };
            for n in 0..got as u32 {
                file.set_block(page + n, start + u64::from(n));
            }
            page += got as u32;
        }
        file.extend(bytes);
        true
    }

    /// Writes dirty pages of a file in file order. Returns the number of pages written. If another task is writing the
    /// file, a sync waits for its turn, and a writeback with another purpose writes nothing. The calling task may
    /// sleep.
    pub(crate) fn write_file(&self, file: &File<M>, control: WriteControl) -> u64 {
        let _span = self.machine.span(Func::WritebackFile);
        let is_ours = match control.purpose {
            Purpose::Sync => self.wait_to_write(file),
            Purpose::Flush | Purpose::Retry => !file.has_waiting_sync() && !file.is_being_written.swap(true, Acquire),
        };
        if !is_ours {
            return 0;
        }
        if control.purpose == Purpose::Retry {
            self.begin_retry(file);
        }
        let purpose = control.purpose;
        let wrote = self.write_file_alone(file, control);
        file.is_being_written.store(false, Release);
        self.machine.wake(&file.written_wait);
        if purpose != Purpose::Retry {
            self.continue_recovery(file);
        }
        wrote
    }

    /// Waits, for a sync, until no other task writes the file, and claims the file for this task. Returns `false` if
    /// the task was killed while it waited. The calling task may sleep.
    fn wait_to_write(&self, file: &File<M>) -> bool {
        if !file.is_being_written.swap(true, Acquire) {
            return true;
        }
        file.syncs_waiting.fetch_add(1, Relaxed);
        let is_ours = loop {
            let ticket = self.machine.ticket(&file.written_wait);
            if !file.is_being_written.swap(true, Acquire) {
                break true;
            }
            if self.machine.is_killed() {
                break false;
            }
            let _waiting = Waiting::begin(&self.machine, WaitReason::FileWriteback);
            self.machine.sleep(&file.written_wait, ticket, None);
        };
        file.syncs_waiting.fetch_sub(1, Relaxed);
        is_ours
    }

    fn write_file_alone(&self, file: &File<M>, control: WriteControl) -> u64 {
        let mut writer = Writer {
            bio: Bio::new(file.device, Operation::Write, control.purpose == Purpose::Sync),
            left: control.pages_max,
            purpose: control.purpose,
            reserved: 0..0,
            reserved_block: 0,
        };
        match control.purpose {
            // A page whose write fails in the first pass may be tried again in the second.
            Purpose::Sync => {
                for tag in [Tag::Dirty, Tag::WriteFailed] {
                    self.write_range(file, &mut writer, tag, control.pages.clone());
                }
            }
            Purpose::Flush => {
                self.write_around(file, &mut writer, Tag::Dirty, &file.writeback_index, control.pages.end)
            }
            Purpose::Retry => {
                self.write_around(file, &mut writer, Tag::WriteFailed, &file.failed_pages.next, control.pages.end)
            }
        }
        self.give_reserved(file, &mut writer);
        writer.bio.submit(self);
        control.pages_max - writer.left
    }

    /// Writes the pages that have `tag`, first from `position` to `end`, then from the file's beginning to `position`.
    fn write_around(&self, file: &File<M>, writer: &mut Writer, tag: Tag, position: &AtomicU32, end: u32) {
        let start = position.load(Relaxed);
        let mut next = self.write_range(file, writer, tag, start..end);
        if next.is_none() && start > 0 && writer.left > 0 {
            next = self.write_range(file, writer, tag, 0..start);
        }
        position.store(next.unwrap_or(0), Relaxed);
    }

    /// Writes the pages of a range that have `tag`. If the writeback stops before the end of the range, returns the
    /// page at which to continue; otherwise returns `None`.
    fn write_range(&self, file: &File<M>, writer: &mut Writer, tag: Tag, range: Range<u32>) -> Option<u32> {
        let mut next = range.start;
        while let Some(page) = file.index.next_tagged(next, tag).filter(|page| *page < range.end) {
            // A waiting sync writes the rest. If the flusher did not give way, the sync would get its turn only when no
            // task dirties the file any more, because the flusher comes back before the sync has woken up.
            let gives_way = writer.purpose != Purpose::Sync && file.has_waiting_sync();
            if writer.left == 0 || gives_way || self.machine.is_killed() {
                return Some(page);
            }
            next = page + 1;
            self.machine.spend(Step::WorkItem, 1);
            if tag == Tag::WriteFailed && self.passes_over_held(file, page, writer.purpose) {
                continue;
            }
            let Some(frame) = self.page_cache().find_page(&file.index, page) else { continue };
            next = self.page_cache().end_of_folio(frame, page);
            if !self.frames[frame].try_lock() {
                // The task that has locked the page may wait for pages that this bio has collected.
                writer.bio.submit(self);
                self.page_cache().lock_page(frame);
            }
            self.write_locked_page(file, writer, frame);
            self.page_cache().put_page_in_use(frame);
            self.machine.cond_resched();
        }
        None
    }

    /// Starts the write of a page that the caller has locked, if the page still needs a write, and unlocks the page.
    /// The calling task may sleep.
    fn write_locked_page(&self, file: &File<M>, writer: &mut Writer, frame: FrameNumber) {
        if !self.try_hold_still(frame) {
            self.page_cache().unlock_page(frame);
            if writer.purpose != Purpose::Sync {
                // The page stays dirty, and the flusher will come to it again.
                self.backing(file.backing).met_held.store(true, Relaxed);
                return;
            }
            // The task that changes the page may wait for pages that this bio has collected.
            writer.bio.submit(self);
            self.lock_still(frame);
        }
        let started = self.start_write(file, writer, frame);
        self.page_cache().unlock_page(frame);
        self.let_change(frame);
        if let Some(written) = started {
            writer.left = writer.left.saturating_sub(self.frames.pages(frame));
            self.add_written(file, &mut writer.bio, frame, written);
        }
    }

    /// Adds the pages in `written` to the disk request `bio`. All are pages of the folio `head`, which is under
    /// writeback.
    fn add_written(&self, file: &File<M>, bio: &mut Bio, head: FrameNumber, written: Written) {
        let (folio, first) = (self.frames.folio(head), self.frames[head].index());
        for n in 0..written.pages {
            let block = file.block(first + n).expect("each page that is written has a block");
            bio.add(self, block, if n == 0 { written.source } else { folio.page(n) });
        }
    }

    /// Returns the number of pages of a folio that a write has to cover: the pages before the end of the file.
    pub(super) fn pages_to_write(&self, file: &File<M>, frame: FrameNumber) -> u32 {
        let folio = self.frames.folio(frame);
        match folio.is_large() {
            true => file.length_pages().saturating_sub(self.frames[frame].index()).clamp(1, folio.pages()),
            false => 1,
        }
    }

    /// Marks a locked page as under writeback, and returns the page, or all pages of its folio, for writing. Returns
    /// `None` if the page need not be written, or cannot be. No task may change the page's bytes during the call.
    fn start_write(&self, file: &File<M>, writer: &mut Writer, frame: FrameNumber) -> Option<Written> {
        let descriptor = &self.frames[frame];
        let is_wanted = || descriptor.owner() == Owner::File(file.id) && descriptor.is(Flags::DIRTY);
        if is_wanted() && writer.purpose == Purpose::Sync && descriptor.is(Flags::WRITEBACK) {
            writer.bio.submit(self);
            self.page_cache().wait_on_writeback(frame);
        }
        if !is_wanted() || descriptor.is(Flags::WRITEBACK) {
            return None;
        }
        if let Some(why) = self.waits_for(file, frame) {
            self.put_off(file, frame, why, Some(writer.purpose));
            if writer.purpose == Purpose::Retry && writer.left <= PROBE_PAGES {
                // Such a retry looks at few pages only. One after the log has become durable further looks at all.
                writer.left = writer.left.saturating_sub(1);
            }
            return None;
        }
        let (first, pages) = (descriptor.index(), self.pages_to_write(file, frame));
        let has_blocks = (first..first + pages).all(|page| self.ensure_block(file, writer, page));
        if !has_blocks {
            // The device is full: the page stays dirty, and a sync reports it.
            self.note_write_failure(file, frame, IoError::NoSpace);
            if writer.purpose == Purpose::Retry {
                // The device has no block for the next page, either.
                writer.left = 0;
            }
            return None;
        }
        self.clear_dirty_for_io(file, frame);
        let source = if pages == 1 { self.frame_to_write(file, frame) } else { frame };
        self.begin_folio_write(file, frame, pages);
        Some(Written { source, pages })
    }

    /// Marks a folio as under writeback, because its first `pages` pages are about to be written. The caller has given
    /// these pages blocks.
    fn begin_folio_write(&self, file: &File<M>, frame: FrameNumber, pages: u32) {
        let folio = self.frames.folio(frame);
        if folio.is_large() {
            self.end_reservations(file, frame);
            self.frames.begin_io(folio, pages);
        }
        self.start_writeback(file, frame);
    }

    /// Writes the dirty pages of a range, except pages that another task has locked. Other tasks may write the same
    /// file at the same time. The method is meant for a few pages that the calling task is about to sync. The calling
    /// task may sleep.
    pub fn write_few_pages(&self, file: &File<M>, pages: Range<u32>) {
        let mut writer = Writer {
            bio: Bio::new(file.device, Operation::Write, true),
            left: u64::MAX,
            purpose: Purpose::Flush,
            reserved: 0..0,
            reserved_block: 0,
        };
        for page in pages.filter(|page| file.index.has_tag(*page, Tag::Dirty)) {
            let Some(frame) = self.page_cache().find_page(&file.index, page) else { continue };
            if self.frames[frame].try_lock() {
                self.write_locked_page(file, &mut writer, frame);
            }
            self.page_cache().put_page_in_use(frame);
        }
        self.give_reserved(file, &mut writer);
        writer.bio.submit(self);
    }

    /// Writes one page or folio of a file for reclaim. The caller has locked the page, keeps other tasks from changing
    /// it ([`Writeback::try_hold_still`]), and has cleared its dirty mark. On return the page is unlocked, and other
    /// tasks may change it. The calling task may sleep.
    pub(crate) fn write_file_page(&self, file: &Arc<File<M>>, frame: FrameNumber) -> WritePage {
        let (first, pages) = (self.frames[frame].index(), self.pages_to_write(file, frame));
        if (first..first + pages).any(|page| file.block(page).is_none()) {
            self.redirty_page(file, frame);
            self.page_cache().unlock_page(frame);
            self.let_change(frame);
            return WritePage::Redirtied;
        }
        self.begin_folio_write(file, frame, pages);
        self.page_cache().unlock_page(frame);
        self.let_change(frame);
        let mut bio = Bio::new(file.device, Operation::Write, false);
        self.add_written(file, &mut bio, frame, Written { source: frame, pages });
        bio.submit(self);
        WritePage::Submitted
    }

    /// Writes a page of the swap cache to its slot. The caller has locked the page and cleared its dirty mark. On
    /// return the page is unlocked. The calling task may sleep.
    pub(crate) fn write_swap_page(&self, frame: FrameNumber) -> WritePage {
        if self.swap_floor().try_to_free_swap(frame) {
            self.page_cache().unlock_page(frame);
            return WritePage::Dropped;
        }
        let descriptor = &self.frames[frame];
        let (slot, folio) = (descriptor.swap_slot(), self.frames.folio(frame));
        if folio.is_large() {
            self.frames.begin_io(folio, folio.pages());
        }
        self.stat.count(Event::Pswpout, folio.pages().into());
        descriptor.set(Flags::WRITEBACK);
        self.machine.spend(Step::WritebackPage, 1);
        if self.counts_swap_writeback() {
            self.memory().add_gauge(frame, Gauge::NrWriteback, folio.pages().into());
        }
        self.page_cache().unlock_page(frame);
        let mut bio = Bio::new(self.swap.device, Operation::Write, false);
        for (slot, frame) in (slot..).zip(folio.frames()) {
            bio.add(self, self.swap.block(slot), frame);
        }
        bio.submit(self);
        WritePage::Submitted
    }

    /// Writes the dirty pages of a range of a file and waits until they are on the device. The calling task may sleep.
    pub(crate) fn sync_pages(&self, file: &File<M>, pages: Range<u32>) {
        let (mut next, end) = (pages.start, pages.end);
        self.write_file(file, WriteControl { purpose: Purpose::Sync, pages_max: u64::MAX, pages });
        while let Some(page) = file.index.next_tagged(next, Tag::Writeback).filter(|page| *page < end) {
            if self.machine.is_killed() {
                return;
            }
            next = page + 1;
            let Some(frame) = self.page_cache().find_page(&file.index, page) else { continue };
            next = self.page_cache().end_of_folio(frame, page);
            self.page_cache().wait_on_writeback(frame);
            self.page_cache().put_page_in_use(frame);
        }
    }
}
