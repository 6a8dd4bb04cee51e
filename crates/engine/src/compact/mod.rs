//! Compaction: pages are moved together, so that large blocks become free.
//!
//! *Holds* for each zone the recent failures of compaction ([`defer`]), and the places at which its scanners stopped
//! (`cached`). *Flow*: a run ([`Compact::compact_zone`]) checks whether it could help ([`suitable`]). Then one scanner
//! takes movable pages from low frames (`migrate_scanner`), and another takes free pages from high frames
//! (`free_scanner`). [`crate::migrate`] moves the movable pages to the free ones, until the scanners meet or there is a
//! free block of the wanted order. The module is called by `reclaim` and `allocate`, and never calls reclaim. *Locks*:
//! `lru` and `zone`, one of the two at a time. *Description*: mechanisms/reclaim, 23; for later kernels,
//! mechanisms/modern, 5.
//!
//! Next: [`crate::reclaim`].

mod cached;
pub mod choices;
pub mod defer;
mod free_scanner;
mod migrate_scanner;
mod run;
pub mod suitable;

pub use choices::Choices;
pub use run::{CompactRequest, Ended};
pub use suitable::Suitability;

use crate::memory::{Zone, last_block};
use crate::migrate::Migrate;
use cached::Cached;
use choices::Start;
use defer::Failures;
use machine::Machine;
use machine::atomic::AtomicU32;
use std::ops::Deref;

/// The layer (*floor*) of the engine that compacts zones.
pub struct Compact<M: Machine> {
    migrate: Migrate<M>,
    /// The section `[compact]` of the kernel file.
    pub choices: Choices,
    states: Vec<ZoneState>,
}

/// The state of compaction of one zone.
#[derive(Debug)]
struct ZoneState {
    failures: Failures,
    cached: Cached,
    /// Number of runs of compaction that are under way in the zone.
    running: AtomicU32,
}

impl<M: Machine> Deref for Compact<M> {
    type Target = Migrate<M>;
    #[inline]
    fn deref(&self) -> &Migrate<M> {
        &self.migrate
    }
}

impl<M: Machine> Compact<M> {
    /// Returns `self`, so that code of the layers above can name this layer.
    #[inline(always)]
    pub(crate) fn compact(&self) -> &Self {
        self
    }

    /// Creates this layer of the engine, for zones in which no compaction has failed yet.
    pub fn new(migrate: Migrate<M>, choices: Choices) -> Self {
        let first_free = |zone: &Zone<M>| match choices.start {
            Start::CachedFreeMisplaced => last_block(zone).saturating_sub(zone.start.0),
            Start::Ends | Start::CachedFree | Start::CachedFreeRestricted | Start::CachedBoth => last_block(zone),
        };
        let state = |zone| ZoneState {
            failures: Failures::default(),
            cached: Cached::new(zone, first_free(zone)),
            running: AtomicU32::new(0),
        };
        let states = migrate.zones.iter().map(state).collect();
        Self { migrate, choices, states }
    }

    fn state(&self, zone: &Zone<M>) -> &ZoneState {
        &self.states[usize::from(zone.id.0)]
    }
}
