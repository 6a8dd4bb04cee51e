//! Shadows: the entries that pages leave in their slots.

/// A few bits that a policy chooses ([`crate::lru`]) and gets back when the page is read again. They tell the policy
/// whether the page has returned soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow(pub(super) u32);

impl Shadow {
    /// Bits of one.
    pub const BITS: u32 = 30;

    /// Creates a shadow of the lowest [`Shadow::BITS`] bits.
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
