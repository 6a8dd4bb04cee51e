//! [`Step`]: the kinds of work that cost CPU time on a simulated machine.

/// Declares the enum `Step`. Each entry of the declaration consists of a step's description, its variant, and its name
/// in a cost table, in snake_case.
macro_rules! steps {
    ($($(#[doc = $about:literal])+ $step:ident = $name:literal,)+) => {
        /// A kind of work that costs CPU time. The cost table of a simulated machine gives the cost of each step in
        /// nanoseconds. A step on a frame may cost more ([`crate::Machine::spend_on`]).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Step {
            $($(#[doc = $about])+ $step,)+
        }

        impl Step {
            /// Every step, in declaration order: `ALL[step as usize] == step`.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$step),+];

            /// Returns the name under which a cost table lists the step, in snake_case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$step => $name,)+
                }
            }

            /// Returns the description of the step, for pages and messages.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$step => concat!($($about),+),)+
                }
            }
        }
    };
}

steps! {
    /// Enter and leave the kernel for one read, write or sync.
    SyscallEntry = "syscall_entry",
    /// Enter and leave the page-fault handler.
    FaultEntry = "fault_entry",
    /// Change one page-table entry.
    PteSet = "pte_set",
    /// Take one task off a CPU, and put another on the CPU.
    ContextSwitch = "context_switch",
    /// Wake one task.
    Wake = "wake",
    /// Enter and leave an interrupt handler.
    InterruptEntry = "interrupt_entry",
    /// Take and release a lock without contention.
    LockAcquire = "lock_acquire",
    /// Pass a contended lock to another CPU: its cache line moves.
    LockHandover = "lock_handover",
    /// Compare one zone with a watermark.
    WatermarkCheck = "watermark_check",
    /// Take one page from a per-CPU list, or put one on it.
    AllocateFast = "allocate_fast",
    /// Take one block off a free list, or put one on it, splits and merges included.
    BuddyTake = "buddy_take",
    /// Fill 4 KiB with zeroes.
    ZeroPage = "zero_page",
    /// Copy 4 KiB.
    CopyPage = "copy_page",
    /// Look one page up in a file's index.
    IndexLookup = "index_lookup",
    /// Put one page into a file's index.
    IndexInsert = "index_insert",
    /// Take one page out of a file's index.
    IndexRemove = "index_remove",
    /// Store a shadow in the slot of one page, after the slot was emptied (which is a step of its own).
    ShadowStore = "shadow_store",
    /// Move one page from one LRU list to another, or put it on its first list, under the LRU lock.
    LruMove = "lru_move",
    /// Move one page to the tail of its LRU list, under the LRU lock, because its write ended.
    RotatePage = "rotate_page",
    /// Put one page into a per-CPU batch of pages to be rotated.
    BatchPage = "batch_page",
    /// Take or drop the reference that a per-CPU batch holds to one page.
    PageReference = "page_reference",
    /// Take one page off an LRU list for reclaim.
    IsolatePage = "isolate_page",
    /// Look at one isolated page: lock it, read its flags, and decide whether to free it.
    ScanPage = "scan_page",
    /// Find that no page table maps one page, so that there are no mappings to walk.
    ReferenceCheck = "reference_check",
    /// Walk the mappings of one page for accessed bits.
    ReferenceWalk = "reference_walk",
    /// Note one use of a page in its flags.
    MarkAccessed = "mark_accessed",
    /// Remove one mapping of a page and flush its translation.
    UnmapPage = "unmap_page",
    /// Free one page that was found clean: unlink it from the lists of its owner.
    FreePage = "free_page",
    /// Compute how much of each list of one zone to scan.
    ScanCount = "scan_count",
    /// Look at one swap slot, to allocate it or to free it.
    SwapSlot = "swap_slot",
    /// Prepare one page for a write in the file system, and finish the write: reserve a block, hold the journal.
    WriteBegin = "write_begin",
    /// Account one page as dirty or as clean.
    DirtyPage = "dirty_page",
    /// Enter the function that writes one page for reclaim: walk the page's buffers, and decide whether to write it.
    WritePage = "write_page",
    /// Account the start of one page's writeback.
    WritebackPage = "writeback_page",
    /// Add one page to a request.
    BioPage = "bio_page",
    /// Queue one request at a device.
    SubmitRequest = "submit_request",
    /// End the I/O of one page when its request has completed.
    EndPage = "end_page",
    /// Look at one object of a slab cache.
    SlabObject = "slab_object",
    /// Look at one item of a flusher's or kswapd's work list, or visit one control group in a walk over groups.
    WorkItem = "work_item",
    /// Look at the descriptor of one frame, in a scan of frames in order of their numbers.
    ScanFrame = "scan_frame",
    /// Move one page to another frame: a copy, two walks of its mappings and the change of its owner together.
    MigratePage = "migrate_page",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_every_step_at_its_own_index() {
        for (index, step) in Step::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, index, "{step:?}");
            assert!(step.about().ends_with('.'), "{step:?}");
        }
    }
}
