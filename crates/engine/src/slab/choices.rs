//! Choices of `[slab]`: the storage of kernel objects.

use crate::choice::choices;

choices! {
    /// Storage of kernel objects.
    [slab]

    /// Number of pages that a slab cache (a cache of kernel objects) requests from the page allocator at a time.
    order: SlabOrder = SinglePages, drawn 28 {
        /// One page.
        SinglePages,
        /// A block that holds `4 × (fls(CPUs) + 1)` objects with little waste, at most of order 3; one page if no such
        /// block can be had without much effort (`__GFP_NORETRY`). The cache then calls the allocator less often, but
        /// makes requests of an order above 0 in ordinary operation.
        Slub,
    }
}
