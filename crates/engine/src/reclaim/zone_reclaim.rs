//! Zone reclaim: before a task takes memory of another node, it reclaims on its own node (`zone_reclaim`;
//! mechanisms/reclaim, 2).

use super::{Reclaim, ScanControl};
use crate::memory::{Gfp, Zone, ZoneFlag};
use crate::stat::{Gauge, ZoneEvent};
use crate::task::Task;
use machine::{Func, Machine, Order, Stalled};

/// Bit of `vm.zone_reclaim_mode` that turns zone reclaim on.
pub const RECLAIM_ZONE: u8 = 1;
/// Bit of `vm.zone_reclaim_mode` that lets zone reclaim write dirty pages.
pub const RECLAIM_WRITE: u8 = 2;
/// Bit of `vm.zone_reclaim_mode` that lets zone reclaim take mapped pages, and swap pages out.
pub const RECLAIM_SWAP: u8 = 4;

/// Priority at which zone reclaim begins: it scans a sixteenth of each list (`ZONE_RECLAIM_PRIORITY`).
const FIRST_PRIORITY: u32 = 4;

/// Threshold of zone reclaim for file pages, in per cent of a zone's pages (`vm.min_unmapped_ratio`). Zone reclaim is
/// tried if `zone_reclaim_mode` lets it take more file pages than this threshold, or if more slab pages than
/// [`MIN_SLAB_PERCENT`] can be freed.
const MIN_UNMAPPED_PERCENT: u64 = 1;
const MIN_SLAB_PERCENT: u64 = 5;

/// The outcome of zone reclaim: an attempt to free pages in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Zone reclaim was not attempted, because the kernel, the zone or the request does not allow it.
    NotWanted,
    /// Zone reclaim was not attempted, because no page could be taken, or because another task already reclaims in the
    /// zone.
    NotTried,
    /// The requested number of pages was freed.
    Made,
    /// Zone reclaim was attempted, but freed fewer pages than requested.
    NotMade,
}

impl<M: Machine> Reclaim<M> {
    /// Reclaims pages of a zone whose free pages have fallen to the low mark. Does so only if the zone is on the task's
    /// own node and [`super::Choices::zone_reclaim_mode`] allows it. Returns whether the reclaim was attempted and
    /// whether it freed enough. This function may sleep.
    ///
    /// Only one task at a time reclaims in a zone in this way. For other tasks the function returns [`Room::NotTried`]
    /// meanwhile, so they allocate on another node.
    pub(crate) fn zone_reclaim(&self, task: &mut Task, zone: &Zone<M>, gfp: Gfp, order: Order) -> Room {
        let mode = self.choices.zone_reclaim_mode;
        if mode == 0
            || self.nodes.len() == 1
            || zone.node != self.memory().local_node()
            || !gfp.wait
            || task.may_use_reserve
        {
            return Room::NotWanted;
        }
        let takes_pages = self.is_worth_zone_reclaim(zone, mode);
        let takes_slab = zone.gauges.get(Gauge::NrSlabReclaimable) > zone.managed() * MIN_SLAB_PERCENT / 100;
        if zone.is(ZoneFlag::ALL_UNRECLAIMABLE) || !(takes_pages || takes_slab) || !zone.try_set(ZoneFlag::ZONE_RECLAIM)
        {
            return Room::NotTried;
        }
        let _span = self.machine.span(Func::ZoneReclaim);
        let _stalled = Stalled::begin(&self.machine);
        task.may_use_reserve = true;
        let may_unmap = mode & RECLAIM_SWAP != 0;
        let mut control = ScanControl {
            may_unmap,
            may_swap: may_unmap,
            may_write: mode & RECLAIM_WRITE != 0,
            ..ScanControl::direct(gfp, order)
        };
        control.to_reclaim_pages = control.to_reclaim_pages.max(order.pages());
        let is_done = |control: &ScanControl| control.reclaimed >= control.to_reclaim_pages;
        if takes_pages {
            for priority in (0..=FIRST_PRIORITY).rev() {
                control.priority = priority;
                self.shrink_zone(task, self.lru().reach(zone), &mut control);
                if is_done(&control) || self.machine.is_killed() {
                    break;
                }
            }
            self.lru().lruvec_of(zone).end_at_priority(control.priority);
        }
        if takes_slab && !is_done(&control) {
            control.reclaimed +=
                self.shrink_slab(task, control.scanned, self.writeback().reclaimable_pages(zone)).pages;
        }
        task.may_use_reserve = false;
        zone.clear(ZoneFlag::ZONE_RECLAIM);
        if is_done(&control) {
            return Room::Made;
        }
        zone.stat.count(ZoneEvent::ZoneReclaimFailed, 1);
        Room::NotMade
    }

    /// Returns whether zone reclaim is worthwhile: it may take more than [`MIN_UNMAPPED_PERCENT`] of the zone's pages.
    /// `mode` decides whether it may take mapped file pages and dirty ones.
    fn is_worth_zone_reclaim(&self, zone: &Zone<M>, mode: u8) -> bool {
        let gauge = |gauge| zone.gauges.get(gauge);
        let pages = if mode & RECLAIM_SWAP != 0 {
            gauge(Gauge::NrFilePages)
        } else {
            let on_lists = gauge(Gauge::NrInactiveFile) + gauge(Gauge::NrActiveFile);
            on_lists.saturating_sub(gauge(Gauge::NrMapped))
        };
        let kept = if mode & RECLAIM_WRITE != 0 { 0 } else { gauge(Gauge::NrDirty) };
        pages.saturating_sub(kept) > zone.managed() * MIN_UNMAPPED_PERCENT / 100
    }
}
