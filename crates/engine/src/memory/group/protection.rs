//! The protection of groups: the number of a group's pages that `memory.min` and `memory.low` keep from a reclaim
//! (mechanisms/groups, 5).
//!
//! Protection is distributed from the root of a reclaim downwards. A child of the root has the protection that its
//! setting asks for. Further down, the children of a group share the protection of the group. If the children claim
//! more than this, each child gets a part in proportion to its claim. If the children claim less, the rest is
//! distributed among them in proportion to their unprotected pages (`memory_recursiveprot`).

use super::{GroupId, Groups, Limit};
use machine::Machine;
use machine::atomic::Ordering::Relaxed;

/// The protections, in the order in which a group stores them.
const PROTECTIONS: [Limit; 2] = [Limit::Min, Limit::Low];

/// The protection of a group against one reclaim, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Number of the group's pages that reclaim never takes (`emin`).
    pub min: u64,
    /// Number of the group's pages that reclaim leaves alone while it finds enough pages elsewhere (`elow`).
    pub low: u64,
}

impl<M: Machine> Groups<M> {
    /// Computes the protection of a group against a reclaim of the subtree of `root`. A walk calls this for each group
    /// in preorder (parents before children), because the protection of a group depends on its parent's protection.
    #[doc(alias = "mem_cgroup_calculate_protection")]
    pub(crate) fn update_protection(&self, root: GroupId, id: GroupId) -> Protection {
        let group = self.group(id);
        // The root of a reclaim is not protected from itself. What other reclaims know of it stays.
        if id == root || !self.has_protection.load(Relaxed) {
            return Protection::default();
        }
        let parent = self.tree.parent(id);
        let usage = self.usage(id);
        for (n, limit) in PROTECTIONS.into_iter().enumerate() {
            let setting = group.limit(limit);
            let effective = if parent == root {
                setting
            } else {
                let above = self.group(parent);
                share(Share {
                    usage,
                    parent_usage: self.usage(parent),
                    setting,
                    parent_effective: above.effective[n].load(Relaxed),
                    claimed: above.claimed[n].load(Relaxed),
                })
            };
            group.effective[n].store(effective, Relaxed);
        }
        let mut claimed = [0; 2];
        self.for_each_child(id, |child| {
            for (sum, limit) in claimed.iter_mut().zip(PROTECTIONS) {
                *sum += self.group(child).limit(limit).min(self.usage(child));
            }
        });
        group.claimed.iter().zip(claimed).for_each(|(of_group, sum)| of_group.store(sum, Relaxed));
        let [min, low] = [0, 1].map(|n| group.effective[n].load(Relaxed));
        Protection { min, low }
    }

    /// Computes the protections that a group's ancestors and then the group itself have in a reclaim of the whole tree.
    /// Returns those of the group. This function is for callers that do not visit the groups in preorder (parents
    /// before children).
    pub(crate) fn update_protection_from_root(&self, id: GroupId) -> Protection {
        if !self.has_protection.load(Relaxed) {
            return Protection::default();
        }
        let lineage = self.with_ancestors(id);
        lineage.into_iter().rev().map(|at| self.update_protection(GroupId::ROOT, at)).last().unwrap_or_default()
    }

    /// Returns the protection of a group, as the last walk over the groups computed it.
    #[must_use]
    pub fn protection(&self, id: GroupId) -> Protection {
        let [min, low] = [0, 1].map(|n| self.group(id).effective[n].load(Relaxed));
        Protection { min, low }
    }
}

/// The numbers from which a group's share of its parent's protection is computed, in pages.
#[derive(Clone, Copy, Debug)]
struct Share {
    usage: u64,
    parent_usage: u64,
    /// The protection that is set for the group itself (`memory.min` or `memory.low`).
    setting: u64,
    /// The effective protection of the parent group.
    parent_effective: u64,
    /// Sum of the protected pages of the parent's children: this group and its siblings.
    claimed: u64,
}

/// Returns the effective protection of a group, in pages.
#[doc(alias = "effective_protection")]
fn share(of: Share) -> u64 {
    let part = |pages: u64, of: u64, all: u64| (u128::from(pages) * u128::from(of) / u128::from(all.max(1))) as u64;
    let protected = of.usage.min(of.setting);
    if of.claimed > of.parent_effective {
        return part(of.parent_effective, protected, of.claimed);
    }
    let is_shared = of.parent_effective > of.claimed && of.parent_usage > of.claimed && of.usage > protected;
    let of_rest = match is_shared {
        true => part(of.parent_effective - of.claimed, of.usage - protected, of.parent_usage - of.claimed),
        false => 0,
    };
    protected + of_rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GroupVersion;
    use sim::{Config, Sim};

    #[test]
    fn children_that_claim_too_much_share_in_proportion() {
        let groups: Groups<Sim> = Groups::new(&Sim::new(Config::uniform(1, 0)), 3, GroupVersion::V2);
        let parent = groups.create(GroupId::ROOT).unwrap();
        let [a, b] = [(); 2].map(|()| groups.create(parent).unwrap());
        for (group, low, pages) in [(a, 300, 300), (b, 100, 200)] {
            groups.set_limit(group, Limit::Low, low);
            groups.add(group, pages).unwrap();
        }
        groups.set_limit(parent, Limit::Low, 200);
        let protection = || {
            let tree = groups.subtree(GroupId::ROOT);
            tree.iter().map(|id| groups.update_protection(GroupId::ROOT, *id).low).collect::<Vec<_>>()
        };
        assert_eq!(protection(), [0, 200, 150, 50], "300 and 100 claim 400 of 200");
        groups.set_limit(parent, Limit::Low, 440);
        // 40 pages are not claimed. All of `a` is protected; `b` has 100 pages that are not, of 100 in all.
        assert_eq!(protection(), [0, 440, 300, 140]);
        assert_eq!(groups.update_protection(parent, a).low, 300, "a child of the root has what it asks for");
        assert_eq!(groups.update_protection(a, a), Protection::default());
    }

    #[test]
    fn protection_beyond_a_groups_pages_protects_no_other_group() {
        let share = |usage, setting, parent_effective, claimed| {
            share(Share { usage, parent_usage: 1000, setting, parent_effective, claimed })
        };
        assert_eq!(share(100, u64::MAX, 500, 100), 100);
        assert_eq!(share(0, 50, 500, 100), 0);
        assert_eq!(share(300, 0, 500, 400), 50, "a half of the unprotected 600 pages, of 100 spare");
    }
}
