//! Dirty throttling before Linux 3.2. While too many pages are dirty, a task that dirties pages writes some dirty pages
//! itself. If no page is left to write, the task sleeps (`balance_dirty_pages`; mechanisms/reclaim, 21.2, 37*).
//!
//! A task may dirty up to 4 MiB between two checks, but only 8 pages once too many pages are dirty. The long interval
//! makes bursts that reclaim has to absorb. The short interval makes writers submit in small pieces.

use super::Access;
use crate::lru::wait::TICK;
use crate::task::Task;
use crate::writeback::Backing;
use crate::writeback::dirty_limit::DirtyState;
use machine::atomic::Ordering::Relaxed;
use machine::{DeviceId, Func, Machine, Nanos, PAGE_BYTES, WaitReason, Waiting};

/// Number of pages that a task dirties between two checks of the dirty limits, after a check has found too many dirty
/// pages.
const POLL_OVER: u64 = 8;

/// Smallest and largest number of pages that a task dirties between two checks of the dirty limits, as long as no check
/// has found the number of dirty pages too high.
const POLL_PAGES: std::ops::RangeInclusive<u64> = 16..=(4 << 20) / PAGE_BYTES as u64;

/// Longest pause of a task in `balance_dirty_pages`. Pauses double up to this length, until few enough pages are dirty
/// or the task has written its share.
const PAUSE_MAX: Nanos = Nanos::from_millis(100);

impl<M: Machine> Access<M> {
    /// Returns the number of pages that a task may dirty before it checks the limits.
    pub(super) fn poll_pages_of_writers(&self, backing: &Backing<M>) -> u64 {
        if backing.dirty_exceeded.load(Relaxed) {
            return POLL_OVER;
        }
        let pages: u64 = self.zones.iter().map(|zone| zone.managed()).sum();
        (pages / (32 * self.machine.cpus() as u64)).clamp(*POLL_PAGES.start(), *POLL_PAGES.end())
    }

    /// While too many pages are dirty, writes 1.5 times as many pages as the task has dirtied since its last check.
    /// This function may sleep.
    pub(super) fn balance_dirty_pages_by_writing(&self, task: &mut Task, device: DeviceId) {
        let _span = self.machine.span(Func::BalanceDirtyPages);
        let backing = self.writeback().backing(device);
        let dirtied = std::mem::take(&mut task.pages_dirtied);
        task.pages_dirtied_ever += dirtied;
        let wanted = dirtied + dirtied / 2;
        let (mut wrote, mut pause) = (0, TICK);
        let mut held = None;
        while let Some(state) = self.excess_of(task, backing) {
            held.get_or_insert_with(|| (self.machine.now(), state));
            backing.dirty_exceeded.store(true, Relaxed);
            if backing.writable_pages() > 0 {
                wrote += self.writeback().write_back(backing, wanted - wrote);
            }
            if wrote >= wanted || self.is_abandoned.load(Relaxed) || self.machine.is_killed() {
                break;
            }
            let waiting = Waiting::begin(&self.machine, WaitReason::DirtyLimit);
            self.machine.pause(pause);
            drop(waiting);
            pause = Nanos(2 * pause.0).min(PAUSE_MAX);
        }
        if let Some((began, state)) = held {
            self.note_held_back(began, device, state);
        }
        if self.writeback().is_over_background(backing) {
            self.writeback().wake_flusher(device);
        }
    }

    /// Returns the dirty limits and the number of dirty pages if the task must write pages itself; otherwise `None`.
    /// The task must write if the device's dirty pages exceed the task's limit, or all dirty pages exceed the global
    /// limit. The task's limit is the device's limit, reduced by up to an eighth, in proportion to the task's share of
    /// all pages that were ever dirtied on the device. So the task that dirties most is paused first. While so few
    /// pages are dirty that no limit matters (`free_run`), no task must write.
    fn excess_of(&self, task: &Task, backing: &Backing<M>) -> Option<DirtyState> {
        let state @ DirtyState { limits, dirty } = self.writeback().dirty_state_of(backing);
        let device_limit = self.writeback().device_limit(backing, limits.dirty);
        let ever = backing.dirtied.load(Relaxed).max(task.pages_dirtied_ever).max(1);
        let kept = u128::from(device_limit / 8) * u128::from(task.pages_dirtied_ever) / u128::from(ever);
        let is_over = backing.dirty_pages() > device_limit - kept as u64 || dirty > limits.dirty;
        if dirty <= limits.free_run() || !is_over {
            backing.dirty_exceeded.store(false, Relaxed);
            return None;
        }
        Some(state)
    }
}
