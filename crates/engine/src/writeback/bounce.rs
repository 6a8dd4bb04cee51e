//! Bounce pages, which are copies from which pages are written (`writeback.stable_pages = "copy"` and
//! `"copy-when-changed"`).
//!
//! A copy is made while no task can change the page, and is freed when the write has ended. Until then the copy is
//! kernel memory with the flag [`Flags::BOUNCE`], and its descriptor names the page. In Linux, bounce pages were first
//! used for devices that could not reach all memory. As here, file systems with checksums use bounce pages to keep the
//! written bytes from changing.

use super::Writeback;
use super::choices::StablePages;
use crate::memory::{Flags, MarkRights, MigrateType, Warmth};
use crate::page_cache::File;
use crate::stat::Gauge;
use machine::atomic::Ordering::Relaxed;
use machine::{FrameNumber, Machine, Order, Step};

/// After a task has changed, or wanted to change, a page of a file while the page was being written, this many writes
/// of the file's pages are made from copies of the pages. A copy takes half a microsecond. It may save a task a wait of
/// about a millisecond for a device. So even if none of these copies saves a wait, all of them together cost no more
/// than one wait. The value was chosen for this reason, and no other value was tried.
const COPIES_AFTER_CHANGE: u32 = 2048;

/// Records that a task changes, or wants to change, a page of a file before the page's write has ended.
pub(super) fn note_change<M: Machine>(file: &File<M>) {
    file.copies_left.store(COPIES_AFTER_CHANGE, Relaxed);
}

impl<M: Machine> Writeback<M> {
    /// Returns the frame from which a page is written: the page's own frame, or the frame of a new copy. The caller
    /// keeps tasks from changing the page, which is not under writeback yet.
    pub(super) fn frame_to_write(&self, file: &File<M>, frame: FrameNumber) -> FrameNumber {
        match self.choices.stable_pages {
            StablePages::No | StablePages::Wait => frame,
            StablePages::Copy => self.copy_to_write(frame).unwrap_or(frame),
            StablePages::CopyWhenChanged if file.copies_left.load(Relaxed) == 0 => frame,
            StablePages::CopyWhenChanged => {
                let Some(copy) = self.copy_to_write(frame) else { return frame };
                // If another task has counted the last copy down meanwhile, this copy is one too many, which does no
                // harm.
                let _ = file.copies_left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
                copy
            }
        }
    }

    /// Copies a page into a new frame and returns this frame. Returns `None`, and copies nothing, if the zone has no
    /// free page above its low mark.
    fn copy_to_write(&self, frame: FrameNumber) -> Option<FrameNumber> {
        let zone = self.memory().zone_of(frame);
        self.machine.spend(Step::WatermarkCheck, 1);
        if !zone.is_above(zone.low(), Order::ZERO, zone.kind as usize, MarkRights::default()) {
            return None;
        }
        let copy = self.memory().take(zone, Order::ZERO, MigrateType::Unmovable, Warmth::Hot)?;
        self.machine.copy_frame(frame, copy);
        self.machine.spend_on(Step::CopyPage, copy, 1);
        let descriptor = &self.frames[copy];
        descriptor.set(Flags::KERNEL.with(Flags::BOUNCE));
        descriptor.set_copied_page(frame);
        self.memory().add_gauge(copy, Gauge::NrBounce, 1);
        self.frames[frame].set(Flags::COPIED);
        Some(copy)
    }

    /// Returns the frame of the page whose contents were written to the device from `frame`. If `frame` holds a copy of
    /// the page (a bounce buffer), frees the copy. `interrupt` calls this when a write has ended.
    pub(crate) fn end_copy(&self, frame: FrameNumber) -> FrameNumber {
        let descriptor = &self.frames[frame];
        if !descriptor.is(Flags::BOUNCE) {
            return frame;
        }
        let page = descriptor.copied_page();
        self.memory().free_kernel(frame, Gauge::NrBounce);
        page
    }
}
