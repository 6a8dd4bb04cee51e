//! The slow path of an allocation: wake kswapd, compact, reclaim, try again (mechanisms/reclaim, 16).

use super::choices::{
    AfterReclaim, AfterWait, CompactionGiveUp, DirectCompact, FruitlessReclaim, HugeWakesKswapd, ReserveThrottle,
    RetryWait,
};
use super::fast::Until;
use super::out_of_memory::{Exhausted, Hope};
use super::{Allocate, OutOfMemory};
use crate::compact::{CompactRequest, Suitability};
use crate::memory::{Gfp, MarkRights, MigrateType, Zone};
use crate::reclaim::control::COSTLY_ORDER;
use crate::reclaim::direct::Progress;
use crate::reclaim::throttle::DirectTurn;
use crate::stat::Event;
use crate::task::Task;
use machine::note::{SlowRequest, Work};
use machine::{FrameNumber, Func, Machine, Nanos, Note, Order, Stalled, WaitReason, Waiting};
use std::ops::ControlFlow;

/// Longest time that a request waits for congested device queues before its next round (`allocate.retry_wait`).
const RETRY_WAIT: Nanos = Nanos::from_millis(20);

/// Number of fruitless reclaims in a row after which memory counts as exhausted. A reclaim is fruitless if it found no
/// page to scan, or freed no page in zones that count as hopeless.
///
/// - A reclaim that freed a page sets the count to 0.
/// - A reclaim that met a zone in which another task freed a page sets the count to 0, too, but only until
///   [`HOPED_MAX`] has passed.
/// - A reclaim that only waited for a write leaves the count as it is. The written page may be one that cannot be
///   freed.
///
/// This rule replaces that of mechanisms/reclaim, 17.1, for two reasons. First, a zone that is never scanned is never
/// marked hopeless, so a request that finds no page to scan would try endlessly. Second, a request in a hopeless zone
/// would fail at once, even if pages that were held during the last scan have been released since: only a freed page
/// clears the zone's mark as hopeless. So all reclaims but the first ignore this mark, and also sums of counters that
/// may be old (`lru.cgroup_counters`). Linux relies on the mark and on these sums in every reclaim, and then kills a
/// process. The waits between the reclaims add up to a quarter of a second. In this time, other tasks release pages
/// that they hold for a moment, even if a thread gets no CPU for a while.
const FRUITLESS_ROUNDS_MAX: u32 = 16;

/// Time after which a reclaim that frees nothing counts as fruitless in any case, even if it waited for writes
/// ([`Progress::Waited`]) or if another try seems worth it ([`Progress::Hope`]). A disk that has written nothing for
/// this time does not work, or every write to it fails. Another try may seem worth it only because other tasks
/// repeatedly take a page of the zone and return it. The value was chosen without a comparison with other values.
const HOPED_MAX: Nanos = Nanos::from_secs(5);

/// Time for which a request waits after its first fruitless reclaim, and again after its second. After every two
/// further fruitless reclaims the time doubles, up to [`FRUITLESS_WAIT_MAX`].
const FRUITLESS_WAIT: Nanos = Nanos::from_millis(1);

/// The longest wait after a fruitless reclaim.
const FRUITLESS_WAIT_MAX: Nanos = Nanos::from_millis(32);

/// Rights of a request for a page for swap-in: it may take pages below the min mark.
const FOR_SWAP_IN: MarkRights = MarkRights { high: false, harder: true };

/// The results of earlier direct compactions for one request.
#[derive(Clone, Copy, Debug, Default)]
struct Compaction {
    /// `true` after the first round of the slow path; compaction in later rounds may wait for locks.
    is_later: bool,
    /// `true` if compaction was left out because it had failed shortly before.
    was_deferred: bool,
    /// `true` if compaction gave up because other tasks waited for a lock or for the CPU.
    was_contended: bool,
}

/// A request for a block of free pages, in the slow path of the allocator.
#[derive(Clone, Copy)]
struct Wanted {
    gfp: Gfp,
    order: Order,
    rights: MarkRights,
    /// True if the request fails only after so many fruitless rounds of reclaim that memory counts as exhausted. False
    /// if it may fail earlier.
    may_exhaust: bool,
}

/// The effort made for a request so far.
#[derive(Debug, Default)]
struct Effort {
    compaction: Compaction,
    /// Number of pages that the request's rounds have freed, plus one for each round that freed none.
    reclaimed: u64,
    /// Number of fruitless rounds in succession. The count begins again after a round that freed a page, and after one
    /// that gave a reason to hope for pages ([`Progress::Hope`]).
    fruitless_rounds: u32,
    /// Time at which the first hopeful round since the last freed page ended. A round is hopeful if it freed no page,
    /// but gave a reason to try again ([`Progress::Hope`]), or waited for a write ([`Progress::Waited`]). `None` if
    /// there was no such round.
    hopes_since: Option<Nanos>,
}

/// The next step after a round of reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The request tries to allocate again, at once or after a wait: a page may be free then.
    Tries {
        /// The time to wait before the next try, if the round was fruitless.
        after: Option<Nanos>,
    },
    /// Memory is exhausted: a process is killed, or the request fails.
    Exhausted,
    /// The round freed no page, but memory does not count as exhausted. This is the case for requests without
    /// `__GFP_FS` or with `__GFP_NORETRY`: they fail, and no process is killed.
    NothingFreed,
}

impl Effort {
    /// Counts a round of reclaim that ended at `now` with the result `progress`, and returns the result that counts.
    /// This is `progress` itself, with one exception. [`Progress::Hope`] and [`Progress::Waited`] become
    /// [`Progress::Nothing`] if the first such round since the last freed page ended [`HOPED_MAX`] ago or earlier.
    fn count(&mut self, progress: Progress, now: Nanos) -> Progress {
        let counted = match progress {
            Progress::Freed(_) => {
                (self.fruitless_rounds, self.hopes_since) = (0, None);
                progress
            }
            Progress::Hope | Progress::Waited if now.since(*self.hopes_since.get_or_insert(now)) >= HOPED_MAX => {
                Progress::Nothing
            }
            Progress::Hope => {
                self.fruitless_rounds = 0;
                progress
            }
            Progress::Waited | Progress::Blind | Progress::Nothing => progress,
        };
        self.fruitless_rounds += u32::from(is_fruitless(counted));
        counted
    }

    /// Returns the next step after a round with `progress`, which [`Effort::count`] has counted.
    fn outcome(&self, progress: Progress, may_exhaust: bool) -> Outcome {
        match progress {
            Progress::Freed(_) | Progress::Hope | Progress::Waited => Outcome::Tries { after: None },
            Progress::Nothing if !may_exhaust => Outcome::NothingFreed,
            Progress::Blind | Progress::Nothing if self.fruitless_rounds <= FRUITLESS_ROUNDS_MAX => {
                Outcome::Tries { after: Some(fruitless_wait(self.fruitless_rounds)) }
            }
            Progress::Blind | Progress::Nothing if may_exhaust => Outcome::Exhausted,
            Progress::Blind | Progress::Nothing => Outcome::NothingFreed,
        }
    }
}

/// Returns the time that a request waits after its `rounds`-th fruitless reclaim; `rounds` is at least 1.
pub(super) fn fruitless_wait(rounds: u32) -> Nanos {
    Nanos(FRUITLESS_WAIT.0 << ((rounds - 1) / 2)).min(FRUITLESS_WAIT_MAX)
}

const fn is_fruitless(progress: Progress) -> bool {
    matches!(progress, Progress::Blind | Progress::Nothing)
}

/// Returns `Break` if `frame` is a block, so that the slow path ends with this block. Returns `Continue` if `frame` is
/// `None`.
fn ends_with(frame: Option<FrameNumber>) -> ControlFlow<Option<FrameNumber>> {
    frame.map_or(ControlFlow::Continue(()), |frame| ControlFlow::Break(Some(frame)))
}

/// The outcome of a wait for a turn at direct reclaim: the turn, or the end of the request without one.
enum TurnOrFrame<'a, M: Machine> {
    /// The task has the right to reclaim directly, and uses it.
    Turn(DirectTurn<'a, M>),
    /// The request ends, with a block that other tasks have freed meanwhile, or with none.
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

    /// Records how long a slow request took and which work was done for it, in a [`Note`] to the machine. Records
    /// nothing if the request took no time.
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
        // `harder` is for requests that must not wait and may use the reserve.
        let rights = MarkRights { high: gfp.high, harder: !gfp.wait && !gfp.no_reserve };
        // A request without `may_exhaust` fails as soon as nothing can be freed.
        let may_exhaust = gfp.fs && !gfp.no_retry;
        let wanted = Wanted { gfp, order, rights, may_exhaust };
        self.wake_all_kswapds(gfp, order);
        let mut effort = Effort::default();
        let mut tries = true;
        let found = loop {
            if let ControlFlow::Break(found) = self.make_room_once(task, wanted, tries, &mut effort, work) {
                break found;
            }
            tries = match self.choices.after_wait {
                AfterWait::TriesFirst => true,
                AfterWait::Reclaims => false,
            };
        };
        found.ok_or_else(|| {
            // A request that must not wait, or that may fail, can get no page although memory is not exhausted.
            let is_exhausted = order == Order::ZERO && gfp.wait && !gfp.no_retry;
            self.stat.count(if is_exhausted { Event::OutOfMemory } else { Event::AllocFailed }, 1);
            OutOfMemory::of_memory(order)
        })
    }

    fn wake_all_kswapds(&self, gfp: Gfp, order: Order) {
        let wakes_kswapd = match self.choices.huge_wakes_kswapd {
            HugeWakesKswapd::No => !gfp.no_kswapd,
            HugeWakesKswapd::Yes => true,
        };
        if wakes_kswapd {
            self.wake_kswapds(self.zonelist(gfp), order, self.classzone(gfp));
        }
    }

    /// Runs one round of the slow path: tries to allocate if `tries` is set, compacts, reclaims, and tries again.
    /// Returns `Break` with the block, or with `None` if the request fails; returns `Continue` if another round
    /// follows. The calling task may sleep.
    fn make_room_once(
        &self,
        task: &mut Task,
        wanted: Wanted,
        tries: bool,
        effort: &mut Effort,
        work: &mut Work,
    ) -> ControlFlow<Option<FrameNumber>> {
        let Wanted { gfp, order, rights, may_exhaust } = wanted;
        if tries {
            ends_with(self.take_from_zonelist(gfp, order, Until::Min, rights))?;
        }
        if let Some(until) = self.last_bound(task, gfp) {
            return ControlFlow::Break(self.take_from_zonelist(gfp, order, until, rights));
        }
        ends_with(self.direct_compact(gfp, order, rights, &mut effort.compaction, work))?;
        effort.compaction.is_later = true;
        if self.gives_up(gfp, order, effort.compaction) {
            return ControlFlow::Break(None);
        }
        let stalled = Stalled::begin(&self.machine);
        let progress = self.reclaim_in_turn(task, wanted, effort.fruitless_rounds, work)?;
        drop(stalled);
        let progress = effort.count(progress, self.machine.now());
        if is_fruitless(progress) && gfp.swap_in && self.swap.is_nearly_full() {
            ends_with(self.take_from_zonelist(gfp, order, Until::Min, FOR_SWAP_IN))?;
        }
        match effort.outcome(progress, may_exhaust) {
            Outcome::Tries { after } => {
                if let Some(wait) = after {
                    let _waiting = Waiting::begin(&self.machine, WaitReason::FruitlessReclaim);
                    self.machine.pause(wait);
                }
                ends_with(self.take_after_reclaim(gfp, order, rights))?;
            }
            Outcome::Exhausted => {
                ends_with(self.take_from_zonelist(gfp, order, Until::High, rights))?;
                let is_free =
                    |zone: &Zone<M>| zone.is_above(zone.high(), order, self.classzone(gfp), MarkRights::default());
                let has_room = || self.zonelist(gfp).iter().any(|id| is_free(self.memory().zone(*id)));
                if self.kill_for(task, Exhausted::Memory, gfp, order, has_room) == Hope::None {
                    return ControlFlow::Break(None);
                }
                *effort = Effort { compaction: effort.compaction, ..Effort::default() };
                return ControlFlow::Continue(());
            }
            Outcome::NothingFreed => {}
        }
        effort.reclaimed += if let Progress::Freed(pages) = progress { pages } else { 1 };
        if !should_retry(gfp, order, effort.reclaimed) {
            return ControlFlow::Break(self.direct_compact(gfp, order, rights, &mut effort.compaction, work));
        }
        match self.choices.retry_wait {
            RetryWait::CongestionWait => self.lru().congestion_wait(RETRY_WAIT, WaitReason::Retry),
            RetryWait::WaitIffCongested => {
                self.wait_iff_congested(self.preferred_zone(gfp), RETRY_WAIT, WaitReason::Retry);
            }
            RetryWait::None => self.machine.relax(),
        }
        ControlFlow::Continue(())
    }

    /// Returns the mark down to which a request may take pages if it must not free or compact memory itself; `None` if
    /// it may do so.
    fn last_bound(&self, task: &Task, gfp: Gfp) -> Option<Until> {
        // A task that itself makes room must not wait for room. A killed task may use the reserve, so that it ends
        // sooner.
        if task.may_use_reserve && !gfp.no_reserve || self.machine.is_killed() {
            return Some(Until::Nothing);
        }
        (!gfp.wait).then_some(Until::Min)
    }

    /// Waits for the task's turn at direct reclaim, then reclaims and returns the progress. Returns `Break` with a
    /// block if other tasks have freed one meanwhile, and `Break` with `None` if the request must not wait for its
    /// turn. The calling task may sleep.
    fn reclaim_in_turn(
        &self,
        task: &mut Task,
        wanted: Wanted,
        fruitless_rounds: u32,
        work: &mut Work,
    ) -> ControlFlow<Option<FrameNumber>, Progress> {
        let Wanted { gfp, order, rights, may_exhaust } = wanted;
        // A task that was killed while it was throttled tries to allocate again before it reclaims.
        let was_killed = match self.choices.reserve_throttle {
            ReserveThrottle::On => self.throttle_direct_reclaim(task, self.preferred_zone(gfp).node, gfp),
            ReserveThrottle::Off => false,
        };
        if was_killed {
            return ControlFlow::Continue(Progress::Hope);
        }
        let turn = match self.turn_or_frame(task, gfp, order, rights) {
            TurnOrFrame::Turn(turn) => turn,
            TurnOrFrame::Frame(frame) => return ControlFlow::Break(frame),
        };
        let doubts = fruitless_rounds > 0;
        let progress = self.try_to_free_pages(task, self.zonelist(gfp), order, gfp, doubts, work);
        let is_last = fruitless_rounds >= FRUITLESS_ROUNDS_MAX || progress == Progress::Nothing && !may_exhaust;
        if !is_last {
            self.list_for_next(progress);
        }
        // The turn ends after the batches are drained. If it ended earlier, the next task would find no more pages than
        // this task did.
        drop(turn);
        ControlFlow::Continue(progress)
    }

    /// If reclaim was fruitless, puts pages that wait in per-CPU batches on the LRU lists, so that the next reclaim
    /// finds them (`allocate.fruitless_reclaim`).
    pub(super) fn list_for_next(&self, progress: Progress) {
        match (self.choices.fruitless_reclaim, progress) {
            (FruitlessReclaim::DrainsBatches, Progress::Blind | Progress::Nothing) => self.lru().drain_all(),
            (FruitlessReclaim::DrainsBatches | FruitlessReclaim::Repeats, _) => {}
        }
    }

    /// Waits for a turn at direct reclaim, or for a block that other tasks free meanwhile. A request that is allowed to
    /// fail early (`no_retry`) does not wait and gets no block. A killed task may take a block from the reserve. The
    /// calling task may sleep.
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

    /// Tries to allocate after a reclaim. If that fails and `allocate.after_reclaim` says so, drains the per-CPU lists,
    /// where freed pages may lie, and tries again.
    fn take_after_reclaim(&self, gfp: Gfp, order: Order, rights: MarkRights) -> Option<FrameNumber> {
        self.take_from_zonelist(gfp, order, Until::Min, rights).or_else(|| {
            match self.choices.after_reclaim {
                AfterReclaim::Retries => return None,
                AfterReclaim::DrainsPerCpu => self.memory().drain_all_per_cpu(),
            }
            self.take_from_zonelist(gfp, order, Until::Min, rights)
        })
    }

    /// Returns whether a request fails without reclaim, because compaction was deferred or contended
    /// (`allocate.compaction_give_up`; mechanisms/reclaim, 16.3, rule G).
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

    /// Runs direct compaction for a request, if the choice `allocate.direct_compact` covers the request's order, then
    /// tries to allocate. Returns the head of the block, or `None` if none was obtained (mechanisms/reclaim, 23.9).
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
        if self.compact().is_deferred(preferred, order) {
            compaction.was_deferred = true;
            return None;
        }
        let _span = self.machine.span(Func::DirectCompact);
        self.stat.count(Event::CompactStall, 1);
        work.compactions += 1;
        let mut best = Suitability::Skipped;
        let waits = self.compact().compaction_waits(compaction.is_later);
        let request = CompactRequest { order: Some(order), kind: gfp.migrate, waits, is_kswapd: false };
        for id in self.zonelist(gfp) {
            let zone = self.memory().zone(*id);
            let ended = self.compact().compact_zone(zone, request);
            compaction.was_contended |= ended.was_contended;
            if let Some(head) = ended.captured {
                self.compact().note_success(preferred, order);
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
        self.memory().drain_local_per_cpu();
        let frame = self.take_from_zonelist(gfp, order, Until::Min, rights);
        if frame.is_some() {
            self.compact().note_success(preferred, order);
            self.stat.count(Event::CompactSuccess, 1);
        } else {
            self.stat.count(Event::CompactFail, 1);
            if self.compact().defers_after(waits) {
                self.compact().defer(preferred, order);
            }
        }
        frame
    }
}

/// Returns whether the slow path makes another round for a request. `reclaimed` is the number of pages freed so far,
/// over all its rounds. A round that freed none but made progress counts as one page.
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
    const NONE: Outcome = Outcome::Tries { after: None };

    fn waits_ms(ms: u64) -> Outcome {
        Outcome::Tries { after: Some(Nanos::from_millis(ms)) }
    }

    /// A request of the slow path reclaims in rounds, and each line of the table is one round: the progress of the
    /// round, and the number of fruitless rounds including this one. The last two columns state the outcome that must
    /// follow: first for a request that may exhaust memory, and then for a request that may not.
    #[test]
    fn a_round_comes_to_a_try_a_wait_or_an_end() {
        let table = [
            (Progress::Freed(7), 0, NONE, NONE),
            (Progress::Hope, 0, NONE, NONE),
            (Progress::Waited, 9, NONE, NONE),
            (Progress::Blind, 1, waits_ms(1), waits_ms(1)),
            (Progress::Blind, 16, waits_ms(32), waits_ms(32)),
            (Progress::Blind, 17, Outcome::Exhausted, Outcome::NothingFreed),
            (Progress::Nothing, 1, waits_ms(1), Outcome::NothingFreed),
            (Progress::Nothing, 5, waits_ms(4), Outcome::NothingFreed),
            (Progress::Nothing, 17, Outcome::Exhausted, Outcome::NothingFreed),
        ];
        for (progress, fruitless_rounds, exhausts, does_not) in table {
            let effort = Effort { fruitless_rounds, ..Effort::default() };
            let outcomes = [effort.outcome(progress, true), effort.outcome(progress, false)];
            assert_eq!(outcomes, [exhausts, does_not], "{progress:?} after {fruitless_rounds}");
        }
    }

    #[test]
    fn hope_starts_the_count_again_until_it_has_lasted_too_long() {
        let mut effort = Effort { fruitless_rounds: 3, ..Effort::default() };
        assert_eq!((effort.count(Progress::Waited, Nanos(5)), effort.fruitless_rounds), (Progress::Waited, 3));
        assert_eq!((effort.count(Progress::Hope, Nanos(6)), effort.fruitless_rounds), (Progress::Hope, 0));
        let late = Nanos(5) + HOPED_MAX;
        assert_eq!((effort.count(Progress::Hope, late), effort.fruitless_rounds), (Progress::Nothing, 1));
        assert_eq!((effort.count(Progress::Freed(1), late), effort.fruitless_rounds), (Progress::Freed(1), 0));
        assert_eq!(effort.count(Progress::Hope, late), Progress::Hope, "it has only begun to hope");
    }
}
