//! LRU: the order in which pages are reclaimed.
//!
//! *Holds* the lruvecs of zones or nodes ([`lruvec`]), each with the lists that the policy keeps ([`policy`]), and the
//! per-CPU batches in front of the lruvecs' locks. Drops the last reference of a page, which takes it off its list and
//! frees it. *Flow*: pages enter through [`Lru::add`], or through [`Lru::add_read`] where not all pages that are read
//! reach a list. They move by [`Lru::mark_accessed`] and [`Lru::rotate`], and leave by [`Lru::isolate`] or
//! [`Lru::put`]. *Called by* `access`, `reclaim`, `interrupt`. *Locks*: the slot of a batch (interrupts off); `lru`,
//! one lruvec at a time; `zone` when a page is freed, never inside `lru`. The judgement of waiting pages
//! ([`admission`]) also takes the locks that remove a page from its file. So a caller that adds pages it has read, or
//! drains before a scan, holds no lock other than page locks. *Description*: mechanisms/reclaim, 8, 9, 12.1.
//!
//! Next: [`crate::reclaim`], which isolates pages and decides their fate.

pub mod admission;
mod admission_rule;
pub mod batch;
pub mod check;
pub mod choices;
pub mod drop_pages;
pub(crate) mod given;
mod group_stat;
pub mod huge;
pub mod isolated;
pub mod kinds;
pub mod lruvec;
pub(crate) mod memcg_lru;
pub mod policy;
pub mod targets;
pub mod wait;
pub mod workingset;

pub use admission_rule::AdmissionRule;
pub use check::ListName;
pub use choices::Choices;
use choices::{Admission, Lists};
pub(crate) use given::{Given, HeldLists};
pub use isolated::BlockVictims;
pub use kinds::{Family, ListKind};
pub use lruvec::{Lruvec, Reach};
use memcg_lru::MemcgLru;
pub use policy::classic::Recent;
use policy::multigen;
use policy::ruling::Ruling;
pub(crate) use policy::{Batch, Commands, Entries, Scan};
pub use policy::{Blocks, CLUSTER, CommandError, Demand, Insert, Taken, Verdict, Victims as Isolated};
pub use workingset::{Left, Workingset};

use crate::anonymous::Anonymous;
use crate::memory::{Flags, Groups, Memory, Warmth};
use crate::page_cache::PageCache;
use crate::slab::Slab;
use crate::swap::{Swap, SwapLayout};
use crate::writeback::Writeback;
use batch::Batches;
use machine::atomic::Ordering::AcqRel;
use machine::{FrameNumber, Func, Lock, Machine};
use std::ops::Deref;

/// The priority at which reclaim begins. A scan at this priority examines 1/4096 of each list.
pub const DEF_PRIORITY: u32 = 12;

/// The layer (*floor*) of the engine that holds the LRU lists.
pub struct Lru<M: Machine> {
    writeback: Writeback<M>,
    /// The section `[lru]` of the kernel file.
    pub choices: Choices,
    /// The policy that orders the pages, with its rules.
    ruling: Ruling,
    /// The lruvecs, with the policy's state for each. Those of the root group come first, then those of group 1, and so
    /// on.
    lruvecs: Vec<Lruvec<M>>,
    /// The number of lruvecs of each group.
    lruvecs_of_group: usize,
    batches: M::PerCpu<Batches>,
    /// Pages that were read and wait until they go on a list or are freed ([`admission`]); `None` if every page goes on
    /// a list at once.
    waiting: Option<M::PerCpu<admission::Waiting>>,
    /// The record of file pages that left memory, by which `lru.admission` decides.
    workingset: Workingset,
    /// The lists from which global reclaim takes memory control groups; `None` if memory has no groups, or if reclaim
    /// walks over the tree of groups instead.
    pub(crate) memcg_lru: Option<MemcgLru<M>>,
    /// The queue of reclaimers that wait until others put back isolated pages (`IsolatedWait::ForPutback` and
    /// `IsolatedWait::ReclaimThrottle`).
    put_back: M::WaitQueue,
}

impl<M: Machine> Deref for Lru<M> {
    type Target = Writeback<M>;
    #[inline]
    fn deref(&self) -> &Writeback<M> {
        &self.writeback
    }
}

impl<M: Machine> Lru<M> {
    /// Returns `self`, so that code of the layers above can name this layer (*floor*) of the engine.
    #[inline(always)]
    pub(crate) fn lru(&self) -> &Self {
        self
    }

    /// Returns whether `lru.swappiness` is more than 0. With 0, reclaim swaps out no pages, or hardly any.
    pub(crate) const fn is_swappy(&self) -> bool {
        self.choices.swappiness > 0
    }

    /// Creates this layer of the engine, with empty lists.
    pub fn new(writeback: Writeback<M>, mut choices: Choices, generations: multigen::Choices) -> Self {
        let machine = &writeback.machine;
        let (lruvecs_of_group, groups) = (writeback.lruvecs(), writeback.groups.as_ref().map_or(1, Groups::room));
        let ruling = Ruling::new(&choices, generations, lruvecs_of_group * groups, writeback.frames.len());
        let lruvecs = Lruvec::all_of(&writeback.zones, groups, || ruling.state(machine));
        choices.lists = ruling.counted_lists(choices.lists);
        let batches = machine.per_cpu(|_| Batches::default());
        let has_waiting = match choices.admission {
            Admission::ByRefault => ruling.admits_by_refault(),
            Admission::Always => false,
        };
        let waiting = has_waiting.then(|| machine.per_cpu(|_| admission::Waiting::new()));
        let workingset = Workingset::default();
        let put_back = machine.wait_queue();
        let has_memcg_lru = writeback.groups.is_some() && ruling.has_memcg_lru();
        let memcg_lru = has_memcg_lru.then(|| MemcgLru::new(machine, lruvecs_of_group, groups));
        Self {
            writeback,
            choices,
            ruling,
            lruvecs,
            lruvecs_of_group,
            batches,
            waiting,
            workingset,
            memcg_lru,
            put_back,
        }
    }

    /// Creates empty LRU lists with the choices `choices`. The layers of the engine between memory and lists are
    /// created with it: without files, regions, devices and swap, and with default choices.
    pub fn over(memory: Memory<M>, choices: Choices) -> Self {
        let page_cache = PageCache::new(Slab::new(memory, Default::default()), Default::default());
        let anonymous = Anonymous::new(Swap::new(page_cache, Default::default(), SwapLayout::NONE));
        Self::new(Writeback::new(anonymous, Default::default(), &[]), choices, Default::default())
    }

    /// Returns the list to which a page with these flags belongs, under the value of `lru.lists`.
    #[inline]
    pub fn kind_of(&self, flags: Flags) -> ListKind {
        match self.choices.lists {
            Lists::Four => ListKind::of(flags),
            Lists::Two => ListKind::of(flags.without(Flags::SWAPBACKED)),
        }
    }

    /// Returns how many pages in the zones of `reach` are on the list of kind `kind` of the lruvec of `reach`. The
    /// zones of `reach` are those that a request can use.
    #[inline]
    pub fn list_pages(&self, reach: Reach<'_, M>, kind: ListKind) -> u64 {
        reach.zones.iter().map(|zone| reach.lruvec.listed_in(zone.kind, kind)).sum()
    }

    /// Returns how many pages lie in the zones of `reach` on the lists of one kind, summed over all groups.
    pub fn list_pages_of_all(&self, reach: Reach<'_, M>, kind: ListKind) -> u64 {
        match self.groups {
            None => self.list_pages(reach, kind),
            Some(_) => reach.zones.iter().map(|zone| zone.gauges.get(kind.gauge())).sum(),
        }
    }

    /// Returns how many pages are on the lists of one kind in the zones of `reach`. Counts the lists of the group that
    /// is reclaimed (`demand.group`) and of its descendants.
    pub(crate) fn list_pages_of_target(&self, reach: Reach<'_, M>, demand: &Demand, kind: ListKind) -> u64 {
        match self.groups {
            Some(_) if !demand.group.is_root() => self.listed_below(self.beside(reach.lruvec, demand.group), kind),
            Some(_) | None => self.list_pages_of_all(reach, kind),
        }
    }

    /// Returns the number of isolated pages of a family in the zones of an lruvec, summed over all groups.
    pub(crate) fn isolated_pages_beside(&self, lruvec: &Lruvec<M>, family: Family) -> u64 {
        match self.groups {
            None => lruvec.isolated_pages(family),
            Some(_) => self.zones_of(lruvec).iter().map(|zone| zone.gauges.get(family.isolated())).sum(),
        }
    }

    /// Marks an isolated page as active, so that it goes back to an active list.
    pub(crate) fn activate_isolated(&self, frame: FrameNumber) {
        self.frames[frame].set(Flags::ACTIVE);
    }

    /// Drops one reference of a page. With the last reference, the page leaves its list and becomes free.
    #[inline]
    pub fn put(&self, frame: FrameNumber) {
        if self.frames[frame].put() {
            self.free_unreferenced(frame);
        }
    }

    /// Drops one reference to each of `pages`. Pages that follow each other in `pages` and belong to one lruvec and one
    /// zone leave their lists under one hold of the LRU lock.
    #[doc(alias = "release_pages")]
    pub fn put_pages(&self, pages: &[FrameNumber]) {
        let _span = self.machine.span(Func::ReleasePages);
        let mut unreferenced = pages.iter().copied().filter(|frame| self.frames[*frame].put()).peekable();
        let mut free: Vec<FrameNumber> = Vec::new();
        while let Some(first) = unreferenced.next() {
            let (zone, group) = (self.memory().zone_of(first), self.frames.group(first));
            free.push(first);
            let is_beside = |frame: &FrameNumber| zone.holds(*frame) && self.frames.group(*frame) == group;
            while let Some(frame) = unreferenced.next_if(is_beside) {
                free.push(frame);
            }
            self.unlink(self.reach_of_page(zone, first), &free);
            for frame in free.drain(..) {
                self.memory().free_folio(frame, Warmth::Cold);
            }
        }
    }

    /// Frees orphans: pages whose last reference would have been dropped in a lower layer, which has no access to the
    /// lists and therefore left the page to this function (`PageCache::put_page_in_use`).
    ///
    /// Each flush of a CPU's batches calls this function, and every scan, every check and every search for pages begins
    /// with such a flush. Operations on files need not call this function: an orphan still has its last reference, like
    /// a page in a batch, so that no task takes it. Orphans wait only while no zone lacks free pages, since reclaim
    /// begins with a flush.
    #[inline]
    pub(crate) fn release_orphans(&self) {
        if self.has_orphans.load(machine::atomic::Ordering::Relaxed) {
            self.put_orphans();
        }
    }

    #[cold]
    fn put_orphans(&self) {
        if !self.has_orphans.swap(false, AcqRel) {
            return;
        }
        let orphans = std::mem::take(&mut *self.orphans.lock());
        if !orphans.is_empty() {
            self.put_pages(&orphans);
        }
    }

    /// Notes that a reader released a page that it held by a hazard pointer. Wakes the tasks that wait for the page,
    /// and frees pages that left their files and that no reader holds any more.
    #[cold]
    pub(crate) fn end_hazard(&self, frame: FrameNumber) {
        self.page_cache().wake_hazard_waiters(frame);
        self.put_pages(&self.page_cache().let_go(Some(frame)));
    }

    /// Takes a page without references off its list and frees it.
    pub(crate) fn free_unreferenced(&self, frame: FrameNumber) {
        let zone = self.memory().zone_of(frame);
        self.unlink(self.reach_of_page(zone, frame), &[frame]);
        self.memory().free_folio(frame, Warmth::Hot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Layout, MigrateType};
    use machine::Order;
    use sim::{Config, Sim};

    /// Returns the LRU lists of a small memory for tests, without swap space and without files.
    fn lists() -> Lru<Sim> {
        let machine = Sim::new(Config::uniform(1, 0));
        Lru::over(Memory::new(machine, Default::default(), &Layout::flat(2048)).unwrap(), Choices::default())
    }

    #[test]
    fn pages_wait_in_a_batch_and_leave_their_list_in_the_order_they_came() {
        let lru = lists();
        let zone = &lru.zones[0];
        let pages = [(); 3].map(|()| {
            let frame = lru.take(zone, Order::ZERO, MigrateType::Movable, Warmth::Hot).unwrap();
            lru.add(frame, Insert::Read { shadow: None }, false);
            frame
        });
        assert_eq!(lru.list_pages(lru.reach(zone), ListKind::InactiveFile), 0);
        lru.drain_all();
        assert_eq!(lru.list_pages(lru.reach(zone), ListKind::InactiveFile), 3);
        assert_eq!(lru.isolate(lru.reach(zone), ListKind::InactiveFile, 2).entries[..], pages[..2]);
    }
}
