//! Shadow entries: when a page leaves memory, a shadow entry replaces it in the index of its file or of the swap cache.

/// The bits that a page leaves in its slot of an index when it leaves memory. The page-replacement policy
/// ([`crate::lru`]) chooses the bits, and gets them back when the page is read again. From the bits, the policy sees
/// whether the page has returned soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow(pub(super) u32);

impl Shadow {
    /// Number of bits of a shadow.
    pub const BITS: u32 = 30;

    /// Creates a shadow from the lowest [`Shadow::BITS`] bits of `bits`.
    #[must_use]
    pub const fn of_bits(bits: u32) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// Returns the bits that were given to [`Shadow::of_bits`].
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}
