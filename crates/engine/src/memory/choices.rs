//! Choices of `[memory]`: watermarks, reserves, free lists.

use serde::{Deserialize, Serialize};

/// How large `min_free_kbytes` is when it is not set by hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MinFree {
    /// 4 times the square root of low memory in KiB, between 128 and 65536 KiB.
    Formula,
    /// The formula, raised so that each zone keeps a few free pageblocks for huge pages; at most a
    /// twentieth of memory. About six times the plain value on 8 GiB.
    #[default]
    ForHugePages,
}

/// How far the low mark is from min, and high from low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkDistance {
    /// A quarter of min, at any rate of allocation: a fast program empties it before kswapd has begun.
    #[default]
    QuarterOfMin,
    /// A quarter of min and what was lately taken in 5 ms, of pages in place of others that were dropped at once
    /// (`lru.admission`) no more than may wait, at most a sixteenth of the zone: kswapd has as much time whatever the rate. From low to high it is a quarter of that more than a quarter of min: what is kept free is
    /// missing in the cache.
    ByRate,
}

/// Which list gets the rest of a block that was split for another migrate type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FallbackRemainder {
    /// The list that the block came from: only the stolen page mixes types.
    DonorList,
    /// The list of the request's type: the next request of this type steals nothing.
    #[default]
    RequestList,
}

/// The section `[memory]` of a kernel file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// How the minimum of free memory is sized.
    pub min_free: MinFree,
    /// Sysctl `min_free_kbytes`, KiB; 0 leaves it to `min_free`.
    pub min_free_kbytes: u64,
    /// How far low is from min, and high from low.
    pub mark_distance: MarkDistance,
    /// Sysctl `lowmem_reserve_ratio` for DMA, DMA32 and Normal: a zone keeps 1/ratio of the pages of
    /// the zones above it from requests that could have used those.
    pub lowmem_reserve_ratio: [u64; 3],
    /// Which list gets the rest of a block that was split for another migrate type.
    pub fallback_remainder: FallbackRemainder,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            min_free: MinFree::default(),
            min_free_kbytes: 0,
            mark_distance: MarkDistance::default(),
            lowmem_reserve_ratio: [256, 256, 32],
            fallback_remainder: FallbackRemainder::default(),
        }
    }
}
