//! Choices of `[mapping]`: swap, dirty limits, the flusher.

use serde::{Deserialize, Serialize};

/// Which pages count as dirty when writers are throttled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwapWriteback {
    /// Pages on their way to swap count as under writeback.
    #[default]
    Counted,
    /// They do not.
    Ignored,
}

/// Who may change the index of a file or of the swap cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexLock {
    /// The holder of its `i_pages` lock, which is taken for each page.
    #[default]
    PerPage,
    /// The owner of the page lock: one atomic step fills or empties a slot, and the page lock excludes conflicting
    /// operations.
    None,
}

/// What happens to a page of a file whose write failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteFailure {
    /// It counts as written, and its contents are lost when it is reclaimed; `fsync` reports the error.
    #[default]
    Forget,
    /// It is dirty again and written later; `fsync` reports the error. Until it is written it counts for no dirty
    /// limit ([`crate::stat::Gauge::NrWriteFailed`]), and reclaim ignores it.
    KeepDirty,
}

/// May the bytes of a page of a file change while the page is written to its device?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StablePages {
    /// Yes, and a write may begin while somebody changes the page. The device may get half of the old and half of the new
    /// bytes; the page is dirty again and is written once more.
    #[default]
    No,
    /// No: who wants to change a page under writeback waits until its write has ended. A write does not begin while
    /// somebody changes the page: a sync waits, the flusher and reclaim take other pages.
    Wait,
    /// No, but nobody waits for the device: what a sync or the flusher writes is copied first, into a free page. Where none
    /// is free above the low mark, and where reclaim writes, as [`StablePages::Wait`]. Each page written costs a copy.
    Copy,
}

/// Of which pages the dirty limits are shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dirtyable {
    /// Of all pages that are free or reclaimable.
    All,
    /// Of those, less the watermarks and lowmem reserves.
    #[default]
    WithoutReserve,
}

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

/// Do mapped pages lower the dirty limits?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirtyMapped {
    /// Yes: `dirty_ratio` is at most half of the unmapped share, at least 5.
    LowersRatio,
    /// No.
    #[default]
    Ignored,
}

/// How many pages a cache of kernel objects takes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlabOrder {
    /// One.
    #[default]
    SinglePages,
    /// A block that holds `4 × (fls(CPUs) + 1)` objects with little waste, at most of order 3; one page if no such
    /// block is available without effort. Fewer calls of the allocator, but requests of an order above 0 in ordinary
    /// operation.
    Slub,
}

/// How many pages of a file are written in one visit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WritebackChunk {
    /// As many as the device writes in half a second, in steps of 1024.
    #[default]
    ByBandwidth,
    /// 1024.
    Fixed,
}

/// The section `[mapping]` of a kernel file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// Sysctl `dirty_ratio`, percent of dirtyable memory: writers are throttled at this.
    pub dirty_ratio: u64,
    /// Sysctl `dirty_background_ratio`, percent of dirtyable memory: the flusher starts at this.
    pub dirty_background_ratio: u64,
    /// Sysctl `dirty_bytes`: writers are held at so many bytes instead of at `dirty_ratio`; 0: at that.
    pub dirty_bytes: u64,
    /// Sysctl `dirty_background_bytes`: the flusher starts at so many bytes instead of at `dirty_background_ratio`; 0: at that.
    pub dirty_background_bytes: u64,
    /// Sysctl `dirty_expire_centisecs` in milliseconds: age at which a dirty file is written anyway.
    pub dirty_expire_ms: u64,
    /// Sysctl `dirty_writeback_centisecs` in milliseconds: how often the flusher looks for old files; 0: never.
    pub dirty_writeback_ms: u64,
    /// Do pages in flight to swap count against the dirty limits?
    pub swap_writeback: SwapWriteback,
    /// Sysctl `page_cluster`: logarithm of the slots read together from swap.
    pub page_cluster: u8,
    /// Of which pages the dirty limits are shares.
    pub dirtyable: Dirtyable,
    /// Do mapped pages lower the dirty limits?
    pub dirty_mapped: DirtyMapped,
    /// Which slots are read from swap with the wanted one.
    pub swap_readahead: SwapReadahead,
    /// How many slots are read from swap together.
    pub swap_window: SwapWindows,
    /// How many pages a cache of kernel objects takes at once.
    pub slab_order: SlabOrder,
    /// How many pages of a file are written in one visit.
    pub writeback_chunk: WritebackChunk,
    /// Who may change an index.
    pub index_lock: IndexLock,
    /// What happens to a page whose write failed.
    pub write_failure: WriteFailure,
    /// May a page change while it is written?
    pub stable_pages: StablePages,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            dirty_ratio: 20,
            dirty_background_ratio: 10,
            dirty_bytes: 0,
            dirty_background_bytes: 0,
            dirty_expire_ms: 30_000,
            dirty_writeback_ms: 5_000,
            swap_writeback: SwapWriteback::default(),
            page_cluster: 3,
            dirtyable: Dirtyable::default(),
            dirty_mapped: DirtyMapped::default(),
            swap_readahead: SwapReadahead::default(),
            swap_window: SwapWindows::default(),
            slab_order: SlabOrder::default(),
            writeback_chunk: WritebackChunk::default(),
            index_lock: IndexLock::default(),
            write_failure: WriteFailure::default(),
            stable_pages: StablePages::default(),
        }
    }
}
