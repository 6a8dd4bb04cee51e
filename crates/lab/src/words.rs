//! Numbers in sentences, and why tasks wait.

use machine::WaitReason;
use std::fmt::Display;

/// "`1 run`", "`3 runs`".
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str) -> String {
    let many = if count == N::from(1) { "" } else { "s" };
    format!("{count} {one}{many}")
}

/// "`1 of 9 values differs`", "`3 of 9 values differ`".
pub fn differ(count: usize, all: usize) -> String {
    let s = if count == 1 { "s" } else { "" };
    format!("{count} of {} differ{s}", counted(all, "value"))
}

/// What a task waits for, behind a time: `for a page that another had locked`. The function that sleeps stands in brackets where a
/// kernel has a name for it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_no_s() {
        assert_eq!([0_u64, 1, 2].map(|n| counted(n, "run")), ["0 runs", "1 run", "2 runs"]);
        assert_eq!([1, 2].map(|n| differ(n, 9)), ["1 of 9 values differs", "2 of 9 values differ"]);
    }
}
