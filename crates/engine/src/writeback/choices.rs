//! Choices of `[writeback]`: dirty limits, the flusher, failed writes.

use crate::choice::choices;

choices! {
    /// Dirty limits, the flusher, failed writes.
    [writeback]

    /// Sysctl `dirty_ratio`, percent of dirtyable memory: writers are throttled at this.
    dirty_ratio: u64 = 10 in 0..=100, drawn 16: [2, 20, 60];

    /// Sysctl `dirty_background_ratio`, percent of dirtyable memory: the flusher starts at this.
    dirty_background_ratio: u64 = 5 in 0..=100, drawn 17, with "writeback.dirty_background_bytes" in ["0"]: [1, 10, 50];

    /// Sysctl `dirty_bytes`: bytes at which writers are held back, in place of `dirty_ratio`. 0 uses `dirty_ratio`.
    dirty_bytes: u64 = 0 in 0..=1 << 60, drawn 18: [0, 262144, 4194304];

    /// Sysctl `dirty_background_bytes`: bytes at which the flusher starts, in place of `dirty_background_ratio`. 0 uses
    /// `dirty_background_ratio`.
    dirty_background_bytes: u64 = 0 in 0..=1 << 60, drawn 19: [0, 65536, 2097152];

    /// Sysctl `dirty_expire_centisecs` in milliseconds: age at which a dirty file is written anyway.
    dirty_expire_ms: u64 = 30_000 in 0..=1 << 40, drawn 20: [10, 1000, 30000];

    /// Sysctl `dirty_writeback_centisecs` in milliseconds: interval at which the flusher looks for old files. 0 means
    /// never.
    dirty_writeback_ms: u64 = 5_000 in 0..=1 << 40, drawn 21: [10, 500, 5000];

    /// The pages that count as dirty when writers are throttled.
    swap_writeback: SwapWriteback = Counted, drawn 22 {
        /// Pages on their way to swap count as under writeback.
        Counted,
        /// Pages of swap under writeback do not count.
        Ignored,
    }

    /// The pages of which the dirty limits are shares.
    dirtyable: Dirtyable = All, drawn 24 {
        /// All pages that are free or reclaimable.
        All,
        /// All pages that are free or reclaimable, less the watermarks and lowmem reserves.
        WithoutReserve,
    }

    /// States whether mapped pages lower the dirty limits.
    dirty_mapped: DirtyMapped = LowersRatio, drawn 25 {
        /// Yes: `dirty_ratio` is at most half of the unmapped share, at least 5.
        LowersRatio,
        /// No.
        Ignored,
    }

    /// The limits that hold writers of a device back.
    device_limits: DeviceLimits = Together, drawn 88 {
        /// The limit for all devices together, and then the device's share of everything that was ever written. A slow
        /// device that holds all that may be dirty stops writers of the others.
        Together,
        /// A limit for each device alone: its share of the limits, by its speed relative to that of other devices with
        /// something to write. Dirty pages of other devices beyond their shares are subtracted, but a quarter of the
        /// share stays.
        Apart,
    }

    /// Number of pages of a file that are written in one visit.
    chunk: WritebackChunk = Fixed, drawn 29 {
        /// As many as the device writes in half a second, in steps of 1024.
        ByBandwidth,
        /// 1024.
        Fixed,
    }

    /// State of a page of a file after its write failed.
    write_failure: WriteFailure = Forget, drawn 31 {
        /// The page counts as written, and its contents are lost when it is reclaimed. `fsync` reports the error.
        Forget,
        /// The page is dirty again and written later; `fsync` reports the error. Until it is written it counts for no
        /// dirty limit ([`crate::stat::Gauge::NrWriteFailed`]), and reclaim ignores it.
        KeepDirty,
    }

    /// States whether the bytes of a page of a file may change while the page is written to its device.
    stable_pages: StablePages = No, drawn 32 {
        /// Yes, and a write may begin while a task changes the page. The device may get half of the old and half of the
        /// new bytes. The page is dirty again and is written once more.
        No,
        /// No: a task that wants to change a page under writeback waits until its write has ended. A write does not
        /// begin while a task changes the page: a sync waits, the flusher and reclaim take other pages.
        Wait,
        /// No, but no task waits for the device: what a sync or the flusher writes is copied first, into a free page.
        /// As [`StablePages::Wait`] if no page is free above the low mark, and for what reclaim writes. Each page
        /// written costs a copy.
        Copy,
        /// As [`StablePages::Wait`], until a task has to wait. Then what a sync or the flusher writes of that file is
        /// copied first, as with [`StablePages::Copy`]. That ends after 2,048 copies in a row of which none was of use,
        /// because no page was changed before its write had ended.
        CopyWhenChanged,
    }
}

impl StablePages {
    /// Returns whether a page must not change while it is written.
    pub(crate) const fn holds_still(self) -> bool {
        match self {
            Self::No => false,
            Self::Wait | Self::Copy | Self::CopyWhenChanged => true,
        }
    }
}

impl WriteFailure {
    /// Returns whether the page is still to be written.
    pub(crate) const fn keeps_dirty(self) -> bool {
        match self {
            Self::KeepDirty => true,
            Self::Forget => false,
        }
    }
}
