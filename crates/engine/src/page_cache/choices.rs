//! Choices of `[page_cache]`: the locks of indexes.

use crate::choice::choices;

choices! {
    /// The lock of the index of a file, and of the index of the swap cache.
    [page_cache]

    /// The lock under which the index of a file or of the swap cache is changed.
    index_lock: IndexLock = PerPage, drawn 30 {
        /// The index's `i_pages` lock, which is taken for each page.
        PerPage,
        /// As `per-page`, but reclaim takes the lock once for all pages of one file that it meets one after another, up
        /// to a cluster of pages. This was proposed in 2012 and 2013, and was never merged (mechanisms/multigen, 9.2).
        ByFile,
        /// No lock of the index: one atomic step fills or empties a slot, and the page lock excludes conflicting
        /// operations.
        None,
    }
}
