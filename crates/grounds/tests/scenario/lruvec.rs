//! The owner of an lruvec: a zone or a node (`memory.lruvec_of`).

use crate::ground::{Ground, PAGES, Plan};
use engine::lru::ListKind;
use engine::lru::choices::PolicyKind;
use engine::memory::choices::LruvecOf;
use engine::memory::{Gfp, Layout, ZoneKind};
use machine::Order;

/// Returns a machine of whose memory a quarter is DMA32.
fn plan(lruvec_of: LruvecOf) -> Plan {
    let mut plan = Plan { layout: Layout::single_node(0, PAGES / 4, PAGES * 3 / 4), ..Plan::default() };
    plan.choices.memory.lruvec_of = lruvec_of;
    plan
}

/// Returns the zones of all pages, in the order in which reclaim scans the pages.
fn oldest_first(ground: &Ground) -> Vec<ZoneKind> {
    let normal = &ground.engine.memory().zones[1];
    let lists = machine::Lock::lock(ground.engine.lru().lruvec_of(normal).classic_lists());
    let frames = lists.list(ListKind::InactiveFile).iter(&ground.engine.memory().frames);
    let mut kinds: Vec<ZoneKind> = frames.map(|frame| ground.engine.memory().zone_of(frame).kind).collect();
    kinds.reverse();
    kinds
}

/// With lists by node, one list has pages of both zones. With lists by zone, it has pages of its zone only.
#[test]
fn a_node_has_one_order_for_all_its_zones() {
    for (lruvec_of, lruvecs) in [(LruvecOf::Zone, 2), (LruvecOf::Node, 1)] {
        plan(lruvec_of).run(move |ground| {
            let file = ground.import(PAGES as u32);
            ground.read(&file, 0..PAGES as u32 * 7 / 8).unwrap();
            ground.engine.lru().drain_all();
            assert_eq!(ground.engine.memory().lruvecs(), lruvecs);
            let kinds = oldest_first(ground);
            let has_both = kinds.contains(&ZoneKind::Normal) && kinds.contains(&ZoneKind::Dma32);
            assert_eq!(has_both, matches!(lruvec_of, LruvecOf::Node));
            ground.check();
        });
    }
}

/// The LRU lists of a node have pages of two zones. A direct reclaim for a request that only DMA32 may serve skips the
/// pages of Normal, which stay on the list and count as scanned, and takes pages of DMA32.
#[test]
fn reclaim_for_a_low_zone_skips_pages_of_higher_ones() {
    for policy in [PolicyKind::Classic, PolicyKind::Lru, PolicyKind::Clock] {
        skip_pages_of_higher_zones(policy);
    }
}

fn skip_pages_of_higher_zones(policy: PolicyKind) {
    let mut plan = plan(LruvecOf::Node);
    plan.choices.lru.policy = policy;
    plan.with_kswapd = false;
    let vmstat = plan.run(|ground| {
        let file = ground.import(2 * PAGES as u32);
        let fill = |pages| ground.read(&file, pages).unwrap();
        // Memory is full, and the older pages are in Normal.
        fill(0..PAGES as u32 * 9 / 10);
        let [dma32, normal] = [0, 1].map(|n| &ground.engine.memory().zones[n]);
        let listed = || normal.gauges.get(ListKind::InactiveFile.gauge());
        let gfp = Gfp { highest_zone: ZoneKind::Dma32, ..Gfp::USER_MOVABLE };
        let mut taken = Vec::new();
        while dma32.free_pages() > dma32.min() {
            taken.push(ground.engine.allocate().allocate(&mut ground.task.borrow_mut(), gfp, Order::ZERO).unwrap());
        }
        let (before, skipped) = (listed(), ground.count("pgskip_normal"));
        for _ in 0..100 {
            taken.push(ground.engine.allocate().allocate(&mut ground.task.borrow_mut(), gfp, Order::ZERO).unwrap());
        }
        assert!(ground.count("pgskip_normal") > skipped, "none was skipped");
        assert_eq!(listed(), before, "no page of Normal helps");
        assert!(taken.iter().all(|frame| ground.engine.memory().zone_of(*frame).kind == ZoneKind::Dma32));
        ground.give_back(taken);
        ground.check();
    });
    assert_eq!(vmstat["pgskip_dma32"], 0);
    let passed_over = vmstat["pgscan_direct_dma32"] - vmstat["pgsteal_direct_dma32"];
    assert!(passed_over >= vmstat["pgskip_normal"], "{vmstat:?}");
}

/// In a kernel in which each zone has its own lruvec, reclaim never meets pages of a higher zone. So there is no
/// counter `pgskip_normal`.
#[test]
fn a_zone_of_its_own_skips_nothing() {
    let vmstat = plan(LruvecOf::Zone).run(|ground| {
        let file = ground.import(2 * PAGES as u32);
        ground.read(&file, 0..2 * PAGES as u32).unwrap();
    });
    assert!(vmstat["pgsteal_kswapd_dma32"] > 0);
    assert!(!vmstat.contains_key("pgskip_normal"));
}
