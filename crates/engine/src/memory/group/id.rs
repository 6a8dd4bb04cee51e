//! The number of a memory control group.

/// The number of a memory control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u16);

impl GroupId {
    /// The root group. It has all tasks and pages that belong to no other group.
    pub const ROOT: Self = Self(0);

    /// Returns whether this is the root group.
    #[inline]
    #[must_use]
    pub const fn is_root(self) -> bool {
        self.0 == 0
    }
}
