//! Throttling of writers: a task that dirties pages sleeps, so that it dirties them no faster than the device writes
//! them (`balance_dirty_pages`; mechanisms/reclaim, 21.2, ≥33). The task itself writes nothing.

use super::choices::DirtyThrottle;
use super::{Access, Error};
use crate::lru::wait::TICK;
use crate::page_cache::{File, Log};
use crate::task::Task;
use crate::writeback::Backing;
use crate::writeback::choices::DeviceLimits;
use crate::writeback::dirty_limit::DirtyState;
use machine::atomic::Ordering::{Relaxed, SeqCst};
use machine::note::HeldBack;
use machine::{DeviceId, Func, Lock, Machine, NANOS_PER_SECOND, Nanos, Note, WaitReason, Waiting};

/// Number of dirtied pages after which a pause is worth its cost. A new task is first checked after this many dirtied
/// pages. While too many pages are dirty, a task is checked after at most a quarter of this number.
const POLL_PAGES: u64 = 32;

/// Longest pause for which a writer is throttled.
const PAUSE_MAX: Nanos = Nanos::from_millis(200);

/// Intended length of a pause. It is long enough to be worth a sleep, and short enough that users do not notice it.
const PAUSE_GOAL: Nanos = Nanos::from_millis(10);

/// Time that a writer waits while pages of its file cannot be written. After this time, the writer's own write fails
/// with the error of these pages. Within this time, the flusher tries to write the pages ten times, unless the disk is
/// slow to answer.
const REFUSAL_AFTER: Nanos = Nanos::from_secs(1);

/// Interval between the checks of a writer that waits because dirty pages of its file cannot be written to the disk.
const REFUSAL_POLL: Nanos = Nanos::from_millis(10);

/// A pause of a writer, and what the writer may do after it.
#[derive(Clone, Copy, Debug)]
struct Pause {
    time: Nanos,
    /// Number of pages that the writer may dirty after the pause, before it checks the dirty limits again.
    poll_pages: u64,
    /// `true` if the writer may dirty no page yet. The writer then checks again at the end of the pause.
    is_blocked: bool,
}

impl<M: Machine> Access<M> {
    /// Records a note that says how long a writer has been paused since `began`, and why. Records nothing if the writer
    /// was not paused.
    pub(super) fn note_held_back(&self, began: Nanos, device: DeviceId, state: DirtyState) {
        if self.machine.now() > began {
            self.machine.note(|| {
                let DirtyState { limits, dirty } = state;
                Note::HeldBack(HeldBack { began, device, dirty_pages: dirty, limit_pages: limits.dirty })
            });
        }
    }

    /// Counts a page that became dirty. From time to time, checks whether the task must pause. This function may sleep.
    pub(super) fn balance_dirty_pages_ratelimited(&self, task: &mut Task, device: DeviceId) {
        match self.choices.dirty_throttle {
            DirtyThrottle::ForWriteback => return self.balance_dirty_pages_by_waiting(task, device),
            DirtyThrottle::Sleeps => task.pages_dirtied += 1,
            DirtyThrottle::Writes => {
                task.pages_dirtied += 1;
                if task.pages_dirtied >= self.poll_pages_of_writers(self.writeback().backing(device)) {
                    self.balance_dirty_pages_by_writing(task, device);
                }
                return;
            }
        }
        let mut limit = if task.pages_dirtied_poll == 0 { POLL_PAGES } else { task.pages_dirtied_poll };
        if self.is_over_limit_fast(self.writeback().backing(device)) {
            limit = limit.min(POLL_PAGES / 4);
        }
        if task.pages_dirtied >= limit {
            self.balance_dirty_pages(task, device);
        }
    }

    /// Counts pages that were clean before a write of the task made them dirty. Does nothing unless
    /// `access.dirty_throttle` is `ForWriteback`.
    pub(super) fn note_dirtied(&self, task: &mut Task, pages: u64) {
        match self.choices.dirty_throttle {
            DirtyThrottle::ForWriteback => task.pages_dirtied += pages,
            // Under these two values, every write counts its page, even if the page was dirty before.
            DirtyThrottle::Sleeps | DirtyThrottle::Writes => {}
        }
    }

    /// While more pages are dirty than the limit allows, waits until pages have been written. This function may sleep.
    fn balance_dirty_pages_by_waiting(&self, task: &mut Task, device: DeviceId) {
        if task.pages_dirtied == 0 {
            return;
        }
        let backing = self.writeback().backing(device);
        // The number of pages that a task may dirty between two checks when too many pages are dirty. One sleep for
        // each page would cost more than the page. The more tasks wait already, the fewer pages; at the least, one.
        let at_limit = || (POLL_PAGES / 4 / (1 + backing.dirty_waits.tasks())).max(1);
        let is_due = task.pages_dirtied >= task.pages_dirtied_poll.max(1);
        if !(is_due || self.is_over_limit_fast(backing) && task.pages_dirtied >= at_limit()) {
            return;
        }
        let _span = self.machine.span(Func::BalanceDirtyPages);
        loop {
            let state @ DirtyState { limits, dirty } = self.writeback().dirty_state_of(backing);
            backing.tracked_limit.store(limits.dirty, Relaxed);
            (task.pages_dirtied, task.pages_dirtied_poll) = (0, poll_interval(dirty, limits.dirty).max(at_limit()));
            if dirty <= limits.dirty || self.is_abandoned.load(Relaxed) || self.machine.is_killed() {
                break;
            }
            self.writeback().wake_flusher(device);
            let began = self.machine.now();
            self.writeback().wait_for_dirty_room(backing, limits.dirty);
            self.note_held_back(began, device, state);
            // The flusher found only pages that tasks are changing. These tasks may be the writers themselves, so no
            // writer may wait for such pages.
            if backing.has_only_held.load(Relaxed) {
                break;
            }
        }
        if self.writeback().is_over_background(backing) {
            self.writeback().wake_flusher(device);
        }
    }

    /// Returns whether more pages are dirty than the limit allows. Uses the limit that the last full check computed,
    /// because computing it means adding up counters of all zones, which is too slow to do for each page.
    fn is_over_limit_fast(&self, backing: &Backing<M>) -> bool {
        // A writer checks at least every few hundred pages; between two checks the tracked limit moves far less than
        // that.
        let limit = |backing: &Backing<M>| backing.tracked_limit.load(Relaxed);
        match self.writeback().choices.device_limits {
            DeviceLimits::Together => {
                self.writeback().dirty_pages() > self.backings.iter().map(limit).max().unwrap_or(0).max(1)
            }
            DeviceLimits::Apart => backing.dirty_pages() > limit(backing).max(1),
        }
    }

    /// Returns whether a task that is about to dirty a page of a file would be held back, because too many pages are
    /// dirty or too many pages of the file cannot be written. If so, wakes the flusher.
    pub(super) fn would_hold_back(&self, file: &File<M>) -> bool {
        let backing = self.writeback().backing(file.backing);
        let is_over_limit = self.is_over_limit_fast(backing) && {
            let DirtyState { limits, dirty } = self.writeback().dirty_state_of(backing);
            backing.tracked_limit.store(limits.dirty, Relaxed);
            dirty > limits.dirty
        };
        let is_held_back = (is_over_limit || self.writeback().refuses_writes(file)) && !self.is_abandoned.load(Relaxed);
        if is_held_back {
            self.writeback().wake_flusher(file.backing);
        }
        is_held_back
    }

    /// Holds back a task that is about to dirty a file whose pages cannot be written, until they are written or none of
    /// them was written for [`REFUSAL_AFTER`]. This function may sleep.
    ///
    /// # Errors
    /// When the pages still cannot be written.
    pub(super) fn wait_while_refused(&self, file: &File<M>) -> Result<(), Error> {
        let (mut waited, mut left) = (Nanos(0), i64::MAX);
        while self.writeback().refuses_writes(file) {
            if self.machine.is_killed() || self.is_abandoned.load(Relaxed) {
                break;
            }
            // While there are fewer and fewer such pages, they are being written.
            let pages = file.failed_pages.pages();
            if pages < left {
                (waited, left) = (Nanos(0), pages);
            }
            if waited >= REFUSAL_AFTER {
                match self.writeback().reason_of_refusal(file) {
                    Some(failure) => return Err(Error::of_failure(file, failure)),
                    None => waited = Nanos(0),
                }
            }
            self.writeback().wake_flusher(file.backing);
            let waiting = Waiting::begin(&self.machine, WaitReason::RefusedWrites);
            self.machine.pause(REFUSAL_POLL);
            drop(waiting);
            waited += REFUSAL_POLL;
        }
        Ok(())
    }

    /// Releases all throttled writers, and all tasks that wait until a log is wanted. The ground (the simulator or the
    /// library) calls this when the flushers and kswapd have ended.
    pub fn release_waiters(&self) {
        self.is_abandoned.store(true, SeqCst);
        self.writeback().wake_log_writers();
    }

    /// Waits until writes of pages wait for a log, but not longer than until `end`, and not after
    /// [`Access::release_waiters`]. Returns the number up to which the log should become durable; `None` if no write
    /// waits. This function may sleep.
    #[must_use]
    pub fn wait_for_log_wanted(&self, log: &Log<M>, end: Nanos) -> Option<u64> {
        loop {
            let ticket = self.machine.ticket(&log.wanted_wait);
            let wanted = self.writeback().log_wanted(log);
            let is_over = self.machine.now() >= end || self.machine.is_killed() || self.is_abandoned.load(SeqCst);
            if wanted.is_some() || is_over {
                return wanted;
            }
            self.machine.sleep(&log.wanted_wait, ticket, Some(end));
        }
    }

    fn balance_dirty_pages(&self, task: &mut Task, device: DeviceId) {
        let _span = self.machine.span(Func::BalanceDirtyPages);
        let backing = self.writeback().backing(device);
        loop {
            let now = self.machine.now();
            let state = self.writeback().dirty_state_of(backing);
            backing.tracked_limit.store(state.limits.dirty, Relaxed);
            let of_group = self.writeback().dirty_state_of_group(task.group);
            let is_free = |state: DirtyState| state.dirty <= state.limits.free_run();
            if is_free(state) && of_group.is_none_or(is_free) {
                task.dirty_paused_at = now;
                task.pages_dirtied = 0;
                let poll = |state: DirtyState| poll_interval(state.dirty, state.limits.dirty);
                task.pages_dirtied_poll = of_group.map_or(u64::MAX, poll).min(poll(state));
                break;
            }
            if self.is_abandoned.load(Relaxed) {
                break;
            }
            self.writeback().wake_flusher(device);
            self.writeback().update_bandwidth(backing);
            let Some((pause, state)) = self.pause_for(task, backing, now, state, of_group) else { break };
            let waiting = Waiting::begin(&self.machine, WaitReason::DirtyLimit);
            self.machine.pause(pause.time);
            drop(waiting);
            self.note_held_back(now, device, state);
            task.pages_dirtied_poll = pause.poll_pages;
            if pause.is_blocked && !backing.has_only_held.load(Relaxed) && !self.machine.is_killed() {
                continue;
            }
            task.dirty_paused_at = now + pause.time;
            task.pages_dirtied = 0;
            break;
        }
        if self.writeback().is_over_background(backing) || self.writeback().is_group_over_background(task.group) {
            self.writeback().wake_flusher(device);
        }
    }

    /// Returns the pause that the task must make because of the pages that it has dirtied, and the state of the limits
    /// that demand this pause: those of the whole device, or those of the task's group if they let the task dirty fewer
    /// pages. `None` if the task did not dirty its pages too fast.
    fn pause_for(
        &self,
        task: &mut Task,
        backing: &Backing<M>,
        now: Nanos,
        state: DirtyState,
        of_group: Option<DirtyState>,
    ) -> Option<(Pause, DirtyState)> {
        let sample = self.writeback().bandwidth_sample(backing);
        let (mut rate, mut write_rate, mut to_drain, mut demands) = {
            let bandwidth = backing.bandwidth.lock();
            backing.tracked_limit.store(bandwidth.tracked_limit, Relaxed);
            let position = bandwidth.position(&sample).max(0) as u64;
            (bandwidth.rate_at(position), bandwidth.average_write, sample.device_dirty, state)
        };
        if let Some(state) = of_group {
            let of_group = self.writeback().rates_of_group(backing, task.group, state);
            if of_group.rate < rate {
                (rate, write_rate, to_drain, demands) = (of_group.rate, of_group.write_rate, of_group.dirty, state);
            }
        }
        // The pause is at most an eighth of the time that the device needs for its dirty pages, so that the device does
        // not run out of work.
        let drain = Nanos(to_drain * NANOS_PER_SECOND / (8 * write_rate.max(1)));
        let pause_max = (drain + TICK).min(PAUSE_MAX);
        let blocked = Pause { time: pause_max, poll_pages: POLL_PAGES / 4, is_blocked: true };
        if rate == 0 {
            return Some((blocked, demands));
        }
        let (pause_min, poll_pages) = pause_min(rate, pause_max);
        let period = Nanos(task.pages_dirtied * NANOS_PER_SECOND / rate);
        let think = now.since(task.dirty_paused_at);
        if period < think + pause_min {
            // The pause is too short to be worth a sleep. Its time is added to the next pause, or forgotten if more
            // than a second has passed.
            if think.since(period) > Nanos::from_secs(1) {
                task.dirty_paused_at = now;
                task.pages_dirtied = 0;
            } else if period > Nanos(0) {
                task.dirty_paused_at += period;
                task.pages_dirtied = 0;
                task.pages_dirtied_poll = poll_pages;
            }
            return None;
        }
        Some((Pause { time: period.since(think).min(pause_max), poll_pages, is_blocked: false }, demands))
    }
}

/// Returns two values: the shortest pause for which a writer sleeps (it does not sleep for a shorter one), and the
/// number of pages that it may dirty before it checks again. `rate` is the rate at which it may dirty pages, pages a
/// second.
fn pause_min(rate: u64, pause_max: Nanos) -> (Nanos, u64) {
    let goal = PAUSE_GOAL.min(pause_max);
    let pages = rate * goal.0 / NANOS_PER_SECOND;
    if pages >= POLL_PAGES {
        return (TICK + Nanos(goal.0 / 2), pages);
    }
    // If the device is slow, pauses are fewer and longer.
    let pages = (rate * pause_max.0 / NANOS_PER_SECOND).clamp(1, POLL_PAGES);
    (Nanos(goal.0 / 2), pages)
}

/// Returns the number of pages that a task dirties before its next check: the square root of the number of pages by
/// which `dirty` is below `limit`, rounded down to a power of two. Returns 1 if `dirty` is not below `limit`.
fn poll_interval(dirty: u64, limit: u64) -> u64 {
    if limit > dirty { 1 << ((limit - dirty).ilog2() / 2) } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_interval_shrinks_toward_the_limit() {
        assert_eq!(poll_interval(0, 1 << 18), 512);
        assert_eq!(poll_interval((1 << 18) - 100, 1 << 18), 8);
        assert_eq!(poll_interval(5, 5), 1);
    }
}
