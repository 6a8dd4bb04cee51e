//! Choices of `[compact]`: when compaction is thought worth trying.

use serde::{Deserialize, Serialize};

/// The section `[compact]` of a kernel file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// Sysctl `extfrag_threshold`, 0 to 1000: below it a failure is attributed to lack of memory, not to
    /// fragmentation, and compaction is skipped.
    pub extfrag_threshold: i64,
    /// `COMPACT_MAX_DEFER_SHIFT`: after repeated failures at most 2 to this power attempts are skipped.
    pub max_defer_shift: u8,
}

impl Default for Choices {
    fn default() -> Self {
        Self { extfrag_threshold: 500, max_defer_shift: 6 }
    }
}
