//! How near a page was to being in memory when it is read again.
//!
//! A page that leaves its file's index leaves a *shadow* in its slot: how many pages had left before it. When it comes
//! back, the pages that have left since are how much larger memory would have had to be to hold it still: its
//! *refault distance*. Two kinds of pages leave ([`Left`]); whichever is missed more often, for as many that left, should
//! rather have stayed. Description: spec multigen, 8.5 (shadows, distance) and 4 (rates of refaults that are compared).

use machine::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Which page left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// One that reclaim took off a list.
    Evicted,
    /// One that was used once and never came to a list.
    UsedOnce,
}

/// What a page leaves in its slot: which it was, and the age of memory when it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow(pub(super) u32);

impl Shadow {
    /// Bits of one.
    pub const BITS: u32 = 30;
    const USED_ONCE: u32 = 1 << (Self::BITS - 1);
    /// Ages come again after so many pages, 2 TiB: a page that left that long ago is taken for one that left just now.
    const AGES: u32 = Self::USED_ONCE;

    const fn left(self) -> Left {
        if self.0 & Self::USED_ONCE != 0 { Left::UsedOnce } else { Left::Evicted }
    }
}

/// Missed pages of a kind that tell nothing yet. Chosen, no other was tried; the comparison of classes in spec multigen, 4, has 64.
const FEW_MISSED: u32 = 8;

/// Those that are used once stay when they are missed more than this many times as often as evicted ones, in halves: where
/// both are missed alike, it costs less to let them go. Of 1, 1.25 and 1.5, tried on a model (docs/admission.md).
const HALVES_AS_OFTEN: u64 = 3;

/// Of a kind of pages: those that left of late, and those that were missed, decaying.
#[derive(Debug, Default)]
struct Rate {
    left: AtomicU32,
    missed: AtomicU32,
}

impl Rate {
    /// Two who do so at once halve twice: it is an estimate.
    fn halve(&self) {
        for count in [&self.left, &self.missed] {
            let _ = count.fetch_update(Relaxed, Relaxed, |n| Some(n / 2));
        }
    }
}

/// The pages that left memory. In lines of its own: each that leaves changes it, and hits look at what would lie beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Workingset {
    /// Pages that have left (`nonresident_age`).
    age: AtomicU32,
    /// Pages that memory held when the last ones left: kept, so that a refault does not sum counters that other CPUs write.
    held: AtomicU32,
    evicted: Rate,
    used_once: Rate,
    /// Are pages that are used once missed more often than evicted ones?
    misses_new: AtomicBool,
    /// Pages that were judged while that was so.
    judged: AtomicU32,
}

impl Workingset {
    /// What a page leaves that leaves now.
    pub fn shadow(&self, left: Left) -> Shadow {
        let age = self.age.load(Relaxed) % Shadow::AGES;
        Shadow(if left == Left::UsedOnce { age | Shadow::USED_ONCE } else { age })
    }

    const fn rate(&self, left: Left) -> &Rate {
        match left {
            Left::Evicted => &self.evicted,
            Left::UsedOnce => &self.used_once,
        }
    }

    /// `pages` have left, of a memory that holds `held`.
    pub fn note_left(&self, left: Left, pages: u32, held: u32) {
        if pages == 0 {
            return;
        }
        self.age.fetch_add(pages, Relaxed);
        self.held.store(held, Relaxed);
        self.rate(left).left.fetch_add(pages, Relaxed);
        let [evicted, used_once] = [&self.evicted, &self.used_once].map(|rate| u64::from(rate.left.load(Relaxed)));
        if evicted + used_once > u64::from(held) / 2 {
            self.evicted.halve();
            self.used_once.halve();
        }
        // Missed of those that left is more than so many times the same of the others, without dividing.
        let missed = |rate: &Rate| u64::from(rate.missed.load(Relaxed));
        let [old, new] = [missed(&self.evicted) * (used_once + 1), missed(&self.used_once) * (evicted + 1)];
        let is_more = 2 * new > HALVES_AS_OFTEN * old && missed(&self.used_once) > FEW_MISSED.into();
        if self.misses_new.load(Relaxed) != is_more {
            self.misses_new.store(is_more, Relaxed);
        }
    }

    /// A page has come back that left `shadow`. Is it missed: have fewer pages left since than half of those that memory
    /// holds? About so long would it have stayed on an inactive list, unused.
    pub fn note_refault(&self, shadow: Shadow) -> bool {
        let distance = self.age.load(Relaxed).wrapping_sub(shadow.0) % Shadow::AGES;
        let is_missed = distance <= self.held.load(Relaxed) / 2;
        if is_missed {
            self.rate(shadow.left()).missed.fetch_add(1, Relaxed);
        }
        is_missed
    }

    /// Counts `pages` more that are judged; returns how many were before.
    pub fn count_judged(&self, pages: u32) -> u32 {
        self.judged.fetch_add(pages, Relaxed)
    }

    /// Are pages that are used once missed more often than those that reclaim takes?
    pub fn misses_new(&self) -> bool {
        self.misses_new.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_missed_that_left_within_half_of_memorys_worth_of_pages() {
        let workingset = Workingset::default();
        let shadow = workingset.shadow(Left::Evicted);
        workingset.note_left(Left::Evicted, 50, 100);
        assert!(workingset.note_refault(shadow));
        workingset.note_left(Left::UsedOnce, 1, 100);
        assert!(!workingset.note_refault(shadow));
        // The ages have come round.
        workingset.note_left(Left::UsedOnce, Shadow::AGES - 51, 100);
        assert!(workingset.note_refault(shadow));
    }

    #[test]
    fn pages_used_once_are_missed_by_their_rate_beside_that_of_evicted_ones() {
        let came_back = |used_once: u32, evicted: u32| {
            let workingset = Workingset::default();
            for (left, missed) in [(Left::UsedOnce, used_once), (Left::Evicted, evicted)] {
                let shadow = workingset.shadow(left);
                workingset.note_left(left, 100, 10_000);
                (0..missed).for_each(|_| assert!(workingset.note_refault(shadow)));
            }
            workingset.note_left(Left::Evicted, 1, 10_000);
            workingset.misses_new()
        };
        assert!(came_back(50, 20) && came_back(9, 0));
        // No more often, not by half, too few to tell.
        assert!(!came_back(20, 50) && !came_back(50, 40) && !came_back(8, 0));
    }

    #[test]
    fn what_was_long_ago_counts_less() {
        let workingset = Workingset::default();
        let shadow = workingset.shadow(Left::UsedOnce);
        workingset.note_left(Left::UsedOnce, 100, 1000);
        (0..90).for_each(|_| _ = workingset.note_refault(shadow));
        workingset.note_left(Left::Evicted, 100, 1000);
        assert!(workingset.misses_new());
        (0..100).for_each(|_| workingset.note_left(Left::UsedOnce, 100, 1000));
        assert!(!workingset.misses_new());
    }
}
