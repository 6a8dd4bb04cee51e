//! The batches in which a scan passes pages to reclaim.

use super::CLUSTER;
use crate::lru::Family;
use arrayvec::ArrayVec;
use machine::{FrameNumber, Order};
use std::ops::Deref;

/// Largest number of pages that a batch can hold without allocated memory.
const FEW: usize = 2 * CLUSTER as usize;

/// The pages of a batch; a huge page is one entry, its head. A batch has more than [`FEW`] entries only if whole
/// aligned blocks of pages are taken.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a batch of a few pages takes no memory of its own")]
pub(crate) enum Entries {
    /// At most [`FEW`] pages, stored in the value itself, without an allocation.
    Few(ArrayVec<FrameNumber, FEW>),
    /// The pages, however many, in a vector. A batch moves here when it outgrows [`Self::Few`].
    Many(Vec<FrameNumber>),
}

impl Default for Entries {
    fn default() -> Self {
        Self::Few(ArrayVec::new())
    }
}

impl Deref for Entries {
    type Target = [FrameNumber];
    #[inline]
    fn deref(&self) -> &[FrameNumber] {
        match self {
            Self::Few(pages) => pages,
            Self::Many(pages) => pages,
        }
    }
}

impl Entries {
    /// Adds a page at the end.
    pub(crate) fn push(&mut self, page: FrameNumber) {
        self.add(&[page]);
    }

    /// Appends the pages `more`.
    pub(crate) fn add(&mut self, more: &[FrameNumber]) {
        match self {
            Self::Few(pages) => {
                if pages.try_extend_from_slice(more).is_err() {
                    *self = Self::Many([pages.as_slice(), more].concat());
                }
            }
            Self::Many(pages) => pages.extend_from_slice(more),
        }
    }

    /// Keeps the pages for which `stays` returns `true`.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(FrameNumber) -> bool) {
        match self {
            Self::Few(pages) => pages.retain(|page| stays(*page)),
            Self::Many(pages) => pages.retain(|page| stays(*page)),
        }
    }
}

/// The rules by which reclaim takes aligned blocks of pages off lists: together with a page, the other pages of its
/// block are taken, as far as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The order of a block.
    pub order: Order,
    /// `true` if a block's pages are taken whichever lists they are on; `false` if only those pages are taken that are
    /// on the same list as the page with which the block was found.
    pub any_list: bool,
    /// `true` if the search in a block ends at the first page that cannot be taken; `false` if the search skips this
    /// page and goes on.
    pub ends_at_gap: bool,
}

/// Pages that were taken off LRU lists for reclaim. The batch holds one reference to each of them.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The pages of the batch, which reclaim has taken off LRU lists.
    pub(crate) entries: Entries,
    /// Number of the batch's pages in each family (anonymous and file pages). A huge page counts with all its pages.
    pub(in crate::lru) by_family: [u64; Family::ALL.len()],
    /// Number of pages that were scanned to find the batch's pages.
    pub(in crate::lru) scanned: u64,
    /// Number of pages that `pgscan` counts for this batch.
    pub(crate) counted: u64,
    /// Number of scanned pages that must be written before they can be freed.
    pub(crate) to_write: u64,
    /// `true` if, for each page of an inactive list, the other pages of its aligned block were taken, too, because a
    /// request of a higher order needs a whole block.
    pub(crate) has_blocks: bool,
    /// `true` if reclaim wakes the flushers when all pages of the batch are dirty, because the pages cannot be freed
    /// before they are written.
    pub(crate) tells_flushers: bool,
    /// `true` if the task was killed while it waited for other tasks to put pages back. The killed task's own pages
    /// will soon be free.
    pub(crate) is_dying: bool,
}

impl Batch {
    /// Creates a batch of entries of one family. `pages` is the number of pages in the entries; `scanned` is the number
    /// of pages that were examined to find them.
    pub(in crate::lru) fn new(family: Family, entries: Entries, pages: u64, scanned: u64) -> Self {
        let by_family = Family::ALL.map(|other| if other == family { pages } else { 0 });
        Self {
            entries,
            by_family,
            scanned,
            counted: scanned,
            to_write: 0,
            has_blocks: false,
            tells_flushers: false,
            is_dying: false,
        }
    }

    /// Returns an empty batch, for a task that was killed.
    pub(in crate::lru) fn of_dying(family: Family) -> Self {
        Self { is_dying: true, ..Self::new(family, Entries::default(), 0, 0) }
    }

    /// Returns the families that have pages in the batch, each with its number of pages.
    pub(in crate::lru) fn families(&self) -> impl Iterator<Item = (Family, u64)> + use<> {
        let by_family = self.by_family;
        Family::ALL.into_iter().map(move |family| (family, by_family[family as usize])).filter(|(_, pages)| *pages > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_pages_and_many_keep_their_order() {
        let mut entries = Entries::default();
        let pages: Vec<FrameNumber> = (0..FEW as u32).map(FrameNumber).collect();
        entries.add(&pages);
        assert!(matches!(entries, Entries::Few(_)));
        entries.push(FrameNumber(99));
        entries.add(&[FrameNumber(100), FrameNumber(101)]);
        assert!(matches!(entries, Entries::Many(_)));
        entries.retain(|page| page.0 >= 62 && page.0 != 100);
        assert_eq!(entries[..], [62, 63, 99, 101].map(FrameNumber));
    }
}
