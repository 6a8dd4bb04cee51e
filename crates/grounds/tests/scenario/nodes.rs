//! Several memory nodes: the node from which tasks get memory, and the counts of each node.

use crate::ground::{Found, Ground, PAGES, Plan, choices_of};
use engine::lru::choices::Admission;
use engine::memory::{Layout, NodeId, NodeLayout, ZoneKind, ZoneLayout, check_layout};
use engine::{ReadPattern, ReadState};
use machine::{Machine, PAGE_BYTES};

/// Number of pages of one node.
const NODE_PAGES: u64 = PAGES / 2;

/// Returns a machine of two nodes with a CPU each.
fn plan() -> Plan {
    let node = || NodeLayout { zones: vec![ZoneLayout::new(ZoneKind::Normal, NODE_PAGES)] };
    Plan { layout: Layout::of_nodes(vec![node(), node()]), cpus: 2, ..Plan::default() }
}

fn counts(ground: &Ground, name: &str) -> [u64; 2] {
    [0, 1].map(|node| ground.engine.memory().node_vmstat(NodeId(node))[name])
}

/// A task gets memory of its CPU's node as long as that node is above its low mark, and then memory of the other node.
#[test]
fn a_task_takes_memory_of_its_own_node_first() {
    let vmstat = plan().run(|ground| {
        let toucher = ground.spawn_on(1, "toucher", |ground| {
            let region = ground.region(PAGES as u32);
            ground.touch(&region, 0..1000, true).unwrap();
            let [far, near] = counts(ground, "nr_anon_pages");
            assert_eq!((far, near), (0, 1000));
            assert_eq!(counts(ground, "numa_miss"), [0, 0]);
            ground.touch(&region, 1000..2500, true).unwrap();
            let [far, near] = counts(ground, "nr_anon_pages");
            assert!(near > NODE_PAGES * 3 / 4 && far > 2500 - NODE_PAGES, "{far} far, {near} near");
            let missed = counts(ground, "numa_miss");
            assert!(missed[0] >= far && missed[1] == 0, "{missed:?}");
            assert_eq!(counts(ground, "numa_foreign"), [0, missed[0]]);
            assert_eq!(counts(ground, "numa_other"), missed);
            ground.engine.access().drop_region(&region);
        });
        ground.sim.join(toucher);
    });
    assert_eq!(vmstat["numa_hit"] + vmstat["numa_miss"], vmstat["numa_local"] + vmstat["numa_other"]);
}

/// Each node's kswapd reclaims on its node, as long as this node is short of memory.
#[test]
fn each_node_has_a_kswapd() {
    let mut plan = plan();
    // The first node is four times as large.
    plan.layout.nodes[0].zones[0].managed_pages = 4 * NODE_PAGES;
    plan.run(|ground| {
        let reader = ground.spawn_on(1, "reader", |ground| {
            let file = ground.import(8 * NODE_PAGES as u32);
            ground.read(&file, 0..8 * NODE_PAGES as u32).unwrap();
        });
        ground.sim.join(reader);
        let freed = counts(ground, "pgsteal_kswapd_normal");
        assert!(freed[0] > freed[1] && freed[1] > 0, "{freed:?}");
    });
}

/// A refault is counted on the memory node of the page's new frame, and not on the node where the page was before.
#[test]
fn nodes_count_allocations_and_refaults_apart() {
    let mut plan = Plan { choices: choices_of("highwater"), ..plan() };
    plan.choices.memory.min_free_kbytes = 1024;
    plan.choices.lru.admission = Admission::ByRefault;
    plan.run(|ground| {
        // The task on the second node reads a file twice as large.
        let readers = [2, 4].map(|nodes| {
            ground.spawn_on(usize::from(nodes > 2), "reader", move |ground| {
                let file = ground.import(nodes * NODE_PAGES as u32);
                let mut bytes = vec![0; PAGE_BYTES];
                // Pages are not read in order, because pages that are read ahead do not count as refaults.
                for page in (0..2).flat_map(|_| 0..u64::from(nodes) * NODE_PAGES) {
                    let mut state = ReadState::default();
                    state.pattern = ReadPattern::Random;
                    let offset = page * PAGE_BYTES as u64;
                    ground
                        .engine
                        .access()
                        .read(&mut ground.task.borrow_mut(), &file, &mut state, offset, &mut bytes)
                        .unwrap();
                }
            })
        });
        assert!(readers.into_iter().all(|reader| ground.sim.join(reader)));
        let taken = counts(ground, "pgalloc_normal");
        assert!(taken[0] > 2 * NODE_PAGES && taken[1] > taken[0], "{taken:?}");
        let refaults = counts(ground, "workingset_refault_file");
        assert!(refaults.iter().all(|pages| *pages > 0) && refaults[0] != refaults[1], "{refaults:?}");
        assert_eq!(refaults.iter().sum::<u64>(), ground.count("workingset_refault_file"));
    });
}

/// A task reads a file on a node full of file pages. It takes memory of the other node, or, with `zone_reclaim_mode`,
/// reclaims on its own node.
#[test]
fn zone_reclaim_mode_keeps_a_task_on_its_node() {
    let other_node_pages = |mode| {
        let found = Found::default();
        let result: Found<[u64; 2]> = found.clone();
        let mut plan = plan();
        plan.choices.reclaim.zone_reclaim_mode = mode;
        plan.run(move |ground| {
            let reader = ground.spawn_on(1, "reader", |ground| {
                let file = ground.import(NODE_PAGES as u32 * 3 / 2);
                ground.read(&file, 0..NODE_PAGES as u32 * 3 / 2).unwrap();
                assert!(counts(ground, "nr_file_pages")[1] > NODE_PAGES / 2);
            });
            ground.sim.join(reader);
            let missed = counts(ground, "numa_miss")[0];
            result.set([missed, counts(ground, "pgsteal_direct_normal")[1]]);
        });
        found.get()
    };
    let [off, on] = [0, 1].map(other_node_pages);
    assert!(off[0] > NODE_PAGES / 3 && off[1] == 0, "{off:?}");
    assert!(on[0] < NODE_PAGES / 100 && on[1] > NODE_PAGES / 3, "{on:?}");
}

/// With `zone_reclaim_mode` 1, zone reclaim takes only clean, unmapped pages, so nothing is swapped out. With 7, it
/// also writes pages and unmaps mapped ones, so anonymous pages are swapped out.
#[test]
fn zone_reclaim_takes_mapped_pages_only_where_its_mode_says_so() {
    let swapped = |mode| {
        let mut plan = plan();
        plan.choices.reclaim.zone_reclaim_mode = mode;
        let vmstat = plan.run(move |ground| {
            let toucher = ground.spawn_on(1, "toucher", |ground| {
                let file = ground.import(NODE_PAGES as u32 / 4);
                ground.read(&file, 0..NODE_PAGES as u32 / 4).unwrap();
                let region = ground.region(NODE_PAGES as u32 * 3 / 2);
                ground.touch(&region, 0..NODE_PAGES as u32 * 3 / 2, true).unwrap();
                ground.engine.access().drop_region(&region);
            });
            ground.sim.join(toucher);
        });
        (vmstat["pswpout"], vmstat["zone_reclaim_failed"])
    };
    let [unmapped, all] = [1, 7].map(swapped);
    assert!(unmapped.0 == 0 && unmapped.1 > 0, "{unmapped:?}");
    assert!(all.0 > NODE_PAGES / 4, "{all:?}");
}

/// Zeroing and scanning a page of another node takes longer in proportion to the node's distance.
#[test]
fn memory_of_another_node_costs_more() {
    let time = |distance| {
        let found = Found::default();
        let result: Found<u64> = found.clone();
        let mut plan = plan();
        plan.layout.distances = vec![vec![10, distance], vec![distance, 10]];
        plan.run(move |ground| {
            let toucher = ground.spawn_on(1, "toucher", move |ground| {
                let near = ground.region(1600);
                ground.touch(&near, 0..1600, true).unwrap();
                let began = ground.sim.now();
                let region = ground.region(1000);
                ground.touch(&region, 0..1000, true).unwrap();
                result.set(ground.sim.now().since(began).0);
                ground.engine.access().drop_region(&region);
                ground.engine.access().drop_region(&near);
            });
            ground.sim.join(toucher);
        });
        found.get()
    };
    let (near, far) = (time(11), time(40));
    assert!(far > near + 500 * 250, "{near} ns at distance 11, {far} ns at 40");
}

#[test]
fn zonelists_begin_at_home_and_go_on_by_distance() {
    let node =
        || NodeLayout { zones: vec![ZoneLayout::new(ZoneKind::Dma32, 512), ZoneLayout::new(ZoneKind::Normal, 512)] };
    let mut layout = Layout::of_nodes(vec![node(), node(), node()]);
    layout.distances = vec![vec![10, 30, 20], vec![30, 10, 20], vec![20, 20, 10]];
    assert_eq!(layout.first_frames(), [0, 2048, 4096]);
    Plan { layout, cpus: 3, ..Plan::default() }.run(|ground| {
        let lists = |node: u8| {
            let list = &ground.engine.memory().node(NodeId(node)).zonelists[ZoneKind::Normal as usize];
            list.iter().map(|id| ground.engine.reclaim().zone(*id).to_string()).collect::<Vec<_>>()
        };
        let zones =
            |nodes: [u8; 3]| nodes.map(|n| ["Normal", "DMA32"].map(|zone| format!("Node {n}, zone {zone}"))).concat();
        assert_eq!(lists(0), zones([0, 2, 1]));
        assert_eq!(lists(1), zones([1, 2, 0]));
        assert_eq!(lists(2), zones([2, 0, 1]), "of equally near ones the next by number");
    });
}

#[test]
fn distances_fit_their_nodes() {
    let mut layout = plan().layout;
    for (distances, is_right) in [
        (vec![vec![10, 21], vec![21, 10]], true),
        (vec![vec![10, 10], vec![21, 10]], false),
        (vec![vec![10, 9], vec![9, 10]], false),
        (vec![vec![10, 21]], false),
    ] {
        layout.distances = distances;
        assert_eq!(check_layout(&layout).is_ok(), is_right, "{:?}", layout.distances);
    }
}
