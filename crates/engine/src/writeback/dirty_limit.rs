//! The limits on the number of dirty pages: over all memory, on each device, and in each zone. If a cgroup limits the
//! memory of all tasks, its limits are those over all memory (`writeback.group_limits`).
//!
//! With `writeback.device_limits = "apart"`, each device has its own limits, so that its writers are throttled by its
//! own dirty pages only. A device's share of the limits is in proportion to the speed of its completed writes, as in
//! mechanisms/reclaim, 21.2. A device without dirty pages has no share. A device that has written nothing yet counts as
//! a device of 100 MB/s. When a device's share becomes smaller, it takes time to write the pages beyond the share.
//! Until then these pages are subtracted from the limits of the other devices, but every device keeps a quarter of its
//! share. So the dirty pages of all devices exceed the limit by at most a quarter.
//!
//! Anonymous pages count as dirtyable while swap has free slots. Pages that are being written to swap count as under
//! writeback (`writeback.swap_writeback`). *Description*: mechanisms/reclaim, 21.1, 21.2 and 21.4.

use super::choices::{DeviceLimits, DirtyMapped, Dirtyable, GroupLimits};
use super::{Backing, Writeback};
use crate::memory::Zone;
use crate::stat::Gauge;
use machine::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use machine::{Machine, Nanos, PAGE_BYTES, WaitReason, Waiting};

/// Time after which a task that waits at a dirty limit checks whether it may go on, even if it was not woken. Only the
/// end of a write wakes the task. Other events may allow it to go on, too: pages were dropped, or other devices have
/// fewer dirty pages. All waiting tasks check, even if there are many.
const LOOK_AGAIN: Nanos = Nanos::from_millis(100);

/// The writers that wait at the dirty limit of a device (`access.dirty_throttle = "for-writeback"`).
pub(crate) struct DirtyWaits<M: Machine> {
    queue: M::WaitQueue,
    tasks: AtomicU64,
    /// The dirty limit of the device, in pages, when a task last began to wait.
    limit: AtomicU64,
}

impl<M: Machine> DirtyWaits<M> {
    pub(super) fn new(machine: &M) -> Self {
        Self { queue: machine.wait_queue(), tasks: AtomicU64::new(0), limit: AtomicU64::new(0) }
    }

    /// Returns the number of tasks that wait at the dirty limit of the device.
    pub(crate) fn tasks(&self) -> u64 {
        self.tasks.load(SeqCst)
    }
}

/// The two limits on the number of dirty pages: for the start of background writeback, and for the throttling of
/// writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyLimits {
    /// Number of dirty pages above which the flusher starts.
    pub background: u64,
    /// The dirty limit: throttling keeps the number of dirty pages from exceeding it.
    pub dirty: u64,
}

impl DirtyLimits {
    /// Returns the number of dirty pages up to which no writer is throttled.
    #[must_use]
    pub const fn free_run(self) -> u64 {
        u64::midpoint(self.dirty, self.background)
    }
}

/// The dirty limits that apply to the writers of a device, with the number of pages that count against these limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyState {
    /// The limits that apply to the writers of the device.
    pub limits: DirtyLimits,
    /// Number of pages that count against the limits: pages that are dirty or under writeback.
    pub dirty: u64,
}

/// The dirty limit of a device is never lower than the device's share of all limits, divided by this number, even if
/// other devices have more dirty pages than their shares. So the dirty pages of all devices exceed the limit by at most
/// a quarter. The value was chosen, and not found by trials.
const SHARE_KEPT: u64 = 4;

/// Returns the dirty limits of one device: its part of `limits`. The device's share is `own_rate` / `all_rates` of the
/// limits. Its part is this share, or what remains of the limit after the dirty pages of other devices, if that is
/// less; but at least a quarter of the share.
fn part_of(limits: DirtyLimits, own_rate: u64, all_rates: u64, others_dirty: u64) -> DirtyLimits {
    let scaled =
        |pages: u64, part: u64, whole: u64| (u128::from(pages) * u128::from(part) / u128::from(whole.max(1))) as u64;
    let share = scaled(limits.dirty, own_rate, all_rates);
    let dirty = share.min(limits.dirty.saturating_sub(others_dirty)).max(share / SHARE_KEPT);
    DirtyLimits { background: scaled(limits.background, dirty, limits.dirty), dirty }
}

impl<M: Machine> Writeback<M> {
    /// Returns the number of pages of a zone that reclaim could free: its file pages, and also its anonymous pages if
    /// swap has free slots.
    #[must_use]
    pub fn reclaimable_pages(&self, zone: &Zone<M>) -> u64 {
        let file = zone.gauges.get(Gauge::NrActiveFile) + zone.gauges.get(Gauge::NrInactiveFile);
        if self.swap.free_slots() == 0 {
            return file;
        }
        file + zone.gauges.get(Gauge::NrActiveAnon) + zone.gauges.get(Gauge::NrInactiveAnon)
    }

    /// Returns the number of pages to which the ratios of the dirty limits refer, at least 1.
    #[must_use]
    pub fn dirtyable_pages(&self) -> u64 {
        let pages: u64 = self.zones.iter().map(|zone| zone.free_pages() + self.reclaimable_pages(zone)).sum();
        match self.choices.dirtyable {
            Dirtyable::All => pages + 1,
            Dirtyable::WithoutReserve => pages.saturating_sub(self.memory().reserve_pages()) + 1,
        }
    }

    /// Returns the number of pages to which the ratios refer without the pages whose last write failed, at least 1. It is
    /// unknown when those can be written.
    pub(super) fn dirtyable_without_failed(&self) -> u64 {
        self.dirtyable_pages().saturating_sub(self.memory().gauge(Gauge::NrWriteFailed)).max(1)
    }

    /// Returns the present limits on the number of dirty pages, which [`Self::dirty_pages`] counts.
    #[must_use]
    pub fn dirty_limits(&self) -> DirtyLimits {
        let dirtyable = self.dirtyable_without_failed();
        self.limits_of(dirtyable, dirtyable)
    }

    /// Returns the limits for writers in the cgroup that limits all tasks (`limit_pages` of the machine). They are those of
    /// the whole machine if there is no such cgroup, or if groups have no limits of their own: `writeback.group_limits`,
    /// as with version 1 of control groups.
    fn limits_of_tasks(&self) -> DirtyLimits {
        let limit_pages = match self.choices.group_limits {
            GroupLimits::Off => None,
            GroupLimits::ByGroup => self.memory().limit_pages(),
        };
        let Some(limit_pages) = limit_pages else { return self.dirty_limits() };
        let dirtyable = self.dirtyable_without_failed();
        let file_pages =
            self.memory().gauge(Gauge::NrFilePages).saturating_sub(self.memory().gauge(Gauge::NrWriteFailed));
        let available = file_pages + limit_pages.saturating_sub(self.memory().charged_pages());
        self.limits_of(available.clamp(1, dirtyable), dirtyable)
    }

    /// Returns the dirty limits of a part of memory that has `part` of the machine's `dirtyable` pages. A limit in
    /// percent is a percentage of `part`. A limit in bytes holds for the whole machine, so it is multiplied by `part` /
    /// `dirtyable`.
    pub(super) fn limits_of(&self, part: u64, dirtyable: u64) -> DirtyLimits {
        let (dirty_ratio, background_ratio) = self.dirty_ratios(dirtyable);
        let of_part = |bytes, ratio| match pages_or(bytes, 0) {
            0 => part * ratio / 100,
            pages => (u128::from(pages) * u128::from(part) / u128::from(dirtyable)) as u64,
        };
        let dirty = of_part(self.choices.dirty_bytes, dirty_ratio);
        let background = of_part(self.choices.dirty_background_bytes, background_ratio);
        DirtyLimits { background: if background >= dirty { dirty / 2 } else { background }, dirty }
    }

    /// Returns the dirty limits that apply to the writers of a device, and the number of pages that count against these
    /// limits.
    pub(crate) fn dirty_state_of(&self, backing: &Backing<M>) -> DirtyState {
        let all = DirtyState { limits: self.limits_of_tasks(), dirty: self.dirty_pages() };
        match self.choices.device_limits {
            DeviceLimits::Together => all,
            DeviceLimits::Apart => {
                let dirty = backing.dirty_pages();
                let rates =
                    self.backings.iter().filter(|other| other.device != backing.device && other.dirty_pages() > 0);
                let others: u64 = rates.map(Backing::write_rate).sum();
                let own = backing.write_rate();
                let limits = part_of(all.limits, own, own + others, all.dirty.saturating_sub(dirty));
                DirtyState { limits, dirty }
            }
        }
    }

    /// Returns whether the flusher of a device has to write, because more pages are dirty than the background limit
    /// allows.
    pub(crate) fn is_over_background(&self, backing: &Backing<M>) -> bool {
        let writable = backing.writable_pages();
        if writable == 0 {
            return false;
        }
        match self.choices.device_limits {
            DeviceLimits::Together => self.writable_pages() > self.limits_of_tasks().background,
            DeviceLimits::Apart => writable > self.dirty_state_of(backing).limits.background,
        }
    }

    /// Returns the largest number of dirty pages that a device may have. With [`DeviceLimits::Apart`], this is `dirty`,
    /// which is then the dirty limit of this device alone. With [`DeviceLimits::Together`], `dirty` is the limit of all
    /// devices together; the device's share of it is the device's share of all pages written so far.
    pub(crate) fn device_limit(&self, backing: &Backing<M>, dirty: u64) -> u64 {
        match self.choices.device_limits {
            DeviceLimits::Apart => dirty,
            DeviceLimits::Together => {
                let total: u64 = self.backings.iter().map(|b| b.written.load(Relaxed)).sum();
                if total == 0 || self.backings.iter().nth(1).is_none() {
                    return dirty;
                }
                (u128::from(dirty) * u128::from(backing.written.load(Relaxed)) / u128::from(total)) as u64
            }
        }
    }

    /// If more than `limit` pages count for the limits of a device, sleeps until a page has been written, but at most
    /// 100 ms.
    pub(crate) fn wait_for_dirty_room(&self, backing: &Backing<M>, limit: u64) {
        let deadline = self.machine.now() + LOOK_AGAIN;
        let waits = &backing.dirty_waits;
        waits.limit.store(limit, SeqCst);
        waits.tasks.fetch_add(1, SeqCst);
        let ticket = self.machine.ticket(&waits.queue);
        if self.counted_for(backing) > limit {
            let _waiting = Waiting::begin(&self.machine, WaitReason::DirtyLimit);
            self.machine.sleep(&waits.queue, ticket, Some(deadline));
        }
        waits.tasks.fetch_sub(1, SeqCst);
    }

    /// After a page of a device was written, wakes the first writer that waits at the device's dirty limit. With
    /// [`DeviceLimits::Together`], does the same for every other device. A writer is not woken if the pages that count
    /// against its limit still exceed the limit.
    pub(super) fn wake_dirty_waiter(&self, written: &Backing<M>) {
        let wake = |backing: &Backing<M>| {
            let waits = &backing.dirty_waits;
            if waits.tasks() > 0 && self.counted_for(backing) <= waits.limit.load(SeqCst) {
                self.machine.wake_first(&waits.queue);
            }
        };
        match self.choices.device_limits {
            DeviceLimits::Together => self.backings.iter().for_each(wake),
            DeviceLimits::Apart => wake(written),
        }
    }

    /// Returns the number of dirty pages that are compared with the dirty limits of a device: those of the device, or
    /// those of the whole machine, as `writeback.device_limits` says.
    fn counted_for(&self, backing: &Backing<M>) -> u64 {
        match self.choices.device_limits {
            DeviceLimits::Together => self.dirty_pages(),
            DeviceLimits::Apart => backing.dirty_pages(),
        }
    }

    /// Returns the dirty ratio and the background ratio, in percent.
    fn dirty_ratios(&self, dirtyable: u64) -> (u64, u64) {
        let (dirty, background) = (self.choices.dirty_ratio, self.choices.dirty_background_ratio);
        match self.choices.dirty_mapped {
            DirtyMapped::Ignored => return (dirty, background),
            DirtyMapped::LowersRatio => {}
        }
        let mapped = self.memory().gauge(Gauge::NrMapped) + self.memory().gauge(Gauge::NrAnonPages);
        let unmapped_percent = 100_u64.saturating_sub(100 * mapped / dirtyable.max(1));
        let dirty = dirty.min(unmapped_percent / 2).max(5);
        (dirty, if background >= dirty { dirty / 2 } else { background })
    }

    /// Returns the number of pages that are dirty or under writeback. Pages whose write failed do not count, because
    /// pausing a writer does not reduce their number.
    #[must_use]
    #[inline]
    pub fn dirty_pages(&self) -> u64 {
        self.writable_pages() + self.memory().gauge(Gauge::NrWriteback)
    }

    /// Returns the number of dirty pages that the flusher can write: all dirty pages except those whose last write
    /// failed.
    pub(super) fn writable_pages(&self) -> u64 {
        self.memory().gauge(Gauge::NrDirty).saturating_sub(self.memory().gauge(Gauge::NrWriteFailed))
    }

    /// Returns whether the zone holds no more dirty pages than its share of the dirty limit.
    #[must_use]
    pub fn is_zone_dirty_ok(&self, zone: &Zone<M>) -> bool {
        let failed = zone.gauges.get(Gauge::NrWriteFailed);
        let kept = zone.dirty_balance_reserve() + failed;
        let dirtyable = (zone.free_pages() + self.reclaimable_pages(zone)).saturating_sub(kept);
        let dirty = zone.gauges.get(Gauge::NrDirty).saturating_sub(failed) + zone.gauges.get(Gauge::NrWriteback);
        // A limit in bytes is shared among zones in proportion to their dirtyable pages.
        let in_bytes = pages_or(self.choices.dirty_bytes, 0);
        let share = match in_bytes {
            0 => dirtyable * self.choices.dirty_ratio / 100,
            pages => (u128::from(pages) * u128::from(dirtyable) / u128::from(self.dirtyable_pages())) as u64,
        };
        dirty <= share
    }
}

/// Returns a limit in bytes as a number of whole pages, at least 2 as in Linux. Returns `otherwise` if the limit is 0.
fn pages_or(bytes: u64, otherwise: u64) -> u64 {
    if bytes == 0 { otherwise } else { bytes.div_ceil(PAGE_BYTES as u64).max(2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_share_the_limits_by_their_speed() {
        let limits = DirtyLimits { background: 500, dirty: 1000 };
        let part = |own, all, others| {
            let part = part_of(limits, own, all, others);
            (part.background, part.dirty)
        };
        assert_eq!(part(7, 7, 0), (500, 1000), "alone");
        assert_eq!(part(7, 7, 300), (350, 700), "swap has pages in flight");
        assert_eq!(part(99, 100, 10), (495, 990));
        assert_eq!(part(1, 100, 990), (5, 10));
        assert_eq!(part(99, 100, 500), (250, 500), "the slow one still has more than its share");
        assert_eq!(part(99, 100, 2000), (123, 247), "a quarter of the share stays");
    }

    #[test]
    fn a_limit_in_bytes_is_whole_pages_and_takes_the_place_of_a_ratio() {
        assert_eq!([0, 1, 8192, 8193].map(|bytes| pages_or(bytes, 77)), [77, 2, 2, 3]);
    }
}
