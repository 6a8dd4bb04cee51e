//! After failures, compaction is left out for a while (mechanisms/reclaim, 23.9).

use super::Compact;
use machine::atomic::{AtomicU32, Ordering::Relaxed};
use machine::{Machine, Order};

use crate::memory::Zone;

/// How compaction of one zone failed lately.
#[derive(Debug)]
pub(super) struct Deferral {
    considered: AtomicU32,
    shift: AtomicU32,
    /// The smallest order that failed.
    order_failed: AtomicU32,
}

impl Default for Deferral {
    fn default() -> Self {
        Self { considered: AtomicU32::new(0), shift: AtomicU32::new(0), order_failed: AtomicU32::new(u32::MAX) }
    }
}

impl<M: Machine> Compact<M> {
    fn deferral(&self, zone: &Zone<M>) -> &Deferral {
        &self.deferrals[usize::from(zone.id.0)]
    }

    /// Compaction for `order` failed: leave out twice as many attempts as before.
    pub fn defer(&self, zone: &Zone<M>, order: Order) {
        let deferral = self.deferral(zone);
        deferral.considered.store(0, Relaxed);
        let shift = (deferral.shift.load(Relaxed) + 1).min(u32::from(self.choices.max_defer_shift));
        deferral.shift.store(shift, Relaxed);
        deferral.order_failed.fetch_min(u32::from(order.0), Relaxed);
    }

    /// Is compaction for `order` left out this time? Asking counts as an attempt.
    #[must_use]
    pub fn is_deferred(&self, zone: &Zone<M>, order: Order) -> bool {
        let deferral = self.deferral(zone);
        if u32::from(order.0) < deferral.order_failed.load(Relaxed) {
            return false;
        }
        let limit = 1 << deferral.shift.load(Relaxed);
        let considered = (deferral.considered.load(Relaxed) + 1).min(limit);
        deferral.considered.store(considered, Relaxed);
        considered < limit
    }

    /// A request of `order` succeeded: try again at once.
    pub fn note_success(&self, zone: &Zone<M>, order: Order) {
        let deferral = self.deferral(zone);
        deferral.considered.store(0, Relaxed);
        deferral.shift.store(0, Relaxed);
        let _ = deferral.order_failed.fetch_update(Relaxed, Relaxed, |failed| {
            (failed != u32::MAX && u32::from(order.0) >= failed).then_some(u32::from(order.0) + 1)
        });
    }

    /// By how much [`Compact::is_deferred`] was raised: failures in a row.
    #[must_use]
    pub fn defer_shift(&self, zone: &Zone<M>) -> u32 {
        self.deferral(zone).shift.load(Relaxed)
    }
}
