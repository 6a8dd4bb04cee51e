//! Swap that is compressed in the machine's own memory (zram), so that pages in swap take memory.
//!
//! A page in swap takes [`SwapLayout::memory_percent`](super::SwapLayout) of a page; compressed pages are packed
//! without gaps. The pages are taken from a zone above its low mark. If there is no such zone, they are taken from any
//! zone, without regard to marks, like all memory that reclaim needs. If no memory is free, a page gets no slot, as if
//! swap were full. A free slot takes no memory. The module is called by code that changes slots ([`Swap::with_slots`]).
//! *Locks*: one lock, inside which no other lock is taken. Source: Linux, Documentation/admin-guide/blockdev/zram.rst.

use super::{Slots, Swap};
use crate::memory::{Block, MarkRights, MigrateType, Warmth, Zone, ZoneKind};
use machine::{Lock, LockClass, Machine, Order};

/// The pages in which the contents of compressed swap lie.
pub(super) struct Compressed<M: Machine> {
    /// Memory that a page in swap takes, in percent of a page; 0 if swap is not compressed in memory.
    percent: u64,
    blocks: M::Lock<Vec<Block>>,
}

impl<M: Machine> Compressed<M> {
    pub(super) fn new(machine: &M, percent: u32) -> Self {
        Self { percent: percent.into(), blocks: machine.lock(LockClass::Other, Vec::new()) }
    }

    /// Returns the number of pages that `slots` compressed pages take.
    const fn pages_for(&self, slots: u64) -> u64 {
        (slots * self.percent).div_ceil(100)
    }
}

impl<M: Machine> Swap<M> {
    /// Calls `change` with the swap slots, whose lock is held meanwhile. Tells the groups which of their pages left memory
    /// for swap or came back. Then uncharges the slots that became free from their groups, and frees the memory that
    /// compressed swap no longer needs for them.
    pub(crate) fn with_slots<R>(&self, change: impl FnOnce(&mut Slots) -> R) -> R {
        let (result, freed) = self.swap.with_slots(&self.machine, |slots| {
            let result = change(slots);
            // Under the lock of the slots: otherwise two moves of one slot could be counted in the wrong order.
            self.move_slots(slots.take_moved());
            (result, slots.take_freed())
        });
        freed.into_iter().for_each(|group| self.uncharge_swap(group, 1));
        if self.compressed.percent > 0 {
            self.give_back_surplus();
        }
        result
    }

    /// Returns the number of pages that compressed swap takes at present (`mem_used_total` of a zram device, in pages).
    pub fn compressed_pages(&self) -> u64 {
        self.compressed.blocks.lock().len() as u64
    }

    /// Takes the pages that compressed swap still needs for the slots in use. Returns `false` if no page is free.
    pub(super) fn take_memory_for_slots(&self) -> bool {
        if self.compressed.percent == 0 {
            return true;
        }
        while self.compressed_pages() < self.compressed_pages_wanted() {
            // As for any request, zones above their low mark come first. A task that reclaims may then use the reserves
            // as well.
            let is_above_low = |zone: &&Zone<M>| {
                zone.is_above(zone.low(), Order::ZERO, ZoneKind::Normal as usize, MarkRights::default())
            };
            let take = |zone: &Zone<M>| self.memory().take(zone, Order::ZERO, MigrateType::Unmovable, Warmth::Hot);
            let by_marks = self.zones.iter().rev().filter(is_above_low).find_map(take);
            let Some(head) = by_marks.or_else(|| self.zones.iter().rev().find_map(take)) else { return false };
            let block = self.memory().lend(head, Order::ZERO);
            self.compressed.blocks.lock().push(block);
        }
        true
    }

    fn give_back_surplus(&self) {
        loop {
            let surplus = {
                let mut blocks = self.compressed.blocks.lock();
                if blocks.len() as u64 > self.compressed_pages_wanted() { blocks.pop() } else { None }
            };
            let Some(block) = surplus else { return };
            self.memory().take_back(block);
        }
    }

    fn compressed_pages_wanted(&self) -> u64 {
        self.compressed.pages_for((self.swap.total_slots() - self.swap.free_slots()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Config, Sim};

    #[test]
    fn pages_are_rounded_up_and_nothing_takes_nothing() {
        let machine = Sim::new(Config::uniform(1, 0));
        let pages = |percent, slots| Compressed::new(&machine, percent).pages_for(slots);
        assert_eq!(
            [pages(40, 0), pages(40, 1), pages(40, 5), pages(40, 6), pages(100, 7), pages(0, 9)],
            [0, 1, 2, 3, 7, 0]
        );
    }
}
