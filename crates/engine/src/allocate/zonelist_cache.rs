//! The zonelist cache of a node, on machines with several nodes: the zones that were found full lately
//! (`zonelist_cache`; mechanisms/reclaim, 2).

use crate::memory::ZoneId;
use machine::Nanos;
use machine::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Time after which the cache of full zones is emptied, so that requests try all zones again.
const FORGOTTEN_AFTER: Nanos = Nanos::from_secs(1);

/// The zones that tasks of one node found full.
#[derive(Debug)]
pub(super) struct ZonelistCache {
    full: Vec<AtomicBool>,
    /// Time at which the cache was last emptied, in ns.
    emptied_at: AtomicU64,
}

impl ZonelistCache {
    /// Creates the cache of a machine with `zones` zones, none of them full.
    pub fn new(zones: usize) -> Self {
        Self { full: (0..zones).map(|_| AtomicBool::new(false)).collect(), emptied_at: AtomicU64::new(0) }
    }

    /// Empties the cache if a second has passed since it was last emptied.
    pub fn refresh(&self, now: Nanos) {
        if now.since(Nanos(self.emptied_at.load(Relaxed))) >= FORGOTTEN_AFTER {
            self.emptied_at.store(now.0, Relaxed);
            self.full.iter().for_each(|full| full.store(false, Relaxed));
        }
    }

    /// Returns whether the zone was found full since the cache was last emptied.
    pub fn is_full(&self, zone: ZoneId) -> bool {
        self.full[usize::from(zone.0)].load(Relaxed)
    }

    /// Records that a zone is full, so that later searches for a free page skip it.
    pub fn note_full(&self, zone: ZoneId) {
        self.full[usize::from(zone.0)].store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_zone_is_forgotten_after_a_second() {
        let cache = ZonelistCache::new(3);
        let at = |ms| Nanos::from_millis(ms);
        cache.refresh(at(5000));
        cache.note_full(ZoneId(1));
        cache.refresh(at(5999));
        assert!(cache.is_full(ZoneId(1)) && !cache.is_full(ZoneId(0)));
        cache.refresh(at(6000));
        assert!(!cache.is_full(ZoneId(1)));
    }
}
