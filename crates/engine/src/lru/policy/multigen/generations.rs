//! Generations of one lruvec: their numbers, when they began, and how many pages each has (mechanisms/multigen, 2).
//!
//! Numbers and sizes are changed under the lock of the lists and read without it. A size counts the pages whose *flags*
//! name the generation, on whatever list the pages are. A size may be below 0 for a moment, because a walk of page
//! tables counts its changes later.

use crate::lru::Family;
use crate::memory::{Flags, ZoneKind};
use machine::Nanos;
use machine::atomic::{AtomicI64, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Largest number of generations that a family can have. The slot of a generation is its number modulo this constant.
pub const GENERATIONS: usize = 4;

/// Smallest number of generations of each family.
pub const GENERATIONS_MIN: u64 = 2;

/// Number of kinds of zones.
pub const ZONES: usize = ZoneKind::ALL.len();

/// Returns the slot of generation number `seq`: the number modulo [`GENERATIONS`].
pub const fn slot_of(seq: u64) -> usize {
    seq as usize % GENERATIONS
}

/// Returns the slot of the generation that a page's flags name.
pub const fn slot_in(flags: Flags) -> usize {
    ((flags.0 & Flags::GENERATION.0) >> Flags::GENERATION_SHIFT) as usize
}

/// Returns `flags` with the slot `slot` (a generation's number modulo [`GENERATIONS`]) in the bits that name the page's
/// generation.
pub const fn with_slot(flags: Flags, slot: usize) -> Flags {
    Flags(flags.without(Flags::GENERATION).0 | (slot as u32) << Flags::GENERATION_SHIFT)
}

/// Returns the family of a page with these flags.
pub const fn is_of(flags: Flags) -> Family {
    if flags.has(Flags::SWAPBACKED) { Family::Anon } else { Family::File }
}

/// The number of the youngest generation, and the numbers of the oldest generations of both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seqs {
    /// Number of the youngest generation, which both families share.
    pub max: u64,
    /// Number of the oldest generation of each [`Family`].
    pub min: [u64; 2],
}

impl Seqs {
    /// Returns the number of generations of a family.
    pub const fn generations(&self, family: Family) -> u64 {
        self.max - self.min[family as usize] + 1
    }

    /// Returns whether pages of a family's oldest generation can be evicted: whether the family has at least two
    /// generations besides the oldest.
    pub const fn is_evictable(&self, family: Family) -> bool {
        self.generations(family) > GENERATIONS_MIN
    }

    /// Returns whether the generation in a slot is one of the two youngest, whose pages count as active.
    pub const fn is_active(&self, slot: usize) -> bool {
        slot == slot_of(self.max) || slot == slot_of(self.max - 1)
    }
}

/// The generations of an lruvec: their numbers, their sizes in pages, and the times when they began.
#[derive(Debug)]
pub struct Generations {
    max: AtomicU64,
    min: [AtomicU64; 2],
    /// For each slot, the time at which its generation began, in ns.
    born: [AtomicU64; GENERATIONS],
    /// Number of pages of each generation. The array is indexed by the generation's slot, the family, and the kind of
    /// zone.
    sizes: [[[AtomicI64; ZONES]; 2]; GENERATIONS],
}

impl Generations {
    /// Creates four generations, all empty and begun now.
    pub fn new(now: Nanos) -> Self {
        Self {
            max: AtomicU64::new(GENERATIONS as u64 - 1),
            min: Default::default(),
            born: std::array::from_fn(|_| AtomicU64::new(now.0)),
            sizes: Default::default(),
        }
    }

    /// Returns the numbers of the youngest and of the oldest generations.
    pub fn seqs(&self) -> Seqs {
        // The oldest numbers are read first. If the numbers change in between, a type seems to have too many
        // generations rather than too few.
        let min = [0, 1].map(|family| self.min[family].load(Acquire));
        Seqs { max: self.max.load(Acquire), min }
    }

    /// Begins the next generation. It takes the slot of an old generation that has no pages of any family any more.
    pub fn advance_max(&self, now: Nanos) {
        let next = self.max.load(Acquire) + 1;
        self.born[slot_of(next)].store(now.0, Relaxed);
        self.max.store(next, Release);
    }

    /// Sets the number of a family's oldest generation to `seq`.
    pub fn set_min(&self, family: Family, seq: u64) {
        debug_assert!(seq >= self.min[family as usize].load(Relaxed), "generations do not come back");
        self.min[family as usize].store(seq, Release);
    }

    /// Returns the time at which a generation began.
    pub fn born(&self, seq: u64) -> Nanos {
        Nanos(self.born[slot_of(seq)].load(Relaxed))
    }

    /// Adds `pages`, which may be negative, to the number of pages of a family, in zones of one kind, that the
    /// generation in `slot` has.
    pub fn add(&self, slot: usize, family: Family, zone: ZoneKind, pages: i64) {
        self.sizes[slot][family as usize][zone as usize].fetch_add(pages, Relaxed);
    }

    /// Returns the number of pages of a family, in zones of one kind, that the generation in `slot` has. The number may
    /// be below 0 while changes by a walk of page tables are not counted yet.
    pub fn counted(&self, slot: usize, family: Family, zone: ZoneKind) -> i64 {
        self.sizes[slot][family as usize][zone as usize].load(Relaxed)
    }

    /// Returns the number of pages of a family in a generation.
    pub fn pages(&self, seq: u64, family: Family) -> u64 {
        let sizes = &self.sizes[slot_of(seq)][family as usize];
        sizes.iter().map(|pages| pages.load(Relaxed).max(0).cast_unsigned()).sum()
    }

    /// Returns the number of pages of a family in all generations.
    pub fn all_pages(&self, family: Family) -> u64 {
        let seqs = self.seqs();
        (seqs.min[family as usize]..=seqs.max).map(|seq| self.pages(seq, family)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_a_slot_and_keeps_the_rest() {
        for slot in 0..GENERATIONS {
            let flags = with_slot(Flags(!0), slot);
            assert_eq!(
                (slot_in(flags), flags.without(Flags::GENERATION)),
                (slot, Flags(!0).without(Flags::GENERATION))
            );
        }
    }

    #[test]
    fn the_two_youngest_are_active_and_a_type_with_two_gives_nothing() {
        let seqs = Seqs { max: 9, min: [6, 8] };
        let active: Vec<bool> = (6..=9).map(|seq| seqs.is_active(slot_of(seq))).collect();
        assert_eq!(active, [false, false, true, true]);
        assert!(seqs.is_evictable(Family::Anon) && !seqs.is_evictable(Family::File));
    }

    #[test]
    fn sizes_below_zero_count_as_none() {
        let generations = Generations::new(Nanos(5));
        generations.add(1, Family::File, ZoneKind::Normal, -3);
        generations.add(1, Family::File, ZoneKind::Dma32, 7);
        assert_eq!((generations.pages(1, Family::File), generations.all_pages(Family::File)), (7, 7));
        generations.advance_max(Nanos(9));
        assert_eq!((generations.born(4), generations.born(3)), (Nanos(9), Nanos(5)));
    }
}
