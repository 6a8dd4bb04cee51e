//! Rights of a request for memory (`gfp_t`).

use super::{MigrateType, NodeId, ZoneKind};

/// The flags of a request for pages: zones, rights to sleep and do I/O, and use of reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gfp {
    /// The highest zone that can serve the request.
    pub highest_zone: ZoneKind,
    /// The node to try first (`__alloc_pages_node`); `None` for the node of the caller's CPU.
    pub node: Option<NodeId>,
    /// The mobility of the pages.
    pub migrate: MigrateType,
    /// The caller may sleep, and so reclaim (`__GFP_WAIT`).
    pub wait: bool,
    /// Reclaim may start I/O for the request (`__GFP_IO`).
    pub io: bool,
    /// Reclaim may enter the file system for the request (`__GFP_FS`).
    pub fs: bool,
    /// The request may use half of the reserve (`__GFP_HIGH`).
    pub high: bool,
    /// The request is for a page-cache page that will be written (`__GFP_WRITE`). Zones that have reached their share
    /// of dirty pages are avoided.
    pub write: bool,
    /// The request does not wake kswapd (`__GFP_NO_KSWAPD`).
    pub no_kswapd: bool,
    /// The request does one round of reclaim only (`__GFP_NORETRY`).
    pub no_retry: bool,
    /// The request is retried until reclaim has freed at least the number of pages requested (`__GFP_REPEAT`).
    pub repeat: bool,
    /// The request must not use the reserve, even if its task may (`__GFP_NOMEMALLOC`).
    pub no_reserve: bool,
    /// The page is charged to the control group of the task although it is the kernel's own (`__GFP_ACCOUNT`). Pages of
    /// files and programs are charged without it.
    pub account: bool,
    /// `true` for a page that is read back from swap. If nothing can be freed, the request may use a quarter of the
    /// reserve, provided that swap is so full that the page's slot is freed after the read. Reclaim can then put
    /// another page into the slot.
    pub swap_in: bool,
}

impl Gfp {
    /// Returns the rights in words: `movable, wait, io, fs`.
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

    /// A page of a program or of the page cache (`GFP_HIGHUSER_MOVABLE`).
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

    /// A page-cache page that will be written.
    pub const FOR_WRITE: Self = Self { write: true, ..Self::USER_MOVABLE };

    /// Readahead, which may fail (`__GFP_NORETRY | __GFP_NOWARN`).
    pub const READAHEAD: Self = Self { no_retry: true, ..Self::USER_MOVABLE };

    /// A large folio for readahead; the request does not reclaim.
    pub const FOLIO_AHEAD: Self = Self { wait: false, ..Self::READAHEAD };

    /// A page that is to be read back from swap.
    pub const SWAP_IN: Self = Self { swap_in: true, ..Self::USER_MOVABLE };

    /// Kernel memory (`GFP_KERNEL`).
    pub const KERNEL: Self = Self { migrate: MigrateType::Unmovable, ..Self::USER_MOVABLE };

    /// A page of page tables of a program (`GFP_KERNEL_ACCOUNT`).
    pub const PAGE_TABLE: Self = Self { account: true, ..Self::KERNEL };

    /// Objects that a shrinker can free (`GFP_KERNEL | __GFP_RECLAIMABLE`).
    pub const RECLAIMABLE: Self = Self { migrate: MigrateType::Reclaimable, ..Self::USER_MOVABLE };

    /// A request that must not sleep and may use most of the reserve (`GFP_ATOMIC`).
    pub const ATOMIC: Self = Self { wait: false, io: false, fs: false, high: true, ..Self::KERNEL };

    /// A huge page for a fault (`GFP_TRANSHUGE`).
    pub const HUGE_PAGE: Self = Self { no_kswapd: true, no_retry: true, no_reserve: true, ..Self::USER_MOVABLE };
}
