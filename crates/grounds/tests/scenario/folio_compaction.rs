//! Compaction moves folios: their bytes, tags, mappings and slots stay, and so does their order, and their old frames
//! become free blocks.

use crate::ground::{Ground, PAGES, Plan, choices_of, stamp};
use crate::map::SHARED;
use engine::anonymous::Region;
use engine::compact::CompactRequest;
use engine::compact::choices::Folios;
use engine::memory::{Flags, Folio, Layout, MigrateType, PAGEBLOCK_ORDER};
use engine::page_cache::File;
use engine::swap::choices::SwapFolios;
use machine::{FrameNumber, Order};
use sim::Sim;
use std::sync::Arc;

/// Returns a machine of 64 MiB whose folios have this order.
fn plan(kernel: &str, folios: Folios, order: u8) -> Plan {
    let mut choices = choices_of(kernel);
    choices.memory.min_free_kbytes = 1024;
    choices.compact.folios = folios;
    choices.access.file_folio_order = order.into();
    choices.access.anonymous_folio_order = order.into();
    choices.access.read_ahead_kb = 4 << order;
    choices.swap.folios = SwapFolios::Whole;
    Plan { choices, layout: Layout::flat(4 * PAGES), ..Plan::default() }
}

/// Kernels with classic lists and with the multigenerational LRU. `3.6-capture-v5` also marks each pageblock in which
/// compaction found nothing to move.
const KERNELS: [&str; 3] = ["3.6-capture-v5", "6.12-classic", "6.12-mglru"];

fn folio_of(ground: &Ground, file: &File<Sim>, page: u32) -> Folio {
    ground.engine.memory().frames.folio(file.index.get(page).expect("it is in memory"))
}

/// Returns the amount of memory in free blocks of at least a pageblock, in pageblocks.
fn free_pageblocks(ground: &Ground) -> u64 {
    let orders = &ground.engine.memory().zones[0].nr_free[usize::from(PAGEBLOCK_ORDER.0)..];
    orders.iter().enumerate().map(|(n, blocks)| blocks.load(machine::atomic::Ordering::Relaxed) << n).sum()
}

/// Returns whether a block of the order or a larger one is free.
fn has_free_block(ground: &Ground, order: Order) -> bool {
    let orders = &ground.engine.memory().zones[0].nr_free[usize::from(order.0)..];
    orders.iter().any(|blocks| blocks.load(machine::atomic::Ordering::Relaxed) > 0)
}

/// Creates a file of `count` dirty folios of an order, with a free hole of the same size behind each of them in memory.
fn file_with_holes(ground: &Ground, order: u8, count: u32) -> Arc<File<Sim>> {
    let (pages, access) = (1_u32 << order, ground.engine.access());
    let file = ground.create();
    ground.write(&file, 0..pages * count).unwrap();
    ground.fsync(&file).unwrap();
    access.drop_caches();
    let holes = ground.region(pages * count);
    for start in (0..pages * count).step_by(pages as usize) {
        access.prefetch(&mut ground.task.borrow_mut(), &file, start..start + pages);
        ground.touch(&holes, start..start + 1, true).unwrap();
        assert_eq!(folio_of(ground, &file, start).order, Order(order));
    }
    for page in (0..pages * count).step_by(pages as usize) {
        ground.write(&file, page..page + 1).unwrap();
    }
    access.drop_region(&holes);
    ground.engine.lru().drain_all();
    ground.engine.memory().drain_all_per_cpu();
    file
}

/// Creates a region of `count` anonymous folios of order `order`, whose pages hold their stamps. In memory, each folio
/// is followed by a free page.
fn region_with_holes(ground: &Ground, order: u8, count: u32) -> Arc<Region<Sim>> {
    let pages = 1_u32 << order;
    let [kept, holes] = [(); 2].map(|()| ground.region(pages * count));
    for start in (0..pages * count).step_by(pages as usize) {
        ground.write_stamps(&kept, start..start + pages).unwrap();
        ground.touch(&holes, start..start + 1, true).unwrap();
    }
    ground.engine.access().drop_region(&holes);
    ground.engine.lru().drain_all();
    ground.engine.memory().drain_all_per_cpu();
    kept
}

/// Compacts memory as for a request of an order.
fn compact_for(ground: &Ground, order: u8) {
    let request =
        CompactRequest { order: Some(Order(order)), kind: MigrateType::Movable, waits: true, is_kswapd: false };
    ground.engine.compact().compact_zone(&ground.engine.memory().zones[0], request);
}

#[test]
fn a_dirty_folio_of_a_file_moves_with_its_bytes_its_tags_and_its_mappings() {
    const COUNT: u32 = 700;
    for kernel in KERNELS {
        let vmstat = plan(kernel, Folios::Moved, 3).run(move |ground| {
            let file = file_with_holes(ground, 3, COUNT);
            let maps = [ground.map(&file, SHARED), ground.map(&file, SHARED)];
            // Some folios have all pages mapped, others one page, others none.
            ground.touch(&maps[0], 0..800, true).unwrap();
            ground.touch(&maps[1], 400..404, false).unwrap();
            ground.engine.lru().drain_all();
            maps[0].test_clear_accessed(3);
            let counted = ["nr_mapped", "nr_dirty", "nr_file_pages", "nr_free_pages"];
            let counts = || counted.map(|name| ground.count(name));
            let (before, counts_before, large) = (
                (0..COUNT).map(|n| folio_of(ground, &file, 8 * n)).collect::<Vec<_>>(),
                counts(),
                free_pageblocks(ground),
            );
            ground.engine.compact().compact_memory();
            let after: Vec<Folio> = (0..COUNT).map(|n| folio_of(ground, &file, 8 * n)).collect();
            assert!(after.iter().all(|folio| folio.order == Order(3)), "{kernel}");
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count() as u64;
            assert!(moved > 100, "{kernel}: {moved} folios have moved");
            assert_eq!(ground.count("pgmigrate_success"), 8 * moved, "{kernel}");
            assert_eq!(counts(), counts_before, "{kernel}");
            assert!(free_pageblocks(ground) >= large + 4, "{kernel}: {large} before");
            assert_eq!(ground.count("nr_isolated_file"), 0);
            assert!(!maps[0].entry(3).is_accessed() && maps[0].entry(4).is_accessed() && maps[0].entry(4).is_dirty());
            for page in 0..800 {
                let frame = folio_of(ground, &file, page).page(page % 8);
                assert_eq!(maps[0].entry(page).frame(), Some(frame), "{kernel}, page {page}");
            }
            assert_eq!(maps[1].entry(402).frame(), maps[0].entry(402).frame());
            for map in &maps {
                assert_eq!(ground.read_stamp(map, 401).unwrap(), stamp(401));
            }
            let stamps = ground.read(&file, 0..8 * COUNT).unwrap();
            assert!((0..8 * COUNT).all(|page| stamps[page as usize] == stamp(page)), "{kernel}");
            ground.check();
            maps.iter().for_each(|map| ground.engine.access().drop_region(map));
            ground.fsync(&file).unwrap();
            ground.engine.lru().drain_all();
            ground.engine.access().drop_caches();
            assert_eq!(ground.read(&file, 5..6).unwrap(), [stamp(5)], "{kernel}: it was written");
        });
        assert!(vmstat["compact_run_complete"] > 0, "{kernel}: {vmstat:?}");
    }
}

#[test]
fn an_anonymous_folio_moves_with_its_entries_and_its_slots() {
    for kernel in KERNELS {
        let plan = Plan { with_kswapd: false, ..plan(kernel, Folios::Moved, 2) };
        let vmstat = plan.run(move |ground| {
            let count = 1200;
            let kept = region_with_holes(ground, 2, count);
            let frames = &ground.engine.memory().frames;
            let folios = || {
                let heads = (0..count).filter_map(|n| kept.entry(4 * n).frame());
                heads.map(|head| frames.folio(head)).filter(|folio| folio.is_large()).collect::<Vec<Folio>>()
            };
            // Some folios have one page that is unmapped and in its slot. The others still have all their entries.
            let slotted: Vec<u32> = (0..count).filter(|n| n % 9 == 0).map(|n| 4 * n).collect();
            for page in &slotted {
                let head = kept.entry(*page).frame().unwrap();
                assert!(frames[head].try_lock() && ground.engine.anonymous().add_to_swap(head));
                let mut owners = engine::anonymous::Owners::default();
                frames[head].get();
                ground.engine.anonymous().try_to_unmap(head, &mut owners);
                frames[head].clear(Flags::LOCKED);
                ground.engine.lru().put(head);
            }
            // A read maps a page again and keeps its slot. So some folios have one page mapped, others none.
            for page in slotted.iter().step_by(2) {
                assert_eq!(ground.read_stamp(&kept, page + 1).unwrap(), stamp(page + 1));
            }
            ground.engine.lru().drain_all();
            let (before, slots) = (folios(), ground.engine.swap().free_slots());
            let heads = || {
                slotted
                    .iter()
                    .map(|page| {
                        let slot = kept.entry(*page).slot().expect("its first page is in swap");
                        ground.engine.swap().cached(slot).map(|head| frames.folio(head))
                    })
                    .collect::<Vec<_>>()
            };
            let cached = heads();
            ground.engine.compact().compact_memory();
            let moved = before.iter().zip(&folios()).filter(|(before, after)| before != after).count();
            assert!(moved > 100, "{kernel}: {moved} folios have moved");
            let moved = cached.iter().zip(&heads()).filter(|(before, after)| before != after).count();
            assert!(moved > 20, "{kernel}: {moved} folios of the swap cache have moved");
            assert!(heads().iter().flatten().all(|folio| folio.order == Order(2)), "{kernel}");
            assert_eq!((ground.engine.swap().free_slots(), ground.count("nr_isolated_anon")), (slots, 0), "{kernel}");
            ground.check();
            for page in 0..4 * count {
                assert_eq!(ground.read_stamp(&kept, page).unwrap(), stamp(page), "{kernel}, page {page}");
            }
            assert_eq!(ground.faults().1, 0, "{kernel}: nothing was read from swap");
            ground.engine.access().drop_region(&kept);
            assert_eq!(ground.count("nr_anon_pages"), 0);
        });
        assert!(vmstat["pgmigrate_success"] > 1000, "{kernel}: {vmstat:?}");
    }
}

#[test]
fn a_folio_that_somebody_holds_stays() {
    plan("6.12-classic", Folios::Moved, 3).run(|ground| {
        let file = file_with_holes(ground, 3, 600);
        let map = ground.map(&file, SHARED);
        ground.touch(&map, 0..4800, false).unwrap();
        ground.engine.lru().drain_all();
        let frames = &ground.engine.memory().frames;
        let held: Vec<(u32, FrameNumber)> =
            (0..600).step_by(20).map(|n| (8 * n, folio_of(ground, &file, 8 * n).head)).collect();
        // The folios are held in three ways: by a reference, by a reader's latch, by the page lock.
        for (n, (_, head)) in held.iter().enumerate() {
            match n % 3 {
                0 => frames[*head].get(),
                1 => assert!(frames[*head].get_unless_zero() && frames[*head].try_latch(false)),
                _ => assert!(frames[*head].try_lock()),
            }
        }
        ground.engine.compact().compact_memory();
        for (n, (page, head)) in held.iter().enumerate() {
            assert_eq!(folio_of(ground, &file, *page), Folio { head: *head, order: Order(3) }, "page {page} is held");
            assert!((0..8).all(|part| map.entry(page + part).frame() == Some(FrameNumber(head.0 + part))));
            match n % 3 {
                0 => ground.engine.lru().put(*head),
                1 => ground.engine.access().unpin_read(*head),
                _ => frames[*head].clear(Flags::LOCKED),
            }
        }
        assert!(ground.count("pgmigrate_fail") >= 8 * 10 && ground.count("pgmigrate_fail").is_multiple_of(8));
        assert!(ground.count("pgmigrate_success") > 1000);
        ground.check();
        ground.engine.access().drop_region(&map);
    });
}

#[test]
fn folios_stay_where_they_are_passed_by() {
    for kernel in KERNELS {
        let vmstat = plan(kernel, Folios::PassedBy, 3).run(move |ground| {
            let file = file_with_holes(ground, 3, 600);
            let place = || (0..600).map(|n| folio_of(ground, &file, 8 * n)).collect::<Vec<_>>();
            let before = place();
            ground.engine.compact().compact_memory();
            compact_for(ground, 5);
            assert_eq!(place(), before, "{kernel}");
        });
        assert_eq!(vmstat["pgmigrate_success"], 0, "{kernel}: nothing but folios could move");
    }
}

/// Fills memory with a file's folios of order 3, each followed by a free block. If `hole` is 3, this block has order 3.
/// If `hole` is 2, it has order 2, and an anonymous folio of order 2 follows it. No other memory is free. Returns the
/// file and the region with the anonymous folios.
fn fill(ground: &Ground, hole: u8) -> (Arc<File<Sim>>, Arc<Region<Sim>>) {
    const COUNT: u32 = 850;
    let access = ground.engine.access();
    let file = ground.import(8 * COUNT);
    let [holes, others] = [(); 2].map(|()| ground.region(8 * COUNT));
    for start in (0..8 * COUNT).step_by(8) {
        access.prefetch(&mut ground.task.borrow_mut(), &file, start..start + 8);
        assert_eq!(folio_of(ground, &file, start).order, Order(3));
        ground.touch(&holes, start..start + 1, true).unwrap();
        if hole == 2 {
            ground.touch(&others, start..start + 1, true).unwrap();
        }
    }
    ground.wait_for_devices();
    ground.take_until_free(16);
    access.drop_region(&holes);
    ground.engine.lru().drain_all();
    ground.engine.memory().drain_all_per_cpu();
    assert!(!has_free_block(ground, Order(hole + 1)));
    (file, others)
}

fn plan_to_fill(hole: u8) -> Plan {
    let mut plan = Plan { with_kswapd: false, ..plan("6.12-classic", Folios::Moved, 3) };
    plan.choices.access.anonymous_folio_order = hole.into();
    // With this threshold, any failed request counts as failed because of fragmentation.
    plan.choices.compact.extfrag_threshold = 0;
    plan
}

fn places(ground: &Ground, file: &File<Sim>) -> Vec<Folio> {
    (0..file.length_pages()).step_by(8).map(|page| folio_of(ground, file, page)).collect()
}

/// Compaction for a block of order 4 moves folios of order 3 until a block is free.
#[test]
fn folios_below_the_wanted_block_move() {
    plan_to_fill(3).run(|ground| {
        let (file, _) = fill(ground, 3);
        let before = places(ground, &file);
        compact_for(ground, 4);
        assert!(has_free_block(ground, Order(4)));
        let moved =
            before.iter().zip(places(ground, &file)).filter(|(before, after)| **before != *after).count() as u64;
        assert!(moved > 0);
        assert_eq!((ground.count("pgmigrate_success"), ground.count("pgmigrate_fail")), (8 * moved, 0));
    });
}

/// Compaction for a block of order 3 leaves folios of order 3 where they are, and moves folios of order 2.
#[test]
fn folios_as_large_as_the_wanted_block_stay() {
    plan_to_fill(2).run(|ground| {
        let (file, _others) = fill(ground, 2);
        let before = places(ground, &file);
        compact_for(ground, 3);
        assert!(has_free_block(ground, Order(3)));
        assert_eq!(places(ground, &file), before);
        let (moved, stayed) = (ground.count("pgmigrate_success"), ground.count("pgmigrate_fail"));
        assert!(moved > 0 && moved.is_multiple_of(4) && stayed == 0, "{moved} pages moved, {stayed} did not");
    });
}

/// Compaction for a block of order 4 finds free blocks of order 2 only. Folios of order 3 stay, because no free block
/// is large enough for them; folios of order 2 move.
#[test]
fn a_folio_without_room_stays_and_smaller_ones_move() {
    plan_to_fill(2).run(|ground| {
        let (file, others) = fill(ground, 2);
        let free = ground.free();
        let before = places(ground, &file);
        compact_for(ground, 4);
        assert_eq!(places(ground, &file), before);
        let (moved, stayed) = (ground.count("pgmigrate_success"), ground.count("pgmigrate_fail"));
        assert!(moved > 100 && moved.is_multiple_of(4), "{moved} pages moved");
        assert!(stayed > 100 && stayed.is_multiple_of(8), "{stayed} pages stayed");
        assert_eq!((ground.count("nr_isolated_file"), ground.count("nr_isolated_anon")), (0, 0));
        ground.engine.memory().drain_all_per_cpu();
        assert_eq!(ground.free(), free, "what was meant as a target is free again");
        ground.engine.access().drop_region(&others);
    });
}

/// Tasks read and write files and anonymous memory in folios while memory is compacted again and again.
#[test]
fn others_read_and_write_while_folios_move() {
    for (kernel, order) in KERNELS.into_iter().zip([2, 4, 6]) {
        let plan = Plan { cpus: 4, ..plan(kernel, Folios::Moved, order) };
        let vmstat = plan.run(move |ground| {
            let file = ground.create();
            ground.write(&file, 0..3000).unwrap();
            ground.fsync(&file).unwrap();
            ground.engine.access().drop_caches();
            let tasks: Vec<_> = (0..3)
                .map(|n| {
                    let file = file.clone();
                    ground.spawn(&format!("worker {n}"), move |ground| work(ground, &file, n))
                })
                .collect();
            for round in 0..60 {
                match round % 3 {
                    0 => compact_for(ground, order + 1),
                    _ => ground.engine.compact().compact_memory(),
                }
                ground.pause_ms(1);
            }
            for task in tasks {
                ground.sim.join(task);
            }
        });
        assert!(vmstat["pgmigrate_success"] > 0, "{kernel}: {vmstat:?}");
    }
}

fn work(ground: &Ground, file: &Arc<File<Sim>>, n: u32) {
    let map = ground.map(file, SHARED);
    for round in 0..5 {
        let region = ground.region(2000);
        for page in (0..2000).filter(|page| (page / 7 + round) % 3 != n) {
            ground.write_stamps(&region, page..page + 1).unwrap();
            assert_eq!(ground.read(file, page..page + 1).unwrap(), [stamp(page)]);
            match page % 10 {
                0 => ground.write(file, page..page + 1).unwrap(),
                3 => ground.write_stamps(&map, page..page + 1).unwrap(),
                7 => assert_eq!(ground.read_stamp(&map, page).unwrap(), stamp(page)),
                _ => {}
            }
        }
        if round % 2 == n % 2 {
            ground.fsync(file).unwrap();
            ground.engine.access().drop_caches();
        }
        for page in (0..2000).filter(|page| (page / 7 + round) % 3 != n) {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
        }
        ground.engine.access().drop_region(&region);
    }
    ground.engine.access().drop_region(&map);
}
