//! [`Func`]: the kernel functions under whose names profiles record CPU time.

/// A function of the Linux kernel under whose name a profile shows CPU time of the engine. The names are those of Linux
/// 3.10 and of kernels of about that age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Func {
    /// `user`: a program's own work.
    User,
    /// `system_call`: enter and leave the kernel.
    Syscall,
    /// `handle_mm_fault`: a page fault.
    Fault,
    /// `do_anonymous_page`: first touch of an anonymous page.
    AnonymousPage,
    /// `do_swap_page`: fault on a page in swap.
    SwapPage,
    /// `khugepaged`: the task that makes huge pages of small ones.
    Khugepaged,
    /// `collapse_huge_page`: copy a range of small pages into a huge one.
    CollapseHugePage,
    /// `filemap_fault`: fault on a page of a mapped file.
    FileFault,
    /// `do_wp_page`: write fault on a read-only page.
    WritableCopy,
    /// `swapin_readahead`: read a cluster of swap slots.
    SwapinReadahead,
    /// `generic_file_aio_read`: buffered read.
    FileRead,
    /// `generic_file_buffered_write`: buffered write.
    FileWrite,
    /// `page_cache_sync_readahead`: readahead on a miss.
    SyncReadahead,
    /// `page_cache_async_readahead`: readahead on a marked page.
    AsyncReadahead,
    /// `add_to_page_cache_lru`: insert a page into a file's index.
    AddToPageCache,
    /// `vfs_fsync_range`: write a file back and wait.
    Fsync,
    /// `tcp_sendmsg`: send over the network.
    TcpSendmsg,
    /// `tcp_ack`: free data that the other side has received.
    TcpAck,
    /// `truncate_inode_pages`: drop a file's pages.
    Truncate,
    /// `exit_mmap`: drop an anonymous region.
    ExitMmap,
    /// `balance_dirty_pages`: throttle a writer.
    BalanceDirtyPages,
    /// `__alloc_pages_nodemask`: allocate frames.
    AllocPages,
    /// `__alloc_pages_slowpath`: allocate when below the low mark.
    AllocSlowpath,
    /// `__alloc_pages_direct_compact`: compaction by an allocating task.
    DirectCompact,
    /// `try_to_free_pages`: reclaim by an allocating task.
    DirectReclaim,
    /// `zone_reclaim`: reclaim by an allocating task on its own node.
    ZoneReclaim,
    /// `throttle_direct_reclaim`: wait while the reserves are used up.
    ThrottleDirectReclaim,
    /// `out_of_memory`: act when nothing can be reclaimed.
    OutOfMemory,
    /// `kswapd`: the reclaim task of a node.
    Kswapd,
    /// `balance_pgdat`: bring a node's zones to their high marks.
    BalancePgdat,
    /// `shrink_zone`: reclaim from one zone.
    ShrinkZone,
    /// `shrink_lruvec`: reclaim from the lists of one zone.
    ShrinkLruvec,
    /// `get_scan_count`: compute how much of each list to scan.
    GetScanCount,
    /// `shrink_inactive_list`: reclaim one batch of inactive pages.
    ShrinkInactiveList,
    /// `isolate_lru_pages`: take a batch off a list.
    IsolateLruPages,
    /// `shrink_page_list`: decide the fate of isolated pages.
    ShrinkPageList,
    /// `page_referenced`: test and clear accessed bits.
    PageReferenced,
    /// `try_to_unmap`: remove a page's mappings.
    TryToUnmap,
    /// `add_to_swap`: give a page a swap slot.
    AddToSwap,
    /// `pageout`: write one page from reclaim.
    Pageout,
    /// `__remove_mapping`: take a page out of its owner's index.
    RemoveMapping,
    /// `free_hot_cold_page_list`: free a batch of pages.
    FreePageList,
    /// `putback_inactive_pages`: return survivors to their lists.
    PutbackInactivePages,
    /// `shrink_active_list`: deactivate pages.
    ShrinkActiveList,
    /// `shrink_slab`: shrink object caches.
    ShrinkSlab,
    /// `congestion_wait`: sleep until some queue drains.
    CongestionWait,
    /// `wait_iff_congested`: sleep if a queue and a zone are congested.
    WaitIffCongested,
    /// `throttle_vm_writeout`: wait while too much is under writeback.
    ThrottleVmWriteout,
    /// `reclaim_throttle`: sleep for a given reason.
    ReclaimThrottle,
    /// `compact_zone`: compaction of one zone.
    CompactZone,
    /// `compaction_suitable`: decide whether compaction could help.
    CompactionSuitable,
    /// `isolate_migratepages`: search for pages to move.
    IsolateMigratepages,
    /// `isolate_freepages`: search for free pages as targets.
    IsolateFreepages,
    /// `migrate_pages`: move pages to other frames.
    MigratePages,
    /// `lru_add_drain`: flush the per-CPU LRU batches.
    LruAddDrain,
    /// `pagevec_lru_add`: insert a batch of pages.
    PagevecLruAdd,
    /// `activate_page`: activate a batch of pages.
    ActivatePage,
    /// `pagevec_move_tail`: rotate written pages to the tail.
    RotatePage,
    /// `release_pages`: drop references of a batch.
    ReleasePages,
    /// `free_hot_cold_page`: give pages back to the allocator.
    FreePages,
    /// `rmqueue_bulk`: refill a per-CPU list.
    RmqueueBulk,
    /// `free_pcppages_bulk`: flush a per-CPU list.
    FreePcppagesBulk,
    /// `bdi_writeback_workfn`: the flusher task of a device.
    Flusher,
    /// `writeback_single_inode`: write back one file.
    WritebackFile,
    /// `submit_bio`: queue a request.
    SubmitBio,
    /// `end_bio_bh_io_sync`: a device finished a request.
    IoInterrupt,
    /// `net_rx_action`: answer packets that a network card received.
    NetRxAction,
    /// `_raw_spin_lock`: wait for a lock.
    SpinLock,
    /// `schedule`: switch tasks.
    Schedule,
}

impl Func {
    /// Every function, in declaration order.
    pub const ALL: [Self; 69] = [
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

    /// Returns the kernel's name of the function.
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
