//! Choices of `[memory]`: watermarks, reserves, free lists.

use super::free_area::MigrateType;
use crate::choice::choices;

choices! {
    /// Watermarks, reserves, free lists.
    [memory]

    /// The value of `min_free_kbytes`, if no number is set.
    min_free: MinFree = Formula, drawn 0, with "memory.min_free_kbytes" in ["0"] {
        /// The value is 4 times the square root of low memory in KiB, between 128 and 65536 KiB.
        Formula,
        /// The value of `formula`, raised if necessary so that each zone keeps a few free pageblocks for huge pages.
        /// The raised value is at most a twentieth of memory. On a machine with 8 GiB of memory it is about six times
        /// the value of `formula`.
        ForHugePages,
    }

    /// Sysctl `min_free_kbytes`, in KiB. With 0, `min_free` decides.
    min_free_kbytes: u64 = 0 in 0..=1 << 40, drawn 1: [0, 128, 512];

    /// Distance of the low watermark from the min watermark, and of the high watermark from the low one.
    mark_distance: MarkDistance = QuarterOfMin, drawn 4 {
        /// A quarter of the min watermark, at any rate of allocation. A fast program can take all pages between the low
        /// and the min watermark before kswapd has begun to work.
        QuarterOfMin,
        /// A quarter of the min watermark, plus an addition: the number of pages that were allocated per 5 ms lately,
        /// at most a sixteenth of the zone. Kswapd then has the same time to free pages, however fast pages are
        /// allocated. Some allocated pages only replace pages that were dropped at once (`lru.admission`). Such
        /// allocations count only up to the number of pages that can wait for their admission at a time. Only a quarter
        /// of the addition is added to the distance of the high watermark from the low one, because pages that are kept
        /// free cannot hold cached data.
        ByRate,
    }

    /// Sysctl `watermark_scale_factor`: the least distance of the low watermark from the min watermark, and of the high
    /// watermark from the low one, in ten-thousandths of a zone. With 0, `mark_distance` alone decides.
    watermark_scale_factor: u64 = 0 in 0..=3000, drawn 111: [0, 10, 1000];

    /// Sysctl `watermark_boost_factor`. When a request takes a part of a pageblock of another migrate type, the zone's
    /// low watermark rises by the size of a pageblock (`watermark_boost_by` says which requests count). The value, in
    /// ten-thousandths of the high watermark, limits the total rise. A rise of one pageblock is always allowed. Kswapd
    /// reclaims as many pages as the watermark has risen by, without writing or swapping, and compacts memory. Then the
    /// watermark falls again. With the value 0, it never rises. Zones of less than four pageblocks have no boost.
    watermark_boost_factor: u64 = 0 in 0..=1 << 20, drawn 143: [0, 15000];

    /// Sysctl `lowmem_reserve_ratio` for DMA, DMA32 and Normal: each of these zones keeps some of its pages from
    /// requests that could also use higher zones. The number of pages kept is 1/ratio of the pages of these higher
    /// zones.
    lowmem_reserve_ratio: [u64; 3] = [256, 256, 32] in 1..=i64::MAX, drawn 2:
        [[256, 256, 32], [1, 1, 1], [32, 32, 32]];

    /// Which requests raise a zone's low watermark (`watermark_boost_factor`). A request can raise it only if it takes
    /// a part of a pageblock of another migrate type.
    watermark_boost_by: WatermarkBoostBy = EachFallback, drawn 146, unless "memory.watermark_boost_factor" in ["0"] {
        /// The low mark rises at every request that takes a part of a pageblock of another migrate type.
        EachFallback,
        /// The low mark rises only at requests that may claim the pageblock of which they take a part
        /// (`pageblock_claim`).
        Claim,
    }

    /// A request that takes free pages from a pageblock of another migrate type may be allowed to claim the pageblock.
    /// This choice says which requests are. A claim moves all free blocks of the pageblock to the lists of the
    /// request's type. If at least half of the pageblock is free, the pageblock itself changes to this type, too.
    pageblock_claim: PageblockClaim = ForReclaimable, drawn 147 {
        /// Requests for reclaimable pages, and requests for other pages that take the part from a free block of order 4
        /// or more.
        ForReclaimable,
        /// As `for-reclaimable`, and requests for unmovable pages, so that pages that cannot be moved stay in few
        /// pageblocks.
        ForUnmovable,
    }

    /// The largest number of pageblocks that each zone reserves for requests that find no other free block
    /// (`MIGRATE_RESERVE`).
    reserve_pageblocks: u64 = 2 in 0..=2, drawn 149: [0, 2];

    /// The largest number of free pages of a zone that a CPU's lists of single pages (per-CPU lists) can hold.
    per_cpu_size: PerCpuSize = SixBatches, drawn 158 {
        /// A CPU's lists hold six batches, each of at most 31 pages.
        SixBatches,
        /// A CPU's lists hold as many pages as the low mark of the zone, divided by the number of CPUs of the node, but
        /// at least four batches of at most 63 pages each. While kswapd works for the zone, they hold at most four
        /// batches.
        ByLowMark,
        /// At first, a CPU's lists hold as many pages as with `by-low-mark`. The number grows as pages are taken, up to
        /// an eighth of the zone divided among the CPUs of the node. The number falls as pages are freed while kswapd
        /// works for the zone, or while the zone is below its high mark. As long as no page is freed, each refill is
        /// twice as large as the one before, up to 32 batches. A single refill can therefore take a zone from above its
        /// low mark to below its min mark.
        Tuned,
    }

    /// The free list that gets the rest of a block when a request of another migrate type takes a part of the block.
    fallback_remainder: FallbackRemainder = DonorList, drawn 3 {
        /// The list that the block came from, so that only the part that was taken mixes types.
        DonorList,
        /// The list of the request's type, so that the next request of this type takes nothing from another type.
        RequestList,
    }

    /// States whether each zone or each node has its own LRU lists. This zone or node also has the lock of the lists
    /// and the state that reclaim keeps about them: whether they are congested, how many pages were scanned, and
    /// whether all pages are unreclaimable.
    lruvec_of: LruvecOf = Zone, drawn 89 {
        /// Each zone has an lruvec.
        Zone,
        /// Each node has an lruvec, for the pages of all its zones. Reclaim for a request that only low zones can serve
        /// skips the pages of higher zones, and counts them (`pgskip`).
        Node,
    }
}

impl WatermarkBoostBy {
    /// Returns whether a request that takes a part of a pageblock of another migrate type raises the zone's low mark.
    /// `may_claim` says whether the request may claim the pageblock.
    pub(super) const fn boosts(self, may_claim: bool) -> bool {
        match self {
            Self::EachFallback => true,
            Self::Claim => may_claim,
        }
    }
}

impl PageblockClaim {
    /// Returns whether a request for pages of the type `kind` may claim a pageblock of another type, however small the
    /// free block is that it takes.
    pub(super) const fn is_for(self, kind: MigrateType) -> bool {
        match self {
            Self::ForReclaimable => matches!(kind, MigrateType::Reclaimable),
            Self::ForUnmovable => matches!(kind, MigrateType::Reclaimable | MigrateType::Unmovable),
        }
    }
}
