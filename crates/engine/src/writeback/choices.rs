//! Choices of `[writeback]`: dirty limits, the flusher, failed writes.

use crate::choice::choices;

choices! {
    /// Dirty limits, the flusher, failed writes.
    [writeback]

    /// Sysctl `dirty_ratio`, percent of dirtyable memory: writers are throttled at this.
    dirty_ratio: u64 = 10 in 0..=100, drawn 16: [2, 20, 60];

    /// Sysctl `dirty_background_ratio`, percent of dirtyable memory: the flusher starts at this.
    dirty_background_ratio: u64 = 5 in 0..=100, drawn 17, with "writeback.dirty_background_bytes" in ["0"]: [1, 10, 50];

    /// Sysctl `dirty_bytes`: writers are held at so many bytes instead of at `dirty_ratio`; 0: at that.
    dirty_bytes: u64 = 0 in 0..=1 << 60, drawn 18: [0, 262144, 4194304];

    /// Sysctl `dirty_background_bytes`: the flusher starts at so many bytes instead of at `dirty_background_ratio`; 0: at that.
    dirty_background_bytes: u64 = 0 in 0..=1 << 60, drawn 19: [0, 65536, 2097152];

    /// Sysctl `dirty_expire_centisecs` in milliseconds: age at which a dirty file is written anyway.
    dirty_expire_ms: u64 = 30_000 in 0..=1 << 40, drawn 20: [10, 1000, 30000];

    /// Sysctl `dirty_writeback_centisecs` in milliseconds: how often the flusher looks for old files; 0: never.
    dirty_writeback_ms: u64 = 5_000 in 0..=1 << 40, drawn 21: [10, 500, 5000];

    /// Which pages count as dirty when writers are throttled.
    swap_writeback: SwapWriteback = Counted, drawn 22 {
        /// Pages on their way to swap count as under writeback.
        Counted,
        /// They do not.
        Ignored,
    }

    /// Of which pages the dirty limits are shares.
    dirtyable: Dirtyable = All, drawn 24 {
        /// Of all pages that are free or reclaimable.
        All,
        /// Of those, less the watermarks and lowmem reserves.
        WithoutReserve,
    }

    /// Do mapped pages lower the dirty limits?
    dirty_mapped: DirtyMapped = LowersRatio, drawn 25 {
        /// Yes: `dirty_ratio` is at most half of the unmapped share, at least 5.
        LowersRatio,
        /// No.
        Ignored,
    }

    /// What are writers of a device held by?
    device_limits: DeviceLimits = Together, drawn 88 {
        /// What is dirty on all devices together, and then the device's share of all that was ever written. A slow device that
        /// holds all that may be dirty stops writers of the others.
        Together,
        /// What is dirty on it alone. Of the limits it has a share, by its speed beside that of the others with
        /// something to write; what they have beyond their shares comes off it, down to a quarter.
        Apart,
    }

    /// How many pages of a file are written in one visit.
    chunk: WritebackChunk = Fixed, drawn 29 {
        /// As many as the device writes in half a second, in steps of 1024.
        ByBandwidth,
        /// 1024.
        Fixed,
    }

    /// What happens to a page of a file whose write failed.
    write_failure: WriteFailure = Forget, drawn 31 {
        /// It counts as written, and its contents are lost when it is reclaimed; `fsync` reports the error.
        Forget,
        /// It is dirty again and written later; `fsync` reports the error. Until it is written it counts for no dirty
        /// limit ([`crate::stat::Gauge::NrWriteFailed`]), and reclaim ignores it.
        KeepDirty,
    }

    /// May the bytes of a page of a file change while the page is written to its device?
    stable_pages: StablePages = No, drawn 32 {
        /// Yes, and a write may begin while somebody changes the page. The device may get half of the old and half of the new
        /// bytes; the page is dirty again and is written once more.
        No,
        /// No: who wants to change a page under writeback waits until its write has ended. A write does not begin while
        /// somebody changes the page: a sync waits, the flusher and reclaim take other pages.
        Wait,
        /// No, but nobody waits for the device: what a sync or the flusher writes is copied first, into a free page. Where none
        /// is free above the low mark, and where reclaim writes, as [`StablePages::Wait`]. Each page written costs a copy.
        Copy,
        /// As [`StablePages::Wait`], until somebody has to wait. Then what a sync or the flusher writes of that file is copied
        /// first, as with [`StablePages::Copy`], until of 2,048 copies in a row none was of use: no page was changed before its
        /// write had ended.
        CopyWhenChanged,
    }
}

impl StablePages {
    /// Must a page not change while it is written?
    pub(crate) const fn holds_still(self) -> bool {
        match self {
            Self::No => false,
            Self::Wait | Self::Copy | Self::CopyWhenChanged => true,
        }
    }
}

impl WriteFailure {
    /// Is the page still to be written?
    pub(crate) const fn keeps_dirty(self) -> bool {
        match self {
            Self::KeepDirty => true,
            Self::Forget => false,
        }
    }
}
