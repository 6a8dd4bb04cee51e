//! One scan of an lruvec: scans a cluster of pages of each list in turn, until every list has reached its target or
//! enough pages were freed (`shrink_lruvec`; mechanisms/reclaim, 10, 14).

use super::scan_count::Targets;
use crate::lru::choices::{ActiveScan, EarlyExit, FamilyBalance, SmallTargets};
use crate::lru::policy::{Batch, Demand, Entries};
use crate::lru::{CLUSTER, DEF_PRIORITY, Family, ListKind, Lru, Reach};
use machine::{Func, Machine};

/// The highest priority (5) at which a scan's share of a list of 32 pages, `32 >> priority`, is at least one page. The
/// list of a protected group counts as having at least 32 pages.
const MAY_TAKE_A_CLUSTER: u32 = CLUSTER.ilog2();

/// The state of a scan of an lruvec with the classic policy.
#[derive(Clone, Debug)]
pub struct Scan {
    demand: Demand,
    /// Index in `turns` of the list that the present round scans next. A round scans each list once.
    turn: usize,
    /// The lists, in the order in which a round of the scan visits them.
    turns: [ListKind; ListKind::ALL.len()],
    /// Number of pages to scan on each list, as computed when the scan began.
    original: Targets,
    left: Targets,
    /// `true` for each family whose active pages may become inactive; decided when the scan began.
    may_age: [bool; Family::ALL.len()],
    /// `true` if active pages had a scan target but were left alone, because they may not become inactive.
    left_active: bool,
    /// `true` if the scan has freed enough pages, so that the remaining targets (numbers of pages to scan) were
    /// reduced.
    is_trimmed: bool,
    is_over: bool,
}

impl Scan {
    /// Number of turns in a round of a scan: one for each list.
    const TURNS: usize = ListKind::ALL.len();

    /// Returns the demand that the scan serves.
    #[must_use]
    pub const fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Returns whether the scan goes on: it is not over, and some list other than the active anonymous list still has
    /// pages to scan. A scan does not go on for the active anonymous list alone.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        let counts = [ListKind::InactiveAnon, ListKind::ActiveFile, ListKind::InactiveFile];
        !self.is_over && counts.iter().any(|kind| self.left[*kind as usize] > 0)
    }

    /// Returns whether the scan passed over active pages although their list had a scan target: these pages may not
    /// become inactive.
    #[must_use]
    pub const fn left_active(&self) -> bool {
        self.left_active
    }

    /// Ends a round of the scan. `freed` is the number of pages that the scan has freed since its beginning. If this is
    /// as many as the reclaim wants, `early_exit` decides whether the scan ends or goes on with smaller targets.
    fn end_round(&mut self, freed: u64, early_exit: EarlyExit) {
        if freed < self.demand.to_reclaim_pages || self.is_trimmed {
            return;
        }
        match early_exit {
            EarlyExit::Never => {}
            EarlyExit::BelowDefaultPriority => self.is_over = self.demand.priority < DEF_PRIORITY,
            EarlyExit::ProportionalOfBoth if Family::ALL.into_iter().any(|it| pages_of(&self.left, it) == 0) => {
                self.is_over = true;
            }
            EarlyExit::Proportional | EarlyExit::ProportionalOfBoth if self.demand.is_kswapd => {
                trim_in_proportion(&self.original, &mut self.left);
                self.is_trimmed = true;
            }
            EarlyExit::Proportional | EarlyExit::ProportionalOfBoth => self.is_over = true,
        }
    }
}

impl<M: Machine> Lru<M> {
    /// Begins a scan of an lruvec with the classic policy.
    pub(in crate::lru) fn begin_classic_scan(&self, reach: Reach<'_, M>, demand: Demand) -> Scan {
        let (may_age, original) = match self.has_share(reach, &demand) {
            true => {
                let may_age = Family::ALL.map(|family| self.may_age(reach, family, &demand));
                (may_age, self.scan_count(reach, &demand, may_age))
            }
            false => Default::default(),
        };
        let turns = match self.choices.active_scan {
            ActiveScan::Always => {
                [ListKind::ActiveAnon, ListKind::InactiveAnon, ListKind::ActiveFile, ListKind::InactiveFile]
            }
            ActiveScan::WhenInactiveLow | ActiveScan::WhenLowOrRefaulted => ListKind::ALL,
        };
        Scan {
            demand,
            turn: 0,
            turns,
            original,
            left: original,
            may_age,
            left_active: false,
            is_trimmed: false,
            is_over: false,
        }
    }

    /// Returns whether the scan can examine any page. Returns `false` if the lists of a group are so short that the
    /// scan's share of each list is less than a page. The balance of families then need not be computed. Where there
    /// are many groups, this is so in most scans at the first priorities.
    fn has_share(&self, reach: Reach<'_, M>, demand: &Demand) -> bool {
        let remembers = match (self.choices.small_targets, self.choices.family_balance) {
            (SmallTargets::AsTheyAre, FamilyBalance::ByIo | FamilyBalance::ByIoAndRotation) => false,
            (SmallTargets::AsTheyAre | SmallTargets::Saved | SmallTargets::SavedAndOne, _) => true,
        };
        let has_short_lists = self.groups.is_some() && !remembers && demand.priority > MAY_TAKE_A_CLUSTER;
        !has_short_lists
            || self.is_of_removed_group(reach)
            || self.is_forced(reach, demand)
            || ListKind::ALL.into_iter().any(|kind| self.list_pages(reach, kind) >> demand.priority > 0)
    }

    /// Returns the next cluster (up to 32 inactive pages) of a scan that has freed `freed` pages so far. The cluster
    /// may be empty. Returns `None` when the scan is over. This function may sleep.
    pub(in crate::lru) fn next_cluster(&self, reach: Reach<'_, M>, scan: &mut Scan, freed: u64) -> Option<Batch> {
        loop {
            if scan.turn == 0 && (!scan.goes_on() || self.machine.is_killed()) {
                return None;
            }
            while scan.turn < Scan::TURNS {
                let turn = scan.turn;
                scan.turn += 1;
                if let Some((family, pages)) = self.take_turn(reach, scan, turn) {
                    return Some(self.take_cluster(reach, family, pages, &scan.demand));
                }
            }
            self.machine.cond_resched();
            scan.end_round(freed, self.choices.early_exit);
            scan.turn = 0;
        }
    }

    /// Takes up to `pages` pages off the inactive list of a family. If the demand names blocks, also takes the other
    /// pages of the aligned blocks in which these pages lie.
    fn take_cluster(&self, reach: Reach<'_, M>, family: Family, pages: u64, demand: &Demand) -> Batch {
        let _span = self.machine.span(Func::ShrinkInactiveList);
        if let Some(batch) = self.prepare_cluster(reach, family, demand) {
            return batch;
        }
        match demand.blocks {
            Some(blocks) => {
                let (taken, scanned) = self.isolate_blocks(reach, family.inactive(), pages, blocks);
                let by_family = *taken.by_family();
                let batch = Batch::new(family, Entries::Many(taken.pages), 0, scanned);
                Batch { by_family, has_blocks: true, ..batch }
            }
            None => {
                let taken = self.isolate(reach, family.inactive(), pages);
                let mut entries = Entries::default();
                entries.add(&taken.entries);
                let batch = Batch::new(family, entries, taken.pages, taken.scanned);
                Batch { counted: taken.scanned + taken.skipped, ..batch }
            }
        }
    }

    /// Returns whether a scan that is about to begin may make active pages of a family inactive (`may_deactivate`).
    fn may_age(&self, reach: Reach<'_, M>, family: Family, demand: &Demand) -> bool {
        match self.choices.active_scan {
            ActiveScan::Always => true,
            // Decided again at each turn of the active list.
            ActiveScan::WhenInactiveLow => self.is_inactive_low(reach, family, demand),
            ActiveScan::WhenLowOrRefaulted => {
                demand.forces_aging
                    || demand.doubts_marks
                    || self.is_inactive_low_in_target(reach, family, demand)
                    || self.has_refaulted(self.beside(reach.lruvec, demand.group), family)
            }
        }
    }

    /// Takes turn number `turn` of a round. On an active list, ages a cluster (makes up to 32 pages inactive) if the
    /// pages may become inactive, and returns `None`. On an inactive list, returns the family and the number of pages
    /// to be scanned, or `None` if the list's target is reached.
    fn take_turn(&self, reach: Reach<'_, M>, scan: &mut Scan, turn: usize) -> Option<(Family, u64)> {
        let kind = scan.turns[turn];
        let pages = scan.left[kind as usize].min(CLUSTER);
        if pages == 0 {
            return None;
        }
        scan.left[kind as usize] -= pages;
        if !kind.is_active() {
            return Some((kind.family(), pages));
        }
        // After a scan that found nothing, active pages are aged even if enough pages are inactive: all inactive pages
        // may be held.
        let is_wanted = match self.choices.active_scan {
            ActiveScan::Always => true,
            ActiveScan::WhenInactiveLow => {
                scan.demand.doubts_marks || self.is_inactive_low(reach, kind.family(), &scan.demand)
            }
            ActiveScan::WhenLowOrRefaulted => scan.may_age[kind.family() as usize],
        };
        if is_wanted {
            self.shrink_active(reach, kind, pages, &scan.demand);
        } else {
            scan.left_active = true;
        }
        None
    }
}

/// Returns the sum of the scan targets of a family's two lists, in pages.
fn pages_of(targets: &Targets, family: Family) -> u64 {
    targets[family.inactive() as usize] + targets[family.active() as usize]
}

/// Trims the targets once enough was freed. The family with fewer pages left to scan gets the target 0. The other
/// family's targets are cut so that both families are scanned in the same proportion (mechanisms/reclaim, 14.4).
fn trim_in_proportion(original: &Targets, left: &mut Targets) {
    let (small, large) = if pages_of(left, Family::File) > pages_of(left, Family::Anon) {
        (Family::Anon, Family::File)
    } else {
        (Family::File, Family::Anon)
    };
    let percent_left = pages_of(left, small) * 100 / (pages_of(original, small) + 1);
    for kind in [small.inactive(), small.active()] {
        left[kind as usize] = 0;
    }
    for kind in [large.inactive(), large.active()] {
        let kind = kind as usize;
        let done = original[kind] - left[kind];
        left[kind] = (original[kind] * (100 - percent_left) / 100).saturating_sub(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimming_leaves_the_larger_family_scanned_as_far_as_the_smaller() {
        // Anonymous: 100 of 400 scanned, 300 left; file: 100 of 1000 scanned, 900 left.
        let original = [400, 0, 1000, 0];
        let mut left = [300, 0, 900, 0];
        trim_in_proportion(&original, &mut left);
        // 74 % of the anonymous target is left (300 of 401). So 26 % of the file target is to be scanned, and 100 pages
        // of it are done.
        assert_eq!(left, [0, 0, 160, 0]);
    }

    #[test]
    fn trimming_leaves_the_larger_family_in_full_when_the_smaller_had_no_target() {
        let mut left = [0, 0, 900, 50];
        trim_in_proportion(&[0, 0, 1000, 60], &mut left);
        assert_eq!(left, [0, 0, 900, 50], "0 % of nothing is left: the larger is scanned in full");
    }

    #[test]
    fn kswapd_stops_at_once_where_nothing_is_left_of_one_family() {
        let ended = |early_exit, left| {
            let demand = Demand { is_kswapd: true, to_reclaim_pages: 32, ..Demand::ANY };
            let original = [400, 0, 1000, 0];
            let may_age = [false; 2];
            let turns = ListKind::ALL;
            let mut scan = Scan {
                demand,
                turn: 0,
                turns,
                original,
                left,
                may_age,
                left_active: false,
                is_trimmed: false,
                is_over: false,
            };
            scan.end_round(32, early_exit);
            !scan.goes_on()
        };
        assert!(ended(EarlyExit::ProportionalOfBoth, [0, 0, 900, 0]));
        assert!(!ended(EarlyExit::ProportionalOfBoth, [300, 0, 900, 0]), "the larger is trimmed");
        assert!(!ended(EarlyExit::Proportional, [0, 0, 900, 0]), "the larger is scanned in full");
    }
}
