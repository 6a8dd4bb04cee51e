//! Checksums of a device's blocks, kept in memory. A block that is read must have the contents that were last read from
//! or written to it.
//!
//! The checksum of a write is computed when the write is submitted. A task may change the page during the write, but
//! then makes it dirty, so the page is written once more. During the last write before the page leaves memory, the
//! bytes do not change; only after that write is the page read from the disk.

use engine::page_cache::segments::{Segments, UsedParts};
use machine::{BLOCK_BYTES, Request};
use std::sync::atomic::{AtomicU64, Ordering};

/// The bit that is set in a block's word if the block's checksum is known.
const KNOWN: u64 = 1 << 32;

/// The checksums of one device's blocks.
#[derive(Debug, Default)]
pub(super) struct Checksums {
    blocks: Segments<AtomicU64>,
    used: UsedParts,
    /// Number of blocks from the start of the file up to the last one whose checksum was ever recorded.
    end: AtomicU64,
}

impl Checksums {
    /// Records the checksum of a block's contents, `bytes`. If the system grants no memory for the checksum, it stays
    /// unknown.
    pub(super) fn note(&self, block: u64, bytes: &[u8; BLOCK_BYTES]) {
        let block = block as usize;
        if let Some(noted) = self.blocks.try_get_or_make(block).filter(|_| self.used.note(block).is_some()) {
            self.end.fetch_max(block as u64 + 1, Ordering::Relaxed);
            noted.store(word(bytes), Ordering::Relaxed);
        }
    }

    /// Returns whether the contents of a block, `bytes`, match its checksum. If no checksum is known, records the
    /// checksum of `bytes` and returns `true`.
    pub(super) fn verify(&self, block: u64, bytes: &[u8; BLOCK_BYTES]) -> bool {
        match self.blocks.get(block as usize).map_or(0, |noted| noted.load(Ordering::Relaxed)) {
            0 => {
                self.note(block, bytes);
                true
            }
            noted => noted == word(bytes),
        }
    }

    /// Forgets the checksums of the blocks of a request whose write failed.
    pub(super) fn forget(&self, request: &Request) {
        self.forget_range(request.block, request.block + request.frames.len() as u64);
    }

    /// Forgets the checksums of all blocks from `block` on, because the file was made shorter and these blocks are not
    /// read or written any more.
    pub(super) fn forget_from(&self, block: u64) {
        // `end` is lowered to `block`, so that the next call does not visit the forgotten blocks again.
        let end = self.end.fetch_min(block, Ordering::Relaxed);
        self.forget_range(block, end);
    }

    /// Forgets the checksums of the blocks from `start` up to `end`, whose contents are about to be replaced.
    pub(super) fn forget_range(&self, start: u64, end: u64) {
        for block in self.used.within(start as usize..end as usize).flatten() {
            if let Some(noted) = self.blocks.get(block) {
                noted.store(0, Ordering::Relaxed);
            }
        }
    }
}

fn word(bytes: &[u8; BLOCK_BYTES]) -> u64 {
    KNOWN | u64::from(crc32fast::hash(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_can_be_wrong() {
        let checksums = Checksums::default();
        let (zeroes, ones) = ([0; BLOCK_BYTES], [1; BLOCK_BYTES]);
        assert!(checksums.verify(7, &zeroes) && checksums.verify(7, &zeroes) && !checksums.verify(7, &ones));
        checksums.note(7, &ones);
        assert!(checksums.verify(7, &ones) && !checksums.verify(7, &zeroes));
        checksums.note(100, &ones);
        checksums.forget_from(8);
        assert!(checksums.verify(100, &zeroes) && !checksums.verify(7, &zeroes));
    }
}
