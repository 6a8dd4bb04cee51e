//! Tags of a file's pages, found in file order without a walk over the file.
//!
//! A tag has a bit for each page; 64 bits are a *word*. Above the words is a tower of counts. A *place* is a word or a
//! count. Each count is the number of non-zero places among the [`FAN_OUT`] places below it. A search skips a place
//! with a count of zero, so its cost grows with the number of tagged pages, not with the length of the file. The tags
//! of one file share the tower.
//!
//! *Order*: no lock is taken, and a search never misses a tagged page. The count above a place is raised before the
//! place stops being zero, and lowered after it is zero again. So at each moment a count is at least the number of
//! non-zero places below it. A tower of bits could not guarantee this. One task clears a bit of the tower and then
//! searches below it again; meanwhile another task may tag a page there after it found the bit still set. Searches
//! would then miss the page until the first task sets the bit again. The model checker loom checks the tower of counts:
//! the test `a_tagged_page_is_never_hidden` and the tests beside it. All steps are sequentially consistent, because
//! `File::is_listed` needs this.

use super::segments::Segments;
use machine::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::ops::Range;

/// A tag that a page of a file may have. A search returns the pages with a given tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The page's contents are newer than those on the device, and the flusher has to write them.
    Dirty,
    /// The page is being written to the device.
    Writeback,
    /// The page's contents are newer than those on the device, and their last write failed.
    WriteFailed,
}

impl Tag {
    /// All tags.
    pub(super) const ALL: [Self; 3] = [Self::Dirty, Self::Writeback, Self::WriteFailed];
}

/// Number of pages whose bits for a tag share one word.
const WORD_PAGES: usize = u64::BITS as usize;
/// Number of places below one count. On the lowest floor of the tower, these places are words; on a higher floor, they
/// are counts of the next lower floor. The value of a count is the number of these places that are not 0.
const FAN_OUT: usize = 64;
/// Number of levels (*floors*) of counts above the words of bits. A count of the highest floor covers 64 GiB of a file,
/// and the largest file has 256 counts of this floor.
const FLOORS: usize = 3;

/// Returns the number of words that one count covers on level `floor` of the tower of counts. A word has the bits of a
/// tag for 64 pages. Level 0 is the lowest.
#[inline]
const fn words_of(floor: usize) -> usize {
    FAN_OUT.pow(floor as u32 + 1)
}

/// The tags of one file's pages.
#[derive(Debug, Default)]
pub(super) struct Tags {
    words: [Segments<AtomicU64>; Tag::ALL.len()],
    tower: [Segments<AtomicU32>; FLOORS],
}

impl Tags {
    /// Allocates the memory for the tags of a page. Returns `false` if the system does not grant the memory.
    #[inline]
    pub fn prepare(&self, page: u32) -> bool {
        let word = page as usize / WORD_PAGES;
        let has_words = self.words.iter().all(|words| words.try_get_or_make(word).is_some());
        let mut floors = self.tower.iter().enumerate();
        has_words && floors.all(|(floor, counts)| counts.try_get_or_make(word / words_of(floor)).is_some())
    }

    fn word(&self, page: u32, tag: Tag) -> Option<&AtomicU64> {
        self.words[tag as usize].get(page as usize / WORD_PAGES)
    }

    /// Tags a page.
    ///
    /// # Panics
    /// Panics when there is no memory for the tag; see [`Tags::prepare`].
    pub fn set(&self, page: u32, tag: Tag) {
        let (at, bit) = (page as usize / WORD_PAGES, bit_of(page));
        let word = self.words[tag as usize].get_or_make(at);
        let mut bits = word.load(SeqCst);
        while bits & bit == 0 {
            // A word that is not zero is counted above, and stays counted as long as it is not zero.
            if bits == 0 {
                self.count(0, at / FAN_OUT);
            }
            match word.compare_exchange(bits, bits | bit, SeqCst, SeqCst) {
                Ok(_) => return,
                Err(now) => {
                    if bits == 0 {
                        self.discount(0, at / FAN_OUT);
                    }
                    bits = now;
                }
            }
        }
    }

    /// Removes a tag from a page.
    pub fn clear(&self, page: u32, tag: Tag) {
        let bit = bit_of(page);
        // Most pages do not have the tag, and a load costs less than a locked step.
        if let Some(word) = self.word(page, tag)
            && word.load(SeqCst) & bit != 0
            && word.fetch_and(!bit, SeqCst) == bit
        {
            self.discount(0, page as usize / WORD_PAGES / FAN_OUT);
        }
    }

    /// Returns whether the page has the tag.
    pub fn has(&self, page: u32, tag: Tag) -> bool {
        self.word(page, tag).is_some_and(|word| word.load(SeqCst) & bit_of(page) != 0)
    }

    /// Returns the first page with the tag `tag` in a range of pages; `None` if no page of the range has the tag.
    pub fn first(&self, pages: Range<u32>, tag: Tag) -> Option<u32> {
        self.search(pages, tag, |_| ())
    }

    /// Searches as [`Tags::first`] does, and reports each step of the search by a call of `visit`.
    #[inline]
    fn search(&self, pages: Range<u32>, tag: Tag, mut visit: impl FnMut(Visit)) -> Option<u32> {
        let (start, end) = (pages.start as usize / WORD_PAGES, (pages.end as usize).div_ceil(WORD_PAGES));
        let words = &self.words[tag as usize];
        let mut at = start;
        while at < end {
            let enters = |floor: &usize| at == start || at.is_multiple_of(words_of(*floor));
            // The widest count is tried first. If it is zero, everything below it is skipped.
            if let Some(floor) = (0..FLOORS).rev().filter(enters).find(|floor| self.is_empty(*floor, at)) {
                visit(Visit::Skip);
                at = (at / words_of(floor) + 1) * words_of(floor);
                continue;
            }
            visit(Visit::Word);
            let mask = if at == start { u64::MAX << (pages.start as usize % WORD_PAGES) } else { u64::MAX };
            let bits = words.get(at).map_or(0, |word| word.load(SeqCst)) & mask;
            if bits != 0 {
                let page = at as u32 * WORD_PAGES as u32 + bits.trailing_zeros();
                return Some(page).filter(|page| *page < pages.end);
            }
            at += 1;
        }
        None
    }

    /// Returns whether the count on floor (level) `floor` that covers the word `word` is zero, so that none of the
    /// pages under this count is tagged.
    fn is_empty(&self, floor: usize, word: usize) -> bool {
        self.tower[floor].get(word / words_of(floor)).is_none_or(|count| count.load(SeqCst) == 0)
    }

    /// Adds 1 to the count number `at` on level `floor` of the tower, because a word or count below it is about to
    /// become non-zero.
    fn count(&self, floor: usize, at: usize) {
        let count = self.tower[floor].get_or_make(at);
        let above = floor + 1 < FLOORS;
        let mut n = count.load(SeqCst);
        loop {
            // As in `set`: a count that is not zero is itself counted above.
            if n == 0 && above {
                self.count(floor + 1, at / FAN_OUT);
            }
            match count.compare_exchange(n, n + 1, SeqCst, SeqCst) {
                Ok(_) => return,
                Err(now) => {
                    if n == 0 && above {
                        self.discount(floor + 1, at / FAN_OUT);
                    }
                    n = now;
                }
            }
        }
    }

    /// Subtracts 1 from count `at` of floor `floor`. This is done in two cases: a place that the count covers has
    /// become zero; or this task has counted a place as non-zero that another task made non-zero, and counted, first.
    fn discount(&self, floor: usize, at: usize) {
        let is_zero = self.tower[floor].get_or_make(at).fetch_sub(1, SeqCst) == 1;
        if is_zero && floor + 1 < FLOORS {
            self.discount(floor + 1, at / FAN_OUT);
        }
    }

    /// Returns the sum of all counts on the highest floor (level) of the tower of counts. The sum is 0 if no page of
    /// the file is tagged.
    #[cfg(test)]
    pub fn counted(&self) -> u32 {
        let highest = &self.tower[FLOORS - 1];
        (0..FAN_OUT * FAN_OUT).filter_map(|at| highest.get(at)).map(|count| count.load(SeqCst)).sum()
    }
}

/// A step of a search for a tag. Tests count the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visit {
    /// The search has skipped all words below a count of zero.
    Skip,
    /// The search has read a word.
    Word,
}

/// Returns the bit that stands for a page, as a mask, in the word of the tag that has this bit.
const fn bit_of(page: u32) -> u64 {
    1 << (page as usize % WORD_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Page numbers for tests: 0, numbers near the largest page number, and numbers at or beside the first page of a
    /// word or of the range of a count.
    const PAGES: [u32; 16] = [
        0,
        1,
        63,
        64,
        4095,
        4096,
        4097,
        262_143,
        262_144,
        1 << 24,
        (1 << 24) + 64,
        (1 << 24) - 1,
        3 << 24,
        u32::MAX - 4096,
        u32::MAX - 64,
        u32::MAX - 1,
    ];

    #[test]
    fn tags_match_naive() {
        let tags = Tags::default();
        let mut naive: [BTreeSet<u32>; 3] = Default::default();
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (page, tag) = (PAGES[(state >> 33) as usize % PAGES.len()], Tag::ALL[(state >> 40) as usize % 3]);
            let end = PAGES[(state >> 50) as usize % PAGES.len()];
            assert!(tags.prepare(page));
            match (state >> 60) % 4 {
                0 => {
                    tags.set(page, tag);
                    naive[tag as usize].insert(page);
                }
                1 => {
                    tags.clear(page, tag);
                    naive[tag as usize].remove(&page);
                }
                _ if page < end => {
                    assert_eq!(tags.first(page..end, tag), naive[tag as usize].range(page..end).next().copied());
                }
                _ => {}
            }
            assert_eq!(tags.has(page, tag), naive[tag as usize].contains(&page));
        }
        for (page, tag) in PAGES.iter().flat_map(|page| Tag::ALL.map(|tag| (*page, tag))) {
            tags.clear(page, tag);
        }
        assert_eq!(tags.counted(), 0, "a count stayed behind");
    }

    /// A sync of a file in which a single page is dirty reads as many words in a file of 64 GiB, all pages of which have
    /// been dirty, as in one of 0.25 GiB. The number of skips grows by at most a floor of the tower.
    #[test]
    fn a_search_for_one_page_reads_as_many_words_in_a_long_file() {
        let cost = |pages: u32| {
            let tags = Tags::default();
            for page in (0..pages).step_by(WORD_PAGES) {
                assert!(tags.prepare(page));
                tags.set(page, Tag::Dirty);
                tags.clear(page, Tag::Dirty);
            }
            tags.set(pages - 1, Tag::Dirty);
            let (mut words, mut skips) = (0, 0);
            let mut visit = |visit| match visit {
                Visit::Word => words += 1,
                Visit::Skip => skips += 1,
            };
            assert_eq!(tags.search(0..u32::MAX, Tag::Dirty, &mut visit), Some(pages - 1));
            assert_eq!(tags.search(pages..u32::MAX, Tag::Dirty, &mut visit), None);
            (words, skips)
        };
        let (short, long) = (cost(1 << 16), cost(1 << 24));
        assert_eq!(short.0, FAN_OUT);
        assert_eq!(long.0, short.0);
        assert!(long.1 <= short.1 + 3 * FAN_OUT, "{short:?} {long:?}");
    }

    /// Each of several threads repeatedly tags a page of its own. Some of the pages share a word of bits, and some only
    /// a count above the words. After each tagging, a search must find the page at once.
    #[test]
    fn whoever_tagged_a_page_finds_it() {
        let tags = Tags::default();
        std::thread::scope(|scope| {
            for own in [5, 6, 64, 4096, 1 << 24] {
                let tags = &tags;
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        tags.set(own, Tag::Dirty);
                        assert_eq!(tags.first(own..u32::MAX, Tag::Dirty), Some(own));
                        tags.clear(own, Tag::Dirty);
                    }
                });
            }
        });
        assert_eq!((tags.first(0..u32::MAX, Tag::Dirty), tags.counted()), (None, 0));
    }
}
