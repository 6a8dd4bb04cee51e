//! Allocation: the fast path, and the slow path below the low mark.
//!
//! *Flow*: [`Allocate::allocate`] tries the zonelist at the low mark ([`fast`]). If no zone has a free block, it wakes
//! kswapd, tries at the min mark, compacts, reclaims, and tries again. In the end it kills a process
//! ([`out_of_memory`]) or reports that memory is exhausted ([`slow`]). If a cgroup limits memory, pages of the cgroup
//! are first reclaimed until the request fits below the limit (`limit`). The pages of a task in a control group are
//! charged to the group (`charge`, `throttle_high`). The module is called by `access`. *Locks*: the module has no lock
//! of its own. *Description*: mechanisms/reclaim, 15, 16.
//!
//! Next: [`crate::access`].

pub mod balloon;
mod charge;
pub mod choices;
pub mod fast;
mod limit;
pub mod out_of_memory;
pub mod slow;
mod throttle_high;
mod zonelist_cache;

pub use choices::Choices;

use crate::memory::{Gfp, GroupId, Limit};
use crate::reclaim::Reclaim;
use crate::slab::SlabCache;
use crate::stat::{Event, Gauge};
use crate::task::Task;
use choices::ZonelistCacheUse;
use machine::atomic::{AtomicU64, Ordering::Relaxed};
use machine::{FrameNumber, Func, Machine, Order};
use out_of_memory::Killer;
use std::ops::Deref;
use zonelist_cache::ZonelistCache;

/// The error of a request for a block of pages: no block is free, and none can be made free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The order of the request.
    pub order: Order,
    /// The control group whose limit refused the request, the limit that refused it, and its size in pages; `None` if
    /// memory itself is exhausted.
    pub full: Option<(GroupId, Limit, u64)>,
}

impl OutOfMemory {
    /// Creates the error of a request that failed because all of memory is exhausted, and not because of a control
    /// group's limit.
    #[must_use]
    pub const fn of_memory(order: Order) -> Self {
        Self { order, full: None }
    }
}

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some((group, limit, pages)) = self.full {
            let (group, limit) = (group.0, limit.name());
            return write!(f, "control group {group} is full: nothing can be freed of its {pages} pages ({limit})");
        }
        match self.order {
            Order::ZERO => f.write_str("out of memory: no page can be made free"),
            order => write!(f, "out of memory: no block of {order} can be made free"),
        }
    }
}

impl std::error::Error for OutOfMemory {}

/// The layer (*floor*) of the engine that allocates pages.
pub struct Allocate<M: Machine> {
    reclaim: Reclaim<M>,
    /// The zonelist cache of each node. Empty on a machine with one node, and for kernels without zonelist caches.
    zonelist_caches: Vec<ZonelistCache>,
    times_at_limit: AtomicU64,
    killer: Killer<M>,
    /// The section `[allocate]` of the kernel file.
    pub choices: Choices,
}

impl<M: Machine> Deref for Allocate<M> {
    type Target = Reclaim<M>;
    #[inline]
    fn deref(&self) -> &Reclaim<M> {
        &self.reclaim
    }
}

impl<M: Machine> Allocate<M> {
    /// Creates the layer of allocation on top of the layer `reclaim`, before the first request for memory.
    pub fn new(reclaim: Reclaim<M>, choices: Choices) -> Self {
        let cached_nodes = match choices.zonelist_cache {
            ZonelistCacheUse::Kept if reclaim.nodes.len() > 1 => reclaim.nodes.len(),
            ZonelistCacheUse::Kept | ZonelistCacheUse::Off => 0,
        };
        let zonelist_caches = (0..cached_nodes).map(|_| ZonelistCache::new(reclaim.zones.len())).collect();
        let killer = Killer::new(&reclaim.machine);
        Self { reclaim, zonelist_caches, times_at_limit: AtomicU64::new(0), killer, choices }
    }

    /// Returns the number of requests that met the limit of the memory cgroup that contains all tasks.
    #[doc(alias = "memory.events")]
    pub fn times_at_limit(&self) -> u64 {
        self.times_at_limit.load(Relaxed)
    }

    /// Allocates 2^`order` contiguous pages, and returns the first one, which has one reference. The calling task may
    /// sleep, if `gfp` allows it.
    ///
    /// # Errors
    /// Fails when no page is free and none can be made free, as far as `gfp` allows reclaim.
    #[doc(alias = "alloc_pages")]
    pub fn allocate(&self, task: &mut Task, gfp: Gfp, order: Order) -> Result<FrameNumber, OutOfMemory> {
        let _span = self.machine.span(Func::AllocPages);
        if order > Order::ZERO {
            self.stat.count(Event::AllocHighOrder, 1);
        }
        if let Some(limit_pages) = self.memory().limit_pages() {
            self.make_room_under(limit_pages, task, gfp, order)?;
        }
        let group = self.charge(task, gfp, order)?;
        let found = match self.allocate_fast(task, gfp, order) {
            Some(frame) => Ok(frame),
            None => {
                if order > Order::ZERO {
                    self.stat.count(Event::AllocHighOrderSlow, 1);
                }
                // A task that sleeps meanwhile may wake up on another node's CPU, but still uses this node's zonelist.
                let gfp = Gfp { node: Some(gfp.node.unwrap_or_else(|| self.memory().local_node())), ..gfp };
                self.allocate_slow(task, gfp, order)
            }
        };
        self.commit_charge(group, order, found.as_ref().ok().copied());
        found
    }

    /// Allocates a page for the kernel's own use, counted in `gauge`.
    ///
    /// # Errors
    /// Fails as [`Allocate::allocate`] does.
    pub fn allocate_kernel(&self, task: &mut Task, gfp: Gfp, gauge: Gauge) -> Result<FrameNumber, OutOfMemory> {
        let frame = self.allocate(task, gfp, Order::ZERO)?;
        self.take_for_kernel(frame, Order::ZERO, gauge);
        Ok(frame)
    }

    /// Adds a slab to a cache. The slab is a block of the order that the cache prefers, if such a block can be
    /// allocated with little effort (`__GFP_NORETRY | __GFP_NOWARN`); otherwise it is a single page. If no zone is
    /// above its low mark, even the attempt with little effort wakes kswapd for the order, and reclaims once.
    ///
    /// # Errors
    /// Fails as [`Allocate::allocate`] does for a single page.
    pub fn add_slab(&self, task: &mut Task, slabs: &SlabCache<M>) -> Result<(), OutOfMemory> {
        let (gfp, gauge, order) = (slabs.kind().gfp(), slabs.kind().gauge(), slabs.order());
        if order > Order::ZERO
            && let Ok(head) = self.allocate(task, Gfp { no_retry: true, ..gfp }, order)
        {
            self.take_for_kernel(head, order, gauge);
            slabs.add(head, order);
            return Ok(());
        }
        slabs.add(self.allocate_kernel(task, gfp, gauge)?, Order::ZERO);
        Ok(())
    }

    fn take_for_kernel(&self, head: FrameNumber, order: Order, gauge: Gauge) {
        for n in 0..order.pages() as u32 {
            self.frames[FrameNumber(head.0 + n)].set(crate::memory::Flags::KERNEL);
        }
        self.memory().add_gauge(head, gauge, order.pages() as i64);
    }
}
