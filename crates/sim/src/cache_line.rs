//! The cost of touching cache lines that another CPU wrote last, and that therefore travel to the CPU that touches
//! them.
//!
//! When a CPU takes a lock that another CPU had last, the cache lines of the lock and of the data under it are in the
//! other CPU's cache. Each line travels once, while the lock is held. The lines of a frame's descriptor travel when
//! another CPU touched the frame last. Description: mechanisms/multigen, 10.1 (a store to an index that another CPU
//! wrote last).

use crate::cause::SLOT;
use crate::clock::picos;
use machine::{LockClass, Nanos};
use std::cell::Cell;

/// The cost of cache lines that travel between CPUs: the time for one line, and the number of lines for each kind of
/// access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheLines {
    /// Time that a line takes to arrive if another CPU was the last to write it.
    pub travel: Nanos,
    /// For each lock class, the number of lines that travel when a CPU gets the lock: the line of the lock itself, and
    /// the lines of the data that its holders write.
    pub by_lock: [u32; LockClass::ALL.len()],
    /// Number of cache lines that move to a CPU when the CPU touches a frame that another CPU wrote last. They are the
    /// lines of the frame's descriptor, and those of the descriptors of its neighbours on lists.
    pub by_frame: u32,
}

impl CacheLines {
    /// Returns, for each lock class, the time that the cache lines of a lock take to travel from another CPU, ps; 0 for
    /// every class if `this` is `None`. The entry for a per-CPU slot is 0, because no other CPU writes it.
    pub(crate) fn lock_table(this: Option<&Self>) -> [u64; SLOT as usize + 1] {
        let mut table = [0; SLOT as usize + 1];
        if let Some(lines) = this {
            for (cost, lock) in table.iter_mut().zip(lines.by_lock) {
                *cost = picos(lines.travel) * u64::from(lock);
            }
        }
        table
    }

    /// Returns the time that the cache lines of a frame take to travel from another CPU, ps.
    pub(crate) fn frame_cost(this: Option<&Self>) -> u64 {
        this.map_or(0, |lines| picos(lines.travel) * u64::from(lines.by_frame))
    }
}

/// The value of a [`LastCpu`] that no CPU has accessed yet.
const NOBODY: u16 = u16::MAX;

/// The CPU that last accessed a piece of data.
#[derive(Debug)]
pub(crate) struct LastCpu(Cell<u16>);

impl Default for LastCpu {
    fn default() -> Self {
        Self(Cell::new(NOBODY))
    }
}

impl LastCpu {
    /// Records an access by CPU `cpu`. Returns whether the previous access was by another CPU; `false` for the first
    /// access.
    #[inline]
    pub(crate) fn touch(&self, cpu: usize) -> bool {
        let last = self.0.replace(cpu as u16);
        last != cpu as u16 && last != NOBODY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_travel_when_another_cpu_touched_them_last() {
        let last = LastCpu::default();
        assert_eq!([3, 3, 4, 3].map(|cpu| last.touch(cpu)), [false, false, true, true]);
    }
}
