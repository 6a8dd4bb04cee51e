//! One scan of an lruvec: batches of pages to reclaim, and generations that begin between the batches
//! (mechanisms/multigen, 6.1).

use super::Multigen;
use super::ageing::Aged;
use super::choices::{Ageing, BatchBudget, KswapdStops};
use super::evict::is_in_vain;
use crate::lru::policy::{Batch, Demand};
use crate::lru::{Family, ListKind, Lru, Reach};
use crate::memory::MarkRights;
use machine::{Machine, Order, Step};

/// Number of free pages above the high mark at which kswapd ends a scan. If kswapd wants fewer pages than this, its
/// reclaim begins at the demand's priority (`MIN_LRU_BATCH`).
const ENOUGH: u64 = 64;

/// The state of a scan of an lruvec with the multi-generational LRU.
#[derive(Clone, Debug)]
pub struct GenerationScan {
    demand: Demand,
    order: Order,
    /// Number of pages that the scan examines, if this number is fixed when the scan starts.
    budget: Option<u64>,
    scanned: u64,
    has_begun: bool,
    is_over: bool,
    /// `true` if a new generation of the lruvec has begun in the scan.
    has_aged: bool,
}

impl GenerationScan {
    /// Returns the state with which a scan for a request of 2^`order` pages begins.
    pub(crate) const fn new(demand: Demand, order: Order) -> Self {
        Self { demand, order, budget: None, scanned: 0, has_begun: false, is_over: false, has_aged: false }
    }

    /// Returns whether a new generation of the lruvec has begun in the scan.
    pub(crate) const fn has_aged(&self) -> bool {
        self.has_aged
    }
}

impl<M: Machine> Lru<M> {
    /// Returns the priority at which a reclaim begins. Kswapd begins at the priority at which a scan examines about as
    /// many inactive pages as kswapd wants to free (`multigen.first_priority_min`). Other reclaims, and a kswapd that
    /// wants fewer than 64 pages, begin at the demand's priority.
    pub(in crate::lru) fn first_priority_of_generations(
        &self,
        multigen: &Multigen,
        reach: Reach<'_, M>,
        demand: &Demand,
    ) -> u32 {
        if !demand.is_kswapd || demand.to_reclaim_pages < ENOUGH {
            return demand.priority;
        }
        let [anon, file] = self.evictable(reach.lruvec, demand).map(u64::from);
        let inactive = file * self.list_pages_of_all(reach, ListKind::InactiveFile)
            + anon * self.list_pages_of_all(reach, ListKind::InactiveAnon);
        priority_of_share(inactive, demand.to_reclaim_pages)
            .clamp(multigen.choices.first_priority_min.min(demand.priority), demand.priority)
    }

    /// Returns the next batch of pages that a scan hands to reclaim. `freed` is the number of pages that the scan has
    /// freed so far. The batch may be empty. Returns `None` when the scan is over. This function may sleep.
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
        // The type from which pages are taken is chosen only after this wait. A task that is killed during the wait
        // takes one more batch.
        self.waits_for_isolated(reach, &Family::ALL, &scan.demand);
        self.take_batch(multigen, reach, scan, freed)
    }

    /// Returns the next batch, without waiting for tasks that hold isolated pages. Returns `None` when the scan is
    /// over.
    pub(super) fn take_batch(
        &self,
        multigen: &Multigen,
        reach: Reach<'_, M>,
        scan: &mut GenerationScan,
        freed: u64,
    ) -> Option<Batch> {
        if scan.is_over || self.is_enough(multigen, reach, &scan.demand, scan.order, freed) {
            return None;
        }
        self.machine.spend(Step::ScanCount, 1);
        let evictable = self.evictable(reach.lruvec, &scan.demand);
        if self.is_too_young(multigen, reach.lruvec, evictable) {
            return None;
        }
        let aged = self.age_in_scan(multigen, reach.lruvec, &scan.demand, evictable);
        let gives_others_a_turn = self.memcg_lru.is_some() && scan.demand.is_global();
        scan.has_aged |= matches!(aged, Aged::Begun);
        match (aged, multigen.choices.ageing) {
            (Aged::NotWanted, _) => {}
            // One batch more, and the next group has its turn.
            (Aged::Begun, Ageing::WithinScan) => scan.is_over = gives_others_a_turn,
            (Aged::Begun, Ageing::BeforeRounds | Ageing::KeepsThree) if !gives_others_a_turn => {}
            (Aged::Begun, _) | (Aged::ByOthers, _) => return None,
        }
        let share = self.generations_to_scan(reach, &scan.demand);
        let wanted = match multigen.choices.ageing {
            Ageing::WithinScan => *scan.budget.get_or_insert(share),
            Ageing::BeforeRounds | Ageing::KeepsThree | Ageing::AtThree => share,
        };
        let left = wanted.saturating_sub(scan.scanned);
        if left == 0 {
            return None;
        }
        let budget = match multigen.choices.batch_budget {
            BatchBudget::Share => left,
            BatchBudget::Whole => u64::MAX,
        };
        let batch = self.evict_batch(multigen, reach, &scan.demand, evictable, budget);
        scan.scanned += batch.scanned;
        scan.is_over |= is_in_vain(multigen.choices.type_rule, batch.entries.is_empty(), batch.scanned, budget);
        Some(batch)
    }

    /// Returns the number of pages that a scan for `demand` examines.
    pub(in crate::lru) fn generations_to_scan(&self, reach: Reach<'_, M>, demand: &Demand) -> u64 {
        let evictable = self.evictable(reach.lruvec, demand);
        let generations = &reach.lruvec.generational().generations;
        let pages = Family::ALL.into_iter().filter(|family| evictable[*family as usize]);
        let pages = pages.map(|family| generations.all_pages(family)).sum::<u64>();
        if self.is_of_removed_group(reach) { pages } else { pages >> demand.priority }
    }

    /// Returns whether a scan can end. It can if the reclaim has freed enough pages, counting `freed` pages in this
    /// scan and the pages freed before it. A scan of kswapd can also end if enough memory is free.
    pub(in crate::lru) fn is_enough(
        &self,
        multigen: &Multigen,
        reach: Reach<'_, M>,
        demand: &Demand,
        order: Order,
        freed: u64,
    ) -> bool {
        if freed + demand.freed_before >= demand.to_reclaim_pages.max(2 << order.0) {
            return true;
        }
        let highest = reach.zones.iter().map(|zone| zone.kind as usize).max();
        demand.is_kswapd
            && order == Order::ZERO
            && reach.zones.iter().all(|zone| {
                let classzone = match multigen.choices.kswapd_stops {
                    KswapdStops::AboveReserves => highest.unwrap_or_default(),
                    KswapdStops::AtHighMarks => zone.kind as usize,
                };
                zone.is_above(zone.high() + ENOUGH, Order::ZERO, classzone, MarkRights::default())
            })
    }
}

/// Returns the priority at which a scan examines about `wanted` of `pages` pages, both numbers rounded to powers of
/// two.
fn priority_of_share(pages: u64, wanted: u64) -> u32 {
    let log = |n: u64| n.checked_ilog2().unwrap_or_default();
    // The logarithm of `wanted` is rounded up.
    log(pages).saturating_sub(log(wanted.saturating_sub(1)) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the first priority of a scan for several pairs of the number of pages on the lists and the number of pages
    /// wanted. The priority must be log2 of the first number, rounded down, minus log2 of the second, rounded up
    /// (mechanisms/multigen, 6.1).
    #[test]
    fn a_share_by_the_first_priority_is_about_what_is_wanted() {
        let priorities = [(100_000, 1024), (100_000, 1025), (100_000, 64), (1 << 20, 64), (500, 1024), (0, 64)];
        assert_eq!(priorities.map(|(pages, wanted)| priority_of_share(pages, wanted)), [6, 5, 10, 14, 0, 0]);
        assert_eq!(priority_of_share(u64::MAX, u64::MAX), 0);
    }
}
