//! The slow path: kswapd, compaction, direct reclaim (mechanisms/reclaim, 16).

use super::choices::{
    AfterReclaim, AfterWait, CompactionGiveUp, DirectCompact, FruitlessReclaim, HugeWakesKswapd, ReserveThrottle,
    RetryWait,
};
use super::fast::Until;
use super::{Allocate, OutOfMemory};
use crate::compact::{CompactRequest, Suitability};
use crate::memory::{Gfp, MarkRights, MigrateType};
use crate::reclaim::control::COSTLY_ORDER;
use crate::reclaim::direct::Progress;
use crate::reclaim::throttle::DirectTurn;
use crate::stat::Event;
use crate::task::Task;
use machine::note::{SlowRequest, Work};
use machine::{FrameNumber, Func, Machine, Nanos, Note, Order, Stalled, WaitReason, Waiting};

/// Wait of a request for a congested queue, after reclaim made progress but the request got no page.
const RETRY_WAIT: Nanos = Nanos::from_millis(20);

/// Reclaims that found no page to look at, or none to be freed in zones that count as hopeless, before memory counts as
/// exhausted. A reclaim that freed a page, or that met a zone in which one was freed, starts the count again, the latter for
/// [`HOPED_MAX`] only; one that only waited for a write does not, for that write may be of a page that cannot be freed either.
///
/// By mechanisms/reclaim, 17.1, the request would try endlessly in the first case, because a zone that is never scanned
/// is never hopeless, and fail at once in the second. But the mark is set by the last scan, and only a freed page
/// clears it: pages that were held then, and are not any more, would never be found. So all reclaims but the first
/// ignore the mark, and sums of counters that may be old (`lru.cgroup_counters`). Linux believes them to the end, and
/// then kills; here no task is killed. Waits between reclaims grow to a quarter of a second in all. Pages that others
/// hold for a moment are back by then, even if a thread that holds them gets no CPU for a while.
const FRUITLESS_ROUNDS_MAX: u32 = 16;

/// Time during which reclaims may free nothing and only hope, or wait for writes, before they count as fruitless, too.
/// A disk that writes nothing for so long does not work, or every write to it fails. A zone may give hope only because
/// others take a page of it and return it repeatedly. Chosen; no other value was tried.
const HOPED_MAX: Nanos = Nanos::from_secs(5);

/// First wait of a request after a fruitless reclaim: this long twice, then twice as long, and so on.
const FRUITLESS_WAIT: Nanos = Nanos::from_millis(1);

/// The longest of these waits.
const FRUITLESS_WAIT_MAX: Nanos = Nanos::from_millis(32);

/// Distance below the min mark to which a page that swap-in needs may go.
const FOR_SWAP_IN: MarkRights = MarkRights { high: false, harder: true };

/// The state that direct compaction left behind.
#[derive(Clone, Copy, Debug, Default)]
struct Compaction {
    /// Later runs wait for locks.
    is_later: bool,
    /// `true` if compaction was left out because it failed lately.
    was_deferred: bool,
    /// `true` if compaction gave up because others waited.
    was_contended: bool,
}

/// The next step of a task whose request needs pages reclaimed.
enum TurnOrFrame<'a, M: Machine> {
    /// The task reclaims.
    Turn(DirectTurn<'a, M>),
    /// Others did; or it does not wait for them, and gets nothing.
    Frame(Option<FrameNumber>),
}

impl<M: Machine> Allocate<M> {
    pub(super) fn allocate_slow(&self, task: &mut Task, gfp: Gfp, order: Order) -> Result<FrameNumber, OutOfMemory> {
        let began = self.machine.now();
        let mut work = Work::default();
        let found = self.make_room_and_allocate(task, gfp, order, &mut work);
        self.note_slow_request(began, gfp, order, found.is_ok(), &work);
        found
    }

    /// Records the work of a request that did not get its pages at once, if it took time.
    pub(super) fn note_slow_request(&self, began: Nanos, gfp: Gfp, order: Order, is_served: bool, work: &Work) {
        if self.machine.now() == began {
            return;
        }
        self.machine.note(|| {
            let (gfp, zone) = (gfp.words(), self.preferred_zone(gfp).kind.name().to_owned());
            Note::SlowRequest(SlowRequest { began, order, gfp, zone, is_served, work: *work })
        });
    }

    fn make_room_and_allocate(
        &self,
        task: &mut Task,
        gfp: Gfp,
        order: Order,
        work: &mut Work,
    ) -> Result<FrameNumber, OutOfMemory> {
        let _span = self.machine.span(Func::AllocSlowpath);
        let failed = || {
            // Who may not wait, or may fail, did not exhaust memory.
            let is_exhausted = order == Order::ZERO && gfp.wait && !gfp.no_retry;
            self.stat.count(if is_exhausted { Event::OutOfMemory } else { Event::AllocFailed }, 1);
            OutOfMemory { order }
        };
        let zonelist = self.zonelist(gfp);
        let classzone = self.classzone(gfp);
        // Who must leave the reserve alone need not try harder either.
        let rights = MarkRights { high: gfp.high, harder: !gfp.wait && !gfp.no_reserve };
        let mut compaction = Compaction::default();
        let (mut reclaimed, mut fruitless_rounds, mut hopes_since) = (0, 0, None);
        // Others are told at once.
        let may_exhaust = gfp.fs && !gfp.no_retry;
        let wakes_kswapd = match self.choices.huge_wakes_kswapd {
            HugeWakesKswapd::No => !gfp.no_kswapd,
            HugeWakesKswapd::Yes => true,
        };
        if wakes_kswapd {
            for id in zonelist {
                self.wake_kswapd(self.zone(*id), order, classzone);
            }
        }
        let mut tries = true;
        loop {
            if tries && let Some(frame) = self.take_from_zonelist(gfp, order, Until::Min, rights) {
                return Ok(frame);
            }
            tries = match self.choices.after_wait {
                AfterWait::TriesFirst => true,
                AfterWait::Reclaims => false,
            };
            // Whoever makes room must not need room that is not there.
            if task.may_use_reserve && !gfp.no_reserve {
                return self.take_from_zonelist(gfp, order, Until::Nothing, rights).ok_or_else(failed);
            }
            if !gfp.wait || self.machine.is_killed() {
                // A dying task may take from the reserve to be gone sooner.
                let until = if self.machine.is_killed() { Until::Nothing } else { Until::Min };
                return self.take_from_zonelist(gfp, order, until, rights).ok_or_else(failed);
            }
            if let Some(frame) = self.direct_compact(gfp, order, rights, &mut compaction, work) {
                return Ok(frame);
            }
            compaction.is_later = true;
            if self.gives_up(gfp, order, compaction) {
                return Err(failed());
            }
            let _stall = self.pressure.stall(&self.machine);
            // Whoever was told to end while it waited looks again before it reclaims.
            let was_killed = match self.choices.reserve_throttle {
                ReserveThrottle::On => self.throttle_direct_reclaim(task, self.preferred_zone(gfp).node, gfp),
                ReserveThrottle::Off => false,
            };
            let mut progress = if was_killed {
                Progress::Hope
            } else {
                let turn = match self.turn_or_frame(task, gfp, order, rights) {
                    TurnOrFrame::Turn(turn) => turn,
                    TurnOrFrame::Frame(frame) => return frame.ok_or_else(failed),
                };
                let doubts = fruitless_rounds > 0;
                let progress = self.try_to_free_pages(task, zonelist, order, gfp, doubts, work);
                let is_last = fruitless_rounds >= FRUITLESS_ROUNDS_MAX || progress == Progress::Nothing && !may_exhaust;
                if !is_last {
                    self.list_for_next(progress);
                }
                // The next task begins after that: before, it would find no more than this one did.
                drop(turn);
                progress
            };
            match progress {
                Progress::Freed(_) => (fruitless_rounds, hopes_since) = (0, None),
                Progress::Hope | Progress::Waited => {
                    let now = self.machine.now();
                    if now.since(*hopes_since.get_or_insert(now)) >= HOPED_MAX {
                        progress = Progress::Nothing;
                    } else if progress == Progress::Hope {
                        fruitless_rounds = 0;
                    }
                }
                Progress::Blind | Progress::Nothing => {}
            }
            let is_fruitless = matches!(progress, Progress::Blind | Progress::Nothing);
            fruitless_rounds += u32::from(is_fruitless);
            if is_fruitless
                && gfp.swap_in
                && self.swap.is_nearly_full()
                && let Some(frame) = self.take_from_zonelist(gfp, order, Until::Min, FOR_SWAP_IN)
            {
                return Ok(frame);
            }
            if progress == Progress::Blind || progress == Progress::Nothing && may_exhaust {
                progress = if fruitless_rounds > FRUITLESS_ROUNDS_MAX {
                    Progress::Nothing
                } else {
                    let wait = Nanos(FRUITLESS_WAIT.0 << ((fruitless_rounds - 1) / 2));
                    let waiting = Waiting::begin(&self.machine, WaitReason::FruitlessReclaim);
                    self.machine.pause(wait.min(FRUITLESS_WAIT_MAX));
                    drop(waiting);
                    Progress::Blind
                };
            }
            if progress != Progress::Nothing {
                if let Some(frame) = self.take_after_reclaim(gfp, order, rights) {
                    return Ok(frame);
                }
            } else if may_exhaust {
                return self.take_from_zonelist(gfp, order, Until::High, rights).ok_or_else(failed);
            }
            reclaimed += if let Progress::Freed(pages) = progress { pages } else { 1 };
            if !should_retry(gfp, order, reclaimed) {
                let frame = self.direct_compact(gfp, order, rights, &mut compaction, work);
                return frame.ok_or_else(failed);
            }
            match self.choices.retry_wait {
                RetryWait::CongestionWait => self.congestion_wait(RETRY_WAIT, WaitReason::Retry),
                RetryWait::WaitIffCongested => {
                    self.wait_iff_congested(self.preferred_zone(gfp), RETRY_WAIT, WaitReason::Retry);
                }
                RetryWait::None => self.machine.relax(),
            }
        }
    }

    /// Puts pages that wait in batches on the lists, because reclaim freed nothing and there will be another.
    pub(super) fn list_for_next(&self, progress: Progress) {
        match (self.choices.fruitless_reclaim, progress) {
            (FruitlessReclaim::DrainsBatches, Progress::Blind | Progress::Nothing) => self.drain_all(),
            (FruitlessReclaim::DrainsBatches | FruitlessReclaim::Repeats, _) => {}
        }
    }

    /// Returns a turn at direct reclaim, or a frame that others freed meanwhile; `None` for a task that would not wait
    /// or was killed. *May sleep.*
    fn turn_or_frame(&self, task: &Task, gfp: Gfp, order: Order, rights: MarkRights) -> TurnOrFrame<'_, M> {
        if let Some(turn) = self.try_begin_direct(task, gfp, order) {
            return TurnOrFrame::Turn(turn);
        }
        if gfp.no_retry {
            return TurnOrFrame::Frame(None);
        }
        self.wait_for_direct(|| {
            if let Some(frame) = self.take_from_zonelist(gfp, order, Until::Min, rights) {
                return Some(TurnOrFrame::Frame(Some(frame)));
            }
            if self.machine.is_killed() {
                return Some(TurnOrFrame::Frame(self.take_from_zonelist(gfp, order, Until::Nothing, rights)));
            }
            self.try_begin_direct(task, gfp, order).map(TurnOrFrame::Turn)
        })
    }

    /// Tries again after reclaim made progress. Freed pages may lie on other CPUs' lists.
    fn take_after_reclaim(&self, gfp: Gfp, order: Order, rights: MarkRights) -> Option<FrameNumber> {
        self.take_from_zonelist(gfp, order, Until::Min, rights).or_else(|| {
            match self.choices.after_reclaim {
                AfterReclaim::Retries => return None,
                AfterReclaim::DrainsPerCpu => self.drain_all_per_cpu(),
            }
            self.take_from_zonelist(gfp, order, Until::Min, rights)
        })
    }

    /// Returns whether reclaim is not worthwhile for a block, because compaction keeps failing or has no time
    /// (mechanisms/reclaim, 16.3, rule G).
    fn gives_up(&self, gfp: Gfp, order: Order, compaction: Compaction) -> bool {
        let Compaction { was_deferred, was_contended, .. } = compaction;
        let is_movable = gfp.migrate == MigrateType::Movable && order > Order::ZERO && !gfp.repeat;
        match self.choices.compaction_give_up {
            CompactionGiveUp::Deferred => was_deferred && gfp.no_kswapd,
            CompactionGiveUp::DeferredOrContended => (was_deferred || was_contended) && gfp.no_kswapd,
            CompactionGiveUp::MovableDeferred => was_deferred && is_movable,
            CompactionGiveUp::Movable => (was_deferred || was_contended) && is_movable,
        }
    }

    /// Compacts the zones of a request of order > 0 and tries again (mechanisms/reclaim, 23.9).
    fn direct_compact(
        &self,
        gfp: Gfp,
        order: Order,
        rights: MarkRights,
        compaction: &mut Compaction,
        work: &mut Work,
    ) -> Option<FrameNumber> {
        let least = match self.choices.direct_compact {
            DirectCompact::Never => return None,
            DirectCompact::CostlyOrders => COSTLY_ORDER,
            DirectCompact::AllOrders => Order::ZERO,
        };
        if order <= least || !gfp.io || !gfp.fs {
            return None;
        }
        let preferred = self.preferred_zone(gfp);
        if self.is_deferred(preferred, order) {
            compaction.was_deferred = true;
            return None;
        }
        let _span = self.machine.span(Func::DirectCompact);
        self.stat.count(Event::CompactStall, 1);
        let _stalled = Stalled::begin(&self.machine);
        work.compactions += 1;
        let mut best = Suitability::Skipped;
        let waits = self.compaction_waits(compaction.is_later);
        let request = CompactRequest { order: Some(order), kind: gfp.migrate, waits, is_kswapd: false };
        for id in self.zonelist(gfp) {
            let zone = self.zone(*id);
            let ended = self.compact_zone(zone, request);
            compaction.was_contended |= ended.was_contended;
            if let Some(head) = ended.captured {
                self.note_success(preferred, order);
                self.stat.count(Event::CompactSuccess, 1);
                return Some(head);
            }
            best = best.max(ended.suitability);
            if zone.is_above(zone.low(), order, 0, MarkRights::default()) {
                break;
            }
        }
        if best == Suitability::Skipped {
            return None;
        }
        self.drain_local_per_cpu();
        let frame = self.take_from_zonelist(gfp, order, Until::Min, rights);
        if frame.is_some() {
            self.note_success(preferred, order);
            self.stat.count(Event::CompactSuccess, 1);
        } else {
            self.stat.count(Event::CompactFail, 1);
            if self.defers_after(waits) {
                self.defer(preferred, order);
            }
        }
        frame
    }
}

/// Returns whether a request is tried again after reclaim made progress.
fn should_retry(gfp: Gfp, order: Order, reclaimed: u64) -> bool {
    !gfp.no_retry && (order <= COSTLY_ORDER || gfp.repeat && reclaimed < order.pages())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheap_orders_are_tried_until_they_succeed() {
        assert!(should_retry(Gfp::USER_MOVABLE, COSTLY_ORDER, 0));
        assert!(!should_retry(Gfp::USER_MOVABLE, Order(4), 1000));
        assert!(!should_retry(Gfp::HUGE_PAGE, Order(0), 1000));
        let repeat = Gfp { repeat: true, ..Gfp::USER_MOVABLE };
        assert!(should_retry(repeat, Order(9), 511) && !should_retry(repeat, Order(9), 512));
    }
}
