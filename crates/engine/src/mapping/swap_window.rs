//! How many slots a fault of a region reads from swap at once, by what became of those that were read before.
//!
//! The kernels of the spec always read `2^page_cluster` slots (reclaim, 20.4). Where faults come in no order, all but one
//! of them are read, and take other pages' room, for nothing.

use machine::atomic::{AtomicU32, Ordering::Relaxed};

/// Faults with one window, after which it is judged.
const TRIAL_FAULTS: u32 = 4;

/// The window of a region. Faults at the same time may miss each other's counts, and neighbours in swap may be pages of another
/// region, whose faults then count what was of use: it is only ever a guess.
#[derive(Debug)]
pub(crate) struct SwapWindow {
    /// Logarithm of the slots that are read together; `u32::MAX` at first: as many as may be.
    log: AtomicU32,
    /// Pages read that nobody had asked for, since the last judgement.
    ahead: AtomicU32,
    /// Those of them that were asked for then.
    used: AtomicU32,
    /// The page of the last fault that read.
    last: AtomicU32,
}

impl Default for SwapWindow {
    fn default() -> Self {
        let [log, last] = [(); 2].map(|()| AtomicU32::new(u32::MAX));
        Self { log, ahead: AtomicU32::new(0), used: AtomicU32::new(0), last }
    }
}

impl SwapWindow {
    /// Logarithm of the slots to read for a fault on `page`, at most `log_max`. A window of which half was used grows, and any
    /// other shrinks, down to the one slot; from there it grows where the page is next to that of the fault before.
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

    /// Notes pages that are read without having been asked for.
    pub(crate) fn note_ahead(&self, pages: u32) {
        self.ahead.fetch_add(pages, Relaxed);
    }

    /// Notes that one of them was asked for.
    pub(crate) fn note_used(&self) {
        self.used.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of so many faults, each `step` pages from the last, of each of which `used` of a hundred pages read ahead are
    /// asked for.
    fn windows(window: &SwapWindow, faults: u32, used: u32, step: u32) -> Vec<u32> {
        let fault = |nth| {
            let log = window.next(3, nth * step);
            let ahead = (1 << log) - 1;
            window.note_ahead(ahead);
            (0..ahead * used / 100).for_each(|_| window.note_used());
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
