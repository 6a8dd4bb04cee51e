//! The length of a file.
//!
//! A file becomes shorter in three steps: [`Access::hold_end`], [`Access::cut`], [`Access::release_end`]. If the
//! machine under the engine keeps file lengths, too, it can change its length between the steps. From the first to the
//! last step, the page that the new end cuts stays in memory. If pages are stable (`writeback.stable_pages`), this page
//! is not written either. Meanwhile the page's bytes after the end may still be on the device, but they are not read
//! from there.
//!
//! *Locks*: the latch of the page that is cut, and under it the locks of the pages after it. A task with a page lock
//! waits for no latch.

use super::{Access, Error, PinnedForWrite};
use crate::page_cache::File;
use crate::task::Task;
use machine::{Machine, PAGE_BYTES};
use std::ops::Range;
use std::sync::Arc;

/// The new end of a file that is about to be truncated, as [`Access::hold_end`] returns it.
#[derive(Debug)]
#[must_use = "the page that it cuts is held until the end is released"]
pub struct HeldEnd {
    /// The length of the file after the truncation, bytes.
    bytes: u64,
    /// The page that the new end cuts, if the end lies within a page.
    pinned: Option<PinnedForWrite>,
}

impl<M: Machine> Access<M> {
    /// Sets the length of a file to `bytes`. Bytes after the new end are dropped; added bytes read as zeroes. This
    /// function may sleep.
    ///
    /// # Errors
    /// When the page that the new end cuts cannot be read, or memory for it is exhausted; nothing has changed then.
    pub fn set_length(&self, task: &mut Task, file: &Arc<File<M>>, bytes: u64) -> Result<(), Error> {
        if bytes >= file.length() {
            file.extend(bytes);
            return Ok(());
        }
        let end = self.hold_end(task, file, bytes)?;
        self.cut(file, &end);
        self.release_end(file, end);
        Ok(())
    }

    /// Prepares to truncate a file to `bytes` bytes, and changes nothing yet. Latches the page at the new end. If pages
    /// are stable (`writeback.stable_pages`), no write of this page is under way when this returns, and none begins
    /// before the page is released. This function may sleep.
    ///
    /// # Errors
    /// When the page at the new end cannot be read, or memory for it is exhausted.
    pub fn hold_end(&self, task: &mut Task, file: &Arc<File<M>>, bytes: u64) -> Result<HeldEnd, Error> {
        if bytes.is_multiple_of(PAGE_BYTES as u64) {
            return Ok(HeldEnd { bytes, pinned: None });
        }
        let pinned = self.pin_dirty(task, file, (bytes / PAGE_BYTES as u64) as u32)?;
        // A write that begins before the cut and ends after it might bring only the bytes before the new end to the
        // device. The page there would then have old bytes beside new ones.
        self.page_cache().wait_on_writeback(self.frames.head(pinned.frame));
        Ok(HeldEnd { bytes, pinned: Some(pinned) })
    }

    /// Truncates a file at the end that [`Access::hold_end`] has prepared. When this returns, no page after the end is
    /// in memory or under writeback. This function may sleep.
    pub fn cut(&self, file: &Arc<File<M>>, end: &HeldEnd) {
        let old_end = file.end_page();
        let in_page = (end.bytes % PAGE_BYTES as u64) as usize;
        if let Some(PinnedForWrite { frame, .. }) = end.pinned {
            // If the file grows again, the bytes that were cut off must read as zeroes.
            self.machine.write_frame(frame, in_page, &[0; PAGE_BYTES][in_page..]);
        }
        file.note_cut();
        // The latch is held, so no task writes bytes after the new end before the length is set.
        file.set_length(end.bytes);
        let from = end.bytes.div_ceil(PAGE_BYTES as u64) as u32;
        self.unmap_file_range(file, from);
        self.lru().truncate_pages(file, from);
        file.index.forget_shadows(from..u32::MAX);
        // A task that was about to copy a cut-off page for a private mapping has mapped its copy by now. This second
        // call unmaps such copies.
        self.unmap_file_range(file, from);
        // Other tasks may have made the file longer before the cut, so the file's end is read again.
        self.writeback().give_file_blocks(file, from..old_end.max(file.end_page()));
        file.note_cut();
    }

    /// Begins to punch a hole into a file that is a device of its own and that no region maps. Drops the pages of the
    /// hole. Until [`Access::end_punch`], pages of the hole are not read from the device, but filled with zeroes.
    /// Meanwhile the caller has the system punch the hole. Only one hole is punched at a time. This function may sleep.
    pub fn begin_punch(&self, file: &Arc<File<M>>, pages: Range<u32>) {
        debug_assert!(file.is_placed() && !file.is_mapped(), "file {}", file.id);
        file.note_cut();
        file.set_punched(pages.clone());
        let _ = self.lru().drop_pages(file, pages);
    }

    /// Ends the punching of a hole that [`Access::begin_punch`] began. Drops the pages of the hole once more: of a page
    /// that was written meanwhile, the system may have punched out what had reached the device. Returns the pages that
    /// were not dropped, because their folio has further pages outside of the hole: the caller overwrites them with
    /// zeroes. This function may sleep.
    pub fn end_punch(&self, file: &Arc<File<M>>, pages: Range<u32>) -> Vec<u32> {
        let kept = self.lru().drop_pages(file, pages.clone());
        file.index.forget_shadows(pages);
        file.set_punched(0..0);
        file.note_cut();
        kept
    }

    /// Ends a truncation that [`Access::hold_end`] began: releases the page at the new end. This function may sleep.
    pub fn release_end(&self, file: &Arc<File<M>>, end: HeldEnd) {
        if let Some(pinned) = end.pinned {
            self.unpin_write(file, pinned);
        }
    }
}
