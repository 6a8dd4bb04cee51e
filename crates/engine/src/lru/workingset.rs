//! Shadows and refault distances. When a page is read again, its refault distance says by how many pages memory was too
//! small to keep the page.
//!
//! When a page leaves its file's index, a *shadow* takes its slot: the number of pages that had left memory before.
//! When the page returns, the number of pages that have left since is the page's *refault distance*: memory larger by
//! this number of pages would still have held the page. There are three kinds of pages that leave memory ([`Left`]).
//! For each kind, the number of missed pages is compared with the number of pages that left lately. Pages of the kind
//! with the highest rate should have stayed. Description: mechanisms/multigen, 8.5 (shadows, distance) and
//! mechanisms/multigen, 4 (rates of refaults that are compared).

use super::admission_rule::AdmissionRule;
use crate::page_cache::Shadow;
use machine::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The way in which a page left memory: from an LRU list, or without ever having been on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// A page that reclaim evicted from an LRU list.
    Evicted,
    /// A page that was used once and was never put on an LRU list.
    UsedOnce,
    /// A page that had left memory before, came back soon, and was not put on an LRU list even then.
    Returned,
}

impl Left {
    /// All kinds, in declaration order.
    pub const ALL: [Self; 3] = [Self::Evicted, Self::UsedOnce, Self::Returned];

    /// Returns an array with a number of pages for each kind of [`Left`]: `pages` for this kind, and 0 for the others.
    #[must_use]
    pub fn only(self, pages: u32) -> [u32; Self::ALL.len()] {
        Self::ALL.map(|kind| if kind == self { pages } else { 0 })
    }
}

/// Number of bits of a shadow that hold an age, which is the number of pages that had left memory when the shadow's
/// page left. The two bits above them hold the kind of the page that left.
const AGE_BITS: u32 = Shadow::BITS - 2;

/// Unit, in pages, in which a shadow stores an age. With a smaller unit, [`AGE_BITS`] bits could not hold the ages of
/// the largest memory.
const STEP_PAGES: u32 = 4;

/// Number of pages that can leave memory before the ages in shadows repeat: 4 TiB of pages. A page that left that long
/// ago is taken for a page that left just now.
const AGES: u32 = STEP_PAGES << AGE_BITS;

/// Returns the shadow of a page of the kind `left` that leaves memory at the age `age`. The shadow holds the kind and
/// the age, which is rounded down to a multiple of [`STEP_PAGES`].
const fn shadow_of(left: Left, age: u32) -> Shadow {
    Shadow::of_bits(((left as u32) << AGE_BITS) | (age % AGES / STEP_PAGES))
}

/// Returns the kind of page, [`Left`], that `shadow` records. A page leaves its shadow in its slot when it leaves
/// memory.
fn left_of(shadow: Shadow) -> Left {
    Left::ALL[(shadow.bits() >> AGE_BITS) as usize % Left::ALL.len()]
}

/// Returns the refault distance: the number of pages that have left memory since the page of `shadow` left it. `age` is
/// the number of pages that have left memory until now. The result is up to three pages too high, because the number in
/// a shadow is rounded down to a multiple of four.
const fn distance(shadow: Shadow, age: u32) -> u32 {
    let left_at = shadow.bits() % (AGES / STEP_PAGES) * STEP_PAGES;
    age.wrapping_sub(left_at) % AGES
}

/// Returns whether more than `pages` pages left memory between two moments. The moments are given as ages, `from` and
/// `to`: counts of the pages that had left by then. Returns `false` if `to` is earlier than `from`, because CPUs that
/// count at the same time may call this function in any order.
const fn is_longer(from: u32, to: u32, pages: u32) -> bool {
    let left = to.wrapping_sub(from);
    left.cast_signed() > 0 && left > pages
}

/// Number of parts into which [`Lately`] divides its count of the pages that left memory lately. When the oldest part
/// is forgotten, its count goes with it. Only this value was tried.
const PARTS: usize = 8;

/// The rate at which pages of one kind are missed: the number of missed pages, relative to the number of chances to
/// miss one. Whenever a page of any kind leaves memory, the chances grow by the number of pages of this kind that left
/// so recently that they would count as missed if they returned now. Pages that have just left therefore add few
/// chances at first, and do not make the rate look low. Both numbers are halved from time to time.
#[derive(Debug, Default)]
struct Rate {
    /// Number of missed pages, multiplied by [`MISSED`], so that no fraction is lost when a small number is halved.
    missed: AtomicU64,
    chances: AtomicU64,
}

/// The amount that one missed page adds to [`Rate::missed`].
const MISSED: u64 = 256;

impl Rate {
    /// Halves both numbers of the rate. If two tasks do so at once, the numbers may be halved twice. This is harmless,
    /// because they are estimates.
    fn halve(&self) {
        let _ = self.missed.fetch_update(Relaxed, Relaxed, |n| Some(n / 2));
        let _ = self.chances.fetch_update(Relaxed, Relaxed, |n| Some(n / 2));
    }

    fn missed(&self) -> u128 {
        self.missed.load(Relaxed).into()
    }

    fn chances(&self) -> u128 {
        self.chances.load(Relaxed).into()
    }

    /// Returns whether the rate of this kind is higher than `percent` percent of the rate of the kind `other`. The rate
    /// is the number of missed pages divided by the chances to miss a page ([`Rate`]). If no page of the other kind was
    /// missed, one missed page of this kind is enough, even if hardly any page of the other kind left memory. Pages of
    /// this kind then go on LRU lists, and reclaim shows whether that was right.
    ///
    /// A trial with the example of docs/studies/admission.md added half a missed page to the other kind. With uniform
    /// reads of a file of 8 times memory, reclaim then had to evict 2 % of the pages read, instead of 5 % without the
    /// addition. With reads of a set that shifts, 27.1 % of the reads came from the disk, instead of 26.4 %.
    fn is_missed_more(&self, other: &Self, percent: u32) -> bool {
        // The two rates are compared without division.
        100 * self.missed() * (other.chances() + 1) > u128::from(percent) * other.missed() * self.chances()
    }
}

/// Number of pages of each kind ([`Left`]) that left memory lately.
#[derive(Debug, Default)]
struct Lately {
    parts: [[AtomicU32; Left::ALL.len()]; PARTS],
    /// Index of the current part in `parts`. Pages that leave memory are counted in the current part.
    part: AtomicU32,
    /// The age of memory (the number of pages that have left it so far) at which counting in the current part began.
    begun: AtomicU32,
}

impl Lately {
    /// Counts pages that have just left memory; `left` has the number of each kind. `age` is the age of memory (the
    /// number of pages that have left it so far), including these pages. Only about the last `window` pages are
    /// remembered. Two tasks that count at once may lose a few pages.
    fn count(&self, left: [u32; Left::ALL.len()], age: u32, window: u32) {
        let begun = self.begun.load(Relaxed);
        if is_longer(begun, age, window / PARTS as u32)
            && self.begun.compare_exchange(begun, age, Relaxed, Relaxed).is_ok()
        {
            let next = (self.part.load(Relaxed) + 1) % PARTS as u32;
            self.parts[next as usize].iter().for_each(|kind| kind.store(0, Relaxed));
            self.part.store(next, Relaxed);
        }
        let part = &self.parts[self.part.load(Relaxed) as usize];
        for (count, pages) in part.iter().zip(left).filter(|(_, pages)| *pages > 0) {
            count.fetch_add(pages, Relaxed);
        }
    }

    fn pages(&self, left: Left) -> u64 {
        self.parts.iter().map(|part| u64::from(part[left as usize].load(Relaxed))).sum()
    }
}

/// The record of pages that left memory. The record is aligned so that it shares no cache line with other data, because
/// it changes whenever a page leaves memory. Hits in the page cache read data beside it, and would otherwise wait for a
/// changed cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Workingset {
    /// Number of pages that have left memory so far (`nonresident_age`).
    age: AtomicU32,
    /// Number of file pages that were in memory when pages last left memory. The number is stored because a refault
    /// needs it, and would otherwise have to sum up counters that other CPUs write.
    held: AtomicU32,
    lately: Lately,
    /// For each kind of [`Left`], the rate at which pages of this kind are missed: come back soon after they left
    /// memory.
    rates: [Rate; Left::ALL.len()],
    /// The age of memory (`age`) at which the rates were last halved.
    halved: AtomicU32,
    /// For each kind of [`Left`]: `true` if pages of this kind are missed (come back soon after they left memory)
    /// clearly more often than evicted pages.
    is_missed_more: [AtomicBool; Left::ALL.len()],
    /// For each kind of [`Left`], the number of pages about whose admission to an LRU list was decided. Of the kind
    /// [`Left::UsedOnce`], pages are counted only while pages of this kind are missed more often than evicted pages.
    judged: [AtomicU32; Left::ALL.len()],
    rule: ReadOnly,
}

/// The constants, in a cache line of their own: they never change, while all other data of the record does.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ReadOnly(AdmissionRule);

impl Workingset {
    /// Creates the record of a memory from which no page has left, with constants other than the engine's.
    pub(super) fn with_rule(rule: AdmissionRule) -> Self {
        Self { rule: ReadOnly(rule), ..Self::default() }
    }

    /// Returns the largest refault distance of a page that counts as missed. `held` is the number of pages that memory
    /// holds.
    fn missed_within(&self, held: u32) -> u32 {
        held / self.rule.0.missed_part
    }

    /// Returns the shadow of a page that leaves memory at this moment.
    pub fn shadow(&self, left: Left) -> Shadow {
        shadow_of(left, self.age.load(Relaxed))
    }

    /// Records that pages have left memory. `left` has the number of pages of each kind, and `held` is the number of
    /// pages that memory holds.
    pub fn note_left(&self, left: [u32; Left::ALL.len()], held: u32) {
        let pages: u32 = left.iter().sum();
        if pages == 0 {
            return;
        }
        let age = self.age.fetch_add(pages, Relaxed).wrapping_add(pages);
        self.held.store(held, Relaxed);
        self.lately.count(left, age, self.missed_within(held));
        for kind in Left::ALL {
            self.rates[kind as usize].chances.fetch_add(u64::from(pages) * self.lately.pages(kind), Relaxed);
        }
        let halved = self.halved.load(Relaxed);
        if is_longer(halved, age, held / self.rule.0.halved_part)
            && self.halved.compare_exchange(halved, age, Relaxed, Relaxed).is_ok()
        {
            self.rates.iter().for_each(Rate::halve);
        }
        let evicted = &self.rates[Left::Evicted as usize];
        for (rate, is_missed_more) in self.rates.iter().zip(&self.is_missed_more) {
            let was_more = is_missed_more.load(Relaxed);
            // For the result to stay `true`, one missed page is enough: while a kind is listed, few of its pages are
            // dropped.
            let least = if was_more { MISSED } else { u64::from(self.rule.0.few_missed) * MISSED + 1 };
            let is_more =
                rate.is_missed_more(evicted, self.rule.0.percent_as_often) && rate.missed.load(Relaxed) >= least;
            if was_more != is_more {
                is_missed_more.store(is_more, Relaxed);
            }
        }
    }

    /// Records the return of a page that left `shadow` in its slot when it left memory. Returns whether the page counts
    /// as missed: whether its refault distance is small enough ([`AdmissionRule::missed_part`]).
    pub fn note_refault(&self, shadow: Shadow) -> bool {
        let is_missed = distance(shadow, self.age.load(Relaxed)) <= self.missed_within(self.held.load(Relaxed));
        if is_missed {
            self.rates[left_of(shadow) as usize].missed.fetch_add(MISSED, Relaxed);
        }
        is_missed
    }

    /// Counts `pages` more pages of the kind `kind` for which it was decided whether or not they go on an LRU list.
    /// Returns the count before.
    pub fn count_judged(&self, kind: Left, pages: u32) -> u32 {
        self.judged[kind as usize].fetch_add(pages, Relaxed)
    }

    /// Returns whether pages of this kind are missed clearly more often than evicted pages. A page is missed if it
    /// returns soon after it left memory.
    pub fn is_missed_more(&self, kind: Left) -> bool {
        self.is_missed_more[kind as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_missed_that_left_within_half_of_memorys_worth_of_pages() {
        let workingset = Workingset::default();
        let shadow = workingset.shadow(Left::Evicted);
        workingset.note_left(Left::Evicted.only(50), 100);
        assert!(workingset.note_refault(shadow));
        workingset.note_left(Left::UsedOnce.only(1), 100);
        assert!(!workingset.note_refault(shadow));
        // The age has started again from 0 when the page returns.
        workingset.note_left(Left::UsedOnce.only(AGES - 51), 100);
        assert!(workingset.note_refault(shadow));
    }

    #[test]
    fn a_shadow_says_what_left_and_how_long_ago() {
        for kind in Left::ALL {
            for left_at in [0, 4, 1 << 20, AGES - 4, AGES, u32::MAX - 3] {
                let shadow = shadow_of(kind, left_at);
                assert!(left_of(shadow) == kind, "{kind:?} {left_at}");
                for since in [0, 1, 5000, AGES - 1] {
                    assert_eq!(distance(shadow, left_at.wrapping_add(since)), since, "{left_at}");
                }
                // The page left between two steps, seven pages ago: the distance is rounded up to 10.
                assert_eq!(distance(shadow_of(kind, left_at + 3), left_at.wrapping_add(10)), 10);
            }
        }
    }

    /// Lets ten pages of `kind` and then ten evicted pages leave a memory that holds 1000, and repeats this `turns`
    /// times. Of each ten pages of `kind`, `missed` return soon enough to count as missed; of each ten evicted pages,
    /// `evicted_missed` do.
    fn leave_in_turns(workingset: &Workingset, kind: Left, turns: u32, missed: u32, evicted_missed: u32) {
        for _ in 0..turns {
            for (left, missed) in [(kind, missed), (Left::Evicted, evicted_missed)] {
                let shadow = workingset.shadow(left);
                workingset.note_left(left.only(10), 1000);
                (0..missed).for_each(|_| assert!(workingset.note_refault(shadow)));
            }
        }
    }

    #[test]
    fn pages_are_missed_more_by_their_rate_beside_that_of_evicted_ones() {
        for kind in [Left::UsedOnce, Left::Returned] {
            let came_back = |turns, missed, evicted| {
                let workingset = Workingset::default();
                leave_in_turns(&workingset, kind, turns, missed, evicted);
                leave_in_turns(&workingset, kind, 1, 0, 0);
                assert!(Left::ALL.into_iter().all(|other| other == kind || !workingset.is_missed_more(other)));
                workingset.is_missed_more(kind)
            };
            assert!(came_back(20, 5, 2) && came_back(3, 3, 0));
            // Three cases: pages of the kind are missed less often; they are missed more often, but by less than half;
            // too few pages of the kind are missed.
            assert!(!came_back(20, 2, 5) && !came_back(20, 5, 4) && !came_back(2, 4, 0));
        }
    }

    #[test]
    fn a_kind_that_is_not_missed_any_more_is_soon_not_missed_more() {
        let workingset = Workingset::default();
        leave_in_turns(&workingset, Left::UsedOnce, 10, 5, 0);
        assert!(workingset.is_missed_more(Left::UsedOnce));
        // Of each 100 pages that leave, five are of the kind, and one of them is missed. This would be too few for
        // `is_missed_more` to become `true`, and is enough for it to stay.
        for _ in 0..100 {
            let shadow = workingset.shadow(Left::UsedOnce);
            workingset.note_left([95, 5, 0], 1000);
            assert!(workingset.note_refault(shadow) && workingset.is_missed_more(Left::UsedOnce));
        }
        (0..15).for_each(|_| workingset.note_left([95, 5, 0], 1000));
        assert!(!workingset.is_missed_more(Left::UsedOnce));
    }

    #[test]
    fn pages_of_which_many_have_just_left_are_not_missed_less_for_that() {
        let workingset = Workingset::default();
        leave_in_turns(&workingset, Left::UsedOnce, 50, 2, 2);
        // From now on only evicted pages leave. Each kind is missed in proportion to the number of its pages that have
        // left memory and not returned.
        for out in (0..10).map(|turn| 250 - turn * 25) {
            let shadows = [Left::UsedOnce, Left::Evicted].map(|left| workingset.shadow(left));
            workingset.note_left(Left::Evicted.only(25), 1000);
            let missed = [out / 25, 20 - out / 25];
            for (shadow, missed) in shadows.iter().zip(missed) {
                (0..missed).for_each(|_| assert!(workingset.note_refault(*shadow)));
            }
            assert!(!workingset.is_missed_more(Left::UsedOnce), "{out}");
        }
    }

    #[test]
    fn an_age_that_comes_late_turns_nothing_back() {
        let lately = Lately::default();
        lately.count(Left::Evicted.only(5), 90, 400);
        lately.count(Left::Evicted.only(5), 110, 400);
        let begun = lately.begun.load(Relaxed);
        lately.count(Left::Evicted.only(5), 100, 400);
        assert_eq!((lately.begun.load(Relaxed), lately.pages(Left::Evicted)), (begun, 15));
        // Ages are also compared correctly after they have started again from 0.
        assert!(is_longer(u32::MAX - 5, 10, 14) && !is_longer(10, u32::MAX - 5, 14) && !is_longer(3, 17, 14));
    }

    #[test]
    fn what_was_long_ago_counts_less() {
        let workingset = Workingset::default();
        leave_in_turns(&workingset, Left::UsedOnce, 20, 8, 1);
        assert!(workingset.is_missed_more(Left::UsedOnce));
        leave_in_turns(&workingset, Left::UsedOnce, 300, 1, 1);
        assert!(!workingset.is_missed_more(Left::UsedOnce));
    }
}
