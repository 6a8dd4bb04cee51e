//! Choices of `[page_cache]`: who may change an index.

use crate::choice::choices;

choices! {
    /// Who may change an index.
    [page_cache]

    /// Who may change the index of a file or of the swap cache.
    index_lock: IndexLock = PerPage, drawn 30 {
        /// The holder of its `i_pages` lock, which is taken for each page.
        PerPage,
        /// The same; but reclaim takes it once for pages of one file that it meets one after another, a cluster at most. Proposed in
        /// 2012 and 2013, never merged (mechanisms/multigen, 9.2).
        ByFile,
        /// The owner of the page lock: one atomic step fills or empties a slot, and the page lock excludes conflicting
        /// operations.
        None,
    }
}
