//! Deferral of compaction: after failures, compaction is skipped for a number of requests (mechanisms/reclaim, 23.9).

use super::Compact;
use super::choices::{DeferAfter, Deferral, KswapdEndsDeferral, Passes};
use machine::atomic::{AtomicU32, Ordering::Relaxed};
use machine::{Machine, Order};

use crate::memory::Zone;

/// The recent failures of compaction of one zone.
#[derive(Debug)]
pub(super) struct Failures {
    considered: AtomicU32,
    shift: AtomicU32,
    /// The smallest order for which compaction failed.
    order_failed: AtomicU32,
}

impl Default for Failures {
    fn default() -> Self {
        Self { considered: AtomicU32::new(0), shift: AtomicU32::new(0), order_failed: AtomicU32::new(u32::MAX) }
    }
}

impl<M: Machine> Compact<M> {
    fn failures(&self, zone: &Zone<M>) -> &Failures {
        &self.state(zone).failures
    }

    /// Returns whether a run of compaction for a request waits for locks and scans all pageblocks. `is_later` is `true`
    /// if the request has compacted before.
    pub(crate) const fn compaction_waits(&self, is_later: bool) -> bool {
        match self.choices.passes {
            Passes::One => true,
            Passes::AsyncFirst => is_later,
        }
    }

    /// Records that compaction for `order` failed in a zone. The number of later attempts that are skipped doubles with
    /// each failure, up to 2 to the power of `max_defer_shift`.
    pub fn defer(&self, zone: &Zone<M>, order: Order) {
        let failures = self.failures(zone);
        failures.considered.store(0, Relaxed);
        let shift = (failures.shift.load(Relaxed) + 1).min(u32::from(self.choices.max_defer_shift));
        failures.shift.store(shift, Relaxed);
        failures.order_failed.fetch_min(u32::from(order.0), Relaxed);
    }

    /// Returns whether a failure of a run defers later runs. `waits` says whether the failed run was one that waits for
    /// locks.
    pub(crate) fn defers_after(&self, waits: bool) -> bool {
        match self.choices.defer_after {
            DeferAfter::AnyRun => true,
            DeferAfter::WaitingRuns => waits,
        }
    }

    /// Counts an attempt to compact the zone for `order`. Returns whether compaction is deferred, so that the caller
    /// must skip this attempt.
    #[must_use]
    pub fn is_deferred(&self, zone: &Zone<M>, order: Order) -> bool {
        let failures = self.failures(zone);
        let is_order_exempt = match self.choices.deferral {
            Deferral::AllOrders => false,
            Deferral::FromOrder => u32::from(order.0) < failures.order_failed.load(Relaxed),
        };
        if is_order_exempt {
            return false;
        }
        let limit = 1 << failures.shift.load(Relaxed);
        let considered = (failures.considered.load(Relaxed) + 1).min(limit);
        failures.considered.store(considered, Relaxed);
        considered < limit
    }

    /// Returns whether the deferral of compaction of a zone has reached its largest length and is over. The scanners of
    /// the next run then start at the ends of the zone.
    #[doc(alias = "compaction_restarting")]
    pub(super) fn restarts(&self, zone: &Zone<M>, order: Order) -> bool {
        let failures = self.failures(zone);
        let shift = failures.shift.load(Relaxed);
        u32::from(order.0) >= failures.order_failed.load(Relaxed)
            && shift == u32::from(self.choices.max_defer_shift)
            && failures.considered.load(Relaxed) >= 1 << shift
    }

    /// Returns whether compaction of the zone failed lately for `order` or for a smaller order.
    #[must_use]
    pub fn has_failed(&self, zone: &Zone<M>, order: Order) -> bool {
        u32::from(order.0) >= self.failures(zone).order_failed.load(Relaxed)
    }

    /// Records that kswapd compacted a zone, and that the zone then has a free block of order `order`. With
    /// `KswapdEndsDeferral::Yes`, compaction for this order is no longer deferred.
    pub(crate) fn note_kswapd_success(&self, zone: &Zone<M>, order: Order) {
        match self.choices.kswapd_ends_deferral {
            KswapdEndsDeferral::Yes => self.note_success(zone, order),
            KswapdEndsDeferral::No => {}
        }
    }

    /// Records that a request of `order` succeeded, so that compaction is not skipped for the next request.
    pub fn note_success(&self, zone: &Zone<M>, order: Order) {
        let failures = self.failures(zone);
        failures.considered.store(0, Relaxed);
        failures.shift.store(0, Relaxed);
        let _ = failures.order_failed.fetch_update(Relaxed, Relaxed, |failed| {
            (failed != u32::MAX && u32::from(order.0) >= failed).then_some(u32::from(order.0) + 1)
        });
    }

    /// Returns the number of consecutive failures of compaction, up to `max_defer_shift`. After n failures, 2^n - 1
    /// attempts are skipped.
    #[must_use]
    pub fn defer_shift(&self, zone: &Zone<M>) -> u32 {
        self.failures(zone).shift.load(Relaxed)
    }
}
