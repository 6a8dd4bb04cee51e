//! Cache lines that another CPU wrote last, and that travel to the CPU that touches them.
//!
//! A CPU that takes a lock after another CPU had it finds the lock, and the data that it protects, in the other's
//! cache. Each of these lines travels once, while the lock is held. The same holds for a frame's descriptor.
//! Description: mechanisms/multigen, 10.1 (a store to an index that another CPU wrote last).

use crate::clock::picos;
use crate::cpu::LaneId;
use crate::lock::SLOT;
use crate::world::World;
use machine::{FrameNumber, LockClass, Nanos};
use std::cell::Cell;

/// Time that a cache line travels, and the number of lines that each kind of access moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheLines {
    /// Time until a line that another CPU wrote is there.
    pub travel: Nanos,
    /// Lines that travel with a lock of each class: its own, and those of the data that its holders write.
    pub by_lock: [u32; LockClass::ALL.len()],
    /// Lines that come with a frame: of its descriptor, and of those beside it on its lists.
    pub by_frame: u32,
}

impl CacheLines {
    /// Returns the times for the lines of a lock of each class, and for those of a per-CPU slot, which no other CPU writes, ps.
    pub(crate) fn lock_table(this: Option<&Self>) -> [u64; SLOT as usize + 1] {
        let mut table = [0; SLOT as usize + 1];
        if let Some(lines) = this {
            for (cost, lock) in table.iter_mut().zip(lines.by_lock) {
                *cost = picos(lines.travel) * u64::from(lock);
            }
        }
        table
    }

    /// Returns the time for the lines of a frame, ps.
    pub(crate) fn frame_cost(this: Option<&Self>) -> u64 {
        this.map_or(0, |lines| picos(lines.travel) * u64::from(lines.by_frame))
    }
}

/// The value before the first access.
const NOBODY: u16 = u16::MAX;

/// The CPU that accessed something last.
#[derive(Debug)]
pub(crate) struct LastCpu(Cell<u16>);

impl Default for LastCpu {
    fn default() -> Self {
        Self(Cell::new(NOBODY))
    }
}

impl LastCpu {
    /// Notes an access of CPU `cpu`. Returns whether another CPU accessed it last.
    #[inline]
    pub(crate) fn touch(&self, cpu: usize) -> bool {
        let last = self.0.replace(cpu as u16);
        last != cpu as u16 && last != NOBODY
    }
}

impl World {
    /// Returns the time that the CPU of a lane takes to have the lines of a lock, which it has just got, ps.
    #[inline]
    pub(crate) fn lock_travel(&self, last: &LastCpu, lane: LaneId, cause: u8) -> u64 {
        let cost = self.lock_travel[usize::from(cause)];
        if cost > 0 && last.touch(crate::cpu::cpu_of(lane)) { cost } else { 0 }
    }

    /// Returns the time that the running CPU takes to have the lines of a frame, ps.
    #[inline]
    pub(crate) fn frame_travel(&self, frame: FrameNumber) -> u64 {
        if self.frame_travel == 0 {
            return 0;
        }
        match (self.last_cpu_of_frame.get(frame.0 as usize), self.cpu_here()) {
            (Some(last), Some(cpu)) if last.touch(cpu) => self.frame_travel,
            _ => 0,
        }
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
