//! The fast path: the first zone above its low mark (mechanisms/reclaim, 15).

use super::Allocate;
use crate::memory::{Gfp, MarkRights, Warmth, Zone};
use crate::reclaim::zone_reclaim::Room;
use crate::task::Task;
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
    pub(super) fn allocate_fast(&self, task: &mut Task, gfp: Gfp, order: Order) -> Option<FrameNumber> {
        let make_room = |zone: &Zone<M>| self.zone_reclaim(task, zone, gfp, order);
        self.take_making_room(gfp, order, Until::Low, MarkRights::default(), make_room)
    }

    /// Takes a block from the first zone that stays above its mark.
    pub(super) fn take_from_zonelist(
        &self,
        gfp: Gfp,
        order: Order,
        until: Until,
        rights: MarkRights,
    ) -> Option<FrameNumber> {
        self.take_making_room(gfp, order, until, rights, |_| Room::NotWanted)
    }

    /// The same; where a zone is at its mark, `make_room` may free pages of it.
    fn take_making_room(
        &self,
        gfp: Gfp,
        order: Order,
        until: Until,
        rights: MarkRights,
        mut make_room: impl FnMut(&Zone<M>) -> Room,
    ) -> Option<FrameNumber> {
        let classzone = self.classzone(gfp);
        let preferred = self.preferred_zone(gfp);
        let is_dirty_ok = |zone: &Zone<M>| {
            // Dirty pages are spread over zones here, and only here: the slow path takes what there is.
            let keeps_share = gfp.write && self.choices.zone_dirty_share.is_kept();
            until != Until::Low || !keeps_share || self.is_zone_dirty_ok(zone)
        };
        let take = |zone: &Zone<M>| {
            self.machine.spend(Step::WatermarkCheck, 1);
            let is_above = |mark| zone.is_above(mark, order, classzone, rights);
            let may_take = match until {
                Until::Low => is_above(zone.low()),
                Until::Min => is_above(zone.min()),
                Until::High => is_above(zone.high()),
                Until::Nothing => true,
            };
            let frame = if may_take { self.take(zone, order, gfp.migrate, Warmth::Hot) } else { None };
            frame.inspect(|_| self.count_node(preferred, zone))
        };
        let zones = || self.zonelist(gfp).iter().map(|id| self.zone(*id)).filter(|zone| is_dirty_ok(zone));
        let Some(cache) = self.zonelist_caches.get(usize::from(preferred.node.0)) else {
            return zones()
                .find_map(|zone| take(zone).or_else(|| if make_room(zone) == Room::Made { take(zone) } else { None }));
        };
        // The first zone is looked at in any case; what is known of the others is asked for when it is full.
        cache.refresh(self.machine.now());
        let mut left_out = false;
        let found = zones().enumerate().find_map(|(n, zone)| {
            let was_full = cache.is_full(zone.id);
            if n > 0 && was_full {
                left_out = true;
                return None;
            }
            take(zone).or_else(|| match if was_full { Room::NotWanted } else { make_room(zone) } {
                Room::Made => take(zone),
                Room::NotTried => None,
                Room::NotWanted | Room::NotMade => {
                    cache.note_full(zone.id);
                    None
                }
            })
        });
        found.or_else(|| if left_out { zones().find_map(take) } else { None })
    }

    /// The zones that a request may use, in order.
    pub(super) fn zonelist(&self, gfp: Gfp) -> &[crate::memory::ZoneId] {
        let node = gfp.node.unwrap_or_else(|| self.local_node());
        &self.node(node).zonelists[gfp.highest_zone as usize]
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
