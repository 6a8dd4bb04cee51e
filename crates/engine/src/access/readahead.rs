//! Readahead: reading a file's pages before they are asked for.
//!
//! A sequential reader gets a window that doubles up to `read_ahead_kb`. The first page of the window's
//! later part is marked: whoever reads it starts the next window while the present one is used.

use super::Access;
use crate::mapping::File;
use crate::mapping::writeback::Bio;
use crate::memory::{Flags, Gfp};
use crate::task::Task;
use machine::{Func, Machine, Operation, Order, PAGE_BYTES};

/// Where a reader of a file is, and what was read ahead for it; one for each open handle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadState {
    start: u32,
    pages: u32,
    async_pages: u32,
    /// The page read last.
    pub(super) previous: Option<u32>,
}

impl<M: Machine> Access<M> {
    fn window_max(&self) -> u32 {
        (self.choices.read_ahead_kb * 1024 / PAGE_BYTES as u32).max(1)
    }

    /// A page is missing: read it, and what is likely to follow.
    pub(super) fn sync_readahead(
        &self,
        task: &mut Task,
        file: &File<M>,
        state: &mut ReadState,
        page: u32,
        wanted_pages: u32,
    ) {
        let _span = self.machine.span(Func::SyncReadahead);
        let is_sequential =
            page == 0 || state.previous.is_some_and(|previous| page == previous + 1 || page == previous);
        if is_sequential || wanted_pages > self.window_max() {
            let first = wanted_pages.next_power_of_two();
            let max = self.window_max();
            let size = if first <= max / 32 {
                first * 4
            } else if first <= max / 4 {
                first * 2
            } else {
                max
            };
            *state = ReadState {
                start: page,
                pages: size.max(1),
                async_pages: size.saturating_sub(wanted_pages),
                previous: state.previous,
            };
            self.read_window(task, file, state);
        } else {
            let once =
                ReadState { start: page, pages: wanted_pages.min(self.window_max()), async_pages: 0, previous: None };
            self.read_window(task, file, &once);
        }
    }

    /// A marked page was reached: start the next window.
    pub(super) fn async_readahead(&self, task: &mut Task, file: &File<M>, state: &mut ReadState, page: u32) {
        let _span = self.machine.span(Func::AsyncReadahead);
        let is_next = page == state.start + state.pages - state.async_pages.min(state.pages);
        let start = if is_next { state.start + state.pages } else { page + 1 };
        let max = self.window_max();
        let pages = if state.pages < max / 16 { state.pages * 4 } else { state.pages * 2 }.clamp(1, max);
        *state = ReadState { start, pages, async_pages: pages, previous: state.previous };
        self.read_window(task, file, state);
    }

    /// Reads those pages of a window that are not in memory.
    fn read_window(&self, task: &mut Task, file: &File<M>, window: &ReadState) {
        let end = (file.length().div_ceil(PAGE_BYTES as u64) as u32).min(window.start.saturating_add(window.pages));
        let mark = window.start + window.pages - window.async_pages;
        let mut bio = Bio::new(file.device, Operation::Read, true);
        for page in window.start..end {
            if file.index.get(page).is_some() {
                continue;
            }
            let Ok(frame) = self.allocate(task, Gfp::READAHEAD, Order::ZERO) else { break };
            if self.add_to_page_cache(file, page, frame).is_err() {
                self.put(frame);
                continue;
            }
            if page == mark && window.async_pages > 0 {
                self.frames[frame].set(Flags::READAHEAD);
            }
            self.add(frame, false);
            match file.block(page) {
                Some(block) => bio.add(self, block, frame),
                None => {
                    // A hole reads as zeroes.
                    self.machine.zero_frame(frame);
                    self.frames[frame].set(Flags::UPTODATE);
                    self.unlock_page(frame);
                }
            }
            self.put(frame);
        }
        bio.submit(self);
    }
}
