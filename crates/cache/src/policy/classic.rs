//! The active and inactive lists of Linux, as from Linux 4.12 on: the engine's own code ([`LinuxModel`]).
//!
//! J. Weiner, "mm: thrash detection-based file cache sizing", 2014 (Linux 3.15): a page becomes active at its second use,
//! or when it returns within its refault distance. Pages are read by system calls and not mapped. The length of the
//! inactive list is that of Linux 4.7 and later ("mm: vmscan: reduce size of inactive file list", 2016), and returning
//! pages let active ones age as since Linux 4.12 ("mm: vmscan: fix IO/refault regression in cache workingset
//! transition", 2017).

use super::engine::OfEngine;
use engine::lru::policy::classic::LinuxModel;

/// Returns an empty cache of `capacity` pages for objects with numbers below `objects`.
#[must_use]
pub fn cache(capacity: u64, objects: u32) -> OfEngine<LinuxModel> {
    OfEngine::new(capacity, objects, LinuxModel::new)
}
