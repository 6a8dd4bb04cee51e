//! The allocation flags of a request for memory (`gfp_t`).

use super::{MigrateType, NodeId, ZoneKind};

/// The flags of a request for pages. They say which zones can serve the request, whether the caller may sleep and do
/// I/O, and whether the request may use reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gfp {
    /// The highest zone that can serve the request.
    pub highest_zone: ZoneKind,
    /// The node that the request tries first (`__alloc_pages_node`); `None` for the node of the caller's CPU.
    pub node: Option<NodeId>,
    /// The migrate type (mobility) of the pages.
    pub migrate: MigrateType,
    /// The caller may sleep, so the request may reclaim (`__GFP_WAIT`).
    pub wait: bool,
    /// Reclaim may start I/O for the request (`__GFP_IO`).
    pub io: bool,
    /// Reclaim may enter the file system for the request (`__GFP_FS`).
    pub fs: bool,
    /// The request may use half of the reserve (`__GFP_HIGH`).
    pub high: bool,
    /// The request is for a page-cache page that will be written (`__GFP_WRITE`). The request avoids zones that have
    /// reached their share of dirty pages.
    pub write: bool,
    /// The request does not wake kswapd (`__GFP_NO_KSWAPD`).
    pub no_kswapd: bool,
    /// The request makes only one round of reclaim (`__GFP_NORETRY`).
    pub no_retry: bool,
    /// The request is retried until reclaim has freed at least the number of pages requested (`__GFP_REPEAT`).
    pub repeat: bool,
    /// The request must not use the reserve, even if its task may (`__GFP_NOMEMALLOC`).
    pub no_reserve: bool,
    /// The page is charged to the control group of the task although it is kernel memory (`__GFP_ACCOUNT`). Pages of
    /// files and programs are charged without this flag.
    pub account: bool,
    /// `true` for a page that is read back from swap. If nothing can be freed, the request may use a quarter of the
    /// reserve, provided that swap is so full that the page's slot is freed after the read. Reclaim can then put
    /// another page into the slot.
    pub swap_in: bool,
}

impl Gfp {
    /// Returns the flags in words, such as `movable, wait, io, fs`.
    #[must_use]
    pub fn words(&self) -> String {
        let flags = [
            (self.wait, "wait"),
            (self.io, "io"),
            (self.fs, "fs"),
            (self.high, "high"),
            (self.write, "write"),
            (self.no_kswapd, "no kswapd"),
            (self.no_retry, "no retry"),
            (self.repeat, "repeat"),
            (self.no_reserve, "no reserve"),
            (self.account, "account"),
            (self.swap_in, "swap-in"),
        ];
        let set = flags.into_iter().filter_map(|(is_set, word)| is_set.then_some(word));
        let kind = self.migrate.name().to_lowercase();
        std::iter::once(kind.as_str()).chain(set).collect::<Vec<_>>().join(", ")
    }

    /// The flags of a request for a page of a program or of the page cache (`GFP_HIGHUSER_MOVABLE`).
    pub const USER_MOVABLE: Self = Self {
        highest_zone: ZoneKind::Normal,
        node: None,
        migrate: MigrateType::Movable,
        wait: true,
        io: true,
        fs: true,
        high: false,
        write: false,
        no_kswapd: false,
        no_retry: false,
        repeat: false,
        no_reserve: false,
        account: false,
        swap_in: false,
    };

    /// The flags of a request for a page-cache page that will be written.
    pub const FOR_WRITE: Self = Self { write: true, ..Self::USER_MOVABLE };

    /// The flags of an allocation for readahead of one page. The allocation may fail (`__GFP_NORETRY | __GFP_NOWARN`).
    pub const READAHEAD: Self = Self { no_retry: true, ..Self::USER_MOVABLE };

    /// The flags of a request for a large folio for readahead. The request does not reclaim.
    pub const FOLIO_AHEAD: Self = Self { wait: false, ..Self::READAHEAD };

    /// The flags of a request for a page of a file that must not wait, because a future asks for it (`GFP_NOWAIT`). The
    /// request takes a page above the min mark or none, and wakes kswapd below the low mark.
    #[doc(alias = "GFP_NOWAIT")]
    pub const AT_ONCE: Self = Self { wait: false, no_reserve: true, ..Self::READAHEAD };

    /// The flags of a request for a page that is to be read back from swap.
    pub const SWAP_IN: Self = Self { swap_in: true, ..Self::USER_MOVABLE };

    /// The flags of a request for kernel memory (`GFP_KERNEL`).
    pub const KERNEL: Self = Self { migrate: MigrateType::Unmovable, ..Self::USER_MOVABLE };

    /// The flags of a request for a page-table page of a program (`GFP_KERNEL_ACCOUNT`).
    pub const PAGE_TABLE: Self = Self { account: true, ..Self::KERNEL };

    /// The flags of a request for memory for objects that a shrinker can free (`GFP_KERNEL | __GFP_RECLAIMABLE`).
    pub const RECLAIMABLE: Self = Self { migrate: MigrateType::Reclaimable, ..Self::USER_MOVABLE };

    /// The flags of a request that must not sleep and may use most of the reserve (`GFP_ATOMIC`).
    pub const ATOMIC: Self = Self { wait: false, io: false, fs: false, high: true, ..Self::KERNEL };

    /// The flags of a request for a huge page that a page fault needs (`GFP_TRANSHUGE`).
    pub const HUGE_PAGE: Self = Self { no_kswapd: true, no_retry: true, no_reserve: true, ..Self::USER_MOVABLE };
}
