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

/// What is read ahead when a page of a mapped file is missing, and the program has not said how it will use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapReadahead {
    /// Faults on consecutive pages are read ahead like consecutive reads; any other reads the pages around it.
    SequentialOrAround,
    /// The pages around it, the last quarter of which is marked: a fault there reads on.
    #[default]
    Around,
}

/// How a task that dirties pages faster than they are written is throttled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirtyThrottle {
    /// It sleeps, so that it dirties as fast as the device writes.
    #[default]
    Sleeps,
    /// At the limit it sleeps until a page has been written, and one task goes on for each: the longest waiting first. Writes to
    /// pages that are dirty already do not count.
    ForWriteback,
    /// It writes 1.5 times as much as it has dirtied, and sleeps where there is nothing to write.
    Writes,
}

/// Which list a page joins that was read from swap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwappedIn {
    /// The active one, and its fault counts as a use.
    Active,
    /// The inactive one.
    #[default]
    Inactive,
}

/// The section `[access]` of a kernel file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// Largest readahead window, KiB (`read_ahead_kb`); of memory, a sixteenth at most.
    pub read_ahead_kb: u32,
    /// What a fault on a mapped file reads ahead.
    pub map_readahead: MapReadahead,
    /// Do anonymous faults try for a huge page?
    pub huge_pages: HugePages,
    /// How a task that dirties too much is throttled.
    pub dirty_throttle: DirtyThrottle,
    /// Which list does a page join that was read from swap?
    pub swapped_in: SwappedIn,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            read_ahead_kb: 128,
            map_readahead: MapReadahead::default(),
            huge_pages: HugePages::default(),
            dirty_throttle: DirtyThrottle::default(),
            swapped_in: SwappedIn::default(),
        }
    }
}
