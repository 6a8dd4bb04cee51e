//! The number of pages of each list of an lruvec that a scan examines (`get_scan_count`; mechanisms/reclaim, 10.2).

use crate::lru::choices::{AtPriorityZero, FamilyBalance, FamilyWeights, FewFiles, FileOnly};
use crate::lru::policy::Demand;
use crate::lru::{Family, ListKind, Lru, Lruvec, Reach};
use machine::{Lock, Machine};

/// Number of pages to scan on each list, indexed by [`ListKind`].
pub type Targets = [u64; ListKind::ALL.len()];

/// For each family, `true` if its active pages may become inactive.
pub(super) type MayAge = [bool; Family::ALL.len()];

/// The division of scanning between anonymous and file pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Balance {
    /// Both families are scanned in full.
    Equal,
    /// Only one family is scanned.
    Only(Family),
    /// The scan examines a fraction of the pages that the priority allows: `anon / denominator` of the anonymous pages,
    /// and `file / denominator` of the file pages.
    Fraction { anon: u64, file: u64, denominator: u64 },
}

impl<M: Machine> Lru<M> {
    /// Returns, for each list, the number of pages to scan at the demand's priority.
    #[doc(alias = "get_scan_count")]
    pub(super) fn scan_count(&self, reach: Reach<'_, M>, demand: &Demand, may_age: MayAge) -> Targets {
        let balance = self.scan_balance(reach, demand, may_age);
        ListKind::ALL.map(|kind| {
            if !self.choices.lists.have_families() && kind.family() == Family::Anon {
                return 0;
            }
            let share = self.share(reach, self.list_pages(reach, kind), demand);
            let share = match balance {
                Balance::Equal => share,
                Balance::Only(family) if family == kind.family() => share,
                Balance::Only(_) => 0,
                Balance::Fraction { anon, file, denominator } => {
                    let part = if kind.family() == Family::Anon { anon } else { file };
                    let (product, denominator) = (u128::from(share) * u128::from(part), u128::from(denominator));
                    let pages = match product > 0 && self.is_of_removed_group(reach) {
                        true => product.div_ceil(denominator),
                        false => product / denominator,
                    };
                    pages as u64
                }
            };
            self.target(reach.lruvec, kind, share)
        })
    }

    fn scan_balance(&self, reach: Reach<'_, M>, demand: &Demand, may_age: MayAge) -> Balance {
        let swappiness = demand.swappiness.unwrap_or(self.choices.swappiness);
        if !self.choices.lists.have_families() {
            return Balance::Equal;
        }
        // Without a free slot, pages that already have one can still be freed. A scan looks for them when nothing else
        // helped.
        let may_swap_out =
            self.swap_floor().has_swap_room(reach.lruvec.group) || demand.doubts_marks && self.swap.cache.pages() > 0;
        if !demand.may_swap || !may_swap_out {
            return Balance::Only(Family::File);
        }
        match self.choices.at_priority_zero {
            AtPriorityZero::Equal if demand.priority == 0 && swappiness > 0 => return Balance::Equal,
            AtPriorityZero::Equal | AtPriorityZero::Fraction => {}
        }
        let family_pages =
            |family: Family| self.list_pages(reach, family.inactive()) + self.list_pages(reach, family.active());
        let file = family_pages(Family::File);
        let of_target = |kind| self.list_pages_of_target(reach, demand, kind);
        let file_of_all = of_target(ListKind::InactiveFile) + of_target(ListKind::ActiveFile);
        // With almost no file pages, the zone would thrash on the few that are left.
        let (free, high) =
            reach.zones.iter().fold((0, 0), |(free, high), it| (free + it.free_pages(), high + it.high()));
        let has_share = |family: Family| of_target(family.inactive()) >> demand.priority > 0;
        let may_be_anon_only = match self.choices.few_files {
            FewFiles::ScansAnon => true,
            // After a scan that found nothing (`doubts_marks`), the rule applies in any case. Other scans wait until
            // active pages have become inactive. Where `swappiness` is 0, nothing else makes a scan take anonymous
            // pages.
            FewFiles::ScansInactiveAnon => {
                demand.doubts_marks || !may_age[Family::Anon as usize] && has_share(Family::Anon)
            }
        };
        if !demand.is_cgroup && file_of_all + free <= high && may_be_anon_only {
            return Balance::Only(Family::Anon);
        }
        // With enough inactive file pages, anonymous pages are left alone.
        let is_file_enough = match self.choices.file_only {
            // In a cgroup, the comparison with the high mark was skipped above, so a list without a share has to be
            // excluded here.
            FileOnly::WhileInactiveSuffices => {
                !self.is_inactive_low(reach, Family::File, demand) && (!demand.is_cgroup || has_share(Family::File))
            }
            FileOnly::WhileInactiveIsScanned => !may_age[Family::File as usize] && has_share(Family::File),
            FileOnly::Never => false,
        };
        if is_file_enough {
            return Balance::Only(Family::File);
        }
        match self.choices.family_balance {
            FamilyBalance::ByRotation => {}
            FamilyBalance::ByIo | FamilyBalance::ByIoAndRotation => {
                return self.balance_by_cost(self.beside(reach.lruvec, demand.group), swappiness);
            }
        }
        let mut lists = reach.lruvec.classic().lists.lock();
        for (family, pages) in [(Family::Anon, family_pages(Family::Anon)), (Family::File, file)] {
            let family = family as usize;
            if lists.recent_scanned[family] > pages / 4 {
                lists.recent_scanned[family] /= 2;
                lists.recent_rotated[family] /= 2;
            }
        }
        let part = |weight: u64, family: Family| {
            let family = family as usize;
            weight * (lists.recent_scanned[family] + 1) / (lists.recent_rotated[family] + 1)
        };
        let more = match self.choices.family_weights {
            FamilyWeights::AndOne => 1,
            FamilyWeights::AsItIs => 0,
        };
        let anon = part(swappiness + more, Family::Anon);
        let file = part(200 + more - swappiness.min(200), Family::File);
        Balance::Fraction { anon, file, denominator: anon + file + 1 }
    }

    /// Returns the division of scanning that follows from `swappiness` and from the recent cost of evicting pages of
    /// each family: a family with a higher cost is scanned less. The effect of the costs is damped: however much they
    /// differ, they alone never make the scan of one family less than half as hard as that of the other.
    fn balance_by_cost(&self, lruvec: &Lruvec<M>, swappiness: u64) -> Balance {
        let costs = lruvec.classic().lists.lock().costs();
        let (anon, file) = parts_by_cost(swappiness, costs);
        Balance::Fraction { anon, file, denominator: anon + file }
    }
}

/// Returns the weights of anonymous pages and of file pages in a scan, from `swappiness` and the recent costs of
/// evicting pages of each family (mechanisms/multigen, 8.5). At least one of the two weights is above 0.
const fn parts_by_cost(swappiness: u64, [anon, file]: [u64; 2]) -> (u64, u64) {
    let total = anon + file;
    let (anon, file) = (total + anon, total + file);
    let sum = anon + file;
    (swappiness * (sum + 1) / (anon + 1), 200u64.saturating_sub(swappiness) * (sum + 1) / (file + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearer_family_is_scanned_less_and_half_as_hard_at_least() {
        assert_eq!(parts_by_cost(100, [0, 0]), (100, 100));
        assert_eq!(parts_by_cost(60, [0, 0]), (60, 140));
        assert_eq!((parts_by_cost(0, [5, 0]).0, parts_by_cost(200, [0, 5]).1), (0, 0));
        let (anon, file) = parts_by_cost(100, [1000, 0]);
        assert!((anon, file) == (149, 299), "{anon} {file}");
        assert_eq!(parts_by_cost(100, [0, 1000]), (299, 149));
        let (anon, file) = parts_by_cost(200, [0, 0]);
        assert!(anon > 0 && file == 0, "all of swappiness is for anonymous pages");
    }
}
