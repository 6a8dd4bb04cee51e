//! Compaction: could sliding pages together make a large block, and is it worth a try?
//!
//! *Holds* per zone how often compaction failed lately. The scanners are not built yet: a run that
//! would be worth trying ends at once, having moved nothing. *Called by* `reclaim` and `allocate`;
//! calls no reclaim. *Locks*: none. *Description*: mechanisms/reclaim, 23.1, 23.2, 23.9.
//!
//! Next: [`crate::reclaim`].

pub mod choices;
pub mod defer;
pub mod suitable;

pub use choices::Choices;
pub use suitable::Suitability;

use crate::lru::Lru;
use defer::Deferral;
use machine::Machine;
use std::ops::Deref;

/// The floor of compaction.
pub struct Compact<M: Machine> {
    lru: Lru<M>,
    /// The section `[compact]` of the kernel file.
    pub choices: Choices,
    deferrals: Vec<Deferral>,
}

impl<M: Machine> Deref for Compact<M> {
    type Target = Lru<M>;
    #[inline]
    fn deref(&self) -> &Lru<M> {
        &self.lru
    }
}

impl<M: Machine> Compact<M> {
    /// Nothing has failed yet.
    pub fn new(lru: Lru<M>, choices: Choices) -> Self {
        let deferrals = lru.zones.iter().map(|_| Deferral::default()).collect();
        Self { lru, choices, deferrals }
    }
}
