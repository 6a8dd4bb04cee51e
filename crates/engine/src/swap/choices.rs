//! Choices of `[swap]`: what is read from swap.

use serde::{Deserialize, Serialize};

/// Which slots are read from swap together with the wanted one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwapReadahead {
    /// Those in use from the start of its aligned block up to the first free one; if that comes before the wanted
    /// slot, it is read alone as well.
    FromBlockStart,
    /// The contiguous used slots around it in its aligned block.
    UsedRun,
    /// All used slots of its aligned block.
    #[default]
    AlignedBlock,
}

/// How many slots are read from swap together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwapWindows {
    /// `2^page_cluster`.
    #[default]
    Fixed,
    /// At most as many, and fewer where pages of the region that were read ahead were not used.
    ByUse,
}

/// The section `[swap]` of a kernel file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// Sysctl `page_cluster`: logarithm of the slots read together from swap.
    pub page_cluster: u8,
    /// Which slots are read from swap with the wanted one.
    pub readahead: SwapReadahead,
    /// How many slots are read from swap together.
    pub window: SwapWindows,
}

impl Default for Choices {
    fn default() -> Self {
        Self { page_cluster: 3, readahead: SwapReadahead::default(), window: SwapWindows::default() }
    }
}
