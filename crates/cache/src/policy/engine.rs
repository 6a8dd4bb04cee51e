//! The engine's policies as caches of pages: `classic`, `multigen` and `highwater`.
//!
//! The engine's own [`Replay`] runs the policy. State: 16 bytes for each cached page, and 4 bytes for each distinct
//! object. The 4 bytes keep the shadow of a page that was evicted.

use crate::Cache;
use engine::lru::policy::replay::Slab;
use engine::lru::policy::{Policy, Replay};

/// A cache from which a policy of the engine evicts pages.
pub struct OfEngine<P> {
    replay: Replay<P>,
}

impl<P: Policy<Slab>> OfEngine<P> {
    /// Creates an empty cache of `capacity` pages for objects with numbers below `objects`. `policy` is called with a
    /// number of pages, and makes the policy for a memory of that size.
    #[must_use]
    pub fn new(capacity: u64, objects: u32, policy: impl FnOnce(u32) -> P) -> Self {
        // A cache of more pages than there are objects evicts nothing.
        let pages = capacity.min(objects.max(1).into()) as u32;
        Self { replay: Replay::new(policy(pages), pages, objects) }
    }
}

impl<P: Policy<Slab>> Cache for OfEngine<P> {
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        self.replay.request(id)
    }

    fn bytes(&self) -> u64 {
        self.replay.bytes()
    }

    fn run(&mut self, ids: &[u32]) -> u64 {
        self.replay.run(ids)
    }
}
