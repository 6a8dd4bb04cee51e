//! Counters and gauges, named as `/proc/vmstat` names them (mechanisms/reclaim, 26).

use super::sharded::Sharded;
use machine::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;

/// The number of kinds of zones; see [`crate::memory::ZoneKind`].
pub const ZONE_KINDS: usize = 3;

/// The suffixes of the names of zone counters, by zone kind.
pub const ZONE_SUFFIXES: [&str; ZONE_KINDS] = ["dma", "dma32", "normal"];

/// An event that is counted for the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumMessage)]
#[repr(u8)]
pub enum Event {
    /// `pgpgin`: KiB read from block devices, swap included.
    Pgpgin,
    /// `pgpgout`: KiB written to block devices, swap included.
    Pgpgout,
    /// `pswpin`: pages read from swap.
    Pswpin,
    /// `pswpout`: pages written to swap.
    Pswpout,
    /// `pgfree`: pages freed.
    Pgfree,
    /// `pgactivate`: pages moved from inactive to active.
    Pgactivate,
    /// `pgdeactivate`: pages moved from active to inactive.
    Pgdeactivate,
    /// `pgfault`: page faults.
    Pgfault,
    /// `pgmajfault`: page faults that waited for I/O.
    Pgmajfault,
    /// `pgscan_direct_throttle`: times that a direct reclaimer waited because the reserves were used up.
    PgscanDirectThrottle,
    /// `slabs_scanned`: slab objects looked at.
    SlabsScanned,
    /// `pginodesteal`: pages of the page cache dropped with their inode by direct reclaim.
    Pginodesteal,
    /// `kswapd_inodesteal`: pages of the page cache dropped with their inode by kswapd.
    KswapdInodesteal,
    /// `kswapd_low_wmark_hit_quickly`: times that a task woke kswapd before the trial sleep of kswapd was over.
    KswapdLowWmarkHitQuickly,
    /// `kswapd_high_wmark_hit_quickly`: times that kswapd could not sleep, because zones were out of balance before or
    /// at the end of its trial sleep.
    KswapdHighWmarkHitQuickly,
    /// `kswapd_skip_congestion_wait`: times that kswapd skipped the wait between two passes, because a zone was below
    /// its min mark.
    KswapdSkipCongestionWait,
    /// `pageoutrun`: runs of `balance_pgdat`.
    Pageoutrun,
    /// `allocstall`: direct reclaims.
    Allocstall,
    /// `direct_reclaim_wait`: times that a task waited for others to end their direct reclaim
    /// (`reclaim.direct_reclaimers`).
    DirectReclaimWait,
    /// `pgrotated`: pages moved to the inactive tail when their writeback ended.
    Pgrotated,
    /// `nr_vmscan_write`: pages written by reclaim.
    NrVmscanWrite,
    /// `nr_vmscan_immediate_reclaim`: dirty pages that reclaim found and marked, to be reclaimed when their write ends.
    NrVmscanImmediateReclaim,
    /// `nr_dirtied`: pages dirtied.
    NrDirtied,
    /// `nr_written`: pages written.
    NrWritten,
    /// `nr_throttled_written`: pages whose write ended while a throttled reclaimer waited for writes to end
    /// (`reclaim.list_stall = "reclaim-throttle"`).
    NrThrottledWritten,
    /// `compact_stall`: direct compactions.
    CompactStall,
    /// `compact_fail`: direct compactions after which the request got no block.
    CompactFail,
    /// `compact_success`: direct compactions after which the request got a block.
    CompactSuccess,
    /// `compact_migrate_scanned`: frames that compaction looked at for pages to move.
    CompactMigrateScanned,
    /// `compact_free_scanned`: frames that compaction looked at for free pages.
    CompactFreeScanned,
    /// `compact_isolated`: pages that compaction took off their lists: pages to move, and free pages.
    CompactIsolated,
    /// `compact_blocks_moved`: groups of up to 32 pages that compaction moved together.
    CompactBlocksMoved,
    /// `pgmigrate_success`: pages moved to another frame (`compact_pages_moved` before Linux 3.8).
    PgmigrateSuccess,
    /// `pgmigrate_fail`: pages that were isolated to be moved, but were not moved (`compact_pagemigrate_failed` before
    /// Linux 3.8).
    PgmigrateFail,
    /// `compact_run_complete`: runs of compaction that scanned the whole zone. Linux does not have this counter.
    CompactRunComplete,
    /// `compact_run_partial`: runs of compaction that ended because a suitable block was free, or the task was killed.
    /// Linux does not have this counter.
    CompactRunPartial,
    /// `compact_run_no_targets`: runs of compaction that ended because no free pages were left to move other pages to.
    /// Linux does not have this counter.
    CompactRunNoTargets,
    /// `compact_run_contended`: runs of compaction that ended because other tasks waited for a lock or for the CPU.
    /// Linux does not have this counter.
    CompactRunContended,
    /// `compact_captured`: free blocks that a run of compaction took for the request that had started the run, before
    /// other tasks could allocate them (`compact.capture`). Linux does not have this counter.
    CompactCaptured,
    /// `compact_skip_ahead`: times that a free scanner jumped to the position of another free scanner
    /// (`compact.start`). Linux does not have this counter.
    CompactSkipAhead,
    /// `compact_overlap`: runs of compaction that began in a zone while another run was under way there. Linux does not
    /// have this counter.
    CompactOverlap,
    /// `thp_fault_alloc`: huge pages given to faults.
    ThpFaultAlloc,
    /// `thp_fault_fallback`: faults that got small pages because they got no huge page.
    ThpFaultFallback,
    /// `thp_collapse_alloc`: huge pages that khugepaged got for ranges of small pages.
    ThpCollapseAlloc,
    /// `thp_collapse_alloc_failed`: times that khugepaged asked for a huge page and got none.
    ThpCollapseAllocFailed,
    /// `thp_split`: huge pages split into small pages.
    ThpSplit,
    /// `pgcache_dropped`: clean pages dropped on request.
    DropPagecache,
    /// `pgrotate_locked`: times that the LRU lock was taken to rotate pages whose write ended.
    PgrotateLocked,
    /// `alloc_high_order`: requests of order > 0.
    AllocHighOrder,
    /// `alloc_high_order_slow`: requests of order > 0 that no zone could serve above its low mark.
    AllocHighOrderSlow,
    /// `alloc_failed`: requests of order > 0 that failed.
    AllocFailed,
    /// `oom`: requests that failed because nothing could be reclaimed, and no process could be killed.
    OutOfMemory,
    /// `oom_kill`: processes that were killed because memory was exhausted.
    OomKill,
}

impl Event {
    /// All events, in declaration order.
    pub const ALL: [Self; 53] = [
        Self::Pgpgin,
        Self::Pgpgout,
        Self::Pswpin,
        Self::Pswpout,
        Self::Pgfree,
        Self::Pgactivate,
        Self::Pgdeactivate,
        Self::Pgfault,
        Self::Pgmajfault,
        Self::PgscanDirectThrottle,
        Self::SlabsScanned,
        Self::Pginodesteal,
        Self::KswapdInodesteal,
        Self::KswapdLowWmarkHitQuickly,
        Self::KswapdHighWmarkHitQuickly,
        Self::KswapdSkipCongestionWait,
        Self::Pageoutrun,
        Self::Allocstall,
        Self::DirectReclaimWait,
        Self::Pgrotated,
        Self::NrVmscanWrite,
        Self::NrVmscanImmediateReclaim,
        Self::NrDirtied,
        Self::NrWritten,
        Self::NrThrottledWritten,
        Self::CompactStall,
        Self::CompactFail,
        Self::CompactSuccess,
        Self::CompactMigrateScanned,
        Self::CompactFreeScanned,
        Self::CompactIsolated,
        Self::CompactBlocksMoved,
        Self::PgmigrateSuccess,
        Self::PgmigrateFail,
        Self::CompactRunComplete,
        Self::CompactRunPartial,
        Self::CompactRunNoTargets,
        Self::CompactRunContended,
        Self::CompactCaptured,
        Self::CompactSkipAhead,
        Self::CompactOverlap,
        Self::ThpFaultAlloc,
        Self::ThpFaultFallback,
        Self::ThpCollapseAlloc,
        Self::ThpCollapseAllocFailed,
        Self::ThpSplit,
        Self::DropPagecache,
        Self::PgrotateLocked,
        Self::AllocHighOrder,
        Self::AllocHighOrderSlow,
        Self::AllocFailed,
        Self::OutOfMemory,
        Self::OomKill,
    ];

    /// Returns the name in `/proc/vmstat`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pgpgin => "pgpgin",
            Self::Pgpgout => "pgpgout",
            Self::Pswpin => "pswpin",
            Self::Pswpout => "pswpout",
            Self::Pgfree => "pgfree",
            Self::Pgactivate => "pgactivate",
            Self::Pgdeactivate => "pgdeactivate",
            Self::Pgfault => "pgfault",
            Self::Pgmajfault => "pgmajfault",
            Self::PgscanDirectThrottle => "pgscan_direct_throttle",
            Self::SlabsScanned => "slabs_scanned",
            Self::Pginodesteal => "pginodesteal",
            Self::KswapdInodesteal => "kswapd_inodesteal",
            Self::KswapdLowWmarkHitQuickly => "kswapd_low_wmark_hit_quickly",
            Self::KswapdHighWmarkHitQuickly => "kswapd_high_wmark_hit_quickly",
            Self::KswapdSkipCongestionWait => "kswapd_skip_congestion_wait",
            Self::Pageoutrun => "pageoutrun",
            Self::Allocstall => "allocstall",
            Self::DirectReclaimWait => "direct_reclaim_wait",
            Self::Pgrotated => "pgrotated",
            Self::NrVmscanWrite => "nr_vmscan_write",
            Self::NrVmscanImmediateReclaim => "nr_vmscan_immediate_reclaim",
            Self::NrDirtied => "nr_dirtied",
            Self::NrWritten => "nr_written",
            Self::NrThrottledWritten => "nr_throttled_written",
            Self::CompactStall => "compact_stall",
            Self::CompactFail => "compact_fail",
            Self::CompactSuccess => "compact_success",
            Self::CompactMigrateScanned => "compact_migrate_scanned",
            Self::CompactFreeScanned => "compact_free_scanned",
            Self::CompactIsolated => "compact_isolated",
            Self::CompactBlocksMoved => "compact_blocks_moved",
            Self::PgmigrateSuccess => "pgmigrate_success",
            Self::PgmigrateFail => "pgmigrate_fail",
            Self::CompactRunComplete => "compact_run_complete",
            Self::CompactRunPartial => "compact_run_partial",
            Self::CompactRunNoTargets => "compact_run_no_targets",
            Self::CompactRunContended => "compact_run_contended",
            Self::CompactCaptured => "compact_captured",
            Self::CompactSkipAhead => "compact_skip_ahead",
            Self::CompactOverlap => "compact_overlap",
            Self::ThpFaultAlloc => "thp_fault_alloc",
            Self::ThpFaultFallback => "thp_fault_fallback",
            Self::ThpCollapseAlloc => "thp_collapse_alloc",
            Self::ThpCollapseAllocFailed => "thp_collapse_alloc_failed",
            Self::ThpSplit => "thp_split",
            Self::DropPagecache => "pgcache_dropped",
            Self::PgrotateLocked => "pgrotate_locked",
            Self::AllocHighOrder => "alloc_high_order",
            Self::AllocHighOrderSlow => "alloc_high_order_slow",
            Self::AllocFailed => "alloc_failed",
            Self::OutOfMemory => "oom",
            Self::OomKill => "oom_kill",
        }
    }
}

/// An event that is counted for each zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumMessage)]
#[repr(u8)]
pub enum ZoneEvent {
    /// `pgalloc`: pages allocated.
    Pgalloc,
    /// `pgrefill`: active pages scanned.
    Pgrefill,
    /// `pgscan_kswapd`: inactive pages scanned by kswapd.
    PgscanKswapd,
    /// `pgscan_direct`: inactive pages scanned by direct reclaim.
    PgscanDirect,
    /// `pgsteal_kswapd`: pages reclaimed by kswapd.
    PgstealKswapd,
    /// `pgsteal_direct`: pages reclaimed by direct reclaim.
    PgstealDirect,
    /// `lru_used_once`: file pages that were used once and never joined a list (`lru.admission`).
    LruUsedOnce,
    /// `workingset_refault_anon`: anonymous pages that came back from swap, pages read ahead included. They are counted
    /// in the zone or node to which they come back, but only with `lru.refault = "by-workingset"` and policies whose
    /// pages leave shadows.
    WorkingsetRefaultAnon,
    /// `workingset_refault_file`: file pages that were read again after they had left memory. With `lru.admission =
    /// "by-refault"`, pages that were only read ahead do not count.
    WorkingsetRefaultFile,
    /// `workingset_activate_anon`: refaulted anonymous pages that had left memory not long ago, and so became active.
    WorkingsetActivateAnon,
    /// `workingset_activate_file`: refaulted file pages that had left memory not long ago, and so became active.
    WorkingsetActivateFile,
    /// `workingset_restore_anon`: anonymous pages that had been active before they left memory, and were activated at
    /// their refault.
    WorkingsetRestoreAnon,
    /// `workingset_restore_file`: file pages that had been active before they left memory, and were activated at their
    /// refault.
    WorkingsetRestoreFile,
    /// `numa_hit`: blocks allocated on the node that was wanted. The NUMA counters exist only on machines with several
    /// nodes.
    NumaHit,
    /// `numa_miss`: blocks allocated on this node that were wanted on another node.
    NumaMiss,
    /// `numa_foreign`: blocks wanted on this node that were allocated on another node.
    NumaForeign,
    /// `numa_local`: blocks allocated on this node by tasks on a CPU of this node.
    NumaLocal,
    /// `numa_other`: blocks allocated on this node by tasks on a CPU of another node.
    NumaOther,
    /// `zone_reclaim_failed`: times that a task reclaimed on its own node and freed less than it needed
    /// (`reclaim.zone_reclaim_mode`).
    ZoneReclaimFailed,
    /// `pgskip`: pages that a scan of an lruvec skipped, because their zone could not serve the request. They are
    /// counted only with `memory.lruvec_of = "node"`.
    Pgskip,
}

impl ZoneEvent {
    /// All events, in declaration order.
    pub const ALL: [Self; 20] = [
        Self::Pgalloc,
        Self::Pgrefill,
        Self::PgscanKswapd,
        Self::PgscanDirect,
        Self::PgstealKswapd,
        Self::PgstealDirect,
        Self::LruUsedOnce,
        Self::WorkingsetRefaultAnon,
        Self::WorkingsetRefaultFile,
        Self::WorkingsetActivateAnon,
        Self::WorkingsetActivateFile,
        Self::WorkingsetRestoreAnon,
        Self::WorkingsetRestoreFile,
        Self::NumaHit,
        Self::NumaMiss,
        Self::NumaForeign,
        Self::NumaLocal,
        Self::NumaOther,
        Self::ZoneReclaimFailed,
        Self::Pgskip,
    ];

    /// Returns whether the event is a scan or a free of reclaim (`pgscan…`, `pgsteal…`).
    pub(crate) const fn is_of_reclaim(self) -> bool {
        matches!(self, Self::PgscanKswapd | Self::PgscanDirect | Self::PgstealKswapd | Self::PgstealDirect)
    }

    /// Returns the name in `/proc/vmstat`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pgalloc => "pgalloc",
            Self::Pgrefill => "pgrefill",
            Self::PgscanKswapd => "pgscan_kswapd",
            Self::PgscanDirect => "pgscan_direct",
            Self::PgstealKswapd => "pgsteal_kswapd",
            Self::PgstealDirect => "pgsteal_direct",
            Self::LruUsedOnce => "lru_used_once",
            Self::WorkingsetRefaultAnon => "workingset_refault_anon",
            Self::WorkingsetRefaultFile => "workingset_refault_file",
            Self::WorkingsetActivateAnon => "workingset_activate_anon",
            Self::WorkingsetActivateFile => "workingset_activate_file",
            Self::WorkingsetRestoreAnon => "workingset_restore_anon",
            Self::WorkingsetRestoreFile => "workingset_restore_file",
            Self::NumaHit => "numa_hit",
            Self::NumaMiss => "numa_miss",
            Self::NumaForeign => "numa_foreign",
            Self::NumaLocal => "numa_local",
            Self::NumaOther => "numa_other",
            Self::ZoneReclaimFailed => "zone_reclaim_failed",
            Self::Pgskip => "pgskip",
        }
    }

    /// Returns whether each kind of zone has its own counter of this event, with the kind in its name. Otherwise all
    /// zones share one counter.
    #[must_use]
    pub const fn is_named_by_kind(self) -> bool {
        !self.is_of_workingset() && !self.is_of_nodes()
    }

    /// The counters `workingset_refault_anon`, `workingset_activate_anon` and `workingset_restore_anon`.
    pub const WORKINGSET_ANON: [Self; 3] =
        [Self::WorkingsetRefaultAnon, Self::WorkingsetActivateAnon, Self::WorkingsetRestoreAnon];

    /// The counters `workingset_refault_file`, `workingset_activate_file` and `workingset_restore_file`.
    pub const WORKINGSET_FILE: [Self; 3] =
        [Self::WorkingsetRefaultFile, Self::WorkingsetActivateFile, Self::WorkingsetRestoreFile];

    const fn is_of_workingset(self) -> bool {
        matches!(
            self,
            Self::WorkingsetRefaultAnon
                | Self::WorkingsetRefaultFile
                | Self::WorkingsetActivateAnon
                | Self::WorkingsetActivateFile
                | Self::WorkingsetRestoreAnon
                | Self::WorkingsetRestoreFile
        )
    }

    /// Returns whether the event distinguishes nodes, so that its counter has no meaning on a machine with one node.
    #[must_use]
    pub const fn is_of_nodes(self) -> bool {
        matches!(
            self,
            Self::NumaHit
                | Self::NumaMiss
                | Self::NumaForeign
                | Self::NumaLocal
                | Self::NumaOther
                | Self::ZoneReclaimFailed
        )
    }

    /// Returns the events whose counters are meaningful on a machine with `nodes` nodes. `shares_lruvecs` says whether
    /// the zones of a node share lruvecs.
    pub fn named(nodes: usize, shares_lruvecs: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |event| match event {
            Self::Pgskip => shares_lruvecs,
            event => nodes > 1 || !event.is_of_nodes(),
        })
    }

    /// Returns the name of the counter of this event in zones of one kind. If the event is counted for each kind, the
    /// name ends in the kind, as in `pgalloc_normal`. `kind` is the number of the kind ([`crate::memory::ZoneKind`]).
    #[must_use]
    pub fn name_in(self, kind: usize) -> String {
        if self.is_named_by_kind() {
            format!("{}_{}", self.name(), ZONE_SUFFIXES[kind])
        } else {
            self.name().to_owned()
        }
    }
}

/// A gauge: a number of pages that goes up and down, kept for each zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumMessage)]
#[repr(u8)]
pub enum Gauge {
    /// `nr_free_pages`: free pages, per-CPU lists not counted.
    NrFreePages,
    /// `nr_inactive_anon`: inactive anonymous pages.
    NrInactiveAnon,
    /// `nr_active_anon`: active anonymous pages.
    NrActiveAnon,
    /// `nr_inactive_file`: inactive file pages.
    NrInactiveFile,
    /// `nr_active_file`: active file pages.
    NrActiveFile,
    /// `nr_unevictable`: unevictable pages.
    NrUnevictable,
    /// `nr_isolated_anon`: anonymous pages taken off their list for reclaim.
    NrIsolatedAnon,
    /// `nr_isolated_file`: file pages taken off their list for reclaim.
    NrIsolatedFile,
    /// `nr_anon_pages`: mapped anonymous pages.
    NrAnonPages,
    /// `nr_anon_transparent_hugepages`: anonymous huge pages that are mapped as a whole, each by one entry. The 512
    /// pages of each count as `nr_anon_pages`, too.
    NrAnonTransparentHugepages,
    /// `nr_mapped`: pages of files that page tables map.
    NrMapped,
    /// `nr_file_pages`: pages in file indexes and the swap cache.
    NrFilePages,
    /// `nr_dirty`: dirty file pages.
    NrDirty,
    /// `nr_write_failed`: dirty file pages whose last write failed and that are not being written again
    /// (`writeback.write_failure`), or whose writes are put off until the log is durable. Linux does not have this gauge.
    NrWriteFailed,
    /// `nr_writeback`: pages under writeback.
    NrWriteback,
    /// `nr_slab_reclaimable`: slab pages that a shrinker may free.
    NrSlabReclaimable,
    /// `nr_slab_unreclaimable`: slab pages and other kernel memory.
    NrSlabUnreclaimable,
    /// `nr_page_table_pages`: page-table pages.
    NrPageTablePages,
    /// `nr_bounce`: copies from which pages are being written (`writeback.stable_pages`).
    NrBounce,
}

impl Gauge {
    /// All gauges, in declaration order.
    pub const ALL: [Self; 19] = [
        Self::NrFreePages,
        Self::NrInactiveAnon,
        Self::NrActiveAnon,
        Self::NrInactiveFile,
        Self::NrActiveFile,
        Self::NrUnevictable,
        Self::NrIsolatedAnon,
        Self::NrIsolatedFile,
        Self::NrAnonPages,
        Self::NrAnonTransparentHugepages,
        Self::NrMapped,
        Self::NrFilePages,
        Self::NrDirty,
        Self::NrWriteFailed,
        Self::NrWriteback,
        Self::NrSlabReclaimable,
        Self::NrSlabUnreclaimable,
        Self::NrPageTablePages,
        Self::NrBounce,
    ];

    /// Returns the name in `/proc/vmstat`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NrFreePages => "nr_free_pages",
            Self::NrInactiveAnon => "nr_inactive_anon",
            Self::NrActiveAnon => "nr_active_anon",
            Self::NrInactiveFile => "nr_inactive_file",
            Self::NrActiveFile => "nr_active_file",
            Self::NrUnevictable => "nr_unevictable",
            Self::NrIsolatedAnon => "nr_isolated_anon",
            Self::NrIsolatedFile => "nr_isolated_file",
            Self::NrAnonPages => "nr_anon_pages",
            Self::NrAnonTransparentHugepages => "nr_anon_transparent_hugepages",
            Self::NrMapped => "nr_mapped",
            Self::NrFilePages => "nr_file_pages",
            Self::NrDirty => "nr_dirty",
            Self::NrWriteFailed => "nr_write_failed",
            Self::NrWriteback => "nr_writeback",
            Self::NrSlabReclaimable => "nr_slab_reclaimable",
            Self::NrSlabUnreclaimable => "nr_slab_unreclaimable",
            Self::NrPageTablePages => "nr_page_table_pages",
            Self::NrBounce => "nr_bounce",
        }
    }
}

/// A snapshot of counters and gauges: the value of each, by name. Gauges are in pages, except gauges of huge pages. The
/// variants of [`Event`], [`ZoneEvent`] and [`Gauge`] say the unit of each.
pub type Vmstat = BTreeMap<String, u64>;

/// Returns the snapshot of an engine that has one node and has counted nothing. The snapshot has the name of every
/// event, of every zone event once for each kind of zone, and of every gauge, each with the value 0.
#[must_use]
pub fn zeroes() -> Vmstat {
    let mut names: Vec<String> = Event::ALL.iter().map(|event| event.name().to_owned()).collect();
    names.extend(ZoneEvent::named(1, false).flat_map(|event| (0..ZONE_KINDS).map(move |kind| event.name_in(kind))));
    names.extend(Gauge::ALL.iter().map(|gauge| gauge.name().to_owned()));
    names.into_iter().map(|name| (name, 0)).collect()
}

/// Returns the name of every counter and gauge, with a sentence about what it counts.
pub fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
    fn about(name: &'static str, of: &impl strum::EnumMessage) -> (&'static str, &'static str) {
        let text = of.get_documentation().unwrap_or_default();
        (name, text.split_once("`: ").map_or(text, |(_, about)| about))
    }
    let events = Event::ALL.into_iter().map(|it| about(it.name(), &it));
    let of_zones = ZoneEvent::ALL.into_iter().map(|it| about(it.name(), &it));
    events.chain(of_zones).chain(Gauge::ALL.into_iter().map(|it| about(it.name(), &it)))
}

/// The counters of one engine, except those that are kept for each zone ([`ZoneStat`]).
#[derive(Debug)]
pub struct Stat(Sharded<{ Event::ALL.len() }>);

impl Stat {
    /// Creates counters that are all 0, in `rows` rows ([`Sharded`]).
    #[must_use]
    pub fn new(rows: usize) -> Self {
        Self(Sharded::new(rows))
    }

    /// Adds `n` to the count of an event.
    #[inline]
    pub fn count(&self, event: Event, n: u64) {
        self.0.add(event as usize, n);
    }

    /// Returns the count of an event.
    #[must_use]
    pub fn get(&self, event: Event) -> u64 {
        self.0.get(event as usize)
    }

    /// Returns all counters by name.
    #[must_use]
    pub fn snapshot(&self) -> Vmstat {
        Event::ALL.into_iter().map(|event| (event.name().to_owned(), self.get(event))).collect()
    }
}

/// The counters of one zone.
#[derive(Debug)]
pub struct ZoneStat(Sharded<{ ZoneEvent::ALL.len() }>);

impl ZoneStat {
    /// Creates counters that are all 0, in `rows` rows ([`Sharded`]).
    #[must_use]
    pub fn new(rows: usize) -> Self {
        Self(Sharded::new(rows))
    }

    /// Adds `n` to the count of an event.
    #[inline]
    pub fn count(&self, event: ZoneEvent, n: u64) {
        self.0.add(event as usize, n);
    }

    /// Returns the count of an event.
    #[must_use]
    pub fn get(&self, event: ZoneEvent) -> u64 {
        self.0.get(event as usize)
    }
}

/// The gauges of one zone, in pages.
#[derive(Debug)]
pub struct Gauges {
    /// The value of [`Gauge::NrFreePages`]. It is kept in one word, not in rows ([`Sharded`]), because every request
    /// reads it, and because it changes seldom: by many pages at a time.
    free: Alone,
    /// All gauges other than [`Gauge::NrFreePages`].
    counters: Sharded<{ Gauge::ALL.len() }>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone(AtomicU64);

impl Gauges {
    /// Creates gauges with the value 0. Each gauge is kept in `rows` rows ([`Sharded`]), so that threads can count
    /// without sharing cache lines.
    #[must_use]
    pub fn new(rows: usize) -> Self {
        Self { free: Alone::default(), counters: Sharded::new(rows) }
    }

    /// Adds `pages`, which may be negative, to a gauge.
    #[inline]
    pub fn add(&self, gauge: Gauge, pages: i64) {
        match gauge {
            Gauge::NrFreePages => _ = self.free.0.fetch_add(pages.cast_unsigned(), Relaxed),
            _ => self.counters.add(gauge as usize, pages.cast_unsigned()),
        }
    }

    /// Returns the present value of a gauge. The result is at least 0, even while other threads change the gauge.
    #[inline]
    #[must_use]
    pub fn get(&self, gauge: Gauge) -> u64 {
        let pages = match gauge {
            Gauge::NrFreePages => self.free.0.load(Relaxed),
            _ => self.counters.get(gauge as usize),
        };
        pages.cast_signed().max(0).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_their_names() {
        let stat = Stat::new(1);
        stat.count(Event::Allocstall, 2);
        let vmstat = stat.snapshot();
        assert_eq!((vmstat.len(), vmstat["allocstall"]), (Event::ALL.len(), 2));
        assert_eq!(ZoneEvent::PgscanKswapd.name_in(1), "pgscan_kswapd_dma32");
        assert_eq!(ZoneEvent::WorkingsetRefaultFile.name_in(1), "workingset_refault_file");
    }
}
