//! Choices of `[page_cache]`: who may change an index.

use serde::{Deserialize, Serialize};

/// Who may change the index of a file or of the swap cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexLock {
    /// The holder of its `i_pages` lock, which is taken for each page.
    #[default]
    PerPage,
    /// The owner of the page lock: one atomic step fills or empties a slot, and the page lock excludes conflicting
    /// operations.
    None,
}

/// The section `[page_cache]` of a kernel file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// Who may change an index.
    pub index_lock: IndexLock,
}
