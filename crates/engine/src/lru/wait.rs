//! Waits of tasks that scan lists (mechanisms/reclaim, 17.3 and 22).

use super::choices::IsolatedWait;
use super::{Family, Lru, Lruvec};
use machine::{Func, Machine, Nanos, WaitReason, Waiting};

/// Longest time for which reclaim waits for an event, such as the end of congestion.
pub(crate) const STALL: Nanos = Nanos::from_millis(100);

/// One timer tick, a jiffy.
pub(crate) const TICK: Nanos = Nanos::from_millis(1);

/// Longest time for which a reclaimer is throttled because other reclaimers have isolated too many pages of a list
/// (mechanisms/modern, 4).
const ISOLATED_MAX: Nanos = Nanos::from_millis(20);

/// Time after which a task that waits for an event checks for the event even if no other task woke it.
pub(crate) const LOOK_AGAIN: Nanos = Nanos::from_millis(10);

impl<M: Machine> Lru<M> {
    /// Sleeps until the queue of some device is no longer congested, or until `time` has passed. If no queue is
    /// congested, sleeps for the whole `time`. The wait is recorded under `reason`.
    pub fn congestion_wait(&self, time: Nanos, reason: WaitReason) {
        let _span = self.machine.span(Func::CongestionWait);
        let deadline = self.machine.now() + time;
        let queue = self.machine.uncongested();
        let ticket = self.machine.ticket(queue);
        let _waiting = Waiting::begin(&self.machine, reason);
        self.machine.sleep(queue, ticket, Some(deadline));
    }

    /// Lowers the number of isolated pages by `pages`, because these pages were put back or freed. Wakes the reclaimers
    /// that wait for put-backs.
    pub fn end_isolation(&self, lruvec: &Lruvec<M>, family: Family, pages: u64) {
        self.uncount_isolated(lruvec, family, pages);
        match self.choices.isolated_wait {
            IsolatedWait::ForPutback | IsolatedWait::ReclaimThrottle => self.machine.wake(&self.put_back),
            IsolatedWait::CongestionWait => {}
        }
    }

    /// Sleeps once because other reclaimers hold too many isolated pages. `lru.isolated_wait` says which event ends the
    /// sleep, and how long the sleep is at most.
    pub fn wait_for_putback(&self, are_too_many: impl Fn() -> bool) {
        match self.choices.isolated_wait {
            IsolatedWait::CongestionWait => self.congestion_wait(STALL, WaitReason::Isolated),
            IsolatedWait::ForPutback => self.sleep_for_putback(LOOK_AGAIN, are_too_many),
            IsolatedWait::ReclaimThrottle => {
                let _span = self.machine.span(Func::ReclaimThrottle);
                self.sleep_for_putback(ISOLATED_MAX, are_too_many);
            }
        }
    }

    fn sleep_for_putback(&self, max: Nanos, are_too_many: impl Fn() -> bool) {
        let deadline = self.machine.now() + max;
        let ticket = self.machine.ticket(&self.put_back);
        if are_too_many() {
            let _waiting = Waiting::begin(&self.machine, WaitReason::Isolated);
            self.machine.sleep(&self.put_back, ticket, Some(deadline));
        }
    }
}
