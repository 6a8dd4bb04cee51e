//! Versions of pages of files, by which a reader learns, without a latch, whether a page was changed since it was read.
//!
//! A version is a counter that a hash of file and page selects, so two pages may share one: a reader then takes a page
//! for changed that was not, never the other way round. A counter belongs to the page and not to its frame, so it says
//! the same after the page left memory and came back.
//!
//! *Order*: a writer raises the counter when it has the page's exclusive latch and has changed no byte yet. A reader
//! reads the counter, then takes the page's latch or a hazard pointer and reads bytes, and later reads the counter again.
//! If the counter is the same, no writer had the latch between the reader's latch and the second look. The model checker
//! loom checks this: the test `an_unchanged_version_means_unchanged_bytes`.

use machine::atomic::{AtomicU64, Ordering::SeqCst};

/// The versions of all pages of all files.
#[derive(Debug)]
pub struct Versions(Box<[AtomicU64]>);

impl Versions {
    /// Creates `count` counters, rounded up to a power of two. With a `count` of 0 there are no versions, and every
    /// version reads as 0.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let count = if count == 0 { 0 } else { count.next_power_of_two() };
        Self((0..count).map(|_| AtomicU64::new(0)).collect())
    }

    fn counter(&self, file: u32, page: u32) -> Option<&AtomicU64> {
        // Fibonacci hashing: the highest bits of the product depend on all bits of the factors.
        let hash = (u64::from(file) << 32 | u64::from(page)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.0.get(hash as usize & self.0.len().wrapping_sub(1))
    }

    /// Records that a page is about to be changed. The caller has the page's exclusive latch.
    #[inline]
    pub fn note(&self, file: u32, page: u32) {
        if let Some(counter) = self.counter(file, page) {
            counter.fetch_add(1, SeqCst);
        }
    }

    /// Returns the version of a page.
    #[inline]
    #[must_use]
    pub fn of(&self, file: u32, page: u32) -> u64 {
        self.counter(file, page).map_or(0, |counter| counter.load(SeqCst))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_by_its_page_and_by_few_others() {
        let versions = Versions::new(1000);
        assert_eq!(versions.0.len(), 1024);
        let before: Vec<u64> = (0..4096).map(|page| versions.of(7, page)).collect();
        versions.note(7, 99);
        let changed: Vec<u32> = (0..4096).filter(|page| versions.of(7, *page) != before[*page as usize]).collect();
        assert!(changed.contains(&99) && changed.len() < 16, "{changed:?}");
        let none = Versions::new(0);
        none.note(1, 1);
        assert_eq!(none.of(1, 1), 0);
    }
}
