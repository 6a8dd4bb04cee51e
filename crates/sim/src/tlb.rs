//! TLBs: a CPU's cache of address translations, for pages of 4 KiB and of 2 MiB.
//!
//! Each CPU has one TLB. The address of a translation decides the four places in which it can be. A new translation
//! replaces the least recently used one of these four. A translation names its region. So translations of one task stay
//! valid when another task comes to the CPU. A translation also stays when the kernel unmaps the page. So a page that
//! is swapped out and soon swapped in again costs its fault but no walk.

use machine::Nanos;
use std::cell::Cell;

/// Number of places in the TLB that may hold the translation of a given address: the ways of its set.
const WAYS: usize = 4;

/// The size of each CPU's TLB, and the cost of a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbConfig {
    /// Number of translations of 4 KiB pages that the TLB holds.
    pub entries_4k: usize,
    /// Number of translations of 2 MiB pages that the TLB holds.
    pub entries_2m: usize,
    /// Time of a walk of the page table down to a page of 4 KiB.
    pub walk_4k: Nanos,
    /// Time of a page-table walk to a page of 2 MiB. This walk visits one level less than a walk to a page of 4 KiB.
    pub walk_2m: Nanos,
}

/// The TLB of one CPU: the translations of small and of huge pages that it holds.
#[derive(Debug)]
pub(crate) struct Tlb {
    small: Box<[Cell<[u64; WAYS]>]>,
    huge: Box<[Cell<[u64; WAYS]>]>,
}

impl Tlb {
    pub(crate) fn new(config: &TlbConfig) -> Self {
        let sets = |entries: usize| (0..entries.div_ceil(WAYS)).map(|_| Cell::new([0; WAYS])).collect();
        Self { small: sets(config.entries_4k), huge: sets(config.entries_2m) }
    }

    /// Looks up the translation of page `page` of the region `space`. Returns whether the TLB had the translation. If
    /// not, adds the translation in place of the least recently used translation of its set. A TLB without places never
    /// has a translation.
    #[inline]
    pub(crate) fn look_up(&self, space: u32, page: u32, is_huge: bool) -> bool {
        let sets = if is_huge { &self.huge } else { &self.small };
        if sets.is_empty() {
            return false;
        }
        let set = &sets[(page ^ space.wrapping_mul(0x9e37_79b9)) as usize % sets.len()];
        // The tag is never 0, which stands for an empty place.
        let tag = u64::from(space) << 32 | u64::from(page) | 1 << 63;
        let mut ways = set.get();
        let at = ways.iter().position(|way| *way == tag);
        ways[..=at.unwrap_or(WAYS - 1)].rotate_right(1);
        ways[0] = tag;
        set.set(ways);
        at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: TlbConfig = TlbConfig { entries_4k: 16, entries_2m: 4, walk_4k: Nanos(40), walk_2m: Nanos(5) };

    #[test]
    fn what_fits_is_found_again_and_what_does_not_is_not() {
        let tlb = Tlb::new(&CONFIG);
        let pass = |pages: u32| (0..pages).filter(|page| tlb.look_up(3, *page, false)).count();
        assert_eq!([pass(16), pass(16)], [0, 16]);
        // Five pages share a set of four places. If they are touched again and again in the same order, the next page
        // is always the one that was just replaced.
        assert_eq!([pass(20), pass(20)], [16, 0]);
        assert!(!tlb.look_up(4, 19, false), "of another region");
        assert!(!tlb.look_up(3, 19, true), "of another size");
    }

    #[test]
    fn the_one_that_was_looked_up_longest_ago_makes_room() {
        let tlb = Tlb::new(&CONFIG);
        for page in [0, 1, 2, 3, 0, 4] {
            tlb.look_up(1, page, true);
        }
        assert!(tlb.look_up(1, 0, true) && !tlb.look_up(1, 1, true));
    }

    #[test]
    fn a_cpu_without_room_walks_each_time() {
        let tlb = Tlb::new(&TlbConfig { entries_2m: 0, ..CONFIG });
        assert!(!tlb.look_up(1, 0, true) && !tlb.look_up(1, 0, true));
    }
}
