//! Classic: an active and an inactive list for anonymous pages, and for pages of files.
//!
//! *Flow*: [`scan_count`] says how many pages of each list a scan looks at; [`scan`] takes clusters of each list in turn, ages
//! active ones itself ([`age`]) and hands inactive ones out ([`isolate`]); [`judge`] says what recent use makes of a page. Batches are
//! applied by [`flush`], uses through files noted by [`uses`]; [`refault`] knows pages that come back. *Locks*: `lru`, for each
//! cluster. *Description*: mechanisms/reclaim, 8, 10 to 12 and 14.4. [`model`] is a model of it for use without an engine.

pub mod age;
pub mod check;
pub mod flush;
pub mod isolate;
pub mod judge;
pub mod lists;
mod model;
pub(in crate::lru) mod refault;
pub mod scan;
pub mod scan_count;
pub mod split;
pub mod uses;

pub use isolate::Recent;
pub use lists::Lists;
pub use model::ClassicModel;
pub(in crate::lru) use refault::Refaults;
pub use scan::Scan;

use crate::lru::choices::Refault;
use crate::memory::Zone;
use machine::{LockClass, Machine};

/// The state of an engine's lruvecs, where classic rules.
pub(in crate::lru) struct Classic<M: Machine> {
    lruvecs: Vec<M::Lock<Lists>>,
    /// Pages that left memory (`lru.refault`).
    refaults: Option<Refaults>,
}

impl<M: Machine> Classic<M> {
    /// Empty lists for so many lruvecs.
    pub(in crate::lru) fn new(machine: &M, refault: Refault, lruvecs: usize, frames: u32) -> Self {
        Self {
            lruvecs: (0..lruvecs).map(|_| machine.lock(LockClass::Lru, Lists::default())).collect(),
            refaults: Refaults::new(refault, lruvecs, frames),
        }
    }

    /// The lock of the lists of a zone's pages.
    #[inline]
    pub(in crate::lru) fn lists_of(&self, zone: &Zone<M>) -> &M::Lock<Lists> {
        &self.lruvecs[usize::from(zone.lruvec.0)]
    }

    /// The state about pages that left; none where a choice leaves it out.
    #[inline]
    pub(in crate::lru) const fn refaults(&self) -> Option<&Refaults> {
        self.refaults.as_ref()
    }
}
