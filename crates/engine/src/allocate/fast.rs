//! The fast path: the first zone above its low mark (mechanisms/reclaim, 15).

use super::Allocate;
use super::choices::ZoneDirtyShare;
use crate::memory::{Gfp, MarkRights, Warmth, Zone};
use machine::{FrameNumber, Machine, Order, Step};

/// Down to which mark a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Low: without waking anybody.
    Low,
    /// Min.
    Min,
    /// High: only if somebody else has just made room.
    High,
    /// Nothing is kept back.
    Nothing,
}

impl<M: Machine> Allocate<M> {
    pub(super) fn allocate_fast(&self, gfp: Gfp, order: Order) -> Option<FrameNumber> {
        self.take_from_zonelist(gfp, order, Until::Low, MarkRights::default())
    }

    /// Takes a block from the first zone that stays above its mark.
    pub(super) fn take_from_zonelist(
        &self,
        gfp: Gfp,
        order: Order,
        until: Until,
        rights: MarkRights,
    ) -> Option<FrameNumber> {
        let classzone = self.classzone(gfp);
        self.zonelist(gfp).iter().map(|id| self.zone(*id)).find_map(|zone| {
            // Dirty pages are spread over zones here, and only here: the slow path takes what there is.
            let keeps_share = gfp.write && self.choices.zone_dirty_share == ZoneDirtyShare::Kept;
            if until == Until::Low && keeps_share && !self.is_zone_dirty_ok(zone) {
                return None;
            }
            self.machine.spend(Step::WatermarkCheck, 1);
            let is_above = |mark| zone.is_above(mark, order, classzone, rights);
            let may_take = match until {
                Until::Low => is_above(zone.low()),
                Until::Min => is_above(zone.min()),
                Until::High => is_above(zone.high()),
                Until::Nothing => true,
            };
            if may_take { self.take(zone, order, gfp.migrate, Warmth::Hot) } else { None }
        })
    }

    /// The zones that a request may use, in order.
    pub(super) fn zonelist(&self, gfp: Gfp) -> &[crate::memory::ZoneId] {
        &self.nodes[0].zonelists[gfp.highest_zone as usize]
    }

    /// The class zone of a request: the kind of the first zone that it would use.
    pub(super) fn classzone(&self, gfp: Gfp) -> usize {
        self.preferred_zone(gfp).kind as usize
    }

    /// The first zone that a request would use.
    pub(super) fn preferred_zone(&self, gfp: Gfp) -> &Zone<M> {
        self.zone(self.zonelist(gfp)[0])
    }
}
