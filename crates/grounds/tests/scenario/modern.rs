//! Classic reclaim as of Linux 5.12: refaults, a balance of anonymous and file pages by cost, and a kswapd that
//! balances a node as a whole.

use crate::choices::everything;
use crate::ground::{Found, Ground, PAGES, Plan, choices_of, stamp};
use engine::allocate::choices::MigrateFallback;
use engine::lru::choices::{CgroupCounters, FamilyBalance, Refault, UnwrittenPages};
use engine::memory::{Flags, Gfp, GroupId, Layout, Limit, NodeLayout, Zone, ZoneKind, ZoneLayout};
use engine::page_cache::File;
use engine::reclaim::choices::{FailuresReset, Hopeless, WritebackMet};
use engine::slab::choices::SlabOrder;
use engine::stat::Gauge;
use engine::swap::choices::{SwapWindows, SynchronousSwap};
use engine::writeback::choices::GroupLimits;
use engine::{ReadPattern, ReadState};
use machine::{Machine, Nanos, Order, PAGE_BYTES};
use sim::Sim;
use sim::disk::Fault;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

fn plan() -> Plan {
    let mut plan = Plan { choices: choices_of("5.12-mainline"), ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 1024;
    plan
}

/// Reads single pages of a file, without any readahead.
fn read(ground: &Ground, file: &Arc<File<Sim>>, pages: impl IntoIterator<Item = u32>) {
    let mut bytes = vec![0; PAGE_BYTES];
    for page in pages {
        let mut state = ReadState::default();
        state.pattern = ReadPattern::Random;
        let offset = u64::from(page) * PAGE_BYTES as u64;
        ground.engine.access().read(&mut ground.task.borrow_mut(), file, &mut state, offset, &mut bytes).unwrap();
    }
}

fn flags(ground: &Ground, file: &File<Sim>, page: u32) -> Option<Flags> {
    file.index.get(page).map(|frame| ground.engine.memory().frames[frame].flags())
}

/// Makes `active` pages of one file active by reading them twice, and then reads a second file until memory is full and
/// the file's first pages have been evicted. Returns the second file.
fn with_active_pages(ground: &Ground, active: u32) -> Arc<File<Sim>> {
    let hot = ground.import(active);
    for _ in 0..2 {
        read(ground, &hot, 0..active);
        ground.engine.lru().drain_all();
    }
    assert_eq!(ground.count("nr_active_file"), u64::from(active));
    let stream = ground.import(8 * PAGES as u32);
    read(ground, &stream, 0..PAGES as u32 + 500);
    stream
}

/// Returns the highest page number below `end` whose page is not in memory. The file was read in order, so this page
/// was evicted last.
fn last_gone(file: &File<Sim>, end: u32) -> u32 {
    (0..end).rev().find(|page| file.index.get(*page).is_none()).expect("a page has left")
}

#[test]
fn a_page_that_left_lately_comes_back_as_active_and_one_that_left_long_ago_does_not() {
    plan().run(|ground| {
        let end = PAGES as u32 + 500;
        let stream = with_active_pages(ground, 1000);
        let late = last_gone(&stream, end);
        assert!(late > 200);
        let counts = || ["workingset_refault_file", "workingset_activate_file"].map(|name| ground.count(name));
        read(ground, &stream, [late]);
        assert_eq!(counts(), [1, 1]);
        ground.engine.lru().drain_all();
        assert!(flags(ground, &stream, late).unwrap().has(Flags::ACTIVE), "fewer have left since than are active");
        assert_eq!(ground.count("workingset_restore_file"), 0, "it was never active before");
        // More pages leave memory than are active.
        let long_gone = last_gone(&stream, late);
        read(ground, &stream, end..end + 1500);
        let before = counts();
        read(ground, &stream, [long_gone]);
        assert_eq!(counts(), [before[0] + 1, before[1]]);
        ground.engine.lru().drain_all();
        assert!(!flags(ground, &stream, long_gone).unwrap().has(Flags::ACTIVE));
    });
}

/// A page that is read after `drop_caches` counts as new, even if it had been evicted before that.
#[test]
fn dropped_caches_leave_no_shadows() {
    let vmstat = plan().run(|ground| {
        let end = PAGES as u32 + 500;
        let stream = with_active_pages(ground, 1000);
        let late = last_gone(&stream, end);
        ground.engine.access().drop_caches();
        read(ground, &stream, [late, end - 1]);
    });
    assert_eq!((vmstat["workingset_refault_file"], vmstat["workingset_activate_file"]), (0, 0));
}

/// Reclaim deactivates active pages once the counters show that pages refault. If the counters are updated only every
/// two seconds, fewer active pages are deactivated.
#[test]
fn refaults_that_are_counted_later_let_fewer_active_pages_go() {
    let deactivated = |count: CgroupCounters| {
        let mut plan = plan();
        plan.choices.lru.cgroup_counters = count;
        let vmstat = plan.run(|ground| {
            let stream = with_active_pages(ground, 1000);
            // By the end of this pause, the counters say that the pages are active.
            ground.sim.pause(Nanos::from_secs(3));
            // Each page has just left memory, so it comes back as active, and another page is evicted for it.
            for _ in 0..600 {
                read(ground, &stream, [last_gone(&stream, PAGES as u32 + 500)]);
            }
            read(ground, &stream, 2 * PAGES as u32..4 * PAGES as u32);
        });
        assert!(vmstat["workingset_activate_file"] > 100, "{vmstat:?}");
        vmstat["pgdeactivate"]
    };
    let [at_once, later] = [CgroupCounters::AtOnce, CgroupCounters::EveryTwoSeconds].map(deactivated);
    assert!(later < at_once, "{later} {at_once}");
}

/// If evicted pages leave no shadows, no read counts as a refault, and the kernel has no counters of refaults.
#[test]
fn pages_that_leave_nothing_are_as_new() {
    let mut plan = plan();
    plan.choices.lru.refault = Refault::Ignored;
    let vmstat = plan.run(|ground| {
        let stream = with_active_pages(ground, 1000);
        let late = last_gone(&stream, PAGES as u32 + 500);
        read(ground, &stream, [late]);
        ground.engine.lru().drain_all();
        assert!(!flags(ground, &stream, late).unwrap().has(Flags::ACTIVE));
    });
    // A kernel without shadows does not have these counters, not even with the value 0.
    assert!(vmstat.keys().all(|name| !name.starts_with("workingset_")), "{vmstat:?}");
}

/// A page that was active before its eviction counts as restored to the working set when it refaults
/// (`workingset_restore_file`).
#[test]
fn a_page_that_was_active_before_it_left_is_restored() {
    let vmstat = plan().run(|ground| {
        // Two sets of pages, each read twice, do not fit into memory together. So pages become inactive, leave, and
        // come back.
        let file = ground.import(2 * PAGES as u32);
        for _ in 0..4 {
            for part in 0..2 {
                for _ in 0..2 {
                    read(ground, &file, part * 3000..(part + 1) * 3000);
                    ground.engine.lru().drain_all();
                }
            }
        }
    });
    assert!(vmstat["workingset_restore_file"] > 100, "{vmstat:?}");
    assert!(vmstat["workingset_restore_file"] <= vmstat["workingset_activate_file"]);
    assert!(vmstat["workingset_activate_file"] <= vmstat["workingset_refault_file"]);
}

/// A file of twice memory is read at random, each page with the same probability. In the long run as many pages are
/// deactivated as are activated by a second use or a refault, except for the growth of the active list.
#[test]
fn under_uniform_reads_activations_and_deactivations_are_in_balance() {
    plan().run(|ground| {
        let pages = 2 * PAGES as u32;
        let file = ground.import(pages);
        let mut word = 1u64;
        let mut some = |n: u32| {
            let mut next = || {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (word >> 33) as u32 % pages
            };
            read(ground, &file, (0..n).map(|_| next()));
            ground.engine.lru().drain_all();
        };
        some(12 * PAGES as u32);
        let counts = || {
            ["pgactivate", "workingset_activate_file", "pgdeactivate", "nr_active_file"].map(|name| ground.count(name))
        };
        let before = counts();
        some(30 * PAGES as u32);
        let after = counts();
        let [activated, refaulted, deactivated] = std::array::from_fn(|n| after[n] - before[n]);
        assert!(refaulted > 1000 && activated > 1000 && deactivated > 1000, "{activated} {refaulted} {deactivated}");
        // The growth of active pages includes pages whose second use was found in a batch, which counts as no
        // activation.
        let grown = after[3].cast_signed() - before[3].cast_signed();
        let excess = (activated + refaulted).cast_signed() - deactivated.cast_signed() - grown;
        assert!(
            excess <= 0 && excess > -deactivated.cast_signed() / 50,
            "{activated} {refaulted} {deactivated} {grown}"
        );
    });
}

/// Every page that is swapped out leaves a shadow, so its return is a refault.
#[test]
fn pages_that_come_back_from_swap_are_refaults() {
    let vmstat = plan().run(|ground| {
        let region = ground.region(2 * PAGES as u32);
        ground.write_stamps(&region, 0..2 * PAGES as u32).unwrap();
        for page in (0..2 * PAGES as u32).step_by(3) {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), crate::ground::stamp(page));
        }
    });
    assert!(vmstat["pswpin"] > 1000);
    assert_eq!(vmstat["workingset_refault_anon"], vmstat["pswpin"]);
    assert_eq!(
        vmstat["workingset_activate_anon"], 0,
        "none was used twice: none is active that they would compete with"
    );
}

/// Movable pageblocks are full, so pages of a file are allocated from a pageblock of another type. This raises the low
/// mark by a pageblock (`watermark_boost_factor`). Kswapd frees pages up to the raised mark, without writing any, and
/// then the mark falls to its usual value.
#[test]
fn mixed_migrate_types_raise_marks_until_kswapd_has_made_room() {
    let run = |watermark_boost_factor, with_kswapd| {
        let mut plan = Plan { with_kswapd, layout: Layout::flat(16 * PAGES), ..plan() };
        // The high mark is 1324 pages. Movable pageblocks are full when about 1500 pages are free.
        (plan.choices.memory.min_free_kbytes, plan.choices.memory.watermark_scale_factor) = (2048, 62);
        plan.choices.memory.watermark_boost_factor = watermark_boost_factor;
        // Nodes of indexes take no memory, so that the number of free pages is known.
        plan.choices.slab.order = SlabOrder::SinglePages;
        let found = Found::default();
        let result = found.clone();
        let vmstat = plan.run(move |ground| {
            let (file, region, log) = (ground.import(16 * PAGES as u32), ground.region(500), ground.create());
            ground.touch(&region, 0..500, true).unwrap();
            ground.write(&log, 0..50).unwrap();
            read(ground, &file, 0..ground.free() as u32 - 1450);
            ground.pause_ms(300);
            let zone = &ground.engine.memory().zones[0];
            result.set((zone.boost(), ground.free(), zone.high()));
        });
        assert_eq!((vmstat["pswpout"], vmstat["nr_vmscan_write"]), (0, 0));
        found.get()
    };
    let (boost, free, high) = run(15_000, false);
    assert!(boost >= 512 && free > high && free <= 1450, "nobody reclaims: {boost} {free} {high}");
    let (boost, free, high) = run(15_000, true);
    assert!(boost == 0 && free > 1550, "{boost} {free} {high}");
    let (boost, free, high) = run(0, true);
    assert!(boost == 0 && free > high && free <= 1450, "{boost} {free} {high}");
}

/// The movable pageblocks of the Normal zone are full. File pages then come from DMA32, until DMA32 is at its low mark,
/// too. Until then, migrate types are not mixed and no watermark is boosted. A kernel with `MigrateFallback::AtOnce`
/// mixes migrate types in Normal first. A node without DMA32 mixes migrate types before it uses another node.
#[test]
fn lower_zones_are_asked_before_migrate_types_are_mixed() {
    let run = |migrate_fallback, has_dma32: bool| {
        let mut layout = Layout::single_node(0, 4 * PAGES, 4 * PAGES);
        if !has_dma32 {
            let lower = layout.nodes[0].zones.remove(0);
            layout.nodes.push(NodeLayout { zones: vec![ZoneLayout { kind: ZoneKind::Normal, ..lower }] });
        }
        let mut plan = Plan { with_kswapd: false, layout, ..plan() };
        plan.choices.memory.watermark_boost_factor = 15_000;
        plan.choices.allocate.migrate_fallback = migrate_fallback;
        let found = Found::default();
        let result = found.clone();
        plan.run(move |ground| {
            let file = ground.import(8 * PAGES as u32);
            let memory = ground.engine.memory();
            let is_first = |zone: &Zone<_>| zone.kind == ZoneKind::Normal && zone.node == memory.local_node();
            let [normal, other] =
                [true, false].map(|first| memory.zones.iter().find(|zone| is_first(zone) == first).unwrap());
            let before = other.free_pages();
            // One page is read at a time, because a boost makes the other pages go to the other zone.
            let mut page = 0;
            while normal.free_pages() > normal.high() + 100 && normal.boost() == 0 && page < 6 * PAGES as u32 {
                read(ground, &file, page..page + 1);
                page += 1;
            }
            let (spared, boost) = (before - other.free_pages(), normal.boost());
            read(ground, &file, page..8 * PAGES as u32);
            result.set((spared, boost, normal.boost()));
        });
        found.get()
    };
    let (spared, boost, _) = run(MigrateFallback::AtOnce, true);
    assert!(spared < 100 && boost > 0, "{spared} {boost}");
    let (spared, boost, in_the_end) = run(MigrateFallback::AfterLowerZone, true);
    assert!(spared > 100 && boost == 0 && in_the_end > 0, "{spared} {boost} {in_the_end}");
    let (spared, boost, _) = run(MigrateFallback::AfterLowerZone, false);
    assert!(spared < 100 && boost > 0, "{spared} {boost}");
}

/// An anonymous page that was swapped out only lately comes back as an active page.
#[test]
fn a_page_that_went_to_swap_lately_comes_back_as_active() {
    let vmstat = plan().run(|ground| {
        let (hot, cold) = (ground.region(1500), ground.region(3 * PAGES as u32));
        for start in (0..2 * PAGES as u32).step_by(64) {
            ground.touch(&hot, 0..1500, true).unwrap();
            ground.touch(&cold, start..start + 64, true).unwrap();
        }
        let active = ground.count("nr_active_anon");
        assert!(active > 1000, "{active} pages are active");
        let has_left = |page: &u32| {
            cold.entry(*page).slot().is_some_and(|slot| ground.engine.access().swap.cached(slot).is_none())
        };
        let gone = (0..2 * PAGES as u32).rev().find(has_left).unwrap();
        let before = ground.count("workingset_activate_anon");
        ground.touch(&cold, gone..gone + 1, false).unwrap();
        assert!(ground.count("workingset_activate_anon") > before);
        ground.engine.lru().drain_all();
        let frame = cold.entry(gone).frame().unwrap();
        assert!(ground.engine.memory().frames[frame].is(Flags::ACTIVE));
    });
    assert_eq!(vmstat["workingset_refault_anon"], vmstat["pswpin"]);
}

#[test]
fn new_anonymous_pages_are_inactive_until_they_are_used_again() {
    let counts = |kernel: &'static str| {
        let found = Found::default();
        let result = found.clone();
        let mut plan = Plan { choices: choices_of(kernel), ..plan() };
        plan.choices.memory.min_free_kbytes = 1024;
        plan.choices.access.huge_pages = engine::access::choices::HugePages::Never;
        plan.run(move |ground| {
            let region = ground.region(1000);
            ground.touch(&region, 0..1000, true).unwrap();
            ground.engine.lru().drain_all();
            result.set(Some((ground.count("nr_inactive_anon"), ground.count("nr_active_anon"))));
        });
        found.get().unwrap()
    };
    assert_eq!(counts("5.12-mainline"), (1000, 0));
    assert_eq!(counts("3.10-rc4-vanilla"), (0, 1000));
}

/// Half of memory is anonymous and idle, and file pages are read again and again. Linux 5.12 swaps the idle memory out,
/// because file pages refault. Linux 3.10 swaps hardly any of it, because the inactive file list is long enough for it
/// to reclaim file pages only.
#[test]
fn idle_anonymous_memory_goes_when_files_are_missed() {
    let run = |kernel: &'static str| {
        let mut plan = Plan { choices: choices_of(kernel), ..plan() };
        plan.choices.memory.min_free_kbytes = 1024;
        plan.run(|ground| {
            let idle = ground.region(2000);
            ground.touch(&idle, 0..2000, true).unwrap();
            let file = ground.import(3000);
            for round in 0..20u32 {
                // Each page is read twice, but not twice in a row.
                read(ground, &file, (0..3000).map(|n| n * 7 % 3000));
                read(ground, &file, (0..200).map(|n| n + round));
            }
        })
    };
    let (modern, old) = (run("5.12-mainline"), run("3.10-rc4-vanilla"));
    assert!(modern["pswpout"] > 500, "{} pages", modern["pswpout"]);
    assert!(old["pswpout"] < 100, "{} pages", old["pswpout"]);
    assert!(modern["pgpgin"] < old["pgpgin"] / 2, "{} KiB for {}", modern["pgpgin"], old["pgpgin"]);
}

/// Each value of `lru.family_balance` reclaims both anonymous pages and file pages, and keeps all contents.
#[test]
fn every_balance_of_families_holds_everything() {
    for balance in [FamilyBalance::ByRotation, FamilyBalance::ByIo, FamilyBalance::ByIoAndRotation] {
        let mut plan = Plan { layout: Layout::single_node(0, 1024, 3072), write_ns: 400_000, ..plan() };
        plan.choices.lru.family_balance = balance;
        let vmstat = plan.run(everything);
        assert!(vmstat["pswpout"] > 100 && vmstat["pgsteal_kswapd_normal"] > 1000, "{balance:?}: {vmstat:?}");
    }
}

/// Reclaim finds dirty file pages, and a disk stalls. With `UnwrittenPages::BecomeActive`, such a page goes to the
/// active list, so scans of the inactive list do not meet it again. When its write has ended, it moves to the tail of
/// the inactive list and is evicted next.
#[test]
fn pages_that_are_to_be_written_are_moved_out_of_the_way() {
    let run = |unwritten_pages| {
        let mut plan = Plan { write_ns: 2_000_000, ..plan() };
        plan.choices.lru.unwritten_pages = unwritten_pages;
        plan.choices.writeback.dirty_ratio = 60;
        plan.choices.writeback.dirty_background_ratio = 30;
        plan.run(|ground| {
            let (log, stream) = (ground.create(), ground.import(2 * PAGES as u32));
            ground.write(&log, 0..2000).unwrap();
            ground.inject(Fault::StallUntil(ground.sim.now() + Nanos::from_millis(300)));
            read(ground, &stream, 0..2 * PAGES as u32);
        })
    };
    let (moved, kept) = (run(UnwrittenPages::BecomeActive), run(UnwrittenPages::StayInactive));
    assert!(moved["pgactivate"] > 500 && kept["pgactivate"] == 0, "{} {}", moved["pgactivate"], kept["pgactivate"]);
    assert!(moved["pgrotated"] > 500, "{}", moved["pgrotated"]);
    assert!(moved["nr_vmscan_immediate_reclaim"] <= kept["nr_vmscan_immediate_reclaim"]);
}

/// The lower zone has few free pages, and the upper zone is at its high mark. A request that may use both zones makes
/// kswapd scan nothing, because one such zone is enough. A request that may use only the lower zone makes kswapd
/// reclaim for that zone.
#[test]
fn kswapd_balances_a_node_for_what_was_asked() {
    let mut plan = Plan { layout: Layout::single_node(0, PAGES / 4, PAGES * 3 / 4), ..plan() };
    // With a boost, kswapd would free more.
    plan.choices.memory.watermark_boost_factor = 0;
    plan.run(|ground| {
        let file = ground.import(2 * PAGES as u32);
        read(ground, &file, 0..2 * PAGES as u32);
        ground.pause_ms(500);
        let [dma32, normal] = [0, 1].map(|n| &ground.engine.memory().zones[n]);
        let scanned = || ground.count("pgscan_kswapd_normal") + ground.count("pgscan_kswapd_dma32");
        // The Normal zone has room, so DMA32 may be as empty as it is.
        let mut taken = Vec::new();
        let low = Gfp { highest_zone: ZoneKind::Dma32, wait: false, no_kswapd: true, ..Gfp::USER_MOVABLE };
        while dma32.free_pages() > dma32.min() + 8 {
            let page = ground.engine.allocate().allocate(&mut ground.task.borrow_mut(), low, Order::ZERO);
            let Ok(page) = page else { break };
            taken.push(page);
        }
        let reader = ground.import(100);
        while normal.free_pages() <= normal.high() {
            ground.pause_ms(100);
        }
        let before = scanned();
        read(ground, &reader, 0..10);
        ground.pause_ms(500);
        assert!(dma32.free_pages() < dma32.high());
        assert_eq!(scanned(), before, "a zone that the request can use is at its high mark");
        let low = Gfp { wait: true, no_kswapd: false, ..low };
        for _ in 0..20 {
            let page = ground.engine.allocate().allocate(&mut ground.task.borrow_mut(), low, Order::ZERO).unwrap();
            taken.push(page);
        }
        ground.pause_ms(500);
        assert!(scanned() > before && ground.count("pgskip_normal") > 0);
        assert!(dma32.free_pages() > dma32.low());
        ground.give_back(taken);
    });
}

/// Nothing can be freed in a node, and kswapd gives up on the node after 16 fruitless calls. When a task has freed
/// pages, kswapd reclaims in the node again.
#[test]
fn kswapd_gives_up_after_sixteen_failures_and_comes_back() {
    let plan = Plan { swap_slots: 0, ..plan() };
    plan.run(|ground| {
        let region = ground.region(2 * PAGES as u32);
        assert!(ground.touch(&region, 0..2 * PAGES as u32, true).is_err(), "memory is exhausted");
        ground.pause_ms(1000);
        let runs = ground.count("pageoutrun");
        assert!(runs >= 16, "{runs} calls");
        let _ = ground.touch(&region, 0..2 * PAGES as u32, true);
        ground.pause_ms(1000);
        assert_eq!(ground.count("pageoutrun"), runs, "nobody wakes it");
        ground.engine.access().drop_region(&region);
        let file = ground.import(3 * PAGES as u32);
        read(ground, &file, 0..3 * PAGES as u32);
        assert!(ground.count("pageoutrun") > runs && ground.count("pgsteal_kswapd_normal") > PAGES);
    });
}

/// A node cannot be balanced. A control group that frees pages of its own sets the count of kswapd's failures to 0 with
/// `failures_reset = "any-progress"`, so that kswapd is woken again; with `"balanced"` it is not.
#[test]
fn the_reclaim_of_a_group_wakes_kswapd_unless_the_node_must_be_balanced() {
    for (reset, wakes) in [(FailuresReset::AnyProgress, true), (FailuresReset::Balanced, false)] {
        let mut plan = Plan { swap_slots: 0, ..plan() };
        plan.layout.groups = 1;
        plan.choices.reclaim.failures_reset = reset;
        plan.run(move |ground| {
            let group = ground.engine.lru().create_group(GroupId::ROOT).unwrap();
            let groups = ground.engine.memory().groups.as_ref().expect("there is room for one");
            groups.set_limit(group, Limit::Min, PAGES);
            let file = ground.import(200);
            ground.task.borrow_mut().group = group;
            read(ground, &file, 0..200);
            ground.task.borrow_mut().group = GroupId::ROOT;
            let region = ground.region(2 * PAGES as u32);
            assert!(ground.touch(&region, 0..2 * PAGES as u32, true).is_err(), "memory is exhausted");
            ground.pause_ms(1000);
            let runs = ground.count("pageoutrun");
            ground.engine.reclaim().reclaim_group(&mut ground.task.borrow_mut(), group, 32, None);
            let _ = ground.touch(&region, 0..2 * PAGES as u32, true);
            ground.pause_ms(1000);
            assert_eq!(ground.count("pageoutrun") > runs, wakes, "{reset:?}");
        });
    }
}

/// Exhausted memory is reported by kernels that mark zones as hopeless and by kernels that mark nodes, with and without
/// swap.
#[test]
fn exhausted_memory_is_told_whoever_hopes() {
    for hopeless in [Hopeless::ByScan, Hopeless::ByFailures] {
        for swap_slots in [0, 1000] {
            let mut plan = Plan { swap_slots, ..plan() };
            plan.choices.reclaim.hopeless = hopeless;
            let vmstat = plan.run(|ground| {
                let region = ground.region(3 * PAGES as u32);
                assert!(ground.touch(&region, 0..3 * PAGES as u32, true).is_err());
                assert!(ground.sim.now() < Nanos::from_secs(60), "{:?}", ground.sim.now());
            });
            assert!(vmstat["oom"] > 0);
        }
    }
}

/// At the limit of a memory cgroup, reading tasks reclaim by themselves, even if much memory is free.
#[test]
fn at_the_limit_of_a_cgroup_tasks_reclaim_themselves() {
    let mut plan = plan();
    plan.layout.limit_pages = Some(PAGES / 2);
    let vmstat = plan.run(|ground| {
        let file = ground.import(4 * PAGES as u32);
        read(ground, &file, 0..4 * PAGES as u32);
        let memory = ground.engine.memory();
        assert!(memory.gauge(Gauge::NrFreePages) > PAGES / 4, "half of memory is nobody's");
        let charged = memory.charged_pages();
        assert!((PAGES / 2 - 64..=PAGES / 2 + 64).contains(&charged), "{charged} of {}", PAGES / 2);
        let times = ground.engine.allocate().times_at_limit();
        assert!((PAGES / 32..4 * PAGES).contains(&times), "{times} times for 3.5 memories beyond the limit");
    });
    assert_eq!((vmstat["pgscan_kswapd_normal"], vmstat["pageoutrun"], vmstat["allocstall"]), (0, 0, 0));
    assert!(vmstat["pgsteal_direct_normal"] > 3 * PAGES);
}

/// A task that uses more pages than the memory limit and swap hold together gets an out-of-memory error. A task that
/// uses fewer pages does not.
#[test]
fn a_cgroup_is_exhausted_when_swap_is_full() {
    for swap_slots in [0, 500] {
        let mut plan = Plan { swap_slots, ..plan() };
        plan.layout.limit_pages = Some(PAGES / 2);
        let vmstat = plan.run(|ground| {
            let region = ground.region(PAGES as u32);
            let fits = PAGES as u32 / 2 - 100;
            ground.touch(&region, 0..fits, true).unwrap();
            assert!(ground.touch(&region, fits..PAGES as u32, true).is_err());
            assert!(ground.sim.now() < Nanos::from_secs(60), "{:?}", ground.sim.now());
        });
        assert!(vmstat["oom"] > 0 && vmstat["nr_free_pages"] > PAGES / 4);
    }
}

/// A small cgroup with slow swap is full of pages under writeback. A task at the limit that meets such pages again
/// waits for them. Up to Linux 3.5 the task scanned all of them again and again, until memory counted as exhausted.
#[test]
fn who_is_at_the_limit_of_a_cgroup_waits_for_a_page_that_it_meets_again_under_writeback() {
    let scanned = |writeback_met| {
        let choices = choices_of("6.18-classic");
        let mut plan = Plan { choices, swap_slots: 4 * PAGES as u32, write_ns: 5_000_000, ..Plan::default() };
        plan.layout.limit_pages = Some(PAGES / 4);
        plan.choices.reclaim.writeback_met = writeback_met;
        let vmstat = plan.run(|ground| {
            let region = ground.region(PAGES as u32);
            ground.touch(&region, 0..PAGES as u32, true).unwrap();
        });
        vmstat["pgscan_direct_normal"]
    };
    for writeback_met in [WritebackMet::Mark, WritebackMet::CountImmediate] {
        let scanned = scanned(writeback_met);
        assert!(scanned < 4 * PAGES, "{scanned} with {writeback_met:?}");
    }
    let scanned = scanned(WritebackMet::Keep);
    assert!(scanned > 8 * PAGES, "{scanned}: it is not marked");
}

/// All pages in a cgroup are active. Reclaim deactivates pages only if few are inactive, but it learns the numbers only
/// every two seconds, when the counters are summed. Until then it can free nothing. Linux 6.18 itself would give up
/// (OOM). Here the OOM killer is turned off, so the task waits, and then gets its pages.
#[test]
fn who_finds_no_page_under_a_limit_waits_until_reclaim_knows_its_lists() {
    let wait = |cgroup_counters| {
        let mut plan = Plan { choices: choices_of("6.18-classic"), swap_slots: 4 * PAGES as u32, ..Plan::default() };
        plan.layout.limit_pages = Some(PAGES / 4);
        plan.choices.lru.cgroup_counters = cgroup_counters;
        let (told, wait) = std::sync::mpsc::channel();
        let vmstat = plan.run(move |ground| {
            let region = ground.region(PAGES as u32);
            let began = ground.sim.now();
            for page in 0..PAGES as u32 / 4 + 100 {
                ground.touch(&region, page..page + 1, true).expect("there are pages to be freed");
                for _ in 0..2 {
                    ground.engine.lru().mark_accessed(region.entry(page).frame().unwrap());
                }
                ground.engine.lru().drain_all();
                assert!(page > PAGES as u32 / 4 - 100 || ground.count("nr_inactive_anon") == 0);
            }
            told.send(ground.sim.now().since(began)).unwrap();
        });
        assert_eq!(vmstat["oom"], 0);
        wait.recv().unwrap()
    };
    let (late, at_once) = (wait(CgroupCounters::EveryTwoSeconds), wait(CgroupCounters::AtOnce));
    assert!((Nanos::from_millis(200)..Nanos::from_secs(3)).contains(&late), "{late:?}");
    assert!(at_once < Nanos::from_millis(100), "{at_once:?}");
}

/// With swappiness 0, reclaim scans anonymous pages only if file pages are few, and then only inactive ones. It learns
/// the number of inactive pages from sums that are up to two seconds old. In a small memory, all inactive pages may
/// become active in a fraction of this time. There is room in swap, so memory must not be reported as exhausted,
/// whatever its size.
#[test]
fn with_swappiness_0_memory_is_not_exhausted_while_swap_has_room_whatever_its_size() {
    let kernels = ["4.18", "5.12-mainline", "6.1-classic", "6.18-classic"];
    for (kernel, memory_pages) in kernels.into_iter().flat_map(|kernel| [1024, PAGES].map(|pages| (kernel, pages))) {
        let layout = Layout::flat(memory_pages);
        let mut plan = Plan { choices: choices_of(kernel), layout, swap_slots: 4 * PAGES as u32, ..Plan::default() };
        plan.choices.lru.swappiness = 0;
        let vmstat = plan.run(move |ground| {
            let pages = memory_pages as u32 / 2 * 3;
            let region = ground.region(pages);
            ground.write_stamps(&region, 0..pages).unwrap_or_else(|error| panic!("{kernel}: {error}"));
            let mut rng = sim::Rng::new(1, 1);
            for _ in 0..4 * pages {
                let page = rng.below(pages.into()) as u32;
                let read = ground.read_stamp(&region, page);
                assert_eq!(read.unwrap_or_else(|error| panic!("{kernel}: {error}")), stamp(page));
            }
        });
        assert!(vmstat["oom"] == 0 && vmstat["pswpin"] > memory_pages / 4, "{kernel}, {memory_pages}: {vmstat:?}");
    }
}

/// With swappiness 0, the multi-gen LRU swaps nothing, even if very little is free. The error says so.
#[test]
fn generations_with_swappiness_0_leave_swap_alone_and_the_error_says_so() {
    for kernel in ["mglru-v2", "6.1-mglru", "7.2-mglru"] {
        let mut plan = Plan { choices: choices_of(kernel), swap_slots: 4 * PAGES as u32, ..Plan::default() };
        plan.choices.lru.swappiness = 0;
        let vmstat = plan.run(move |ground| {
            let region = ground.region(2 * PAGES as u32);
            let error = ground.touch(&region, 0..2 * PAGES as u32, true).unwrap_err().to_string();
            assert!(error.ends_with("16383 of 16383 swap slots free, unused with lru.swappiness = 0)"), "{error}");
            ground.engine.access().drop_region(&region);
        });
        assert_eq!(vmstat["pswpout"], 0, "{kernel}");
    }
}

/// A cgroup has no file pages. Its reclaim cannot tell by watermarks that file pages are few, because a cgroup has no
/// watermarks. It reclaims anonymous pages all the same.
#[test]
fn a_cgroup_without_pages_of_files_swaps() {
    for kernel in ["3.10-rc4-vanilla", "mm1-lessdisrupt-v1", "highwater", "5.4", "5.12-mainline"] {
        let mut plan = Plan { choices: choices_of(kernel), swap_slots: 4 * PAGES as u32, ..Plan::default() };
        plan.layout.limit_pages = Some(PAGES / 4);
        let vmstat = plan.run(move |ground| {
            let region = ground.region(PAGES as u32);
            ground.touch(&region, 0..PAGES as u32, true).unwrap_or_else(|error| panic!("{kernel}: {error}"));
        });
        assert!(vmstat["pswpout"] >= PAGES / 2, "{kernel}");
    }
}

/// A writer in a cgroup that limits all tasks has the dirty limits of the cgroup if groups have limits of their own, as in
/// version 2, and otherwise those of the whole memory.
#[test]
fn a_cgroup_has_its_own_dirty_limits() {
    let limit = PAGES / 4;
    let most_dirty = |group_limits| {
        let most = Rc::new(Cell::new(0));
        let found = most.clone();
        let mut plan = Plan { choices: choices_of("6.1-classic"), ..Plan::default() };
        plan.choices.writeback.group_limits = group_limits;
        plan.layout.limit_pages = Some(limit);
        let vmstat = plan.run(move |ground| {
            let file = ground.create();
            for start in (0..limit as u32 / 2).step_by(8) {
                ground.write(&file, start..start + 8).unwrap();
                found.set(found.get().max(ground.count("nr_dirty") + ground.count("nr_writeback")));
            }
        });
        assert!(vmstat["nr_dirtied"] >= limit / 2);
        most.get()
    };
    let of_group = most_dirty(GroupLimits::ByGroup);
    assert!(of_group > limit / 10 && of_group <= limit / 5, "{of_group} of {limit} pages: dirty_ratio is 20 %");
    let of_all = most_dirty(GroupLimits::Off);
    assert!(of_all > limit / 4, "{of_all} of {limit} pages: the limit is 20 % of {PAGES}");
}

/// With `SynchronousSwap::Apart`, a fault on a page in a synchronous swap device reads that page only, without
/// read-ahead.
#[test]
fn synchronous_swap_is_read_a_page_at_a_time() {
    let swap_ins = |synchronous| {
        let mut plan = Plan { swap_slots: 4 * PAGES as u32, swap_is_synchronous: true, ..plan() };
        plan.layout.limit_pages = Some(PAGES / 2);
        plan.choices.swap.synchronous = synchronous;
        // The pages that would be read ahead here are not used, and would make the window small.
        plan.choices.swap.window = SwapWindows::Fixed;
        let vmstat = plan.run(move |ground| {
            let region = ground.region(2 * PAGES as u32);
            ground.touch(&region, 0..2 * PAGES as u32, true).unwrap();
            for page in (0..2 * PAGES as u32).step_by(64) {
                ground.touch(&region, page..page + 1, false).unwrap();
            }
            let written = ground.count("nr_writeback");
            assert!(
                matches!(synchronous, SynchronousSwap::LikeOthers) || written == 0,
                "who swaps a page out waits for it"
            );
        });
        (vmstat["pswpin"], vmstat["pgmajfault"])
    };
    let (read, faults) = swap_ins(SynchronousSwap::Apart);
    assert!(read == faults && faults > 0, "{read} pages for {faults} faults");
    let (read, faults) = swap_ins(SynchronousSwap::LikeOthers);
    assert!(read > 2 * faults, "{read} pages for {faults} faults");
}

/// Compressed swap takes memory for its contents, and frees the memory with them. So it holds fewer pages than it has
/// slots.
#[test]
fn compressed_swap_takes_memory_and_gives_it_back() {
    let pages = PAGES as u32;
    for kernel in ["6.18-classic", "7.2-mglru", "3.10-rc4-vanilla"] {
        let mut plan = Plan {
            choices: choices_of(kernel),
            swap_slots: 4 * pages,
            swap_is_synchronous: true,
            swap_memory_percent: 40,
            ..Plan::default()
        };
        plan.choices.memory.min_free_kbytes = 1024;
        plan.run(move |ground| {
            let held = || ground.engine.access().compressed_pages();
            let in_use = || u64::from(ground.engine.swap().total_slots() - ground.engine.swap().free_slots());
            let region = ground.region(pages * 5 / 4);
            ground.touch(&region, 0..pages * 5 / 4, true).unwrap_or_else(|error| panic!("{kernel}: {error}"));
            assert!(in_use() > PAGES / 4 && held() == (in_use() * 40).div_ceil(100), "{kernel}: {}", held());
            ground.engine.access().drop_region(&region);
            assert_eq!((in_use(), held()), (0, 0), "{kernel}");
            // If all of memory held pages compressed to 0.4, it would hold 1 / 0.4 times as many. So three times as
            // many never fit.
            let region = ground.region(3 * pages);
            let refused = ground.touch(&region, 0..3 * pages, true);
            assert!(refused.is_err() && held() <= PAGES && held() > PAGES / 2, "{kernel}: {refused:?}, {}", held());
            ground.engine.access().drop_region(&region);
            assert_eq!(held(), 0, "{kernel}");
        });
    }
}

/// Runs a mixed workload: dirty files, streams, anonymous memory, a disk that stalls, large blocks. Checks that file
/// refaults, swap writes and immediate reclaim happen, and that anonymous refaults are as many as pages read from swap.
#[test]
fn the_kernel_holds_everything() {
    let mut plan = Plan { layout: Layout::single_node(0, 1024, 3072), write_ns: 400_000, ..plan() };
    plan.choices.writeback.dirty_ratio = 60;
    plan.choices.writeback.dirty_background_ratio = 30;
    let vmstat = plan.run(everything);
    for name in ["workingset_refault_file", "pswpout", "nr_vmscan_immediate_reclaim"] {
        assert!(vmstat[name] > 0, "{name}");
    }
    assert_eq!(vmstat["workingset_refault_anon"], vmstat["pswpin"]);
}

/// All inactive pages are dirty, and the disk stands still. A direct reclaim that spares active pages frees nothing,
/// and then scans again including the active pages.
#[test]
fn active_pages_are_not_spared_when_nothing_else_can_be_freed() {
    let mut plan = Plan { swap_slots: 0, with_kswapd: false, ..plan() };
    plan.choices.lru.unwritten_pages = UnwrittenPages::StayInactive;
    plan.choices.writeback.dirty_ratio = 95;
    plan.choices.writeback.dirty_background_ratio = 90;
    let vmstat = plan.run(|ground| {
        let hot = ground.import(1000);
        for _ in 0..2 {
            read(ground, &hot, 0..1000);
            ground.engine.lru().drain_all();
        }
        let (log, until) = (ground.create(), ground.sim.now() + Nanos::from_secs(10));
        ground.inject(Fault::StallUntil(until));
        ground.write(&log, 0..1800).unwrap();
        ground.engine.lru().drain_all();
        let taken = ground.take_until_free(250);
        // This request makes a single reclaim, whose result is final.
        let gfp = Gfp { no_retry: true, ..Gfp::USER_MOVABLE };
        let page = ground.engine.allocate().allocate(&mut ground.task.borrow_mut(), gfp, Order::ZERO);
        ground.engine.memory().free_block(page.unwrap(), Order::ZERO);
        assert!(ground.sim.now() < until, "the disk has not written a page");
        assert!(hot.index.pages() < 1000, "{} pages", hot.index.pages());
        ground.give_back(taken);
    });
    assert_eq!(vmstat["allocstall"], 1);
}
