//! The version of the cgroup interface: which limits the groups of a machine can have.
//!
//! The version is a part of the memory's layout ([`crate::memory::Layout::group_version`]) and does not change while the
//! engine runs, as a kernel mounts the memory controller in one hierarchy. *Called by* the code that treats the versions
//! differently: charges, `swap`, the dirty limits of groups, and users that set limits. *Description*:
//! mechanisms/groups, 9.

use super::Limit;
use serde::{Deserialize, Serialize};

/// The version of all memory control groups of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupVersion {
    /// Version 2. Groups have protections, a limit of swap, and dirty limits of their own.
    #[default]
    V2,
    /// Version 1 without limits of memory and swap together (`swapaccount=0`). Groups have a hard limit and a soft limit,
    /// and no dirty limits of their own: their writers obey the limits of all memory.
    V1,
    /// Version 1 with limits of memory and swap together (`swapaccount=1`). The engine counts the swapped-out pages of
    /// each group for these limits, which costs time each time that a page goes to swap or comes back.
    V1WithMemsw,
}

impl GroupVersion {
    /// Returns whether groups of this version can have the limit or protection `limit`.
    #[must_use]
    pub const fn has_limit(self, limit: Limit) -> bool {
        match limit {
            Limit::Max => true,
            Limit::High | Limit::Low | Limit::Min | Limit::SwapMax => matches!(self, Self::V2),
            Limit::Soft => self.is_v1(),
            Limit::Memsw => self.counts_memsw(),
        }
    }

    /// Returns whether this is version 1.
    #[must_use]
    pub const fn is_v1(self) -> bool {
        matches!(self, Self::V1 | Self::V1WithMemsw)
    }

    /// Returns whether the memory and the swap of each group are counted together, for [`Limit::Memsw`].
    #[inline]
    #[must_use]
    pub const fn counts_memsw(self) -> bool {
        matches!(self, Self::V1WithMemsw)
    }

    /// Returns whether groups have dirty limits of their own, if the kernel has such limits
    /// (`writeback.group_limits`).
    #[must_use]
    pub(crate) const fn has_dirty_limits(self) -> bool {
        matches!(self, Self::V2)
    }

    /// Returns whether this is the default version, so that serialization leaves it out.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V2 => "version 2",
            Self::V1 => "version 1 without limits of memory and swap together",
            Self::V1WithMemsw => "version 1",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_own_limits() {
        let limits = |version: GroupVersion| Limit::ALL.map(|limit| version.has_limit(limit));
        assert_eq!(limits(GroupVersion::V2), [true, true, true, true, false, true, false]);
        assert_eq!(limits(GroupVersion::V1), [true, false, false, false, true, false, false]);
        assert_eq!(limits(GroupVersion::V1WithMemsw), [true, false, false, false, true, false, true]);
    }
}
