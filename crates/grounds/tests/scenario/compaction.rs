//! Compaction moves pages: their contents stay, and their old frames become free blocks.

use crate::ground::{Ground, PAGES, Plan, choices_of, stamp};
use engine::anonymous::{MapMode, Sharing};
use engine::memory::{Flags, Gfp, Layout, PAGEBLOCK_ORDER};
use engine::{Error, Task};
use machine::FrameNumber;
use machine::atomic::Ordering::Relaxed;
use std::rc::Rc;

/// Kernels that compact, each in its own way.
const KERNELS: [&str; 6] =
    ["2.6.37-traceonly", "3.3.6", "3.6-revert-v5", "3.6-contended-v5", "3.6-capture-v5", "3.10-rc4-vanilla"];

/// Returns a machine of 64 MiB with a kernel's choices.
fn plan(kernel: &str) -> Plan {
    let mut choices = choices_of(kernel);
    choices.memory.min_free_kbytes = 1024;
    Plan { choices, layout: Layout::flat(4 * PAGES), ..Plan::default() }
}

/// Returns the number of free blocks of order 9. A larger block counts as the blocks into which it can be split.
fn large_blocks(ground: &Ground) -> u64 {
    let orders = &ground.engine.memory().zones[0].nr_free[usize::from(PAGEBLOCK_ORDER.0)..];
    orders.iter().enumerate().map(|(n, blocks)| blocks.load(Relaxed) << n).sum()
}

/// Returns the frames of kernel memory, which compaction must not move.
fn kernel_frames(ground: &Ground) -> Vec<FrameNumber> {
    let memory = ground.engine.memory();
    (0..memory.frames.len()).map(FrameNumber).filter(|frame| memory.frames[*frame].is(Flags::KERNEL)).collect()
}

/// Fills memory with pages of two kinds in turn, and frees those of the second kind. Then every other page is free, and
/// no large block is.
fn fill_with_holes(ground: &Ground, mut keep: impl FnMut(u32)) {
    let pages = (ground.free() / 2) as u32 - 1000;
    let holes = ground.region(pages);
    for page in 0..pages {
        keep(page);
        ground.touch(&holes, page..page + 1, true).unwrap();
    }
    ground.engine.access().drop_region(&holes);
    ground.engine.lru().drain_all();
    ground.engine.memory().drain_all_per_cpu();
}

#[test]
fn anonymous_pages_keep_what_they_hold_and_what_is_known_of_their_use() {
    for kernel in KERNELS {
        let vmstat = plan(kernel).run(move |ground| {
            let kept = ground.region(4 * PAGES as u32);
            fill_with_holes(ground, |page| ground.write_stamps(&kept, page..page + 1).unwrap());
            let pages = (0..kept.pages).take_while(|page| kept.entry(*page).frame().is_some()).count() as u32;
            kept.test_clear_accessed(7);
            let (before, kernel_pages) = (large_blocks(ground), kernel_frames(ground));
            ground.engine.compact().compact_memory();
            let after = large_blocks(ground);
            assert!(after >= before + 8, "{kernel}: {before} large blocks before, {after} after");
            assert_eq!(kernel_frames(ground), kernel_pages, "{kernel}");
            assert!(!kept.entry(7).is_accessed() && kept.entry(8).is_accessed(), "{kernel}");
            assert!(kept.entry(7).is_dirty() && kept.entry(7).allows(true), "{kernel}");
            for page in 0..pages {
                assert_eq!(ground.read_stamp(&kept, page).unwrap(), stamp(page), "{kernel}, page {page}");
            }
            assert_eq!(ground.faults().1, 0, "{kernel}: nothing went to swap");
            ground.engine.access().drop_region(&kept);
        });
        assert!(vmstat["pgmigrate_success"] > 3000, "{kernel}: {vmstat:?}");
        assert_eq!(vmstat["nr_anon_pages"], 0);
    }
}

#[test]
fn file_pages_keep_their_place_their_tags_and_their_mappings() {
    for kernel in KERNELS {
        plan(kernel).run(move |ground| {
            let file = ground.create();
            fill_with_holes(ground, |page| {
                if page < 4000 {
                    ground.write(&file, page..page + 1).unwrap();
                }
            });
            let mode = MapMode { sharing: Sharing::Shared, ..MapMode::default() };
            let map = || ground.engine.access().map_file(&mut Task::user(), &file, 0, 600, mode).unwrap();
            let maps = [map(), map()];
            for map in &maps {
                ground.touch(map, 0..600, true).unwrap();
            }
            let (mapped, dirty) = (ground.count("nr_mapped"), ground.count("nr_dirty"));
            let place = |page| file.index.get(page).unwrap();
            let before: Vec<_> = (0..4000).map(place).collect();
            ground.engine.compact().compact_memory();
            let moved = (0..4000).filter(|page| place(*page) != before[*page as usize]).count();
            assert!(moved > 1000, "{kernel}: {moved} pages have moved");
            assert_eq!(ground.count("nr_mapped"), mapped, "{kernel}");
            assert!(ground.count("nr_dirty") <= dirty);
            for page in 0..600 {
                for map in &maps {
                    assert_eq!(map.entry(page).frame(), Some(place(page)), "{kernel}, page {page}");
                    assert_eq!(ground.read_stamp(map, page).unwrap(), stamp(page), "{kernel}, page {page}");
                }
            }
            let stamps = ground.read(&file, 0..4000).unwrap();
            assert!((0..4000).all(|page| stamps[page as usize] == stamp(page)), "{kernel}");
            ground.fsync(&file).unwrap();
            maps.iter().for_each(|map| ground.engine.access().drop_region(map));
        });
    }
}

#[test]
fn pages_of_the_swap_cache_move_with_their_slots() {
    let vmstat = plan("3.10-rc4-vanilla").run(|ground| {
        let pages = 6 * PAGES as u32;
        let region = ground.region(pages);
        ground.write_stamps(&region, 0..pages).unwrap();
        // Reading brings pages back, and they keep their slots.
        for page in (0..pages / 2).rev() {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
        }
        ground.engine.lru().drain_all();
        ground.engine.compact().compact_memory();
        for page in 0..pages {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
        }
        ground.engine.access().drop_region(&region);
    });
    assert!(vmstat["pgmigrate_success"] > 100 && vmstat["pswpin"] > 1000, "{vmstat:?}");
}

#[test]
fn pages_that_somebody_holds_stay() {
    plan("3.6-contended-v5").run(|ground| {
        let kept = ground.region(4 * PAGES as u32);
        fill_with_holes(ground, |page| ground.write_stamps(&kept, page..page + 1).unwrap());
        let mapped = (0..kept.pages).filter_map(|page| Some((page, kept.entry(page).frame()?)));
        let held: Vec<_> = mapped.step_by(50).collect();
        let memory = ground.engine.memory();
        held.iter().for_each(|(_, frame)| memory.frames[*frame].get());
        ground.engine.compact().compact_memory();
        for (page, frame) in held {
            assert_eq!(kept.entry(page).frame(), Some(frame), "page {page} is held");
            ground.engine.lru().put(frame);
        }
        assert!(ground.count("pgmigrate_fail") > 20);
        ground.engine.access().drop_region(&kept);
    });
}

/// Tasks read and write anonymous memory and a file while memory is compacted again and again.
#[test]
fn others_read_and_write_while_pages_move() {
    for kernel in KERNELS {
        let plan = Plan { cpus: 4, ..plan(kernel) };
        let vmstat = plan.run(move |ground| {
            let file = ground.create();
            ground.write(&file, 0..3000).unwrap();
            let work = move |ground: &Ground, n: u32| -> Result<(), Error> {
                let region = ground.region(2000);
                for round in 0..6 {
                    for page in (0..2000).filter(|page| (page + round) % 3 != n % 3) {
                        ground.write_stamps(&region, page..page + 1)?;
                        assert_eq!(ground.read(&file, page..page + 1)?, [stamp(page)]);
                        if page % 5 == 0 {
                            ground.write(&file, page..page + 1)?;
                        }
                    }
                    for page in (0..2000).filter(|page| (page + round) % 3 != n % 3) {
                        assert_eq!(ground.read_stamp(&region, page)?, stamp(page));
                    }
                }
                ground.engine.access().drop_region(&region);
                Ok(())
            };
            let work = Rc::new(work);
            let tasks: Vec<_> = (0..3)
                .map(|n| {
                    let work = work.clone();
                    ground.spawn(&format!("worker {n}"), move |ground| work(ground, n).unwrap())
                })
                .collect();
            for _ in 0..40 {
                ground.engine.compact().compact_memory();
                ground.pause_ms(1);
            }
            for task in tasks {
                ground.sim.join(task);
            }
        });
        assert!(vmstat["pgmigrate_success"] > 0, "{kernel}: {vmstat:?}");
    }
}

/// If pages can move, requests for large blocks succeed by compaction, without swap.
#[test]
fn a_request_compacts_for_its_block() {
    for kernel in KERNELS {
        let vmstat = plan(kernel).run(move |ground| {
            let kept = ground.region(4 * PAGES as u32);
            fill_with_holes(ground, |page| ground.write_stamps(&kept, page..page + 1).unwrap());
            let mut blocks = Vec::new();
            // 3.10 may give up a request because other tasks wait for a lock, so the request is repeated.
            for _ in 0..20 {
                if blocks.len() >= 4 {
                    break;
                }
                let request = ground.engine.allocate().allocate(&mut Task::user(), Gfp::USER_MOVABLE, PAGEBLOCK_ORDER);
                blocks.extend(request);
                ground.pause_ms(20);
            }
            assert!(blocks.len() >= 4, "{kernel}: {} blocks", blocks.len());
            for head in blocks {
                ground.engine.memory().free_block(head, PAGEBLOCK_ORDER);
            }
            ground.engine.access().drop_region(&kept);
        });
        assert!(vmstat["compact_success"] > 0, "{kernel}: {vmstat:?}");
        // Before 3.4, kswapd also reclaims for the whole order.
        assert!(vmstat["pswpout"] == 0 || ["2.6.37-traceonly", "3.3.6"].contains(&kernel), "{kernel}");
        assert_eq!(vmstat["compact_captured"] > 0, kernel == "3.6-capture-v5", "{kernel}");
    }
}
