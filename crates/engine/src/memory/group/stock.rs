//! Stocks: pages that a CPU has charged to a group in advance (`memcg_stock_pcp`; mechanisms/groups, 1).
//!
//! A charge that the stock can serve changes no shared counter. The pages of all stocks count as usage of their groups,
//! although no task uses these pages.

use super::{Full, GroupId, Groups, Limit};
use machine::{Machine, PerCpu};

/// Number of pages that a CPU charges at once when it has too few pages in stock for a charge (`MEMCG_CHARGE_BATCH`).
pub const STOCK_PAGES: u64 = 64;

/// The pages that one CPU has charged in advance, all to one group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stock {
    group: GroupId,
    pages: u64,
}

impl Stock {
    /// Returns the number of pages in this stock if they are charged to the group `id`, and 0 if they are charged to
    /// another group.
    pub(super) fn pages_of(&self, id: GroupId) -> u64 {
        if self.group == id { self.pages } else { 0 }
    }
}

impl<M: Machine> Groups<M> {
    /// Charges pages to a group and its ancestors. If the CPU's stock has enough pages, takes the charge from the stock
    /// and returns 0. Otherwise returns the number of pages that were added to the counters.
    ///
    /// # Errors
    /// Fails with the group whose limit refuses the charge.
    #[inline]
    pub(crate) fn charge(&self, id: GroupId, pages: u64) -> Result<u64, Full> {
        {
            let mut stock = self.stocks.local();
            if stock.group == id && stock.pages >= pages {
                stock.pages -= pages;
                return Ok(0);
            }
        }
        self.charge_counters(id, pages)
    }

    fn charge_counters(&self, id: GroupId, pages: u64) -> Result<u64, Full> {
        let batch = pages.max(STOCK_PAGES);
        if self.add(id, batch).is_ok() {
            if batch > pages {
                self.put_in_stock(id, batch - pages);
            }
            return Ok(batch);
        }
        self.add(id, pages).map(|()| pages)
    }

    fn put_in_stock(&self, id: GroupId, pages: u64) {
        let mut unused = Stock { group: id, pages };
        {
            let mut stock = self.stocks.local();
            if stock.group == id {
                stock.pages += std::mem::take(&mut unused.pages);
                if stock.pages > STOCK_PAGES {
                    unused.pages = std::mem::take(&mut stock.pages);
                }
            } else {
                std::mem::swap(&mut *stock, &mut unused);
            }
        }
        if unused.pages > 0 {
            self.uncharge(unused.group, unused.pages);
        }
    }

    /// Empties the stocks of all CPUs, and subtracts their pages from the counters of their groups.
    #[doc(alias = "drain_all_stock")]
    pub(crate) fn drain_stocks(&self) {
        let mut stocks = Vec::new();
        self.stocks.for_each_cpu(|stock| stocks.push(std::mem::take(stock)));
        stocks.iter().filter(|stock| stock.pages > 0).for_each(|stock| self.uncharge(stock.group, stock.pages));
    }

    /// Returns the number of pages that can still be charged to a group before its own limit (not an ancestor's), or
    /// its limit of memory and swap together, is reached.
    pub(crate) fn margin(&self, id: GroupId) -> u64 {
        let of_memory = self.limit(id, Limit::Max).saturating_sub(self.usage(id));
        of_memory.min(self.limit(id, Limit::Memsw).saturating_sub(self.memsw_usage(id)))
    }

    /// Returns whether the group or an ancestor uses more memory than its `memory.high` allows.
    pub(crate) fn is_over_high(&self, id: GroupId) -> bool {
        self.over_high(id).next().is_some()
    }

    /// Returns the group and its ancestors except the root group, from the group upwards.
    pub(crate) fn with_ancestors(&self, id: GroupId) -> Vec<GroupId> {
        self.lineage(id).collect()
    }

    /// Returns those of a group and its ancestors whose usage is above their own `high` limit, in the order from the
    /// group to the root.
    pub(crate) fn over_high(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        self.lineage(id).filter(|at| self.usage(*at) > self.limit(*at, Limit::High))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GroupVersion;
    use sim::{Config, Sim};

    #[test]
    fn a_stock_serves_charges_of_its_group_and_goes_when_another_group_comes() {
        let groups: Groups<Sim> = Groups::new(&Sim::new(Config::uniform(1, 0)), 2, GroupVersion::V2);
        let [a, b] = [(); 2].map(|()| groups.create(GroupId::ROOT).unwrap());
        assert_eq!(groups.charge(a, 1), Ok(64));
        assert_eq!(groups.charge(a, 63), Ok(0));
        assert_eq!((groups.usage(a), groups.stocked_pages(a)), (64, 0));
        assert_eq!(groups.charge(a, 10), Ok(64));
        assert_eq!((groups.usage(a), groups.stocked_pages(a)), (128, 54));
        assert_eq!(groups.charge(b, 1), Ok(64));
        assert_eq!((groups.usage(a), groups.stocked_pages(a), groups.stocked_pages(b)), (74, 0, 63));
        groups.drain_stocks();
        assert_eq!((groups.usage(a), groups.usage(b)), (74, 1));
    }

    #[test]
    fn at_the_limit_exactly_what_is_wanted_is_charged() {
        let groups: Groups<Sim> = Groups::new(&Sim::new(Config::uniform(1, 0)), 1, GroupVersion::V2);
        let group = groups.create(GroupId::ROOT).unwrap();
        groups.set_limit(group, Limit::Max, 70);
        groups.charge(group, 64).unwrap();
        assert_eq!(groups.charge(group, 5), Ok(5));
        assert_eq!(groups.charge(group, 2), Err(Full { group, limit: Limit::Max }));
        assert_eq!(groups.margin(group), 1);
    }
}
