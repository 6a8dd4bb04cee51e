//! One scan of an lruvec: batches of pages to reclaim, and generations that begin between (mechanisms/multigen, 6.1).

use super::Multigen;
use super::ageing::Aged;
use super::choices::Ageing;
use crate::lru::policy::{Batch, Demand};
use crate::lru::{Family, Lru, Reach};
use crate::memory::MarkRights;
use machine::{Machine, Order, Step};

/// Pages above the high mark with which kswapd has enough.
const ENOUGH: u64 = 64;

/// A scan under way.
#[derive(Clone, Debug)]
pub struct GenerationScan {
    demand: Demand,
    order: Order,
    /// Number of pages to be scanned, if it is fixed at the start.
    budget: Option<u64>,
    scanned: u64,
    has_begun: bool,
    is_over: bool,
}

impl GenerationScan {
    /// Returns a scan for a request of `order`.
    pub(crate) const fn new(demand: Demand, order: Order) -> Self {
        Self { demand, order, budget: None, scanned: 0, has_begun: false, is_over: false }
    }
}

impl<M: Machine> Lru<M> {
    /// Returns the next batch of a scan that has freed `freed` pages so far; it may be empty. `None` when the scan is
    /// over. *May sleep.*
    pub(in crate::lru) fn next_of_generations(
        &self,
        multigen: &Multigen,
        reach: Reach<'_, M>,
        scan: &mut GenerationScan,
        freed: u64,
    ) -> Option<Batch> {
        if std::mem::replace(&mut scan.has_begun, true) {
            self.machine.cond_resched();
        } else {
            self.drain_before_scan();
        }
        if self.machine.is_killed() {
            return None;
        }
        // The type from which pages are taken is chosen only then. A task that is killed meanwhile takes one more
        // batch.
        self.waits_for_isolated(reach, &Family::ALL, &scan.demand);
        self.take_batch(multigen, reach, scan, freed)
    }

    /// Returns the next batch, without waiting for tasks that hold pages.
    pub(super) fn take_batch(
        &self,
        multigen: &Multigen,
        reach: Reach<'_, M>,
        scan: &mut GenerationScan,
        freed: u64,
    ) -> Option<Batch> {
        if scan.is_over || self.is_enough(reach, scan, freed) {
            self.note_progress(reach.lruvec, &scan.demand, freed);
            return None;
        }
        self.machine.spend(Step::ScanCount, 1);
        let evictable = self.evictable(&scan.demand);
        if self.is_too_young(multigen, reach.lruvec, evictable) {
            return None;
        }
        match (self.age_in_scan(multigen, reach.lruvec, &scan.demand, evictable), multigen.choices.ageing) {
            (Aged::NotWanted, _) | (Aged::Begun, Ageing::WithinScan | Ageing::BeforeRounds | Ageing::KeepsThree) => {}
            (Aged::Begun, Ageing::AtThree) | (Aged::ByOthers, _) => return None,
        }
        let generations = &reach.lruvec.generational().generations;
        let pages = Family::ALL.into_iter().filter(|family| evictable[*family as usize]);
        let share = pages.map(|family| generations.all_pages(family)).sum::<u64>() >> scan.demand.priority;
        let wanted = match multigen.choices.ageing {
            Ageing::WithinScan => *scan.budget.get_or_insert(share),
            Ageing::BeforeRounds | Ageing::KeepsThree | Ageing::AtThree => share,
        };
        let left = wanted.saturating_sub(scan.scanned);
        if left == 0 {
            self.note_progress(reach.lruvec, &scan.demand, freed);
            return None;
        }
        let batch = self.evict_batch(multigen, reach, &scan.demand, evictable, left);
        scan.scanned += batch.scanned;
        // Nothing was left to look at.
        scan.is_over = batch.entries.is_empty() && batch.scanned < left;
        Some(batch)
    }

    /// Returns whether a scan has freed enough, or kswapd has reached its target.
    fn is_enough(&self, reach: Reach<'_, M>, scan: &GenerationScan, freed: u64) -> bool {
        if freed >= scan.demand.to_reclaim_pages.max(2 << scan.order.0) {
            return true;
        }
        let is_above = reach
            .zones
            .iter()
            .all(|zone| zone.is_above(zone.high() + ENOUGH, Order::ZERO, zone.kind as usize, MarkRights::default()));
        scan.demand.is_kswapd && scan.order == Order::ZERO && is_above
    }
}
