//! The fast path of an allocation, which takes pages from the first zone above its low mark (mechanisms/reclaim, 15).

use super::Allocate;
use crate::memory::{Gfp, MarkRights, Mixing, Warmth, Zone, ZoneKind};
use crate::reclaim::zone_reclaim::Room;
use crate::task::Task;
use machine::{FrameNumber, Machine, Order, Step};

/// The mark down to which a request may take pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The request may take pages down to the low mark. A request that stays above this mark does not wake kswapd.
    Low,
    /// The min mark.
    Min,
    /// The high mark, so that the request succeeds only if another task has just freed pages.
    High,
    /// No mark: the request may take even the last free page.
    Nothing,
}

/// The limits of a request: the mark, how far below the mark the request may take pages, and whether it may mix migrate
/// types.
#[derive(Clone, Copy)]
struct Bound {
    until: Until,
    rights: MarkRights,
    mixing: Mixing,
}

impl<M: Machine> Allocate<M> {
    pub(super) fn allocate_fast(&self, task: &mut Task, gfp: Gfp, order: Order) -> Option<FrameNumber> {
        if self.choices.migrate_fallback.avoids_fragmentation() && self.has_lower_zone(gfp) {
            let unmixed = self.take_above_low(task, gfp, order, Mixing::Avoided);
            if unmixed.is_some() {
                return unmixed;
            }
        }
        self.take_above_low(task, gfp, order, Mixing::Allowed)
    }

    /// Returns whether a request prefers a Normal zone and can also use the DMA32 zone of the same node (Linux 5.0,
    /// "mm, page_alloc: spread allocations across zones before introducing fragmentation").
    fn has_lower_zone(&self, gfp: Gfp) -> bool {
        let mut zones = self.zonelist(gfp).iter().map(|id| self.memory().zone(*id));
        let [Some(preferred), Some(next)] = [zones.next(), zones.next()] else { return false };
        preferred.kind == ZoneKind::Normal && next.kind == ZoneKind::Dma32 && next.node == preferred.node
    }

    fn take_above_low(&self, task: &mut Task, gfp: Gfp, order: Order, mixing: Mixing) -> Option<FrameNumber> {
        let bound = Bound { until: Until::Low, rights: MarkRights::default(), mixing };
        if self.nodes.len() == 1 {
            return self.take_from_node(gfp, order, bound);
        }
        let make_room = |zone: &Zone<M>| self.zone_reclaim(task, zone, gfp, order);
        self.take_from_nodes(gfp, order, bound, make_room)
    }

    /// Takes a block from the first zone that stays above its mark; returns `None` if there is no such zone.
    pub(super) fn take_from_zonelist(
        &self,
        gfp: Gfp,
        order: Order,
        until: Until,
        rights: MarkRights,
    ) -> Option<FrameNumber> {
        let bound = Bound { until, rights, mixing: Mixing::Allowed };
        if self.nodes.len() > 1 {
            return self.take_from_nodes(gfp, order, bound, |_| Room::NotWanted);
        }
        self.take_from_node(gfp, order, bound)
    }

    /// Takes a block on a machine with one node. Returns `None` if no zone has a block that the request may take.
    fn take_from_node(&self, gfp: Gfp, order: Order, bound: Bound) -> Option<FrameNumber> {
        let zonelist = self.zonelist(gfp);
        let classzone = self.memory().zone(zonelist[0]).kind as usize;
        let mut zones =
            zonelist.iter().map(|id| self.memory().zone(*id)).filter(|zone| self.is_share_kept(zone, gfp, bound.until));
        zones.find_map(|zone| self.take_above(zone, classzone, gfp, order, bound))
    }

    /// Takes a block of 2^`order` pages on a machine with several nodes. If a zone is at its mark, calls `make_room`,
    /// which may free pages in the zone.
    #[cold]
    fn take_from_nodes(
        &self,
        gfp: Gfp,
        order: Order,
        bound: Bound,
        mut make_room: impl FnMut(&Zone<M>) -> Room,
    ) -> Option<FrameNumber> {
        let zonelist = self.zonelist(gfp);
        let preferred = self.memory().zone(zonelist[0]);
        let take = |zone: &Zone<M>| {
            let frame = self.take_above(zone, preferred.kind as usize, gfp, order, bound);
            frame.inspect(|_| self.memory().count_node(preferred, zone))
        };
        // A request that may not mix migrate types tries only the zones of its preferred node. It then tries them again
        // with mixing allowed, before it tries another node.
        let is_asked = |zone: &&Zone<M>| bound.mixing == Mixing::Allowed || zone.node == preferred.node;
        let zones = || {
            let zones = zonelist.iter().map(|id| self.memory().zone(*id)).take_while(is_asked);
            zones.filter(|zone| self.is_share_kept(zone, gfp, bound.until))
        };
        let Some(cache) = self.zonelist_caches.get(usize::from(preferred.node.0)) else {
            return zones()
                .find_map(|zone| take(zone).or_else(|| if make_room(zone) == Room::Made { take(zone) } else { None }));
        };
        // The first zone is always tried. The other zones are tried only if the cache does not say that they are full.
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

    /// Returns whether the spreading of dirty pages lets the request use the zone. If the request asks for a page to
    /// write to, the fast path uses a zone only while the zone has fewer dirty pages than its share of the dirty limit.
    /// Other requests, and the slow path, may use any zone.
    #[inline]
    fn is_share_kept(&self, zone: &Zone<M>, gfp: Gfp, until: Until) -> bool {
        let is_asked = gfp.write && until == Until::Low && self.choices.zone_dirty_share.is_kept();
        !is_asked || self.writeback().is_zone_dirty_ok(zone)
    }

    /// Takes a block from a zone, if the zone stays above its mark; otherwise returns `None`.
    #[inline]
    fn take_above(
        &self,
        zone: &Zone<M>,
        classzone: usize,
        gfp: Gfp,
        order: Order,
        bound: Bound,
    ) -> Option<FrameNumber> {
        self.machine.spend(Step::WatermarkCheck, 1);
        let is_above = |mark| zone.is_above(mark, order, classzone, bound.rights);
        let may_take = match bound.until {
            Until::Low => is_above(zone.low() + zone.boost()),
            Until::Min => is_above(zone.min()),
            Until::High => is_above(zone.high()),
            Until::Nothing => true,
        };
        if !may_take {
            return None;
        }
        let boost = zone.boost();
        let frame = self.memory().take_mixing(zone, order, gfp.migrate, Warmth::Hot, bound.mixing);
        if zone.boost() > boost && !gfp.no_kswapd {
            // Kswapd is woken for this zone, even if the request could use higher zones, so that kswapd skips the pages
            // of those.
            self.wake_kswapd(zone, Order::ZERO, zone.kind as usize);
        }
        frame
    }

    /// Returns the zones that a request may use, in the order in which they are tried.
    pub(super) fn zonelist(&self, gfp: Gfp) -> &[crate::memory::ZoneId] {
        let node = gfp.node.unwrap_or_else(|| self.memory().local_node());
        &self.memory().node(node).zonelists[gfp.highest_zone as usize]
    }

    /// Returns the class zone of a request: the kind of the first zone that it would use.
    pub(super) fn classzone(&self, gfp: Gfp) -> usize {
        self.preferred_zone(gfp).kind as usize
    }

    /// Returns the first zone that a request would use.
    pub(super) fn preferred_zone(&self, gfp: Gfp) -> &Zone<M> {
        self.memory().zone(self.zonelist(gfp)[0])
    }
}
