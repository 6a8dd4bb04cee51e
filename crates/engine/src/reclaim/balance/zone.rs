//! The work of kswapd on one zone in a pass over its node.

use crate::compact::Suitability;
use crate::lru::CLUSTER;
use crate::memory::{Zone, ZoneFlag};
use crate::reclaim::choices::{HighOrder, KswapdGap, KswapdTarget, SlabZones};
use crate::reclaim::{Reclaim, ScanControl};
use crate::task::Task;
use machine::{Machine, Order};

/// The result of a pass of kswapd over one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZonePass {
    /// True if the pass scanned at least as many pages as the zone's high mark, or if the zone needed no pages.
    pub scanned_enough: bool,
    /// Number of pages that the pass was meant to free.
    pub attempted: u64,
    /// Number of the zone's pages that kswapd scanned in this pass.
    pub scanned: u64,
    /// `true` if the zone was balanced (above its high mark) after the pass; with `KswapdGap::NeverLeft`, before the
    /// pass.
    pub is_balanced: bool,
    /// `true` if the zone's balance counts when the balance of its node is judged. A zone that was marked hopeless
    /// (`all_unreclaimable`) before this pass does not count, except with `KswapdGap::NeverLeft`.
    pub counts: bool,
    /// `true` if the zone needed no pages, and kswapd did nothing in it.
    pub was_left: bool,
}

/// A zone from which kswapd wants blocks, and the numbers by which kswapd judges the zone.
struct Wanted<'a, M: Machine> {
    /// The zone from which kswapd wants blocks.
    zone: &'a Zone<M>,
    /// The order of the wanted blocks.
    order: Order,
    /// Kind, as a number, of the highest zone that the allocations for which kswapd reclaims may use. The lowmem
    /// reserve for this kind is added to the mark by which kswapd judges the zone.
    classzone: usize,
    /// Number of reclaimable pages in the node's zones up to the highest zone that lacks pages.
    lru_pages: u64,
}

impl<M: Machine> Reclaim<M> {
    /// Shrinks one zone, unless `reclaim.kswapd_gap` lets kswapd skip the zone. Returns the result.
    pub(super) fn kswapd_shrink_zone(
        &self,
        task: &mut Task,
        zone: &Zone<M>,
        control: &mut ScanControl,
        classzone: usize,
        lru_pages: u64,
    ) -> ZonePass {
        control.to_reclaim_pages = match self.choices.kswapd_target {
            KswapdTarget::Unbounded => u64::MAX,
            KswapdTarget::HighWatermark => zone.high().max(CLUSTER),
        };
        // If compaction can make the block, single pages are enough.
        let can_compact = || control.order > Order::ZERO && self.suitable(zone, control.order) != Suitability::Skipped;
        let order = match self.choices.high_order {
            HighOrder::ByCompaction if can_compact() => Order::ZERO,
            HighOrder::ByCompaction | HighOrder::ByReclaim => control.order,
        };
        control.scanned = 0;
        let wanted = Wanted { zone, order, classzone, lru_pages };
        match self.choices.kswapd_gap {
            KswapdGap::NeverLeft => self.shrink_in_any_case(task, control, &wanted),
            KswapdGap::EightTimesHigh => self.shrink_below_gap(task, control, &wanted, 7 * zone.high()),
            KswapdGap::Balance => self.shrink_below_gap(task, control, &wanted, self.balance_gap(zone)),
        }
    }

    /// Shrinks the LRU lists and the object caches of a zone that is not balanced. With `SlabZones::Every`, also
    /// shrinks those of a balanced zone. The result states whether the zone was balanced before it was shrunk.
    fn shrink_in_any_case(&self, task: &mut Task, control: &mut ScanControl, wanted: &Wanted<'_, M>) -> ZonePass {
        let zone = wanted.zone;
        let was_balanced = self.is_zone_balanced(zone, wanted.order, 0, wanted.classzone);
        if was_balanced && !self.shrinks_slab_of_every_zone() {
            return ZonePass::left(true);
        }
        self.shrink_zone(task, self.lru().reach(zone), control);
        self.end_lists(task, control, wanted);
        Self::end_zone(wanted, was_balanced);
        ZonePass { counts: true, ..ZonePass::shrunk(zone.high(), control, was_balanced, was_balanced) }
    }

    /// Shrinks a zone's LRU lists and object caches, unless the zone is balanced at its high mark plus `gap` pages.
    /// With `SlabZones::Every`, shrinks the object caches also in that case.
    fn shrink_below_gap(
        &self,
        task: &mut Task,
        control: &mut ScanControl,
        wanted: &Wanted<'_, M>,
        gap: u64,
    ) -> ZonePass {
        let zone = wanted.zone;
        let needs_none = self.is_zone_balanced(zone, wanted.order, gap, wanted.classzone);
        if needs_none && !self.shrinks_slab_of_every_zone() {
            return ZonePass::left(!zone.is(ZoneFlag::ALL_UNRECLAIMABLE));
        }
        if !needs_none {
            self.shrink_zone(task, self.lru().reach(zone), control);
        }
        let was_hopeless = self.end_lists(task, control, wanted);
        let is_balanced = self.is_zone_balanced(zone, wanted.order, 0, wanted.classzone);
        Self::end_zone(wanted, is_balanced);
        ZonePass { counts: !was_hopeless, ..ZonePass::shrunk(zone.high(), control, needs_none, is_balanced) }
    }

    const fn shrinks_slab_of_every_zone(&self) -> bool {
        match self.choices.slab_zones {
            SlabZones::Every => true,
            SlabZones::Shrunk => false,
        }
    }

    /// Ends a pass of kswapd over a zone, after the zone's LRU lists were shrunk: shrinks object caches, and marks the
    /// zone hopeless (`all_unreclaimable`) if this freed no object and the scans of the zone were in vain
    /// ([`Reclaim::is_hopeless`]). Returns whether the zone already had this mark before.
    fn end_lists(&self, task: &mut Task, control: &mut ScanControl, wanted: &Wanted<'_, M>) -> bool {
        let zone = wanted.zone;
        let dropped = self.shrink_slab(task, control.scanned, wanted.lru_pages);
        control.reclaimed += dropped.pages;
        let was_hopeless = zone.is(ZoneFlag::ALL_UNRECLAIMABLE);
        if dropped.objects == 0 && self.is_hopeless(self.lru().lruvec_of(zone)) {
            zone.set(ZoneFlag::ALL_UNRECLAIMABLE);
        }
        zone.clear(ZoneFlag::WRITEBACK);
        was_hopeless
    }

    fn end_zone(wanted: &Wanted<'_, M>, is_balanced: bool) {
        let zone = wanted.zone;
        if is_balanced && !zone.is(ZoneFlag::ALL_UNRECLAIMABLE) {
            zone.clear(ZoneFlag::CONGESTED);
            zone.clear(ZoneFlag::TAIL_LRU_DIRTY);
        }
    }
}

impl ZonePass {
    /// Returns the result for a zone that was balanced already, so that kswapd did nothing in it. `counts` becomes the
    /// result's field `counts`.
    const fn left(counts: bool) -> Self {
        Self { scanned_enough: true, attempted: 0, scanned: 0, is_balanced: true, counts, was_left: true }
    }

    /// Creates the result for a zone in which kswapd shrank LRU lists or object caches. `needs_none` is true if the
    /// zone was balanced before, and `high` is its high mark.
    fn shrunk(high: u64, control: &ScanControl, needs_none: bool, is_balanced: bool) -> Self {
        let high = high.max(CLUSTER);
        Self {
            scanned_enough: needs_none || control.scanned >= high,
            attempted: if needs_none { 0 } else { high },
            scanned: control.scanned,
            is_balanced,
            counts: true,
            was_left: false,
        }
    }
}
