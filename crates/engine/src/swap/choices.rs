//! Choices of `[swap]`: writes to swap and reads from swap.

use crate::choice::choices;

choices! {
    /// Writes to swap and reads from swap.
    [swap]

    /// Sysctl `page_cluster`: binary logarithm of the number of slots that are read together from swap.
    page_cluster: u8 = 3 in 0..=9, drawn 23, unless "swap slots" in ["0"]: [0, 3, 5];

    /// States which slots of swap are read ahead when one slot is wanted.
    readahead: SwapReadahead = FromBlockStart, drawn 26, unless "swap slots" in ["0"] {
        /// The used slots from the start of the aligned block of the wanted slot, up to the first free slot. If the
        /// first free slot comes before the wanted slot, the wanted slot is read as well, in a read of its own.
        FromBlockStart,
        /// The contiguous used slots around the wanted slot, in the wanted slot's aligned block.
        UsedRun,
        /// All used slots of the wanted slot's aligned block.
        AlignedBlock,
    }

    /// The form in which a large folio that is smaller than a huge page goes to swap. A huge page is always split into
    /// its pages first.
    folios: SwapFolios = InPages, drawn 153, unless "swap slots" in ["0"] {
        /// The folio is split into its pages first, and each page has a slot of its own.
        InPages,
        /// The folio goes to swap as a whole, in consecutive slots of one aligned block (`THP_SWAP`). If no such block
        /// is free, it is split as with `in-pages`.
        Whole,
    }

    /// The treatment of a synchronous swap device (`SWP_SYNCHRONOUS_IO`), which answers at once. Zram and persistent
    /// memory are such devices.
    synchronous: SynchronousSwap = LikeOthers, drawn 120, with "synchronous swap" in ["yes"] {
        /// Synchronous swap is handled like other swap.
        LikeOthers,
        /// A fault reads the wanted page alone, and the page's slot is freed as soon as the page is mapped. Reclaim
        /// waits until its writes to swap have ended.
        Apart,
    }

    /// Number of slots that are read from swap together.
    window: SwapWindows = Fixed, drawn 27, unless "swap slots" in ["0"] {
        /// A fault reads `2^page_cluster` slots.
        Fixed,
        /// A fault reads at most `2^page_cluster` slots. It reads fewer if pages that were read ahead for faults in the
        /// same region of memory were not used.
        ByUse,
    }
}

impl SwapFolios {
    /// Returns whether a large folio goes to swap as a whole, if a block of slots is free ([`Self::Whole`]).
    pub(crate) const fn are_whole(self) -> bool {
        match self {
            Self::Whole => true,
            Self::InPages => false,
        }
    }
}

impl SynchronousSwap {
    /// Returns whether synchronous swap (`SWP_SYNCHRONOUS_IO`) is handled differently from other swap
    /// ([`Self::Apart`]).
    pub(crate) const fn is_apart(self) -> bool {
        match self {
            Self::Apart => true,
            Self::LikeOthers => false,
        }
    }
}
