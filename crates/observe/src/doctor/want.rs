//! The reason why a request found no memory, from the kernel's report ([`recordings::kernel_log`]).
//!
//! A request may use the zones up to the highest one that its `gfp_mask` allows, on the nodes that its cpuset and
//! policy allow. Three parts of a zone's free pages are closed to the request: CMA, unless its own pages are movable;
//! the reserve for high orders, unless the request cannot wait; and the pages kept from requests that a higher zone
//! could serve (`lowmem_reserve`). The rest must exceed the min mark, and a request for more than one page also needs a
//! block. Source: docs/mechanisms/reclaim/memory.md and allocation.md, and the kernel's documents on CMA.

use recordings::kernel_log::gfp::{Gfp, Mobility, ZoneKind};
use recordings::kernel_log::{Report, ZoneReport};

/// The free memory of a zone, and the parts of it that one request for memory may not use.
#[derive(Clone, Debug, PartialEq)]
pub struct Room<'a> {
    /// The zone, as the kernel's report shows it.
    pub zone: &'a ZoneReport,
    /// The zone's free memory, KiB.
    pub free: u64,
    /// The part of the free memory that is in CMA and closed to the request, KiB; 0 if the request may use CMA.
    pub cma: u64,
    /// The part of the free memory that is reserved for atomic requests of high orders and closed to the request, KiB;
    /// 0 if the request may use it.
    pub high_atomic: u64,
    /// The free memory that the zone keeps from the request because a higher zone could serve the request
    /// (`lowmem_reserve`), KiB. It may be more than the zone's free memory.
    pub reserve: u64,
    /// The free memory must stay above this mark, KiB. It is the min mark or, for an urgent request, a part of the min
    /// mark.
    pub mark: u64,
    /// The free memory without the parts that are closed to the request, KiB; negative if these parts exceed the free
    /// memory.
    pub left: i64,
    /// One page less than the size of the requested block, KiB. The kernel subtracts this size from the free memory,
    /// and then compares the result with the mark.
    pub block: u64,
    /// True if the zone has a free block that is large enough for the request and open to it. `true` if the report
    /// shows no blocks.
    pub has_block: bool,
}

impl Room<'_> {
    /// Returns whether enough memory for the request is left above the mark, whether or not it forms one block.
    #[must_use]
    pub const fn is_over_mark(&self) -> bool {
        self.left.saturating_sub_unsigned(self.block) > self.mark as i64
    }
}

/// The reason why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A cgroup was at its limit.
    Limit,
    /// No zone that the request may use had enough memory.
    Short,
    /// A zone that the request may use had enough memory, but no free block of the requested order.
    Pieces,
    /// When the kernel printed its report, a zone that the request may use had enough memory again.
    Over,
    /// The reason is unknown: the kernel's report does not state the request, or any zone that the request may use.
    Untold,
}

/// A failed request for memory, as a report of the kernel describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Want<'a> {
    /// The kernel's report on the request.
    pub report: &'a Report,
    /// The reason why the request failed.
    pub why: Why,
    /// The zones that the request may use, sorted by node. The zones of a node are in order from the lowest to the
    /// highest.
    pub rooms: Vec<Room<'a>>,
    /// Zones that have free memory above their high mark, but that the request may not use.
    pub elsewhere: Vec<&'a ZoneReport>,
}

/// The part of the min mark, as a fraction, above which free memory must stay after an urgent request that cannot wait.
/// The kernel first halves the mark because the request is urgent, and then takes three quarters of the half because
/// the request cannot wait. Source: docs/mechanisms/reclaim/allocation.md.
const ATOMIC_MARK: (u64, u64) = (3, 8);

/// Largest order that any kernel has: a block of 1 GiB, with pages of 4 KiB.
const ORDER_MAX: u32 = 18;

impl<'a> Want<'a> {
    /// Finds, from a report of the kernel, the reason why the reported request failed, and the zones that the request
    /// may use.
    #[must_use]
    pub fn of(report: &'a Report) -> Self {
        let mut this = Self { report, why: Why::Untold, rooms: Vec::new(), elsewhere: Vec::new() };
        if report.cgroup.is_some() {
            this.why = Why::Limit;
            return this;
        }
        let Some(gfp) = &report.gfp else { return this };
        let order = report.order.unwrap_or(0).max(0) as u32;
        let is_allowed = |zone: &ZoneReport| {
            let is_of_node = report.nodes.as_ref().is_none_or(|nodes| nodes.contains(&zone.node));
            is_of_node && zone.kind <= gfp.highest && zone.kind != ZoneKind::Device
        };
        // Some kernels print zones without pages.
        let zones = || report.zones.iter().filter(|zone| zone.kib("managed").max(zone.kib("present")) > 0);
        this.rooms = zones().filter(|zone| is_allowed(zone)).map(|zone| room(report, zone, gfp, order)).collect();
        this.rooms.sort_by_key(|room| (room.zone.node, room.zone.kind));
        let is_free = |zone: &&ZoneReport| zone.kind != ZoneKind::Device && zone.kib("free") > zone.kib("high");
        this.elsewhere = zones().filter(|zone| !is_allowed(zone)).filter(is_free).collect();
        let has_room = this.rooms.iter().any(Room::is_over_mark);
        let has_block = this.rooms.iter().any(|room| room.is_over_mark() && room.has_block);
        this.why = match (this.rooms.is_empty(), has_room, has_block) {
            (true, ..) => Why::Untold,
            (_, false, _) => Why::Short,
            (.., false) => Why::Pieces,
            _ => Why::Over,
        };
        this
    }
}

/// Returns a zone's free memory, and the parts of it that are closed to a request with the flags `gfp` and the order
/// `order`.
fn room<'a>(report: &Report, zone: &'a ZoneReport, gfp: &Gfp, order: u32) -> Room<'a> {
    let page_kib = report.page_kib();
    let free = zone.kib("free");
    let cma = if gfp.mobility == Mobility::Movable { 0 } else { zone.kib("free_cma") };
    // Since 6.12 the kernel prints the free part of the reserve for high orders. Before, all of the reserve counts as
    // closed.
    let kept = zone.kib.get("free_highatomic").copied().unwrap_or_else(|| zone.kib("reserved_highatomic"));
    let high_atomic = if gfp.is_high { 0 } else { kept.min(free.saturating_sub(cma)) };
    let reserve = reserve(report, zone, gfp.highest).saturating_mul(page_kib);
    let min = zone.kib("min");
    let mark = if gfp.is_high { min.saturating_mul(ATOMIC_MARK.0) / ATOMIC_MARK.1 } else { min };
    let kept = cma.saturating_add(high_atomic).saturating_add(reserve);
    let size_kib = page_kib << order.min(ORDER_MAX);
    let suits = |kinds: &str| {
        kinds.is_empty()
            || kinds.contains(['U', 'M', 'E'])
            || kinds.contains('C') && gfp.mobility == Mobility::Movable
            || kinds.contains('H') && gfp.is_high
    };
    Room {
        zone,
        free,
        cma,
        high_atomic,
        reserve,
        mark,
        left: i64::try_from(free).unwrap_or(i64::MAX).saturating_sub(i64::try_from(kept).unwrap_or(i64::MAX)),
        block: size_kib - page_kib,
        // A report without free blocks does not prove that there are none.
        has_block: order == 0
            || zone.blocks.is_empty()
            || zone.blocks.iter().any(|it| it.kib >= size_kib && it.count > 0 && suits(&it.kinds)),
    }
}

use ZoneKind::{Device, Dma, Dma32, HighMem, Movable, Normal};

/// Lists of the kinds of zones that a kernel may be built with, each from the lowest zone to the highest. The line
/// `lowmem_reserve` of a report has an entry for each zone of the kernel's list, also for zones without pages.
const LAYOUTS: [&[ZoneKind]; 13] = [
    &[Dma, Normal, HighMem, Movable],
    &[Normal, HighMem, Movable],
    &[Dma, Normal, HighMem, Movable, Device],
    &[Normal, HighMem, Movable, Device],
    &[Dma, Dma32, Normal, HighMem, Movable],
    &[Dma, Dma32, Normal, Movable],
    &[Dma, Dma32, Normal, Movable, Device],
    &[Dma, Normal, Movable],
    &[Dma32, Normal, Movable],
    &[Dma, Normal, Movable, Device],
    &[Dma32, Normal, Movable, Device],
    &[Normal, Movable],
    &[Normal, Movable, Device],
];

/// Returns the number of pages that a zone keeps from requests whose highest allowed zone is `highest`. Returns 0 if
/// the zone's `lowmem_reserve` fits none of [`LAYOUTS`].
fn reserve(report: &Report, zone: &ZoneReport, highest: ZoneKind) -> u64 {
    let has_highmem = report.zones.iter().any(|zone| zone.kind == HighMem);
    // A zone keeps no pages from requests for itself or for lower zones.
    let fits = |layout: &[ZoneKind], zone: &ZoneReport| {
        let place = layout.iter().position(|kind| *kind == zone.kind);
        let own = |place: usize| zone.reserve.iter().take(place + 1).all(|pages| *pages == 0);
        zone.reserve.is_empty() || zone.reserve.len() == layout.len() && place.is_some_and(own)
    };
    let layout = LAYOUTS.iter().find(|layout| {
        layout.contains(&HighMem) == has_highmem
            && layout.len() == zone.reserve.len()
            && report.zones.iter().all(|zone| fits(layout, zone))
    });
    let place = layout.and_then(|layout| layout.iter().rposition(|kind| *kind <= highest));
    place.and_then(|place| zone.reserve.get(place)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use recordings::kernel_log::read;

    fn report(text: &str) -> Report {
        read(text).reports.remove(0)
    }

    /// Returns the reason why a request failed and, for each zone, its kind and the memory left in it for the request,
    /// KiB.
    fn why(report: &Report) -> (Why, Vec<(ZoneKind, i64)>) {
        let want = Want::of(report);
        (want.why, want.rooms.iter().map(|room| (room.zone.kind, room.left)).collect())
    }

    fn asked(request: &str, zones: &str) -> Report {
        report(&format!("a invoked oom-killer: {request}, oom_score_adj=0\nMem-Info:\n{zones}"))
    }

    const PI: &str = "\
DMA free:500000kB min:9000kB low:9900kB high:10000kB present:786432kB managed:700000kB free_cma:494000kB
lowmem_reserve[]: 0 0 3000 3000
HighMem free:2000000kB min:512kB low:4500kB high:8500kB present:3264512kB managed:3264512kB free_cma:0kB
lowmem_reserve[]: 0 0 0 0
";

    #[test]
    fn a_request_of_the_kernel_gets_neither_high_memory_nor_cma() {
        let kernel = asked("gfp_mask=0xcc0(GFP_KERNEL), order=0", PI);
        assert_eq!(why(&kernel), (Why::Short, vec![(Dma, 6000)]));
        let want = Want::of(&kernel);
        assert_eq!((want.rooms[0].cma, want.rooms[0].reserve, want.elsewhere[0].kind), (494_000, 0, HighMem));
        // Pages of a program may use any zone, so there is room. Low memory keeps its reserve from them.
        let program = asked("gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0", PI);
        assert_eq!(why(&program), (Why::Over, vec![(Dma, 488_000), (HighMem, 2_000_000)]));
        assert!(Want::of(&program).elsewhere.is_empty());
    }

    const SERVER: &str = "\
Node 0 DMA free:11264kB min:64kB low:80kB high:96kB present:15992kB managed:15360kB free_cma:0kB
lowmem_reserve[]: 0 1918 15884 15884 15884
Node 0 DMA32 free:62248kB min:8144kB low:10180kB high:12216kB present:2080640kB managed:1996800kB free_cma:0kB
lowmem_reserve[]: 0 0 13966 13966 13966
Node 0 Normal free:59504kB min:61392kB low:75740kB high:90088kB reserved_highatomic:2048KB present:14680064kB managed:14301556kB free_cma:0kB
lowmem_reserve[]: 0 0 0 0 0
Node 0 Normal: 3210*4kB (UME) 1203*8kB (UMEH) 2*16kB (H) 0*32kB = 59456kB
Node 1 Normal free:900000kB min:61392kB low:75740kB high:90088kB present:14680064kB managed:14301556kB free_cma:0kB
lowmem_reserve[]: 0 0 0 0 0
Node 1 Normal: 3210*4kB (UME) 1203*8kB (UMEH) 2*16kB (H) 0*32kB = 59456kB
";

    #[test]
    fn lower_zones_keep_their_reserve_and_other_nodes_are_closed_by_a_policy() {
        let bound = asked("gfp_mask=0xcc0(GFP_KERNEL), nodemask=0, order=0", SERVER);
        assert_eq!(why(&bound), (Why::Short, vec![(Dma, -52_272), (Dma32, 6384), (Normal, 57_456)]));
        assert_eq!(Want::of(&bound).elsewhere.len(), 1);
        let free = asked("gfp_mask=0xcc0(GFP_KERNEL), nodemask=(null), order=0", SERVER);
        assert_eq!((why(&free).0, why(&free).1.len()), (Why::Over, 4));
        // The request for four pages on node 1 finds no block that it may take. Devices with 32-bit addresses cannot
        // use Normal.
        assert_eq!(why(&asked("gfp_mask=0xcc0(GFP_KERNEL), nodemask=1, order=2", SERVER)).0, Why::Pieces);
        let dma32 = asked("gfp_mask=0xcc4(GFP_KERNEL|GFP_DMA32), order=0", SERVER);
        assert_eq!(why(&dma32), (Why::Over, vec![(Dma, 3592), (Dma32, 62_248)]));
        let atomic = asked("gfp_mask=0x820(GFP_ATOMIC), nodemask=0, order=2", SERVER);
        assert_eq!(why(&atomic).0, Why::Over, "the blocks kept for it");
    }

    #[test]
    fn what_a_report_does_not_tell_is_not_guessed() {
        assert_eq!(why(&asked("gfp_mask=0xcc0(GFP_KERNEL), order=0", "")).0, Why::Untold);
        assert_eq!(why(&report(&format!("Mem-Info:\n{PI}"))).0, Why::Untold);
        // A list with another length fits no layout.
        let odd = asked("gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0", &PI.replace("3000 3000", "3000 3000 1 1"));
        assert_eq!(why(&odd).1[0], (Dma, 500_000));
    }
}
