//! The policy of Highwater's own kernel, `highwater`, which is the default kernel of the library. The code is that of
//! the engine ([`HighwaterModel`]).
//!
//! Pages that are read once do not go on a list, as long as such pages are not missed (read again soon) more often than
//! evicted pages. Used pages become active when the scan reaches them (`lru.admission = "by-refault"` and
//! `lru.activation = "at-scan"` of the kernel `highwater`). The rule is related to S3-FIFO
//! ([`s3_fifo`](super::s3_fifo)).

use super::engine::OfEngine;
use engine::lru::policy::classic::HighwaterModel;

/// Returns an empty cache of `capacity` pages for objects with numbers below `objects`.
#[must_use]
pub fn cache(capacity: u64, objects: u32) -> OfEngine<HighwaterModel> {
    OfEngine::new(capacity, objects, HighwaterModel::new)
}
