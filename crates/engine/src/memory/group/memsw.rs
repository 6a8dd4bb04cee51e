//! The limit of memory and swap together, of cgroup version 1 (`memory.memsw.limit_in_bytes`; mechanisms/groups, 9).
//!
//! Each page counts once, whether it is in memory, in swap or in both. So the amount that the limit bounds is the
//! group's usage of memory plus its *swapped-out slots*: the swap slots whose page is not in memory. A page that goes to
//! swap or comes back leaves the sum as it is. *Called by* charges, and by `swap` when a page leaves or enters the swap
//! cache. *Locks*: none of its own; `swap` reports the moves of pages under its lock.

use super::lives::Pin;
use super::{Group, GroupId, Groups, Limit};
use machine::Machine;
use machine::atomic::{AtomicU64, Ordering::Relaxed};

/// The group whose limit refuses a charge, and this limit: [`Limit::Max`] or [`Limit::Memsw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) group: GroupId,
    pub(crate) limit: Limit,
}

/// The memory and the swap of one group, counted together.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// Number of swap slots of the group and its descendants whose page is not in memory.
    swapped_out: AtomicU64,
    /// Largest sum of memory and swap so far.
    peak: AtomicU64,
    /// Number of refused charges.
    failures: AtomicU64,
}

impl Together {
    pub(super) fn reset(&self) {
        [&self.peak, &self.failures].into_iter().for_each(|count| count.store(0, Relaxed));
    }

    /// Records the sum of memory and swap, of which `usage` pages are in memory, if it is the largest so far.
    pub(super) fn record_peak(&self, usage: u64) {
        self.peak.fetch_max(self.with_memory(usage), Relaxed);
    }

    /// Returns the sum of a group's pages in memory, which are `usage` pages, and of its pages in swap.
    fn with_memory(&self, usage: u64) -> u64 {
        // While a page is being read from swap, its slot is subtracted in advance, and two tasks may both do so.
        usage.saturating_add_signed(self.swapped_out.load(Relaxed) as i64)
    }
}

impl Group {
    /// Returns whether the limit of memory and swap together allows that the group has `usage` pages in memory.
    pub(super) fn allows_together(&self, usage: u64) -> bool {
        self.together.with_memory(usage) <= self.limit(Limit::Memsw)
    }
}

/// The direction in which the page of a swap slot moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotMove {
    /// The page left memory, and now is in swap alone.
    Out,
    /// The page came back to memory, or its slot became free while the page was not in memory.
    Back,
}

/// A page that is about to come back from swap. Until the value is dropped, the page's slot does not count in the sum of
/// memory and swap of its group, and the group stays in the tree.
pub(crate) struct Returning<'a, M: Machine> {
    groups: &'a Groups<M>,
    owner: GroupId,
    _pin: Pin<'a>,
}

impl<M: Machine> Drop for Returning<'_, M> {
    fn drop(&mut self) {
        self.groups.move_slot(self.owner, SlotMove::Out);
    }
}

impl<M: Machine> Groups<M> {
    /// Returns the number of pages of a group and its descendants in memory and in swap together
    /// (`memory.memsw.usage_in_bytes`). A page that is in both counts once. If [`super::GroupVersion::counts_memsw`] is
    /// `false`, pages in swap are not counted.
    #[must_use]
    pub fn memsw_usage(&self, id: GroupId) -> u64 {
        self.group(id).together.with_memory(self.usage(id))
    }

    /// Returns the largest number of pages that a group has had in memory and in swap together
    /// (`memory.memsw.max_usage_in_bytes`). The result is 0 if [`super::GroupVersion::counts_memsw`] is `false`.
    #[must_use]
    pub fn memsw_peak(&self, id: GroupId) -> u64 {
        self.group(id).together.peak.load(Relaxed)
    }

    /// Returns how many charges the group's limit of memory and swap together has refused (`memory.memsw.failcnt`).
    #[must_use]
    pub fn memsw_failures(&self, id: GroupId) -> u64 {
        self.group(id).together.failures.load(Relaxed)
    }

    /// Returns the number of swap slots of a group and its descendants whose page is not in memory. The result is 0 if
    /// [`super::GroupVersion::counts_memsw`] is `false`.
    pub(crate) fn swapped_out(&self, id: GroupId) -> u64 {
        self.group(id).together.swapped_out.load(Relaxed)
    }

    /// Counts a charge that a group's limit of memory and swap together refused.
    pub(crate) fn count_memsw_failure(&self, id: GroupId) {
        self.group(id).together.failures.fetch_add(1, Relaxed);
    }

    /// Records that the page of a swap slot moved. Does nothing if [`super::GroupVersion::counts_memsw`] is `false`.
    pub(crate) fn move_slot(&self, owner: GroupId, to: SlotMove) {
        if !self.version.counts_memsw() {
            return;
        }
        for at in self.lineage(owner) {
            let swapped_out = &self.group(at).together.swapped_out;
            _ = match to {
                SlotMove::Out => swapped_out.fetch_add(1, Relaxed),
                SlotMove::Back => swapped_out.fetch_sub(1, Relaxed),
            };
        }
    }

    /// Announces that a page of the group `owner` is about to be charged, because it comes back from swap. Its slot no
    /// longer counts, so that the limit of memory and swap together does not refuse the page. Returns `None` if the
    /// group was removed; the page is then charged to another group.
    pub(crate) fn begin_return(&self, owner: GroupId) -> Option<Returning<'_, M>> {
        let pin = self.pin(owner)?;
        self.move_slot(owner, SlotMove::Back);
        Some(Returning { groups: self, owner, _pin: pin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GroupVersion;
    use sim::{Config, Sim};

    #[test]
    fn a_page_counts_once_whether_it_is_in_memory_or_in_swap() {
        let groups: Groups<Sim> = Groups::new(&Sim::new(Config::uniform(1, 0)), 2, GroupVersion::V1WithMemsw);
        let parent = groups.create(GroupId::ROOT).unwrap();
        let child = groups.create(parent).unwrap();
        groups.set_limit(child, Limit::Max, 8);
        groups.set_limit(parent, Limit::Memsw, 10);
        groups.add(child, 8).unwrap();
        assert_eq!(groups.add(child, 1), Err(Full { group: child, limit: Limit::Max }));
        // Three pages leave memory for swap.
        (0..3).for_each(|_| groups.move_slot(child, SlotMove::Out));
        groups.uncharge(child, 3);
        assert_eq!((groups.usage(child), groups.memsw_usage(child), groups.memsw_usage(parent)), (5, 8, 8));
        assert_eq!(groups.add(child, 2), Ok(()));
        assert_eq!(groups.add(child, 1), Err(Full { group: parent, limit: Limit::Memsw }));
        assert_eq!((groups.usage(child), groups.usage(parent), groups.margin(parent)), (7, 7, 0));
        // One of them comes back, although the sum is at its limit.
        let returning = groups.begin_return(child).expect("it is live");
        assert_eq!(groups.add(child, 1), Ok(()));
        groups.move_slot(child, SlotMove::Back);
        drop(returning);
        assert_eq!((groups.usage(child), groups.swapped_out(parent), groups.memsw_usage(parent)), (8, 2, 10));
        assert_eq!(groups.memsw_peak(parent), 10);
    }

    /// As in Linux, the limits of memory and swap of all ancestors are tried before any limit of memory. A reclaim for the
    /// child's limit of memory could swap, which would not help the parent.
    #[test]
    fn an_ancestors_limit_of_memory_and_swap_is_tried_before_a_limit_of_memory() {
        let groups: Groups<Sim> = Groups::new(&Sim::new(Config::uniform(1, 0)), 3, GroupVersion::V1WithMemsw);
        let above = groups.create(GroupId::ROOT).unwrap();
        let parent = groups.create(above).unwrap();
        let child = groups.create(parent).unwrap();
        groups.set_limit(child, Limit::Max, 8);
        groups.set_limit(parent, Limit::Memsw, 10);
        assert_eq!(groups.add(child, 9), Err(Full { group: child, limit: Limit::Max }));
        assert_eq!(groups.add(child, 11), Err(Full { group: parent, limit: Limit::Memsw }));
        groups.set_limit(parent, Limit::Max, 7);
        assert_eq!(groups.add(child, 9), Err(Full { group: child, limit: Limit::Max }), "the nearest");
        groups.set_limit(child, Limit::Memsw, 9);
        assert_eq!(groups.add(child, 11), Err(Full { group: child, limit: Limit::Memsw }), "the nearest");
        let counters = [child, parent, above].map(|id| (groups.usage(id), groups.peak(id), groups.memsw_peak(id)));
        assert_eq!(counters, [(0, 0, 0); 3], "a refused charge changes no counter");
    }

    #[test]
    fn equal_limits_refuse_for_memory_and_swap_together() {
        let groups: Groups<Sim> = Groups::new(&Sim::new(Config::uniform(1, 0)), 1, GroupVersion::V1WithMemsw);
        let group = groups.create(GroupId::ROOT).unwrap();
        [Limit::Max, Limit::Memsw].into_iter().for_each(|limit| groups.set_limit(group, limit, 8));
        assert_eq!(groups.add(group, 9), Err(Full { group, limit: Limit::Memsw }));
    }
}
