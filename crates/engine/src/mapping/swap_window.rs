//! How many slots a fault of a region reads from swap at once, by what became of those that were read before.
//!
//! The kernels of the spec always read `2^page_cluster` slots (reclaim, 20.4). Where faults come in no order, all but one
//! of them are read, and take other pages' room, for nothing.

use machine::atomic::{AtomicU32, Ordering::Relaxed};

/// Faults with one window, after which it is judged.
const TRIAL_FAULTS: u32 = 4;

/// The window of a region. Faults at the same time may miss each other's counts: it is only ever a guess.
#[derive(Debug)]
pub struct SwapWindow {
    /// Logarithm of the slots that are read together; `u32::MAX` at first: as many as may be.
    log: AtomicU32,
    /// Pages read that nobody had asked for, since the last judgement.
    ahead: AtomicU32,
    /// Those of them that were asked for then.
    used: AtomicU32,
}

impl Default for SwapWindow {
    fn default() -> Self {
        Self { log: AtomicU32::new(u32::MAX), ahead: AtomicU32::new(0), used: AtomicU32::new(0) }
    }
}

impl SwapWindow {
    /// Logarithm of the slots to read for the next fault, at most `log_max`. A window of which half was used grows, and any
    /// other shrinks, down to the one slot; from there it grows where a fault `is_near` the task's last one.
    pub(crate) fn next(&self, log_max: u32, is_near: bool) -> u32 {
        let log = self.log.load(Relaxed).min(log_max);
        let ahead = self.ahead.load(Relaxed);
        let next = if log == 0 {
            u32::from(is_near).min(log_max)
        } else if ahead < TRIAL_FAULTS * ((1 << log) - 1) {
            log
        } else if self.used.load(Relaxed) >= ahead / 2 {
            (log + 1).min(log_max)
        } else {
            log - 1
        };
        if next != log || ahead >= TRIAL_FAULTS << log {
            self.ahead.store(0, Relaxed);
            self.used.store(0, Relaxed);
        }
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

    /// Windows of so many faults, of each of which `used` of a hundred pages read ahead are asked for.
    fn windows(window: &SwapWindow, faults: usize, used: u32, is_near: bool) -> Vec<u32> {
        let fault = || {
            let log = window.next(3, is_near);
            let ahead = (1 << log) - 1;
            window.note_ahead(ahead);
            (0..ahead * used / 100).for_each(|_| window.note_used());
            log
        };
        std::iter::repeat_with(fault).take(faults).collect()
    }

    #[test]
    fn a_window_that_is_used_stays_large() {
        assert_eq!(windows(&SwapWindow::default(), 100, 60, true), [3; 100]);
    }

    #[test]
    fn faults_in_no_order_soon_read_one_slot() {
        let window = SwapWindow::default();
        assert_eq!(windows(&window, 14, 0, false), [3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0]);
        assert_eq!(windows(&window, 100, 0, false), [0; 100]);
    }

    #[test]
    fn order_is_found_again() {
        let window = SwapWindow::default();
        windows(&window, 100, 0, false);
        assert_eq!(windows(&window, 10, 100, true), [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]);
    }

    #[test]
    fn no_window_is_larger_than_what_is_allowed() {
        let window = SwapWindow::default();
        assert_eq!((window.next(0, true), window.next(2, true)), (0, 1));
    }
}
