//! The multi-generational LRU of Linux in the versions 6.1, 6.14 and 7.2: the engine's own code ([`MultigenModel`]) with
//! the choices of the engine's kernels `6.1-mglru`, `6.14-mglru` and `7.2-mglru`.
//!
//! Y. Zhao, "Multigenerational LRU Framework", posted from 2021 on, merged in Linux 6.1. Pages are read by system calls
//! and not mapped, so their uses count for tiers, and no page table is walked.

use super::engine::OfEngine;
use engine::Kernel;
use engine::lru::policy::multigen::MultigenModel;

/// A version of the multi-generational LRU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The version that was merged, as in the stable series 6.1.
    Linux6_1,
    /// The version after the rework of January 2025, as in Linux 6.14.
    Linux6_14,
    /// The version after the rework of March 2026, as in Linux 7.2.
    Linux7_2,
}

impl Version {
    const fn kernel(self) -> &'static str {
        match self {
            Self::Linux6_1 => "6.1-mglru",
            Self::Linux6_14 => "6.14-mglru",
            Self::Linux7_2 => "7.2-mglru",
        }
    }
}

/// Returns an empty cache of `capacity` pages for objects with numbers below `objects`.
///
/// # Panics
/// Never: the engine has the kernels of all versions.
#[must_use]
pub fn cache(version: Version, capacity: u64, objects: u32) -> OfEngine<MultigenModel> {
    let kernel = Kernel::built_in(version.kernel()).expect("the engine has this kernel");
    OfEngine::new(capacity, objects, |_| MultigenModel::new(kernel.choices.multigen.clone()))
}
