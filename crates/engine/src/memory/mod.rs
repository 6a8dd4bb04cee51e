//! Memory: frames, zones, nodes, watermarks, free lists, per-CPU lists.
//!
//! *Holds* every frame and its owner. *Flow*: [`Memory::take`] takes pages from the local CPU's list, or from the
//! zone's free lists; [`Memory::free`] puts pages back. The module is called by `allocate` to take pages, and by `lru`,
//! `slab`, `writeback` and `access` to free pages. *Locks*: interrupts off, then `zone`; no lock is taken inside
//! `zone`. *Description*: mechanisms/reclaim, 1 to 7.
//!
//! Next: [`crate::slab`], the lowest layer that uses frames.

mod buddy;
pub mod choices;
pub mod folio;
pub mod frame;
pub mod free_area;
pub mod gfp;
mod given;
pub mod group;
pub mod hotplug;
pub mod lent;
pub mod list;
pub mod map;
pub mod per_cpu;
pub mod per_cpu_size;
pub mod watermark;
pub mod zeroes;
pub mod zone;

pub use choices::Choices;
pub use folio::{FOLIO_ORDER_MAX, Folio};
pub use frame::{Flags, Frame, FrameTable, Latched, OWNERS_MAX, Owner, READERS_MAX};
pub use free_area::{MAX_ORDERS, MigrateType, Mixing, PAGEBLOCK_ORDER};
pub use gfp::Gfp;
pub(crate) use given::last_block;
pub(crate) use group::{Full, Returning};
pub use group::{
    GroupError, GroupEvent, GroupGauge, GroupId, GroupVersion, Groups, KernelMemory, Limit, SlotMove, Subtree,
};
pub use lent::Block;
pub use list::{FRAMES_MAX, Links, List, NO_FRAME};
pub use map::{BlockMap, Use, ZoneMap};
pub use per_cpu::Warmth;
pub use watermark::{MarkRights, Marks};
pub use zone::{
    LOCAL_DISTANCE, Layout, LruvecId, Node, NodeId, NodeLayout, Zone, ZoneFlag, ZoneId, ZoneKind, ZoneLayout,
};

use crate::stat::vmstat::{Vmstat, ZONE_KINDS};
use crate::stat::{Event, Gauge, Stat, ZoneEvent};
use buddy::FreeLists;
use choices::LruvecOf;
use machine::atomic::AtomicU64;
use machine::{FrameNumber, Func, Lock, Machine, Order, Step};
use per_cpu::PerCpuPages;
use std::sync::Arc;
use zone::ReclaimState;

/// Largest number of lruvecs. A shadow has 16 bits for the number of an lruvec.
const LRUVECS_MAX: usize = 1 << 16;

/// The gauges whose sum is the number of pages that are charged to the memory cgroup with all tasks (`memory.current`).
const CHARGED: [Gauge; 9] = [
    Gauge::NrInactiveAnon,
    Gauge::NrActiveAnon,
    Gauge::NrInactiveFile,
    Gauge::NrActiveFile,
    Gauge::NrUnevictable,
    Gauge::NrIsolatedAnon,
    Gauge::NrIsolatedFile,
    Gauge::NrSlabReclaimable,
    Gauge::NrSlabUnreclaimable,
];

/// The lowest layer (*floor*) of the engine, which holds every frame, and the machine under the engine.
pub struct Memory<M: Machine> {
    /// The machine under the engine (the *ground*).
    pub machine: M,
    /// The counters of events of the whole engine.
    pub stat: Stat,
    /// The section `[memory]` of the kernel file.
    pub choices: Choices,
    /// The descriptors of all frames.
    pub frames: FrameTable,
    /// All zones, by number: `zones[id.0]`.
    pub zones: Vec<Zone<M>>,
    /// All nodes, by number: `nodes[id.0]`.
    pub nodes: Vec<Node>,
    /// Number of pages that never count as dirtyable: `min_free_kbytes` in pages, plus each zone's high mark and
    /// largest lowmem reserve.
    reserve_pages: AtomicU64,
    /// Value of `min_free_kbytes` that was set while the engine ran; 0 if none was set, so that the choices decide.
    min_free_kbytes: AtomicU64,
    /// Number of pages in blocks that are lent to users outside of the engine.
    lent_pages: AtomicU64,
    /// Number of pages, among those of lent blocks, that count towards [`Memory::fixed_pages_max`].
    counted_pages: AtomicU64,
    /// The limit, in pages, of the memory cgroup that contains all tasks; `None` if there is no such cgroup.
    limit_pages: Option<u64>,
    /// The memory control groups; `None` if the layout has none.
    pub groups: Option<Groups<M>>,
    per_cpu: M::PerCpu<Vec<PerCpuPages>>,
}

/// The reason why a layout of memory cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The layout has no node, or a node without zones.
    Empty,
    /// The layout has fewer pages than the engine can work with.
    TooSmall {
        /// Number of pages that the engine may use: all pages of the layout, or the layout's `limit_pages` if that is
        /// less.
        pages: u64,
        /// Smallest number of pages that the engine can work with.
        least_pages: u64,
    },
    /// The layout has more frames than a frame number can count.
    TooLarge {
        /// Number of frames of the layout.
        frames: u64,
    },
    /// The system has no memory for the descriptors of the frames.
    NoTable {
        /// Number of frames of the layout.
        frames: u64,
    },
    /// The zones of a node are not in ascending order, or a node has two zones of one kind.
    ZoneOrder,
    /// The layout has more nodes than [`NODES_MAX`].
    TooManyNodes {
        /// Number of nodes of the layout.
        nodes: usize,
    },
    /// The table of distances between nodes is not valid. It must have a row and a column for each node. A node's
    /// distance to itself must be 10, and all other distances more than 10.
    Distances,
    /// The groups have more lruvecs than can be numbered.
    TooManyGroups {
        /// Number of memory control groups that the layout asks for, without the root group.
        groups: u16,
        /// Number of lruvecs of each group.
        lruvecs: usize,
    },
}

impl std::fmt::Display for LayoutError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => write!(f, "memory has no node, or a node without zones"),
            Self::TooSmall { pages, least_pages } => write!(
                f,
                "{pages} pages of memory ({} KiB) are too few: at least {least_pages} ({} KiB) are needed",
                pages * 4,
                least_pages * 4
            ),
            Self::TooLarge { frames } => {
                write!(f, "{frames} frames are too many: at most {FRAMES_MAX} can be numbered")
            }
            Self::NoTable { frames } => write!(
                f,
                "there is no memory for the descriptors of {frames} frames: {} MiB",
                (frames * size_of::<Frame>() as u64) >> 20
            ),
            Self::TooManyNodes { nodes } => write!(f, "{nodes} nodes are too many: at most {NODES_MAX} can be"),
            Self::Distances => write!(
                f,
                "`distances` has a row for each node with a number for each, 10 for itself and more for others"
            ),
            Self::TooManyGroups { groups, lruvecs } => write!(
                f,
                "{groups} groups with {lruvecs} lists of pages each are too many: at most {} can be",
                LRUVECS_MAX / lruvecs - 1
            ),
            Self::ZoneOrder => write!(f, "zones must stand in the order dma, dma32, normal, each at most once"),
        }
    }
}

impl std::error::Error for LayoutError {}

/// Largest number of memory nodes.
pub const NODES_MAX: usize = 64;

/// Smallest number of pages of a layout: one block of the largest order, so that every order exists.
pub const LEAST_PAGES: u64 = 1024;

impl<M: Machine> Memory<M> {
    /// Returns `self`, so that code of the layers above can name this layer.
    #[inline(always)]
    pub(crate) fn memory(&self) -> &Self {
        self
    }

    /// Creates the memory that `layout` describes. All of it is free.
    ///
    /// # Errors
    /// Fails if the layout is not valid ([`check_layout`]), or the system has no memory for the descriptors.
    pub fn new(machine: M, choices: Choices, layout: &Layout) -> Result<Self, LayoutError> {
        check_layout(layout)?;
        let no_table = LayoutError::NoTable { frames: layout.frames() };
        let frames = FrameTable::new(layout.frames() as u32);
        let frames = if layout.groups > 0 { frames.and_then(FrameTable::with_groups) } else { frames };
        let frames = frames.ok_or(no_table)?;
        let mut zones: Vec<Zone<M>> = Vec::new();
        let mut nodes = Vec::new();
        let mut start = 0u32;
        for (n, node) in layout.nodes.iter().enumerate() {
            let node_id = NodeId(n as u8);
            let mut ids = Vec::new();
            let of_node = Arc::new(ReclaimState::default());
            for zone in &node.zones {
                let id = ZoneId(zones.len() as u8);
                let lruvec = match choices.lruvec_of {
                    LruvecOf::Zone => (LruvecId(id.0.into()), Arc::default()),
                    LruvecOf::Node => (LruvecId(node_id.0.into()), of_node.clone()),
                };
                zones.push(Zone::new(&machine, id, node_id, zone, FrameNumber(start), lruvec));
                start += zone.span().next_multiple_of(zone::LARGEST_BLOCK_PAGES) as u32;
                ids.push(id);
            }
            nodes.push(Node { id: node_id, zones: ids, zonelists: std::array::from_fn(|_| Vec::new()) });
        }
        set_zonelists(&mut nodes, &zones, layout);
        let zone_count = zones.len();
        let per_cpu = machine.per_cpu(|_| (0..zone_count).map(|_| PerCpuPages::default()).collect());
        let stat = Stat::new(machine.counter_rows());
        let groups = (layout.groups > 0).then(|| Groups::new(&machine, layout.groups, layout.group_version));
        let memory = Self {
            machine,
            stat,
            choices,
            frames,
            zones,
            nodes,
            reserve_pages: AtomicU64::new(0),
            min_free_kbytes: AtomicU64::new(0),
            lent_pages: AtomicU64::new(0),
            counted_pages: AtomicU64::new(0),
            limit_pages: layout.limit_pages,
            groups,
            per_cpu,
        };
        if memory.lruvecs() * (usize::from(layout.groups) + 1) > LRUVECS_MAX {
            return Err(LayoutError::TooManyGroups { groups: layout.groups, lruvecs: memory.lruvecs() });
        }
        memory.set_marks();
        for zone in &memory.zones {
            memory.set_reserve_blocks(zone);
            memory.bring_online(zone, zone.managed());
        }
        Ok(memory)
    }

    /// Takes a block of 2^`order` pages from `zone` without a check of watermarks. Returns the block's first page, with
    /// one reference; returns `None` if the zone has no such block.
    pub fn take(&self, zone: &Zone<M>, order: Order, kind: MigrateType, warmth: Warmth) -> Option<FrameNumber> {
        self.take_mixing(zone, order, kind, warmth, Mixing::Allowed)
    }

    /// Takes a block as [`Memory::take`] does. `mixing` says whether the request may take a part of a pageblock of
    /// another migrate type.
    pub fn take_mixing(
        &self,
        zone: &Zone<M>,
        order: Order,
        kind: MigrateType,
        warmth: Warmth,
        mixing: Mixing,
    ) -> Option<FrameNumber> {
        let head = if order == Order::ZERO {
            self.take_per_cpu(zone, kind, warmth, mixing)?
        } else {
            let mut area = zone.free.lock();
            self.machine.spend(Step::BuddyTake, 1);
            let mut lists = FreeLists::new(zone, &self.frames, &mut area);
            lists.take(order, kind, mixing, &self.choices)?
        };
        let frame = &self.frames[head];
        debug_assert!(frame.flags().0 == 0 && frame.references() == 0, "{head} was not free: {frame:?}");
        frame.set_references(1);
        frame.clear_private();
        zone.stat.count(ZoneEvent::Pgalloc, order.pages());
        Some(head)
    }

    /// Frees a folio after its last reference was dropped.
    ///
    /// # Panics
    /// Panics where [`Memory::free`] does.
    pub fn free_folio(&self, head: FrameNumber, warmth: Warmth) {
        self.free(head, self.frames.folio(head).order, warmth);
    }

    /// Frees a block of 2^`order` pages after its last reference was dropped. If the block is a folio, `order` is the
    /// folio's order.
    ///
    /// # Panics
    /// Panics if the first page still has a reference or a mapping, or has a flag that says that it is in use or on a
    /// list.
    pub fn free(&self, head: FrameNumber, order: Order, warmth: Warmth) {
        let frame = &self.frames[head];
        let flags = frame.flags();
        assert!(
            frame.references() == 0
                && frame.mappings() == 0
                && flags.0
                    & (Flags::LRU.0
                        | Flags::WRITEBACK.0
                        | Flags::LOCKED.0
                        | Flags::SWAPCACHE.0
                        | Flags::BUDDY.0
                        | Flags::PER_CPU.0
                        | Flags::WRITE_FAILED.0)
                    == 0,
            "{head} freed while in use: {frame:?}"
        );
        debug_assert!(!flags.has(Flags::COMPOUND) || self.frames.folio(head).order == order, "{head}: {order:?}");
        self.uncharge(head, order);
        if flags.has(Flags::COMPOUND) {
            self.frames.unmake_folio(head);
        }
        frame.reset_free();
        frame.set_owner(Owner::None, 0);
        self.stat.count(Event::Pgfree, order.pages());
        let zone = self.zone_of(head);
        if order == Order::ZERO {
            self.free_per_cpu(zone, head, warmth);
        } else {
            let _span = self.machine.span(Func::FreePages);
            let mut area = zone.free.lock();
            self.machine.spend(Step::BuddyTake, 1);
            zone.note_freed();
            let kind = zone.block_type(head);
            FreeLists::new(zone, &self.frames, &mut area).free(head, order, kind);
        }
    }

    /// Frees a page that the kernel took for its own use. `gauge` is the gauge that counts the page.
    pub fn free_kernel(&self, frame: FrameNumber, gauge: Gauge) {
        self.free_kernel_block(frame, Order::ZERO, gauge);
    }

    /// Frees a block of 2^`order` pages that the kernel took for its own use. `gauge` is the gauge that counts the
    /// pages.
    pub fn free_kernel_block(&self, head: FrameNumber, order: Order, gauge: Gauge) {
        self.add_gauge(head, gauge, -(order.pages() as i64));
        for n in 0..order.pages() as u32 {
            self.frames[FrameNumber(head.0 + n)].clear(Flags::KERNEL);
        }
        self.free_block(head, order);
    }

    /// Frees an allocated block whose pages are not in use. Drops the caller's reference to the first page.
    pub fn free_block(&self, head: FrameNumber, order: Order) {
        if self.frames[head].put() {
            self.free(head, order, Warmth::Hot);
            return;
        }
        // A lookup still has a reference of the first page: it mistook the page for the one that was in the frame
        // before. The lookup frees the first page when it sees its mistake. The rest of the block is freed now, half by
        // half.
        for half in (0..order.0).rev().map(Order) {
            self.free(FrameNumber(head.0 + half.pages() as u32), half, Warmth::Hot);
        }
    }

    /// Returns the zone of a frame.
    ///
    /// # Panics
    /// Panics when no zone manages the frame.
    #[inline]
    pub fn zone_of(&self, frame: FrameNumber) -> &Zone<M> {
        // The highest zone is tried first, because most pages are there.
        self.zones.iter().rev().find(|zone| frame.0 >= zone.start.0).expect("every frame lies in a zone")
    }

    /// Returns the zone whose number is `id`.
    #[inline]
    pub fn zone(&self, id: ZoneId) -> &Zone<M> {
        &self.zones[usize::from(id.0)]
    }

    /// Returns the node whose number is `id`.
    #[inline]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[usize::from(id.0)]
    }

    /// Returns the memory node of the calling task's CPU.
    #[inline]
    pub fn local_node(&self) -> NodeId {
        NodeId(self.machine.node() as u8)
    }

    /// Raises the zones' NUMA counters, such as `numa_hit` and `numa_miss`, for a block that was taken from `zone`
    /// (`zone_statistics`). `preferred` is the zone that the request for the block tries first.
    pub(crate) fn count_node(&self, preferred: &Zone<M>, zone: &Zone<M>) {
        if zone.node == preferred.node {
            zone.stat.count(ZoneEvent::NumaHit, 1);
        } else {
            zone.stat.count(ZoneEvent::NumaMiss, 1);
            preferred.stat.count(ZoneEvent::NumaForeign, 1);
        }
        let is_local = zone.node == self.local_node();
        zone.stat.count(if is_local { ZoneEvent::NumaLocal } else { ZoneEvent::NumaOther }, 1);
    }

    /// Returns whether the zones of a node share an lruvec, so that a scan for a low zone also meets pages of higher
    /// zones.
    #[inline]
    pub(crate) fn shares_lruvecs(&self) -> bool {
        match self.choices.lruvec_of {
            LruvecOf::Zone => false,
            LruvecOf::Node => true,
        }
    }

    /// Subtracts the pages of a block from the counters of the group to which they are charged, because the block is
    /// about to be free.
    #[inline]
    fn uncharge(&self, head: FrameNumber, order: Order) {
        let Some(groups) = &self.groups else { return };
        let group = self.frames.group(head);
        if !group.is_root() {
            self.frames.set_group(head, order, GroupId::ROOT);
            groups.uncharge(group, order.pages());
        }
    }

    /// Returns the number of lruvecs of each group.
    pub fn lruvecs(&self) -> usize {
        self.zones.last().map_or(0, |zone| usize::from(zone.lruvec.0) + 1)
    }

    /// Returns the zones in which a scan of the lruvec of `zone` may free pages for a request that `zone` can serve.
    /// These are `zone` itself and, if the zones of the node share the lruvec, the node's lower zones.
    #[inline]
    pub fn zones_served(&self, zone: &Zone<M>) -> &[Zone<M>] {
        let first = if self.shares_lruvecs() { self.node(zone.node).zones[0] } else { zone.id };
        &self.zones[usize::from(first.0)..=usize::from(zone.id.0)]
    }

    /// Returns the zones whose pages are on the lists of a zone's lruvec: the zone itself, or all zones of its node if
    /// they share the lruvec.
    #[inline]
    pub fn zones_of_lruvec(&self, zone: &Zone<M>) -> &[Zone<M>] {
        let first = usize::from(zone.id.0);
        if !self.shares_lruvecs() {
            return &self.zones[first..=first];
        }
        let zones = &self.node(zone.node).zones;
        let first = usize::from(zones[0].0);
        &self.zones[first..first + zones.len()]
    }

    /// Returns the number of pages that are charged to the memory cgroup that contains all tasks: pages on LRU lists,
    /// pages isolated for reclaim, and slab pages. Pages that were just allocated are not charged yet.
    #[doc(alias = "memory.current")]
    #[doc(alias = "memory.usage_in_bytes")]
    pub fn charged_pages(&self) -> u64 {
        CHARGED.iter().map(|gauge| self.gauge(*gauge)).sum()
    }

    /// Returns the limit, in pages, of the memory cgroup that contains all tasks; `None` if there is no such cgroup.
    #[inline]
    pub fn limit_pages(&self) -> Option<u64> {
        self.limit_pages
    }

    /// Returns the number of pages that tasks may have: the number of managed pages, or the limit of the tasks' cgroup
    /// if the limit is less.
    pub fn usable_pages(&self) -> u64 {
        let managed = self.zones.iter().map(Zone::managed).sum();
        self.limit_pages.unwrap_or(u64::MAX).min(managed)
    }

    /// Returns the value of a gauge, summed over all zones, in pages.
    #[inline]
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        self.zones.iter().map(|zone| zone.gauges.get(gauge)).sum()
    }

    /// Returns the count of an event, summed over all zones.
    #[must_use]
    pub fn zone_events(&self, event: ZoneEvent) -> u64 {
        self.zones.iter().map(|zone| zone.stat.get(event)).sum()
    }

    /// Returns the counters and gauges that each zone has, under their kernel names, summed over the zones for which
    /// `counts` returns `true`.
    #[must_use]
    pub fn vmstat_of(&self, counts: impl Fn(&Zone<M>) -> bool) -> Vmstat {
        let mut vmstat = Vmstat::new();
        let named = || ZoneEvent::named(self.nodes.len(), self.shares_lruvecs());
        for event in named() {
            vmstat.extend((0..ZONE_KINDS).map(|kind| (event.name_in(kind), 0)));
        }
        vmstat.extend(Gauge::ALL.map(|gauge| (gauge.name().to_owned(), 0)));
        for zone in self.zones.iter().filter(|zone| counts(zone)) {
            let events = named().map(|event| (event.name_in(zone.kind as usize), zone.stat.get(event)));
            let gauges = Gauge::ALL.into_iter().map(|gauge| (gauge.name().to_owned(), zone.gauges.get(gauge)));
            for (name, value) in events.chain(gauges) {
                *vmstat.entry(name).or_default() += value;
            }
        }
        vmstat
    }

    /// Returns the counters of one node, as `/sys/devices/system/node/node0/vmstat` shows them.
    #[must_use]
    pub fn node_vmstat(&self, node: NodeId) -> Vmstat {
        self.vmstat_of(|zone| zone.node == node)
    }

    /// Adds `pages`, which may be negative, to a gauge of the zone that holds `frame`.
    #[inline]
    pub fn add_gauge(&self, frame: FrameNumber, gauge: Gauge, pages: i64) {
        self.zone_of(frame).gauges.add(gauge, pages);
        let Some(groups) = &self.groups else { return };
        let Some(of_group) = GroupGauge::of_zone(gauge) else { return };
        // Pages of the swap cache are no pages of files.
        if of_group != GroupGauge::File || matches!(self.frames[frame].owner(), Owner::File(_)) {
            groups.add_gauge(self.frames.group(frame), of_group, pages);
        }
    }

    /// Calls `visit` with each page on the per-CPU lists of all CPUs. The check of the whole engine's state uses this
    /// function.
    pub fn for_each_per_cpu_page(&self, mut visit: impl FnMut(FrameNumber)) {
        use machine::PerCpu;
        self.per_cpu.for_each_cpu(|slots| slots.iter().flat_map(PerCpuPages::pages).for_each(&mut visit));
    }
}

/// Checks whether an engine's memory can have this layout.
///
/// # Errors
/// Fails if the layout has no zones, zones out of order, too many nodes, invalid distances, or too few or too many
/// pages.
pub fn check_layout(layout: &Layout) -> Result<(), LayoutError> {
    if layout.nodes.is_empty() || layout.nodes.iter().any(|node| node.zones.is_empty()) {
        return Err(LayoutError::Empty);
    }
    if layout.nodes.iter().any(|node| !node.zones.is_sorted_by(|a, b| a.kind < b.kind)) {
        return Err(LayoutError::ZoneOrder);
    }
    let is_square = layout.distances.len() == layout.nodes.len()
        && layout.distances.iter().all(|row| row.len() == layout.nodes.len())
        && (0..layout.nodes.len())
            .all(|a| (0..layout.nodes.len()).all(|b| (layout.distance(a, b) == LOCAL_DISTANCE) == (a == b)))
        && layout.distances.iter().flatten().all(|distance| *distance >= LOCAL_DISTANCE);
    if layout.nodes.len() > NODES_MAX {
        return Err(LayoutError::TooManyNodes { nodes: layout.nodes.len() });
    }
    if !layout.distances.is_empty() && !is_square {
        return Err(LayoutError::Distances);
    }
    let pages = layout.usable_pages();
    if pages < LEAST_PAGES {
        return Err(LayoutError::TooSmall { pages, least_pages: LEAST_PAGES });
    }
    if layout.frames() > u64::from(FRAMES_MAX) {
        return Err(LayoutError::TooLarge { frames: layout.frames() });
    }
    Ok(())
}

/// Sets the zonelists of each node in node order: the node's own zones from high to low, then the zones of the nearest
/// other node, and so on. Nodes at an equal distance follow in order of their numbers, beginning with the number after
/// the node's own, so that the nodes do not all fall back to the same node.
fn set_zonelists<M: Machine>(nodes: &mut [Node], zones: &[Zone<M>], layout: &Layout) {
    let by_node: Vec<Vec<ZoneId>> = nodes.iter().map(|node| node.zones.clone()).collect();
    for (n, node) in nodes.iter_mut().enumerate() {
        let mut order: Vec<usize> = (0..by_node.len()).map(|other| (n + other) % by_node.len()).collect();
        order.sort_by_key(|other| layout.distance(n, *other));
        for (class, zonelist) in node.zonelists.iter_mut().enumerate() {
            for other in &order {
                let ids = &by_node[*other];
                zonelist.extend(ids.iter().rev().filter(|id| zones[usize::from(id.0)].kind as usize <= class));
            }
        }
    }
}
