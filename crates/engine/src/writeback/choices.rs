//! Choices of `[writeback]`: dirty limits, the flusher, failed writes.

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

/// What are writers of a device held by?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceLimits {
    /// What is dirty on all devices together, and then the device's share of all that was ever written. A slow device that holds
    /// all that may be dirty stops writers of the others.
    #[default]
    Together,
    /// What is dirty on it alone. Of the limits it has a share, by its speed beside that of the others with something to write;
    /// what they have beyond their shares comes off it, down to a quarter.
    Apart,
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

/// The section `[writeback]` of a kernel file.
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
    /// Of which pages the dirty limits are shares.
    pub dirtyable: Dirtyable,
    /// Do mapped pages lower the dirty limits?
    pub dirty_mapped: DirtyMapped,
    /// What are writers of a device held by?
    pub device_limits: DeviceLimits,
    /// How many pages of a file are written in one visit.
    pub chunk: WritebackChunk,
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
            dirtyable: Dirtyable::default(),
            dirty_mapped: DirtyMapped::default(),
            device_limits: DeviceLimits::default(),
            chunk: WritebackChunk::default(),
            write_failure: WriteFailure::default(),
            stable_pages: StablePages::default(),
        }
    }
}
