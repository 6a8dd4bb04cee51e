//! Readahead: reading a file's pages before a task needs them.
//!
//! A sequential reader gets a window that doubles up to `read_ahead_kb`. The first page of the window's later part is
//! marked: when this page is read, the next window is started while the present one is used.

use super::Access;
use super::choices::{MapReadahead, ReadaheadHistory};
use crate::bio::Bio;
use crate::lru::Insert;
use crate::memory::{FOLIO_ORDER_MAX, Flags, Gfp, Owner};
use crate::page_cache::File;
pub use crate::page_cache::read_state::{ReadPattern, ReadState};
use crate::slab::index_nodes::NODE_PAGES;
use crate::stat::Gauge;
use crate::task::Task;
use machine::{DeviceId, FrameNumber, Func, Machine, Operation, Order, PAGE_BYTES};
use std::ops::Range;

/// Faults on a mapping that miss the page cache raise a counter, and faults that hit it lower the counter. While the
/// counter is above this number, a fault reads only the missing page (`MMAP_LOTSAMISS`).
const MANY_MISSES: u32 = 100;

/// A readahead window takes at most memory divided by this number, so that a few readers cannot fill all of memory by
/// reading ahead.
const WINDOWS_IN_MEMORY: u64 = 16;

/// The time at which the pages of a readahead window are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    Now,
    Later,
}

/// Says whether the caller of a read may sleep until memory and a place in the device's queue are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// The caller may sleep.
    Waits,
    /// The caller is a future, which must not sleep: without memory, less is read or nothing. The machine holds the
    /// request back while the device's queue is full.
    AtOnce,
}

impl Patience {
    /// Returns an empty request for reads of the pages of a file on `device`.
    pub(super) fn bio(self, device: DeviceId) -> Bio {
        Bio::new(device, Operation::Read, self == Self::Waits)
    }

    /// Returns the flags with which the page of a single read is requested.
    pub(super) const fn gfp(self) -> Gfp {
        match self {
            Self::Waits => Gfp::USER_MOVABLE,
            Self::AtOnce => Gfp::AT_ONCE,
        }
    }
}

fn window_of(pages: std::ops::Range<u32>) -> ReadState {
    ReadState { start: pages.start, pages: pages.end.saturating_sub(pages.start), ..ReadState::default() }
}

impl<M: Machine> Access<M> {
    fn window_max(&self, pattern: ReadPattern) -> u32 {
        let kib = match pattern {
            ReadPattern::Normal => self.choices.read_ahead_kb,
            ReadPattern::Sequential => 2 * self.choices.read_ahead_kb,
            // Only the wanted page is read.
            ReadPattern::Random => 0,
        };
        let most = self.memory().managed_pages() / WINDOWS_IN_MEMORY;
        (kib * 1024 / PAGE_BYTES as u32).min(most as u32).max(1)
    }

    /// Starts to read the missing pages of a range, and does not wait for them. If the range is longer than the largest
    /// readahead window, reads only its beginning: half as many pages as are free or on an inactive file list, but at
    /// least as many as the largest window has. A longer read would evict pages that were just read, and pages that
    /// other tasks use. Stops early when memory is short. This function may sleep.
    #[doc(alias = "force_page_cache_readahead")]
    pub fn prefetch(&self, task: &mut Task, file: &File<M>, pages: std::ops::Range<u32>) {
        self.read_window(task, file, &self.readable_window(pages), For::Later, Patience::Waits);
    }

    /// Starts to read the missing pages of a range, as [`Access::prefetch`] does. Here the pages count as read for use
    /// now and not as read ahead, because the caller needs them as soon as they are in memory.
    pub fn start_read(&self, task: &mut Task, file: &File<M>, pages: std::ops::Range<u32>) {
        self.read_window(task, file, &self.readable_window(pages), For::Now, Patience::Waits);
    }

    /// Returns the part of a range of pages that one call reads. A range that is no longer than the largest window of a
    /// sequential reader is read whole. Of a longer range, only the beginning is read: its length is half the sum of
    /// free pages and inactive file pages, but at least that largest window.
    fn readable_window(&self, pages: std::ops::Range<u32>) -> ReadState {
        let least = self.window_max(ReadPattern::Sequential);
        if pages.len() <= least as usize {
            return window_of(pages);
        }
        let free: u64 = self.zones.iter().map(|zone| zone.free_pages()).sum();
        let most = ((free + self.memory().gauge(Gauge::NrInactiveFile)) / 2).max(u64::from(least));
        let end = u64::from(pages.start) + most;
        window_of(pages.start..pages.end.min(u32::try_from(end).unwrap_or(u32::MAX)))
    }

    /// Reads a missing page and the pages that are likely to follow. Returns the number of pages being read.
    pub(super) fn sync_readahead(
        &self,
        task: &mut Task,
        file: &File<M>,
        state: &mut ReadState,
        page: u32,
        wanted_pages: u32,
        patience: Patience,
    ) -> u32 {
        let _span = self.machine.span(Func::SyncReadahead);
        let follows = |(previous, _)| page == previous || page == previous + 1;
        let max = self.window_max(state.pattern);
        // A read at the end of the last window continues it, even if other pages were read in between.
        let is_next_window = state.pages > 0 && page == state.start + state.pages;
        let is_random = state.pattern == ReadPattern::Random;
        let is_sequential = page == 0 || is_next_window || state.previous.is_some_and(follows);
        if !is_random && (is_sequential || wanted_pages > max) {
            let first = wanted_pages.next_power_of_two();
            let size = if first <= max / 32 {
                first * 4
            } else if first <= max / 4 {
                first * 2
            } else {
                max
            };
            *state =
                ReadState { start: page, pages: size.max(1), async_pages: size.saturating_sub(wanted_pages), ..*state };
            self.read_window(task, file, state, For::Later, patience)
        } else if let Some(pages) = self.window_by_history(file, page, wanted_pages, max).filter(|_| !is_random) {
            *state = ReadState { start: page, pages, async_pages: 1, ..*state };
            self.read_window(task, file, state, For::Later, patience)
        } else {
            // A request may be longer than memory. If all of it were read here, its first pages would be evicted before
            // they are used, and the next miss would read the rest of the request once more.
            let pages = wanted_pages.min(self.window_max(ReadPattern::Sequential));
            self.read_window(task, file, &window_of(page..page.saturating_add(pages)), For::Now, patience)
        }
    }

    /// Returns the length of the window that the pages in memory right before a missing page suggest; `None` if they
    /// suggest that the read is random (`access.readahead_history`).
    #[doc(alias = "try_context_readahead")]
    fn window_by_history(&self, file: &File<M>, page: u32, wanted_pages: u32, max: u32) -> Option<u32> {
        match self.choices.readahead_history {
            ReadaheadHistory::Ignored => return None,
            ReadaheadHistory::Contiguous => {}
        }
        let is_cached = |back: &u32| file.index.get(page - back).is_some();
        let history = (1..=max.min(page)).take_while(is_cached).count() as u32;
        // A run from the beginning of the file on most likely goes on.
        let likely = if history >= page { history * 2 } else { history };
        (history > wanted_pages).then(|| (likely + wanted_pages).min(max))
    }

    /// Starts the next readahead window, because the reader has reached the marked page of the present one.
    pub(super) fn async_readahead(
        &self,
        task: &mut Task,
        file: &File<M>,
        state: &mut ReadState,
        page: u32,
        patience: Patience,
    ) {
        let _span = self.machine.span(Func::AsyncReadahead);
        let is_next = page == state.start + state.pages - state.async_pages.min(state.pages);
        let start = if is_next { state.start + state.pages } else { page + 1 };
        let max = self.window_max(state.pattern);
        let pages = if state.pages < max / 16 { state.pages * 4 } else { state.pages * 2 }.clamp(1, max);
        *state = ReadState { start, pages, async_pages: pages, ..*state };
        self.read_window(task, file, state, For::Later, patience);
    }

    /// Reads a missing page of a mapping and the pages that are likely to be touched next.
    pub(super) fn map_readahead(&self, task: &mut Task, file: &File<M>, state: &mut ReadState, page: u32) {
        let follows = match self.choices.map_readahead {
            MapReadahead::SequentialOrAround => state.previous.map_or(page == 0, |(previous, _)| previous + 1 == page),
            MapReadahead::Around => false,
        };
        match state.pattern {
            ReadPattern::Random => return,
            ReadPattern::Normal if !follows => {}
            ReadPattern::Normal | ReadPattern::Sequential => {
                self.sync_readahead(task, file, state, page, 1, Patience::Waits);
                return;
            }
        }
        state.map_misses = state.map_misses.saturating_add(1);
        if state.map_misses > MANY_MISSES {
            return;
        }
        let _span = self.machine.span(Func::SyncReadahead);
        let pages = self.window_max(state.pattern);
        let async_pages = match self.choices.map_readahead {
            MapReadahead::SequentialOrAround => 0,
            MapReadahead::Around => pages / 4,
        };
        *state = ReadState { start: page.saturating_sub(pages / 2), pages, async_pages, ..*state };
        self.read_window(task, file, state, For::Later, Patience::Waits);
    }

    /// Starts to read the pages of a window that are not in memory. Returns the number of pages being read.
    fn read_window(&self, task: &mut Task, file: &File<M>, window: &ReadState, wanted: For, patience: Patience) -> u32 {
        let mut reads = 0;
        let end = (file.length().div_ceil(PAGE_BYTES as u64) as u32).min(window.start.saturating_add(window.pages));
        let mark = window.start + window.pages - window.async_pages;
        let mut bio = patience.bio(file.device);
        for page in window.start..end {
            if file.index.get(page).is_some() {
                continue;
            }
            let allocated = match patience {
                Patience::Waits => self.allocate_ahead(task, file, page, end),
                Patience::AtOnce => self.allocate_at_once(task, file, page),
            };
            let Some(frame) = allocated else { break };
            let Ok(shadow) = self.page_cache().add_to_page_cache(file, page, frame) else {
                self.lru().put(frame);
                continue;
            };
            if window.async_pages > 0 && self.page_cache().is_page_of(frame, Owner::File(file.id), mark) {
                self.frames[frame].set(Flags::READAHEAD);
            }
            self.lru().note_reader(frame, task);
            match wanted {
                For::Now => self.lru().add_read(frame, shadow, task.maps_page_of_file()),
                For::Later => self.lru().add(frame, Insert::Ahead { shadow }, false),
            }
            reads += self.start_filling(file, frame, &mut bio);
            self.lru().put(frame);
        }
        bio.submit(self);
        reads
    }

    /// Allocates the folio that begins at a page of a window. Its order is the largest that fits into the window and
    /// for which a block is free (`access.file_folio_order`). Returns `None` if memory is short.
    #[doc(alias = "ra_alloc_folio")]
    fn allocate_ahead(&self, task: &mut Task, file: &File<M>, page: u32, end: u32) -> Option<FrameNumber> {
        for order in (1..=self.choices.file_folio_order.min(FOLIO_ORDER_MAX.0.into())).rev() {
            let pages = 1 << order;
            let fits = page.is_multiple_of(pages) && end - page >= pages;
            let is_free = |page| file.index.get(page).is_none();
            if !fits || !(page..page + pages).all(is_free) || !self.prepare_nodes(task, file, page..page + pages) {
                continue;
            }
            let order = Order(order as u8);
            if let Ok(head) = self.allocate(task, Gfp::FOLIO_AHEAD, order) {
                self.frames.make_folio(head, order);
                return Some(head);
            }
        }
        self.prepare_node(task, file, page).ok()?;
        self.allocate(task, Gfp::READAHEAD, Order::ZERO).ok()
    }

    /// Prepares the index of a file for the pages `pages` of a folio: makes the index nodes that are missing. Returns
    /// `false` if memory for a node is exhausted.
    fn prepare_nodes(&self, task: &mut Task, file: &File<M>, pages: Range<u32>) -> bool {
        let mut firsts = pages.clone().step_by(NODE_PAGES as usize);
        firsts.all(|page| self.prepare_node(task, file, page).is_ok())
    }
}
