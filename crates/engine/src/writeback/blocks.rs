//! The free blocks of a device, kept as extents. A request for blocks begins its search at a goal, and takes the first
//! extent that fits.

use std::collections::BTreeMap;

/// The free blocks of one device, as extents.
#[derive(Debug)]
pub struct FreeBlocks {
    /// The length of each free extent, by its first block. Adjacent extents are merged.
    extents: BTreeMap<u64, u64>,
}

impl FreeBlocks {
    /// Creates the record of a device's free blocks. At first, all blocks of `range` are free.
    #[must_use]
    pub fn new(range: std::ops::Range<u64>) -> Self {
        Self { extents: BTreeMap::from([(range.start, range.end - range.start)]) }
    }

    /// Takes up to `blocks` contiguous blocks from a free extent. If the block `goal` is free, they begin there.
    /// Otherwise the extent is the first after `goal` with enough blocks, among the next 64. If none of these is long
    /// enough, it is the next one after `goal`; if no extent is left after `goal`, it is the first of the device.
    /// Returns the first block and the number of blocks taken; returns `None` if the device is full.
    pub fn take(&mut self, goal: u64, blocks: u64) -> Option<(u64, u64)> {
        let (start, length) = self.find(goal, blocks)?;
        let from = start.max(goal.min(start + length - 1));
        let from = if goal > start && goal < start + length { from } else { start };
        let got = blocks.min(start + length - from);
        self.extents.remove(&start);
        if from > start {
            self.extents.insert(start, from - start);
        }
        if from + got < start + length {
            self.extents.insert(from + got, start + length - from - got);
        }
        Some((from, got))
    }

    fn find(&self, goal: u64, blocks: u64) -> Option<(u64, u64)> {
        let before = self.extents.range(..=goal).next_back().filter(|(start, length)| *start + **length > goal);
        if let Some((start, length)) = before {
            return Some((*start, *length));
        }
        let copied = |(start, length): (&u64, &u64)| (*start, *length);
        self.extents
            .range(goal..)
            .map(copied)
            .take(64)
            .find(|(_, length)| *length >= blocks)
            .or_else(|| self.extents.range(goal..).next().map(copied))
            .or_else(|| self.extents.iter().map(copied).next())
    }

    /// Frees an extent of `length` blocks that begins at block `start`.
    pub fn give(&mut self, mut start: u64, mut length: u64) {
        if let Some((before, before_length)) = self.extents.range(..start).next_back().map(|(s, l)| (*s, *l))
            && before + before_length == start
        {
            self.extents.remove(&before);
            start = before;
            length += before_length;
        }
        if let Some(after) = self.extents.remove(&(start + length)) {
            length += after;
        }
        self.extents.insert(start, length);
    }

    /// Returns the number of free blocks.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.extents.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_goes_on_at_the_goal_and_giving_merges() {
        let mut free = FreeBlocks::new(1..1001);
        assert_eq!(free.take(1, 10), Some((1, 10)));
        assert_eq!(free.take(11, 10), Some((11, 10)));
        assert_eq!(free.take(500, 10), Some((500, 10)));
        free.give(1, 10);
        free.give(11, 10);
        free.give(500, 10);
        assert_eq!((free.free(), free.extents.len()), (1000, 1));
        assert_eq!(free.take(1, 2000), Some((1, 1000)));
        assert_eq!(free.take(1, 1), None);
    }
}
