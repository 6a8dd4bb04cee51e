//! [`Func`]: the kernel functions under whose names profiles record CPU time.

/// A function of the Linux kernel. A profile shows CPU time of the engine under the name of the function that does the
/// same work in Linux. The names are those of Linux 3.10 and of kernels of about that age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Func {
    /// `user`: the work of a program outside of the kernel.
    User,
    /// `system_call`: the entry to the kernel and the exit from it.
    Syscall,
    /// `handle_mm_fault`: the handling of a page fault.
    Fault,
    /// `do_anonymous_page` handles the first touch of an anonymous page.
    AnonymousPage,
    /// `do_swap_page` handles a fault on a page in swap.
    SwapPage,
    /// `khugepaged`: the task that makes huge pages of small ones.
    Khugepaged,
    /// `collapse_huge_page` copies a range of small pages into a huge one.
    CollapseHugePage,
    /// `filemap_fault` handles a fault on a page of a mapped file.
    FileFault,
    /// `do_wp_page` handles a write to a page that is mapped read-only.
    WritableCopy,
    /// `swapin_readahead` reads a cluster of swap slots.
    SwapinReadahead,
    /// `generic_file_aio_read` handles a buffered read of a file.
    FileRead,
    /// `generic_file_buffered_write` handles a buffered write of a file.
    FileWrite,
    /// `page_cache_sync_readahead` begins readahead after a miss in the page cache.
    SyncReadahead,
    /// `page_cache_async_readahead` continues readahead at a page that was marked for this.
    AsyncReadahead,
    /// `add_to_page_cache_lru` inserts a page into a file's index.
    AddToPageCache,
    /// `vfs_fsync_range` writes a file back and waits for the end of the writes.
    Fsync,
    /// `tcp_sendmsg` sends data over the network.
    TcpSendmsg,
    /// `tcp_ack` frees data that the other side has received.
    TcpAck,
    /// `truncate_inode_pages` drops a file's pages.
    Truncate,
    /// `exit_mmap` drops an anonymous region.
    ExitMmap,
    /// `dup_mm` copies the page tables of a region at a fork.
    Fork,
    /// `balance_dirty_pages` throttles a writer.
    BalanceDirtyPages,
    /// `__alloc_pages_nodemask` allocates frames.
    AllocPages,
    /// `__alloc_pages_slowpath` allocates frames when zones are below their low marks.
    AllocSlowpath,
    /// `__alloc_pages_direct_compact` compacts memory in an allocating task.
    DirectCompact,
    /// `try_to_free_pages` reclaims pages in an allocating task.
    DirectReclaim,
    /// `zone_reclaim` reclaims pages of an allocating task's own node.
    ZoneReclaim,
    /// `throttle_direct_reclaim` waits while the memory reserves are used up.
    ThrottleDirectReclaim,
    /// `out_of_memory` kills a process when no page can be reclaimed.
    OutOfMemory,
    /// `kswapd`: the reclaim task of a node.
    Kswapd,
    /// `balance_pgdat` brings a node's zones to their high marks.
    BalancePgdat,
    /// `shrink_zone` reclaims pages from one zone.
    ShrinkZone,
    /// `shrink_lruvec` reclaims pages from the LRU lists of one zone.
    ShrinkLruvec,
    /// `get_scan_count` computes how many pages of each LRU list to scan.
    GetScanCount,
    /// `shrink_inactive_list` reclaims one batch of inactive pages.
    ShrinkInactiveList,
    /// `isolate_lru_pages` takes a batch of pages off an LRU list.
    IsolateLruPages,
    /// `shrink_page_list` decides the fate of isolated pages.
    ShrinkPageList,
    /// `page_referenced` tests and clears the accessed bits of a page.
    PageReferenced,
    /// `try_to_unmap` removes a page's mappings.
    TryToUnmap,
    /// `add_to_swap` gives a page a swap slot.
    AddToSwap,
    /// `pageout` begins the write of one page that reclaim wants to free.
    Pageout,
    /// `__remove_mapping` takes a page out of its owner's index.
    RemoveMapping,
    /// `free_hot_cold_page_list` frees a batch of pages.
    FreePageList,
    /// `putback_inactive_pages` puts isolated pages that reclaim did not free back on their LRU lists.
    PutbackInactivePages,
    /// `shrink_active_list` moves pages from an active to an inactive LRU list.
    ShrinkActiveList,
    /// `shrink_slab` shrinks object caches.
    ShrinkSlab,
    /// `congestion_wait` sleeps until a device queue is no longer congested.
    CongestionWait,
    /// `wait_iff_congested` sleeps if a queue and a zone are congested.
    WaitIffCongested,
    /// `throttle_vm_writeout` waits while too many pages are under writeback.
    ThrottleVmWriteout,
    /// `reclaim_throttle` sleeps for a given reason.
    ReclaimThrottle,
    /// `compact_zone` compacts one zone.
    CompactZone,
    /// `compaction_suitable` decides whether compaction could help.
    CompactionSuitable,
    /// `isolate_migratepages` searches for pages to move.
    IsolateMigratepages,
    /// `isolate_freepages` searches for free pages, to which pages are moved.
    IsolateFreepages,
    /// `migrate_pages` moves pages to other frames.
    MigratePages,
    /// `lru_add_drain` flushes the per-CPU LRU batches.
    LruAddDrain,
    /// `pagevec_lru_add` inserts a batch of pages.
    PagevecLruAdd,
    /// `activate_page` activates a batch of pages.
    ActivatePage,
    /// `pagevec_move_tail` moves written pages to the tails of their LRU lists.
    RotatePage,
    /// `release_pages` drops the references to a batch of pages.
    ReleasePages,
    /// `free_hot_cold_page` gives pages back to the allocator.
    FreePages,
    /// `rmqueue_bulk` refills a per-CPU list.
    RmqueueBulk,
    /// `free_pcppages_bulk` flushes a per-CPU list.
    FreePcppagesBulk,
    /// `bdi_writeback_workfn`: the flusher task of a device.
    Flusher,
    /// `writeback_single_inode` writes back one file.
    WritebackFile,
    /// `submit_bio` queues a request.
    SubmitBio,
    /// `end_bio_bh_io_sync` handles the end of a request to a device.
    IoInterrupt,
    /// `net_rx_action` answers packets that a network card received.
    NetRxAction,
    /// `_raw_spin_lock` waits for a lock.
    SpinLock,
    /// `schedule` switches tasks.
    Schedule,
}

impl Func {
    /// Every function, in declaration order.
    pub const ALL: [Self; 70] = [
        Self::User,
        Self::Syscall,
        Self::Fault,
        Self::AnonymousPage,
        Self::SwapPage,
        Self::Khugepaged,
        Self::CollapseHugePage,
        Self::FileFault,
        Self::WritableCopy,
        Self::SwapinReadahead,
        Self::FileRead,
        Self::FileWrite,
        Self::SyncReadahead,
        Self::AsyncReadahead,
        Self::AddToPageCache,
        Self::Fsync,
        Self::TcpSendmsg,
        Self::TcpAck,
        Self::Truncate,
        Self::ExitMmap,
        Self::Fork,
        Self::BalanceDirtyPages,
        Self::AllocPages,
        Self::AllocSlowpath,
        Self::DirectCompact,
        Self::DirectReclaim,
        Self::ZoneReclaim,
        Self::ThrottleDirectReclaim,
        Self::OutOfMemory,
        Self::Kswapd,
        Self::BalancePgdat,
        Self::ShrinkZone,
        Self::ShrinkLruvec,
        Self::GetScanCount,
        Self::ShrinkInactiveList,
        Self::IsolateLruPages,
        Self::ShrinkPageList,
        Self::PageReferenced,
        Self::TryToUnmap,
        Self::AddToSwap,
        Self::Pageout,
        Self::RemoveMapping,
        Self::FreePageList,
        Self::PutbackInactivePages,
        Self::ShrinkActiveList,
        Self::ShrinkSlab,
        Self::CongestionWait,
        Self::WaitIffCongested,
        Self::ThrottleVmWriteout,
        Self::ReclaimThrottle,
        Self::CompactZone,
        Self::CompactionSuitable,
        Self::IsolateMigratepages,
        Self::IsolateFreepages,
        Self::MigratePages,
        Self::LruAddDrain,
        Self::PagevecLruAdd,
        Self::ActivatePage,
        Self::RotatePage,
        Self::ReleasePages,
        Self::FreePages,
        Self::RmqueueBulk,
        Self::FreePcppagesBulk,
        Self::Flusher,
        Self::WritebackFile,
        Self::SubmitBio,
        Self::IoInterrupt,
        Self::NetRxAction,
        Self::SpinLock,
        Self::Schedule,
    ];

    /// Returns the name that the function has in Linux's source.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Syscall => "system_call",
            Self::Fault => "handle_mm_fault",
            Self::AnonymousPage => "do_anonymous_page",
            Self::SwapPage => "do_swap_page",
            Self::Khugepaged => "khugepaged",
            Self::CollapseHugePage => "collapse_huge_page",
            Self::FileFault => "filemap_fault",
            Self::WritableCopy => "do_wp_page",
            Self::SwapinReadahead => "swapin_readahead",
            Self::FileRead => "generic_file_aio_read",
            Self::FileWrite => "generic_file_buffered_write",
            Self::SyncReadahead => "page_cache_sync_readahead",
            Self::AsyncReadahead => "page_cache_async_readahead",
            Self::AddToPageCache => "add_to_page_cache_lru",
            Self::Fsync => "vfs_fsync_range",
            Self::TcpSendmsg => "tcp_sendmsg",
            Self::TcpAck => "tcp_ack",
            Self::Truncate => "truncate_inode_pages",
            Self::ExitMmap => "exit_mmap",
            Self::Fork => "dup_mm",
            Self::BalanceDirtyPages => "balance_dirty_pages",
            Self::AllocPages => "__alloc_pages_nodemask",
            Self::AllocSlowpath => "__alloc_pages_slowpath",
            Self::DirectCompact => "__alloc_pages_direct_compact",
            Self::DirectReclaim => "try_to_free_pages",
            Self::ZoneReclaim => "zone_reclaim",
            Self::ThrottleDirectReclaim => "throttle_direct_reclaim",
            Self::OutOfMemory => "out_of_memory",
            Self::Kswapd => "kswapd",
            Self::BalancePgdat => "balance_pgdat",
            Self::ShrinkZone => "shrink_zone",
            Self::ShrinkLruvec => "shrink_lruvec",
            Self::GetScanCount => "get_scan_count",
            Self::ShrinkInactiveList => "shrink_inactive_list",
            Self::IsolateLruPages => "isolate_lru_pages",
            Self::ShrinkPageList => "shrink_page_list",
            Self::PageReferenced => "page_referenced",
            Self::TryToUnmap => "try_to_unmap",
            Self::AddToSwap => "add_to_swap",
            Self::Pageout => "pageout",
            Self::RemoveMapping => "__remove_mapping",
            Self::FreePageList => "free_hot_cold_page_list",
            Self::PutbackInactivePages => "putback_inactive_pages",
            Self::ShrinkActiveList => "shrink_active_list",
            Self::ShrinkSlab => "shrink_slab",
            Self::CongestionWait => "congestion_wait",
            Self::WaitIffCongested => "wait_iff_congested",
            Self::ThrottleVmWriteout => "throttle_vm_writeout",
            Self::ReclaimThrottle => "reclaim_throttle",
            Self::CompactZone => "compact_zone",
            Self::CompactionSuitable => "compaction_suitable",
            Self::IsolateMigratepages => "isolate_migratepages",
            Self::IsolateFreepages => "isolate_freepages",
            Self::MigratePages => "migrate_pages",
            Self::LruAddDrain => "lru_add_drain",
            Self::PagevecLruAdd => "pagevec_lru_add",
            Self::ActivatePage => "activate_page",
            Self::RotatePage => "pagevec_move_tail",
            Self::ReleasePages => "release_pages",
            Self::FreePages => "free_hot_cold_page",
            Self::RmqueueBulk => "rmqueue_bulk",
            Self::FreePcppagesBulk => "free_pcppages_bulk",
            Self::Flusher => "bdi_writeback_workfn",
            Self::WritebackFile => "writeback_single_inode",
            Self::SubmitBio => "submit_bio",
            Self::IoInterrupt => "end_bio_bh_io_sync",
            Self::NetRxAction => "net_rx_action",
            Self::SpinLock => "_raw_spin_lock",
            Self::Schedule => "schedule",
        }
    }
}
