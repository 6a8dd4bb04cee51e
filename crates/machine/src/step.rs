//! What costs CPU time.

/// One word for each thing that costs CPU time; a simulated machine's cost table gives each its
/// nanoseconds. What a step costs depends on nothing but the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Step {
    /// Enter and leave the kernel for one read, write or sync.
    SyscallEntry,
    /// Enter and leave the page-fault handler.
    FaultEntry,
    /// Change one page-table entry.
    PteSet,
    /// Put one task off a CPU and another on.
    ContextSwitch,
    /// Wake one task.
    Wake,
    /// Enter and leave an interrupt handler.
    InterruptEntry,
    /// Take and release a lock that nobody contends for.
    LockAcquire,
    /// A contended lock passes to another CPU: the cache line moves.
    LockHandover,
    /// Compare one zone with a watermark.
    WatermarkCheck,
    /// Take one page from, or give one to, a per-CPU list.
    AllocateFast,
    /// Take one block off a free list, or put one on, splits and merges included.
    BuddyTake,
    /// Fill 4 KiB with zeroes.
    ZeroPage,
    /// Copy 4 KiB.
    CopyPage,
    /// Look one page up in a file's index.
    IndexLookup,
    /// Put one page into a file's index.
    IndexInsert,
    /// Take one page out of a file's index.
    IndexRemove,
    /// Leave the shadow of a page in its slot: what that costs more than deleting the slot.
    ShadowStore,
    /// Move one page between LRU lists, or on to one, under the LRU lock.
    LruMove,
    /// Move one page to the tail of its LRU list, under the LRU lock, because its write ended.
    RotatePage,
    /// Put one page into a per-CPU batch of pages to be rotated.
    BatchPage,
    /// Take or drop the reference that such a batch has of a page.
    PageReference,
    /// Take one page off an LRU list for reclaim.
    IsolatePage,
    /// Look at one isolated page: lock it, read its flags, decide.
    ScanPage,
    /// See that no page table maps one page, in place of the walk of its mappings.
    ReferenceCheck,
    /// Walk the mappings of one page for accessed bits.
    ReferenceWalk,
    /// Note one use of a page in its flags.
    MarkAccessed,
    /// Remove one mapping of a page and flush its translation.
    UnmapPage,
    /// Free one page found clean: unlink it from its owner's lists.
    FreePage,
    /// Compute how much of each list of one zone to scan.
    ScanCount,
    /// Look at one swap slot, allocate or free it.
    SwapSlot,
    /// Let the file system prepare one page for a write and finish it: reserve a block, hold the journal.
    WriteBegin,
    /// Account one page dirty or clean.
    DirtyPage,
    /// Enter what writes one page for reclaim: walk its buffers, decide.
    WritePage,
    /// Account the start of one page's writeback.
    WritebackPage,
    /// Add one page to a request.
    BioPage,
    /// Queue one request at a device.
    SubmitRequest,
    /// End the I/O of one page in its completion.
    EndPage,
    /// Look at one object of a slab cache.
    SlabObject,
    /// Look at one item of a flusher's or kswapd's work list.
    WorkItem,
    /// Look at the descriptor of one frame, in order of their numbers.
    ScanFrame,
    /// Move one page to another frame: what a copy, two walks of its mappings and the change of its owner take together.
    MigratePage,
}

impl Step {
    /// Every step, in declaration order: `ALL[step as usize] == step`.
    pub const ALL: [Self; 41] = [
        Self::SyscallEntry,
        Self::FaultEntry,
        Self::PteSet,
        Self::ContextSwitch,
        Self::Wake,
        Self::InterruptEntry,
        Self::LockAcquire,
        Self::LockHandover,
        Self::WatermarkCheck,
        Self::AllocateFast,
        Self::BuddyTake,
        Self::ZeroPage,
        Self::CopyPage,
        Self::IndexLookup,
        Self::IndexInsert,
        Self::IndexRemove,
        Self::ShadowStore,
        Self::LruMove,
        Self::RotatePage,
        Self::BatchPage,
        Self::PageReference,
        Self::IsolatePage,
        Self::ScanPage,
        Self::ReferenceCheck,
        Self::ReferenceWalk,
        Self::MarkAccessed,
        Self::UnmapPage,
        Self::FreePage,
        Self::ScanCount,
        Self::SwapSlot,
        Self::WriteBegin,
        Self::DirtyPage,
        Self::WritePage,
        Self::WritebackPage,
        Self::BioPage,
        Self::SubmitRequest,
        Self::EndPage,
        Self::SlabObject,
        Self::WorkItem,
        Self::ScanFrame,
        Self::MigratePage,
    ];

    /// The name under which a cost table gives the step, in snake_case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SyscallEntry => "syscall_entry",
            Self::FaultEntry => "fault_entry",
            Self::PteSet => "pte_set",
            Self::ContextSwitch => "context_switch",
            Self::Wake => "wake",
            Self::InterruptEntry => "interrupt_entry",
            Self::LockAcquire => "lock_acquire",
            Self::LockHandover => "lock_handover",
            Self::WatermarkCheck => "watermark_check",
            Self::AllocateFast => "allocate_fast",
            Self::BuddyTake => "buddy_take",
            Self::ZeroPage => "zero_page",
            Self::CopyPage => "copy_page",
            Self::IndexLookup => "index_lookup",
            Self::IndexInsert => "index_insert",
            Self::IndexRemove => "index_remove",
            Self::ShadowStore => "shadow_store",
            Self::LruMove => "lru_move",
            Self::RotatePage => "rotate_page",
            Self::BatchPage => "batch_page",
            Self::PageReference => "page_reference",
            Self::IsolatePage => "isolate_page",
            Self::ScanPage => "scan_page",
            Self::ReferenceCheck => "reference_check",
            Self::ReferenceWalk => "reference_walk",
            Self::MarkAccessed => "mark_accessed",
            Self::UnmapPage => "unmap_page",
            Self::FreePage => "free_page",
            Self::ScanCount => "scan_count",
            Self::SwapSlot => "swap_slot",
            Self::WriteBegin => "write_begin",
            Self::DirtyPage => "dirty_page",
            Self::WritePage => "write_page",
            Self::WritebackPage => "writeback_page",
            Self::BioPage => "bio_page",
            Self::SubmitRequest => "submit_request",
            Self::EndPage => "end_page",
            Self::SlabObject => "slab_object",
            Self::WorkItem => "work_item",
            Self::ScanFrame => "scan_frame",
            Self::MigratePage => "migrate_page",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_every_step_at_its_own_index() {
        for (index, step) in Step::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, index, "{step:?}");
        }
    }
}
