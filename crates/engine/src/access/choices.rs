//! Choices of `[access]`: readahead, huge pages.

use serde::{Deserialize, Serialize};

/// Do anonymous faults try for a huge page first?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HugePages {
    /// Wherever an aligned range of 2 MiB lies within a region that nobody touched there.
    #[default]
    Always,
    /// Nowhere.
    Never,
}

/// The section `[access]` of a kernel file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// Largest readahead window, KiB (`read_ahead_kb`).
    pub read_ahead_kb: u32,
    /// Do anonymous faults try for a huge page?
    pub huge_pages: HugePages,
}

impl Default for Choices {
    fn default() -> Self {
        Self { read_ahead_kb: 128, huge_pages: HugePages::default() }
    }
}
