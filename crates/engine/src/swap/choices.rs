//! Choices of `[swap]`: reads from swap.

use crate::choice::choices;

choices! {
    /// Reads from swap.
    [swap]

    /// Sysctl `page_cluster`: logarithm of the slots read together from swap.
    page_cluster: u8 = 3 in 0..=9, drawn 23, unless "swap slots" in ["0"]: [0, 3, 5];

    /// The slots that are read from swap together with the wanted one.
    readahead: SwapReadahead = FromBlockStart, drawn 26, unless "swap slots" in ["0"] {
        /// The slots in use from the start of its aligned block up to the first free one. If that comes before the
        /// wanted slot, the wanted slot is read alone as well.
        FromBlockStart,
        /// The contiguous used slots around the wanted one in its aligned block.
        UsedRun,
        /// All used slots of its aligned block.
        AlignedBlock,
    }

    /// The form in which a large folio goes to swap, below a huge page, which always goes in pages.
    folios: SwapFolios = InPages, drawn 153, unless "swap slots" in ["0"] {
        /// Its pages are split from each other before, and each has a slot of its own.
        InPages,
        /// As a whole, in consecutive slots of one aligned block (`THP_SWAP`); in pages where no block of slots is free.
        Whole,
    }

    /// Use of swap that answers at once, such as zram or persistent memory (`SWP_SYNCHRONOUS_IO`).
    synchronous: SynchronousSwap = LikeOthers, drawn 120, with "synchronous swap" in ["yes"] {
        /// As of any other swap.
        LikeOthers,
        /// A fault reads the wanted page alone, and its slot is free as soon as it is mapped. Reclaim waits for its writes.
        Apart,
    }

    /// Number of slots that are read from swap together.
    window: SwapWindows = Fixed, drawn 27, unless "swap slots" in ["0"] {
        /// `2^page_cluster`.
        Fixed,
        /// At most the configured number, and fewer where pages of the region that were read ahead were not used.
        ByUse,
    }
}

impl SwapFolios {
    /// Returns whether a folio is first tried as a whole.
    pub(crate) const fn are_whole(self) -> bool {
        match self {
            Self::Whole => true,
            Self::InPages => false,
        }
    }
}

impl SynchronousSwap {
    /// Returns whether swap that answers at once is used in its own way.
    pub(crate) const fn is_apart(self) -> bool {
        match self {
            Self::Apart => true,
            Self::LikeOthers => false,
        }
    }
}
