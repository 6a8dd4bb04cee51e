//! Nodes and zones: the frames of the machine, and their division.
//!
//! A zone holds its free lists and its gauges. The LRU lists of its pages are in a layer above (`lru`). *Description*:
//! mechanisms/reclaim, 2, 4.

use super::GroupVersion;
use super::free_area::{BLOCK_PAGES, FreeArea, MAX_ORDERS, MigrateType};
use super::per_cpu_size::PerCpuSize;
use super::watermark::{MarkRights, Marks};
use crate::stat::{Gauge, ZoneStat, vmstat::Gauges};
use machine::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use machine::{FrameNumber, LockClass, Machine, Order};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The kind of a zone. Low zones can serve requests that high zones cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneKind {
    /// The first 16 MiB of memory.
    Dma,
    /// Memory below 4 GiB, except the first 16 MiB.
    Dma32,
    /// Memory from 4 GiB on.
    Normal,
}

impl ZoneKind {
    /// All kinds of zones, lowest first.
    pub const ALL: [Self; 3] = [Self::Dma, Self::Dma32, Self::Normal];

    /// Returns the name of the zone kind as the kernel prints it, such as `DMA32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
        }
    }
}

/// The number of a zone among the zones of all nodes. The zones of node 0 are counted first, from the lowest up, then
/// the zones of node 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(pub u8);

/// The number of a memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u8);

/// The number of an lruvec, which is a set of LRU lists with their lock. Each zone, or each node, has one lruvec
/// ([`super::choices::LruvecOf`]). The lruvec has the same number as its zone or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LruvecId(pub u16);

/// The layout of memory; the section `[memory]` of a machine file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// The nodes, at least one.
    pub nodes: Vec<NodeLayout>,
    /// Distances from each node's CPUs to each node's memory, as `numactl --hardware` prints them. The distance is 10
    /// for the node itself, and 20 where an access takes twice as long (ACPI, "System Locality Information Table"). If
    /// the table is empty, the distance to every other node is 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<Vec<u8>>,
    /// The limit, in pages, of a memory cgroup that contains all tasks ([`super::Memory::charged_pages`]); `None` if
    /// there is no such cgroup.
    #[doc(alias = "memory.max")]
    #[doc(alias = "memory.limit_in_bytes")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_pages: Option<u64>,
    /// Number of memory control groups that can exist at a time, without the root group; 0 if there are none.
    #[serde(default, skip_serializing_if = "has_no_groups")]
    pub groups: u16,
    /// Version of the memory control groups. In a machine file whose groups have keys of version 1, it need not be set.
    #[serde(default, skip_serializing_if = "GroupVersion::is_default")]
    pub group_version: GroupVersion,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn has_no_groups(groups: &u16) -> bool {
    *groups == 0
}

/// The zones of one node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLayout {
    /// The zones of the node, from the one with the lowest addresses to the one with the highest.
    pub zones: Vec<ZoneLayout>,
}

/// The size and kind of one zone, in the description of a machine's memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneLayout {
    /// Kind of the zone.
    pub kind: ZoneKind,
    /// Number of pages that the allocator manages: the present pages without those reserved at boot.
    pub managed_pages: u64,
    /// Number of pages to which the zone may grow ([`super::Memory::online_pages`]); 0 for a zone that does not grow.
    /// The descriptors of pages that the zone does not have yet are not touched, so they take no memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spanned_pages: u64,
    /// `true` if the pageblock at the zone's end, of which only a part belongs to the zone, is unmovable at the start.
    /// Linux marks only pageblocks as movable that begin inside their zone. On x86 the first pageblock of ZONE_DMA
    /// begins before it, and half of it is no memory. Here such a pageblock is the last of its zone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unmovable_part: bool,
    /// Number of pages that are put on the free lists at the start; `None` for all pages. The other pages are put there
    /// when they are needed. So the unused part of a large zone costs no time, and no memory for descriptors.
    #[doc(alias = "CONFIG_DEFERRED_STRUCT_PAGE_INIT")]
    #[serde(skip)]
    pub listed_first: Option<u64>,
}

/// The distance of a node from itself (`LOCAL_DISTANCE`).
pub const LOCAL_DISTANCE: u8 = 10;

/// Distance between two different nodes if the layout states no other, in the unit in which [`LOCAL_DISTANCE`] is 10
/// (`REMOTE_DISTANCE`).
const REMOTE_DISTANCE: u8 = 20;

/// Number of pages that are put on the free lists at the start, in a layout that can grow ([`Layout::growing`]). The
/// descriptors of these pages take 8 MiB.
const LISTED_FIRST: u64 = 1 << 18;

fn is_zero(pages: &u64) -> bool {
    *pages == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl ZoneLayout {
    /// Returns a zone of `managed_pages` pages that does not grow.
    #[must_use]
    pub const fn new(kind: ZoneKind, managed_pages: u64) -> Self {
        Self { kind, managed_pages, spanned_pages: 0, unmovable_part: false, listed_first: None }
    }

    /// Returns the largest number of pages that the zone may have: the number at first, or the one to which it may
    /// grow.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.managed_pages.max(self.spanned_pages)
    }
}

impl Layout {
    /// Returns a layout with one Normal zone on one node.
    #[must_use]
    pub fn flat(pages: u64) -> Self {
        Self::of_nodes(vec![NodeLayout { zones: vec![ZoneLayout::new(ZoneKind::Normal, pages)] }])
    }

    /// Returns a layout with one Normal zone of `pages` pages that can grow to `pages_max` pages. The first GiB is put
    /// on the free lists at the start, and the rest when it is needed.
    #[must_use]
    pub fn growing(pages: u64, pages_max: u64) -> Self {
        let listed_first = Some(LISTED_FIRST);
        let zone = ZoneLayout { spanned_pages: pages_max, listed_first, ..ZoneLayout::new(ZoneKind::Normal, pages) };
        Self::of_nodes(vec![NodeLayout { zones: vec![zone] }])
    }

    /// Returns a layout of one node with the zones DMA, DMA32 and Normal, of which each has the given number of managed
    /// pages. A zone of 0 pages is left out.
    #[must_use]
    pub fn single_node(dma: u64, dma32: u64, normal: u64) -> Self {
        let zones = ZoneKind::ALL
            .into_iter()
            .zip([dma, dma32, normal])
            .filter(|(_, pages)| *pages > 0)
            .map(|(kind, managed_pages)| ZoneLayout::new(kind, managed_pages))
            .collect();
        Self::of_nodes(vec![NodeLayout { zones }])
    }

    /// Returns a layout of memory with the nodes `nodes`, all at equal distance from each other.
    #[must_use]
    pub const fn of_nodes(nodes: Vec<NodeLayout>) -> Self {
        Self { nodes, distances: Vec::new(), limit_pages: None, groups: 0, group_version: GroupVersion::V2 }
    }

    /// Returns the distance from the CPUs of one node to the memory of another, as `numactl --hardware` prints it: 10
    /// for a node itself.
    #[must_use]
    pub fn distance(&self, cpu_node: usize, memory_node: usize) -> u8 {
        let default = if cpu_node == memory_node { LOCAL_DISTANCE } else { REMOTE_DISTANCE };
        self.distances.get(cpu_node).and_then(|row| row.get(memory_node)).copied().unwrap_or(default)
    }

    /// Returns the distances of all nodes from each other, with the defaults where the layout gives none.
    #[must_use]
    pub fn all_distances(&self) -> Vec<Vec<u8>> {
        let nodes = || 0..self.nodes.len();
        nodes().map(|from| nodes().map(|to| self.distance(from, to)).collect()).collect()
    }

    /// Returns the first frame of each node.
    #[must_use]
    pub fn first_frames(&self) -> Vec<u32> {
        let frames = |node: &NodeLayout| Self::of_nodes(vec![node.clone()]).frames() as u32;
        let starts = self.nodes.iter().scan(0, |start, node| Some(std::mem::replace(start, *start + frames(node))));
        starts.collect()
    }

    /// Returns the number of managed pages, summed over all zones.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.nodes.iter().flat_map(|node| &node.zones).map(|zone| zone.managed_pages).sum()
    }

    /// Returns the number of pages that tasks may have: the number of managed pages, or the limit of the tasks' cgroup
    /// if the limit is less.
    #[must_use]
    pub fn usable_pages(&self) -> u64 {
        self.limit_pages.unwrap_or(u64::MAX).min(self.pages())
    }

    /// Returns the number of frames in the frame table of this layout. Each zone starts at a multiple of the largest
    /// block.
    #[must_use]
    pub fn frames(&self) -> u64 {
        let round = |pages: u64| pages.next_multiple_of(LARGEST_BLOCK_PAGES);
        self.nodes.iter().flat_map(|node| &node.zones).map(|zone| round(zone.span())).sum()
    }
}

/// Number of pages of the largest buddy block.
pub(super) const LARGEST_BLOCK_PAGES: u64 = 1 << (MAX_ORDERS - 1);

/// A flag that reclaim sets on a zone for later runs of reclaim (mechanisms/reclaim, 18.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFlag(u32);

impl ZoneFlag {
    /// Reclaim met dirty pages, and all of them belonged to congested devices. `wait_iff_congested` sleeps only while
    /// this flag is set.
    pub const CONGESTED: Self = Self(1 << 0);
    /// Every page that reclaim isolated from the tail of a list was dirty and not queued for writing, so this flag lets
    /// kswapd write file pages.
    pub const TAIL_LRU_DIRTY: Self = Self(1 << 1);
    /// Reclaim met many pages under writeback at the tail of the lists.
    pub const WRITEBACK: Self = Self(1 << 2);
    /// Since a page of the zone was last freed, reclaim has scanned at least six times as many pages as are
    /// reclaimable. While the flag is set, reclaim scans the zone only lightly.
    pub const ALL_UNRECLAIMABLE: Self = Self(1 << 3);
    /// A task is reclaiming from this zone of its own node, and will take memory of another node only if that is not
    /// enough. Meanwhile other tasks do not reclaim from the zone, but take memory of another node at once.
    #[doc(alias = "ZONE_RECLAIM_LOCKED")]
    pub const ZONE_RECLAIM: Self = Self(1 << 4);
}

/// A zone: a range of frames of one node, with its free lists, watermarks and gauges.
pub struct Zone<M: Machine> {
    /// The number of the zone.
    pub id: ZoneId,
    /// The node to which the zone belongs.
    pub node: NodeId,
    /// The kind of the zone. `kind as usize` is the zone's class-zone index.
    pub kind: ZoneKind,
    /// The lruvec on whose lists the zone's pages are.
    pub lruvec: LruvecId,
    /// The first frame of the zone.
    pub start: FrameNumber,
    /// Largest number of pages that the zone may ever have. The frames of these pages begin at `start`.
    pub spanned: u64,
    /// Number of frames, from `start` on, that have ever been on a free list. It is changed under the lock `free`.
    pub(super) online: AtomicU64,
    /// Number of free frames that are on no list yet. These frames follow directly after the online frames. The number
    /// is changed under the lock `free`.
    pub(super) deferred: AtomicU64,
    /// Number of pages that are put on the free lists at the start: the value of [`ZoneLayout::listed_first`].
    pub(super) listed_first: Option<u64>,
    /// Number of pages that the allocator manages: the present pages except those that are offline.
    pub(super) managed: AtomicU64,
    /// The marks min, low and high, in pages. Low and high do not include `distance` and `boost`.
    pub(super) marks: [AtomicU64; 3],
    /// Number of pages that the choice `mark_distance` adds to the distance from min to low. A quarter of this number
    /// is added to the distance from low to high; in trials, programs ran faster with a quarter than with the whole
    /// number.
    pub(crate) distance: AtomicU64,
    /// Number of pages by which the low mark is raised because migrate types were mixed. Kswapd sets this number to 0
    /// after it has reclaimed for the boost.
    #[doc(alias = "watermark_boost")]
    boost: AtomicU64,
    /// Largest value of `boost`, in pages.
    pub(super) boost_max: AtomicU64,
    /// The element at index `j` is the number of pages that the zone keeps from requests whose highest usable zone is
    /// of kind `j`.
    pub(super) lowmem_reserve: [AtomicU64; 3],
    /// Number of pages that do not count as dirtyable: the high mark plus the largest lowmem reserve.
    pub(super) dirty_balance_reserve: AtomicU64,
    /// The fields of the zone's [`PerCpuSize`], in the order of their declaration.
    per_cpu_size: [AtomicU32; 3],
    /// `true` while kswapd reclaims because of a wake-up for an allocation that the zone may serve.
    #[doc(alias = "ZONE_RECLAIM_ACTIVE")]
    kswapd_works: AtomicBool,
    /// The gauges of the zone: numbers of pages that are free, dirty, on each LRU list, and others.
    pub gauges: Gauges,
    /// The counters of events of the zone.
    pub stat: ZoneStat,
    /// Number of free blocks of each order. The numbers are changed only under the lock `free`; watermark checks read
    /// them without the lock. The gauge of free pages is updated later, when the lock is released.
    pub nr_free: [AtomicU64; MAX_ORDERS],
    /// The free lists of the zone.
    pub free: M::Lock<FreeArea>,
    /// Migrate type of each pageblock. It is changed only under the lock `free`.
    block_types: Box<[AtomicU8]>,
    /// The state that reclaim keeps about the lruvec on whose lists the zone's pages are.
    reclaim: Arc<ReclaimState>,
}

/// The state that reclaim keeps about an lruvec. Zones that share an lruvec share this state.
#[derive(Debug, Default)]
pub(super) struct ReclaimState {
    flags: AtomicU32,
    pages_scanned: AtomicU64,
}

impl<M: Machine> Zone<M> {
    pub(super) fn new(
        machine: &M,
        id: ZoneId,
        node: NodeId,
        layout: &ZoneLayout,
        start: FrameNumber,
        (lruvec, reclaim): (LruvecId, Arc<ReclaimState>),
    ) -> Self {
        let blocks = layout.span().div_ceil(BLOCK_PAGES);
        let block_types: Box<[AtomicU8]> = (0..blocks).map(|_| AtomicU8::new(MigrateType::Movable as u8)).collect();
        if let Some(last) =
            block_types.last().filter(|_| layout.unmovable_part && !layout.span().is_multiple_of(BLOCK_PAGES))
        {
            last.store(MigrateType::Unmovable as u8, Relaxed);
        }
        Self {
            id,
            node,
            kind: layout.kind,
            lruvec,
            start,
            spanned: layout.span(),
            online: AtomicU64::new(0),
            deferred: AtomicU64::new(0),
            listed_first: layout.listed_first,
            managed: AtomicU64::new(layout.managed_pages),
            marks: Default::default(),
            distance: AtomicU64::new(0),
            boost: AtomicU64::new(0),
            boost_max: AtomicU64::new(0),
            lowmem_reserve: Default::default(),
            dirty_balance_reserve: AtomicU64::new(0),
            per_cpu_size: Default::default(),
            kswapd_works: AtomicBool::new(false),
            gauges: Gauges::new(machine.counter_rows()),
            stat: ZoneStat::new(machine.counter_rows()),
            nr_free: std::array::from_fn(|_| AtomicU64::new(0)),
            free: machine.lock(LockClass::Zone, FreeArea::default()),
            block_types,
            reclaim,
        }
    }

    /// Returns the most pages by which the choice `mark_distance` may raise the zone's low mark (the field `distance`):
    /// a sixteenth of the managed pages.
    pub(crate) fn distance_max(&self) -> u64 {
        self.managed() / 16
    }

    /// Returns the number of the zone's pages that the allocator manages at present.
    #[inline]
    pub fn managed(&self) -> u64 {
        self.managed.load(Relaxed)
    }

    /// Returns the number of frames, from `start` on, that have ever been on a free list. The descriptors of the frames
    /// after them were never touched.
    pub fn online(&self) -> u64 {
        self.online.load(Relaxed)
    }

    /// Returns the number of free frames that are on no free list yet. They are put on a free list when they are
    /// needed.
    pub fn deferred(&self) -> u64 {
        self.deferred.load(Relaxed)
    }

    /// Returns the number of frames, from `start` on, that the allocator has ever had. The frames after them were never
    /// present.
    pub fn present(&self) -> u64 {
        self.online() + self.deferred()
    }

    /// Returns whether kswapd is reclaiming now, because of a wake-up for an allocation that this zone may serve
    /// (`ZONE_RECLAIM_ACTIVE`).
    pub(super) fn kswapd_works(&self) -> bool {
        self.kswapd_works.load(Relaxed)
    }

    /// Records that kswapd begins (`true`) or ends (`false`) to reclaim for an allocation that the zone may serve.
    pub(crate) fn note_kswapd(&self, works: bool) {
        self.kswapd_works.store(works, Relaxed);
    }

    /// Returns the sizes of the zone's per-CPU lists. While the sizes are being changed, some of them may be new and
    /// others old.
    pub fn per_cpu_size(&self) -> PerCpuSize {
        let [batch, high_min, high_max] = self.per_cpu_size.each_ref().map(|size| size.load(Relaxed));
        PerCpuSize { batch, high_min, high_max }
    }

    /// Returns the smallest limit of the zone's per-CPU lists ([`PerCpuSize::high_min`]).
    #[inline]
    pub(super) fn per_cpu_high_min(&self) -> u32 {
        self.per_cpu_size[1].load(Relaxed)
    }

    pub(super) fn set_per_cpu_size(&self, PerCpuSize { batch, high_min, high_max }: PerCpuSize) {
        for (size, pages) in self.per_cpu_size.iter().zip([batch, high_min, high_max]) {
            size.store(pages, Relaxed);
        }
    }

    /// Returns the number of pages that the zone keeps from requests whose highest usable zone has kind number
    /// `classzone`. Returns `None` if there is no such kind.
    #[must_use]
    pub fn lowmem_reserve(&self, classzone: usize) -> Option<u64> {
        self.lowmem_reserve.get(classzone).map(|pages| pages.load(Relaxed))
    }

    /// Returns the marks of the zone, without the addition of `memory.mark_distance` and without the boost of the low
    /// mark.
    pub fn marks(&self) -> Marks {
        let [min, low, high] = self.marks.each_ref().map(|mark| mark.load(Relaxed));
        Marks { min, low, high }
    }

    /// Returns the present min mark of the zone, in pages. Pages below this mark are the reserve for requests with
    /// special rights.
    #[inline]
    pub fn min(&self) -> u64 {
        self.marks[0].load(Relaxed)
    }

    /// Returns the number of pages that do not count as dirtyable: the high mark plus the largest lowmem reserve.
    #[inline]
    pub fn dirty_balance_reserve(&self) -> u64 {
        self.dirty_balance_reserve.load(Relaxed)
    }

    /// Returns the number of free pages of the zone, without pages on per-CPU lists.
    #[inline]
    pub fn free_pages(&self) -> u64 {
        self.gauges.get(Gauge::NrFreePages)
    }

    /// Returns the present low mark of the zone, without the boost. Kswapd is woken when fewer pages than this are
    /// free.
    #[inline]
    pub fn low(&self) -> u64 {
        self.marks[1].load(Relaxed) + self.distance.load(Relaxed)
    }

    /// Returns the number of pages by which the low mark is raised for a while after migrate types were mixed. The
    /// results of [`Zone::low`] and [`Zone::high`] do not include this number.
    #[inline]
    pub fn boost(&self) -> u64 {
        self.boost.load(Relaxed)
    }

    /// Raises the boost of the low mark by a pageblock, up to `boost_max`, because a part of a pageblock was taken for
    /// another migrate type.
    #[doc(alias = "boost_watermark")]
    pub(super) fn raise_boost(&self) {
        let max = self.boost_max.load(Relaxed);
        if max > 0 {
            let _ = self.boost.fetch_update(Relaxed, Relaxed, |boost| Some((boost + BLOCK_PAGES).min(max)));
        }
    }

    /// Ends the boost of the zone's low mark. Called after kswapd has reclaimed because of the boost.
    pub(crate) fn end_boost(&self) {
        self.boost.store(0, Relaxed);
    }

    /// Returns the present high mark of the zone, without the boost. Kswapd reclaims until more pages than this are
    /// free.
    #[inline]
    pub fn high(&self) -> u64 {
        self.marks[2].load(Relaxed) + self.distance.load(Relaxed) * 5 / 4
    }

    /// Returns whether the zone stays above `mark` after a request of 2^`order` pages. The request's `rights` lower the
    /// mark. The lowmem reserve for `classzone`, the highest zone that the request may use, is added to the mark. Free
    /// blocks of lower orders than `order` do not count, and for each of these lower orders the mark is halved.
    ///
    /// A zone that is exactly at the mark is not above it (`zone_watermark_ok`).
    #[doc(alias = "zone_watermark_ok")]
    pub fn is_above(&self, mark: u64, order: Order, classzone: usize, rights: MarkRights) -> bool {
        let mut free = self.free_pages() as i64 - (order.pages() as i64 - 1);
        let mut need = mark as i64;
        if rights.high {
            need -= need / 2;
        }
        if rights.harder {
            need -= need / 4;
        }
        if free <= need + self.lowmem_reserve[classzone].load(Relaxed) as i64 {
            return false;
        }
        for o in 0..usize::from(order.0) {
            // Blocks that are too small do not count; the number of free pages needed halves with each order.
            free -= (self.nr_free[o].load(Relaxed) << o) as i64;
            need >>= 1;
            if free <= need {
                return false;
            }
        }
        true
    }

    /// Returns whether the zone's counts show a free block of the order or of a larger order, of any migrate type.
    pub(crate) fn has_free_block(&self, order: Order) -> bool {
        self.nr_free[usize::from(order.0)..].iter().any(|blocks| blocks.load(Relaxed) > 0)
    }

    /// Returns whether the frame lies in this zone.
    #[inline]
    pub fn holds(&self, frame: FrameNumber) -> bool {
        frame.0 >= self.start.0 && u64::from(frame.0 - self.start.0) < self.spanned
    }

    /// Returns the migrate type of the pageblock that holds `frame`.
    #[inline]
    pub fn block_type(&self, frame: FrameNumber) -> MigrateType {
        MigrateType::ALL[usize::from(self.block_types[self.block_of(frame)].load(Relaxed))]
    }

    /// Changes the migrate type of the pageblock that holds `frame`. The caller holds the lock `free`.
    pub(super) fn set_block_type(&self, frame: FrameNumber, kind: MigrateType) {
        self.block_types[self.block_of(frame)].store(kind as u8, Relaxed);
    }

    fn block_of(&self, frame: FrameNumber) -> usize {
        (u64::from(frame.0 - self.start.0) / BLOCK_PAGES) as usize
    }

    /// Returns whether the zone has the flag `flag`.
    #[inline]
    pub fn is(&self, flag: ZoneFlag) -> bool {
        self.reclaim.flags.load(Relaxed) & flag.0 != 0
    }

    /// Sets a flag.
    pub fn set(&self, flag: ZoneFlag) {
        self.reclaim.flags.fetch_or(flag.0, Relaxed);
    }

    /// Sets a flag of the zone. Returns whether the flag was clear before.
    #[must_use]
    pub fn try_set(&self, flag: ZoneFlag) -> bool {
        self.reclaim.flags.fetch_or(flag.0, Relaxed) & flag.0 == 0
    }

    /// Clears a flag of the zone.
    pub fn clear(&self, flag: ZoneFlag) {
        if self.is(flag) {
            self.reclaim.flags.fetch_and(!flag.0, Relaxed);
        }
    }

    /// Returns the number of pages scanned on the zone's lruvec since a page of the lruvec was last freed.
    pub fn pages_scanned(&self) -> u64 {
        self.reclaim.pages_scanned.load(Relaxed)
    }

    /// Adds `pages` to the number of scanned pages of the zone's lruvec.
    pub(crate) fn note_scanned(&self, pages: u64) {
        self.reclaim.pages_scanned.fetch_add(pages, Relaxed);
    }

    /// Records that a page of the zone went back to the free lists, so that the zone counts as reclaimable again.
    pub(super) fn note_freed(&self) {
        self.reclaim.pages_scanned.store(0, Relaxed);
        self.clear(ZoneFlag::ALL_UNRECLAIMABLE);
    }
}

impl<M: Machine> std::fmt::Display for Zone<M> {
    /// Writes the zone's name as `/proc/zoneinfo` does: `Node 0, zone Normal`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node {}, zone {}", self.node.0, self.kind.name())
    }
}

/// A memory node and its zones.
#[derive(Debug)]
pub struct Node {
    /// The number of the node.
    pub id: NodeId,
    /// The zones of the node, from the one with the lowest addresses to the one with the highest.
    pub zones: Vec<ZoneId>,
    /// For each class zone (highest usable [`ZoneKind`]), the zones to allocate from, in order of preference.
    pub zonelists: [Vec<ZoneId>; 3],
}
