//! Counts of the periods with interrupts off, by cause.

use crate::cause::{CAUSES, cause_name};
use crate::clock::nanos;
use machine::Nanos;
use std::cell::Cell;

const BUCKETS: usize = 40;

/// Statistics of the periods in which a CPU had its interrupts off for one cause, on all CPUs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskStatistics {
    /// The cause that turned interrupts off first: the class of a lock, `per_cpu`, or `interrupt` for handlers.
    pub cause: &'static str,
    /// Number of periods with interrupts off.
    pub count: u64,
    /// Total length of the periods with interrupts off.
    pub total: Nanos,
    /// Length of the longest period with interrupts off.
    pub max: Nanos,
    /// Histogram of the periods' lengths. Entry 0 counts lengths below 1 ns, and entry `i` counts lengths of at least
    /// 2^(i-1) and less than 2^i ns. The last entry also counts all longer ones.
    pub by_log2_ns: Vec<u64>,
}

#[derive(Clone)]
pub(crate) struct MaskCounts {
    count: Cell<u64>,
    total: Cell<u64>,
    max: Cell<u64>,
    buckets: [Cell<u64>; BUCKETS],
}

impl MaskCounts {
    pub(crate) fn table() -> Box<[Self]> {
        let empty = Self {
            count: Cell::new(0),
            total: Cell::new(0),
            max: Cell::new(0),
            buckets: [const { Cell::new(0) }; BUCKETS],
        };
        vec![empty; CAUSES].into()
    }

    pub(crate) fn clear(&self) {
        [&self.count, &self.total, &self.max].into_iter().chain(&self.buckets).for_each(|cell| cell.set(0));
    }

    #[inline]
    pub(crate) fn add(&self, time: u64) {
        self.count.set(self.count.get() + 1);
        self.total.set(self.total.get() + time);
        self.max.set(self.max.get().max(time));
        let bits = u64::BITS - nanos(time).0.leading_zeros();
        let bucket = &self.buckets[(bits as usize).min(BUCKETS - 1)];
        bucket.set(bucket.get() + 1);
    }

    pub(crate) fn statistics(&self, cause: u8) -> MaskStatistics {
        MaskStatistics {
            cause: cause_name(cause),
            count: self.count.get(),
            total: nanos(self.total.get()),
            max: nanos(self.max.get()),
            by_log2_ns: self.buckets.iter().map(Cell::get).collect(),
        }
    }
}
