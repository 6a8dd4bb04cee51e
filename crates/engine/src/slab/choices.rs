//! Choices of `[slab]`: how kernel objects are kept.

use crate::choice::choices;

choices! {
    /// How kernel objects are kept.
    [slab]

    /// How many pages a cache of kernel objects takes at once.
    order: SlabOrder = SinglePages, drawn 28 {
        /// One.
        SinglePages,
        /// A block that holds `4 × (fls(CPUs) + 1)` objects with little waste, at most of order 3; one page if no such
        /// block is available without effort. Fewer calls of the allocator, but requests of an order above 0 in ordinary
        /// operation.
        Slub,
    }
}
