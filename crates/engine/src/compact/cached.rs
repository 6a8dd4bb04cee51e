//! Keeps, for each zone, where the two scanners of compaction (for pages to move and for free pages) stopped, and in
//! which pageblocks they found nothing (mechanisms/reclaim, 23.4).

use super::Compact;
use crate::memory::{PAGEBLOCK_ORDER, Zone, last_block};
use machine::Machine;
use machine::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

/// Number of pages in a pageblock.
pub(super) const BLOCK_PAGES: u32 = PAGEBLOCK_ORDER.pages() as u32;

/// Mark of a pageblock in which the scanner for pages to move found no page.
pub(super) const NOTHING_TO_MOVE: u8 = 1;
/// Mark of a pageblock in which the scanner for free pages found no page.
pub(super) const NOTHING_FREE: u8 = 2;

/// The cached start positions of the scanners that compact one zone, and the marks of the zone's pageblocks. A position
/// is a number of pages from the zone's start.
#[derive(Debug)]
pub(super) struct Cached {
    /// Position at which the scanner for pages to move starts, if `compact.start` is `Start::CachedBoth`.
    pub(super) migrate: AtomicU32,
    /// Position at which the next scan for free pages starts.
    pub(super) free: AtomicU32,
    /// The marks of each pageblock: [`NOTHING_TO_MOVE`], [`NOTHING_FREE`], both, or neither.
    blocks: Box<[AtomicU8]>,
    /// `true` if a task other than kswapd has compacted, and its scanners have passed through the whole zone, since the
    /// marks were last cleared.
    pub(super) is_scanned: AtomicBool,
}

impl Cached {
    /// Creates the positions and marks of a zone that was not scanned yet. The scanner for free pages starts at
    /// `first_free`.
    pub(super) fn new<M: Machine>(zone: &Zone<M>, first_free: u32) -> Self {
        let blocks = zone.spanned.div_ceil(u64::from(BLOCK_PAGES));
        Self {
            migrate: AtomicU32::new(0),
            free: AtomicU32::new(first_free),
            blocks: (0..blocks).map(|_| AtomicU8::new(0)).collect(),
            is_scanned: AtomicBool::new(false),
        }
    }

    /// Returns whether the pageblock that contains page `at` of the zone has the mark `mark`. A scanner of compaction
    /// sets its mark, [`NOTHING_TO_MOVE`] or [`NOTHING_FREE`], when it finds nothing in a pageblock.
    pub(super) fn is_marked(&self, at: u32, mark: u8) -> bool {
        self.blocks[(at / BLOCK_PAGES) as usize].load(Relaxed) & mark != 0
    }

    pub(super) fn mark(&self, at: u32, mark: u8) {
        self.blocks[(at / BLOCK_PAGES) as usize].fetch_or(mark, Relaxed);
    }
}

impl<M: Machine> Compact<M> {
    /// Clears the marks of all pageblocks in which a scanner found nothing. Both scanners then start at the ends of the
    /// zone again.
    #[doc(alias = "reset_isolation_suitable")]
    pub(super) fn forget_marks(&self, zone: &Zone<M>) {
        let cached = &self.state(zone).cached;
        cached.migrate.store(0, Relaxed);
        cached.free.store(last_block(zone), Relaxed);
        cached.blocks.iter().for_each(|block| block.store(0, Relaxed));
        cached.is_scanned.store(false, Relaxed);
    }

    /// Clears the marks of the zone's pageblocks in which a scanner found nothing, if the scanners of a compaction by a
    /// task other than kswapd have passed through the whole zone since the last time. Kswapd calls this when it goes to
    /// sleep.
    pub fn note_kswapd_sleeps(&self, zone: &Zone<M>) {
        if self.state(zone).cached.is_scanned.load(Relaxed) {
            self.forget_marks(zone);
        }
    }
}
