//! The permissions of one reclaim and its results (`struct scan_control`).

use super::DEF_PRIORITY;
use crate::lru::{Blocks, Demand};
use crate::memory::{Gfp, GroupId};
use machine::Order;
use machine::note::{Met, Work};

/// The largest order that is not costly (`PAGE_ALLOC_COSTLY_ORDER`). For costly orders, reclaim does not promise to
/// succeed.
pub const COSTLY_ORDER: Order = Order(3);

/// The state of one reclaim.
#[derive(Clone, Debug)]
pub struct ScanControl {
    /// The flags of the request for which pages are reclaimed.
    pub gfp: Gfp,
    /// Order of the request for which pages are reclaimed.
    pub order: Order,
    /// Priority of the reclaim. A scan examines `size >> priority` pages of each list.
    pub priority: u32,
    /// `true` if anonymous pages may go to swap.
    pub may_swap: bool,
    /// `true` if the reclaim may take mapped pages.
    pub may_unmap: bool,
    /// `true` if the reclaim may write dirty pages.
    pub may_write: bool,
    /// Number of pages that the reclaim wants to free.
    pub to_reclaim_pages: u64,
    /// Number of pages that were scanned; mapped and swap-cache pages count twice.
    pub scanned: u64,
    /// Number of pages that were freed.
    pub reclaimed: u64,
    /// In direct reclaim, the sum of `scanned` over all priorities. `scanned` itself is reset at each priority.
    pub scanned_in_all: u64,
    /// Numbers of scanned pages by their fate, such as freed or still referenced. Only direct reclaim reports these
    /// numbers.
    pub met: Met,
    /// `true` if kswapd reclaims; `false` if another task does.
    pub is_kswapd: bool,
    /// `true` if a memory cgroup is at its limit, so that pages have to be freed even if much memory is free.
    #[doc(alias = "cgroup_reclaim")]
    pub is_cgroup: bool,
    /// The group from whose subtree pages are reclaimed. It is the root group, unless the reclaim is for one group.
    #[doc(alias = "target_mem_cgroup")]
    pub group: GroupId,
    /// The swappiness for this reclaim, if the caller asks for a value other than `lru.swappiness`; see
    /// [`Demand::swappiness`].
    pub swappiness: Option<u64>,
    /// `true` if pages within a group's `low` protection may be taken (`memcg_low_reclaim`).
    pub breaks_low: bool,
    /// `true` if the next pass may omit ageing: before the reclaim's first pass, and after a pass in which a scan freed
    /// many pages (the inverse of `memcgs_need_aging`).
    pub has_got_on: bool,
    /// `true` if a group was left alone because of its `low` protection (`memcg_low_skipped`).
    pub has_left_low: bool,
    /// `true` if walks visit all groups of the target's subtree, because walks that ended sooner found nothing
    /// (`memcg_full_walk`).
    pub walks_all: bool,
    /// During a walk over the list of groups, the number that is subtracted from `reclaimed` to get the pages that
    /// count as freed by this walk: for kswapd, the value of `reclaimed` when the walk began; otherwise 0. `None`
    /// outside of such a walk.
    pub walk_from: Option<u64>,
    /// `true` if a scan has begun a new generation of its lruvec.
    pub has_aged: bool,
    /// `true` if a scan tries to free whole aligned blocks. It then also frees recently used pages of a block, except
    /// with `LumpyReclaim::SameList`. The value becomes `false` when a page is kept that is not under writeback,
    /// because its block cannot become free. With `LumpyReclaim::ByOrder` the value stays `true`.
    pub takes_blocks: bool,
    /// `true` if in the last scan for whole blocks, only pages under writeback stayed in memory. Only
    /// `LumpyReclaim::SameList` uses this.
    pub blocks_last: bool,
    /// `true` if reclaim waits for pages under writeback.
    pub waits_for_writeback: bool,
    /// Number of pages that kswapd met under writeback in the present pass, and had met under writeback once before
    /// (`ListStall::ReclaimThrottle`).
    pub met_again: u64,
    /// `true` if earlier reclaims of the request freed nothing. Reclaim then also scans zones that are marked hopeless
    /// (`all_unreclaimable`), because tasks may have released pages there after the zones were marked. If swap is full,
    /// reclaim looks for pages in the swap cache. If other tasks hold all inactive pages, reclaim looks at active
    /// pages.
    pub doubts_marks: bool,
    /// `true` if a scan did not look at an active list, from which pages could have become inactive
    /// (`ActiveScan::WhenLowOrRefaulted`).
    pub left_active: bool,
    /// `true` if the scan makes active pages inactive without the usual check. This is so after a scan that left active
    /// pages alone and freed nothing.
    pub forces_aging: bool,
}

impl ScanControl {
    /// Creates the state of kswapd's reclaim for a request of `order`.
    #[must_use]
    pub fn kswapd(order: Order) -> Self {
        Self {
            gfp: Gfp::KERNEL,
            order,
            priority: DEF_PRIORITY,
            may_swap: true,
            may_unmap: true,
            may_write: true,
            to_reclaim_pages: u64::MAX,
            scanned: 0,
            reclaimed: 0,
            scanned_in_all: 0,
            met: Met::default(),
            is_kswapd: true,
            is_cgroup: false,
            group: GroupId::ROOT,
            swappiness: None,
            breaks_low: false,
            has_left_low: false,
            has_got_on: true,
            walks_all: false,
            walk_from: None,
            has_aged: false,
            takes_blocks: false,
            blocks_last: true,
            waits_for_writeback: false,
            met_again: 0,
            doubts_marks: false,
            left_active: false,
            forces_aging: false,
        }
    }

    /// Creates the state of an allocating task's reclaim.
    #[must_use]
    pub fn direct(gfp: Gfp, order: Order) -> Self {
        Self { gfp, to_reclaim_pages: crate::lru::CLUSTER, is_kswapd: false, ..Self::kswapd(order) }
    }

    /// Creates the state of the reclaim of a task whose cgroup is at its limit.
    #[must_use]
    pub fn cgroup(gfp: Gfp) -> Self {
        Self { is_cgroup: true, ..Self::direct(gfp, Order::ZERO) }
    }

    /// Returns whether memory as a whole is short, so that reclaim may take pages of all groups. Returns `false` if
    /// reclaim is confined to one group, or if it runs because a group is at its limit.
    pub(super) const fn is_global(&self) -> bool {
        self.group.is_root() && !self.is_cgroup
    }

    /// Adds this reclaim to `work`, the record of the work for a request: counts one more direct reclaim, and adds the
    /// numbers of pages.
    pub(super) const fn add_to(&self, work: &mut Work) {
        work.reclaims += 1;
        work.scanned += self.scanned_in_all;
        work.freed += self.reclaimed;
        work.priority = self.priority;
        work.met.add(&self.met);
    }

    /// Returns the [`Demand`] with which this reclaim asks a policy for pages. `aged_order` and `blocks` become the
    /// fields with these names.
    pub(super) const fn demand(&self, aged_order: Order, blocks: Option<Blocks>) -> Demand {
        Demand {
            priority: self.priority,
            to_reclaim_pages: self.to_reclaim_pages,
            is_kswapd: self.is_kswapd,
            is_cgroup: self.is_cgroup,
            group: self.group,
            freed_before: match self.walk_from {
                Some(from) => self.reclaimed - from,
                None if self.is_cgroup => self.reclaimed,
                None => 0,
            },
            breaks_low: self.breaks_low,
            may_swap: self.may_swap,
            swappiness: self.swappiness,
            may_do_all: self.gfp.io && self.gfp.fs,
            aged_order,
            blocks,
            doubts_marks: self.doubts_marks,
            forces_aging: self.forces_aging,
        }
    }
}
