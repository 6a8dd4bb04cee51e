//! Words for the reasons why tasks wait.

use machine::WaitReason;

/// Returns words for the reason of a wait, such as `for a page that another had locked`. Callers put them after a
/// duration. If tasks wait for this reason in a certain function of the Linux kernel, the function's name is added in
/// brackets.
#[must_use]
pub const fn wait(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::PageLock => "for a page that another had locked",
        WaitReason::PageIo => "for the I/O of a page",
        WaitReason::PageWriteback => "for a page that was being written",
        WaitReason::PageLatch => "for a page whose bytes others read or changed",
        WaitReason::FileWriteback => "until another had written the same file back",
        WaitReason::DeviceQueue => "for a place in a disk's queue",
        WaitReason::DirtyLimit => "until less was dirty (balance_dirty_pages)",
        WaitReason::RefusedWrites => "because pages of the file could not be written",
        WaitReason::FruitlessReclaim => "before it tried again, because its reclaims had freed nothing",
        WaitReason::Retry => "for a disk's queue, before it tried again (congestion_wait)",
        WaitReason::OomKill => "for the memory of a process that was killed (out_of_memory)",
        WaitReason::DirectReclaimers => "because as many tasks as may reclaimed already (throttle_direct_reclaim)",
        WaitReason::Reserve => "because the reserve was used up (throttle_direct_reclaim)",
        WaitReason::Isolated => "because other reclaimers held too many pages of a list (too_many_isolated)",
        WaitReason::VmWriteout => "because more was being written than may be (throttle_vm_writeout)",
        WaitReason::ReclaimPass => "for a disk's queue, between passes of reclaim (congestion_wait)",
        WaitReason::UnwrittenPages => "because reclaim met pages that waited to be written",
        WaitReason::NoProgress => "because reclaim made no progress or the zone was congested (reclaim_throttle)",
        WaitReason::Generation => "for others that were ageing the same generation",
    }
}
