//! Counts of lock acquisitions, spin times and hold times, by lock class.

use crate::cause::{SLOT, cause_name};
use crate::clock::nanos;
use machine::Nanos;
use std::cell::Cell;

/// Counts for all locks of one class, or for all per-CPU slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockStatistics {
    /// The name of the lock class, or `per_cpu` for per-CPU slots.
    pub class: &'static str,
    /// Number of times that a lock was taken.
    pub acquisitions: u64,
    /// Number of acquisitions that found the lock held.
    pub contended: u64,
    /// Total time that tasks and handlers spent spinning for the locks.
    pub wait_total: Nanos,
    /// Longest time that a task or handler spun for a lock.
    pub wait_max: Nanos,
    /// Total time for which the locks of the class were held.
    pub hold_total: Nanos,
    /// Longest time for which a lock was held.
    pub hold_max: Nanos,
}

#[derive(Default)]
pub(crate) struct LockCounts {
    pub(crate) acquisitions: Cell<u64>,
    pub(crate) contended: Cell<u64>,
    pub(crate) wait_total: Cell<u64>,
    pub(crate) wait_max: Cell<u64>,
    pub(crate) hold_total: Cell<u64>,
    pub(crate) hold_max: Cell<u64>,
}

impl LockCounts {
    pub(crate) fn table() -> Box<[Self]> {
        (0..=SLOT).map(|_| Self::default()).collect()
    }

    pub(crate) fn statistics(&self, cause: u8) -> LockStatistics {
        LockStatistics {
            class: cause_name(cause),
            acquisitions: self.acquisitions.get(),
            contended: self.contended.get(),
            wait_total: nanos(self.wait_total.get()),
            wait_max: nanos(self.wait_max.get()),
            hold_total: nanos(self.hold_total.get()),
            hold_max: nanos(self.hold_max.get()),
        }
    }
}

#[inline]
pub(crate) fn add(total: &Cell<u64>, max: &Cell<u64>, time: u64) {
    total.set(total.get() + time);
    max.set(max.get().max(time));
}
