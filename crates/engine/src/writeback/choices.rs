//! Choices of `[writeback]`: dirty limits, the flusher, failed writes.

use crate::choice::choices;

choices! {
    /// Dirty limits, the flusher, failed writes.
    [writeback]

    /// Sysctl `dirty_ratio`: writers are throttled when this percentage of dirtyable memory is dirty.
    dirty_ratio: u64 = 10 in 0..=100, drawn 16: [2, 20, 60];

    /// Sysctl `dirty_background_ratio`: the flusher starts when this percentage of dirtyable memory is dirty.
    dirty_background_ratio: u64 = 5 in 0..=100, drawn 17, with "writeback.dirty_background_bytes" in ["0"]: [1, 10, 50];

    /// Sysctl `dirty_bytes`: writers are throttled when this number of bytes is dirty. With 0, `dirty_ratio` is the
    /// limit instead.
    dirty_bytes: u64 = 0 in 0..=1 << 60, drawn 18: [0, 262144, 4194304];

    /// Sysctl `dirty_background_bytes`: the flusher starts when this number of bytes is dirty. With 0,
    /// `dirty_background_ratio` is the limit instead.
    dirty_background_bytes: u64 = 0 in 0..=1 << 60, drawn 19: [0, 65536, 2097152];

    /// Sysctl `dirty_expire_centisecs` in milliseconds. When a file has been dirty for this time, the flusher writes
    /// it, even if no dirty limit is reached.
    dirty_expire_ms: u64 = 30_000 in 0..=1 << 40, drawn 20: [10, 1000, 30000];

    /// Sysctl `dirty_writeback_centisecs`: the interval, in milliseconds, at which the flusher looks for files that
    /// have been dirty for long. With 0 it never looks.
    dirty_writeback_ms: u64 = 5_000 in 0..=1 << 40, drawn 21: [10, 500, 5000];

    /// States whether pages that are being written to swap count for the dirty limits.
    swap_writeback: SwapWriteback = Counted, drawn 22 {
        /// Yes: pages being written to swap count as under writeback.
        Counted,
        /// No: only pages being written to files count as under writeback.
        Ignored,
    }

    /// The memory that counts as dirtyable. `dirty_ratio` and `dirty_background_ratio` are percentages of this memory.
    dirtyable: Dirtyable = All, drawn 24 {
        /// All pages that are free or reclaimable.
        All,
        /// All pages that are free or reclaimable, minus the watermarks and lowmem reserves.
        WithoutReserve,
    }

    /// States whether mapped pages lower the dirty limits.
    dirty_mapped: DirtyMapped = LowersRatio, drawn 25 {
        /// Yes: `dirty_ratio` is lowered to half of the unmapped part of dirtyable memory, in percent, but not below 5.
        LowersRatio,
        /// No: mapped pages do not matter.
        Ignored,
    }

    /// The limits that throttle the writers of a device.
    device_limits: DeviceLimits = Together, drawn 88 {
        /// Two limits: first the limit for all devices together, then the device's part of this limit, which is in
        /// proportion to the device's part of all pages ever written. If a slow device has as many dirty pages as the
        /// limit allows, writers of the other devices stop, too.
        Together,
        /// Each device has limits of its own: a share of the limits for all devices, in proportion to the device's
        /// speed among the devices with dirty pages. If other devices have more dirty pages than their shares, the
        /// excess is subtracted from this device's share, but a quarter of the share always remains.
        Apart,
    }

    /// The limits that throttle the writers of a memory control group. The cgroup that limits all tasks (`limit_pages`
    /// of a machine) counts as such a group.
    group_limits: GroupLimits = Off, drawn 165 {
        /// The limits of all memory, as in cgroups of version 1.
        Off,
        /// The limits of all memory, and those of the group if they are lower, as in cgroups of version 2. The ratios
        /// then refer to the memory that the group can have: its pages of files, and as many more pages as its limits
        /// and the clean pages of the others leave to it. Acts with `access.dirty_throttle = "sleeps"` only.
        ByGroup,
    }

    /// When the flusher sends the pages that it writes to their device.
    flusher_plug: FlusherPlug = Off, drawn 170 {
        /// Each request goes to the device at once.
        Off,
        /// The flusher gathers requests (`blk_start_plug`) while it works on one reason to write: a request, old files
        /// or the background limit. They go to the device when enough are together, when the flusher sleeps, or when
        /// this work ends.
        On,
    }

    /// Number of pages of a file that the flusher writes before it goes on to the next file.
    chunk: WritebackChunk = Fixed, drawn 29 {
        /// The flusher writes at a time as many pages of a file as the device writes in half a second, but at most an
        /// eighth of the dirty limit and at most the pages that are left to write, raised to the next larger multiple
        /// of 1024.
        ByBandwidth,
        /// The flusher writes 1024 pages of a file at a time.
        Fixed,
    }

    /// State of a file page after its write failed.
    write_failure: WriteFailure = Forget, drawn 31 {
        /// The page counts as written, and its contents are lost when it is reclaimed. `fsync` reports the error.
        Forget,
        /// The page is dirty again and is written later; `fsync` reports the error. Until the page is written, the page
        /// counts for no dirty limit (`nr_write_failed` counts it), and reclaim ignores it.
        KeepDirty,
    }

    /// The reaction when a task wants to change a file page while the page is being written to its device.
    stable_pages: StablePages = No, drawn 32 {
        /// The task changes the page at once. A write may also begin while a task changes the page. The device may get
        /// a mixture of old and new bytes. The page is then dirty again and is written once more.
        No,
        /// A task that wants to change a page under writeback waits until the page's write has ended. A write does not
        /// begin while a task changes the page: a sync waits, and the flusher and reclaim take other pages.
        Wait,
        /// A sync or the flusher copies each page into a free page and writes the copy, so no task waits for the
        /// device. Each page written costs a copy. Tasks wait as with `wait` if no page is free above the low mark, and
        /// for pages that reclaim writes.
        Copy,
        /// For a new file, tasks wait as with `wait`. Once a task had to wait, the file's pages are copied as with
        /// `copy`. The copying ends after 2,048 copies in a row that were of no use, because no page was changed before
        /// its write had ended.
        CopyWhenChanged,
    }
}

impl StablePages {
    /// Returns whether the contents that are being written stay stable: stores to a page under writeback wait, or a
    /// copy of the page is written.
    pub(crate) const fn holds_still(self) -> bool {
        match self {
            Self::No => false,
            Self::Wait | Self::Copy | Self::CopyWhenChanged => true,
        }
    }
}

impl WriteFailure {
    /// Returns whether a page stays dirty after its write failed.
    pub(crate) const fn keeps_dirty(self) -> bool {
        match self {
            Self::KeepDirty => true,
            Self::Forget => false,
        }
    }
}
