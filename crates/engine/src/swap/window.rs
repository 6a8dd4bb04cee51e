//! The number of slots that a fault of a region reads from swap at once, which depends on the success of earlier reads.
//!
//! Linux always reads `2^page_cluster` slots (mechanisms/reclaim, 20.4). If faults come in random order, only one of
//! these slots is needed, and the other pages that are read take memory from useful pages.

use machine::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::ops::Range;

/// Number of faults after which the size of a region's window (the slots that a fault reads together) is judged again.
const TRIAL_FAULTS: u32 = 4;

/// The swap readahead of a region. Its *window* is the number of neighbouring swap slots that a fault in the region
/// reads. The window's size is only an estimate: concurrent faults may overwrite each other's counts, and a slot of the
/// window may hold a page of another region, whose fault then counts as a use of the page that was read ahead.
#[derive(Debug)]
pub(crate) struct SwapWindow {
    /// Binary logarithm of the number of slots that are read together. Before the first fault the value is `u32::MAX`,
    /// which stands for the largest number allowed.
    log: AtomicU32,
    /// Number of pages that were read ahead since the size of the window was last judged.
    ahead: AtomicU32,
    /// Number of pages that were read ahead since the size of the window was last judged, and were used soon after.
    used: AtomicU32,
    /// The ranges of slots that were read together last, one in each element: the range's first slot in the upper half,
    /// and the slot after the range in the lower half.
    recent: [AtomicU64; TRIAL_FAULTS as usize],
    /// Number of windows (slots that a fault reads together) that the region's faults have read so far.
    windows: AtomicU32,
    /// The page of the last fault that read from swap.
    last: AtomicU32,
}

impl Default for SwapWindow {
    fn default() -> Self {
        let [log, last] = [(); 2].map(|()| AtomicU32::new(u32::MAX));
        let [ahead, used, windows] = [(); 3].map(|()| AtomicU32::new(0));
        Self { log, ahead, used, recent: [(); TRIAL_FAULTS as usize].map(|()| AtomicU64::new(0)), windows, last }
    }
}

impl SwapWindow {
    /// Returns the binary logarithm of the number of slots to read for a fault on `page`; it is at most `log_max`.
    /// After [`TRIAL_FAULTS`] faults with the same window, the window grows if at least half of the pages that were
    /// read ahead have been used; otherwise it shrinks, down to one slot. A window of one slot grows at once if `page`
    /// is next to the page of the previous fault.
    pub(crate) fn next(&self, log_max: u32, page: u32) -> u32 {
        let last = self.last.swap(page, Relaxed);
        if log_max == 0 {
            return 0;
        }
        let log = self.log.load(Relaxed).min(log_max);
        let ahead = self.ahead.load(Relaxed);
        if log == 0 {
            let log = u32::from(last.abs_diff(page) == 1);
            self.log.store(log, Relaxed);
            return log;
        }
        if ahead < TRIAL_FAULTS * ((1 << log) - 1) {
            return log;
        }
        let is_used = self.used.load(Relaxed) >= ahead / 2;
        let next = if is_used { (log + 1).min(log_max) } else { log - 1 };
        self.ahead.store(0, Relaxed);
        self.used.store(0, Relaxed);
        self.log.store(next, Relaxed);
        next
    }

    /// Records a window: the swap slots `slots`, which are looked at for one fault. Of the pages in these slots,
    /// `ahead` pages are read ahead: they were not in memory yet, and the fault did not ask for them.
    pub(crate) fn note_read(&self, slots: &Range<u32>, ahead: u32) {
        self.ahead.fetch_add(ahead, Relaxed);
        let nth = self.windows.fetch_add(1, Relaxed) as usize;
        let ends = u64::from(slots.start) << 32 | u64::from(slots.end);
        self.recent[nth % self.recent.len()].store(ends, Relaxed);
    }

    /// Records the use of a page that was read ahead, if the page's slot is in one of the last four windows. A later
    /// use does not count, because it would not show that reading ahead helped: a page that stays in memory is likely
    /// to be used at some time, even if the region is touched at random.
    pub(crate) fn note_used(&self, slot: u32) {
        let has_slot = |ends: u64| (ends >> 32) as u32 <= slot && slot < ends as u32;
        let is_recent = self.recent.iter().any(|window| has_slot(window.load(Relaxed)));
        self.used.fetch_add(u32::from(is_recent), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates `faults` faults that read from swap. Consecutive faults are `step` pages apart. Of each hundred pages
    /// that are read ahead, `used` pages are used. Returns the binary logarithm of the window's size for each fault.
    fn windows(window: &SwapWindow, faults: u32, used: u32, step: u32) -> Vec<u32> {
        let fault = |nth: u32| {
            let log = window.next(3, nth * step);
            let ahead = (1 << log) - 1;
            let slots = 1000 * nth..1000 * nth + (1 << log);
            window.note_read(&slots, ahead);
            (0..ahead * used / 100).for_each(|n| window.note_used(slots.start + n));
            // A use of a slot that was read before the last windows does not count.
            window.note_used(1000 * nth.saturating_sub(TRIAL_FAULTS));
            log
        };
        (1..=faults).map(fault).collect()
    }

    #[test]
    fn a_window_that_is_used_stays_large() {
        assert_eq!(windows(&SwapWindow::default(), 100, 60, 8), [3; 100]);
    }

    #[test]
    fn faults_in_no_order_soon_read_one_slot() {
        let window = SwapWindow::default();
        assert_eq!(windows(&window, 14, 0, 1000), [3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0]);
        assert_eq!(windows(&window, 100, 0, 7), [0; 100]);
    }

    #[test]
    fn order_is_found_again() {
        let window = SwapWindow::default();
        windows(&window, 100, 0, 1000);
        assert_eq!(windows(&window, 11, 100, 1), [0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3]);
    }

    #[test]
    fn no_window_is_larger_than_what_is_allowed() {
        let window = SwapWindow::default();
        assert_eq!((window.next(0, 1), window.next(2, 2)), (0, 2));
    }
}
