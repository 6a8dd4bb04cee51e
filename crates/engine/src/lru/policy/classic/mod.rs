//! The classic policy: an active and an inactive list for anonymous pages, and another two for file pages.
//!
//! *Flow*: [`scan_count`] computes how many pages of each list a scan examines. [`scan`] takes clusters (up to 32
//! pages) from the lists in turn: it deactivates pages of active clusters itself ([`age`]), and isolates inactive
//! clusters for reclaim ([`isolate`]). [`judge`] decides the fate of an isolated page by the page's recent use.
//! [`flush`] moves batched pages to and between the lists, [`uses`] records uses of pages through files, and `refault`
//! handles pages that come back. *Locks*: `lru`, for each cluster. *Description*: mechanisms/reclaim, 8, 10 to 12 and
//! 14.4. `model`, `linux_model` and `highwater_model` are models of the classic policy for use without an engine.

pub mod age;
pub mod check;
pub mod flush;
mod highwater_model;
pub mod isolate;
pub mod judge;
mod linux_model;
pub mod lists;
mod model;
pub(in crate::lru) mod refault;
pub mod scan;
pub mod scan_count;
pub mod split;
pub mod uses;

pub use highwater_model::HighwaterModel;
pub use isolate::Recent;
pub use linux_model::LinuxModel;
pub use lists::Lists;
pub use model::ClassicModel;
pub(in crate::lru) use refault::Packing;
pub use scan::Scan;

use crate::lru::choices::Refault;
use machine::{LockClass, Machine};
use refault::Nonresident;

/// The rules of the classic policy.
pub(in crate::lru) struct Classic {
    /// The layout of shadows in bits; `None` if pages leave no shadows (`lru.refault`).
    packing: Option<Packing>,
}

impl Classic {
    /// Creates the classic policy, for `lruvecs` lruvecs and `frames` frames. `refault` decides whether evicted pages
    /// leave shadows (entries from which a refault is recognised).
    pub(in crate::lru) const fn new(refault: Refault, lruvecs: usize, frames: u32) -> Self {
        Self {
            packing: match refault {
                Refault::Ignored => None,
                Refault::ByWorkingset => Some(Packing::new(lruvecs as u32, frames)),
            },
        }
    }

    /// Returns the state of an lruvec that has no pages yet.
    pub(in crate::lru) fn state<M: Machine>(machine: &M) -> State<M> {
        State { lists: machine.lock(LockClass::Lru, Lists::default()), nonresident: Nonresident::default() }
    }

    /// Returns the layout of shadows in bits; `None` if pages leave no shadows.
    #[inline]
    pub(in crate::lru) const fn packing(&self) -> Option<Packing> {
        self.packing
    }
}

/// The state that the classic policy (active and inactive lists) keeps for an lruvec.
pub(in crate::lru) struct State<M: Machine> {
    /// The lruvec's active and inactive lists, inside the lock that protects them.
    pub(in crate::lru) lists: M::Lock<Lists>,
    /// The record of pages that left the lruvec, from which refault distances are computed.
    nonresident: Nonresident,
}
