//! How many pages may be dirty: over all memory, and in each zone.
//!
//! Description: mechanisms/reclaim, 21.1 and 21.4. Anonymous pages count as dirtyable while swap is free;
//! pages in flight to swap count as under writeback (`writeback.swap_writeback`).

use super::Writeback;
use super::choices::{DirtyMapped, Dirtyable};
use crate::memory::Zone;
use crate::stat::Gauge;
use machine::{Machine, PAGE_BYTES};

/// The two limits, pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyLimits {
    /// The flusher starts above it.
    pub background: u64,
    /// Writers are held below it.
    pub dirty: u64,
}

impl DirtyLimits {
    /// Up to here a writer is not held back at all.
    #[must_use]
    pub const fn free_run(self) -> u64 {
        u64::midpoint(self.dirty, self.background)
    }
}

impl<M: Machine> Writeback<M> {
    /// Pages of a zone that reclaim could free: its file pages, and its anonymous ones while swap has room.
    #[must_use]
    pub fn reclaimable_pages(&self, zone: &Zone<M>) -> u64 {
        let file = zone.gauges.get(Gauge::NrActiveFile) + zone.gauges.get(Gauge::NrInactiveFile);
        if self.swap.free_slots() == 0 {
            return file;
        }
        file + zone.gauges.get(Gauge::NrActiveAnon) + zone.gauges.get(Gauge::NrInactiveAnon)
    }

    /// Pages that may be dirtied in principle, at least 1.
    #[must_use]
    pub fn dirtyable_pages(&self) -> u64 {
        let pages: u64 = self.zones.iter().map(|zone| zone.free_pages() + self.reclaimable_pages(zone)).sum();
        match self.choices.dirtyable {
            Dirtyable::All => pages + 1,
            Dirtyable::WithoutReserve => pages.saturating_sub(self.reserve_pages()) + 1,
        }
    }

    /// The limits now, of [`Self::dirty_pages`].
    #[must_use]
    pub fn dirty_limits(&self) -> DirtyLimits {
        let dirtyable = self.dirtyable_pages().saturating_sub(self.gauge(Gauge::NrWriteFailed)).max(1);
        let (dirty_ratio, background_ratio) = self.dirty_ratios(dirtyable);
        let dirty = pages_or(self.choices.dirty_bytes, dirtyable * dirty_ratio / 100);
        let background = pages_or(self.choices.dirty_background_bytes, dirtyable * background_ratio / 100);
        DirtyLimits { background: if background >= dirty { dirty / 2 } else { background }, dirty }
    }

    /// The two ratios, percent.
    fn dirty_ratios(&self, dirtyable: u64) -> (u64, u64) {
        let (dirty, background) = (self.choices.dirty_ratio, self.choices.dirty_background_ratio);
        if self.choices.dirty_mapped == DirtyMapped::Ignored {
            return (dirty, background);
        }
        let mapped = self.gauge(Gauge::NrMapped) + self.gauge(Gauge::NrAnonPages);
        let unmapped_percent = 100_u64.saturating_sub(100 * mapped / dirtyable.max(1));
        let dirty = dirty.min(unmapped_percent / 2).max(5);
        (dirty, if background >= dirty { dirty / 2 } else { background })
    }

    /// Pages that are dirty or under writeback, but for those that could not be written: no writer's pause makes these
    /// fewer.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.writable_pages() + self.gauge(Gauge::NrWriteback)
    }

    /// Dirty pages that the flusher has before it.
    pub(super) fn writable_pages(&self) -> u64 {
        self.gauge(Gauge::NrDirty).saturating_sub(self.gauge(Gauge::NrWriteFailed))
    }

    /// Does the zone hold no more dirty pages than its share?
    #[must_use]
    pub fn is_zone_dirty_ok(&self, zone: &Zone<M>) -> bool {
        let failed = zone.gauges.get(Gauge::NrWriteFailed);
        let kept = zone.dirty_balance_reserve() + failed;
        let dirtyable = (zone.free_pages() + self.reclaimable_pages(zone)).saturating_sub(kept);
        let dirty = zone.gauges.get(Gauge::NrDirty).saturating_sub(failed) + zone.gauges.get(Gauge::NrWriteback);
        // A limit in bytes is shared out by what zones have.
        let in_bytes = pages_or(self.choices.dirty_bytes, 0);
        let share = match in_bytes {
            0 => dirtyable * self.choices.dirty_ratio / 100,
            pages => (u128::from(pages) * u128::from(dirtyable) / u128::from(self.dirtyable_pages())) as u64,
        };
        dirty <= share
    }
}

/// Whole pages of a limit in bytes, at least 2 as in Linux; `otherwise` when it is 0.
fn pages_or(bytes: u64, otherwise: u64) -> u64 {
    if bytes == 0 { otherwise } else { bytes.div_ceil(PAGE_BYTES as u64).max(2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_in_bytes_is_whole_pages_and_takes_the_place_of_a_ratio() {
        assert_eq!([0, 1, 8192, 8193].map(|bytes| pages_or(bytes, 77)), [77, 2, 2, 3]);
    }
}
