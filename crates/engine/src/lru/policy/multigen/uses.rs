//! Uses of a page through its file, and its tier: bits of the page's own word (mechanisms/multigen, 3).
//!
//! Up to five uses are counted. The first is `REFERENCED`. `WORKINGSET` stands for the second or the fifth
//! ([`UseMarks`]). The two bits of `USES` count the uses in between. A page whose count is full also has `USED_AGAIN`,
//! so further uses write nothing.

use super::choices::UseMarks;
use crate::memory::Flags;

/// Largest number of tiers.
pub const TIERS: usize = 4;

/// The largest number that the bits `USES` can hold.
pub(super) const FULL: u32 = 3;

/// The bits of a page's word that count its uses.
const COUNT: Flags = Flags::REFERENCED.with(Flags::USED_AGAIN).with(Flags::USES);

/// Returns the value of a page's `USES` bits: the number of uses that are marked neither by `REFERENCED` nor by
/// `WORKINGSET`.
pub const fn counted(flags: Flags) -> u32 {
    (flags.0 & Flags::USES.0) >> Flags::USES_SHIFT
}

const fn with_counted(flags: Flags, n: u32) -> Flags {
    Flags(flags.without(Flags::USES).0 | n << Flags::USES_SHIFT)
}

/// Returns whether the count of a page's uses has reached its largest value, so that further uses are not counted.
pub const fn is_saturated(flags: Flags) -> bool {
    flags.has(Flags::REFERENCED.with(Flags::USED_AGAIN))
}

/// Returns the flags of a page with the flags `flags` after one more use. `marks` says which use sets `WORKINGSET`.
pub const fn used(marks: UseMarks, flags: Flags) -> Flags {
    if !flags.has(Flags::REFERENCED) {
        return flags.with(Flags::REFERENCED);
    }
    let n = counted(flags);
    match marks {
        UseMarks::WorkingsetSecond if !flags.has(Flags::WORKINGSET) => flags.with(Flags::WORKINGSET),
        UseMarks::WorkingsetSecond | UseMarks::WorkingsetFifth if n + 1 < FULL => with_counted(flags, n + 1),
        UseMarks::WorkingsetSecond => with_counted(flags, FULL).with(Flags::USED_AGAIN),
        UseMarks::WorkingsetFifth if n < FULL && !flags.has(Flags::WORKINGSET) => with_counted(flags, FULL),
        UseMarks::WorkingsetFifth => with_counted(flags, FULL).with(Flags::WORKINGSET).with(Flags::USED_AGAIN),
    }
}

/// Returns the tier of a page with the flags `flags`: a number below `tiers`.
pub const fn tier(marks: UseMarks, tiers: u32, flags: Flags) -> usize {
    let tier = tier_of_count(marks, flags.has(Flags::WORKINGSET), counted(flags));
    if tier < tiers as usize { tier } else { tiers as usize - 1 }
}

/// Returns the tier of a page that left memory, by the marks of use in its shadow.
pub const fn tier_of_count(marks: UseMarks, is_workingset: bool, counted: u32) -> usize {
    match (marks, is_workingset, counted) {
        (UseMarks::WorkingsetSecond, false, _) | (UseMarks::WorkingsetFifth, false, 0) => 0,
        (UseMarks::WorkingsetSecond, true, 0) | (UseMarks::WorkingsetFifth, false, 1) => 1,
        (UseMarks::WorkingsetSecond, true, 1 | 2) | (UseMarks::WorkingsetFifth, false, _) => 2,
        (UseMarks::WorkingsetSecond | UseMarks::WorkingsetFifth, true, _) => 3,
    }
}

/// Returns `flags` with the count of uses set to 0. A page of the workingset remains in the workingset only with
/// [`UseMarks::WorkingsetFifth`].
pub const fn cleared(marks: UseMarks, flags: Flags) -> Flags {
    match marks {
        UseMarks::WorkingsetSecond => flags.without(COUNT.with(Flags::WORKINGSET)),
        // A page of the workingset remains in it.
        UseMarks::WorkingsetFifth => flags.without(COUNT),
    }
}

/// Returns `flags` with the largest count of uses. The mark of the first use stays as it is.
pub const fn full(flags: Flags) -> Flags {
    with_counted(flags, FULL).with(Flags::WORKINGSET)
}

/// Returns whether `flags` have the largest count of uses. The mark of the first use is not examined.
pub const fn is_full(flags: Flags) -> bool {
    flags.has(Flags::WORKINGSET) && counted(flags) == FULL
}

/// Returns the flags that a page gets when it is isolated to be evicted (`IsolatedMarks::FirstTaken`).
pub const fn isolated(flags: Flags) -> Flags {
    match flags.has(Flags::REFERENCED) {
        true => flags.without(Flags::REFERENCED.with(Flags::USED_AGAIN)),
        false => flags.without(COUNT.with(Flags::WORKINGSET)),
    }
}

/// Returns the flags of a page that comes back to memory: `flags`, and the number of uses that the page had when it
/// left. `n` is the value that the page's `USES` bits had then.
pub const fn restored(flags: Flags, n: u32) -> Flags {
    if n == 0 { flags } else { with_counted(flags, n).with(Flags::REFERENCED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: mechanisms/multigen, 3: a page that was used N times is of tier ceil(log2 N).
    #[test]
    fn a_page_that_was_used_n_times_is_of_tier_log_n() {
        for marks in [UseMarks::WorkingsetSecond, UseMarks::WorkingsetFifth] {
            let mut flags = Flags::UPTODATE;
            for (n, expected) in [0, 0, 1, 2, 2, 3, 3, 3].into_iter().enumerate() {
                assert_eq!(tier(marks, 4, flags), expected, "{marks:?}, {n} uses");
                assert_eq!(tier(marks, 2, flags), expected.min(1), "{marks:?}, {n} uses");
                assert_eq!(tier_of_count(marks, flags.has(Flags::WORKINGSET), counted(flags)), expected);
                assert_eq!(is_saturated(flags), n >= 5, "{marks:?}, {n} uses");
                flags = used(marks, flags);
            }
            let cleared = cleared(marks, flags);
            assert!(cleared.has(Flags::UPTODATE) && !cleared.has(Flags::REFERENCED) && !is_saturated(cleared));
            assert_eq!(counted(cleared), 0);
        }
    }

    #[test]
    fn the_second_or_the_fifth_use_marks_the_workingset() {
        for (marks, expected) in [(UseMarks::WorkingsetSecond, 2), (UseMarks::WorkingsetFifth, 5)] {
            let mut flags = Flags::default();
            for n in 0..8 {
                assert_eq!(flags.has(Flags::WORKINGSET), n >= expected, "{marks:?} {n}");
                flags = used(marks, flags);
            }
        }
    }

    #[test]
    fn uses_touch_no_other_bit() {
        for marks in [UseMarks::WorkingsetSecond, UseMarks::WorkingsetFifth] {
            let others = Flags(!COUNT.with(Flags::WORKINGSET).0);
            let mut flags = others;
            for _ in 0..8 {
                flags = used(marks, flags);
                assert!(flags.has(others));
            }
            assert!(cleared(marks, flags).has(others));
        }
    }
}
