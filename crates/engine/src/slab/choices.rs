//! Choices of `[slab]`: how kernel objects are kept.

use serde::{Deserialize, Serialize};

/// How many pages a cache of kernel objects takes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlabOrder {
    /// One.
    #[default]
    SinglePages,
    /// A block that holds `4 × (fls(CPUs) + 1)` objects with little waste, at most of order 3; one page if no such
    /// block is available without effort. Fewer calls of the allocator, but requests of an order above 0 in ordinary
    /// operation.
    Slub,
}

/// The section `[slab]` of a kernel file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// How many pages a cache of kernel objects takes at once.
    pub order: SlabOrder,
}
