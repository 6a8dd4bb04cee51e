//! Memory control groups: the pages that are charged to each group, and its limits.
//!
//! *Holds* the tree of groups ([`tree`]), each with a counter of its pages, limits, protections and events. A page is
//! charged to the group of the task that first used the page, and to all ancestors of the group. The page stays charged
//! until it is freed. A CPU keeps some pages charged in advance ([`stock`]), so that most charges change no shared
//! counter. Pages of the root group are not counted. All groups are of one [`GroupVersion`]. A group of version 1 may have
//! a limit of memory and swap together (`memsw`). The module is called by `allocate` to charge, by
//! [`super::Memory::free`] to uncharge, by `reclaim` to walk a subtree and for the protection of its groups
//! ([`protection`]). *Locks*: the lock of the tree; a CPU's stock is a per-CPU slot. *Description*:
//! mechanisms/groups, 1 to 5.
//!
//! The number of groups that can exist at a time is a part of the memory's layout ([`super::Layout::groups`]). If this
//! number is 0, there is no [`Groups`], frames store no group, and nothing is charged.

pub(crate) mod id;
pub mod kernel;
pub mod lives;
mod memsw;
pub mod protection;
pub mod stock;
pub mod tree;
mod version;

pub use id::GroupId;
pub use kernel::KernelMemory;
pub use memsw::SlotMove;
pub(crate) use memsw::{Full, Returning};
pub use protection::Protection;
pub use tree::{GroupError, Limit, Subtree};
pub use version::GroupVersion;

use super::Memory;
use crate::stat::Gauge;
use crate::task::Task;
use kernel::KernelMemories;
use machine::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use machine::{Machine, PerCpu};
use memsw::Together;
use stock::Stock;
use tree::Tree;

/// A kind of event that is counted for each memory control group (`memory.events`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// Pages were reclaimed although the group's usage was within its `low` protection.
    Low,
    /// A task had to reclaim because the group's usage was over `memory.high`.
    High,
    /// A charge would have exceeded the group's limit (`memory.max`).
    Max,
    /// A charge would have exceeded the group's limit (`memory.max`), and reclaim could not free enough pages.
    Oom,
    /// The out-of-memory killer killed a process of the group.
    OomKill,
    /// All processes of the group were killed together (`memory.oom.group`).
    OomGroupKill,
}

impl GroupEvent {
    /// All events, in the order of `memory.events`.
    pub const ALL: [Self; 6] = [Self::Low, Self::High, Self::Max, Self::Oom, Self::OomKill, Self::OomGroupKill];

    /// Returns the event's name in `memory.events`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::High => "high",
            Self::Max => "max",
            Self::Oom => "oom",
            Self::OomKill => "oom_kill",
            Self::OomGroupKill => "oom_group_kill",
        }
    }
}

/// A gauge of a memory control group in `memory.stat`: pages of one kind, charged to the group. The sizes of the LRU
/// lists are not among these gauges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupGauge {
    /// Pages of files.
    File,
    /// Page tables of processes.
    PageTables,
    /// Dirty pages of files: pages whose contents are newer than those on the device.
    FileDirty,
    /// Pages that are being written to a device, also those of anonymous memory that go to swap.
    FileWriteback,
    /// Dirty pages of files whose last write failed, or was put off because the log is behind, and that are not being
    /// written again. Linux has no such gauge.
    FileWriteFailed,
}

impl GroupGauge {
    /// All gauges.
    pub const ALL: [Self; 5] =
        [Self::File, Self::PageTables, Self::FileDirty, Self::FileWriteback, Self::FileWriteFailed];

    /// Returns the name of the gauge in `memory.stat`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::PageTables => "pagetables",
            Self::FileDirty => "file_dirty",
            Self::FileWriteback => "file_writeback",
            Self::FileWriteFailed => "file_write_failed",
        }
    }

    /// Returns the gauge by which a group counts the pages that the zone gauge `gauge` counts; `None` if groups do not
    /// count these pages.
    #[inline]
    pub(super) const fn of_zone(gauge: Gauge) -> Option<Self> {
        match gauge {
            Gauge::NrFilePages => Some(Self::File),
            Gauge::NrPageTablePages => Some(Self::PageTables),
            Gauge::NrDirty => Some(Self::FileDirty),
            Gauge::NrWriteback => Some(Self::FileWriteback),
            Gauge::NrWriteFailed => Some(Self::FileWriteFailed),
            _ => None,
        }
    }
}

/// The counters and limits of one memory control group. Amounts of memory are in pages.
#[derive(Debug)]
struct Group {
    /// Number of pages that are charged to the group and its descendants, including pages that CPUs have charged in
    /// advance (in their stocks).
    usage: AtomicU64,
    /// Number of swap slots with pages of the group and its descendants.
    swap: AtomicU64,
    /// The memory and the swap of the group, counted together.
    together: Together,
    /// Largest value of `usage` so far.
    peak: AtomicU64,
    /// The limits and protections of the group, in the order of [`Limit::ALL`].
    limits: [AtomicU64; Limit::ALL.len()],
    /// The effective protections of the group, as the last walk over the groups computed them: `min`, then `low`.
    effective: [AtomicU64; 2],
    /// Sums of the protected pages of the group's children, as the last walk over the groups computed them: pages
    /// protected by `min`, then pages protected by `low`.
    claimed: [AtomicU64; 2],
    events: [AtomicU64; GroupEvent::ALL.len()],
    /// For each [`GroupGauge`], the number of pages of the group itself, without those of its descendants.
    gauges: [AtomicU64; GroupGauge::ALL.len()],
    /// `true` if the out-of-memory killer kills the group as a whole.
    is_oom_group: AtomicBool,
}

impl Group {
    fn new() -> Self {
        let group = Self {
            usage: AtomicU64::new(0),
            swap: AtomicU64::new(0),
            together: Together::default(),
            peak: AtomicU64::new(0),
            limits: Default::default(),
            effective: Default::default(),
            claimed: Default::default(),
            events: Default::default(),
            gauges: Default::default(),
            is_oom_group: AtomicBool::new(false),
        };
        group.reset();
        group
    }

    /// Resets the group to the state of a new group, except for its usage, which is 0 already.
    fn reset(&self) {
        for limit in Limit::ALL {
            self.limits[limit as usize].store(limit.default_pages(), Relaxed);
        }
        let counts = self.effective.iter().chain(&self.claimed).chain(&self.events).chain([&self.peak]);
        counts.for_each(|count| count.store(0, Relaxed));
        self.together.reset();
        self.is_oom_group.store(false, Relaxed);
    }

    fn limit(&self, limit: Limit) -> u64 {
        self.limits[limit as usize].load(Relaxed)
    }

    /// Records that the group has `usage` pages in memory. With `counts_memsw`, also records the sum of its pages in
    /// memory and in swap.
    fn record_peak(&self, usage: u64, counts_memsw: bool) {
        self.peak.fetch_max(usage, Relaxed);
        if counts_memsw {
            self.together.record_peak(usage);
        }
    }
}

/// All memory control groups of an engine.
pub struct Groups<M: Machine> {
    /// The groups in order of their numbers, with the root group first. Elements for groups that do not exist have no
    /// pages.
    groups: Box<[Group]>,
    tree: Tree<M>,
    stocks: M::PerCpu<Stock>,
    kernel: KernelMemories<M>,
    version: GroupVersion,
    /// `true` once any group had a protection. As long as it is `false`, walks over the groups need not compute
    /// protections.
    has_protection: AtomicBool,
    /// `true` once any group had a soft limit. As long as it is `false`, kswapd looks for no group above its soft limit.
    has_soft_limit: AtomicBool,
}

impl<M: Machine> Groups<M> {
    /// Creates the groups of an engine, of version `version`. At first there is only the root group. Besides it, at most
    /// `room` groups can exist at a time.
    pub(super) fn new(machine: &M, room: u16, version: GroupVersion) -> Self {
        let count = usize::from(room) + 1;
        Self {
            groups: (0..count).map(|_| Group::new()).collect(),
            tree: Tree::new(machine, count),
            stocks: machine.per_cpu(|_| Stock::default()),
            kernel: KernelMemories::new(machine, count),
            version,
            has_protection: AtomicBool::new(false),
            has_soft_limit: AtomicBool::new(false),
        }
    }

    /// Returns the number of groups that can exist at a time, including the root group.
    #[must_use]
    pub fn room(&self) -> usize {
        self.groups.len()
    }

    /// Returns the version of the groups.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> GroupVersion {
        self.version
    }

    fn group(&self, id: GroupId) -> &Group {
        &self.groups[usize::from(id.0)]
    }

    /// Returns the number of pages that are charged to a group and its descendants (`memory.current`). The number
    /// includes pages that CPUs have charged in advance and that no task uses yet. The result is always 0 for the root
    /// group.
    #[must_use]
    pub fn usage(&self, id: GroupId) -> u64 {
        self.group(id).usage.load(Relaxed)
    }

    /// Returns the number of swap slots with pages of a group and its descendants (`memory.swap.current`). The result
    /// is always 0 for the root group.
    #[must_use]
    pub fn swap_usage(&self, id: GroupId) -> u64 {
        self.group(id).swap.load(Relaxed)
    }

    /// Returns the number of pages of a group that may still go to swap under `memory.swap.max` of the group and of its
    /// ancestors.
    #[must_use]
    pub fn swap_room(&self, id: GroupId) -> u64 {
        let left = |id| self.group(id).limit(Limit::SwapMax).saturating_sub(self.swap_usage(id));
        self.lineage(id).map(left).min().unwrap_or(u64::MAX)
    }

    /// Returns whether a group or one of its ancestors uses at least half of its `memory.swap.max`.
    #[must_use]
    pub(crate) fn is_swap_half_full(&self, id: GroupId) -> bool {
        self.lineage(id).any(|id| self.swap_usage(id).saturating_mul(2) >= self.group(id).limit(Limit::SwapMax))
    }

    /// Charges swap slots to a group and its ancestors, and returns `true`. If the slots would exceed `memory.swap.max`
    /// of one of these groups, charges none and returns `false`.
    #[doc(alias = "mem_cgroup_try_charge_swap")]
    pub(crate) fn charge_swap(&self, id: GroupId, slots: u64) -> bool {
        let is_refused = self.lineage(id).find(|at| {
            let group = self.group(*at);
            group.swap.fetch_add(slots, Relaxed) + slots > group.limit(Limit::SwapMax)
        });
        let Some(refused) = is_refused else { return true };
        for at in self.lineage(id) {
            self.group(at).swap.fetch_sub(slots, Relaxed);
            if at == refused {
                break;
            }
        }
        false
    }

    /// Subtracts freed swap slots from the counters of a group and of its ancestors.
    pub(crate) fn uncharge_swap(&self, id: GroupId, slots: u64) {
        for at in self.lineage(id) {
            let before = self.group(at).swap.fetch_sub(slots, Relaxed);
            debug_assert!(before >= slots, "group {} had {before} slots and lost {slots}", at.0);
        }
    }

    /// Returns the largest usage that a group has had, in pages (`memory.peak`).
    #[must_use]
    pub fn peak(&self, id: GroupId) -> u64 {
        self.group(id).peak.load(Relaxed)
    }

    /// Returns a limit or protection of a group, in pages; `u64::MAX` stands for `max`.
    #[must_use]
    pub fn limit(&self, id: GroupId, limit: Limit) -> u64 {
        self.group(id).limit(limit)
    }

    /// Sets a limit or protection of a group, in pages; `u64::MAX` stands for `max`. The group's usage may be above the
    /// new limit: the next charge then reclaims.
    ///
    /// # Panics
    /// Panics for the root group, which has no limits, and for a limit that groups of this version do not have
    /// ([`GroupVersion::has_limit`]).
    pub fn set_limit(&self, id: GroupId, limit: Limit, pages: u64) {
        assert!(!id.is_root(), "the root group has no limits");
        assert!(self.version.has_limit(limit), "groups of {} have no {}", self.version, limit.name());
        self.group(id).limits[limit as usize].store(pages, Relaxed);
        if matches!(limit, Limit::Low | Limit::Min) && pages > 0 {
            self.has_protection.store(true, Relaxed);
        }
        if limit == Limit::Soft && pages < u64::MAX {
            self.has_soft_limit.store(true, Relaxed);
        }
    }

    /// Returns whether the out-of-memory killer kills the whole group when it kills a process of the group
    /// (`memory.oom.group`).
    #[must_use]
    pub fn is_oom_group(&self, id: GroupId) -> bool {
        self.group(id).is_oom_group.load(Relaxed)
    }

    /// Sets whether the out-of-memory killer kills the whole group when it kills a process of the group
    /// (`memory.oom.group`).
    ///
    /// # Panics
    /// Panics for the root group, which is not killed as a whole.
    pub fn set_oom_group(&self, id: GroupId, is_whole: bool) {
        assert!(!id.is_root(), "the root group is not killed as a whole");
        self.group(id).is_oom_group.store(is_whole, Relaxed);
    }

    /// Returns whether a group is `root` or one of its descendants.
    #[must_use]
    pub fn is_within(&self, id: GroupId, root: GroupId) -> bool {
        root.is_root() || self.lineage(id).any(|above| above == root)
    }

    /// Returns the number of times that an event has happened in a group. Events of the group's descendants are not
    /// counted (`memory.events.local`).
    #[must_use]
    pub fn events(&self, id: GroupId, event: GroupEvent) -> u64 {
        self.group(id).events[event as usize].load(Relaxed)
    }

    /// Counts an event of a group.
    pub(crate) fn count(&self, id: GroupId, event: GroupEvent) {
        self.group(id).events[event as usize].fetch_add(1, Relaxed);
    }

    /// Returns the group and its ancestors except the root group, from the group upwards.
    fn lineage(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        let above = |id: &GroupId| Some(self.tree.parent(*id));
        std::iter::successors(Some(id), above).take_while(|id| !id.is_root())
    }

    /// Adds pages to the counters of a group and of its ancestors.
    ///
    /// # Errors
    /// Fails with a group whose limit would be exceeded, and this limit: the nearest such group with a limit of memory and
    /// swap together, or, if there is none, the nearest with a limit of memory. On failure, no usage has changed,
    /// but the peaks of groups below the one that refused may include the pages.
    fn add(&self, id: GroupId, pages: u64) -> Result<(), Full> {
        let counts_memsw = self.version.counts_memsw();
        let (mut full, mut raised) = (None, 0);
        for at in self.lineage(id) {
            let group = self.group(at);
            let usage = group.usage.fetch_add(pages, Relaxed) + pages;
            raised += 1;
            if counts_memsw && !group.allows_together(usage) {
                full = Some(Full { group: at, limit: Limit::Memsw });
                break;
            }
            if full.is_some() {
                // A limit of memory refuses. An ancestor's limit of memory and swap would take precedence.
                continue;
            }
            if usage > group.limit(Limit::Max) {
                full = Some(Full { group: at, limit: Limit::Max });
                if !counts_memsw {
                    break;
                }
            } else {
                group.record_peak(usage, counts_memsw);
            }
        }
        let Some(full) = full else { return Ok(()) };
        self.lineage(id).take(raised).for_each(|at| _ = self.group(at).usage.fetch_sub(pages, Relaxed));
        Err(full)
    }

    /// Adds pages to the counters of a group and of its ancestors, even if the counters then exceed the limits.
    pub(crate) fn add_forced(&self, id: GroupId, pages: u64) {
        for at in self.lineage(id) {
            let group = self.group(at);
            let usage = group.usage.fetch_add(pages, Relaxed) + pages;
            group.record_peak(usage, self.version.counts_memsw());
        }
    }

    /// Subtracts freed pages from the counters of a group and of its ancestors.
    pub(crate) fn uncharge(&self, id: GroupId, pages: u64) {
        for at in self.lineage(id) {
            let before = self.group(at).usage.fetch_sub(pages, Relaxed);
            debug_assert!(before >= pages, "group {} had {before} pages and lost {pages}", at.0);
        }
    }

    /// Returns the value of a gauge of a group, pages. Pages of the group's descendants do not count. The result is
    /// always 0 for the root group.
    #[must_use]
    pub fn gauge(&self, id: GroupId, gauge: GroupGauge) -> u64 {
        // Updates of several CPUs may be seen in another order for a moment.
        (self.group(id).gauges[gauge as usize].load(Relaxed) as i64).max(0) as u64
    }

    /// Adds pages to a gauge of a group.
    #[inline]
    pub(super) fn add_gauge(&self, id: GroupId, gauge: GroupGauge, pages: i64) {
        if !id.is_root() {
            self.group(id).gauges[gauge as usize].fetch_add(pages as u64, Relaxed);
        }
    }

    /// Returns how many more pages the limits of a group and of its ancestors let it have without being throttled.
    #[must_use]
    pub fn headroom(&self, id: GroupId) -> u64 {
        let line = |id| self.limit(id, Limit::Max).min(self.limit(id, Limit::High));
        self.lineage(id).map(|id| line(id).saturating_sub(self.usage(id))).min().unwrap_or(u64::MAX)
    }

    /// Returns whether a soft limit was ever set for any group.
    pub(crate) fn has_soft_limit(&self) -> bool {
        self.has_soft_limit.load(Relaxed)
    }

    /// Returns by how many pages a group is above its soft limit; 0 if it is not above.
    #[must_use]
    #[doc(alias = "soft_limit_excess")]
    pub fn soft_excess(&self, id: GroupId) -> u64 {
        self.usage(id).saturating_sub(self.limit(id, Limit::Soft))
    }

    /// Returns the groups above their soft limits, the one that is farthest above first.
    pub(crate) fn over_soft_limits(&self) -> Vec<GroupId> {
        let tree = self.subtree(GroupId::ROOT);
        let excess = tree.iter().map(|id| (self.soft_excess(*id), *id));
        let mut over: Vec<(u64, GroupId)> = excess.filter(|(excess, _)| *excess > 0).collect();
        over.sort_by_key(|(excess, _)| std::cmp::Reverse(*excess));
        over.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the number of unused pages that CPUs have charged to a group in advance (`memcg_stock`).
    #[must_use]
    pub fn stocked_pages(&self, id: GroupId) -> u64 {
        let mut pages = 0;
        self.stocks.for_each_cpu(|stock| pages += stock.pages_of(id));
        pages
    }
}

impl<M: Machine> Memory<M> {
    /// Uncharges a freed kernel object of `bytes` bytes from `group`, the group to which the object was charged.
    #[inline]
    pub fn free_object(&self, group: GroupId, kind: KernelMemory, bytes: u64) {
        if let Some(groups) = self.groups.as_ref().filter(|_| !group.is_root()) {
            groups.give_object(group, kind, bytes);
        }
    }

    /// Moves the calling task to a group. From then on, pages that the task allocates are charged to the group, and the
    /// task's stalls count in the pressure of the group and of its ancestors. `task` must be the state of the calling
    /// task.
    pub fn enter_group(&self, task: &mut Task, group: GroupId) {
        task.group = group;
        self.machine.note_group(group.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Config, Sim};

    fn groups(room: u16) -> Groups<Sim> {
        Groups::new(&Sim::new(Config::uniform(1, 0)), room, GroupVersion::V2)
    }

    #[test]
    fn a_swap_slot_that_an_ancestor_refuses_changes_no_counter() {
        let groups = groups(2);
        let parent = groups.create(GroupId::ROOT).unwrap();
        let child = groups.create(parent).unwrap();
        groups.set_limit(parent, Limit::SwapMax, 10);
        assert!(groups.charge_swap(child, 8) && !groups.charge_swap(child, 3));
        assert_eq!((groups.swap_usage(child), groups.swap_usage(parent), groups.swap_room(child)), (8, 8, 2));
        assert_eq!(groups.swap_room(GroupId::ROOT), u64::MAX);
        groups.remove(child).unwrap();
        assert_eq!(groups.create(GroupId::ROOT), Err(GroupError::NoRoom { room: 2 }), "its pages are in swap");
        groups.uncharge_swap(child, 8);
        assert_eq!(groups.swap_usage(parent), 0);
        assert_eq!(groups.create(GroupId::ROOT), Ok(child));
    }

    #[test]
    fn a_charge_that_an_ancestor_refuses_changes_no_counter() {
        let groups = groups(2);
        let parent = groups.create(GroupId::ROOT).unwrap();
        let child = groups.create(parent).unwrap();
        groups.set_limit(parent, Limit::Max, 100);
        assert_eq!(groups.add(child, 60), Ok(()));
        assert_eq!(groups.add(child, 41), Err(Full { group: parent, limit: Limit::Max }));
        assert_eq!((groups.usage(child), groups.usage(parent), groups.usage(GroupId::ROOT)), (60, 60, 0));
        groups.add_forced(child, 41);
        assert_eq!((groups.usage(parent), groups.peak(parent)), (101, 101));
        groups.uncharge(child, 101);
        assert_eq!((groups.usage(child), groups.usage(parent), groups.peak(child)), (0, 0, 101));
    }
}
