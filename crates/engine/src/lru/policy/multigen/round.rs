//! A round of page-table walks before a generation begins. Several tasks share a round: each walks regions that no
//! other task has taken, and the task that ends last begins the generation (mechanisms/multigen, 5.2).

use crate::anonymous::Region;
use machine::{Lock, LockClass, Machine, Nanos, WaitReason, Waiting};
use std::{sync::Arc, vec};

/// The current round of page-table walks for an lruvec, if one is under way, and the tasks that wait for its end.
pub(super) struct Rounds<M: Machine> {
    current: M::Lock<Option<Round<M>>>,
    /// The queue of tasks that wait for the end of the round.
    ended: M::WaitQueue,
}

/// A round of page-table walks that is under way.
struct Round<M: Machine> {
    /// Number of the youngest generation when the round began.
    seq: u64,
    /// Regions whose page tables no task has begun to walk in this round.
    regions: vec::IntoIter<Arc<Region<M>>>,
    /// Number of tasks that walk regions in this round.
    walkers: u32,
    /// `true` if tasks other than the one that began the round may walk regions in it.
    is_shared: bool,
}

impl<M: Machine> Rounds<M> {
    /// Creates the state in which no round of page-table walks is under way.
    pub(super) fn new(machine: &M) -> Self {
        Self { current: machine.lock(LockClass::Other, None), ended: machine.wait_queue() }
    }

    /// Begins the round in which page tables are walked after `seq` became the youngest generation. If this round is
    /// under way already, joins it instead, provided that it has regions left and that both the round and the caller
    /// (`may_share`) allow sharing. Returns `false` if the caller neither begins nor joins the round. `regions` returns
    /// the regions of a new round. `begin` is called before any task takes a region of a new round. `is_over` returns
    /// whether the round has ended already.
    pub(super) fn join(
        &self,
        seq: u64,
        may_share: bool,
        regions: impl FnOnce() -> Vec<Arc<Region<M>>>,
        begin: impl FnOnce(),
        is_over: impl Fn() -> bool,
    ) -> bool {
        let share = |round: &mut Round<M>| {
            if !may_share || !round.is_shared || round.seq != seq || round.regions.len() == 0 {
                return false;
            }
            round.walkers += 1;
            true
        };
        if let Some(round) = &mut *self.current.lock() {
            return share(round);
        }
        // `regions` takes the lock of the table of regions, which has to be taken before the lock of the round.
        let regions = regions().into_iter();
        let mut current = self.current.lock();
        match &mut *current {
            Some(round) => share(round),
            None if is_over() => false,
            None => {
                begin();
                *current = Some(Round { seq, regions, walkers: 1, is_shared: may_share });
                true
            }
        }
    }

    /// Returns a region that no task has walked or taken in the current round, for the calling task to walk. Returns
    /// `None` if no such region is left, or no round is under way.
    pub(super) fn next(&self) -> Option<Arc<Region<M>>> {
        self.current.lock().as_mut()?.regions.next()
    }

    /// Takes the caller out of the tasks that walk regions in the current round. Returns whether the caller was the
    /// last of them. The last one begins the new generation, and then calls [`Rounds::end`].
    pub(super) fn leave(&self) -> bool {
        let mut current = self.current.lock();
        let Some(round) = &mut *current else { return false };
        round.walkers -= 1;
        round.walkers == 0
    }

    /// Ends the round, and wakes the tasks that wait for its end.
    pub(super) fn end(&self, machine: &M) {
        *self.current.lock() = None;
        machine.wake(&self.ended);
    }

    /// Waits until the current round ends, but at most `at_most`. Does not wait if there is no round, or if `is_over`
    /// returns `true`. This function may sleep.
    pub(super) fn wait(&self, machine: &M, is_over: impl Fn() -> bool, at_most: Nanos) {
        let deadline = machine.now() + at_most;
        let ticket = machine.ticket(&self.ended);
        let is_under_way = self.current.lock().is_some();
        if is_under_way && !is_over() {
            let _waiting = Waiting::begin(machine, WaitReason::Generation);
            machine.sleep(&self.ended, ticket, Some(deadline));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Config, Sim};
    use std::cell::Cell;

    const OPEN: fn() -> bool = || false;

    #[expect(clippy::arc_with_non_send_sync, reason = "regions are shared among threads on other machines")]
    fn regions(machine: &Sim, count: u32) -> Vec<Arc<Region<Sim>>> {
        (1..=count).map(|id| Arc::new(Region::new(machine, id, None, 1, false, None))).collect()
    }

    #[test]
    fn several_share_a_round_and_the_last_ends_it() {
        let machine = Sim::new(Config::uniform(1, 0));
        let rounds = Rounds::new(&machine);
        let begun = Cell::new(0);
        let join = |seq, count| {
            let begin = || begun.set(begun.get() + 1);
            (rounds.join(seq, true, || regions(&machine, count), begin, OPEN), begun.get())
        };
        assert_eq!(
            [join(3, 3), join(3, 0)],
            [(true, 1), (true, 1)],
            "the second takes part in what the first has begun"
        );
        let walked: Vec<u32> = std::iter::from_fn(|| rounds.next()).map(|region| region.id).collect();
        assert_eq!(walked, [1, 2, 3], "each region is walked once");
        assert_eq!(join(3, 3), (false, 1), "others have all regions");
        assert!(!rounds.leave() && rounds.leave(), "the last begins the generation");
        assert_eq!(join(3, 3), (false, 1), "until that is done nobody begins the round again");
        rounds.end(&machine);
        assert_eq!(join(4, 1), (true, 2));
    }

    #[test]
    fn a_round_of_its_own_is_not_shared_and_none_begins_too_late() {
        let machine = Sim::new(Config::uniform(1, 0));
        let rounds = Rounds::new(&machine);
        let join = |seq, may_share, is_over: fn() -> bool| {
            rounds.join(seq, may_share, || regions(&machine, 2), || (), is_over)
        };
        assert!(!join(3, true, || true), "the generation has begun before");
        assert_eq!(
            [join(3, false, OPEN), join(3, true, OPEN), join(3, false, OPEN), join(4, true, OPEN)],
            [true, false, false, false]
        );
    }
}
