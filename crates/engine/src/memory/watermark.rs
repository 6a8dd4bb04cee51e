//! Watermarks, which say when too little memory is free, and when enough is free.
//!
//! Kswapd is woken below the mark *low*, and works until the mark *high* is reached. The mark *min* is the reserve.
//! *Description*: mechanisms/reclaim, 3.

use super::Choices;
use super::choices::MinFree;

/// The three marks of a zone, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The reserve: only requests with special rights ([`MarkRights`]) may take pages below this mark.
    pub min: u64,
    /// Kswapd is woken when fewer pages than this are free.
    pub low: u64,
    /// Kswapd reclaims until more pages than this are free.
    pub high: u64,
}

/// The rights of a request to go below a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkRights {
    /// `__GFP_HIGH`: the request may use half of the pages below the mark.
    pub high: bool,
    /// The request is atomic, or comes from a realtime task: it may use a quarter of the pages below the mark. If
    /// `high` is set as well, the request may use half of these pages, and a quarter of the other half.
    pub harder: bool,
}

/// Number of pages of a pageblock on a machine with huge pages. `MinFree::ForHugePages` keeps a number of pageblocks
/// free.
const PAGEBLOCK: u64 = super::free_area::BLOCK_PAGES;

/// Number of migrate types whose pages may spill into another type's pageblock (`MIGRATE_PCPTYPES`).
const PCP_TYPES: u64 = 3;

/// Returns `min_free_kbytes`, in KiB, of a machine with `lowmem_pages` pages of low memory in `zones` populated zones.
#[must_use]
pub fn min_free_kbytes(choices: &Choices, lowmem_pages: u64, zones: u64) -> u64 {
    if choices.min_free_kbytes > 0 {
        return choices.min_free_kbytes;
    }
    let formula = (lowmem_pages * 4 * 16).isqrt().clamp(128, 65536);
    match choices.min_free {
        MinFree::Formula => formula,
        MinFree::ForHugePages => {
            let wanted = PAGEBLOCK * zones * 2 + PAGEBLOCK * zones * PCP_TYPES * PCP_TYPES;
            formula.max(wanted.min(lowmem_pages / 20) * 4)
        }
    }
}

/// Divisor of [`Choices::watermark_scale_factor`] and of the boost factor, which count in ten-thousandths.
const SCALE_PARTS: u64 = 10_000;

/// Returns the marks of a zone. The zone has `pages` pages, and all zones of the machine together have `lowmem_pages`
/// pages. Neighbouring marks are at least `scale_factor` ten-thousandths of the zone's pages apart.
#[must_use]
pub fn marks(min_free_kbytes: u64, pages: u64, lowmem_pages: u64, scale_factor: u64) -> Marks {
    let min = min_free_kbytes / 4 * pages / lowmem_pages;
    let scaled = pages * scale_factor / SCALE_PARTS;
    // Not `min + 2 * (min / 4)`, which is less than `min + min / 2` if `min` is no multiple of 4.
    if scaled <= min / 4 {
        return Marks { min, low: min + min / 4, high: min + min / 2 };
    }
    Marks { min, low: min + scaled, high: min + 2 * scaled }
}

/// Smallest number of pageblocks of a zone whose low mark can be boosted. A boost would keep most of a smaller zone
/// free ("mm: limit boost_watermark on small zones").
const BOOSTED_BLOCKS_MIN: u64 = 4;

/// Returns the largest boost of the low mark of a zone that has `pages` pages and the high mark `high`: `factor`
/// ten-thousandths of the high mark, but at least a pageblock. Returns 0 if `factor` is 0 or the zone has fewer than
/// four pageblocks.
#[must_use]
pub fn boost_max(factor: u64, pages: u64, high: u64) -> u64 {
    if factor == 0 || pages < BOOSTED_BLOCKS_MIN * PAGEBLOCK {
        return 0;
    }
    (high * factor / SCALE_PARTS).max(PAGEBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks `min_free_kbytes` of machines with 1, 2, 4 and 8 GiB against the values in mechanisms/reclaim, 3.
    #[test]
    fn min_free_kbytes_follows_the_square_root_of_memory() {
        let choices = Choices { min_free: MinFree::Formula, ..Choices::default() };
        for (gib, kib) in [(1, 4096), (2, 5792), (4, 8192), (8, 11585)] {
            assert_eq!(min_free_kbytes(&choices, gib << 18, 3), kib, "{gib} GiB");
        }
    }

    /// Computes the marks of zones with several scale factors. The distance between marks must be the larger of two
    /// numbers: a quarter of min, and the scale factor in 1/10,000 of the zone. The default factor is 10 (Linux 4.6,
    /// "mm: scale kswapd watermarks in proportion to memory").
    #[test]
    fn marks_of_large_zones_are_as_far_apart_as_the_scale_factor_says() {
        let of = |pages, factor| {
            let Marks { min, low, high } = marks(4096, pages, pages, factor);
            (min, low - min, high - low)
        };
        assert_eq!(of(1 << 18, 0), (1024, 256, 256));
        assert_eq!(of(1 << 18, 10), (1024, 262, 262));
        assert_eq!(of(1 << 17, 10), (1024, 256, 256), "a quarter of min is more");
        assert_eq!(of(1 << 18, 1000), (1024, 26214, 26214));
    }

    #[test]
    fn a_boost_is_one_and_a_half_times_high_and_a_pageblock_at_least() {
        assert_eq!(boost_max(15_000, 1 << 18, 1536), 2304);
        assert_eq!(boost_max(15_000, 1 << 14, 100), 512);
        assert_eq!(boost_max(15_000, 2047, 1536), 0, "less than four pageblocks");
        assert_eq!(boost_max(0, 1 << 18, 1536), 0);
    }

    #[test]
    fn huge_pages_raise_the_minimum_to_66_mib_on_three_zones() {
        let choices = Choices { min_free: MinFree::ForHugePages, ..Choices::default() };
        assert_eq!(min_free_kbytes(&choices, 8 << 18, 3), 67584);
        assert_eq!(min_free_kbytes(&choices, 1 << 18, 3), (1 << 18) / 20 * 4, "a twentieth of memory");
    }
}
