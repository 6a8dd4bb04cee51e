//! The places of a device's request queue, counted separately for reads and writes, and the thresholds at which the
//! queue is congested.

use std::sync::atomic::{AtomicU32, Ordering};

/// The bit of [`Places::taken`] that is set while the queue is congested. The other bits count taken places.
const CONGESTED: u32 = 1 << 31;

/// The places of a device's request queue for requests of one direction: reads or writes.
#[derive(Debug)]
pub(super) struct Places {
    depth: u32,
    /// Number of taken places in the queue from which the queue counts as congested.
    congestion_on: u32,
    /// Number of taken places in the queue below which the queue no longer counts as congested.
    congestion_off: u32,
    taken: AtomicU32,
}

impl Places {
    pub(super) fn new(depth: u32) -> Self {
        assert!(0 < depth && depth < CONGESTED, "a queue of {depth} places");
        let (congestion_on, congestion_off) = congestion_thresholds(depth);
        Self { depth, congestion_on, congestion_off, taken: AtomicU32::new(0) }
    }

    /// Takes a place in the queue. Returns `Some(true)` if the queue thereby becomes congested, `Some(false)` if not,
    /// and `None` if no place is free.
    pub(super) fn try_take(&self) -> Option<bool> {
        let take = |state: u32| {
            let taken = (state & !CONGESTED) + 1;
            let is_congested = state & CONGESTED != 0 || taken >= self.congestion_on;
            (taken <= self.depth).then_some(taken | if is_congested { CONGESTED } else { 0 })
        };
        let before = self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).ok()?;
        Some(before & CONGESTED == 0 && before + 1 >= self.congestion_on)
    }

    /// Frees a place in the queue. Returns `true` if this ended the congestion.
    pub(super) fn give_back(&self) -> bool {
        let give_back = |state: u32| {
            let taken = (state & !CONGESTED).checked_sub(1)?;
            let is_congested = state & CONGESTED != 0 && taken >= self.congestion_off;
            Some(taken | if is_congested { CONGESTED } else { 0 })
        };
        let before = self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, give_back);
        let before = before.expect("each place is given back once");
        before & CONGESTED != 0 && (before & !CONGESTED) <= self.congestion_off
    }

    /// Returns whether the queue is congested. Congestion begins when the number of taken places reaches
    /// `congestion_on`, and ends when it falls below `congestion_off`.
    pub(super) fn is_congested(&self) -> bool {
        self.taken.load(Ordering::SeqCst) & CONGESTED != 0
    }
}

/// Returns the number of taken places at which congestion begins, and the number below which it ends: 225 and 207 for a
/// depth of 256.
///
/// Congestion begins at 7/8 of the depth plus one, and ends below 13/16 of the depth minus one. Fractions are rounded
/// as in Linux. Linux: `blk_queue_congestion_threshold`. Source: mechanisms/reclaim, 22.
#[doc(alias = "blk_queue_congestion_threshold")]
fn congestion_thresholds(depth: u32) -> (u32, u32) {
    let on = depth - depth / 8 + 1;
    let off = (depth - depth / 8 - depth / 16).saturating_sub(1);
    (on.min(depth), off.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_begins_at_the_upper_threshold_and_ends_below_the_lower() {
        assert_eq!(congestion_thresholds(128), (113, 103));
        assert_eq!(congestion_thresholds(256), (225, 207));
        let places = Places::new(128);
        for nth in 1..=128 {
            assert_eq!(places.try_take(), Some(nth == 113), "{nth} taken");
            assert_eq!(places.is_congested(), nth >= 113, "{nth} taken");
        }
        assert_eq!(places.try_take(), None);
        for left in (0..128).rev() {
            assert_eq!(places.give_back(), left == 102, "{left} taken");
            assert_eq!(places.is_congested(), left >= 103, "{left} taken");
        }
    }

    #[test]
    fn one_place_is_congested_while_it_is_taken() {
        let places = Places::new(1);
        assert_eq!((places.try_take(), places.is_congested(), places.try_take()), (Some(true), true, None));
        assert!(places.give_back() && !places.is_congested());
    }
}
