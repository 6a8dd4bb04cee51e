//! Notes: reports of tasks on their waits for memory, for machines that keep records. On other machines, notes cost
//! nothing.

use crate::{DeviceId, Nanos, Observe, Order};

/// Numbers of the pages that a reclaim scanned, by their fate: freed, or kept for one of several reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Pages that were freed.
    pub freed: u64,
    /// Number of scanned pages whose lock another task held.
    pub locked: u64,
    /// Number of scanned pages that were under writeback.
    pub under_writeback: u64,
    /// Number of dirty pages that this reclaim left for the flusher to write.
    pub dirty: u64,
    /// Dirty pages that this reclaim began to write.
    pub written: u64,
    /// Pages that were kept because they had been used lately.
    pub used: u64,
    /// Anonymous pages for which swap had no free slot, or which the reclaiming task may not swap out.
    pub not_swappable: u64,
    /// Mapped pages that could not be unmapped, or that the reclaiming task may not unmap.
    pub mapped: u64,
    /// Pages that were kept because they had an unexpected number of references: a reader held one, or the page had
    /// just lost its owner.
    pub held: u64,
    /// Pages whose last write failed.
    pub write_failed: u64,
}

impl Met {
    /// Adds the page counts of another reclaim, `other`, to those of `self`.
    pub const fn add(&mut self, other: &Self) {
        self.freed += other.freed;
        self.locked += other.locked;
        self.under_writeback += other.under_writeback;
        self.dirty += other.dirty;
        self.written += other.written;
        self.used += other.used;
        self.not_swappable += other.not_swappable;
        self.mapped += other.mapped;
        self.held += other.held;
        self.write_failed += other.write_failed;
    }
}

/// The work that the slow path did to get the pages of a request for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Number of direct reclaims that the request made.
    pub reclaims: u64,
    /// Number of direct compactions that the request made.
    pub compactions: u64,
    /// Number of pages that the reclaims of the request scanned. Pages that are mapped or in the swap cache count
    /// twice.
    pub scanned: u64,
    /// Number of pages that the reclaims of the request freed, including pages of slabs.
    pub freed: u64,
    /// The priority of the last reclaim: at priority 12, a reclaim scans 1/4096 of each list; at priority 0, it scans
    /// all of each list.
    pub priority: u32,
    /// Numbers of scanned pages, by their fate, summed over the reclaims that the request made.
    pub met: Met,
}

/// A note on a request for memory that took the slow path of allocation. The task records the note when the request
/// ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// The time at which the request entered the slow path.
    pub began: Nanos,
    /// Order of the request.
    pub order: Order,
    /// The allocation flags (gfp) of the request, in words: `movable, wait, io, fs`.
    pub gfp: String,
    /// Name of the zone that the request tried first.
    pub zone: String,
    /// `true` if the request got its pages.
    pub is_served: bool,
    /// The work that was done for the request.
    pub work: Work,
}

/// A note on the wait of a writer that was throttled because too many pages were dirty. The writer records the note
/// when the wait ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// The time at which the throttling began.
    pub began: Nanos,
    /// The device that the writer writes to.
    pub device: DeviceId,
    /// Number of pages that were dirty or under writeback when the throttling began.
    pub dirty_pages: u64,
    /// Largest number of pages that may be dirty or under writeback.
    pub limit_pages: u64,
}

/// A note that a task records at the end of a wait for memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A request of the task for memory took the slow path: the task reclaimed, compacted or waited.
    SlowRequest(SlowRequest),
    /// The task was throttled because too many pages were dirty.
    HeldBack(HeldBack),
}

/// The reason why a task sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitReason {
    /// Another task has the page lock.
    PageLock,
    /// A page that the task wants to use is still being read, or a transfer of direct I/O that the task has begun has
    /// not ended.
    PageIo,
    /// A page that the task needs is still being written to its device.
    PageWriteback,
    /// Other tasks have the latch of a page, to read or change its bytes.
    PageLatch,
    /// Another task is writing back the same file.
    FileWriteback,
    /// A device's queue has no free place.
    DeviceQueue,
    /// Too many pages are dirty. The task, which writes, pauses or waits until some of them have been written.
    DirtyLimit,
    /// The dirty pages of a file cannot be written at present. The task waits before it makes more pages of the file
    /// dirty.
    RefusedWrites,
    /// The reclaims of a request for memory freed nothing. The task pauses before it tries again.
    FruitlessReclaim,
    /// A request for memory got no page after a reclaim. The task waits until a device's queue has a free place, and
    /// tries again.
    Retry,
    /// Memory is exhausted. The task waits for the memory of a process that was killed.
    OomKill,
    /// The largest allowed number of tasks is already in direct reclaim.
    DirectReclaimers,
    /// The memory reserve for reclaim is used up. The task waits until memory has been freed
    /// (`throttle_direct_reclaim`).
    Reserve,
    /// Other reclaiming tasks have isolated too many pages of an LRU list.
    Isolated,
    /// More pages are under writeback than reclaim allows (`throttle_vm_writeout`).
    VmWriteout,
    /// The task (kswapd, or a task in direct reclaim) has finished a pass over the zones, and waits until a device's
    /// queue has a free place before it begins the next pass.
    ReclaimPass,
    /// The task's reclaim met dirty pages, or pages under writeback. The task waits until pages have been written.
    UnwrittenPages,
    /// The task's direct reclaim freed nothing although it scanned a large part of the LRU lists (priority near 0), or
    /// it scanned a zone that is marked as congested. The task pauses for a tick.
    NoProgress,
    /// Other tasks are ageing the pages (multi-generational LRU). The task waits for the new generation.
    Generation,
}

impl WaitReason {
    /// Returns whether Linux counts the wait as a wait for block I/O (`iowait`).
    #[must_use]
    pub const fn is_io(self) -> bool {
        matches!(
            self,
            Self::PageLock | Self::PageIo | Self::PageWriteback | Self::DeviceQueue | Self::DirtyLimit | Self::Retry
        )
    }
}

/// A guard for a wait of the calling task. If the task sleeps while the guard exists, the machine knows the reason,
/// which the guard has told it ([`Observe::note_wait`]). Guards are not nested: only the code that sleeps makes one.
#[must_use = "the wait ends at once"]
pub struct Waiting<'a, O: Observe>(&'a O);

impl<'a, O: Observe> Waiting<'a, O> {
    /// Makes the guard of a wait, and tells the machine the reason.
    pub fn begin(machine: &'a O, reason: WaitReason) -> Self {
        machine.note_wait(Some(reason));
        Self(machine)
    }
}

impl<O: Observe> Drop for Waiting<'_, O> {
    #[inline]
    fn drop(&mut self) {
        self.0.note_wait(None);
    }
}

/// A guard that tells the machine that the calling task is stalled for lack of memory, until the guard is dropped
/// ([`Observe::note_stall`]).
#[must_use = "the stall ends at once"]
pub struct Stalled<'a, O: Observe>(&'a O);

impl<'a, O: Observe> Stalled<'a, O> {
    /// Makes the guard of a stall, and tells the machine that the stall begins.
    pub fn begin(machine: &'a O) -> Self {
        machine.note_stall(true);
        Self(machine)
    }
}

impl<O: Observe> Drop for Stalled<'_, O> {
    #[inline]
    fn drop(&mut self) {
        self.0.note_stall(false);
    }
}
