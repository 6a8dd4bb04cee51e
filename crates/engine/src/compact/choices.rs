//! Choices of `[compact]`: when compaction is thought worth trying.

use crate::choice::choices;

choices! {
    /// When compaction is thought worth trying.
    [compact]

    /// Sysctl `extfrag_threshold`, 0 to 1000: below it a failure is attributed to lack of memory, not to
    /// fragmentation, and compaction is skipped.
    extfrag_threshold: i64 = 500 in 0..=1000, drawn 33: [0, 500, 1000];

    /// `COMPACT_MAX_DEFER_SHIFT`: after repeated failures at most 2 to this power attempts are skipped.
    max_defer_shift: u8 = 6 in 0..=31, drawn 34: [0, 6];
}
