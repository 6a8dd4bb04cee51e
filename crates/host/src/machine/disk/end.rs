//! The end of a file as its owner (the code above the device) expects it, and the bytes that other processes have
//! truncated.
//!
//! The owner sets the expected length ([`End::expect`]), and so does each completed write. If the system reports a
//! smaller length, another process has truncated the file. The lost bytes are remembered by block until the owner
//! writes them again or truncates the file itself. They must be remembered because a later write at a higher offset
//! extends the file again, and the lost bytes are then a hole, which the system reads as zeroes.

use machine::{BLOCK_BYTES, Request};
use parking_lot::Mutex;
use rangemap::RangeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The length of one file as far as the machine knows it, and the blocks that other processes have cut off.
#[derive(Debug, Default)]
pub(super) struct End {
    /// The expected length: the file has at least this number of bytes, unless another process has truncated it.
    expected: AtomicU64,
    /// Number of changes of `expected` that had another cause than a write.
    changes: AtomicU32,
    /// Blocks that were lost because another process truncated the file.
    lost: Mutex<RangeSet<u64>>,
    has_lost: AtomicBool,
    /// Number of times that the file was found truncated by another process.
    cuts: AtomicU32,
}

impl End {
    /// Returns the number of times that this machine found the file truncated by another process. A write reads this
    /// number before it begins, and passes it to [`End::note_written`].
    pub(super) fn cuts(&self) -> u32 {
        self.cuts.load(Ordering::SeqCst)
    }

    /// Returns the expected length: the file has at least this number of bytes, unless another process has truncated
    /// it.
    pub(super) fn expected(&self) -> u64 {
        self.expected.load(Ordering::SeqCst)
    }

    /// Returns how often the expected length was changed other than by a write. A caller reads this number before and
    /// after it reads the expected length and the file's present length. If the number is the same, both lengths belong
    /// to one point in time.
    pub(super) fn changes(&self) -> u32 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Sets the expected number of bytes of the file to `bytes`.
    pub(super) fn expect(&self, bytes: u64) {
        self.expected.store(bytes, Ordering::SeqCst);
        self.end_change(bytes);
    }

    /// Lowers the expected number of bytes of the file to `bytes`. Does nothing if the expected number is not larger
    /// than `bytes`.
    pub(super) fn expect_at_most(&self, bytes: u64) {
        self.expected.fetch_min(bytes, Ordering::SeqCst);
        self.end_change(bytes);
    }

    fn end_change(&self, bytes: u64) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        // Bytes that the owner truncates do not count as lost.
        self.forget_lost(bytes.div_ceil(BLOCK_BYTES as u64)..u64::MAX);
    }

    /// Records that `blocks` were written and that the file has at least `bytes` bytes. Blocks that another process had
    /// cut off by truncating the file (lost blocks) are no longer lost once they are written again. They stay lost if
    /// another truncation was noticed since the write began, because it may have come after the write. `cuts_before` is
    /// the number of truncations that had been noticed before the write.
    pub(super) fn note_written(&self, blocks: Range<u64>, bytes: u64, cuts_before: u32) {
        if self.expected.load(Ordering::Relaxed) < bytes {
            self.expected.fetch_max(bytes, Ordering::SeqCst);
        }
        if self.has_lost.load(Ordering::SeqCst) && !blocks.is_empty() {
            let mut lost = self.lost.lock();
            if self.cuts() == cuts_before {
                lost.remove(blocks);
            }
        }
    }

    /// Forgets that blocks were lost, because the owner replaces their contents.
    pub(super) fn forget_lost(&self, blocks: Range<u64>) {
        if self.has_lost.load(Ordering::SeqCst) && !blocks.is_empty() {
            self.lost.lock().remove(blocks);
        }
    }

    /// Notes that another process has truncated the file: the file ends at byte `now` instead of `expected`, and the
    /// bytes between are lost. Returns `false`, without noting anything, if the expected end has changed meanwhile; the
    /// caller then compares the ends again.
    pub(super) fn note_cut(&self, now: u64, expected: u64) -> bool {
        let mut lost = self.lost.lock();
        if self.expected.compare_exchange(expected, now, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return false;
        }
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.cuts.fetch_add(1, Ordering::SeqCst);
        lost.insert(now / BLOCK_BYTES as u64..expected.div_ceil(BLOCK_BYTES as u64));
        self.has_lost.store(true, Ordering::SeqCst);
        true
    }

    /// Finds the first block of the request that was lost because another process truncated the file. Returns the range
    /// of lost bytes around this block; `None` if no block was lost.
    #[inline]
    pub(super) fn lost_in(&self, request: &Request) -> Option<Range<u64>> {
        if self.has_lost.load(Ordering::SeqCst) { self.find_lost(request) } else { None }
    }

    #[cold]
    fn find_lost(&self, request: &Request) -> Option<Range<u64>> {
        let lost = self.lost.lock();
        let blocks = lost.overlapping(request.block..request.block + request.frames.len() as u64).next()?;
        Some(blocks.start * BLOCK_BYTES as u64..blocks.end * BLOCK_BYTES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{DeviceId, FrameNumber, Operation};

    #[test]
    fn what_others_cut_off_is_lost_until_it_is_written_or_cut_off_by_the_owner() {
        const PAGE: u64 = BLOCK_BYTES as u64;
        let end = End::default();
        let lost = |blocks: Range<u64>| {
            let frames = blocks.clone().map(|block| FrameNumber(block as u32)).collect();
            let (device, operation) = (DeviceId(0), Operation::Read);
            end.lost_in(&Request { device, operation, block: blocks.start, frames, is_sync: true })
        };
        end.expect(10 * PAGE);
        assert!(!end.note_cut(2 * PAGE, 9 * PAGE) && lost(0..20).is_none());
        let cuts_before = end.cuts();
        assert!(end.note_cut(2 * PAGE + 100, 10 * PAGE));
        // A write that began before the truncation may have reached the disk before it, so the block stays lost.
        end.note_written(5..6, 2 * PAGE, cuts_before);
        assert_eq!((lost(0..2), lost(1..3), lost(9..10)), (None, Some(2 * PAGE..10 * PAGE), Some(2 * PAGE..10 * PAGE)));
        assert_eq!(end.expected(), 2 * PAGE + 100);
        // A write behind the lost range changes nothing; a write within it divides it.
        end.note_written(20..21, 20 * PAGE + 50, end.cuts());
        assert!(lost(5..6).is_some());
        end.note_written(5..6, 6 * PAGE, end.cuts());
        assert_eq!((lost(2..5), lost(5..6), lost(6..7)), (Some(2 * PAGE..5 * PAGE), None, Some(6 * PAGE..10 * PAGE)));
        assert_eq!(end.expected(), 20 * PAGE + 50);
        end.expect_at_most(7 * PAGE - 1);
        end.expect(30 * PAGE);
        assert_eq!((lost(6..7), lost(7..30)), (Some(6 * PAGE..7 * PAGE), None));
    }
}
